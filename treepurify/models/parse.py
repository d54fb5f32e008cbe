"""Recognise a model and hand it to the parser of its library."""

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np

from treepurify.arguments import check_choice, read_names, read_path
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.catboost_combinations import without_hidden_columns
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.families import family_module, family_of, known_models
from treepurify.models.files import LIGHTGBM_DUMP, parse_file
from treepurify.models.known_labels import with_known_labels, with_known_names
from treepurify.models.parsed import Library, ModelSource, plain_labels
from treepurify.models.pipelines.pipeline import WhichColumns, parse_pipeline
from treepurify.models.pipelines.steps import is_pipeline, transform_rows, unwrap
from treepurify.models.pipelines.wrappers import (
    combination_margin,
    is_combination,
    parse_combination,
)
from treepurify.models.plain_functions import explain_predictions
from treepurify.models.sklearn import in_model_order
from treepurify.rows.tables import check_table, frame_or_matrix
from treepurify.typing import Array

Model = TreeEnsemble | AdditiveTables


def parse_model(
    model: Any,
    columns: WhichColumns = "auto",
    X: Any = None,
    *,
    ignore: Sequence[str] = (),
) -> Model:
    """Turn a trained model, a pipeline or a model file into treepurify's form of a model.

    Parameters
    ----------
    model : object, str or Path
        A trained XGBoost, LightGBM, scikit-learn, CatBoost or interpret model,
        or the path of a model file (XGBoost .json/.ubj, LightGBM .txt, CatBoost .json/.cbm, EBM
        .json).
        A parsed model is returned unchanged. For a search, such as ``GridSearchCV``, the best
        model is read. The steps of a pipeline are combined with its model.
    columns : {"auto", "raw", "transformed"}
        For pipelines: the columns that are the features. ``"raw"``: the columns that the pipeline
        takes; refused if its steps mix columns or are not known. ``"transformed"``: the columns
        that its last step takes. ``"auto"``: raw columns, but those of the last step
        where the steps mix several raw ones or are not known: they are made from raw tables while
        the pipeline is at hand. Other models have only one kind of columns.
    X : table of shape (n_rows, n_features), optional
        Rows like those that the model will get, on some of which it is compared with its library.
        Transformers of pipelines round columns in single and in double precision differently, and
        without `X` double precision is assumed. Labels of categories that the model does not keep
        as they are (XGBoost, where they are not ASCII; CatBoost) are read from its columns.
    ignore : sequence of str
        Names of columns that tables may have in addition to the features, such as a key or the
        target. They are ignored whenever the parsed model, or a decomposition of it, reads a table.

    Returns
    -------
    TreeEnsemble or AdditiveTables
        Immutable, and independent of the library; ``margin(X)`` is the raw prediction. Until it is
        saved or edited it remembers a model in memory, with which it is compared on the tables
        that it reads.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be decomposed exactly, or is not known; the message says why. For a
        pipeline it names the step that mixes columns, or whose function is not known.
    InvalidInputError
        If the file does not exist or cannot be read, if the model is not fitted, or if the model
        does not take `X`.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction on `X`.

    See Also
    --------
    purify : Main effects and interactions of a tree model.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0.0], [1.0]])
    >>> ensemble = tp.parse_model(DecisionTreeRegressor().fit(X, [1.0, 3.0]))
    >>> ensemble.margin(X).ravel()
    array([1., 3.])

    The features of a pipeline are the columns that it takes:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[10.0], [20.0], [30.0]])
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=1))
    >>> ensemble = tp.parse_model(pipeline.fit(X, [1.0, 1.0, 3.0]))
    >>> ensemble.cut[0].item()
    25.000...
    """
    check_choice("columns", columns, get_args(WhichColumns))
    names = read_names("ignore", ignore)
    parsed = _ignoring(with_known_labels(_parse(model, columns, X), X), names)
    is_file = isinstance(model, str | Path)
    # A file would be loaded again for each table.
    parsed = (
        parsed if parsed is model else _remembering(parsed, None if is_file else model, columns)
    )
    if X is None:
        return parsed
    if columns != "transformed":
        if parsed.columns(X).n_rows == 0:
            raise InvalidInputError("X has no rows; pass at least one, or leave X out")
        if is_file:
            _remembering(parsed, model).compare(X)
        return parsed
    check_table(X)
    if is_pipeline(inside := unwrap(model)):
        parsed.compare(transform_rows(inside, X))
    return parsed


def _remembering(parsed: Model, model: Any, columns: WhichColumns = "auto") -> Model:
    """Return a parsed model that knows what it was parsed from."""
    if isinstance(model, TreeEnsemble | AdditiveTables):
        known = model.library
        return parsed.with_library(Library() if known is None else replace(known))
    if columns == "transformed" and is_pipeline(inside := unwrap(model)):
        model = inside.steps[-1][1]
    elif columns == "transformed" and is_combination(inside):
        model = None  # some of what it combines may be pipelines, which take other columns
    if model is None:
        return parsed.with_library(Library())
    # XGBoost reads zeros as missing in the sparse rows that the steps before it make.
    is_sparse = any(spec.missing_value == 0 for spec in parsed.features)
    margin = _margin_of_sparse if columns == "transformed" and is_sparse else raw_margin
    ask, parse = partial(margin, model), partial(_parse, model, columns)
    is_file = isinstance(model, str | Path)
    return parsed.with_library(Library(ask, parse, parsed.has_feature_names, is_file))


def _ignoring(model: Model, names: Sequence[str]) -> Model:
    """Accept `names` as additional columns of tables."""
    own = [spec.name for spec in model.features if spec.name in names]
    if own and model.has_feature_names:
        raise InvalidInputError(
            f"ignore must not name features of the model: {', '.join(map(repr, own[:10]))}"
        )
    features = tuple(replace(spec, ignored=(*spec.ignored, *names)) for spec in model.features)
    return replace(model, features=features) if names else model


def _parse(model: Any, columns: WhichColumns = "auto", X: Any = None) -> Model:
    read = _parse_inside(model, columns, X)
    if read is model or not isinstance(read, TreeEnsemble):
        return read
    return without_hidden_columns(read)


def _parse_inside(model: Any, columns: WhichColumns = "auto", X: Any = None) -> Model:
    """Return a model that may be a part of another one, with all columns that it takes."""
    if isinstance(model, TreeEnsemble | AdditiveTables):
        return model
    if isinstance(model, str | Path):
        return parse_file(read_path("the model file", model))
    inside = unwrap(model)
    return _with_class_labels(_parse_object(inside, columns, X), inside)


def _with_class_labels(read: Model, model: Any) -> Model:
    """Add the labels of a classifier, where it has them."""
    given = getattr(model, "classes_", None)
    labels = plain_labels(given) if isinstance(given, list | tuple | np.ndarray) else ()
    if len(labels) != max(read.n_outputs, 2):
        return read
    return replace(read, source=replace(read.source, class_labels=labels))


def _parse_object(inside: Any, columns: WhichColumns, X: Any) -> Model:
    if is_pipeline(inside):
        return parse_pipeline(inside, _parse_inside, columns, X)
    if is_combination(inside):
        return parse_combination(inside, partial(_parse_inside, columns=columns, X=X))
    parsed: Model = _family_of(inside).parse(inside)
    return parsed


def read_model(
    model: Any,
    X: Any = None,
    feature_names: Sequence[str] | None = None,
    columns: WhichColumns = "auto",
) -> Model:
    """Parse a model and name its features, and categories it knows by hash only, after a table.

    Predictions do not change: only names that are shown do, and whether columns of later
    tables are found by name. This is where models and rows meet: the parsed model is compared with
    its library on some of them.

    Parameters
    ----------
    model : object, str or Path
        What `parse_model` takes.
    X : array_like or table of shape (n_rows, n_features), optional
        Rows, for example the training data. Its column names count where the model has none, or
        has underscores where they have blanks.
        Columns that were read already hold no labels of categories.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model; they come before all others. Of a
        CatBoost model that combines columns, names of the columns of its table.
    columns : {"auto", "raw", "transformed"}
        See `parse_model`.

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    UnsupportedModelError
        See `parse_model`.
    InvalidInputError
        If the names or the columns do not fit the model; see also `parse_model`.
    ModelMismatchError
        If the parsed model does not reproduce the library's raw prediction on `X`.
    """
    named = read_uncompared(model, X, feature_names, columns)
    if X is not None:
        named.compare(X)
    return named


def read_uncompared(
    model: Any, X: Any, feature_names: Sequence[str] | None, columns: WhichColumns = "auto"
) -> Model:
    """Parse and name a model as `read_model` does; the comparison is left to the caller."""
    parsed = _parse(model, columns, X)
    named = with_known_labels(with_known_names(parsed, X, feature_names), X)
    library = _remembering(parsed, model, columns).library
    return named.with_library(Library() if library is None else library)


def read_transformed(model: Any, X: Any) -> tuple[Model, Any]:
    """Return a pipeline in the columns that its last step takes, and rows for it.

    Parameters
    ----------
    model : object
        A fitted pipeline, or a wrapper of one that predicts as it does.
    X : table of shape (n_rows, n_features), optional
        Rows with the columns that the pipeline takes.

    Returns
    -------
    TreeEnsemble or AdditiveTables
    table or ndarray
        What the steps before it return for the rows; None without any.

    Raises
    ------
    InvalidInputError
        If the model is no pipeline, or the rows are no table.
    UnsupportedModelError
        See `parse_model`.
    """
    pipeline = unwrap(model)
    if not is_pipeline(pipeline):
        raise InvalidInputError(
            'columns="transformed" applies to fitted pipelines, got a '
            f"{type(pipeline).__name__}. Leave it out, or pass the pipeline."
        )
    if X is not None:
        check_table(X)
    parsed = _remembering(_parse(pipeline, "transformed", X), pipeline, "transformed")
    return parsed, None if X is None else transform_rows(pipeline, X)


def refuse_derived(model: Any, X: Any) -> None:
    """Refuse a pipeline, or any of several, that mixes columns; its message names the step.

    Parameters
    ----------
    model : object
        What `parse_model` takes, or several of these.
    X : table or rows in batches, optional
        The rows, whose columns tell those of a pipeline that does not say.

    Raises
    ------
    UnsupportedModelError
        See `parse_model`.
    """
    table = None
    with suppress(InvalidInputError):
        check_table(X)
        table = X
    for one in model if isinstance(model, Sequence) and not isinstance(model, str) else [model]:
        _parse(one, "raw", table)


def raw_margin(model: Any, X: Any, parsed: Model | None = None) -> Array | None:
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
    if hasattr(X, "column_names") or hasattr(X, "iloc"):
        X = frame_or_matrix(X)  # not every library knows Arrow tables, or another byte order
    if isinstance(model, str | Path):
        source = parse_model(model).source if parsed is None else parsed.source
        return _file_margin(Path(model), source, X)
    return _margin_of(model, X)


def _margin_of_sparse(model: Any, X: Any, parsed: Model) -> Array | None:
    """Return `raw_margin` of rows whose zeros are not stored."""
    from scipy.sparse import csr_array

    return raw_margin(model, X if hasattr(X, "tocsc") else csr_array(np.asarray(X)), parsed)


def _margin_of(model: Any, X: Any) -> Array:
    inside = unwrap(model)
    if is_pipeline(inside):
        return _margin_of(inside.steps[-1][1], transform_rows(inside, X))
    if is_combination(inside):
        return combination_margin(inside, in_model_order(inside, X), _margin_of)
    margin: Array = _family_of(inside).raw_margin(inside, X)
    return margin


def _file_margin(path: Path, source: ModelSource, X: Any) -> Array | None:
    if source.unasked or not _can_read(source):
        return None
    module = family_module(source.library)
    margin: Array
    if hasattr(module, "file_margin"):
        margin = module.file_margin(path, X)
        return margin
    try:
        model = module.load_file(path)
    except Exception:  # noqa: BLE001 - the file is parsed already, the library is only a second opinion
        return None
    margin = module.raw_margin(model, X)
    return margin


def _can_read(source: ModelSource) -> bool:
    """Return whether the library is installed, and no older than the one that wrote the file."""
    try:
        library = import_module(source.library)
    except Exception:  # noqa: BLE001 - a broken installation is as good as none
        return False
    # An older library ignores what it does not know, such as tree weights in a new field.
    return _release(source.version) <= _release(getattr(library, "__version__", ""))


def _release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; none where it is unknown."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _family_of(model: Any) -> ModuleType:
    if isinstance(model, type):
        raise InvalidInputError(
            f"expected a trained model, got the class {model.__qualname__}; train an instance first"
        )
    if isinstance(model, dict) and "tree_info" in model:
        raise UnsupportedModelError(LIGHTGBM_DUMP)
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(model).__mro__]
    module = family_of(names)
    is_own = names[0].startswith(f"{__package__.partition('.')[0]}.")
    # Its functions are explained by their predictions, as those of others.
    if module is None and is_own and not callable(model):
        raise InvalidInputError(
            f"expected a trained model, got a result ({type(model).__name__}); "
            "pass the model that it was computed from"
        )
    if module is None:
        is_function = inspect.isroutine(model)
        name = f"a function ({model.__qualname__})" if is_function else names[0]
        raise UnsupportedModelError(
            f"{name} is not supported. Trained models of {known_models()} can be read, and so "
            f"can their model files. To explain it by its predictions: {explain_predictions(model)}"
        )
    return module
