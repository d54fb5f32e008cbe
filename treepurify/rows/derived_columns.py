"""Columns that a pipeline, or CatBoost, makes from those of a raw table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Derivation, FeatureSpec, TableSteps
from treepurify.rows.tables import check_table, frame_or_matrix, is_sparse, table_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["derived_frame", "deriving_steps", "with_derived_columns"]


def deriving_steps(
    features: Sequence[FeatureSpec], names: Sequence[str] | None, n_columns: int
) -> TableSteps | None:
    """Return the steps that make columns which a table lacks; None where it lacks none.

    Parameters
    ----------
    features : sequence of FeatureSpec
        The features, in the order of the model.
    names : sequence of str, optional
        Names of the columns of the table; None for an array.
    n_columns : int
        Number of columns of the table.
    """
    derived = {spec.name: spec.derivation for spec in features if spec.derivation is not None}
    if not derived:
        return None
    steps = next(iter(derived.values())).steps
    if names is None:
        return None if n_columns == len(features) != len(steps.takes) else steps
    return None if derived.keys() <= set(names) else steps


def with_derived_columns(X: Any, features: Sequence[FeatureSpec], steps: TableSteps) -> Any:
    """Return a data frame with one column per feature, in their order.

    Parameters
    ----------
    X : table or ndarray of shape (n_rows, n_raw)
        Rows with the columns that the model takes: by name where the table has these names, else
        by position.
    features : sequence of FeatureSpec
        The features, in the order of the model.
    steps : TableSteps
        What makes the derived ones.

    Returns
    -------
    DataFrame of shape (n_rows, n_features)

    Raises
    ------
    InvalidInputError
        If there are too many or too few columns, or the steps do not take their values.
    """
    import pandas as pd

    check_table(X)
    if is_sparse(X):
        raise InvalidInputError(
            "the model or its pipeline computes more columns from those of X, which is not "
            "possible with sparse rows: pass X.toarray()"
        )
    frame = frame_or_matrix(X)
    if frame.shape[1] != len(steps.takes) and not set(steps.takes) <= set(table_names(X) or ()):
        raise InvalidInputError(
            f"the model takes {len(steps.takes)} columns, but the data have {frame.shape[1]}. Pass "
            "exactly the columns that the model was trained on, in the same order."
        )
    if not hasattr(frame, "iloc"):
        frame = pd.DataFrame(frame).infer_objects()
    names = list(map(str, frame.columns))
    named = set(steps.takes) <= set(names)
    place = {name: names.index(name) if named else k for k, name in enumerate(steps.takes)}
    made = iter(_made(X, [spec.derivation for spec in features if spec.derivation is not None]))
    columns = [
        frame.iloc[:, place[spec.name]].reset_index(drop=True)
        if spec.derivation is None
        else pd.Series(next(made))
        for spec in features
    ]
    return pd.concat(columns, axis=1, keys=[spec.name for spec in features])


def derived_frame(X: Any, features: Sequence[FeatureSpec]) -> "pd.DataFrame":
    """Return the derived columns of raw rows, with labels in the place of codes.

    Parameters
    ----------
    X : table or ndarray of shape (n_rows, n_raw)
        Rows with the columns that the model takes.
    features : sequence of FeatureSpec
        The features of a model.

    Returns
    -------
    DataFrame of shape (n_rows, n_derived)
        With the index of `X`, if that has one.
    """
    import pandas as pd

    check_table(X)
    derived = [spec for spec in features if spec.derivation is not None]
    made = _made(X, [spec.derivation for spec in derived if spec.derivation is not None])
    named = {spec.name: _labelled(column, spec) for spec, column in zip(derived, made, strict=True)}
    return pd.DataFrame(named, index=getattr(X, "index", None))


def _labelled(column: npt.NDArray[Any], spec: FeatureSpec) -> npt.NDArray[Any]:
    is_coded = spec.categories is not None and spec.numbers_are == "codes"
    if not is_coded or not np.issubdtype(column.dtype, np.integer):
        return column
    labels: npt.NDArray[Any] = np.array(spec.labels, dtype=object)
    return np.take(labels, column)


def _made(X: Any, derivations: Sequence[Derivation]) -> list[npt.NDArray[Any]]:
    """Return the derived columns; those of models that were joined may have several steps."""
    wanted: dict[TableSteps, list[int]] = {}
    for k, derivation in enumerate(derivations):
        wanted.setdefault(derivation.steps, []).append(k)
    made: dict[int, npt.NDArray[Any]] = {}
    for steps, mine in wanted.items():
        columns = steps.columns(X, [derivations[k].position for k in mine])
        made.update(zip(mine, columns, strict=True))
    return [made[k] for k in range(len(derivations))]
