"""From an ensemble and a grid to one effect tensor per subset: leaves added at their corners.

The tables of all subsets are in one array, filled with signed corners and then summed up.
"""

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify.budget import check_budget
from treepurify.effects.leaf_boxes import LeafBoxes, members_of
from treepurify.effects.table_effects import table_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.grid import Cuts, Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.threads import map_arrays
from treepurify.typing import Array, Indices, Integers

# Boxes whose corners are added at a time: memory does not grow with the number of leaves.
_AT_A_TIME = 1 << 16


class DifferenceTables(NamedTuple):
    """Differences along every axis of some tables, one table after the other.

    Parameters
    ----------
    shapes : sequence of tuple of int
        Cells along the axes of each table.
    n_outputs : int
        Numbers in a cell.
    offsets : ndarray of int64, shape (n_tables + 1,)
        Start of each table in `values`.
    extents : ndarray of int64, shape (n_tables, 1 + largest number of axes)
        Cells along the axes and the number of outputs of each table; ones behind.
    values : ndarray of float64
        The differences, zero at first; kernels add to them.
    """

    shapes: Sequence[tuple[int, ...]]
    n_outputs: int
    offsets: Integers
    extents: Integers
    values: Array

    def summed(self) -> list[Array]:
        """Return each table, shape (cells..., n_outputs); the differences are replaced."""
        bounds = zip(self.shapes, pairwise(self.offsets.tolist()), strict=True)
        tables = [
            self.values[first:last].reshape(*shape, self.n_outputs)
            for shape, (first, last) in bounds
        ]

        def sum_up(_: int, table: Array) -> None:
            for axis in range(table.ndim - 1):
                np.add.accumulate(table, axis=axis, out=table)

        map_arrays(sum_up, dict(enumerate(tables)))
        return tables


def ensemble_cuts(ensemble: TreeEnsemble) -> Cuts:
    """Return the union of the cuts of each numeric feature, sorted; None for categorical ones."""
    # A cut at -inf splits missing values from all others: it needs no cell below it.
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0) & (ensemble.cut > -np.inf)
    feature = ensemble.feature[numeric]
    by_feature = np.argsort(feature, kind="stable")
    ends = np.searchsorted(feature[by_feature], np.arange(1, ensemble.n_features))
    cuts = np.split(ensemble.cut[numeric][by_feature], ends)
    return tuple(
        None if spec.is_categorical else np.unique(own)
        for spec, own in zip(ensemble.features, cuts, strict=True)
    )


def model_cuts(model: Model) -> Cuts:
    """Return the cuts of each feature: those of all trees, or of all tables."""
    return ensemble_cuts(model) if isinstance(model, TreeEnsemble) else table_cuts(model)


def accumulate(
    ensemble: TreeEnsemble, grid: Grid, boxes: LeafBoxes, memory_budget: int
) -> EffectTensors:
    """Sum the leaves of each subset into one tensor on the cells of `grid`.

    The value of a leaf goes to the 2^d corners of its box in a difference array, and one
    cumulative sum along each axis spreads it: the cost of a leaf does not depend on the
    number of cells.

    Raises
    ------
    MemoryBudgetError
        If the tensors would not fit.
    """
    n_outputs = ensemble.n_outputs
    shapes = [grid.shape(subset) for subset in boxes.subsets]
    largest = max(boxes.subsets, key=lambda subset: prod(grid.shape(subset)), default=())
    names = " x ".join(grid.axes[j].name for j in largest)
    check_budget(
        8 * sum(table_sizes(shapes, n_outputs)),
        memory_budget,
        f"the tables of {len(shapes)} effects with all split points (the largest, {names}, has "
        f"{'x'.join(map(str, grid.shape(largest)))} cells)",
        "Pass order=2 to purify, or train with a smaller depth or fewer bins.",
    )
    tables = difference_tables(shapes, n_outputs)
    _add_box_corners(boxes, tables)
    intercept = ensemble.base.copy()
    tensors = {}
    for subset, values in zip(boxes.subsets, tables.summed(), strict=True):
        if subset:
            tensors[subset] = EffectTensor(subset, grid.subset_axes(subset), values)
        else:
            intercept = intercept + values
    return EffectTensors(intercept, tensors)


def table_sizes(shapes: Sequence[tuple[int, ...]], n_outputs: int) -> list[int]:
    """Return how many numbers each table holds, which a caller checks against its budget."""
    return [prod(shape) * n_outputs for shape in shapes]


def difference_tables(shapes: Sequence[tuple[int, ...]], n_outputs: int) -> DifferenceTables:
    """Return tables of zeros."""
    offsets = np.concatenate([[0], np.cumsum(table_sizes(shapes, n_outputs))]).astype(np.int64)
    widest = max((len(shape) for shape in shapes), default=0)
    extents = [(*shape, n_outputs, *(1,) * (widest - len(shape))) for shape in shapes]
    sizes = np.array(extents, dtype=np.int64).reshape(len(shapes), widest + 1)
    return DifferenceTables(shapes, n_outputs, offsets, sizes, np.zeros(offsets[-1]))


def _add_box_corners(boxes: LeafBoxes, tables: DifferenceTables) -> None:
    """Add the values of each leaf at the corners of its box, to the table of its subset.

    A box is a product of runs of cells. A corner has the start (plus) or the end (minus) of a run
    along each axis; corners outside the table add nothing.

    In NumPy, since models whose leaves are added up in tables have few corners: a few milliseconds
    for a thousand trees. The same in compiled code took half a second to compile.
    """
    sizes, has_axes = np.diff(boxes.entry_ptr), np.diff(boxes.entry_ptr) > 0
    n_parts = np.ones(len(sizes))
    n_runs = np.diff(boxes.run_ptr).astype(np.float64)
    n_parts[has_axes] = np.multiply.reduceat(n_runs, boxes.entry_ptr[:-1][has_axes])
    for n in np.unique(sizes).tolist():
        leaves = np.flatnonzero((sizes == n) & (boxes.leaf_subset >= 0))
        piece = np.cumsum(n_parts[leaves]) // _AT_A_TIME
        for some in np.split(leaves, np.flatnonzero(np.diff(piece)) + 1):
            _add_corners(boxes, tables, some, n)


def _add_corners(boxes: LeafBoxes, tables: DifferenceTables, leaf: Indices, n_axes: int) -> None:
    """Add the values of leaves at all their corners, of as many axes each."""
    runs = np.zeros((n_axes, len(leaf)), dtype=np.int64)
    for axis in range(n_axes):
        # Leaves of several runs along this axis are repeated, once for each.
        run, place = members_of(boxes.run_ptr, boxes.entry_ptr[leaf] + axis)
        leaf, runs = leaf[place], runs[:, place]
        runs[axis] = run
    subset = boxes.leaf_subset[leaf]
    extents = tables.extents[subset, :n_axes].T
    for is_stop in product((False, True), repeat=n_axes):
        cell, inside = np.zeros(len(leaf), dtype=np.int64), np.ones(len(leaf), dtype=bool)
        for stop, run, extent in zip(is_stop, runs, extents, strict=True):
            at = (boxes.run_stop if stop else boxes.run_start)[run]
            inside &= at < extent
            cell = cell * extent + at
        first = tables.offsets[subset] + cell * tables.n_outputs
        sign = -1.0 if sum(is_stop) % 2 else 1.0
        _add_values(boxes, tables, leaf[inside], first[inside], sign)


def _add_values(
    boxes: LeafBoxes, tables: DifferenceTables, leaf: Indices, first: Integers, sign: float
) -> None:
    """Add each leaf's values to the output that it feeds or to all of them, `first` the first."""
    is_scalar = boxes.output[leaf] >= 0
    some, places = leaf[is_scalar], first[is_scalar]
    # Along one axis, the fast way.
    np.add.at(tables.values, places + boxes.output[some], sign * boxes.values[some, 0])
    some, places = leaf[~is_scalar], first[~is_scalar, None] + np.arange(tables.n_outputs)
    np.add.at(tables.values, places.ravel(), sign * boxes.values[some].ravel())
