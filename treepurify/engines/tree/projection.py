"""The projection as a route: each tree projected, their sum purified, the rest as remainder.

It is for deep ensembles under dependent features.
"""

from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

import numpy as np

from treepurify._kernels.joint_rows import add_values_of_cells
from treepurify.budget import check_budget
from treepurify.effects.conditional import feature_margins
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Problem, check_memory
from treepurify.engines.tree.fitted_result import fitted_result
from treepurify.engines.tree.joint_cells import join_cells, order_by_cells
from treepurify.engines.tree.solve import solve_tree
from treepurify.engines.tree.tree_problem import (
    TreeFit,
    TreeProblem,
    TreeTerms,
    common_weight,
    leaf_term_expectations,
    term_subsets,
    tree_terms,
)
from treepurify.engines.tree.tree_scores import cell_scores, tree_scores
from treepurify.engines.tree.union_sums import add_differences, integrate
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.threads import iterate_threads, map_arrays, one_blas_thread
from treepurify.typing import Array, Cells, Indices, Integers

__all__ = ["purify_by_projection"]

_MOST_ORDER = 3
_TREES_PER_REPORT = 16
_SMALL_TABLES = 256


@dataclass(frozen=True, eq=False)
class _Task:
    """What the projection of every tree reads besides the problem.

    `rows` and their mass, `weights`, are in an order in which neighbours are near each other. The
    uniform distribution has the rest, `share`, with its `margins`; they are empty where it has
    none.
    """

    problem: Problem
    rows: EncodedRows
    order_of_rows: Indices
    weights: Array
    margins: dict[int, Array]
    share: float
    order: int
    tolerance: float
    lock: Lock = field(default_factory=Lock)

    def scores(self, tree: int, rows: slice | Indices = slice(None)) -> Array:
        """Return the values of a tree on some rows, from their columns.

        Most trees are read on cells. The matrix of the rows is made for the first that is not.
        """
        with self.lock:
            matrix = self._matrix
        return tree_scores(self.problem.ensemble, tree, matrix[rows])

    @cached_property
    def _matrix(self) -> Array:
        values = () if self.problem.columns is None else self.problem.columns.values
        matrix = np.empty((len(self.order_of_rows), len(values)))
        for j, column in enumerate(values):
            matrix[:, j] = column[self.order_of_rows]
        return matrix


@dataclass(frozen=True, eq=False)
class _Projection:
    """An ensemble projected tree by tree on functions of a few features.

    Parameters
    ----------
    effects : EffectTensors
        The sum of the projections, on the union grid; not yet pure.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of the rows.
    error : ndarray of float64, shape (n_outputs,)
        Estimated norm of the error of the tables, summed over the trees.
    n_direct : int
        Trees whose equations were factored.
    steps : int
        Conjugate-gradient steps over all other trees.
    undetermined : int
        Directions that the rows leave undetermined, summed over the trees that were factored.
    converged : bool
        Whether every solve met its tolerance.
    """

    effects: EffectTensors
    margin: Array
    error: Array
    n_direct: int
    steps: int
    undetermined: int
    converged: bool


def purify_by_projection(problem: Problem, tolerance: float) -> Result:
    """Return the components of low order of a deep ensemble under dependent features.

    See `_project_trees`. The remainder is the model minus the components; on the rows,
    ``diagnostics["projection"]["r_squared"]`` is the share of the model's variance that the
    components explain.
    """
    task = _read_task(problem, tolerance)
    projection = _project_trees(task)
    facts = {
        "trees": problem.ensemble.n_trees,
        "solved_directly": projection.n_direct,
        "steps": projection.steps,
        "undetermined": projection.undetermined,
        "converged": projection.converged,
        "error": projection.error.tolist(),
        "tolerance": tolerance,
    }
    return fitted_result(problem, task.rows, projection.effects, projection.margin, facts)


def _read_task(problem: Problem, tolerance: float) -> _Task:
    """Return the task of a problem, if there are rows, and the order is not too large."""
    weighting, rows = problem.weighting, problem.encoded_rows
    share = 1.0 - (weighting.share_of_rows or 0.0)
    order = _checked_order(problem.wanted.order, 2 if share > 0 else _MOST_ORDER)
    if rows is None or problem.columns is None:
        raise InvalidInputError("the projection route needs rows: pass X")
    check_budget(
        8 * rows.n_rows * len(problem.columns.values),
        problem.memory_budget,
        f"{rows.n_rows} rows of {len(problem.columns.values)} features",
        "Raise memory_budget, or pass fewer rows.",
    )
    margins: dict[int, Array] = {}
    if share > 0:
        margins = feature_margins(problem.boxes, weighting.beside_rows, problem.grid, rows)
    tested = np.bincount(problem.ensemble.feature[problem.ensemble.feature >= 0])
    most_tested = np.argsort(-tested, kind="stable")[: np.count_nonzero(tested)]
    order_of_rows = order_by_cells(rows.codes, most_tested)
    ordered = EncodedRows(
        np.ascontiguousarray(rows.codes[:, order_of_rows]),
        None if rows.weights is None else rows.weights[order_of_rows],
    )
    return _Task(
        problem,
        ordered,
        order_of_rows=order_of_rows,
        weights=(1.0 - share) * ordered.shares,
        margins=margins,
        share=share,
        order=order,
        tolerance=tolerance,
    )


def _checked_order(order: int | None, most: int) -> int:
    if order is not None and order <= most:
        return order
    asked = "all that occur (order=None)" if order is None else f"{order}"
    raise InvalidInputError(
        f"features depend on each other, so the trees are projected on components of up to {most} "
        f"features, not {asked}: ask for order=2, and what lies above is the remainder; or for "
        'weights="independent", or method="exact" where its tables fit, which keep every order'
    )


def _project_trees(task: _Task) -> _Projection:
    """Project every tree on sums of functions of at most `order` features, and add them up.

    On the union grid of a deep ensemble, the cells of three or more features outnumber the
    rows, and components fitted there describe noise. A tree alone has few cells: it is
    projected in weighted least squares on the tables, over its own splits, of the features
    that occur together on its paths. The projections add up on the union grid, where the sum
    is purified exactly afterwards, so that orthogonality holds for the sum and not only
    within a tree. Each tree is solved until its tables no longer change: by a factorisation
    where its equations are small enough, else by conjugate gradients. Of all solutions the one
    of least norm is taken (see `TreeProblem`).
    """
    ensemble = task.problem.ensemble
    leaves = np.flatnonzero(ensemble.feature < 0)
    bounds = np.searchsorted(leaves, ensemble.tree_ptr)
    all_terms, totals = _lay_out_terms(task, bounds)
    intercept = ensemble.base.copy()
    margin = np.tile(ensemble.base, (task.rows.n_rows, 1))
    error = np.zeros(ensemble.n_outputs)
    steps, n_direct, undetermined, converged = 0, 0, 0, True

    def project(tree: int) -> _Projected:
        leaves_of_tree = np.arange(bounds[tree], bounds[tree + 1])
        return _project_tree(task, tree, all_terms[tree], leaves_of_tree)

    # Threads that solve small problems only wait for the interpreter.
    is_small = all(terms is None or terms.base[-1] < _SMALL_TABLES for terms in all_terms)
    trees = range(ensemble.n_trees)
    solved = map(project, trees) if is_small else iterate_threads(project, trees)
    with one_blas_thread():
        for tree, projected in enumerate(solved):
            if tree % _TREES_PER_REPORT == 0:
                task.problem.report("projecting trees", tree, ensemble.n_trees)
            outputs, fit, terms = projected.outputs, projected.fit, all_terms[tree]
            intercept[outputs] += projected.mean
            if projected.cell is None:
                margin[:, outputs] += projected.scores
            else:
                columns = np.array(outputs)
                add_values_of_cells(projected.cell, projected.scores, columns, margin)
            error[outputs] += fit.error
            steps += fit.steps
            n_direct += int(fit.steps == 0)
            undetermined += fit.undetermined
            converged = converged and fit.converged
            for subset, table in fit.tables.items():
                if terms is None or not subset:
                    intercept[outputs] += table
                    continue
                for i, output in enumerate(outputs):
                    total = totals[subset][..., output]
                    add_differences(table[..., i], subset, terms, task.problem.grid, total)

    def tensor(subset: Subset, total: Array) -> EffectTensor:
        integrate(total, subset, task.problem.grid)
        return EffectTensor(subset, task.problem.grid.subset_axes(subset), total)

    effects = EffectTensors(intercept, map_arrays(tensor, totals))
    return _Projection(effects, margin, error, n_direct, steps, undetermined, converged)


def _lay_out_terms(
    task: _Task, bounds: Indices
) -> tuple[list[TreeTerms | None], dict[Subset, Array]]:
    """Return the terms of each tree, and tensors of zeros for their sums.

    Memory is checked after each tree, since deep trees on many features have more terms
    than could be listed.
    """
    problem = task.problem
    all_terms, cells = [], 0
    known: set[Subset] = set()
    n_trees, n_rows = problem.ensemble.n_trees, task.rows.n_rows
    for tree in range(n_trees):
        if tree % _TREES_PER_REPORT == 0:
            problem.report("listing terms of trees", tree, n_trees)
        subsets = term_subsets(problem.boxes, np.arange(bounds[tree], bounds[tree + 1]), task.order)
        check_budget(
            2 * n_rows * len(subsets),
            problem.memory_budget,
            f"the projection of tree {tree} on {len(subsets)} tables for {n_rows} rows",
            "Raise memory_budget, ask for a smaller order, or pass fewer rows.",
        )
        terms = tree_terms(problem.ensemble, tree, problem.grid, subsets)
        new = [] if terms is None else [s for s in terms.family if s and s not in known]
        known.update(new)
        cells += _count_cells(new, problem.grid)
        more = " or more" if tree < n_trees - 1 else ""
        check_budget(
            8 * cells * problem.ensemble.n_outputs,
            problem.memory_budget,
            f"the tensors of {len(known)}{more} sets of features on the union grid",
            "Raise memory_budget, or ask for a smaller order.",
        )
        all_terms.append(terms)
    # The family of each tree holds all subsets of its sets, so these are all that is purified.
    ordered = sorted(known, key=lambda subset: (len(subset), subset))
    n_outputs = problem.ensemble.n_outputs
    axes = [problem.grid.subset_axes(subset) for subset in ordered]
    check_memory(axes, n_outputs, problem.memory_budget)
    return all_terms, {s: np.zeros((*problem.grid.shape(s), n_outputs)) for s in ordered}


def _count_cells(subsets: list[Subset], grid: Grid) -> int:
    """Return the number of cells of all subsets together."""
    sizes = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    total = 0
    for size in {len(subset) for subset in subsets}:
        of_size = np.array([subset for subset in subsets if len(subset) == size])
        total += int(sizes[of_size].prod(axis=1).sum())
    return total


@dataclass(frozen=True, eq=False)
class _Projected:
    """The outputs that one tree feeds: its values on the rows, their means and the fit.

    With `cell`, values are those of joint cells, and it is the position of each row among them.
    """

    outputs: list[int]
    scores: Array
    cell: Integers | None
    mean: Array
    fit: TreeFit


def _project_tree(
    task: _Task,
    tree: int,
    terms: TreeTerms | None,
    leaves: Indices,
) -> _Projected:
    ensemble = task.problem.ensemble
    output = int(ensemble.tree_output[tree])
    outputs = [output] if output >= 0 else list(range(ensemble.n_outputs))
    if terms is None:
        scores = task.scores(tree)
        return _Projected(outputs, scores, None, scores[0], TreeFit({}, 0, 0.0))
    rows = _distinct_rows(terms, task, tree)
    mean = np.average(rows.scores, axis=0, weights=rows.weights if task.share < 1 else None)
    problem = _tree_problem(task, terms, rows, mean, leaves)
    fit = solve_tree(problem, task.tolerance, task.problem.memory_budget)
    return _Projected(outputs, rows.scores, rows.cell, mean, fit)


def _tree_problem(
    task: _Task,
    terms: TreeTerms,
    rows: "_DistinctRows",
    mean: Array,
    leaves: Indices,
) -> TreeProblem:
    """Return the least-squares problem of one tree."""
    margins = terms.row_margins(rows.cells, rows.weights)
    uniform: tuple[Array, ...] = ()
    products = np.zeros((0, len(mean)))
    if task.share > 0:
        uniform = terms.margins(task.margins)
        margins = tuple(
            of_rows + task.share * even for of_rows, even in zip(margins, uniform, strict=True)
        )
        products = task.share * leaf_term_expectations(
            terms, task.problem.boxes, leaves, task.problem.boxes.values[leaves] - mean, uniform
        )
    return TreeProblem(
        terms,
        rows.cells,
        rows.scores - mean,
        rows.weights,
        common_weight(task.weights),
        margins,
        task.share,
        uniform,
        products,
    )


@dataclass(frozen=True, eq=False)
class _DistinctRows:
    """One row for each occupied joint cell of a tree: its cells, scores and weights.

    `cell` is the position among them of each original row, None where all rows are kept.
    """

    cells: Cells
    scores: Array
    weights: Array
    cell: Integers | None


def _distinct_rows(terms: TreeTerms, task: _Task, tree: int) -> _DistinctRows:
    """Join the rows in each joint cell of a tree."""
    codes, weights = task.rows.codes, task.weights
    joined = join_cells(codes, terms.local_cells, weights)
    if joined is None:
        scores = task.scores(tree)
        return _DistinctRows(terms.row_cells(codes), scores, weights, None)
    cells = terms.row_cells(codes, joined.rows)
    by_cells = cell_scores(task.problem.ensemble, tree, task.problem.grid, terms, cells)
    if by_cells is None:
        by_cells = task.scores(tree, joined.rows)
    return _DistinctRows(cells, by_cells, joined.weights, joined.cell)
