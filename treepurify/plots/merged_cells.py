"""Cells of a table merged into a few, so that a figure of them can be read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import AxisLayout
from treepurify.rows.row_weights import equal_parts
from treepurify.typing import Array, Indices


class MergedAxis(NamedTuple):
    """An axis of merged cells, and the first of the cells that are merged into each."""

    axis: FeatureAxis
    first: Indices


def merge_axis(axis: FeatureAxis, mass: Array, layout: AxisLayout, most: int) -> MergedAxis:
    """Merge cells of a numeric axis into at most `most` that are drawn, all others into two more.

    Half of the cells go where the mass is, half along the width that is drawn, so that neither the
    bulk nor the tails of the data are one cell. Categories and special cells are never merged.
    """
    n = axis.n_regular
    if axis.cuts is None or layout.has_width.sum() <= most:
        return MergedAxis(axis, np.arange(axis.n_cells))
    is_drawn = layout.has_width
    share = (_share(mass[:n] * is_drawn) + _share(layout.widths)) / 2
    part = equal_parts(np.cumsum(share) - share / 2, most)
    first_drawn, last_drawn = np.flatnonzero(is_drawn)[[0, -1]]
    part[:first_drawn], part[last_drawn + 1 :] = -1, most
    first = np.flatnonzero(np.diff(part, prepend=-2))
    merged = replace(axis, cuts=axis.cuts[first[1:] - 1])
    return MergedAxis(merged, np.concatenate([first, np.arange(n, axis.n_cells)]).astype(np.intp))


def merged_sums(table: Array, axes: Sequence[MergedAxis]) -> Array:
    """Return the sums over merged cells, which are along the first axes of a table."""
    for position, each in enumerate(axes):
        table = np.add.reduceat(table, each.first, axis=position)
    return table


def merged_means(values: Array, mass: Array, axes: Sequence[MergedAxis]) -> Array:
    """Return the mean by mass in each merged cell, shape (merged cells..., ...); plain without."""
    if all(len(each.first) == size for each, size in zip(axes, mass.shape, strict=True)):
        return values
    held = np.expand_dims(mass, tuple(range(mass.ndim, values.ndim)))
    weight, count = merged_sums(held, axes), merged_sums(np.ones_like(held), axes)
    plain = merged_sums(values, axes) / count
    by_mass = merged_sums(values * held, axes) / np.where(weight > 0, weight, 1.0)
    return np.where(weight > 0, by_mass, plain)


def in_each_cell(values: Array, mass: Array, merged: MergedAxis) -> Array:
    """Return the mean of the merged cell that each cell is in, of the shape of the values."""
    sizes = np.diff(merged.first, append=len(mass))
    return merged_means(values, mass, (merged,)).repeat(sizes, axis=0)


def _share(part: Array) -> Array:
    total = float(part.sum())
    return part / total if total > 0 else np.full(len(part), 1.0 / len(part))
