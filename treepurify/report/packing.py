"""Tables and their axes, packed for the page, with all that the figures know of an axis."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import AxisLayout, lay_out_axis
from treepurify.plots.axis_ticks import SCALE_NOTES, numeric_ticks
from treepurify.plots.category_order import main_effect_of, order_categories
from treepurify.plots.data_strip import data_density
from treepurify.plots.pair_lines import main_effect_along, means_along
from treepurify.plots.terms import raw_effect
from treepurify.report.scales import AUTOMATIC, Scales
from treepurify.typing import Array

__all__ = ["PackedAxes", "effect_versions", "packed_table"]

# Stands for infinity, which JSON does not have.
_LARGEST = 1e300
# Steps of a table entry: sixteen bits with sign.
_STEPS = 32_000
# About how many ticks an axis may have, from the narrowest place to the widest; None is one for
# each value where these are few.
_TICK_COUNTS = (2, 4, 8, None)


def packed_table(values: Array) -> dict[str, Any]:
    """Return a table as whole steps of its largest entry, two bytes each, outputs first."""
    largest = float(np.max(np.abs(values), initial=0.0))
    step = float(f"{largest / _STEPS:.9g}") if largest > 0 else 1.0
    whole = np.round(np.moveaxis(values, -1, 0) / step)
    # A positive mass must not become zero: few data are not the same as none.
    whole = np.where((whole == 0) & (np.moveaxis(values, -1, 0) > 0), 1, whole)
    data = np.ascontiguousarray(whole, dtype="<i2").tobytes()
    return {"step": step, "data": b64encode(data).decode("ascii")}


def effect_versions(
    d: Decomposition, component: TensorComponent, others: Sequence[Decomposition]
) -> list[Array | None]:
    """Return the effect purified, before purification, and under other measures, where known."""
    subset = component.features
    is_table = isinstance(d.components[subset], TensorComponent)
    versions = [component.values, raw_effect(d, component)]
    for other in others:
        same = other.components.get(subset)
        is_same = isinstance(same, TensorComponent) and same.values.shape == component.values.shape
        versions.append(
            same.values if isinstance(same, TensorComponent) and is_same and is_table else None
        )
    return versions


@dataclass(eq=False)
class PackedAxes:
    """The different axes of the tables, each packed once.

    Parameters
    ----------
    d : Decomposition
        The decomposition of the report.
    others : sequence of Decomposition
        The same model under other measures.
    scales : Scales
        The scale of each feature.
    packed : list of dict
        What the script of the page reads.
    known : dict
        Position and axis by feature and id. The axis is kept because the id of a deleted object
        can be used again.
    """

    d: Decomposition
    others: Sequence[Decomposition] = ()
    scales: Scales = AUTOMATIC
    packed: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[int, int], tuple[int, FeatureAxis]] = field(default_factory=dict)

    def position(
        self, subset: Subset, feature: int, axis: FeatureAxis, mass: Array, *, is_smooth: bool
    ) -> int:
        """Return the position of an axis among the packed ones.

        Parameters
        ----------
        subset : tuple of int
            The effect that the axis is for: main effects come first.
        feature : int
            The feature.
        axis : FeatureAxis
            The axis.
        mass : ndarray of float64, shape (n_cells,)
            Mass of its cells, which is the same in all tables.
        is_smooth : bool
            Whether the cells stand for points of a curve.
        """
        key = (feature, id(axis))
        if key not in self.known:
            self.known[key] = len(self.packed), axis
            scale = self.scales.of(self.d.feature_names[feature])
            layout = lay_out_axis(axis, mass, scale=scale, is_smooth=is_smooth)
            packed = {
                "feature": feature,
                "cells": axis.n_cells,
                "regular": axis.n_regular,
                "labels": axis.labels(),
                "special": _special_places(layout),
            }
            if axis.is_categorical:
                packed["order"] = self._order(feature, axis, mass)
                if is_smooth:
                    values = cell_values(axis, self.d.inputs.features[feature])
                    packed["values"] = [None if np.isnan(value) else value for value in values]
            else:
                packed |= _drawn(axis, layout)
                if is_smooth and layout.spacing == "log":
                    middles = (layout.regular_edges[1:] + layout.regular_edges[:-1]) / 2
                    packed["middles"] = np.round(layout.parts(middles), 6).tolist()
            if len(subset) > 1:
                packed["main"] = self._main_effect(feature, axis, is_smooth=is_smooth)
            elif not axis.is_categorical:
                packed["density"] = packed_table(data_density(layout, mass)[0][:, None])
            self.packed.append(packed)
        return self.known[key][0]

    def _order(self, feature: int, axis: FeatureAxis, mass: Array) -> list[list[int]]:
        """Return the categories as figures have them from first to last, for each output."""
        orders = []
        for output in range(self.d.n_outputs):
            effects = main_effect_of(self.d, feature, axis, output)
            orders.append(order_categories(axis, effects, mass, "effect").tolist())
        return orders

    def _main_effect(
        self, feature: int, axis: FeatureAxis, *, is_smooth: bool
    ) -> list[dict[str, Any] | None]:
        """Return each version of the main effect on the axis of a pair."""
        main = self.d.components.get((feature,))
        versions: list[Array | None] = [
            main_effect_along(self.d, feature, axis, is_smooth=is_smooth)
        ]
        if isinstance(main, TensorComponent) and not is_smooth:
            known = effect_versions(self.d, main, self.others)[1:]
            versions += [
                None if values is None else means_along(main, values, axis) for values in known
            ]
        return [None if values is None else packed_table(values) for values in versions]


def _special_places(layout: AxisLayout) -> list[list[float]]:
    """Return each special cell with data, the gap before it and its width.

    Both as parts of the width of the regular cells.
    """
    places = (layout.places - layout.places[0]) / (
        layout.places[layout.n_regular] - layout.places[0]
    )
    sizes = np.round(np.diff(places[layout.n_regular :]), 4)
    return [
        [int(cell), float(gap), float(width)]
        for cell, gap, width in zip(layout.special_cells, sizes[::2], sizes[1::2], strict=True)
    ]


def _drawn(axis: FeatureAxis, layout: AxisLayout) -> dict[str, Any]:
    """Return where intervals are drawn, and their ticks for narrow and for wide places.

    The edges are in the units of the feature, also where the cells are not to scale.
    """
    ticks: list[list[tuple[float, str]]] = []
    for most in _TICK_COUNTS:
        values, labels = numeric_ticks(layout, most)
        parts = np.round(layout.parts(np.array(values)), 4).tolist()
        placed = list(zip(parts, labels, strict=True))
        if not ticks or len(placed) > len(ticks[-1]):
            ticks.append(placed)
    drawn: dict[str, Any] = {
        "cuts": np.clip(axis.cuts, -_LARGEST, _LARGEST).tolist(),  # type: ignore[arg-type]
        "edges": layout.regular_edges.tolist(),
        "ticks": ticks,
    }
    if layout.spacing != "value":
        drawn["places"] = np.round(layout.places[: layout.n_regular + 1], 6).tolist()
        drawn["note"] = SCALE_NOTES[layout.spacing]
    return drawn
