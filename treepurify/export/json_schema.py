"""The schema of the documents that `to_json` writes."""

from typing import Any

__all__ = ["json_schema"]

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what `to_json` writes.

    Returns
    -------
    dict
        The schema. It describes every field, and names those that are always there.

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
        "engine": _described(_TEXT, "What made the decomposition."),
        "link": _link(),
        "outputs": _described(_list_of(_TEXT), "Names of the outputs of the model."),
        "features": _described(_list_of(_TEXT), "Names of all features, in the model's order."),
        "intercept": _described(_list_of(_NUMBER), "Mean of the margin, one number per output."),
        "certificate": {
            "type": ["object", "null"],
            "description": "How exact the effects are; an unknown number is null.",
        },
        "has_remainder": _described(
            _FLAG, "Whether the components leave a part of the model out, which is not here."
        ),
        "components": _list_of(_component()),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "treepurify decomposition",
        "description": "The margin of a row is the intercept plus, for each component, its value "
        "in the cell of the row.",
        **_object(fields),
        "$defs": {
            "table": {
                "description": "Nested lists, one level for each axis and then one for outputs.",
                "anyOf": [_NUMBER, {"type": "array", "items": {"$ref": "#/$defs/table"}}],
            }
        },
    }


def _link() -> dict[str, Any]:
    fields = {"name": _described(_TEXT, "The inverse of what turns a margin into a response.")}
    fields["scale"] = _described(_NUMBER, "Factor on the margin before the inverse link.")
    # Calibrations have more fields.
    return {"type": "object", "properties": fields, "required": [*fields]}


def _component() -> dict[str, Any]:
    table = {"$ref": "#/$defs/table"}
    return _object(
        {
            "features": _described(_list_of(_TEXT), "Names of the features of the effect."),
            "axes": _described(_list_of(_axis()), "The cells along each of the features."),
            "variance": _described(_list_of(_NUMBER), "Under the measure, one an output."),
            "values": {**table, "description": "Effect on the margin scale: cells, outputs."},
            "mass": {**table, "description": "Share of the measure in each cell."},
        }
    )


def _axis() -> dict[str, Any]:
    cells = {
        "labels": _described(_list_of(_TEXT), "All cells in words, special ones last."),
        "has_other": _described(_FLAG, "Whether a cell after the categories holds all others."),
        "has_missing": _described(_FLAG, "Whether the last cell holds missing values."),
    }
    cuts = _list_of({"anyOf": [_NUMBER, {"enum": ["inf", "-inf"]}]})
    text = "Interval k ends below cut k; a cut belongs to the interval above it."
    return {
        "anyOf": [
            _object({"cuts": _described(cuts, text), **cells}),
            _object({"categories": _described(_list_of(_TEXT), "Of the cells."), **cells}),
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
