"""Add leaf boxes into difference tables, at their signed corners."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from treepurify.effects.difference_tables import DifferenceTables
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.typing import Array, Indices, Integers

__all__ = ["add_box_corners"]

# So many corners go on to the next axis at a time: memory does not grow with the number of boxes.
_AT_A_TIME = 1 << 16


class _Corners(NamedTuple):
    """Corners of boxes along the first axes: the leaf, the cell in C order, and the sign."""

    leaf: Indices
    cell: Integers
    sign: Array

    def pieces(self) -> Iterator["_Corners"]:
        for start in range(0, len(self.leaf), _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            yield _Corners(self.leaf[part], self.cell[part], self.sign[part])


def add_box_corners(boxes: LeafBoxes, tables: DifferenceTables) -> None:
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
