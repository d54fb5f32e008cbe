"""Name categories that a model knows by the hashes of their labels (CatBoost), after a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.catboost_combinations import CombinationColumns
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.category_hash import category_hash
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import label_text
from treepurify.rows.tables import table_column, table_names

__all__ = ["with_known_labels"]

Parsed = TreeEnsemble | AdditiveTables


def with_known_labels(model: Parsed, X: Any) -> Parsed:
    """Return a model whose categories have the labels of a table in the place of their hashes.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        A parsed model.
    X : table or Columns, optional
        Rows; columns that were read already hold no labels.

    Returns
    -------
    TreeEnsemble or AdditiveTables
        Derived columns whose names hold labels are named again.

    Raises
    ------
    InvalidInputError
        If the columns do not fit the model.
    """
    steps = {spec.derivation.steps for spec in model.features if spec.derivation is not None}
    counting = next((each for each in steps if isinstance(each, CombinationColumns)), None)
    raws = model.features if counting is None else counting.features
    if X is None or isinstance(X, Columns) or not any(spec.label_hashes for spec in raws):
        return model
    model.columns(X)
    labels = _labels(raws, X, by_name=model.has_feature_names)
    features = [_named(spec, labels) for spec in model.features]
    if counting is not None:
        counting = replace(counting, features=tuple(_named(spec, labels) for spec in raws))
        features = [counting.named(spec) for spec in features]
    return replace(model, features=tuple(features))


def _labels(raws: Sequence[FeatureSpec], X: Any, *, by_name: bool) -> dict[str, dict[int, str]]:
    """Return the label of each hash that a column of the table has, by the name of its feature."""
    names = table_names(X) if by_name else None
    labels = {}
    for position, spec in enumerate(raws):
        # A table may have the derived columns in the place of those that they are made from.
        if spec.label_hashes and (names is None or spec.name in names):
            place = position if names is None else names.index(spec.name)
            values = np.asarray(table_column(X, place), dtype=object)
            texts = {label_text(value) for value in set(values[~is_missing(values)])}
            labels[spec.name] = {category_hash(text): text for text in texts}
    return labels


def _named(spec: FeatureSpec, labels: dict[str, dict[int, str]]) -> FeatureSpec:
    if spec.name not in labels:
        return spec
    known = labels[spec.name]
    return replace(
        spec, categories=tuple(known.get(code, f"#{code}") for code in spec.label_hashes or ())
    )
