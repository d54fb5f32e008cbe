"""The axes of the tables of a report, packed for the page."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import ModelInputs
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cell_values
from treepurify.plots.axis_layout import AxisLayout, lay_out_axis

__all__ = ["PackedAxes"]

# Stands for infinity, which JSON does not have.
_LARGEST = 1e300


@dataclass(eq=False)
class PackedAxes:
    """The different axes of the tables, each packed once.

    Parameters
    ----------
    inputs : ModelInputs
        The features.
    packed : list of dict
        What the script of the page reads.
    known : dict
        Position and axis by feature and id; with the axis, for the id of one that is gone can
        come again.
    """

    inputs: ModelInputs
    packed: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[int, int], tuple[int, FeatureAxis]] = field(default_factory=dict)

    def position(
        self, feature: int, axis: FeatureAxis, mass: npt.NDArray[np.float64], *, is_smooth: bool
    ) -> int:
        """Return the position of an axis among the packed ones.

        Parameters
        ----------
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
            packed = {
                "feature": feature,
                "cells": axis.n_cells,
                "regular": axis.n_regular,
                "labels": axis.labels(),
            }
            if axis.cuts is not None:
                packed["cuts"] = np.clip(axis.cuts, -_LARGEST, _LARGEST).tolist()
                packed |= _drawn(lay_out_axis(axis, mass, scale="auto", is_smooth=is_smooth))
            elif is_smooth:
                values = cell_values(axis, self.inputs.features[feature])
                packed["values"] = [None if np.isnan(value) else value for value in values]
            self.packed.append(packed)
        return self.known[key][0]


def _drawn(layout: AxisLayout) -> dict[str, Any]:
    """Return where intervals are drawn, and what is known of the values for the ticks.

    The edges are in the units of the feature, also where the cells are not to scale.
    """
    drawn: dict[str, Any] = {"edges": layout.regular_edges.tolist(), "whole": layout.is_whole}
    if layout.is_ranked:
        drawn["places"] = layout.places[: layout.n_regular + 1].astype(int).tolist()
    if layout.values is not None:
        drawn["slots"] = len(layout.values)
        if not layout.is_whole:
            drawn["two"] = layout.values.tolist()
    return drawn
