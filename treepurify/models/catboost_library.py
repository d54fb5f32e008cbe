"""Ask CatBoost itself: export and load its files, and predict with them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.catboost_features import TRAIN_ONE_HOT

__all__ = ["cbm_as_json", "export_json", "load_file", "raw_margin"]

_CANNOT_LOAD, _CANNOT_EXPORT = 3, 4
# CatBoost crashes on some damaged files, and would take the caller's process with it.
_EXPORT_IN_CHILD = f"""
import sys
import catboost
model = catboost.CatBoost()
step = {_CANNOT_LOAD}
try:
    model.load_model(sys.argv[1], format="cbm")
    step = {_CANNOT_EXPORT}
    model.save_model(sys.argv[2], format="json")
except Exception as error:
    sys.stderr.write(str(error))
    sys.exit(step)
"""


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
            raise _not_exported(str(error)) from error
        return path.read_text(encoding="utf-8")


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
        command = [sys.executable, "-P", "-c", _EXPORT_IN_CHILD, str(path.resolve()), str(target)]
        # What is importable here is importable there, and nothing else.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ended = subprocess.run(command, capture_output=True, env=environment, check=False)
        said = ended.stderr.decode(errors="replace").strip()
        if ended.returncode == _CANNOT_EXPORT:
            raise _not_exported(said)
        if ended.returncode == _CANNOT_LOAD:
            raise InvalidInputError(f"CatBoost cannot read {str(path)!r}: {said}")
        if ended.returncode != 0:
            raise InvalidInputError(
                f"CatBoost crashes on {str(path)!r} (status {ended.returncode}); it is damaged"
            )
        try:
            return target.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{str(path)!r} is damaged: it holds texts that are not UTF-8"
            ) from error


def _not_exported(said: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"CatBoost cannot export this model as JSON ({said}). {TRAIN_ONE_HOT}"
    )


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


def raw_margin(model: Any, X: Any) -> npt.NDArray[np.float64]:
    """Return CatBoost's own raw prediction (``RawFormulaVal``).

    Parameters
    ----------
    model : catboost.CatBoost
        A trained model.
    X : array_like or table of shape (n_rows, n_features)
        The rows; the columns of a table may be in any order.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        On the margin scale.
    """
    names = list(model.feature_names_)
    if hasattr(X, "columns") and set(names) == set(X.columns) and names != list(X.columns):
        X = X[names]
    margin = np.asarray(model.predict(X, prediction_type="RawFormulaVal"), dtype=np.float64)
    return margin.reshape(len(margin), -1)
