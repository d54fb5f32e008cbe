"""Findings about what supports an effect: its rows, its values, and the data around them."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from treepurify.auditing.findings import PART, Finding, as_one, effect_words, output_words
from treepurify.auditing.ranked_findings import Audit
from treepurify.comparing.regions import cells_in_words
from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.typing import Array, Indices

# An effect rests on few rows if so much of its variance lies on so much of the mass. The outermost
# 1% of a normal distribution has 8% of its variance, of an exponential one 22%, and of a product of
# two normal features 21%.
FEW_ROWS, MOST_OF_IT = 0.01, 0.5
# Of the mass: the neighbours of a value on each side, no finer than trees of depth six split where
# they follow a trend of some hundred rows; and what a value has that needs them, since the rows of
# a common one, such as an hour of the day, support it.
NEIGHBOURS, NARROW = 0.05, 0.02
# Of the variance of an effect: what its jumps have. Where trees of depth six follow a trend in
# noise as large as the signal, the jumps of strong effects are a fortieth, and those of weak ones,
# of which they can be half, stay below 0.7% of the variance of the prediction.
JUMPING_PART = 0.05
# How much larger an effect must be without data than with them, to show in a figure.
NOTABLE_RATIO = 2.0
_ROUNDING = 1e-12


def identifiers(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the features that have another value in every row, and that the model uses."""
    d = audit.decomposition
    for j in audit.identifiers:
        own = {s: component.variance for s, component in d.components.items() if j in s}
        if not any(np.any(variance > 0) for variance in own.values()):
            continue
        shares = np.sum(list(own.values()), axis=0) / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        largest = max(own, key=lambda subset: float(own[subset][k]))
        sentence = (
            f"{d.feature_names[j]} has another value in every row, like an identifier, and the "
            f"model uses it: its largest effect, {d.term_name(largest)}{output_words(d, k)}, has a "
            f"size of {np.sqrt(own[largest][k]):.3g}."
        )
        severity = min(float(shares[k]), 1.0)
        numbers = {"share": float(shares[k])}
        yield Finding("identifier", (j,), k, severity, sentence, numbers, effects=(largest,))


def effects_of_few_rows(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects that have half of their variance on 1% of the mass or less."""
    d = audit.decomposition
    for subset, component, k in _large_effects(audit, total):
        mass = component.mass.ravel()
        values = component.values[..., k].ravel()
        squares = (values - mass @ values) ** 2
        few = _fewest_cells(mass, squares)
        part = float(mass[few].sum())
        if part > FEW_ROWS:
            continue
        share = float(component.variance[k] / total[k])
        held = float(mass[few] @ squares[few] / component.variance[k])
        is_one_cell = len(subset) == 1 and len(few) == 1
        where = cells_in_words(component.axes[0], few.tolist()) if is_one_cell else ""
        sentence = (
            f"The {effect_words(d, subset, k)} rests on few rows: {held:.0%} of its variance lies "
            f"on {_rows_in_words(d, part)}{f', where {where}' if where else ''}."
        )
        numbers = {"share": share, "mass": part, "held_there": held}
        cells = tuple(np.sort(few).tolist()) if len(subset) == 1 else ()
        yield Finding("few rows", subset, k, share, sentence, numbers, where, cells)


def _fewest_cells(mass: Array, squares: Array) -> Indices:
    """Return the cells of largest squares that hold `MOST_OF_IT` of their weighted sum."""
    order = np.argsort(-squares, kind="stable")
    order = order[mass[order] > 0]
    held = np.cumsum((mass * squares)[order])
    return order[: int(np.searchsorted(held, MOST_OF_IT * held[-1])) + 1]


def _large_effects(audit: Audit, total: Array) -> Iterator[tuple[Subset, TensorComponent, int]]:
    """Yield the tables and outputs with at least the threshold of the variance."""
    for subset, component in audit.decomposition.tensor_components().items():
        for k in np.flatnonzero((total > 0) & (component.variance >= audit.threshold * total)):
            yield subset, component, int(k)


def numeric_main_effects(d: Decomposition) -> list[TensorComponent]:
    """Return the main effects whose values have neighbours."""
    mains = [c for subset, c in d.tensor_components().items() if len(subset) == 1]
    return [component for component in mains if not component.axes[0].is_categorical]


def unsupported_jumps(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the main effects that jump where neighbouring values do not support it."""
    d = audit.decomposition
    for subset, component, k in _large_effects(audit, total):
        axis = component.axes[0]
        if len(subset) > 1 or axis.is_categorical:
            continue
        mass, values = component.mass[: axis.n_regular], component.values[: axis.n_regular, k]
        jumps = np.where(mass <= NARROW, _jumps(values, mass), 0.0)
        squares = mass * jumps**2
        jumping = float(squares.sum())
        share, part = jumping / total[k], jumping / float(component.variance[k])
        if share < audit.threshold or part < JUMPING_PART:
            continue
        largest = int(np.argmax(squares))
        where = cells_in_words(axis, [largest])
        sentence = (
            f"The {effect_words(d, subset, k)} jumps at single values, which is {part:.0%} of its "
            f"variance. The largest jump: {values[largest]:+.3g} where {where}, on "
            f"{_rows_in_words(d, float(mass[largest]))}, but "
            f"{values[largest] - jumps[largest]:+.3g} next to this value."
        )
        numbers = {"share": share, "part": part, "jump": float(jumps[largest])}
        cells = tuple(np.flatnonzero(squares > PART * squares[largest]).tolist())
        yield Finding("jumps", subset, k, share, sentence, numbers, where, cells)


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


def _rows_in_words(d: Decomposition, part: float) -> str:
    """Return a share of the mass, with the number of rows that it is of those that are known."""
    n_rows = d.origin.n_rows
    number = "" if n_rows is None else f" (about {max(round(part * n_rows), 1)} of {n_rows})"
    return f"{100 * part:.2g}% of the rows{number}"


def extrapolations(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the pairs that are at least twice as large without data as with them."""
    d = audit.decomposition
    for subset, component in d.tensor_components().items():
        empty = component.mass <= 0
        if len(subset) < 2 or not np.any(empty) or np.all(empty):
            continue
        for k in range(d.n_outputs):
            sizes = np.abs(component.values[..., k])
            without, within = float(sizes[empty].max()), float(sizes[~empty].max())
            least = audit.threshold * total[k]
            if without**2 < least or without < NOTABLE_RATIO * within:
                continue
            # A pair that only rounding keeps from zero where there are data is zero there.
            within = within if within > _ROUNDING * without else 0.0
            inside = f"at most {within:.3g}" if within else "zero"
            sentence = (
                f"The {effect_words(d, subset, k)} is up to {without:.3g} at combinations of "
                f"values that never occur in the data ({np.mean(empty):.0%} of all combinations), "
                f"but {inside} at those that do."
            )
            numbers = {
                "largest_without_data": without,
                "largest_with_data": within,
                "share_without_data": float(np.sum(sizes[empty] ** 2) / np.sum(sizes**2)),
                "cells_without_data": float(np.mean(empty)),
            }
            # No mass, no variance: such findings rank below all that concern predictions.
            part = min(float(without**2 / total[k]), 1.0) if total[k] > 0 else 0.0
            severity = audit.threshold * part
            yield Finding("extrapolation", subset, k, severity, sentence, numbers)


def open_effects(d: Decomposition) -> list[Subset]:
    """Return the effects with a constant that the data do not determine, of any size."""
    known = d.origin.open_directions.items()
    return [subset for subset, directions in known if directions and subset in d.components]


def unidentified_effects(audit: Audit, total: Array) -> Iterator[Finding]:
    """Yield the effects with a constant that the data do not determine.

    Such a constant moves between a group of rows and all others, and changes the variance by its
    square times ``m (1 - m)`` for a group of mass ``m``. So what the main effects have of the
    variance of the prediction is weighed by twice the chance that two rows are of different
    groups: one for two halves, next to nothing for a single row.
    """
    d = audit.decomposition
    repeated = []
    for subset in open_effects(d):
        directions = d.origin.open_directions[subset] or 0
        mains = [d.components[(j,)].variance for j in subset if (j,) in d.components]
        shares = np.sum(mains, axis=0) / np.where(total > 0, total, np.inf)
        k = int(np.argmax(shares))
        component = d.components[subset]
        masses = _group_masses(component) if isinstance(component, TensorComponent) else np.ones(1)
        is_split = len(masses) > 1
        weight = min(2.0 * float(1.0 - masses @ masses), 1.0) if is_split else 1.0
        severity = min(float(shares[k]), 1.0) * weight
        if severity < audit.threshold:
            continue
        outside = 1.0 - float(masses.max())
        where = f" ({outside:.1%} of the rows are outside the largest group)" if is_split else ""
        sentence = (
            f"The data cannot separate {d.term_name(subset)} from its main effects: the rows form "
            f"{directions + 1} disconnected groups without a value in common{where}, so the level "
            "of one group relative to another is arbitrary."
        )
        numbers = {"directions": float(directions), "outside_largest": outside}
        finding = Finding("identifiability", subset, k, severity, sentence, numbers)
        if _has_common_source(d, subset):
            repeated.append(finding)
        else:
            yield finding
    # That columns made of the same ones repeat each other is known before looking at rows.
    if repeated:
        yield as_one(d, repeated)


def _has_common_source(d: Decomposition, subset: Subset) -> bool:
    """Return whether several of some features are made from one raw column."""
    specs = [d.inputs.features[j] for j in subset]
    counts = Counter(name for spec in specs for name in spec.raw_columns)
    return any(count > 1 for count in counts.values())


def _group_masses(component: TensorComponent) -> Array:
    """Return the mass of each group of cells with data that no value connects with others."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    cells = np.argwhere(component.mass > 0)
    starts = np.cumsum([0, *component.mass.shape])
    # The values of each feature are the nodes; a cell with data connects those that it has.
    nodes = cells + starts[:-1]
    first = np.repeat(nodes[:, 0], nodes.shape[1] - 1)
    edges = coo_array((np.ones(len(first)), (first, nodes[:, 1:].ravel())), shape=(starts[-1],) * 2)
    _, labels = connected_components(edges, directed=False)
    masses = np.bincount(labels[nodes[:, 0]], component.mass[component.mass > 0])
    return np.asarray(masses[masses > 0])
