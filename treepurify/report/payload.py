"""The numbers behind the interactive parts of a report, packed for the page."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.terms import effect_label, margin_label, raw_effect

__all__ = ["Payload", "make_payload"]

Array = npt.NDArray[np.float64]

# Of the six megabytes that a report may have, so much is for tables of pairs.
MOST_TABLE_BYTES = 2_600_000
_MOST_CELLS_A_PAIR = 60_000
_BYTES_A_CELL = 2.7
# Steps of a table entry: sixteen bits with sign.
_STEPS = 32_000


@dataclass(frozen=True, eq=False)
class Payload:
    """What the script of the page reads.

    Parameters
    ----------
    text : str
        A JSON document, safe inside a ``<script>`` element.
    left_out : tuple of str
        Effects that are not in it, for its size or for their order.
    share_left_out : float
        Their share of the sum of the variances of the components.
    """

    text: str
    left_out: tuple[str, ...]
    share_left_out: float


@dataclass(eq=False)
class _Axes:
    """The different axes of the tables, each packed once."""

    packed: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def position(self, feature: int, axis: FeatureAxis) -> int:
        key = (feature, id(axis))
        if key not in self.known:
            self.known[key] = len(self.packed)
            self.packed.append(_packed_axis(feature, axis))
        return self.known[key]


def make_payload(
    d: Decomposition,
    others: Sequence[Decomposition] = (),
    X: Any = None,
    *,
    table_bytes: int = MOST_TABLE_BYTES,
) -> Payload:
    """Return main effects and pairs, under every measure, as JSON.

    Parameters
    ----------
    d : Decomposition
        The decomposition of the report.
    others : sequence of Decomposition
        The same model under other measures, on the same cells.
    X : array_like or table, optional
        Rows offered as examples.
    table_bytes : int
        About how much pairs may take; the most important come first.
    """
    axes = _Axes()
    tensors = d.tensor_components()
    mains = {s: c for s, c in tensors.items() if len(s) == 1}
    order = sorted(
        (s for s in tensors if len(s) == 2), key=lambda s: -float(tensors[s].variance.sum())
    )
    pairs: dict[Subset, TensorComponent] = {}
    budget = float(table_bytes)
    for subset in order:
        size = tensors[subset].values.size
        cost = _BYTES_A_CELL * size * (2 + len(others))
        if size <= _MOST_CELLS_A_PAIR * d.n_outputs and cost <= budget:
            pairs[subset] = tensors[subset]
            budget -= cost
    left = [s for s in d.components if s not in mains and s not in pairs]
    document = {
        "outputs": list(d.output_names),
        "features": list(d.feature_names),
        "intercept": d.intercept.tolist(),
        "label": [effect_label(d, k) for k in range(d.n_outputs)],
        "margin": [margin_label(d, k) for k in range(d.n_outputs)],
        "curves": _curve_names(d, others),
        "terms": [
            _packed_term(d, subset, component, others, axes)
            for subset, component in (mains | pairs).items()
        ],
        "axes": axes.packed,
        "rows": _packed_rows(d, X),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    share = _share(d, left)
    return Payload(text.replace("<", "\\u003c"), tuple(d.term_name(s) for s in left), share)


def _share(d: Decomposition, subsets: Sequence[Subset]) -> float:
    total = float(np.sum([component.variance for component in d.components.values()]))
    part = float(np.sum([d.components[s].variance for s in subsets])) if subsets else 0.0
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        rest = float(np.sum(d.remainder.variance))
        total, part = total + rest, part + rest
    return part / total if total > 0 else 0.0


def _curve_names(d: Decomposition, others: Sequence[Decomposition]) -> list[str]:
    words = "purified" if not others else f"purified, {d.measure}"
    return [words, "before purification", *(f"purified, {other.measure}" for other in others)]


def _packed_axis(feature: int, axis: FeatureAxis) -> dict[str, Any]:
    layout = lay_out_axis(axis)
    packed: dict[str, Any] = {
        "feature": feature,
        "cells": axis.n_cells,
        "regular": axis.n_regular,
        "labels": axis.labels(),
    }
    if axis.cuts is not None:
        packed["cuts"] = np.clip(axis.cuts, -1e300, 1e300).tolist()
        packed["edges"] = layout.regular_edges.tolist()
    return packed


def _packed_term(
    d: Decomposition,
    subset: Subset,
    component: TensorComponent,
    others: Sequence[Decomposition],
    axes: _Axes,
) -> dict[str, Any]:
    curves = [component.values, raw_effect(d, component)]
    for other in others:
        same = other.components.get(subset)
        is_same = isinstance(same, TensorComponent) and same.values.shape == component.values.shape
        curves.append(same.values if isinstance(same, TensorComponent) and is_same else None)
    return {
        "name": d.term_name(subset),
        "features": list(subset),
        "axes": [axes.position(j, axis) for j, axis in zip(subset, component.axes, strict=True)],
        "share": _share(d, [subset]),
        "curves": [None if values is None else _packed_table(values) for values in curves],
        "mass": _packed_table(component.mass[..., None]),
    }


def _packed_table(values: Array) -> dict[str, Any]:
    """Return a table as whole steps of its largest entry, two bytes each, outputs first."""
    largest = float(np.max(np.abs(values), initial=0.0))
    step = largest / _STEPS if largest > 0 else 1.0
    whole = np.round(np.moveaxis(values, -1, 0) / step)
    # What is not zero must not become it: without data is another thing than with few.
    whole = np.where((whole == 0) & (np.moveaxis(values, -1, 0) > 0), 1, whole)
    data = np.ascontiguousarray(whole, dtype="<i2").tobytes()
    return {"step": step, "data": b64encode(data).decode("ascii")}


def _packed_rows(d: Decomposition, X: Any) -> list[list[float | None]]:
    """Return example rows: numbers, codes of categories, None for missing."""
    if X is None:
        return []
    columns = d.inputs.columns(X)
    matrix = columns.matrix()
    matrix = np.where(np.isfinite(matrix), matrix, np.where(np.isnan(matrix), np.nan, 1e300))
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
