"""Ask LightGBM itself: load its files, write out its models and predict with them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.lightgbm_features import has_generated_names
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.table_reader import column_order
from treepurify.rows.tables import table_names
from treepurify.typing import Array


def load_file(path: Path) -> Any:
    """Load a model file with LightGBM itself, as a ``lightgbm.Booster``.

    Raises
    ------
    ImportError
        If LightGBM is not installed.
    """
    import lightgbm

    return lightgbm.Booster(model_file=str(path))


def raw_margin(model: Any, X: Any, read: Callable[[Any], Columns]) -> Array:
    """Return the library's own raw score.

    Parameters
    ----------
    model : lightgbm.Booster, LGBMRegressor, LGBMClassifier or LGBMRanker
        A trained model.
    X : array_like or table of shape (n_rows, n_features)
        The rows. Columns of a table are put in the order of the model, which LightGBM
        itself does not do; integer arrays are passed in double, not in single precision.
    read : callable
        Reads rows into the columns of the parsed model.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        ``predict(X, raw_score=True)``; for a random forest divided by the number of
        iterations, like the margin of the parsed model.
    """
    booster = booster_of(model)
    rows = _library_rows(booster, X, read)
    n_outputs = booster.num_model_per_iteration()
    n_rows = rows.shape[0]
    if n_rows == 0:
        return np.empty((0, n_outputs))
    raw = np.asarray(booster.predict(rows, raw_score=True), dtype=np.float64)
    raw = raw.reshape(n_rows, n_outputs)
    first_tree = booster.model_to_string(num_iteration=1)
    if "\naverage_output\n" in first_tree.partition("\nTree=")[0]:
        n_iterations = booster.current_iteration()
        if booster.best_iteration > 0:
            n_iterations = min(n_iterations, booster.best_iteration)
        raw = raw / n_iterations
    return raw


def booster_of(model: Any) -> Any:
    """Return the booster of a model, which may be one itself."""
    import lightgbm

    if isinstance(model, lightgbm.Booster):
        return model
    if isinstance(model, lightgbm.LGBMModel):
        # The property raises a subclass of AttributeError before training.
        booster = getattr(model, "booster_", None)
        if booster is None:
            raise InvalidInputError(f"the {type(model).__name__} is not trained; call fit first")
        return booster
    raise UnsupportedModelError(
        f"expected a lightgbm.Booster or a scikit-learn wrapper, got {type(model).__name__}. "
        "For a CVBooster, pass one of its boosters."
    )


def text_of(booster: Any) -> str:
    """Return the text of a booster."""
    from lightgbm.basic import LightGBMError

    # model_to_string writes every model above 1 MiB twice, which takes twice as long.
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.txt"
            booster.save_model(path)
            return path.read_text(encoding="utf-8")
    except (LightGBMError, OSError):
        return str(booster.model_to_string())


def _library_rows(booster: Any, X: Any, read: Callable[[Any], Columns]) -> Any:
    """Return rows in a form that LightGBM reads the way the parsed model does."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    if hasattr(X, "toarray"):
        return X
    names = table_names(X)
    if names is not None and hasattr(X, "iloc"):
        kinds = [dtype.kind if isinstance(dtype, np.dtype) else "O" for dtype in X.dtypes]
        with_labels = [hasattr(dtype, "categories") for dtype in X.dtypes]
        numbers = [
            kind in "biuf" or labels for kind, labels in zip(kinds, with_labels, strict=True)
        ]
        if all(numbers) and sum(with_labels) == len(booster.pandas_categorical or []):
            known = booster.feature_name()
            if has_generated_names(known):
                return X
            return X.iloc[:, column_order(names, [FeatureSpec(name) for name in known])]
    # LightGBM refuses other tables, or reads them by rules of its own.
    return read(X).numbers()
