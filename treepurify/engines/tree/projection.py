"""The projection of each tree on functions of few features, and the sum of all.

It is for deep ensembles under dependent features; `nearest_sum` adds what it misses.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.gram import gram_routine
from treepurify._kernels.split_products import (
    BITS,
    LANES,
    MOST_WEIGHED,
    MOST_WORDS,
    add_leaf_values_of_rows,
    count_products,
    sort_by_leaf,
    weigh_products,
)
from treepurify.budget import check_budget
from treepurify.effects.conditional import Margins, occurring_subsets
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.problem import Problem, check_memory
from treepurify.engines.tree.nearest_sum import FittedTables
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
from treepurify.engines.tree.table_fit import LeastNorm, least_norm
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.threads import available_threads, iterate_threads, one_blas_thread
from treepurify.typing import Array, Cells, Indices, Integers

Rows = npt.NDArray[np.uint32]

# Rows of one weight are counted 64 at a time, which takes a tenth of the time of adding weights.
_MOST_WEIGHTS = 8
_ROWS_MIRRORED = 64


class ProductWorkspace(NamedTuple):
    """What a chunk of rows is read into, at most `n_words` times 64 of them.

    A place is a product that differs from all others on the chunk.

    Parameters
    ----------
    rows : ndarray of uint32, shape (n_rows,)
        The rows.
    leaf_of_word : ndarray of int64, shape (n_words,)
        The leaf of the rows of each word.
    words : ndarray of uint64, shape (n_words, width)
        Whether each row is in the product of each place, as bits.
    flat_words : ndarray of uint64, shape (n_words * width,)
        The same, a view.
    same : ndarray of uint64, shape (n_products,)
        The place of each product.
    factors : ndarray of uint64, shape (order, width)
        The sides of each place.
    cells : ndarray of unsigned int, shape (n_tested, n_rows)
        Cells of the rows along the features that the tree tests.
    of_sides : ndarray of uint64, shape (n_words, n_sides + 1)
        Which rows of each word there are, and which of them are on each side, as bits.
    holds : ndarray of uint8, shape (n_sides,)
        What each side holds.
    is_inside : ndarray of uint8, shape (n_rows,)
        Whether a side holds each row.
    inside_words : ndarray of uint64, shape (n_rows / 8,)
        The same, a view.
    place : ndarray of int64, shape (2,)
        The leaf of the next row, and how many of its rows were read.
    sums : ndarray of int64 or float64, shape (width, width)
        Sums in every two places.
    of_places : ndarray of int64 or float64, shape (width,)
        Sums in each place.
    """

    rows: Rows
    leaf_of_word: Integers
    words: npt.NDArray[np.uint64]
    flat_words: npt.NDArray[np.uint64]
    same: npt.NDArray[np.uint64]
    factors: npt.NDArray[np.uint64]
    cells: Cells
    of_sides: npt.NDArray[np.uint64]
    holds: npt.NDArray[np.uint8]
    is_inside: npt.NDArray[np.uint8]
    inside_words: npt.NDArray[np.uint64]
    place: Integers
    sums: npt.NDArray[Any]
    of_places: npt.NDArray[Any]


def _workspace(
    n_words: int, codes: Cells, products: SplitProducts, number: type[np.number[Any]]
) -> ProductWorkspace:
    """Return a workspace for chunks of `n_words` words, with sums of type `number`."""
    n_products, order = products.products.shape
    n_rows, n_sides = n_words * BITS, len(products.mass)
    # Places of products, and that of what is zero everywhere.
    width = (n_products // LANES + 1) * LANES
    words, is_inside = np.zeros((n_words, width), dtype=np.uint64), np.empty(n_rows, dtype=np.uint8)
    return ProductWorkspace(
        rows=np.empty(n_rows, dtype=np.uint32),
        leaf_of_word=np.empty(n_words, dtype=np.int64),
        words=words,
        flat_words=words.reshape(-1),
        same=np.empty(n_products, dtype=np.uint64),
        factors=np.empty((order, width), dtype=np.uint64),
        cells=np.empty((len(products.sides.tested), n_rows), dtype=codes.dtype),
        of_sides=np.empty((n_words, n_sides + 1), dtype=np.uint64),
        holds=np.empty(n_sides, dtype=np.uint8),
        is_inside=is_inside,
        inside_words=is_inside.view(np.uint64),
        place=np.zeros(2, dtype=np.int64),
        sums=np.empty((width, width), dtype=number),
        of_places=np.zeros(width, dtype=number),
    )


class RowGroups(NamedTuple):
    """Rows by their weight.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row.
    groups : list of (float, ndarray of uint32)
        Groups of rows of the same weight, zero among them.
    others : ndarray of uint32
        All rows, where these have too many weights for groups.
    """

    weights: Array
    groups: list[tuple[float, Rows]]
    others: Rows


def row_groups(weights: Array) -> RowGroups:
    """Group rows by weight, or not at all where there are many weights."""
    everything = np.arange(len(weights), dtype=np.uint32)
    different, group = np.unique(weights, return_inverse=True)
    if len(different) > _MOST_WEIGHTS:
        return RowGroups(weights, [], everything)
    groups = [(float(w), everything[group == i]) for i, w in enumerate(different)]
    return RowGroups(weights, groups, everything[:0])


class ProductSums(NamedTuple):
    """Sums over the rows of a tree.

    Parameters
    ----------
    leaves : ndarray of int64, shape (n_leaves,)
        The leaves of the tree as nodes of the ensemble, from left to right.
    leaf : ndarray of uint32, shape (n_rows,)
        Position among them of the leaf that each row reaches.
    of_leaves : ndarray of float64, shape (n_leaves, n_products)
        Weight of the rows of each leaf in each product.
    of_pairs : ndarray of float64, shape (n_products, n_products)
        Weight of the rows in every two products.
    """

    leaves: Integers
    leaf: Rows
    of_leaves: Array
    of_pairs: Array


def sum_products(
    codes: Cells, rows: RowGroups, splits: Splits, tree: int, products: SplitProducts
) -> ProductSums:
    """Sum over all rows; `codes` are their cells along each feature."""
    nodes, ensemble = splits.nodes(tree), splits.ensemble
    of_tree = (
        ensemble.feature[nodes],
        *splits.children(tree),
        splits.first_right[nodes],
        ensemble.missing_left[nodes],
        ensemble.category_ptr[nodes],
        ensemble.category_left,
        splits.missing_cells,
    )
    n_nodes, n_products = len(of_tree[0]), len(products.products)
    n_leaves, leaf = (n_nodes + 1) // 2, np.empty(len(rows.weights), dtype=np.uint32)
    leaves, leaf_ptr = np.empty(n_leaves, dtype=np.int64), np.empty(n_leaves + 1, dtype=np.int64)
    waiting = np.empty((n_nodes + 1, 3), dtype=np.int64)
    of_leaves, of_pairs = np.zeros((n_leaves, n_products)), np.zeros((n_products, n_products))
    what = products.sides, products.products, products.parts
    unit = min((weight for weight, _ in rows.groups if weight > 0), default=1.0)

    def by_leaf(some: Rows) -> tuple[Rows, Integers]:
        order = some.copy()
        found = order, leaves, leaf_ptr, leaf
        sort_by_leaf(codes, *of_tree, np.empty_like(order), waiting, *found)
        return order, leaf_ptr

    for weight, group in rows.groups:
        order = by_leaf(group)
        if weight > 0:
            workspace = _workspace(MOST_WORDS, codes, products, np.int64)
            times = weight / unit
            count_products(codes, *order, *what, workspace, times, of_leaves, of_pairs)
    if rows.groups:
        # Once and here, so that sums of rows of one weight are counts until then.
        of_leaves *= unit
        of_pairs *= unit
    if len(rows.others):
        workspace = _workspace(MOST_WEIGHED, codes, products, np.float64)
        roots = np.empty((MOST_WEIGHED * BITS, workspace.words.shape[1]))
        given = gram_routine(), codes, *by_leaf(rows.others), *what
        weigh_products(*given, workspace, roots, rows.weights, of_leaves, of_pairs)
    _mirror(of_pairs)
    return ProductSums(leaves + splits.ensemble.tree_ptr[tree], leaf, of_leaves, of_pairs)


def _mirror(matrix: Array) -> None:
    """Copy what stands above the diagonal to below it, where there are zeros."""
    for top in range(0, len(matrix), _ROWS_MIRRORED):
        rows = slice(top, top + _ROWS_MIRRORED)
        matrix[rows, :top] = matrix[:top, rows].T
        matrix[rows, rows] += np.triu(matrix[rows, rows], 1).T


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
        problem.source_rows,
        note=_BESIDE_ROWS if problem.source_rows is None else "",
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
