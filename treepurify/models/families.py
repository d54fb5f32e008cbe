"""The families of models that are known, one line each: the one place that lists them."""

from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from treepurify.terms import listed_names


class Family(NamedTuple):
    """A library and the module that reads its models.

    The module has ``parse(model)``, which returns a `TreeEnsemble` or `AdditiveTables`, and
    ``raw_margin(model, X)``, which asks the library itself. Where the library saves files it
    also has ``parse_file(file)``, which returns None for a `ModelFile` of another kind, and
    either ``load_file(path)`` or, where the library must not load a file in this process,
    ``file_margin(path, X)``.

    Parameters
    ----------
    library : str
        Name under which the library is imported.
    module : str
        Where its models are read; imported only when one is met.
    name : str
        Name of the library in sentences.
    models, files : str
        Which of its models are read, where these are not all, and which of its files.
    """

    library: str
    module: str
    name: str
    models: str = ""
    files: str = ""


FAMILIES: tuple[Family, ...] = (
    Family("xgboost", "treepurify.models.xgboost", "XGBoost", files="XGBoost .json and .ubj"),
    Family("lightgbm", "treepurify.models.lightgbm", "LightGBM", files="LightGBM .txt"),
    Family(
        "sklearn",
        "treepurify.models.sklearn",
        "scikit-learn",
        models="trees, forests, isolation forests, boosting",
    ),
    Family("treelite", "treepurify.models.treelite", "Treelite"),
    Family("catboost", "treepurify.models.catboost", "CatBoost", files="CatBoost .json and .cbm"),
    Family(
        "interpret",
        "treepurify.models.ebm",
        "interpret",
        models="EBM",
        files="the .json of an explainable boosting machine (EBM)",
    ),
)


def family_module(library: str) -> ModuleType:
    """Return the module that reads the models of a library."""
    return import_module(next(f.module for f in FAMILIES if f.library == library))


def family_of(class_names: list[str]) -> ModuleType | None:
    """Return the module for the first class whose library is known; None if there is none."""
    for name in class_names:
        for family in FAMILIES:
            if name.startswith(f"{family.library}."):
                return import_module(family.module)
    return None


def file_parsers() -> Iterator[Callable[[Any], Any]]:
    """Yield ``parse_file`` of each family that has files, in their order."""
    for family in FAMILIES:
        if family.files:
            yield import_module(family.module).parse_file


def display_name(library: str) -> str:
    """Return the name of a library in sentences."""
    return next((f.name for f in FAMILIES if f.library == library), library)


def known_models() -> str:
    """Return the libraries whose models are read, in words."""
    return listed_names([f"{f.name} ({f.models})" if f.models else f.name for f in FAMILIES])


def known_files() -> str:
    """Return the files that are read, in words."""
    names = [f.files for f in FAMILIES if f.files]
    return f"{', '.join(names[:-1])}, and {names[-1]}"
