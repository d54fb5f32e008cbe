"""Recognise a model and hand it to the parser of its library."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_path
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource

__all__ = ["Model", "parse_model", "raw_margin"]

Model = TreeEnsemble | AdditiveTables


class _Parser(NamedTuple):
    """Where a family is parsed: a module with `parse` and `raw_margin`.

    For files it has `load_file`, or `file_margin` where the library must not load a file in this
    process.
    """

    prefix: str
    module: str


# First match wins; prefixes of the qualified type names in a model's class hierarchy.
_PARSERS = (
    _Parser("xgboost.", "treepurify.models.xgboost"),
    _Parser("lightgbm.", "treepurify.models.lightgbm"),
    _Parser("catboost.", "treepurify.models.catboost"),
    _Parser("interpret.", "treepurify.models.ebm"),
    _Parser("sklearn.", "treepurify.models.sklearn"),
)


def parse_model(model: Any) -> Model:
    """Turn a trained model, or a model file, into its canonical form.

    Parameters
    ----------
    model : object, str or Path
        A trained XGBoost, LightGBM, scikit-learn, CatBoost or interpret model, or the path
        of a model file (XGBoost .json/.ubj, LightGBM .txt, CatBoost .json/.cbm, EBM .json).
        A parsed model is returned as it is.

    Returns
    -------
    TreeEnsemble or AdditiveTables
        Frozen, free of the library it came from; ``margin(X)`` is its raw prediction.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be decomposed exactly, or is not known; names the reason.
    InvalidInputError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0.0], [1.0]])
    >>> ensemble = parse_model(DecisionTreeRegressor().fit(X, [1.0, 3.0]))
    >>> ensemble.margin(X).ravel()
    array([1., 3.])
    """
    if isinstance(model, TreeEnsemble | AdditiveTables):
        return model
    if isinstance(model, str | Path):
        from treepurify.models.files import parse_file

        return parse_file(read_path("the model file", model))
    parsed: Model = _parser_function(model, "parse")(model)
    return parsed


def raw_margin(model: Any, X: Any, parsed: Model | None = None) -> npt.NDArray[np.float64] | None:
    """Return the library's own raw prediction of shape (n_rows, n_outputs).

    Parameters
    ----------
    model : object, str or Path
        What `parse_model` takes. A model file is loaded by its library.
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    parsed : TreeEnsemble or AdditiveTables, optional
        The parsed model, where it is at hand; a file is parsed again without it, to know
        whose file it is.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs), or None
        None where there is no library to ask: for a parsed model, and for a file whose
        library is not installed, cannot read it, is older than the one that wrote it, or
        might crash on it (`ModelSource.unasked`).

    Raises
    ------
    FileRefusedError
        If the library was asked in a process of its own, and refused or died.
    """
    if isinstance(model, TreeEnsemble | AdditiveTables):
        return None
    if isinstance(model, str | Path):
        source = parse_model(model).source if parsed is None else parsed.source
        return _file_margin(Path(model), source, X)
    margin: npt.NDArray[np.float64] = _parser_function(model, "raw_margin")(model, X)
    return margin


def _file_margin(path: Path, source: ModelSource, X: Any) -> npt.NDArray[np.float64] | None:
    if source.unasked or not _can_read(source):
        return None
    name = next(parser.module for parser in _PARSERS if parser.prefix == f"{source.library}.")
    module = import_module(name)
    margin: npt.NDArray[np.float64]
    if hasattr(module, "file_margin"):
        margin = module.file_margin(path, X)
        return margin
    try:
        model = module.load_file(path)
    except Exception:  # noqa: BLE001 - the file is parsed already, the library is a second opinion
        return None
    margin = module.raw_margin(model, X)
    return margin


def _can_read(source: ModelSource) -> bool:
    """Return whether the library is installed, and no older than the one that wrote the file."""
    try:
        library = import_module(source.library)
    except Exception:  # noqa: BLE001 - a broken installation is as good as none
        return False
    # An older library overlooks what it does not know, such as tree weights in a new place.
    return _release(source.version) <= _release(library.__version__)


def _release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; none where it is unknown."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _parser_function(model: Any, name: str) -> Callable[..., Any]:
    if isinstance(model, type):
        raise InvalidInputError(
            f"expected a trained model, got the class {model.__qualname__}; train an instance first"
        )
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(model).__mro__]
    if any(name.startswith("sklearn.pipeline.") for name in names):
        raise UnsupportedModelError(
            "a Pipeline transforms its input, so effects would not be functions of the columns "
            "you pass. Purify the final estimator on transformed data: "
            "purify(pipeline[-1], pipeline[:-1].transform(X))"
        )
    for qualified in names:
        for parser in _PARSERS:
            if qualified.startswith(parser.prefix):
                function: Callable[..., Any] = getattr(import_module(parser.module), name)
                return function
    raise UnsupportedModelError(
        f"no parser for {names[0]}. Known are trained models of XGBoost, LightGBM, scikit-learn "
        "(trees, forests, gradient boosting), CatBoost and interpret (EBM), and their model files."
    )
