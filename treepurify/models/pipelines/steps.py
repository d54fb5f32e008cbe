"""The fitted steps of a pipeline: which there are, what they make of rows, and what they return."""

import hashlib
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.rows.columns import Derivation
from treepurify.rows.missing_values import is_missing
from treepurify.rows.tables import row_count, table_column, table_names, take_rows, to_pandas

_METHODS = ("predict", "predict_proba", "decision_function", "transform")
_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
# The attribute that holds the fitted model. A threshold moves the decision, not the probability.
_INSIDE = {
    **dict.fromkeys(_SEARCHES, "best_estimator_"),
    "FrozenEstimator": "estimator",
    "FixedThresholdClassifier": "estimator_",
    "TunedThresholdClassifierCV": "estimator_",
}
# Selections of columns that predict with the model that they kept.
_SELECTIONS = ("RFE", "RFECV")
_MOST_CHECKED = 64
# Matrix products of few rows are rounded otherwise than those of many.
_ROUNDING = 1e-9


def known_class(model: Any) -> str:
    """Return the name of the scikit-learn class that an estimator predicts or transforms as.

    It is empty for other libraries, and where a class made from one of scikit-learn's has methods
    of its own, which may do something else; imbalanced-learn's are known.
    """
    for name in _METHODS:
        method = getattr(type(model), name, None)
        module = str(getattr(method, "__module__", "sklearn."))
        if not module.startswith(("sklearn.", "imblearn.")):
            return ""
    classes = (cls for cls in type(model).__mro__ if cls.__module__.startswith("sklearn."))
    return next((cls.__name__ for cls in classes), "")


@dataclass(frozen=True, eq=False)
class Steps:
    """An estimator that does what a pipeline of these fitted steps does.

    Parameters
    ----------
    steps : list of tuple of str and object
        As of a pipeline of scikit-learn.
    """

    steps: list[tuple[str, Any]]


def unwrap(model: Any) -> Any:
    """Return the model that a search, a frozen estimator, a threshold or a training stands for.

    Of a recursive feature elimination that is a pipeline: the selection, and the model it kept.

    Parameters
    ----------
    model : object
        Any model.

    Returns
    -------
    object
        The model inside, or the model itself.

    Raises
    ------
    InvalidInputError
        If a search is not fitted, or kept no model.
    """
    if isinstance(model, dict) and {"booster", "history"} <= set(model):
        # What xgboost.dask.train returns: the model, and how its training went.
        model = model["booster"]
    while (kind := known_class(model)) in _INSIDE:
        attribute = _INSIDE[kind]
        if not hasattr(model, attribute):
            advice = "call fit() before you pass it"
            if kind in _SEARCHES:
                advice += ", with refit=True so that it keeps the best model (best_estimator_)"
            raise InvalidInputError(f"this {kind} contains no fitted model; {advice}")
        model = getattr(model, attribute)
    if kind in _SELECTIONS:
        if not hasattr(model, "estimator_"):
            raise InvalidInputError(f"this {kind} is not fitted; call fit() before you pass it")
        return Steps([("selection", model), ("model", model.estimator_)])
    return model


def is_pipeline(model: Any) -> bool:
    """Return whether a model is `Steps`, or a pipeline of scikit-learn or imbalanced-learn."""
    return isinstance(model, Steps) or known_class(model) == "Pipeline"


def does_nothing(step: Any) -> bool:
    """Return whether a step passes all columns on; samplers do nothing at prediction."""
    if step is None or isinstance(step, str):
        return step is None or step == "passthrough"
    return hasattr(step, "fit_resample") and not hasattr(step, "predict")


def transformers_of(pipeline: Any) -> list[tuple[str, Any]]:
    """Return the steps before the last, but for those that do nothing at prediction."""
    return [(name, step) for name, step in pipeline.steps[:-1] if not does_nothing(step)]


def takes_texts(step: Any) -> bool:
    """Return whether a step takes a sequence of texts instead of a table (`TfidfVectorizer`)."""
    return hasattr(step, "build_analyzer") and hasattr(step, "transform")


def returns_arrays(transformer: Any) -> bool:
    """Return whether a transformer of scikit-learn makes arrays, in which categories are labels."""
    config = getattr(transformer, "_sklearn_output_config", {})
    is_joining = known_class(transformer) in ("ColumnTransformer", "FeatureUnion")
    return is_joining and config.get("transform") in (None, "default")


def returns_sparse(transformer: Any, *, gets_sparse: bool) -> bool:
    """Return whether a fitted transformer, ``"drop"`` and the like, returns a sparse matrix.

    XGBoost takes the zeros of such a matrix for missing, and scalers round otherwise on it.
    """
    if isinstance(transformer, str) or does_nothing(transformer):
        return gets_sparse and transformer != "drop"
    if is_pipeline(transformer):
        for _, step in transformer.steps:
            gets_sparse = returns_sparse(step, gets_sparse=gets_sparse)
        return gets_sparse
    kind = type(transformer).__name__
    if type(transformer).__module__.startswith("category_encoders."):
        return False
    if kind == "ColumnTransformer":
        return bool(transformer.sparse_output_)
    if kind == "FeatureUnion":
        parts = [part for _, part in transformer.transformer_list]
        return any(returns_sparse(part, gets_sparse=gets_sparse) for part in parts)
    if kind == "OneHotEncoder":
        return bool(transformer.sparse_output)
    if kind == "KBinsDiscretizer":
        return bool(transformer.encode == "onehot")
    return gets_sparse and kind not in ("OrdinalEncoder", "TargetEncoder", "PowerTransformer")


def columns_of(result: Any) -> list[npt.NDArray[Any]]:
    """Return the columns of what a transformer returned: an array, a sparse matrix or a table."""
    if hasattr(result, "toarray"):
        result = result.toarray()
    if hasattr(result, "iloc"):
        return [_as_numpy(result.iloc[:, j]) for j in range(result.shape[1])]
    if hasattr(result, "get_column"):
        return [result.get_column(name).to_numpy() for name in result.columns]
    result = np.asarray(result)
    return [result[:, j] for j in range(result.shape[1])]


def _as_numpy(column: Any) -> npt.NDArray[Any]:
    kind = getattr(column.dtype, "kind", "O")
    if isinstance(column.dtype, np.dtype) and kind in "fiub":
        return np.asarray(column.to_numpy())
    if kind in "fiub" and not hasattr(column.dtype, "categories"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column, dtype=object)


def state_fingerprint(value: Any) -> str:
    """Return a hash of all that an object holds, which is that of its copies, too.

    It is good for comparing objects within one process: functions count as the same object only.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> first, second, third = (StandardScaler().fit([[0.0], [x]]) for x in (1.0, 1.0, 2.0))
    >>> state_fingerprint(first) == state_fingerprint(second)
    True
    >>> state_fingerprint(first) == state_fingerprint(third)
    False
    """
    digest = hashlib.sha256()
    written: Any = SimpleNamespace(write=digest.update)
    try:
        _StatePickler(written).dump(value)
    except Exception:  # noqa: BLE001 - anybody's objects, some of which cannot be copied
        return str(id(value))
    return digest.hexdigest()


class _StatePickler(pickle.Pickler):
    """Writes functions by what they are in this process: not all of them have a name."""

    def reducer_override(self, obj: Any) -> Any:
        return (int, (id(obj),)) if isinstance(obj, FunctionType) else NotImplemented


@dataclass(frozen=True, eq=False)
class FittedSteps:
    """The fitted steps of a pipeline, as `TableSteps`.

    Parameters
    ----------
    named : tuple of (str, object)
        All steps with their names, the last one included.
    takes : tuple of str
        Names of the columns that the pipeline takes.
    n_made : int
        Number of the columns that its last step takes.
    counted : tuple of Derivation
        How the last step itself makes further columns of these (CatBoost); they follow.
    """

    named: tuple[tuple[str, Any], ...]
    takes: tuple[str, ...]
    n_made: int
    counted: tuple[Derivation, ...] = ()

    @cached_property
    def learned(self) -> str:
        """What the steps before the last have learned, as a text that fitted copies share."""
        return state_fingerprint([step for _, step in self.named[:-1]])

    def recipe(self, position: int) -> str:
        """Say how one of the columns is made: the same where other steps make the same."""
        if position < self.n_made:
            return f"{position} of {self.takes} by {self.learned}"
        counted = self.counted[position - self.n_made]
        return f"{counted.steps.recipe(counted.position)} of {self.takes} by {self.learned}"

    def columns(self, X: Any, positions: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Return some of the columns that the last step takes.

        Raises
        ------
        InvalidInputError
            If the steps refuse the rows.
        """
        with _steps_of_anybody():
            made = transform_rows(Steps(list(self.named)), X)
        own = [position for position in positions if position < self.n_made]
        found = dict(zip(own, _some_columns(made, own), strict=True))
        inside = {p: self.counted[p - self.n_made] for p in positions if p >= self.n_made}
        if inside:
            steps = next(iter(inside.values())).steps
            counted = steps.columns(made, [each.position for each in inside.values()])
            found |= dict(zip(inside, counted, strict=True))
        return [found[position] for position in positions]


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
