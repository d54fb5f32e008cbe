"""Findings about effects that few rows, or no neighbouring values, support."""

import numpy as np

from treepurify.auditing.findings import (
    FEW_ROWS,
    JUMPING_PART,
    MOST_OF_IT,
    NARROW,
    NEIGHBOURS,
    PART,
    Finding,
    output_words,
)
from treepurify.comparing.apparent import model_variance
from treepurify.comparing.regions import cells_in_words
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.typing import Array, Indices

__all__ = ["effects_of_few_rows", "numeric_main_effects", "unsupported_jumps"]


def effects_of_few_rows(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the effects that have half of their variance on 1% of the mass or less.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction from which an effect counts.
    """
    total = model_variance(d)
    findings = []
    for subset, component in d.tensor_components().items():
        for k in range(d.n_outputs):
            if total[k] <= 0 or component.variance[k] < threshold * total[k]:
                continue
            mass = component.mass.ravel()
            squares = (component.values[..., k].ravel() - _mean(component, k)) ** 2
            few = _fewest_cells(mass, squares)
            part = float(mass[few].sum())
            if part > FEW_ROWS:
                continue
            share = float(component.variance[k] / total[k])
            held = float(mass[few] @ squares[few] / component.variance[k])
            axis = component.axes[0]
            is_one_cell = len(subset) == 1 and len(few) == 1
            where = cells_in_words(axis, few.tolist()) if is_one_cell else ""
            what = "main effect of" if len(subset) == 1 else "interaction"
            sentence = (
                f"The {what} {d.term_name(subset)}{output_words(d, k)} rests on few rows: it "
                f"carries {share:.1%} of the variance of the prediction, and {held:.0%} of that "
                f"lies on {_rows_in_words(d, part)}{f', where {where}' if where else ''}."
            )
            numbers = {"share": share, "mass": part, "held_there": held}
            cells = tuple(np.sort(few).tolist()) if len(subset) == 1 else ()
            findings.append(Finding("few rows", subset, k, share, sentence, numbers, where, cells))
    return findings


def _fewest_cells(mass: Array, squares: Array) -> Indices:
    """Return the cells of largest squares that hold `MOST_OF_IT` of their weighted sum."""
    order = np.argsort(-squares, kind="stable")
    order = order[mass[order] > 0]
    held = np.cumsum((mass * squares)[order])
    return order[: int(np.searchsorted(held, MOST_OF_IT * held[-1])) + 1]


def numeric_main_effects(d: Decomposition) -> list[TensorComponent]:
    """Return the main effects whose values have neighbours."""
    return [
        component
        for subset, component in d.tensor_components().items()
        if len(subset) == 1 and not component.axes[0].is_categorical
    ]


def unsupported_jumps(d: Decomposition, threshold: float) -> list[Finding]:
    """Return the main effects that jump where neighbouring values do not support it.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    threshold : float
        Share of the variance of the prediction that the jumps of an effect have.
    """
    total = model_variance(d)
    findings = []
    for component in numeric_main_effects(d):
        axis = component.axes[0]
        regular = slice(0, axis.n_regular)
        mass = component.mass[regular]
        for k in range(d.n_outputs):
            variance = float(component.variance[k])
            if total[k] <= 0 or variance < threshold * total[k]:
                continue
            jumps = np.where(mass <= NARROW, _jumps(component.values[regular, k], mass), 0.0)
            squares = mass * jumps**2
            share, part = float(squares.sum() / total[k]), float(squares.sum()) / variance
            if share < threshold or part < JUMPING_PART:
                continue
            largest = int(np.argmax(squares))
            cells = np.flatnonzero(squares > PART * squares[largest])
            where = cells_in_words(axis, [largest])
            value = float(component.values[largest, k])
            sentence = (
                f"The main effect of {axis.name}{output_words(d, k)} jumps at single values: the "
                f"jumps carry {share:.1%} of the variance of the prediction, {part:.0%} of the "
                f"variance of the effect. The largest jump: {value:+.3g} where {where}, on "
                f"{_rows_in_words(d, float(mass[largest]))}, but {value - jumps[largest]:+.3g} "
                "next to this value."
            )
            numbers = {"share": share, "part": part, "jump": float(jumps[largest])}
            findings.append(
                Finding(
                    "jumps",
                    component.features,
                    k,
                    share,
                    sentence,
                    numbers,
                    where,
                    tuple(cells.tolist()),
                )
            )
    return findings


def _jumps(values: Array, mass: Array) -> Array:
    """Return by how much each value lies above, or below, the medians on both of its sides.

    Zero where it lies between them, as along a trend or at a step, and where a side has no rows.
    The medians are those of the rows within `NEIGHBOURS` of the mass on each side.
    """
    jumps = np.zeros(len(values))
    held = np.flatnonzero(mass > 0)
    ends = np.concatenate([[0.0], np.cumsum(mass[held])])
    for place, cell in enumerate(held):
        first = int(np.searchsorted(ends, ends[place] - NEIGHBOURS, side="right")) - 1
        last = int(np.searchsorted(ends, ends[place + 1] + NEIGHBOURS, side="left"))
        left, right = held[max(first, 0) : place], held[place + 1 : last]
        if len(left) and len(right):
            own = values[cell]
            above, below = (own - _median(values[side], mass[side]) for side in (left, right))
            if above * below > 0:
                jumps[cell] = np.sign(above) * min(abs(above), abs(below))
    return jumps


def _median(values: Array, mass: Array) -> float:
    order = np.argsort(values)
    held = np.cumsum(mass[order])
    return float(values[order[int(np.searchsorted(held, 0.5 * held[-1]))]])


def _mean(component: TensorComponent, output: int) -> float:
    return float(np.sum(component.mass * component.values[..., output]))


def _rows_in_words(d: Decomposition, part: float) -> str:
    """Return a share of the mass, with the number of rows that it is of those that are known."""
    n_rows = d.origin.n_rows
    number = "" if n_rows is None else f" (about {max(round(part * n_rows), 1)} of {n_rows})"
    return f"{100 * part:.2g}% of the rows{number}"
