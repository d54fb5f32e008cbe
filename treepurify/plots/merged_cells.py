"""Cells of a table merged into a few, so that a figure of them can be read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout, Scale, lay_out_axis
from treepurify.plots.limits import shown_range
from treepurify.rows.row_weights import equal_parts
from treepurify.typing import Array, Indices

__all__ = ["MOST_CELLS_OF_PAIR", "CellMerging", "MergedAxis", "lay_out_merged", "merge_axis"]

# Along each feature of a pair: of more cells a person sees none.
MOST_CELLS_OF_PAIR = 30


@dataclass(frozen=True, eq=False)
class MergedAxis:
    """An axis of which neighbouring cells are merged.

    Parameters
    ----------
    axis : FeatureAxis
        The axis with the merged cells.
    first : ndarray of int, shape (axis.n_cells,)
        The first cell of each merged one; those of special values are never merged.
    """

    axis: FeatureAxis
    first: Indices


def merge_axis(axis: FeatureAxis, mass: Array, layout: AxisLayout, most: int | None) -> MergedAxis:
    """Merge cells of a numeric axis into at most `most` that are drawn, all others into two more.

    Half of the cells go where the mass is, half along the width that is drawn, so that neither the
    bulk nor the tails of the data are one cell.

    Parameters
    ----------
    axis : FeatureAxis
        The axis; categories are not merged.
    mass : ndarray of float64, shape (n_cells,)
        Mass of its cells.
    layout : AxisLayout
        Where its cells are drawn.
    most : int, optional
        Most cells, special ones aside; None for all.
    """
    n = axis.n_regular
    is_drawn = np.diff(layout.places[: n + 1]) > 0 if axis.cuts is not None else np.ones(n, bool)
    if axis.cuts is None or most is None or is_drawn.sum() <= most:
        return MergedAxis(axis, np.arange(axis.n_cells))
    share = (_share(mass[:n] * is_drawn) + _share(np.diff(layout.places[: n + 1]))) / 2
    part = equal_parts(np.cumsum(share) - share / 2, most)
    first_drawn, last_drawn = np.flatnonzero(is_drawn)[[0, -1]]
    part[:first_drawn], part[last_drawn + 1 :] = -1, most
    first = np.flatnonzero(np.diff(part, prepend=-2))
    special = np.arange(n, axis.n_cells)
    merged = replace(axis, cuts=axis.cuts[first[1:] - 1])
    return MergedAxis(merged, np.concatenate([first, special]).astype(np.intp))


def lay_out_merged(
    d: Decomposition,
    feature: int,
    axis: FeatureAxis,
    mass: Array,
    *,
    most: int | None,
    scale: Scale = "auto",
    order: Sequence[int] | Indices | None = None,
    is_smooth: bool = False,
    with_empty: bool = False,
) -> tuple[MergedAxis, AxisLayout]:
    """Return how the cells of one feature are merged, and where the merged cells are drawn.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    feature : int
        The feature.
    axis : FeatureAxis
        Its axis.
    mass : ndarray of float64, shape (n_cells,)
        Mass of the cells.
    most : int, optional
        Most cells that are drawn, special ones aside; None for all.
    scale : str
        Along a numeric axis, as in `pair`.
    order, is_smooth, with_empty
        As in `lay_out_axis`.
    """
    options: dict[str, Any] = {
        "order": order,
        "is_smooth": is_smooth,
        "with_empty": with_empty,
        "shown": shown_range(d, feature, axis, mass),
    }
    layout = lay_out_axis(axis, mass, scale=scale, **options)
    merged = merge_axis(axis, mass, layout, most)
    if merged.axis is axis:
        return merged, layout
    held = np.add.reduceat(mass, merged.first)
    coarse = lay_out_axis(merged.axis, held, scale=layout.spacing, **options)
    # How much lies outside is known better from the cells before they were merged.
    return merged, replace(coarse, beyond=layout.beyond)


@dataclass(frozen=True, eq=False)
class CellMerging:
    """The merging of the cells of one table.

    Parameters
    ----------
    axes : tuple of MergedAxis
        One per feature.
    mass : ndarray of float64, shape (cells...)
        Mass of the cells that are merged.
    """

    axes: tuple[MergedAxis, ...]
    mass: Array

    def merged_mass(self) -> Array:
        """Return the mass of the merged cells."""
        return self._sums(self.mass)

    def means(self, values: Array) -> Array:
        """Return the mean by mass in each merged cell, shape (merged cells..., n_outputs).

        Where there is no mass, the mean of the cells.
        """
        if all(
            len(each.first) == size for each, size in zip(self.axes, self.mass.shape, strict=True)
        ):
            return values
        held = self.merged_mass()[..., None]
        by_mass = self._sums(values * self.mass[..., None])
        plain = self._sums(values) / self._sums(np.ones_like(self.mass))[..., None]
        return np.where(held > 0, by_mass / np.where(held > 0, held, 1.0), plain)

    def in_each_cell(self, values: Array) -> Array:
        """Return the mean of the merged cell that each cell is in, of the shape of the values."""
        spread = self.means(values)
        for position, (each, size) in enumerate(zip(self.axes, self.mass.shape, strict=True)):
            spread = spread.repeat(np.diff(each.first, append=size), axis=position)
        return spread

    def _sums(self, table: Array) -> Array:
        def along(sums: Array, position: int) -> Array:
            return np.add.reduceat(sums, self.axes[position].first, axis=position)

        return reduce(along, range(len(self.axes)), table)


def _share(part: Array) -> Array:
    total = float(part.sum())
    return part / total if total > 0 else np.full(len(part), 1.0 / len(part))
