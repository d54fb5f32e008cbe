"""One prediction: what the script of a page needs to add effects up for values that it is given."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.components import (
    TensorComponent,
    evaluate_each,
    for_display,
    locate_cells,
    tabulate,
)
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.labels import margin_label
from treepurify.plots.row_parts import value_words
from treepurify.report.page import Section
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices

PLACE = "prediction"
# Numbers in the tables that a page holds, about eight bytes each.
_MOST_NUMBERS = 250_000
_DIGITS = 5


def prediction_section(d: Decomposition, data: dict[str, Any]) -> Section | None:
    """Return the place where a reader puts a prediction together; None without effects."""
    if not data["terms"]:
        return None
    n_examples, left_out = len(data["examples"]), len(d) - len(data["terms"])
    text = "Choose a value for each feature and see how the prediction is built up."
    if d.remainder is not None or left_out:
        parts = [f"{left_out} effects that are not on this page"] if left_out else []
        parts += ["the remainder, which needs the model itself"] * (d.remainder is not None)
        text = (
            "Choose a value for each feature and see the sum of the effects. It leaves out "
            f"{' and '.join(parts)}, so it is not the prediction."
        )
        text += " For the example rows nothing is left out." if n_examples else ""
    if any(not isinstance(d.components[subset], TensorComponent) for subset in d.components):
        text += " Smooth effects are read at the middle of an interval."
    start = "the first example" if n_examples else "the most frequent value of each feature"
    return Section("One prediction", [f"{text} It starts from {start}."], place=PLACE)


def prediction_data(d: Decomposition, X: Any = None) -> dict[str, Any]:
    """Return the tables of effects, and example rows with what the model says of them.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like or table, optional
        Example rows.
    """
    tables = _tables(d)
    axes: dict[int, list[FeatureAxis]] = {}
    for subset, table in tables.items():
        for j, axis in zip(subset, table.axes, strict=True):
            axes.setdefault(j, []).append(axis)
    finest = {j: _finest(own) for j, own in sorted(axes.items())}
    # The most frequent cell of a feature is that of its smallest effect on the page.
    mass: dict[int, Array] = {}
    last_first = list(reversed(tables))
    for subset in sorted(last_first, key=len):
        for which, j in enumerate(subset):
            if j not in mass:
                table = tables[subset]
                others = tuple(k for k in range(len(subset)) if k != which)
                mass[j] = table.mass.sum(axis=others)[finest[j].cells_in(table.axes[which])]
    place = {j: number for number, j in enumerate(finest)}
    return {
        "outputs": list(d.output_names),
        "margin": [margin_label(d, k) for k in range(d.n_outputs)],
        "intercept": d.intercept.tolist(),
        "is_whole": d.remainder is None and len(tables) == len(d),
        "features": [
            {"name": axis.name, "labels": axis.labels(), "start": int(np.argmax(mass[j]))}
            for j, axis in finest.items()
        ],
        "terms": [
            {
                "name": d.term_name(subset),
                "features": [place[j] for j in subset],
                "maps": [
                    finest[j].cells_in(axis).tolist()
                    for j, axis in zip(subset, table.axes, strict=True)
                ],
                "sizes": list(table.mass.shape),
                "values": [_rounded(table.values[..., k]) for k in range(d.n_outputs)],
            }
            for subset, table in tables.items()
        ],
        "examples": [] if X is None else _examples(d, d.inputs.columns(X), tables, finest),
    }


def _tables(d: Decomposition) -> dict[Subset, TensorComponent]:
    """Return the tables that fit a page, those of the leading effects first."""
    space = _MOST_NUMBERS
    tables = {}
    for subset in filter(None, d.ranking.order):
        component = d.components[subset]
        if isinstance(component, TensorComponent) and component.n_cells * d.n_outputs > space:
            continue
        table = tabulate(component, d.inputs)
        if table is None or table.n_cells * d.n_outputs > space:
            continue
        tables[subset] = for_display(table)
        space -= table.n_cells * d.n_outputs
    return tables


def _finest(axes: Sequence[FeatureAxis]) -> FeatureAxis:
    """Return an axis whose cells lie in one cell of each of the others."""
    largest = max(axes, key=lambda axis: axis.n_cells)
    if largest.cuts is None:
        return largest
    cuts = np.unique(np.concatenate([axis.cuts for axis in axes if axis.cuts is not None]))
    return replace(largest, cuts=cuts)


def _examples(
    d: Decomposition,
    columns: Columns,
    tables: dict[Subset, TensorComponent],
    finest: dict[int, FeatureAxis],
) -> list[dict[str, Any]]:
    """Return for each row its cells, what each effect adds exactly, and the prediction."""
    values = dict(zip(d.components, evaluate_each(d.components.values(), columns), strict=True))
    explained = d.intercept + np.sum([*values.values()], axis=0)
    prediction: Array | None = explained
    if d.remainder is not None:
        try:
            prediction = d.on_rows(columns)
        except InvalidInputError:
            prediction = None  # it was loaded without the function that was decomposed
    left_out = np.sum([values[s] for s in d.components if s not in tables], axis=0)
    cells = {j: _cells(d, columns, j, axis) for j, axis in finest.items()}
    return [
        {
            "cells": [int(own[i]) for own in cells.values()],
            "words": [value_words(d, columns, j, i) for j in finest],
            "effects": [_rounded(values[subset][i]) for subset in tables],
            "left_out": _rounded(np.broadcast_to(left_out, explained.shape)[i]),
            "remainder": None
            if d.remainder is None or prediction is None
            else _rounded((prediction - explained)[i]),
            "prediction": None if prediction is None else _rounded(prediction[i]),
        }
        for i in range(columns.n_rows)
    ]


def _cells(d: Decomposition, columns: Columns, feature: int, axis: FeatureAxis) -> Indices:
    """Return the cell of each row along an axis on which categories without labels are one."""
    axes = [
        each
        for component in d.tensor_components().values()
        for j, each in zip(component.features, component.axes, strict=True)
        if j == feature and each.unnamed
    ]
    if not axes:
        return locate_cells(columns, feature, axis)
    known = axes[0]
    places = {label: cell for cell, label in enumerate(axis.labels())}
    new = [places.get(label, axis.n_regular - 1) for label in known.labels()]
    return np.array(new)[locate_cells(columns, feature, known)]


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in np.ravel(values)]
