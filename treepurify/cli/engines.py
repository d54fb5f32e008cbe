"""The engines that compute the effects of a model file, and the options that each of them takes."""

from collections.abc import Callable
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

__all__ = ["Engine", "EngineOption", "MethodOption", "check_engine", "decompose_by"]


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
        help="tree: purified effects. The others read the model as a function, for effects that "
        "answer another question, or to check: partial-dependence, ale (accumulated local "
        "effects), hooker (a fit by tables), legendre (by polynomials), categorical (a closed "
        "form)."
    ),
]
MethodOption = Annotated[
    PurifyMethod,
    typer.Option(
        help="How the engine tree computes effects; mass-moving is the paper's algorithm."
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


def check_engine(
    engine: Engine, data: Path | None, weights: Weights | None, method: PurifyMethod
) -> None:
    """Refuse options that the engine does not have.

    Raises
    ------
    BadParameter
        If it has no distributions or methods to choose from, or needs rows and gets none.
    """
    if weights is not None and engine not in _UNDER_WEIGHTS:
        raise typer.BadParameter(
            f"--weights applies to the engines {', '.join(_UNDER_WEIGHTS)}; {engine} averages over "
            "the rows of DATA as they are"
        )
    if engine is not Engine.TREE and method is not PurifyMethod.AUTO:
        raise typer.BadParameter(f"--method belongs to --engine tree, not {engine}")
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
    progress: bool,
) -> Decomposition:
    """Return the effects of a model file by an engine, under its usual distribution for None."""
    chosen: dict[str, Any] = {} if weights is None else {"weights": weights.value}
    if engine is Engine.TREE:
        chosen["method"] = method.value
    # The file is passed on, not what was parsed from it, so that its library is asked, too.
    return _CALLS[engine](
        model, rows.X, order=order, sample_weight=rows.sample_weight, progress=progress, **chosen
    )
