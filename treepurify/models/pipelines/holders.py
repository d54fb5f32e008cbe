"""Objects of other libraries that hold a model: the model inside, or where it is."""

from collections import deque
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from treepurify.errors import UnsupportedModelError
from treepurify.models.plain_functions import explain_predictions

__all__ = ["check_held", "model_held", "where_models_are"]

# How deep, and through how many objects, a model is looked for.
_DEEPEST, _MOST_OBJECTS, _MOST_ITEMS = 4, 2000, 20
_FEW = 3


class _Holder(NamedTuple):
    """A class that predicts as the model that it holds.

    Parameters
    ----------
    name : str
        Beginning of its module, and its name.
    get : callable
        Returns the model.
    missing : str
        What to do where there is none.
    """

    name: tuple[str, str]
    get: Callable[[Any], Any]
    missing: str


class _Maker(NamedTuple):
    """A class that makes other columns first, or keeps its model in another form.

    Parameters
    ----------
    name : str
        Beginning of its module, and its name.
    why : str
        What it does to the rows, or to the model.
    lines : str
        Code that purifies the model inside.
    """

    name: tuple[str, str]
    why: str
    lines: str


_FIT_FIRST = "call fit() before you pass it"
_HOLDERS = (
    _Holder(
        ("mlflow.pyfunc", "PyFuncModel"),
        lambda model: model.get_raw_model(),
        "it runs its own code; pass the model inside model.unwrap_python_model()",
    ),
    _Holder(("xgboost.spark", "_SparkXGBModel"), attrgetter("_xgb_sklearn_model"), _FIT_FIRST),
    _Holder(
        ("skops.card", "Card"),
        lambda card: card.get_model(),
        "pass the model that the card is about",
    ),
    _Holder(
        ("mapie.regression", "SplitConformalRegressor"),
        attrgetter("_mapie_regressor.estimator"),
        _FIT_FIRST,
    ),
    _Holder(
        ("mapie.classification", "SplitConformalClassifier"),
        attrgetter("_mapie_classifier.estimator"),
        _FIT_FIRST,
    ),
)
_MAKERS = (
    _Maker(
        ("flaml.", "AutoML"),
        "imputes and encodes columns before passing them to it",
        "tp.purify(model.model.estimator, model.model.preprocess(model.preprocess(X)))",
    ),
    _Maker(
        ("autogluon.", "TabularPredictor"),
        "makes columns for each of several (model.model_names() lists them)",
        'inside = model._trainer.load_model("LightGBM"); '
        "tp.purify(inside.model, inside.preprocess(model.transform_features(X)))",
    ),
    _Maker(
        ("pycaret.", "Pipeline"),
        "its steps drop rows and encode columns in ways that are not supported",
        "tp.purify(model.steps[-1][1], model[:-1].transform(X))",
    ),
    *(
        _Maker(
            ("cuml.ensemble", f"RandomForest{kind}"),
            "its trees are on the GPU",
            "tp.purify(model.as_treelite(), X)",
        )
        for kind in ("Regressor", "Classifier")
    ),
    *(
        _Maker(
            ("synapse.ml.lightgbm", f"LightGBM{kind}Model"),
            "its trees are in Java",
            "tp.purify(lightgbm.Booster(model_str=model.getNativeModel()), X)",
        )
        for kind in ("Classification", "Regression", "Ranker")
    ),
)


def model_held(model: Any) -> Any:
    """Return the model that an object of another library holds, and predicts as.

    Classes are recognised by name: no library is imported.

    Parameters
    ----------
    model : object
        Any model.

    Returns
    -------
    object
        The model inside, or the object itself where there is none; see `check_held`.
    """
    holder = next((holder for holder in _HOLDERS if _is_a(model, holder.name)), None)
    if holder is None:
        return model
    try:
        return model_held(holder.get(model))
    except (AttributeError, NotImplementedError):
        return model


def check_held(model: Any) -> None:
    """Refuse an object of another library whose model cannot be taken out of it as it is.

    Parameters
    ----------
    model : object
        What `model_held` returns.

    Raises
    ------
    UnsupportedModelError
        If it holds no model yet, or the model inside gets other columns, or has another form; says
        how to get at it.
    """
    name = type(model).__name__
    for holder in _HOLDERS:
        if _is_a(model, holder.name):
            raise UnsupportedModelError(f"no model is found in this {name}: {holder.missing}")
    for maker in _MAKERS:
        if _is_a(model, maker.name):
            raise UnsupportedModelError(
                f"{name} contains a model, and {maker.why}. To purify the model inside, on the "
                f"columns that it receives: {maker.lines}. To explain the whole by its "
                f"predictions: {explain_predictions(model)}"
            )


def _is_a(model: Any, name: tuple[str, str]) -> bool:
    module, own = name
    return any(
        cls.__name__ == own and cls.__module__.startswith(module) for cls in type(model).__mro__
    )


def where_models_are(model: Any, is_read: Callable[[Any], bool]) -> str:
    """Return a sentence that says where a class that is not known holds models that are.

    Parameters
    ----------
    model : object
        An object of any class; only its attributes are looked at.
    is_read : callable
        Says whether an object is a model that can be read.

    Returns
    -------
    str
        Empty where there is none.
    """
    found = []
    for path, inside in _parts(model):
        if is_read(inside):
            found.append(f"{path} ({type(inside).__name__})")
        if len(found) == _FEW:
            break
    if not found:
        return ""
    first = found[0].partition(" ")[0]
    return (
        f" It contains {', '.join(found)}, which can be read. To purify it, with rows as it "
        f"receives them: tp.purify({first}, X)"
    )


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, and how to get at it, the nearest first.

    No code of the object runs: properties are not asked.
    """
    waiting = deque([("model", model, 0)])
    seen = {id(model)}
    while waiting and len(seen) < _MOST_OBJECTS:
        path, holder, depth = waiting.popleft()
        for step, part in _items(holder):
            if id(part) in seen or isinstance(part, type | str | bytes | int | float):
                continue
            seen.add(id(part))
            yield path + step, part
            if depth + 1 < _DEEPEST:
                waiting.append((path + step, part, depth + 1))


def _items(holder: Any) -> list[tuple[str, Any]]:
    if isinstance(holder, dict):
        items = [(f"[{key!r}]", part) for key, part in holder.items() if isinstance(key, str | int)]
    elif isinstance(holder, list | tuple):
        items = [(f"[{position}]", part) for position, part in enumerate(holder)]
    else:
        attributes = getattr(holder, "__dict__", {})
        items = [(f".{name}", part) for name, part in attributes.items()]
    return items[:_MOST_ITEMS] if isinstance(holder, dict | list | tuple) else items
