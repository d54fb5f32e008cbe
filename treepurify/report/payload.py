"""The numbers behind the interactive parts of a report, packed for the page."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, TensorComponent, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.terms import effect_label, margin_label, raw_effect

__all__ = ["Payload", "make_payload"]

Array = npt.NDArray[np.float64]

# Of the six megabytes that a report may have, so much is for tables of pairs.
MOST_TABLE_BYTES = 2_600_000
_MOST_CELLS_A_PAIR = 60_000
_BYTES_A_CELL = 2.7
# Components that are no tables are evaluated, which may call a function very often.
_MOST_EVALUATED_PAIRS = 40
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
    has_curves : bool
        Whether some effects are no tables, so that the middles of cells stand for them.
    """

    text: str
    left_out: tuple[str, ...]
    share_left_out: float
    has_curves: bool


@dataclass(eq=False)
class _Axes:
    """The different axes of the tables, each packed once."""

    d: Decomposition
    packed: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def position(self, feature: int, axis: FeatureAxis, *, is_table: bool) -> int:
        key = (feature, id(axis))
        if key not in self.known:
            self.known[key] = len(self.packed)
            packed = _packed_axis(feature, axis)
            if axis.cuts is not None and axis.bounds is not None and not is_table:
                # The first and the last middle are where the curve was evaluated.
                packed["edges"] = [axis.bounds[0], *axis.cuts.tolist(), axis.bounds[1]]
            elif not is_table:
                values = cell_values(axis, self.d.inputs.features[feature])
                packed["values"] = [None if np.isnan(value) else value for value in values]
            self.packed.append(packed)
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
    axes = _Axes(d)
    mains = {
        s: table
        for s, component in d.components.items()
        if len(s) == 1 and (table := tabulate(component, d.inputs)) is not None
    }
    pairs = _chosen_pairs(d, table_bytes / (2 + len(others)))
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
    share = _share(d, left, with_remainder=True)
    has_curves = any(not isinstance(d.components[s], TensorComponent) for s in mains | pairs)
    names = tuple(d.term_name(s) for s in left)
    return Payload(text.replace("<", "\\u003c"), names, share, has_curves)


def _chosen_pairs(d: Decomposition, table_bytes: float) -> dict[Subset, TensorComponent]:
    """Return tables of the most important pairs that fit."""
    can_be: list[tuple[Subset, Component]] = [
        (s, c)
        for s, c in d.components.items()
        if len(s) == 2 and (isinstance(c, TensorComponent) or is_drawable(c))
    ]
    can_be.sort(key=lambda entry: -float(np.nansum(entry[1].variance)))
    pairs: dict[Subset, TensorComponent] = {}
    evaluated = 0
    for subset, component in can_be:
        if not isinstance(component, TensorComponent):
            evaluated += 1
            if evaluated > _MOST_EVALUATED_PAIRS:
                continue
        table = tabulate(component, d.inputs)
        if table is None or table.values.size > _MOST_CELLS_A_PAIR * d.n_outputs:
            continue
        cost = _BYTES_A_CELL * table.values.size
        if cost <= table_bytes:
            pairs[subset] = table
            table_bytes -= cost
    return pairs


def _share(d: Decomposition, subsets: Sequence[Subset], *, with_remainder: bool = False) -> float:
    total = float(np.sum([component.variance for component in d.components.values()]))
    part = float(np.sum([d.components[s].variance for s in subsets])) if subsets else 0.0
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        rest = float(np.sum(d.remainder.variance))
        total, part = total + rest, part + rest * with_remainder
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
    is_table = isinstance(d.components[subset], TensorComponent)
    curves = [component.values, raw_effect(d, component)]
    for other in others:
        same = other.components.get(subset)
        is_same = isinstance(same, TensorComponent) and same.values.shape == component.values.shape
        curves.append(
            same.values if isinstance(same, TensorComponent) and is_same and is_table else None
        )
    named = zip(subset, component.axes, strict=True)
    return {
        "name": d.term_name(subset),
        "features": list(subset),
        "axes": [axes.position(j, axis, is_table=is_table) for j, axis in named],
        "share": _share(d, [subset]),
        "smooth": not is_table,
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
