"""Encoders of the package category_encoders that are maps of one column."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from treepurify.models.pipelines.columns import OutputColumn, Reading
from treepurify.models.pipelines.encoders import value_knots
from treepurify.rows.missing_values import is_missing

__all__ = ["READERS"]

Names = tuple[str, ...]
Levels = dict[Any, tuple[Hashable, ...]]


def _one_column_each(transformer: Any, names: Names) -> Reading:
    position = {str(name): j for j, name in enumerate(names)}
    return _reading(transformer, names, [(n, position[n]) for n in _names_out(transformer)])


def _several_columns_each(transformer: Any, names: Names) -> Reading:
    """Read an encoder that lists the columns that it makes of each one."""
    position = {str(name): j for j, name in enumerate(names)}
    encoder = getattr(transformer, "base_n_encoder", transformer)
    made_from = {
        str(made): position[str(entry["col"])]
        for entry in encoder.mapping
        for made in entry["mapping"].columns
    }
    sources = {**position, **made_from}
    return _reading(transformer, names, [(n, sources[n]) for n in _names_out(transformer)])


def _reading(transformer: Any, names: Names, columns: list[tuple[str, int]]) -> Reading:
    levels = _levels(transformer)
    outputs = []
    for name, source in columns:
        labels = levels.get(names[source])
        if labels is None:
            outputs.append(OutputColumn(name, source, reads="either", keeps_values=True))
            continue
        outputs.append(
            OutputColumn(name, source, reads="labels", labels=labels, knots=value_knots(labels))
        )
    refuses = transformer.handle_unknown == "error"
    return Reading(outputs, needs_frame=True, refuses_unknown=refuses, knows_missing=True)


def _names_out(transformer: Any) -> list[str]:
    return [str(name) for name in transformer.get_feature_names_out()]


def _levels(transformer: Any) -> Levels:
    """Return the labels of each encoded column, in the order of the encoder."""
    encoder = getattr(transformer, "base_n_encoder", transformer)
    encoder = getattr(encoder, "ordinal_encoder", None) or encoder
    mapping = encoder.mapping
    if isinstance(mapping, dict):
        return {str(name): _labels(table) for name, table in mapping.items()}
    return {str(entry["col"]): _labels(entry["mapping"]) for entry in mapping}


def _labels(table: Any) -> tuple[Hashable, ...]:
    index = table.index if hasattr(table, "index") and not isinstance(table, dict) else table
    labels = np.array(list(index), dtype=object)
    return tuple(labels[~is_missing(labels)])


_ONE = (
    "OrdinalEncoder CountEncoder TargetEncoder CatBoostEncoder LeaveOneOutEncoder WOEEncoder "
    "JamesSteinEncoder MEstimateEncoder QuantileEncoder GLMMEncoder"
)
_SEVERAL = (
    "OneHotEncoder BinaryEncoder BaseNEncoder GrayEncoder HelmertEncoder SumEncoder "
    "BackwardDifferenceEncoder PolynomialEncoder"
)
READERS = {
    **dict.fromkeys(_ONE.split(), _one_column_each),
    **dict.fromkeys(_SEVERAL.split(), _several_columns_each),
}
