"""A decomposition as a JSON document, for other languages, and the schema of such documents."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.arguments import check_result
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.links import Link
from treepurify.storage import write_atomically
from treepurify.typing import Array

__all__ = ["json_schema", "to_json"]

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}


def to_json(d: Decomposition, path: str | Path | None = None) -> str:
    """Return a decomposition as JSON, and write it to a file if `path` is passed.

    Parameters
    ----------
    d : Decomposition
        A decomposition whose effects are tables of cells.
    path : str or Path, optional
        The file to write; an existing one is replaced.

    Returns
    -------
    str
        A JSON object with ``format``, ``version``, ``measure`` (the distribution), ``engine``,
        ``link``, ``outputs``, ``class_labels`` (empty if unknown), ``features``,
        ``derived_features`` (columns that rows must have in addition to the raw ones, each with
        ``name`` and ``made_from``), ``intercept``, ``certificate``, ``has_remainder`` (whether
        there is a remainder, which is not in the document) and ``components`` (the effects).

        Each effect has ``features``; ``axes``, which contains for each feature its ``cuts`` or
        ``categories``, the ``labels`` of all cells, the special ones last, and whether there are
        special ones (``has_other``, ``has_missing``); ``variance`` (outputs) under the
        distribution; ``values`` (cells..., outputs) on the margin scale; and ``mass`` (cells...).
        In the certificate, NaN is null; infinite cuts are text. `json_schema` returns the schema of
        the document.

    Raises
    ------
    InvalidInputError
        If an effect is not a table of cells, or the folder does not exist.

    See Also
    --------
    treepurify.export.json_schema : The schema of the document.
    treepurify.export.to_excel : The effects as a workbook.

    Examples
    --------
    >>> import json, numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import to_json
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> json.loads(to_json(d))["components"][0]["values"]
    [[-0.25], [0.25]]
    """
    check_result("d", d, Decomposition)
    document = {
        "format": "treepurify decomposition",
        "version": 1,
        "measure": d.measure,
        "engine": d.engine,
        "link": _link(d.link),
        "outputs": list(d.output_names),
        "class_labels": [] if d.origin.model is None else list(d.origin.model.class_labels),
        "features": list(d.feature_names),
        "derived_features": [
            {"name": spec.name, "made_from": list(spec.made_from)}
            for spec in d.inputs.features
            if spec.made_from
        ],
        "intercept": d.intercept.tolist(),
        "certificate": None if d.certificate is None else _plain(asdict(d.certificate)),
        "has_remainder": d.remainder is not None,
        "components": [
            _component(d, subset, component) for subset, component in d.components.items()
        ],
    }
    text = json.dumps(document, allow_nan=False)
    if path is not None:
        write_atomically(path, text.encode("utf-8"))
    return text


def _link(link: Link) -> dict[str, Any]:
    """Return name and scale, and of a calibration what else makes it; code is left out."""
    asked = ("name", "scale")
    fields = asdict(replace(link, undo=None))
    return {k: v for k, v in fields.items() if k in asked or v not in (0.0, (), None)}


def _component(d: Decomposition, subset: tuple[int, ...], component: Any) -> dict[str, Any]:
    if not isinstance(component, TensorComponent):
        raise InvalidInputError(
            f"to_json needs effects that are tables; {d.term_name(subset)!r} is not. Use "
            "d.save(path), or d.to_frame() of the effect"
        )
    return {
        "features": [d.feature_names[j] for j in subset],
        "axes": [_axis(axis) for axis in component.axes],
        "variance": component.variance.tolist(),
        "values": component.values.tolist(),
        "mass": component.mass.tolist(),
    }


def _axis(axis: FeatureAxis) -> dict[str, Any]:
    special = {"has_other": axis.has_other, "has_missing": axis.has_missing}
    if axis.cuts is not None:
        return {"cuts": _numbers(axis.cuts), "labels": axis.labels(), **special}
    categories = [str(label) for label in axis.categories]
    return {"categories": categories, "labels": axis.labels(), **special}


def _numbers(values: Array) -> list[float | str]:
    return [float(value) if np.isfinite(value) else str(value) for value in values]


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in facts.items()
    }


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the documents that `to_json` writes.

    Returns
    -------
    dict
        The schema. It describes every field and lists those that are always present.

    See Also
    --------
    treepurify.export.to_json : The effects as JSON.

    Examples
    --------
    >>> from treepurify.export import json_schema
    >>> json_schema()["required"][:4]
    ['format', 'version', 'measure', 'engine']
    """
    fields = {
        "format": {"const": "treepurify decomposition"},
        "version": {"const": 1},
        "measure": _described(_TEXT, "The distribution that the effects refer to, in words."),
        "engine": _described(_TEXT, "The engine that computed the decomposition."),
        "link": _link_schema(),
        "outputs": _described(_list_of(_TEXT), "Names of the outputs of the model."),
        "class_labels": _described(
            _list_of({"type": ["string", "number", "boolean"]}),
            "Labels that a classifier predicts, two for one output; empty if unknown.",
        ),
        "features": _described(_list_of(_TEXT), "Names of all features, in the model's order."),
        "derived_features": _list_of(_derived_schema()),
        "intercept": _described(_list_of(_NUMBER), "Mean of the margin, one number per output."),
        "certificate": {
            "type": ["object", "null"],
            "description": "How exact the effects are; an unknown number is null.",
        },
        "has_remainder": _described(
            _FLAG, "Whether the model has a remainder: a part that is not in these effects."
        ),
        "components": _list_of(_component_schema()),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "treepurify decomposition",
        "description": "The margin of a row is the intercept plus the value of each component in "
        "the cell of the row.",
        **_object(fields),
        "$defs": {
            "table": {
                "description": "Nested lists, one level for each axis and then one for outputs.",
                "anyOf": [_NUMBER, {"type": "array", "items": {"$ref": "#/$defs/table"}}],
            }
        },
    }


def _link_schema() -> dict[str, Any]:
    fields = {
        "name": _described(_TEXT, "The inverse of the function from the margin to the response.")
    }
    fields["scale"] = _described(_NUMBER, "Factor on the margin before the inverse link.")
    # Calibrations have more fields.
    return {"type": "object", "properties": fields, "required": [*fields]}


def _derived_schema() -> dict[str, Any]:
    return _object(
        {
            "name": _described(_TEXT, "A feature that rows must have in addition to raw columns."),
            "made_from": _described(_list_of(_TEXT), "The raw columns from which it is computed."),
        }
    )


def _component_schema() -> dict[str, Any]:
    table = {"$ref": "#/$defs/table"}
    return _object(
        {
            "features": _described(_list_of(_TEXT), "Names of the features of the effect."),
            "axes": _described(_list_of(_axis_schema()), "The cells along each of the features."),
            "variance": _described(_list_of(_NUMBER), "Under the distribution; one per output."),
            "values": {**table, "description": "Effect before the inverse link: cells, outputs."},
            "mass": {**table, "description": "Share of the distribution in each cell."},
        }
    )


def _axis_schema() -> dict[str, Any]:
    cells = {
        "labels": _described(_list_of(_TEXT), "All cells in words, special cells last."),
        "has_other": _described(
            _FLAG, "Whether a cell after those of the categories contains all other values."
        ),
        "has_missing": _described(_FLAG, "Whether the last cell contains missing values."),
    }
    cuts = _list_of({"anyOf": [_NUMBER, {"enum": ["inf", "-inf"]}]})
    hashed = (
        "Labels of the categories. '#' followed by CatBoost's hash stands for a category "
        "that is in no row, so its label is not known."
    )
    text = "Interval k ends below cut k; a cut belongs to the interval above it."
    return {
        "anyOf": [
            _object({"cuts": _described(cuts, text), **cells}),
            _object({"categories": _described(_list_of(_TEXT), hashed), **cells}),
        ]
    }


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    """Return an object with exactly these fields."""
    required = [*fields]
    return {
        "type": "object", "properties": fields, "required": required,
        "additionalProperties": False,
    }  # fmt: skip


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _described(what: dict[str, Any], text: str) -> dict[str, Any]:
    return {**what, "description": text}
