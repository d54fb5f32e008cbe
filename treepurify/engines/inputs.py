"""Read what the caller passes to an engine: rows, their weights, feature names."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns, read_columns, table_names
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.models.tables import AdditiveTables
from treepurify.weights import Rows, Weighting

__all__ = [
    "Interactions",
    "RowWeights",
    "check_known_categories",
    "named_model",
    "named_subsets",
    "read_rows",
    "row_weights",
]

RowWeights = npt.NDArray[np.float64] | None
Interactions = Sequence[Sequence[str | int]]


def named_model(model: Model, feature_names: Sequence[str] | None, X: Any) -> Model:
    """Return the model under the caller's feature names, else its own, else the table's."""
    names = list(feature_names) if feature_names is not None else None
    if names is None and not model.has_feature_names:
        names = table_names(X) if X is not None else None
        if names is not None and len(names) != model.n_features:
            raise InvalidInputError(
                f"the model has {model.n_features} features, the data {len(names)} columns. "
                "Pass exactly the columns the model was trained on, in the same order."
            )
    if names is None:
        return model
    if len(names) != model.n_features or len(set(names)) != len(names):
        raise InvalidInputError(
            f"feature_names must be {model.n_features} different names, got {len(names)}: {names}"
        )
    features = tuple(
        replace(spec, name=str(name)) for spec, name in zip(model.features, names, strict=True)
    )
    return replace(model, features=features, has_feature_names=True)


def named_subsets(model: Model, interactions: Interactions | None) -> set[Subset] | None:
    """Return the asked interactions as positions of features; None for all.

    Raises
    ------
    InvalidInputError
        If one names fewer than two features, or one that the model does not have.
    """
    if interactions is None:
        return None
    found = set()
    for interaction in interactions:
        if isinstance(interaction, str) or len(set(interaction)) < 2:
            raise InvalidInputError(
                'interactions take tuples of two or more different features, such as [("age", '
                f'"hours")]; got {interaction!r}'
            )
        found.add(tuple(sorted(_position(model, name) for name in interaction)))
    return found


def _position(model: Model, name: str | int) -> int:
    names = model.feature_names
    if isinstance(name, str) and name in names:
        return names.index(name)
    if not isinstance(name, str) and 0 <= int(name) < len(names):
        return int(name)
    raise InvalidInputError(
        f"no feature {name!r}; the model has {', '.join(map(repr, names[:20]))}"
    )


def read_rows(model: Model, X: Any, weighting: Weighting) -> Columns | None:
    """Return the rows that stand for the distribution; None where the weighting needs none.

    Raises
    ------
    InvalidInputError
        If rows are needed and there are none.
    """
    table = weighting.X if isinstance(weighting, Rows) else X
    if table is None:
        has_own_mass = isinstance(model, AdditiveTables) and weighting.name == "empirical"
        if weighting.needs_rows and not has_own_mass:
            raise InvalidInputError(
                f"weights={weighting.name!r} need the rows that stand for the distribution: pass "
                'X, or use weights="uniform", which needs none'
            )
        return None
    columns = read_columns(table, model.features, match_names=model.has_feature_names)
    if columns.n_rows == 0:
        raise InvalidInputError("X has no rows; pass the rows that stand for the distribution")
    check_known_categories(columns)
    return columns


def check_known_categories(columns: Columns) -> None:
    """Refuse a column of which no value is known: labels of another training, most likely.

    Raises
    ------
    InvalidInputError
        If a categorical column has values, and the model knows none of them.
    """
    for spec, codes in zip(columns.features, columns.values, strict=True):
        if not spec.is_categorical or not spec.n_codes:
            continue
        present = codes[~np.isnan(codes)]
        if len(present) and np.all(present == spec.n_codes):
            known = f"the model knows {', '.join(map(str, (spec.categories or ())[:8]))}"
            if spec.categories is None:
                known = f"the model knows the codes 0 to {spec.n_codes - 1}"
            raise InvalidInputError(
                f"no value in the column of feature {spec.name!r} is known to the model; {known}. "
                "Pass the labels of the training, spelt as they were there."
            )


def row_weights(
    columns: Columns | None, weighting: Weighting, sample_weight: npt.ArrayLike | None
) -> RowWeights:
    """Return the weight of each row, checked; None for equal weights.

    Raises
    ------
    InvalidInputError
        If weights do not fit the rows, are negative or not finite, or are all zero, or if the
        weighting would ignore them.
    """
    given = sample_weight
    if given is not None and not weighting.needs_rows:
        raise InvalidInputError(
            f"sample_weight would be ignored, since weights={weighting.name!r} do not count rows. "
            'Leave sample_weight out, or use weights="empirical", "laplace" or "independent"; '
            "weights of counted rows go to count_cells(..., sample_weights=...)"
        )
    if isinstance(weighting, Rows):
        if sample_weight is not None:
            raise InvalidInputError(
                "the rows of the distribution are given by Rows(...): give it their weights too, "
                "as Rows(X, sample_weight)"
            )
        given = weighting.sample_weight
    if given is None:
        return None
    if columns is None:
        raise InvalidInputError("sample_weight is given without rows: pass X")
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (columns.n_rows,):
        raise InvalidInputError(
            f"sample_weight must have one number a row ({columns.n_rows}), got shape {values.shape}"
        )
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InvalidInputError("sample_weight must be finite and not negative")
    if not np.any(values > 0):
        raise InvalidInputError("sample_weight is zero for every row; one must be positive")
    return values
