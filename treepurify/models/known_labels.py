"""Name the features of a model after a table, and categories of which it keeps no labels."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from treepurify.arguments import read_names
from treepurify.errors import InvalidInputError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.catboost_combinations import combination_columns, with_raw_columns
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.category_hash import category_hash, unnamed_label
from treepurify.rows.columns import Columns, FeatureSpec, ordered_labels
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import label_text, matched_names
from treepurify.rows.tables import is_sparse, table_column, table_names

Parsed = TreeEnsemble | AdditiveTables


def with_known_names(model: Parsed, X: Any, feature_names: Sequence[str] | None) -> Parsed:
    """Return a model whose features have given names, or those of the columns of a table.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        A parsed model.
    X : table or Columns, optional
        Rows, whose names count where the model has none, or has underscores for their blanks.
    feature_names : sequence of str, optional
        Names of the features, or of all columns that the model combines (CatBoost).

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    InvalidInputError
        If there are too many or too few.
    """
    combined = combination_columns(model.features)
    takes = model.feature_names if combined is None else combined.takes
    if feature_names is not None:
        return _renamed(model, read_names("feature_names", feature_names, len(takes)))
    names = None if X is None else table_names(X)
    if names is None:
        return model
    if model.has_feature_names:
        if isinstance(X, Columns):
            return model
        of_feature = dict(zip(matched_names(names, model.features), names, strict=True))
        own = [of_feature.get(spec.name, spec.name) for spec in model.features]
        features = (replace(spec, name=n) for spec, n in zip(model.features, own, strict=True))
        return replace(model, features=tuple(features))
    derivations = [spec.derivation for spec in model.features if spec.derivation is not None]
    if any(len(derivation.steps.takes) == len(names) for derivation in derivations):
        # Raw columns before the steps of a pipeline are found by position.
        return model if combined is None else _renamed(model, names)
    ignored = {name for spec in model.features for name in spec.ignored}
    names = [name for name in names if name not in ignored]
    if len(names) != model.n_features:
        raise InvalidInputError(
            f"the model has {model.n_features} features, the data {len(names)} columns. "
            "Pass exactly the columns the model was trained on, in the same order."
        )
    return _renamed(model, names)


def _renamed(model: Parsed, names: Sequence[str]) -> Parsed:
    """Name the features, or all columns that a model with combinations takes, in their order."""
    steps = combination_columns(model.features)
    if steps is None or len(names) == model.n_features != len(steps.takes):
        pairs = zip(model.features, names, strict=True)
        features = tuple(replace(spec, name=name) for spec, name in pairs)
        return replace(model, features=features, has_feature_names=True)
    known = dict(zip(steps.takes, names, strict=True))
    features = with_raw_columns(
        model.features, lambda spec: replace(spec, name=known.get(spec.name, spec.name))
    )
    ignored = tuple(known.get(name, name) for name in features[0].ignored)
    features = tuple(replace(spec, ignored=ignored) for spec in features)
    return replace(model, features=features, has_feature_names=True)


def with_known_labels(model: Parsed, X: Any) -> Parsed:
    """Return a model with the labels of a table where it keeps hashes or pieces of them only.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        A parsed model.
    X : table or Columns, optional
        Rows; columns that were read already hold no labels. Categories that have an order keep it.

    Returns
    -------
    TreeEnsemble or AdditiveTables
        Derived columns whose names hold labels are named again.
    """
    if X is None or isinstance(X, Columns) or is_sparse(X):
        return model
    steps = combination_columns(model.features)
    raws = model.features if steps is None else steps.features
    names = table_names(X)
    if names is not None and model.has_feature_names:
        matched = matched_names(names, raws)
        place = {name: j for j, name in reversed(list(enumerate(matched)))}
    elif steps is None and any(spec.derivation is not None for spec in raws):
        return model  # a pipeline without names, whose features have no place in the table
    else:
        try:
            n_columns = np.shape(X)[1]
        except (ValueError, IndexError):
            return model  # what is no table is refused where rows are read
        place = {spec.name: j for j, spec in enumerate(raws) if j < n_columns}

    @cache
    def texts(place: int) -> dict[int, str]:
        values = np.asarray(table_column(X, place), dtype=object)
        found = {label_text(value) for value in set(values[~is_missing(values)])}
        return {category_hash(text): text for text in found}

    def told(spec: FeatureSpec) -> FeatureSpec:
        at = place.get(spec.name)
        if at is None or not (spec.stored_labels or spec.label_hashes or hasattr(X, "dtypes")):
            return spec
        if spec.label_hashes:
            known = texts(at)
            labels = tuple(known.get(code, unnamed_label(code)) for code in spec.label_hashes)
            spec = spec if labels == spec.categories else replace(spec, categories=labels)
        column = table_column(X, at)
        labels = tuple(getattr(column.dtype, "categories", ()))
        if spec.stored_labels and labels and spec.could_store(labels):
            spec = replace(spec, categories=labels, stored_labels=())
        order = ordered_labels(column)
        return spec if order == spec.ordered_labels else replace(spec, ordered_labels=order)

    if all(told(spec) is spec for spec in (*raws, *model.features)):
        return model
    return replace(model, features=with_raw_columns(model.features, told))
