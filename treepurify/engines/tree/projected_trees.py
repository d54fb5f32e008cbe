"""Purify a deep ensemble under dependent features: project each tree, then purify the sum."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.traverse import add_leaf_values
from treepurify.budget import check_budget
from treepurify.effects.accumulate import LeafBoxes
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.layout import check_memory
from treepurify.engines.tree.direct_solve import count_unknowns, solve_directly
from treepurify.engines.tree.iterative_solve import solve_by_steps
from treepurify.engines.tree.tree_problem import TreeFit, TreeProblem
from treepurify.engines.tree.tree_terms import (
    TreeTerms,
    add_differences,
    integrate,
    leaf_term_expectations,
    term_subsets,
    tree_terms,
)
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.purification.cascade import downward_closure
from treepurify.rows.columns import Columns
from treepurify.threads import available_threads, iterate_threads, one_blas_thread

__all__ = ["Projection", "project_trees"]

Array = npt.NDArray[np.float64]

_TREES_A_REPORT = 16
_SMALL_TABLES = 256
# Steps that conjugate gradients take on ordinary trees, for comparing the work of both solves.
_USUAL_STEPS = 500


@dataclass(frozen=True, eq=False)
class Projection:
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


@dataclass(frozen=True, eq=False)
class ProjectionInputs:
    """What the projection of every tree needs.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model.
    boxes : LeafBoxes
        Its leaves on the union grid.
    grid : Grid
        The union grid.
    rows : EncodedRows
        The rows on that grid.
    matrix : ndarray of float64, shape (n_rows, n_features)
        The rows as the trees read them.
    weights : ndarray of float64, shape (n_rows,)
        Their share of the measure.
    margins : dict of int to ndarray
        Margins of the uniform share of the measure, empty where it has none.
    share : float
        The uniform share.
    order : int
        Largest number of features of a term.
    tolerance : float
        Error of a tree's tables, over its standard deviation, at which steps may stop.
    """

    ensemble: TreeEnsemble
    boxes: LeafBoxes
    grid: Grid
    rows: EncodedRows
    matrix: Array
    weights: Array
    margins: dict[int, Array]
    share: float
    order: int
    tolerance: float


def project_trees(
    given: ProjectionInputs, memory_budget: int, progress: Callable[[str, int, int], None]
) -> Projection:
    """Project every tree on sums of functions of at most `order` features, and add them up.

    On the union grid of a deep ensemble, the cells of three or more features outnumber the
    rows, and components fitted there describe noise. A tree alone has few cells: it is
    projected in weighted least squares on the tables, over its own splits, of the features
    that occur together on its paths. The projections add up on the union grid, where the sum
    is purified exactly afterwards, so that orthogonality holds for the sum and not only
    within a tree. Each tree is solved to where its tables stand still: by a factorisation where
    its equations are small enough, else by conjugate gradients. Of all solutions the one of
    least norm is taken (see `TreeProblem`).

    Parameters
    ----------
    given : ProjectionInputs
        The model and the measure.
    memory_budget : int
        Bytes that the tensors may take.
    progress : callable
        Called with a word, the number of trees done and their total.
    """
    ensemble = given.ensemble
    leaves = np.flatnonzero(ensemble.feature < 0)
    bounds = np.searchsorted(leaves, ensemble.tree_ptr)
    all_terms, totals = _lay_out_terms(given, bounds, memory_budget, progress)
    intercept = ensemble.base.copy()
    margin = np.tile(ensemble.base, (len(given.matrix), 1))
    error = np.zeros(ensemble.n_outputs)
    steps, n_direct, undetermined, converged = 0, 0, 0, True

    def project(tree: int) -> _Projected:
        leaves_of_tree = np.arange(bounds[tree], bounds[tree + 1])
        return _project_tree(given, tree, all_terms[tree], leaves_of_tree, memory_budget)

    # Threads that solve small problems only wait for the interpreter.
    is_small = all(terms is None or terms.base[-1] < _SMALL_TABLES for terms in all_terms)
    trees = range(ensemble.n_trees)
    solved = map(project, trees) if is_small else iterate_threads(project, trees)
    with one_blas_thread():
        for tree, projected in enumerate(solved):
            if tree % _TREES_A_REPORT == 0:
                progress("projecting trees", tree, ensemble.n_trees)
            outputs, fit, terms = projected.outputs, projected.fit, all_terms[tree]
            intercept[outputs] += projected.mean
            margin[:, outputs] += projected.scores
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
                    own = totals[subset][..., output]
                    add_differences(table[..., i], subset, terms, given.grid, own)
    tensors = {}
    for subset, total in totals.items():
        integrate(total, subset, given.grid)
        tensors[subset] = EffectTensor(subset, given.grid.subset_axes(subset), total)
    effects = EffectTensors(intercept, tensors)
    return Projection(effects, margin, error, n_direct, steps, undetermined, converged)


def _lay_out_terms(
    given: ProjectionInputs,
    bounds: npt.NDArray[np.intp],
    memory_budget: int,
    progress: Callable[[str, int, int], None],
) -> tuple[list[TreeTerms | None], dict[Subset, Array]]:
    """Return the terms of each tree, and tensors of zeros for their sums.

    Memory is checked after each tree, since deep trees on many features have more terms
    than could be listed.
    """
    all_terms, cells = [], 0
    known: set[Subset] = set()
    n_trees, n_rows = given.ensemble.n_trees, len(given.matrix)
    for tree in range(n_trees):
        if tree % _TREES_A_REPORT == 0:
            progress("listing terms of trees", tree, n_trees)
        subsets = term_subsets(given.boxes, np.arange(bounds[tree], bounds[tree + 1]), given.order)
        check_budget(
            2 * n_rows * len(subsets),
            memory_budget,
            f"the projection of tree {tree} on {len(subsets)} tables for {n_rows} rows",
            "Raise memory_budget, ask for a smaller order, or pass fewer rows.",
        )
        terms = tree_terms(given.ensemble, tree, given.grid, subsets)
        new = [] if terms is None else [s for s in terms.family if s and s not in known]
        known.update(new)
        cells += _count_cells(new, given.grid)
        more = " or more" if tree < n_trees - 1 else ""
        check_budget(
            8 * cells * given.ensemble.n_outputs,
            memory_budget,
            f"the tensors of {len(known)}{more} sets of features on the union grid",
            "Raise memory_budget, or ask for a smaller order.",
        )
        all_terms.append(terms)
    # Those of pairs also need their masses, and what purifying them takes.
    axes = (given.grid.subset_axes(subset) for subset in downward_closure(known))
    check_memory(axes, given.ensemble.n_outputs, memory_budget)
    ordered = sorted(known, key=lambda subset: (len(subset), subset))
    n_outputs = given.ensemble.n_outputs
    return all_terms, {s: np.zeros((*given.grid.shape(s), n_outputs)) for s in ordered}


def _count_cells(subsets: list[Subset], grid: Grid) -> int:
    """Return the number of cells of all subsets together."""
    sizes = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    total = 0
    for size in {len(subset) for subset in subsets}:
        own = np.array([subset for subset in subsets if len(subset) == size])
        total += int(sizes[own].prod(axis=1).sum())
    return total


@dataclass(frozen=True, eq=False)
class _Projected:
    """The outputs that one tree feeds: its values on the rows, their means and the fit."""

    outputs: list[int]
    scores: Array
    mean: Array
    fit: TreeFit


def _project_tree(
    given: ProjectionInputs,
    tree: int,
    terms: TreeTerms | None,
    leaves: npt.NDArray[np.intp],
    memory_budget: int,
) -> _Projected:
    ensemble = given.ensemble
    output = int(ensemble.tree_output[tree])
    outputs = [output] if output >= 0 else list(range(ensemble.n_outputs))
    if terms is None:
        scores = _tree_scores(given, tree, given.matrix)
        return _Projected(outputs, scores, scores[0], TreeFit({}, 0, 0.0))
    rows = _distinct_rows(terms, given, tree)
    # No product of vectors: threads of BLAS would wait actively beside those of the trees.
    mean = (rows.weights[:, None] * rows.scores).sum(axis=0) / (1.0 - given.share)
    problem = _problem(given, terms, rows, mean, leaves)
    if _is_direct(problem, memory_budget):
        fit = solve_directly(problem)
    else:
        fit = solve_by_steps(problem, given.tolerance)
    scores = rows.scores if rows.cell is None else rows.scores[rows.cell]
    return _Projected(outputs, scores, mean, fit)


def _problem(
    given: ProjectionInputs,
    terms: TreeTerms,
    rows: "_DistinctRows",
    mean: Array,
    leaves: npt.NDArray[np.intp],
) -> TreeProblem:
    """Return the least-squares problem of one tree."""
    cells = terms.row_cells(rows.codes)
    margins = _margins(terms, cells, rows.weights)
    uniform: tuple[Array, ...] = ()
    products = np.zeros((0, len(mean)))
    if given.share > 0:
        uniform = terms.margins(given.margins)
        margins = tuple(
            own + given.share * even for own, even in zip(margins, uniform, strict=True)
        )
        products = given.share * leaf_term_expectations(
            terms, given.boxes, leaves, given.boxes.values[leaves] - mean, uniform
        )
    return TreeProblem(
        terms, cells, rows.scores - mean, rows.weights, margins, given.share, uniform, products
    )


def _margins(terms: TreeTerms, cells: npt.NDArray[Any], weights: Array) -> tuple[Array, ...]:
    sizes = terms.shape(terms.features)
    found = [np.bincount(cells[:, i], weights, sizes[i]) for i in range(len(sizes))]
    return tuple(np.asarray(margin, dtype=np.float64) for margin in found)


def _is_direct(problem: TreeProblem, memory_budget: int) -> bool:
    """Return whether the normal equations fit the memory and are the cheaper way.

    Work is in nanoseconds of one core, as measured: a factorisation does some 30
    multiplications in one, a row some three for each pair of unknowns that are one on it.
    """
    unknowns, active = count_unknowns(problem)
    # The equations, their factor, and the norm of a few undetermined directions.
    if 32 * unknowns**2 * available_threads() > memory_budget:
        return False
    n_rows, terms = len(problem.cells), problem.terms
    direct = unknowns**3 / 90 + n_rows * (len(terms.family) + 1.5 * active**2)
    a_step = 2 * n_rows * len(terms.subsets) + 20 * int(terms.base[-1])
    return direct <= _USUAL_STEPS * a_step


@dataclass(frozen=True, eq=False)
class _DistinctRows:
    """Rows that a tree can tell apart: their cells on the union grid, scores and weights.

    `cell` is the position among them of each row that was given, None where all are kept.
    """

    codes: npt.NDArray[Any]
    scores: Array
    weights: Array
    cell: npt.NDArray[np.intp] | None


def _distinct_rows(terms: TreeTerms, given: ProjectionInputs, tree: int) -> _DistinctRows:
    """Join the rows in each cell of a tree: a shallow one has far fewer cells than rows."""
    codes, matrix, weights = given.rows.codes, given.matrix, given.weights
    cell = None
    sizes = terms.shape(terms.features)
    if prod(sizes) < len(matrix):
        flat = np.zeros(len(matrix), dtype=np.intp)
        for j, size in zip(terms.features, sizes, strict=True):
            flat *= size
            flat += terms.local_cells[j][codes[j]]
        present = np.bincount(flat) > 0
        representative = np.zeros(len(present), dtype=np.intp)
        representative[flat] = np.arange(len(flat))
        kept = representative[present]
        cell = (np.cumsum(present) - 1)[flat]
        codes, matrix = codes[:, kept], matrix[kept]
        weights = np.asarray(np.bincount(cell, weights=weights), dtype=np.float64)
    return _DistinctRows(codes, _tree_scores(given, tree, matrix), weights, cell)


def _tree_scores(given: ProjectionInputs, tree: int, matrix: Array) -> Array:
    """Return the leaf value of each row, one column an output the tree feeds."""
    ensemble = given.ensemble
    n_columns = 1 if ensemble.tree_output[tree] >= 0 else ensemble.n_outputs
    scores = np.zeros((len(matrix), n_columns))
    add_leaf_values(
        matrix,
        ensemble.tree_ptr[tree : tree + 2],
        ensemble.feature,
        ensemble.cut,
        ensemble.left,
        ensemble.right,
        ensemble.missing_left,
        ensemble.category_ptr,
        ensemble.category_left,
        ensemble.value,
        np.minimum(ensemble.tree_output[tree : tree + 1], 0),
        scores,
    )
    return scores


def row_matrix(columns: Columns, memory_budget: int) -> Array:
    """Return the rows as one matrix, if it fits the budget."""
    check_budget(
        8 * columns.n_rows * len(columns.values),
        memory_budget,
        f"{columns.n_rows} rows of {len(columns.values)} features",
        "Raise memory_budget, or pass fewer rows.",
    )
    return columns.matrix()
