"""What the fitted steps of a pipeline make of rows, and whether they take each row by itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.pipelines.columns import Column, columns_of
from treepurify.models.pipelines.steps import Steps, takes_texts, transformers_of
from treepurify.rows.columns import Derivation
from treepurify.rows.missing_values import is_missing
from treepurify.rows.tables import row_count, table_column, table_names, take_rows, to_pandas

__all__ = ["FittedSteps", "check_row_by_row", "transform_rows"]

_MOST_CHECKED = 64
# Matrix products of few rows are rounded otherwise than those of many.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class FittedSteps:
    """The fitted steps of a pipeline, as `TableSteps`.

    Parameters
    ----------
    named : tuple of (str, object)
        All steps with their names, the last one included.
    takes : tuple of str
        Names of the columns that the pipeline takes.
    made : tuple of Column
        The columns that its last step takes.
    counted : tuple of Derivation
        How the last step itself makes further columns of these (CatBoost); they follow.
    """

    named: tuple[tuple[str, Any], ...]
    takes: tuple[str, ...]
    made: tuple[Column, ...]
    counted: tuple[Derivation, ...] = ()

    def recipe(self, position: int) -> str:
        """Say how one of the columns is made: the same where other steps make the same."""
        if position < len(self.made):
            return self.made[position].recipe
        counted = self.counted[position - len(self.made)]
        taken = [column.recipe for column in self.made]
        return f"{counted.steps.recipe(counted.position)} of {taken}"

    def columns(self, X: Any, positions: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return some of the columns that the last step takes.

        Raises
        ------
        InvalidInputError
            If the steps refuse the rows.
        """
        with _steps_of_anybody():
            made = transform_rows(Steps(list(self.named)), X)
        n_made = len(self.made)
        own = iter(_some_columns(made, [position for position in positions if position < n_made]))
        inside = [self.counted[position - n_made] for position in positions if position >= n_made]
        counted: Iterator[npt.NDArray[Any]] = iter(())
        if inside:
            counted = iter(inside[0].steps.columns(made, [each.position for each in inside]))
        return [next(own if position < n_made else counted) for position in positions]


def _some_columns(made: Any, positions: Sequence[int]) -> list[npt.NDArray[Any]]:
    if hasattr(made, "tocsc"):
        return columns_of(made.tocsc()[:, list(positions)])
    every = columns_of(made)
    return [every[position] for position in positions]


def transform_rows(pipeline: Any, X: Any) -> Any:
    """Return what the last step of a pipeline gets for the rows of `X`."""
    X = _as_taken(pipeline, X)
    for _, step in transformers_of(pipeline):
        X = step.transform(X)
    return X


def check_row_by_row(pipeline: Any, X: Any) -> None:
    """Refuse steps that transform a row otherwise when other rows come with it.

    Parameters
    ----------
    pipeline : Pipeline
        A fitted pipeline.
    X : table or ndarray
        Rows, of which the first few are transformed together and in halves.

    Raises
    ------
    UnsupportedModelError
        Names the step.
    InvalidInputError
        If a step refuses the rows.
    """
    count = min(row_count(X), _MOST_CHECKED)
    rows = _as_taken(pipeline, take_rows(X, np.arange(count)))
    for name, step in transformers_of(pipeline):
        halves = [take_rows(rows, half) for half in np.array_split(np.arange(count), 2)]
        with _steps_of_anybody():
            rows = step.transform(rows)
            parts = [columns_of(step.transform(half)) for half in halves if row_count(half)]
        together = [np.concatenate(of_column) for of_column in zip(*parts, strict=False)]
        whole = columns_of(rows)
        if row_count(rows) != count:
            raise UnsupportedModelError(
                f"step {name!r} ({type(step).__name__}) of the pipeline turns {count} rows "
                f"into {row_count(rows)}. Rows that it drops have no prediction and no effects; "
                "drop them before the pipeline."
            )
        if len(whole) != len(together) or not all(map(_are_same, whole, together)):
            raise UnsupportedModelError(
                f"step {name!r} ({type(step).__name__}) of the pipeline transforms a row "
                "differently when other rows are passed with it, as x - x.mean() does: the "
                "pipeline is not a function of single rows, so it has no effects. Compute such "
                "numbers in fit()."
            )


@contextmanager
def _steps_of_anybody() -> Iterator[None]:
    """Turn whatever the steps of a pipeline raise into an error that says where it came from."""
    try:
        yield
    except Exception as error:  # whatever it is, it is the steps that do not take the rows
        raise InvalidInputError(
            f"the steps of the pipeline do not accept these rows: {error}"
        ) from error


def _as_taken(pipeline: Any, X: Any) -> Any:
    """Return rows with the columns, and their names, with which the pipeline was fitted."""
    if hasattr(X, "column_names"):
        X = to_pandas(X)  # no step knows Arrow tables
    steps = transformers_of(pipeline)
    if steps and takes_texts(steps[0][1]):
        return table_column(X, 0)
    # Later steps may know other columns: those that the first makes.
    first = steps[0][1] if steps else pipeline.steps[-1][1]
    names = getattr(first, "feature_names_in_", None)
    if names is not None and hasattr(X, "iloc") and set(names) <= set(X.columns):
        return X[list(names)]
    if names is not None and table_names(X) is None and not hasattr(X, "toarray"):
        import pandas as pd

        return pd.DataFrame(np.asarray(X), columns=list(names)).infer_objects()
    is_unnamed = bool(steps) and hasattr(steps[0][1], "n_features_in_")
    return X.to_numpy() if names is None and is_unnamed and hasattr(X, "iloc") else X


def _are_same(whole: npt.NDArray[Any], parts: npt.NDArray[Any]) -> bool:
    if len(whole) != len(parts):
        return False
    if whole.dtype.kind in "biuf" and parts.dtype.kind in "biuf":
        scale = np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole))
        return np.allclose(whole, parts, rtol=0.0, atol=_ROUNDING * scale, equal_nan=True)
    missing = is_missing(np.asarray(whole, dtype=object))
    if np.any(missing != is_missing(np.asarray(parts, dtype=object))):
        return False
    return bool(np.all(whole[~missing] == parts[~missing]))
