"""Tables of one effect in several decompositions, on common cells, so that figures line up."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import Scale, lay_out_axis

__all__ = ["can_be_joined", "common_scale", "on_common_axes"]

# Most cells of a table: with more, a figure shows none of them, and each table takes 30 MB.
_MOST_CELLS = 4_000_000


def can_be_joined(
    decompositions: Sequence[Decomposition],
    key: tuple[str, ...],
    tables: Sequence[TensorComponent],
) -> bool:
    """Return whether an effect can stand on the cuts of all: tables without bands, not too large.

    Parameters
    ----------
    decompositions : sequence of Decomposition
        The decompositions.
    key : tuple of str
        The features.
    tables : sequence of TensorComponent
        The effect in each.
    """
    if not tables or not all(isinstance(d[key], TensorComponent) for d in decompositions):
        return False
    # A band has the cells of the trainings.
    if any(d.spread is not None for d in decompositions):
        return False
    lengths = (sum(_named(t, axis.name).n_cells for t in tables) for axis in tables[0].axes)
    return prod(lengths) <= _MOST_CELLS


def on_common_axes(
    decompositions: Sequence[Decomposition], tables: Sequence[TensorComponent]
) -> list[Decomposition]:
    """Return the decompositions with an effect on the cuts and between the bounds of all of them.

    No value changes: cells are split, and each part gets the same mass.

    Parameters
    ----------
    decompositions : sequence of Decomposition
        The decompositions.
    tables : sequence of TensorComponent
        The effect in each, over features of the same names.
    """
    numeric = {
        axis.name: _joined([_named(t, axis.name) for t in tables]) for axis in tables[0].axes
    }
    return [
        replace(d, components={**d.components, table.features: _refined(table, numeric)})
        for d, table in zip(decompositions, tables, strict=True)
    ]


def common_scale(table: TensorComponent, name: str, asked: Scale) -> Scale:
    """Return the scale of one table along a feature, for all tables that are shown with it."""
    which = [axis.name for axis in table.axes].index(name)
    others = tuple(w for w in range(len(table.axes)) if w != which)
    return lay_out_axis(table.axes[which], table.mass.sum(axis=others), scale=asked).spacing


def _named(table: TensorComponent, name: str) -> FeatureAxis:
    return next(axis for axis in table.axes if axis.name == name)


def _joined(axes: Sequence[FeatureAxis]) -> FeatureAxis | None:
    """Return an axis with the cuts of all; None for categories."""
    if any(axis.cuts is None for axis in axes):
        return None
    cuts = np.unique(np.concatenate([axis.cuts for axis in axes if axis.cuts is not None]))
    bounds = [axis.bounds for axis in axes if axis.bounds is not None]
    central = [axis.central for axis in axes if axis.central is not None]
    return replace(axes[0], cuts=cuts, bounds=_widest(bounds), central=_widest(central))


def _widest(ranges: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Return the range that holds all of them; None without any."""
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _refined(table: TensorComponent, numeric: dict[str, FeatureAxis | None]) -> TensorComponent:
    values, mass, axes = table.values, table.mass, list(table.axes)
    for which, axis in enumerate(table.axes):
        joined = numeric[axis.name]
        if joined is None:
            continue
        axes[which] = replace(axis, cuts=joined.cuts, bounds=joined.bounds, central=joined.central)
        of_part = axes[which].cells_in(axis)
        parts = np.bincount(of_part, minlength=axis.n_cells)[of_part]
        values = values.take(of_part, axis=which)
        shape = [1] * mass.ndim
        shape[which] = len(parts)
        mass = mass.take(of_part, axis=which) / parts.reshape(shape)
    return replace(table, values=values, mass=mass, axes=tuple(axes), raw=None)
