"""The worth of each effect, averaged over all orders in which effects can be left out."""

from math import factorial

import numpy as np

from treepurify.evidence.losses import Loss
from treepurify.progress import ProgressReport
from treepurify.typing import Array

__all__ = ["is_quadratic", "most_shapley_effects", "shapley_worth"]

_MOST_EFFECTS = 16
# What a loss takes for one row, in additions.
_WORK_A_ROW = 20


def most_shapley_effects(n_rows: int, most_work: float) -> int:
    """Return for how many effects every set of them can be tried on so many rows."""
    return int(min(_MOST_EFFECTS, max(np.log2(most_work / (_WORK_A_ROW * max(n_rows, 1))), 1)))


def is_quadratic(loss: Loss) -> bool:
    """Return whether a loss is quadratic in the margin: its Shapley values are a formula."""
    return loss.name == "squared_error" and loss.curvature is not None


def shapley_worth(
    intercept: Array, contributions: Array, loss: Loss, shares: Array, report: ProgressReport
) -> Array:
    """Return the Shapley values of the effects for minus the loss of a set of them.

    They sum to the loss of the intercept less that of the model. The loss of a set is that of the
    intercept plus its effects; nothing is absorbed.

    Parameters
    ----------
    intercept : ndarray of float64, shape (n_outputs,)
        The intercept.
    contributions : ndarray of float64, shape (n_effects, n_rows, n_outputs)
        What each effect adds.
    loss : Loss
        The loss.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    report : callable
        Progress.
    """
    if is_quadratic(loss) and loss.curvature is not None:
        gradient, _ = loss.curvature(np.tile(intercept, (len(shares), 1)))
        return _of_squared_error(gradient, contributions, shares)
    n_effects = len(contributions)
    losses = np.empty(1 << n_effects)
    margin = np.tile(intercept, (len(shares), 1))
    chosen = 0
    losses[0] = loss.mean(margin, shares)
    # In the order of a Gray code, so that each set differs from the one before by one effect.
    for step in range(1, len(losses)):
        effect = (step & -step).bit_length() - 1
        chosen ^= 1 << effect
        sign = 1.0 if chosen >> effect & 1 else -1.0
        margin += sign * contributions[effect]
        losses[chosen] = loss.mean(margin, shares)
        report("leaving sets of effects out", step, len(losses))
    return _shapley_values(losses, n_effects)


def _of_squared_error(gradient: Array, contributions: Array, shares: Array) -> Array:
    """Return the values of a quadratic game: ``E[f_S (2 (y - c) - sum of all f_T)]``.

    `gradient` is that of half the squared error of the intercept: ``c - y``.
    """
    factor = -2.0 * gradient - contributions.sum(axis=0)
    weighted = shares[:, None] * factor / factor.shape[1]
    return np.array([float((weighted * values).sum()) for values in contributions])


def _shapley_values(losses: Array, n_effects: int) -> Array:
    sets = np.arange(len(losses))
    sizes = np.array([int(s).bit_count() for s in sets])
    weight_of_size = np.array(
        [
            factorial(size) * factorial(n_effects - size - 1) / factorial(n_effects)
            for size in range(n_effects)
        ]
    )
    values = np.empty(n_effects)
    for effect in range(n_effects):
        without = sets[sets >> effect & 1 == 0]
        gain = losses[without] - losses[without | 1 << effect]
        values[effect] = float((weight_of_size[sizes[without]] * gain).sum())
    return values
