"""Decompose one model by two engines that share no arithmetic, to compare what they find."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import typer

from treepurify.cli.data import DataFile
from treepurify.decomposition import Decomposition
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.tree import purify
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model

__all__ = ["Engine", "cross_check", "read_engines"]


class Engine(StrEnum):
    """What makes the effects."""

    TREE = "tree"
    CATEGORICAL = "categorical"


class _Task(NamedTuple):
    model: Path
    rows: DataFile
    order: int
    progress: bool


def read_engines(text: str) -> list[Engine]:
    """Return the two engines that ``"tree,categorical"`` names.

    Raises
    ------
    BadParameter
        If it does not name two different engines.
    """
    names = [name.strip() for name in text.split(",")]
    known = [engine.value for engine in Engine]
    if len(names) != 2 or len(set(names)) != 2 or not set(names) <= set(known):
        raise typer.BadParameter(
            f"--engines takes two different engines with a comma between them, of "
            f"{', '.join(known)}, such as tree,categorical; got {text!r}"
        )
    return [Engine(name) for name in names]


def cross_check(
    model: Path,
    parsed: Model,
    rows: DataFile,
    engines: list[Engine],
    *,
    order: int,
    progress: bool,
) -> list[Decomposition]:
    """Return the decomposition of a tree model by each engine, on the model's own grid.

    Raises
    ------
    InvalidInputError
        If the model has no trees, or its grid is too fine for the closed form.
    """
    if not isinstance(parsed, TreeEnsemble):
        raise InvalidInputError(
            "--engines compares two ways to decompose an ensemble of trees on its own cells; this "
            "file holds tables of effects (an EBM). Compare distributions instead: leave "
            "--engines out"
        )
    task = _Task(model, rows, order, progress)
    return [_MAKERS[engine](task) for engine in engines]


def _purified(task: _Task) -> Decomposition:
    return purify(
        task.model,
        task.rows.X,
        order=task.order,
        sample_weight=task.rows.sample_weight,
        progress=task.progress,
    )


def _closed_form(task: _Task) -> Decomposition:
    try:
        return categorical_anova(
            task.model,
            task.rows.X,
            order=task.order,
            sample_weight=task.rows.sample_weight,
            progress=task.progress,
        )
    except MemoryBudgetError as error:
        raise InvalidInputError(
            f"the cells of this model are too many for the closed form: {error} On the command "
            "line take --order 1, or fewer rows"
        ) from error


_MAKERS: dict[Engine, Callable[[_Task], Decomposition]] = {
    Engine.TREE: _purified,
    Engine.CATEGORICAL: _closed_form,
}
