"""Purify a deep ensemble under dependent features: project each tree, then purify the sum."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.project_tree import project_on_terms, term_entries
from treepurify._kernels.traverse import add_leaf_values
from treepurify.budget import check_budget
from treepurify.columns import Columns
from treepurify.effects.accumulate import LeafBoxes
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.effects.tree_terms import (
    TreeTerms,
    add_differences,
    integrate,
    leaf_term_expectations,
    term_subsets,
    tree_terms,
)
from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.threads import iterate_threads

__all__ = ["Projection", "project_trees"]

Array = npt.NDArray[np.float64]

_MOST_STEPS = 2000
_TREES_A_REPORT = 16


@dataclass(frozen=True, eq=False)
class Projection:
    """An ensemble projected tree by tree on functions of a few features.

    Parameters
    ----------
    effects : EffectTensors
        The sum of the projections, on the union grid; not yet pure.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of the rows.
    steps : int
        Conjugate-gradient steps over all trees.
    residual : float
        Largest norm of a tree's last preconditioned residual relative to its first.
    tolerance : float
        What that norm was asked to be.
    """

    effects: EffectTensors
    margin: Array
    steps: int
    residual: float
    tolerance: float


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
        Relative norm of the preconditioned residual at which a solve stops.
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
    within a tree. In cells of a tree without rows a term keeps the least-norm value, zero.

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
    steps, residual = 0, 0.0
    solved = iterate_threads(
        lambda t: _project_tree(given, t, all_terms[t], np.arange(bounds[t], bounds[t + 1])),
        range(ensemble.n_trees),
    )
    for tree, fits in enumerate(solved):
        if tree % _TREES_A_REPORT == 0:
            progress("projecting trees", tree, ensemble.n_trees)
        terms = all_terms[tree]
        for fit in fits:
            intercept[fit.output] += fit.mean
            margin[:, fit.output] += fit.scores
            steps += fit.steps
            residual = max(residual, fit.residual)
            if terms is not None:
                for subset, table in terms.tables(fit.table).items():
                    own = totals[subset][..., fit.output]
                    add_differences(table, subset, terms.local_cells, given.grid, own)
    tensors = {}
    for subset, total in totals.items():
        integrate(total, subset, given.grid)
        tensors[subset] = EffectTensor(subset, given.grid.subset_axes(subset), total)
    effects = EffectTensors(intercept, tensors)
    return Projection(effects, margin, steps, residual, given.tolerance)


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
        new = [subset for subset in subsets if subset not in known]
        known.update(new)
        cells += _count_cells(new, given.grid)
        more = " or more" if tree < n_trees - 1 else ""
        check_budget(
            8 * cells * given.ensemble.n_outputs,
            memory_budget,
            f"the tensors of {len(known)}{more} sets of features on the union grid",
            "Raise memory_budget, or ask for a smaller order.",
        )
        all_terms.append(tree_terms(given.ensemble, tree, given.grid, subsets))
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
class _Fit:
    """One output of one tree: its values on the rows, their mean and the tables of its terms."""

    output: int
    scores: Array
    mean: float
    table: Array
    steps: int
    residual: float


def _project_tree(
    given: ProjectionInputs, tree: int, terms: TreeTerms | None, leaves: npt.NDArray[np.intp]
) -> list[_Fit]:
    ensemble = given.ensemble
    output = int(ensemble.tree_output[tree])
    outputs = [output] if output >= 0 else list(range(ensemble.n_outputs))
    if terms is None:
        scores = _tree_scores(given, tree, given.matrix)
        return [
            _Fit(k, scores[:, i], float(scores[0, i]), np.empty(0), 0, 0.0)
            for i, k in enumerate(outputs)
        ]
    rows = _distinct_rows(terms, given, tree)
    start, margins = np.zeros(1, dtype=np.int64), np.zeros(1)
    if given.share > 0:
        start, margins = terms.margins(given.margins)
    fits = []
    for i, k in enumerate(outputs):
        # No product of vectors: threads of BLAS would wait actively beside those of the trees.
        mean = float((rows.weights * rows.scores[:, i]).sum()) / (1.0 - given.share)
        right = np.zeros(terms.base[-1])
        if given.share > 0:
            centred = given.boxes.values[leaves, i] - mean
            right = given.share * leaf_term_expectations(
                terms, given.boxes, leaves, centred, start, margins
            )
        table, steps, residual = project_on_terms(
            rows.entries,
            terms.first,
            terms.second,
            terms.base,
            terms.width,
            start,
            margins,
            given.share,
            rows.scores[:, i] - mean,
            rows.weights,
            right,
            given.tolerance,
            _MOST_STEPS,
        )
        own = rows.scores[:, i] if rows.cell is None else rows.scores[rows.cell, i]
        fits.append(_Fit(k, own, mean, table, steps, residual))
    return fits


@dataclass(frozen=True, eq=False)
class _DistinctRows:
    """Rows that a tree can tell apart: their table entries, scores and weights.

    `cell` is the position among them of each row that was given, None where all are kept.
    """

    entries: npt.NDArray[Any]
    scores: Array
    weights: Array
    cell: npt.NDArray[np.intp] | None


def _distinct_rows(terms: TreeTerms, given: ProjectionInputs, tree: int) -> _DistinctRows:
    """Join the rows in each cell of a tree: a shallow one has far fewer cells than rows."""
    codes, matrix, weights = given.rows.codes, given.matrix, given.weights
    cell = None
    if prod(terms.feature_sizes().values()) < len(matrix):
        flat = np.zeros(len(matrix), dtype=np.intp)
        for j, size in terms.feature_sizes().items():
            flat *= size
            flat += terms.local_cells[j][codes[j]]
        present = np.bincount(flat) > 0
        representative = np.zeros(len(present), dtype=np.intp)
        representative[flat] = np.arange(len(flat))
        kept = representative[present]
        cell = (np.cumsum(present) - 1)[flat]
        codes, matrix = codes[:, kept], matrix[kept]
        weights = np.asarray(np.bincount(cell, weights=weights), dtype=np.float64)
    cells = terms.row_cells(codes)
    dtype = np.uint16 if terms.base[-1] <= 1 << 16 else np.uint32
    entries = np.empty((len(cells), len(terms.subsets)), dtype=dtype)
    term_entries(cells, terms.first, terms.second, terms.base, terms.width, entries)
    return _DistinctRows(entries, _tree_scores(given, tree, matrix), weights, cell)


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
