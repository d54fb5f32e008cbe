"""The numbers behind the interactive parts of a report: effects and axes, packed for the page."""

import json
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
from treepurify.plots.axis_ticks import SCALE_NOTES, beyond_words, numeric_ticks, tick_steps
from treepurify.plots.category_order import main_effect_of, order_categories, order_of_labels
from treepurify.plots.data_strip import data_density
from treepurify.plots.labels import effect_label, margin_label
from treepurify.plots.limits import cells_that_count
from treepurify.plots.main_effects import cells_from_top
from treepurify.plots.merged_cells import lay_out_merged
from treepurify.plots.pair_lines import line_cells, line_names, main_effect_along, means_along
from treepurify.plots.pairs import LEAST_OPACITY, usual_mass
from treepurify.plots.style import DASHES, sign_colors
from treepurify.plots.terms import raw_effect
from treepurify.progress import ProgressReport, no_report
from treepurify.report.effects_table import known_shares
from treepurify.report.page_rows import ExampleRows, evaluate_examples, initial_row, packed_rows
from treepurify.report.page_tables import (
    Merging,
    PageTable,
    displayed,
    main_tables,
    plan_pairs,
)
from treepurify.report.scales import AUTOMATIC, Scales
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array

__all__ = ["MOST_MAIN_BYTES", "MOST_TABLE_BYTES", "N_VERSIONS", "Payload", "make_payload"]

# The part of the six megabytes of a report that tables of pairs may take.
MOST_TABLE_BYTES = 2_600_000
# And that of main effects, with the edges and labels of their cells.
MOST_MAIN_BYTES = 1_200_000
# Tables of each effect under one measure: purified, before purification, and the mass.
N_VERSIONS = 3
# Colours from the lowest effect to the highest: enough to look continuous.
_N_COLORS = 129

# Stands for infinity, which JSON does not have.
_LARGEST = 1e300
# Steps of a table entry: sixteen bits with sign.
_STEPS = 32_000
# About how many ticks an axis may have, from the narrowest place to the widest; None is one for
# each value where these are few.
_TICK_COUNTS = (2, 4, 8, None)


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
        Their share, and that of the remainder, by which effects rank.
    has_curves : bool
        Whether some effects are no tables, so that the middles of cells stand for them.
    has_remainder : bool
        Whether the effects do not add up to the model.
    n_mains, n_all_mains : int
        Main effects in it, and in the decomposition.
    n_pairs, n_merged, n_merged_mains : int
        Pairs in it, and pairs and main effects whose cells are merged.
    has_means : bool
        Whether of some effects only the means in merged cells are there to be added up.
    pairs_left_out : tuple of str
        Pairs that are not in it.
    share_of_pairs_left_out : float
        Their share.
    n_examples : int
        Example rows whose prediction is known.
    start : str
        What the values are that the reader starts from.
    """

    text: str
    left_out: tuple[str, ...]
    share_left_out: float
    has_curves: bool
    has_remainder: bool
    n_mains: int
    n_all_mains: int
    n_pairs: int
    n_merged: int
    n_merged_mains: int
    has_means: bool
    pairs_left_out: tuple[str, ...]
    share_of_pairs_left_out: float
    n_examples: int
    start: str


def make_payload(
    d: Decomposition,
    others: Sequence[Decomposition] = (),
    X: Any = None,
    *,
    table_bytes: int = MOST_TABLE_BYTES,
    scales: Scales = AUTOMATIC,
    report: ProgressReport = no_report,
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
        About how many bytes the pairs may take; the most important come first.
    scales : Scales
        The scale of each feature.
    report : callable
        Progress.
    """
    whole, d, others = d, displayed(d), [displayed(other) for other in others]
    axes, merging = _PackedAxes(d, others, scales), Merging(d, scales)
    shares, by_output = known_shares(d), _shares_by_output(d)
    n_versions = N_VERSIONS + len(others)
    mains = main_tables(d, n_versions, MOST_MAIN_BYTES)
    plans = plan_pairs(d, n_versions, table_bytes)
    on_page = [*mains, *plans]
    terms = []
    for number, subset in enumerate(on_page):
        report("packing effects", number, len(on_page))
        table = mains[subset] if subset in mains else merging.page_table(plans[subset])
        packed = _packed_term(d, table, axes)
        terms.append(packed | {"share": _rounded(shares[subset]), "shares": by_output[subset]})
    left = [s for s in d.components if s not in mains and s not in plans]
    pairs_left = [s for s in left if len(s) == 2]
    curves = [s for s in on_page if not isinstance(d.components[s], TensorComponent)]
    merged = [s for s, plan in plans.items() if plan.is_merged]
    merged_mains = [s for s, table in mains.items() if table.coarse is not None]
    means = [*merged_mains, *(s for s in merged if not plans[s].has_whole)]
    means += [s for s in on_page if d.components[s] is not whole.components[s] and s not in means]
    columns = None if X is None else d.inputs.columns(X)
    examples = None
    if columns is not None:
        examples = evaluate_examples(whole, columns, on_page, [*curves, *means])
    start, places = initial_row(whole, columns), d.ranking.places
    document = {
        "outputs": list(d.output_names),
        "features": list(d.feature_names),
        "intercept": d.intercept.tolist(),
        "label": [effect_label(d, k) for k in range(d.n_outputs)],
        "margin": [margin_label(d, k) for k in range(d.n_outputs)],
        "curves": _curve_names(d, others),
        "dashes": DASHES,
        "colors": sign_colors(_N_COLORS),
        "opacity": LEAST_OPACITY,
        "steps": tick_steps(_largest_effect(terms)),
        "terms": terms,
        "order": sorted(range(len(terms)), key=lambda i: places[on_page[i]]),
        "output": _first_output(d, on_page),
        "axes": axes.packed,
        "rows": [] if columns is None else packed_rows(columns),
        "examples": None if examples is None else _packed_examples(examples, on_page),
        "start": {"example": start.example, "row": start.row},
        "remainder": d.remainder is not None,
        "missing": len(left),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return Payload(
        text=text.replace("<", "\\u003c"),
        left_out=tuple(d.term_name(s) for s in left),
        share_left_out=sum(shares[s] for s in [*left, *([()] if () in shares else [])]),
        has_curves=bool(curves),
        has_remainder=d.remainder is not None,
        n_mains=len(mains),
        n_all_mains=sum(len(subset) == 1 for subset in d.components),
        n_pairs=len(plans),
        n_merged=len(merged),
        n_merged_mains=len(merged_mains),
        has_means=bool(means),
        pairs_left_out=tuple(d.term_name(s) for s in pairs_left),
        share_of_pairs_left_out=float(sum(shares[s] for s in pairs_left)),
        n_examples=0
        if examples is None or examples.prediction is None
        else len(examples.prediction),
        start=start.words,
    )


def _shares_by_output(d: Decomposition) -> dict[Subset, list[float | None]]:
    """Return the share of each effect on each output, by which effects rank."""
    known = d.covariances if d.ranking.sort_by == "covariance" else None
    sizes = known or {subset: part.variance for subset, part in d.components.items()}
    parts = [*sizes.values()]
    if known is None and d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        parts.append(d.remainder.variance)
    total = np.sum(parts, axis=0) if parts else np.zeros(d.n_outputs)
    is_varying = total > 0
    shares = {
        subset: np.where(is_varying, size / np.where(is_varying, total, 1.0), 0.0)
        for subset, size in sizes.items()
    }
    unknown = np.isnan(total)
    return {
        subset: [
            None if is_unknown else _rounded(value)
            for value, is_unknown in zip(share, unknown, strict=True)
        ]
        for subset, share in shares.items()
    }


def _curve_names(d: Decomposition, others: Sequence[Decomposition]) -> list[str]:
    words = "purified" if not others else f"purified, {d.measure}"
    return [words, "before purification", *(f"purified, {other.measure}" for other in others)]


def _largest_effect(terms: Sequence[dict[str, Any]]) -> float:
    """Return the largest end of a range, in absolute value."""
    curves = [curve for term in terms for curve in term["curves"] if curve is not None]
    ranges = [ends[:2] for curve in curves for ends in curve["ends"]]
    return float(np.max(np.abs(ranges), initial=0.0))


def _first_output(d: Decomposition, subsets: Sequence[Subset]) -> int:
    """Return the output on which effects are largest, the first one where that is not known."""
    variances = [d.components[subset].variance for subset in subsets]
    return int(np.argmax(np.nan_to_num(np.sum(variances, axis=0)))) if variances else 0


@dataclass(eq=False)
class _PackedAxes:
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
        self,
        subset: Subset,
        feature: int,
        axis: FeatureAxis,
        mass: Array,
        *,
        is_smooth: bool,
        layout: AxisLayout | None = None,
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
        layout : AxisLayout, optional
            Where its figure draws the cells, if that is known.
        """
        key = (feature, id(axis))
        if key not in self.known:
            self.known[key] = len(self.packed), axis
            scale = self.scales.of(self.d.feature_names[feature])
            options: dict[str, Any] = {"scale": scale, "is_smooth": is_smooth}
            if layout is None:
                _, layout = lay_out_merged(self.d, feature, axis, mass, most=None, **options)
            has_part = layout.whole_edges is not None
            whole = lay_out_axis(axis, mass, **options) if has_part else layout
            packed = {
                "feature": feature,
                "cells": axis.n_cells,
                "regular": axis.n_regular,
                "labels": axis.labels(),
                "special": _special_places(whole),
            }
            if axis.is_categorical:
                packed["order"] = self._order(feature, axis, mass)
                if self.d.inputs.features[feature].unnamed:
                    packed["codes"] = _cells_of_codes(self.d.inputs.features[feature], axis)
                if is_smooth:
                    values = cell_values(axis, self.d.inputs.features[feature])
                    packed["values"] = [None if np.isnan(value) else value for value in values]
            else:
                held = mass if len(subset) == 1 else None
                packed["labelled"] = axis.has_labels
                packed["cuts"] = np.clip(axis.cuts, -_LARGEST, _LARGEST).tolist()  # type: ignore[arg-type]
                packed |= _drawn(whole, held, is_smooth=is_smooth)
                if has_part:
                    packed["central"] = _drawn(layout, held, is_smooth=is_smooth)
            if len(subset) > 1:
                packed["main"] = self._main_effect(feature, axis, is_smooth=is_smooth)
            self.packed.append(packed)
        place = self.known[key][0]
        if len(subset) > 1 and "lines" not in self.packed[place]:
            self.packed[place]["lines"] = _packed_lines(axis, mass, is_smooth=is_smooth)
        return place

    def _order(self, feature: int, axis: FeatureAxis, mass: Array) -> list[list[int]]:
        """Return the categories as figures have them from first to last, for each output."""
        orders, labels = [], order_of_labels(self.d, feature)
        for output in range(self.d.n_outputs):
            effects = main_effect_of(self.d, feature, axis, output)
            order = order_categories(axis, effects, mass, ordered_labels=labels)
            orders.append(order.tolist())
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
            known = _effect_versions(self.d, main, self.others)[1:]
            versions += [
                None if values is None else means_along(main, values, axis) for values in known
            ]
        return [None if values is None else _packed_table(values) for values in versions]


def _cells_of_codes(spec: FeatureSpec, axis: FeatureAxis) -> list[int]:
    """Return the cell of each code where those without a label share one, and of others; or -1."""
    cells = np.full(spec.n_codes, axis.n_regular - 1)
    cells[np.delete(np.arange(spec.n_codes), spec.unnamed)] = np.arange(axis.n_regular - 1)
    return [*cells.tolist(), -1 if axis.other_cell is None else axis.other_cell]


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


def _drawn(layout: AxisLayout, mass: Array | None, *, is_smooth: bool) -> dict[str, Any]:
    """Return where cells are drawn, their ticks for narrow and for wide places, and what is said.

    With the density of the mass, where that is given. The edges are in the units of the feature,
    also where the cells are not to scale.
    """
    ticks: list[list[tuple[float, str]]] = []
    for most in _TICK_COUNTS:
        values, labels = numeric_ticks(layout, most)
        parts = np.round(layout.parts(np.array(values)), 4).tolist()
        placed = list(zip(parts, labels, strict=True))
        if not ticks or len(placed) > len(ticks[-1]):
            ticks.append(placed)
    drawn: dict[str, Any] = {
        "edges": layout.regular_edges.tolist(),
        "ticks": ticks,
        "special": _special_places(layout),
        "notes": [words for words in (SCALE_NOTES[layout.spacing], *beyond_words(layout)) if words],
    }
    if layout.spacing != "value":
        drawn["places"] = np.round(layout.places[: layout.n_regular + 1], 6).tolist()
    if is_smooth and layout.spacing == "log":
        middles = (layout.regular_edges[1:] + layout.regular_edges[:-1]) / 2
        drawn["middles"] = np.round(layout.parts(middles), 6).tolist()
    if mass is not None:
        drawn["density"] = _packed_table(data_density(layout, mass)[0][:, None])
    return drawn


def _packed_term(d: Decomposition, table: PageTable, axes: _PackedAxes) -> dict[str, Any]:
    component, subset = table.component, table.component.features
    versions = _effect_versions(d, component, axes.others)
    is_smooth = not isinstance(d.components[subset], TensorComponent)
    mass = table.mass
    layouts = table.layouts or (None,) * len(subset)
    along = zip(subset, table.axes, _margins(mass), layouts, strict=True)
    packed: dict[str, Any] = {
        "name": d.term_name(subset),
        "features": list(subset),
        "axes": [
            axes.position(subset, feature, axis, held, is_smooth=is_smooth, layout=layout)
            for feature, axis, held, layout in along
        ],
        "output": _first_output(d, [subset]),
        "smooth": is_smooth,
        "merged": None if table.coarse is None else [axis.n_regular for axis in component.axes],
        "curves": [
            None if values is None else _packed_curve(table.shown(values), mass, table.axes)
            for values in versions
        ],
        "mass": _packed_table(mass[..., None]),
    }
    if len(subset) == 2:
        packed["usual"] = _rounded(usual_mass(mass))
    if table.has_whole:
        all_cells = zip(subset, component.axes, _margins(component.mass), strict=True)
        packed["whole"] = {
            "axes": [
                axes.position((feature,), feature, axis, held, is_smooth=is_smooth)
                for feature, axis, held in all_cells
            ],
            "curves": [_packed_table(component.values)],
        }
    if len(subset) == 1 and table.axes[0].is_categorical:
        packed["cells"] = [
            cells_from_top(
                component, effects, ordered_labels=order_of_labels(d, subset[0])
            ).tolist()
            for effects in component.values.T
        ]
        packed["pale"] = [
            np.flatnonzero(~cells_that_count(effects, mass, table.axes)).tolist()
            for effects in component.values.T
        ]
    return packed


def _margins(mass: Array) -> list[Array]:
    """Return the mass along each feature."""
    return [mass.sum(axis=tuple({*range(mass.ndim)} - {k})) for k in range(mass.ndim)]


def _packed_curve(values: Array, mass: Array, axes: Sequence[FeatureAxis]) -> dict[str, Any]:
    """Return one version of an effect, with its range in the cells that count, per output."""
    ends = []
    for effects in np.moveaxis(values, -1, 0):
        counts = cells_that_count(effects, mass, axes)
        shown = effects[counts] if counts.any() else effects
        ends.append([_rounded(shown.min()), _rounded(shown.max())])
    return _packed_table(values) | {"ends": ends}


def _packed_table(values: Array) -> dict[str, Any]:
    """Return a table as whole steps of its largest entry, two bytes each, outputs first."""
    largest = float(np.max(np.abs(values), initial=0.0))
    step = float(f"{largest / _STEPS:.9g}") if largest > 0 else 1.0
    whole = np.round(np.moveaxis(values, -1, 0) / step)
    # A positive mass must not become zero: few data are not the same as none.
    whole = np.where((whole == 0) & (np.moveaxis(values, -1, 0) > 0), 1, whole)
    data = np.ascontiguousarray(whole, dtype="<i2").tobytes()
    return {"step": step, "data": b64encode(data).decode("ascii")}


def _effect_versions(
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


def _rounded(value: float) -> float:
    """Return a number with as many digits as the page needs to show any of it."""
    return float(f"{value:.6g}")


def _packed_lines(axis: FeatureAxis, mass: Array, *, is_smooth: bool) -> dict[str, Any]:
    """Return the cells of one feature of a pair at which the other one is drawn as lines."""
    cells = line_cells(axis, mass)
    names = line_names(axis, mass, cells, is_smooth=is_smooth)
    labels = axis.labels()
    return {"cells": cells, "names": None if names == [labels[cell] for cell in cells] else names}


def _packed_examples(examples: ExampleRows, on_page: Sequence[Subset]) -> dict[str, Any]:
    return {
        "prediction": _listed(examples.prediction),
        "remainder": _listed(examples.remainder),
        "missing": _listed(examples.left_out),
        "exact": {
            str(on_page.index(subset)): _packed_table(values)
            for subset, values in examples.exact.items()
        },
    }


def _listed(values: Array | None) -> list[list[float]] | None:
    return None if values is None else values.tolist()
