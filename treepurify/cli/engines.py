"""The engines that compute the effects of a model file, and the options that each of them takes."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.cli.data import DataFile
from treepurify.cli.options import PurifyMethod, Weights
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.anova import ale_anova
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.hooker.anova import hooker_anova
from treepurify.engines.legendre import legendre_anova
from treepurify.engines.partial_dependence.anova import partial_dependence_anova
from treepurify.engines.tree.purify import purify

__all__ = [
    "BinsOption",
    "DegreeOption",
    "Engine",
    "EngineOption",
    "MethodOption",
    "check_engine",
    "decompose_by",
]


class Engine(StrEnum):
    """The engine that computes the effects."""

    TREE = "tree"
    PARTIAL_DEPENDENCE = "partial-dependence"
    ALE = "ale"
    HOOKER = "hooker"
    LEGENDRE = "legendre"
    CATEGORICAL = "categorical"


EngineOption = Annotated[
    Engine,
    typer.Option(
        help="tree: purified effects. The other engines answer another question, or check the "
        "effects: partial-dependence, ale (accumulated local "
        "effects), hooker (a fit by tables), legendre (by polynomials), categorical (a closed "
        "form)."
    ),
]
MethodOption = Annotated[
    PurifyMethod,
    typer.Option(
        help="How the tree engine computes effects; mass-moving is the published algorithm."
    ),
]
DegreeOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="For --engine legendre: largest degree of the polynomials; 10 by default."
    ),
]
BinsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="For --engine ale: largest number of intervals of a feature, with about equally many "
        "rows in each; 20 by default.",
    ),
]

_CALLS: dict[Engine, Callable[..., Decomposition]] = {
    Engine.TREE: purify,
    Engine.PARTIAL_DEPENDENCE: partial_dependence_anova,
    Engine.ALE: ale_anova,
    Engine.HOOKER: hooker_anova,
    Engine.LEGENDRE: legendre_anova,
    Engine.CATEGORICAL: categorical_anova,
}
_UNDER_WEIGHTS = (Engine.TREE, Engine.HOOKER, Engine.CATEGORICAL)
# Arguments that are passed on as they are, and the engine that takes each of them.
_TAKEN_BY = {"degree": Engine.LEGENDRE, "bins": Engine.ALE}


def check_engine(
    engine: Engine,
    data: Path | None,
    weights: Weights | None,
    method: PurifyMethod,
    settings: Mapping[str, int | None],
) -> None:
    """Refuse options that the engine does not have.

    Raises
    ------
    BadParameter
        If it has no distributions or methods to choose from, lacks one of the `settings` that are
        not None, or needs rows and gets none.
    """
    if weights is not None and engine not in _UNDER_WEIGHTS:
        raise typer.BadParameter(
            f"--weights applies to the engines {', '.join(_UNDER_WEIGHTS)}; {engine} averages over "
            "the rows of DATA as they are"
        )
    if engine is not Engine.TREE and method is not PurifyMethod.AUTO:
        raise typer.BadParameter(f"--method belongs to --engine tree, not {engine}")
    for name, value in settings.items():
        owner = _TAKEN_BY[name]
        if value is not None and engine is not owner:
            raise typer.BadParameter(f"--{name} belongs to --engine {owner}, not {engine}")
    if engine is not Engine.TREE and data is None:
        raise typer.BadParameter(f"--engine {engine} needs a DATA file with rows of the features")


def decompose_by(
    engine: Engine,
    model: Path,
    rows: DataFile,
    *,
    weights: Weights | None,
    order: int,
    method: PurifyMethod,
    settings: Mapping[str, int | None],
    progress: bool,
) -> Decomposition:
    """Return the effects of a model file by an engine, with its usual settings where None."""
    chosen: dict[str, Any] = {k: value for k, value in settings.items() if value is not None}
    if weights is not None:
        chosen["weights"] = weights.value
    if engine is Engine.TREE:
        chosen["method"] = method.value
    # The file is passed on, not what was parsed from it, so that its library is asked, too.
    return _CALLS[engine](
        model, rows.X, order=order, sample_weight=rows.sample_weight, progress=progress, **chosen
    )
