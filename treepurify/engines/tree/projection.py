"""The projection of each tree on functions of few features, and the sum of all.

It is for deep ensembles under dependent features; `nearest_sum` adds what it misses.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.leaf_order import add_leaf_values_of_rows
from treepurify.budget import check_budget
from treepurify.effects.conditional import Margins, occurring_subsets
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.problem import Problem, check_memory
from treepurify.engines.tree.least_norm import LeastNorm, least_norm
from treepurify.engines.tree.nearest_sum import FittedTables
from treepurify.engines.tree.product_sums import (
    RowGroups,
    row_groups,
    sum_products,
)
from treepurify.engines.tree.split_products import (
    FEWER_PRODUCTS,
    ProductTables,
    SplitProducts,
    Splits,
    product_tables,
    sets_of,
    splits_of,
    tree_products,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.threads import available_threads, iterate_threads, one_blas_thread
from treepurify.typing import Array, Indices

__all__ = ["project"]

_MOST_ORDER = 3
_TREES_PER_REPORT = 16
# Threads that project trees on fewer rows mostly wait for the interpreter.
_FEW_ROWS = 4096
# Matrices of the size of a tree's equations: counts, their sums, and what is factored.
_MATRICES = 6
# Trees that there must be memory for at once: of which only one fits, each takes long as well.
_LEAST_TOGETHER = 2
_BYTES_OF_A_ROW = 32
# Of the norm. On default boosters, forests of up to 256 leaves, collinear columns, grids with gaps
# and few rows, effects are within 5e-7 standard deviations of the model of a dense solution by
# singular values, most within 1e-8; a hundredth of it loses a digit of what rows do not determine,
# and ten times as much leaves directions of single rows short after a hundred steps.
_RIDGE = 1e-5
_BESIDE_ROWS = (
    "Under this distribution each tree was fitted by itself; all trees together may allow "
    "effects of this order to explain more."
)


def project(problem: Problem, tolerance: float) -> FittedTables:
    """Return the projection of every tree on functions of at most `order` features, added up.

    On the union grid of a deep ensemble, the cells of three or more features outnumber the
    rows, and components fitted there describe noise. A tree alone says little of few features: it
    is projected, in weighted least squares, on products of its splits (see `SplitProducts`).
    The projections add up on the union grid, where the sum is purified exactly afterwards, so that
    orthogonality holds for the sum and not only within a tree. Of all solutions the one of least
    norm is taken: least mean square where features keep their margins and are independent. It does
    not depend on the order of rows and features.

    Parameters
    ----------
    problem : Problem
        The model on its grid.
    tolerance : float
        See `TreeProjection`.
    """
    task = _read_task(problem)
    ensemble, n_rows = problem.ensemble, task.rows.n_rows
    all_products, tables = _lay_out_products(task)
    intercept = ensemble.base.copy()
    margin = np.tile(ensemble.base, (n_rows, 1))
    error, largest_error, largest_spread = np.zeros((3, ensemble.n_outputs))
    undetermined = 0
    # Fewer threads where memory is short: more cores must not be a reason to refuse a model.
    most = max((len(products.products) for products in all_products), default=0)
    together = problem.memory_budget // max(_bytes_of_products(most), 1)
    n_threads = 1 if n_rows < _FEW_ROWS else together

    def project_one(tree: int) -> _Projected:
        return _project_tree(task, tree, all_products[tree])

    with one_blas_thread():
        projections = iterate_threads(project_one, range(ensemble.n_trees), n_threads)
        for tree, (outputs, leaf, values, mean, spread, fit) in enumerate(projections):
            if tree % _TREES_PER_REPORT == 0:
                problem.report("fitting effects: tree", tree, ensemble.n_trees)
            add_leaf_values_of_rows(leaf, values, outputs, margin)
            intercept[outputs] += mean + fit.solution[0]
            error[outputs] += fit.error
            largest_error[outputs] = np.maximum(largest_error[outputs], fit.error)
            largest_spread[outputs] = np.maximum(largest_spread[outputs], spread)
            undetermined += fit.undetermined
            tables.add(all_products[tree], fit.solution, outputs)
    tensors = {
        subset: EffectTensor(subset, problem.grid.subset_axes(subset), table)
        for subset, table in tables.summed().items()
    }
    facts = {
        "trees": ensemble.n_trees,
        "undetermined": undetermined,
        # Of all trees: an error of one that hardly varies itself does not matter.
        "converged": bool(np.all(largest_error <= tolerance * largest_spread)),
        "error": error.tolist(),
        "tolerance": tolerance,
    }
    return FittedTables(
        EffectTensors(intercept, tensors),
        dict.fromkeys(range(1, _MOST_ORDER + 1), task.rows),
        margin,
        facts,
        problem.given,
        note=_BESIDE_ROWS if problem.given is None else "",
        is_measure=task.share == 0.0,
    )


class _Task(NamedTuple):
    """What the projection of every tree reads.

    A distribution of independent features has the other part of the mass, `share`, with `margins`.
    """

    problem: Problem
    rows: EncodedRows
    groups: RowGroups
    splits: Splits
    margins: Margins | None
    share: float
    order: int


def _read_task(problem: Problem) -> _Task:
    """Return the task of a problem, if there are rows, and the order is not too large."""
    weighting, rows, order = problem.weighting, problem.encoded_rows, problem.kept_terms.order
    share = 1.0 - (weighting.share_of_rows or 0.0)
    if order is None or order > _MOST_ORDER:
        asked = "order=None (all orders)" if order is None else f"order={order}"
        raise InvalidInputError(
            f"{asked} is too high: if features depend on each other, trees are projected on "
            f"effects of up to {_MOST_ORDER} features. Pass order=2, and the remainder contains "
            'the rest; or keep every order with weights="independent", or with method="exact" if '
            "its tables fit into memory"
        )
    if rows is None or problem.columns is None:
        raise InvalidInputError('method="projection" needs rows: pass X')
    grid, ensemble = problem.grid, problem.ensemble
    # The margin, and what threads sort or have sorted by leaves.
    check_budget(
        rows.n_rows * (8 * ensemble.n_outputs + _BYTES_OF_A_ROW * available_threads()),
        problem.memory_budget,
        f"fitting effects to the trees on {rows.n_rows} rows",
        "Pass fewer rows.",
    )
    weights, margins = (1.0 - share) * rows.shares, None
    masses = [
        np.bincount(rows.codes[j], weights, axis.n_cells).astype(np.float64)
        for j, axis in enumerate(grid.axes)
    ]
    if share > 0:
        alone = [(j,) for j in range(grid.n_features)]
        others = weighting.beside_rows.tables(grid, rows, alone)
        margins = Margins.of([others[feature] for feature in alone])
        masses = [mass + share * others[j,] for j, mass in enumerate(masses)]
    splits = splits_of(ensemble, grid, Margins.of(masses))
    return _Task(problem, rows, row_groups(weights), splits, margins, share, order)


def _bytes_of_products(n_products: int) -> int:
    return 8 * _MATRICES * n_products**2


def _lay_out_products(task: _Task) -> tuple[list[SplitProducts], ProductTables]:
    """Return the products of each tree, and tables for their sums.

    Memory is checked after each tree, since deep trees on many features have more products
    than could be listed. A path may test features of which rows show one cell: they have
    components, which are zero.
    """
    problem, grid = task.problem, task.problem.grid
    n_trees, n_outputs = problem.ensemble.n_trees, problem.ensemble.n_outputs
    all_products, found = list[SplitProducts](), set[Subset]()
    for tree in range(n_trees):
        if tree % _TREES_PER_REPORT == 0:
            problem.report("reading splits: tree", tree, n_trees)
        products = tree_products(task.splits, tree, task.order, problem.memory_budget)
        check_budget(
            _LEAST_TOGETHER * _bytes_of_products(len(products.products)),
            problem.memory_budget,
            f"fitting effects to tree {tree} and one more tree ({len(products.products)} "
            "combinations of splits)",
            FEWER_PRODUCTS,
        )
        all_products.append(products)
        found |= sets_of(products, grid.n_features)
    for size in range(1, task.order + 1):
        found.update(occurring_subsets(problem.boxes, size, grid.n_features))
    # With a product there are all parts of it, so these sets are all that is purified.
    subsets = sorted(found, key=lambda subset: (len(subset), subset))
    check_memory(map(grid.subset_axes, subsets), n_outputs, problem.memory_budget)
    return all_products, product_tables(grid, subsets, n_outputs)


class _Projected(NamedTuple):
    """One tree: the outputs that it feeds, the leaf of each row, the leaves' values and the fit."""

    outputs: Indices
    leaf: npt.NDArray[np.uint32]
    values: Array
    mean: Array
    spread: float
    fit: LeastNorm


def _project_tree(task: _Task, tree: int, products: SplitProducts) -> _Projected:
    """Project one tree on its products."""
    ensemble = task.problem.ensemble
    output = int(ensemble.tree_output[tree])
    outputs = np.array([output] if output >= 0 else range(ensemble.n_outputs))
    leaves, leaf, in_leaves, in_pairs = sum_products(
        task.rows.codes, task.groups, task.splits, tree, products
    )
    norm = np.empty_like(in_pairs)
    if task.margins is not None:
        in_order = np.sort(leaves)
        # The number of a leaf among all.
        numbers = np.searchsorted(np.flatnonzero(ensemble.feature < 0), in_order)
        in_boxes = products.in_leaves(task.problem.boxes, numbers, task.margins)
        in_leaves = in_leaves + task.share * in_boxes[np.searchsorted(in_order, leaves)]
        products.write_independent(task.margins, norm)
        norm *= task.share
        in_pairs += norm
    values = ensemble.value[leaves, : len(outputs)]
    mean = in_leaves[:, 0] @ values
    target = values - mean
    products.write_independent(task.splits.margins, norm)
    norm *= _RIDGE
    norm += in_pairs
    fit = least_norm(in_pairs, norm, in_leaves.T @ target)
    products.centre(fit.solution)
    spread = float(np.sqrt((in_leaves[:, 0] @ target**2).max()))
    # In the norm, a direction whose mean square on the rows is above the ridge is as large at most.
    fit = fit._replace(error=fit.error / _RIDGE**0.5)
    return _Projected(outputs, leaf, values, mean, spread, fit)
