"""The loss on given rows where an effect is left out, and others take over what they can."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from treepurify.components import values_on_rows
from treepurify.decomposition import Absorb, Decomposition
from treepurify.evidence.editing import has_independent_effects
from treepurify.evidence.effect_space import EffectSpace, absorbing, effect_space, space_on_rows
from treepurify.evidence.held_out import HeldOut
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.typing import Array

__all__ = ["absorbed_losses", "work_of_absorbing"]

# Functions that are projected on the same effects side by side.
_AT_ONCE = 8
# Steps of conjugate gradients, as an order of magnitude.
_STEPS = 40


def work_of_absorbing(d: Decomposition) -> float:
    """Return about how many additions the projections of all effects on main effects take."""
    n_rows = next(iter(d.rows.values())).n_rows if d.rows else 0
    n_mains = sum(len(subset) == 1 for subset in d.components)
    return 2.0 * _STEPS * n_rows * n_mains * len(d.components) * d.n_outputs


def absorbed_losses(
    d: Decomposition,
    held_out: HeldOut,
    absorb: Absorb,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the loss without each effect, where others absorb it; NaN for the remainder.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    held_out : HeldOut
        The rows on which the loss is measured.
    absorb : bool or "main"
        Which effects absorb; not False.
    memory_budget : int
        Bytes that the cells of all rows may take.
    report : callable
        Progress.

    Returns
    -------
    ndarray of float64, shape (n_effects,)
    """
    losses = np.full(len(held_out.subsets), np.nan)
    if has_independent_effects(d):
        for part, subset in enumerate(held_out.subsets):
            if subset:
                margin = held_out.margin - held_out.contributions[part]
                losses[part] = held_out.loss.mean(margin, held_out.shares)
        return losses
    everything = absorbing(d.components, absorb)
    measure = effect_space(d, everything, memory_budget)
    there = space_on_rows(d, everything, held_out.columns, held_out.shares, memory_budget)
    for subset, absorbed in _absorbed(d, measure, there, absorb, report):
        part = held_out.subsets.index(subset)
        margin = held_out.margin - held_out.contributions[part] + absorbed
        losses[part] = held_out.loss.mean(margin, held_out.shares)
    return losses


def _absorbed(
    d: Decomposition,
    measure: EffectSpace,
    there: EffectSpace,
    absorb: Absorb,
    report: ProgressReport,
) -> Iterator[tuple[Subset, Array]]:
    """Yield each effect with what others take over of it on the held-out rows."""
    groups: dict[tuple[Subset, ...], list[Subset]] = {}
    for subset in d.components:
        onto = absorbing([other for other in d.components if other != subset], absorb)
        groups.setdefault(onto, []).append(subset)
    rows: Any = d.rows
    tensors = d.tensor_components()
    done = 0
    for onto, members in groups.items():
        for start in range(0, len(members), _AT_ONCE):
            chosen = members[start : start + _AT_ONCE]
            report("letting effects absorb others", done, len(d.components))
            values = np.concatenate([values_on_rows(tensors[s], rows) for s in chosen], axis=1)
            projected = measure.project(values, onto)
            on_rows = projected.mean + there.sum_of(projected.tables)
            for i, subset in enumerate(chosen):
                yield subset, on_rows[:, i * d.n_outputs : (i + 1) * d.n_outputs]
            done += len(chosen)
