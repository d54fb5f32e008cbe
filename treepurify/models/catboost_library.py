"""Ask CatBoost itself: export and load its files, and predict with them."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.catboost_features import TRAIN_WITHOUT_TEXTS
from treepurify.models.library_child import call_in_child
from treepurify.rows.tables import frame_or_matrix, is_table
from treepurify.typing import Array


def export_json(model: Any) -> str:
    """Return the JSON of a trained model.

    Parameters
    ----------
    model : catboost.CatBoost
        A trained model.

    Returns
    -------
    str

    Raises
    ------
    UnsupportedModelError
        If CatBoost cannot export the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except Exception as error:
            if type(error).__name__ != "CatBoostError":
                raise
            raise _not_exported(model, str(error)) from error
        text = path.read_text(encoding="utf-8")
    # CatBoost writes nothing of texts and embeddings that no tree uses; its tables have them.
    unused = {
        "text_features": model.get_text_feature_indices(),
        "embedding_features": model.get_embedding_feature_indices(),
    }
    if not any(unused.values()):
        return text
    document, names = json.loads(text), model.feature_names_
    for kind, positions in unused.items():
        entries = [{"flat_feature_index": j, "feature_id": names[j]} for j in positions]
        document["features_info"][kind] = entries
    return json.dumps(document)


def cbm_as_json(path: Path) -> str:
    """Return the JSON of a ``.cbm`` file, which a process of its own reads.

    Parameters
    ----------
    path : Path
        The file; CatBoost must be installed.

    Returns
    -------
    str

    Raises
    ------
    InvalidInputError
        If CatBoost cannot read the file, or crashes on it.
    UnsupportedModelError
        If CatBoost cannot export the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.json"
        call_in_child(_write_json, "catboost", path, target)
        try:
            return target.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{str(path)!r} is damaged: it contains texts that are not UTF-8"
            ) from error


def _write_json(path: Path, target: Path) -> None:
    target.write_text(export_json(load_file(path)), encoding="utf-8")


def file_margin(path: Path, X: Any) -> Array:
    """Return CatBoost's own raw prediction by a model file, which a process of its own reads.

    Parameters
    ----------
    path : Path
        A ``.cbm`` or ``.json`` file; CatBoost must be installed.
    X : array_like or table of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)

    Raises
    ------
    FileRefusedError
        If CatBoost refuses the file or the rows, or crashes on them.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "margin.npy"
        call_in_child(_write_margin, "catboost", path, target, X)
        margin: Array = np.load(target, allow_pickle=False)
        return margin


def _write_margin(path: Path, target: Path, X: Any) -> None:
    np.save(target, raw_margin(load_file(path), X, n_threads=1), allow_pickle=False)


def _not_exported(model: Any, said: str) -> UnsupportedModelError:
    advice = TRAIN_WITHOUT_TEXTS
    if "invalid float value" in said:
        # JSON has no infinity, and CatBoost takes infinite values of a column for borders.
        names = model.feature_names_
        borders = model.get_borders()
        columns = [repr(names[j]) for j, own in borders.items() if not np.all(np.isfinite(own))]
        advice = "The model contains a number that is not finite; train it again."
        if columns:
            advice = (
                f"The training data had infinite values in {', '.join(columns)}, and the model "
                "splits there. Replace these values by large finite numbers, such as 1e30, and "
                "train again."
            )
    return UnsupportedModelError(f"CatBoost cannot export this model as JSON ({said}). {advice}")


def load_file(path: Path) -> Any:
    """Load a ``.cbm`` or ``.json`` file with CatBoost itself, whatever its extension.

    Raises
    ------
    ImportError
        If CatBoost is not installed.
    """
    import catboost

    with path.open("rb") as file:
        is_binary = file.read(4) == b"CBM1"
    model = catboost.CatBoost()
    model.load_model(str(path), format="cbm" if is_binary else "json")
    return model


def raw_margin(model: Any, X: Any, *, n_threads: int = -1) -> Array:
    """Return CatBoost's own raw prediction (``RawFormulaVal``).

    Parameters
    ----------
    model : catboost.CatBoost
        A trained model.
    X : array_like or table of shape (n_rows, n_features)
        The rows; the columns of a table may be in any order.
    n_threads : int
        How many threads predict; -1 for the number of cores.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        On the margin scale.
    """
    names = list(model.feature_names_)
    if is_table(X):
        # CatBoost does not know the categories of other tables.
        X = frame_or_matrix(X)
    if hasattr(X, "columns") and set(names) == set(X.columns) and names != list(X.columns):
        X = X[names]
    predicted = model.predict(X, prediction_type="RawFormulaVal", thread_count=n_threads)
    margin = np.asarray(predicted, dtype=np.float64)
    return margin.reshape(len(margin), -1)
