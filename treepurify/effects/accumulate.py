"""From an ensemble and a grid to one effect tensor per subset: leaves added at their corners.

The tables of all subsets are in one array, filled with signed corners and then summed up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.cumulate import cumulate
from treepurify.budget import check_budget
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.effects.table_effects import table_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.grid import Cuts, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.threads import available_threads, even_length, map_threads
from treepurify.typing import Array, Indices, Integers

__all__ = [
    "DifferenceTables",
    "accumulate",
    "difference_tables",
    "ensemble_cuts",
    "model_cuts",
    "table_sizes",
]

# So many corners go on to the next axis at a time: memory does not grow with the number of boxes.
_AT_A_TIME = 1 << 16
# Most numbers that one thread sums up at a time.
_NUMBERS_OF_A_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class DifferenceTables:
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
        orders = np.array([len(shape) for shape in self.shapes], dtype=np.int64)

        def sum_tables(some: slice) -> None:
            offsets = self.offsets[some.start : some.stop + 1]
            cumulate(self.values, offsets, self.extents[some], orders[some], self.n_outputs)

        map_threads(sum_tables, self._pieces())
        return [
            self.values[first:last].reshape(*shape, self.n_outputs)
            for shape, (first, last) in zip(
                self.shapes, pairwise(self.offsets.tolist()), strict=True
            )
        ]

    def _pieces(self) -> list[slice]:
        """Return slices of the tables with about as many numbers each."""
        length = even_length(len(self.values), _NUMBERS_OF_A_PIECE, available_threads())
        ends = np.searchsorted(self.offsets, np.arange(length, len(self.values), length))
        different = np.unique(np.append(ends, len(self.shapes))).tolist()
        return [slice(first, last) for first, last in pairwise([0, *different])]


def ensemble_cuts(ensemble: TreeEnsemble) -> Cuts:
    """Return the union of the cuts of each numeric feature, sorted; None for categorical ones."""
    # A cut at -inf splits missing values from all others: it needs no cell below it.
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0) & (ensemble.cut > -np.inf)
    feature = ensemble.feature[numeric]
    cut = ensemble.cut[numeric]
    order = np.lexsort((cut, feature))
    feature, cut = feature[order], cut[order]
    is_new = np.ones(len(cut), dtype=bool)
    is_new[1:] = (feature[1:] != feature[:-1]) | (cut[1:] != cut[:-1])
    feature, cut = feature[is_new], cut[is_new]
    bounds = np.searchsorted(feature, np.arange(ensemble.n_features + 1))
    return tuple(
        None if spec.is_categorical else cut[bounds[j] : bounds[j + 1]]
        for j, spec in enumerate(ensemble.features)
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
    _check_tensors(boxes.subsets, grid, table_sizes(shapes, n_outputs), memory_budget)
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


def _check_tensors(
    subsets: tuple[Subset, ...], grid: Grid, sizes: list[int], memory_budget: int
) -> None:
    if not sizes:
        return
    largest = int(np.argmax(np.array(sizes, dtype=float)))
    names = " x ".join(grid.axes[j].name for j in subsets[largest])
    check_budget(
        8 * sum(sizes),
        memory_budget,
        f"the tables of {len(subsets)} effects with all split points (the largest, "
        f"{names}, has {'x'.join(map(str, grid.shape(subsets[largest])))} cells)",
        "Pass order=2 to purify, or train with a smaller depth or fewer bins.",
    )


class _Corners(NamedTuple):
    """Corners of boxes along the first axes: the leaf, the cell in C order, and the sign."""

    leaf: Indices
    cell: Integers
    sign: Array

    def pieces(self) -> Iterator["_Corners"]:
        for start in range(0, len(self.leaf), _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            yield _Corners(self.leaf[part], self.cell[part], self.sign[part])


def _add_box_corners(boxes: LeafBoxes, tables: DifferenceTables) -> None:
    """Add the values of each leaf at the corners of its box, to the table of its subset.

    A box is a product of runs of cells. A corner has the start (plus) or the end (minus) of a run
    along each axis; corners outside the table add nothing.

    In NumPy, since models whose leaves are added up in tables have few corners: a few milliseconds
    for a thousand trees. The same in compiled code took half a second to compile.
    """
    reached = np.flatnonzero(boxes.leaf_subset >= 0)
    n_axes = np.diff(boxes.entry_ptr)[reached]
    for n in np.unique(n_axes).tolist():
        leaf = reached[n_axes == n]
        start = _Corners(leaf, np.zeros(len(leaf), dtype=np.int64), np.ones(len(leaf)))
        _add(boxes, tables, start, range(n))


def _add(boxes: LeafBoxes, tables: DifferenceTables, corners: _Corners, axes: range) -> None:
    """Add at all corners that have the given ones along the axes before."""
    for some in corners.pieces():
        if axes:
            _add(boxes, tables, _next_axis(boxes, tables, some, axes[0]), axes[1:])
        else:
            _add_values(boxes, tables, some)


def _next_axis(
    boxes: LeafBoxes, tables: DifferenceTables, corners: _Corners, axis: int
) -> _Corners:
    """Return the corners along one axis more, those inside the table only."""
    entry = boxes.entry_ptr[corners.leaf] + axis
    extent = tables.extents[boxes.leaf_subset[corners.leaf], axis]
    first_run = boxes.run_ptr[entry]
    n_ends = 2 * (boxes.run_ptr[entry + 1] - first_run)
    before = np.repeat(np.arange(len(entry)), n_ends)
    # Start and end of the first run, start and end of the second one, and so on.
    end = np.arange(len(before)) + np.repeat(2 * first_run - (np.cumsum(n_ends) - n_ends), n_ends)
    run, is_stop = end >> 1, end & 1
    at = np.where(is_stop, boxes.run_stop[run], boxes.run_start[run])
    inside = np.flatnonzero(at < extent[before])
    before = before[inside]
    return _Corners(
        corners.leaf[before],
        (corners.cell * extent)[before] + at[inside],
        corners.sign[before] * (1 - 2 * is_stop[inside]),
    )


def _add_values(boxes: LeafBoxes, tables: DifferenceTables, corners: _Corners) -> None:
    """Add each leaf's values, to the output that it feeds or to all of them."""
    first = tables.offsets[boxes.leaf_subset[corners.leaf]] + corners.cell * tables.n_outputs
    output = boxes.output[corners.leaf]
    for number in np.unique(output):
        these = np.flatnonzero(output == number)
        outputs = np.arange(tables.n_outputs) if number < 0 else np.array([number])
        places = first[these, None] + outputs
        values = boxes.values[corners.leaf[these], : len(outputs)]
        values = values * corners.sign[these, None]
        # Along one axis, the fast way.
        np.add.at(tables.values, places.reshape(-1), values.reshape(-1))
