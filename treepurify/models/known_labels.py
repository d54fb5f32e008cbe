"""Name raw columns, and categories that a model knows by hashes (CatBoost), after a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.catboost_combinations import combination_columns, with_raw_columns
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.category_hash import category_hash, unnamed_label
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import label_text, matched_names
from treepurify.rows.tables import table_column, table_names

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
    steps = combination_columns(model.features)
    raws = model.features if steps is None else steps.features
    if X is None or isinstance(X, Columns) or not any(spec.label_hashes for spec in raws):
        return model
    model.columns(X)
    labels = _labels(raws, X, by_name=model.has_feature_names)
    return replace(
        model, features=with_raw_columns(model.features, lambda spec: _named(spec, labels))
    )


def with_stored_labels(model: Parsed, X: Any) -> Parsed:
    """Return a model with the labels of a table where XGBoost keeps them cut up only.

    Columns of codes say nothing of labels; other categories are refused when they are read.
    """
    names = None if X is None or isinstance(X, Columns) else table_names(X)
    if names is None or not any(spec.stored_labels for spec in model.features):
        return model
    features = list(model.features)
    matched = matched_names(names, features)
    for position, spec in enumerate(features):
        if model.has_feature_names and spec.name not in matched:
            continue
        place = matched.index(spec.name) if model.has_feature_names else position
        dtype = table_column(X, place).dtype if place < len(names) else None
        labels = tuple(getattr(dtype, "categories", ()))
        if spec.stored_labels and labels and spec.could_store(labels):
            features[position] = replace(spec, categories=labels, stored_labels=())
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
    categories = (known.get(code, unnamed_label(code)) for code in spec.label_hashes or ())
    return replace(spec, categories=tuple(categories))


def with_raw_names(model: Parsed, names: Sequence[str]) -> Parsed:
    """Return a model with combinations of columns whose raw columns have other names.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        A model with combinations (`combination_columns`).
    names : sequence of str
        Names of all columns that it takes, in their order.

    Returns
    -------
    TreeEnsemble or AdditiveTables
    """
    steps = combination_columns(model.features)
    known = dict(zip(() if steps is None else steps.takes, names, strict=True))
    features = with_raw_columns(
        model.features, lambda spec: replace(spec, name=known.get(spec.name, spec.name))
    )
    ignored = tuple(known.get(name, name) for name in features[0].ignored)
    return replace(
        model,
        features=tuple(replace(spec, ignored=ignored) for spec in features),
        has_feature_names=True,
    )
