"""Decompose one model by two engines that share no arithmetic, to compare what they find."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from treepurify.cli.data import DataFile
from treepurify.cli.engines import Engine
from treepurify.comparing.comparison import Comparison
from treepurify.decomposition import Decomposition
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model

__all__ = ["cross_check", "read_engines", "refuse_failed", "what_rows_determine"]

# Components of least norm are symmetric in the features, and show which effects are determined;
# beyond this size they take a long time.
_LEAST_NORM_BUDGET = 1 << 28
_FIRST_FUNCTIONS_BUDGET = 4 << 30
# The largest error in a certificate, relative to the largest effect, that allows a verdict.
_LARGEST_ERROR = 1e-6


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
    known = [engine.value for engine in _MAKERS]
    if len(names) != 2 or len(set(names)) != 2 or not set(names) <= set(known):
        raise typer.BadParameter(
            "--engines takes two different engines, separated by a comma, from "
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
            "--engines compares two ways to decompose an ensemble of trees; this file contains "
            "tables of effects (an EBM). To compare distributions instead, leave --engines out"
        )
    task = _Task(model, rows, order, progress)
    return [_MAKERS[engine](task) for engine in engines]


def refuse_failed(names: Sequence[str], decompositions: Sequence[Decomposition]) -> None:
    """Refuse a verdict on decompositions whose own certificates say that they failed.

    Raises
    ------
    InvalidInputError
        If one of them did.
    """
    for name, d in zip(names, decompositions, strict=True):
        failure = _failure(d)
        if failure:
            raise InvalidInputError(
                f"no verdict: {name} failed according to its certificate ({failure}). Pass "
                "--order 1, or a model with fewer splits"
            )


def _failure(d: Decomposition) -> str:
    certificate = d.certificate
    if certificate is None:
        return "there is none"
    if not certificate.converged:
        return f"its solver stopped at an error of {certificate.solver_error:.1e}"
    means = certificate.conditional_mean
    if means is not None and not means <= _LARGEST_ERROR:
        return (
            f"effects still contain effects of fewer features, with means of up to {means:.1e} of "
            "the largest effect"
        )
    if not (certificate.additivity_rows or 0.0) <= _LARGEST_ERROR:
        return (
            f"the effects add up to the model only within {certificate.additivity_rows:.1e} of the "
            "largest effect"
        )
    return ""


def what_rows_determine(decompositions: Sequence[Decomposition], compared: Comparison) -> list[str]:
    """Return which effects the rows do not determine, by the closed form, in sentences."""
    lines = []
    for d in decompositions:
        known = d.origin.identifiability
        if known is None or known.is_unique or d.certificate is None:
            continue
        lines.append(d.certificate.note)
        determined = known.determined_terms
        if determined:
            distance = compared.terms.loc[compared.terms["term"].isin(determined), "distance"].max()
            lines.append(f"The effects that the data determine differ by at most {distance:.1e}.")
        elif determined is not None:
            lines.append("A difference is therefore not an error, and agreement proves little.")
    return lines


def _purified(task: _Task) -> Decomposition:
    return purify(
        task.model,
        task.rows.X,
        weights="empirical",
        order=task.order,
        sample_weight=task.rows.sample_weight,
        progress=task.progress,
    )


def _closed_form(task: _Task) -> Decomposition:
    closed_form = partial(
        categorical_anova,
        task.model,
        task.rows.X,
        order=task.order,
        sample_weight=task.rows.sample_weight,
        progress=task.progress,
    )
    try:
        return closed_form(selection="least-norm", memory_budget=_LEAST_NORM_BUDGET)
    except MemoryBudgetError:
        return _first_functions(closed_form)


def _first_functions(closed_form: Callable[..., Decomposition]) -> Decomposition:
    try:
        return closed_form(memory_budget=_FIRST_FUNCTIONS_BUDGET)
    except MemoryBudgetError as error:
        raise InvalidInputError(
            f"the engine categorical cannot check this model: {error} On the command line, pass "
            "--order 1 or fewer rows"
        ) from error


_MAKERS: dict[Engine, Callable[[_Task], Decomposition]] = {
    Engine.TREE: _purified,
    Engine.CATEGORICAL: _closed_form,
}
