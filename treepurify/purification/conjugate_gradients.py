"""Conjugate gradients for the parts that leave a tensor."""

import numpy as np

from treepurify._kernels.gradient_steps import take_step
from treepurify.purification.slices import Slices
from treepurify.typing import Array, Mask

__all__ = ["NOISE", "conjugate_gradients"]

NOISE = 5e-16
"""Conditional means are known to this part of the table's largest entry, whatever their size."""

_MOST_STEPS = 20_000
_FLATTEST = 1e-14


def conjugate_gradients(
    slices: Slices, means: Array, active: Mask, goal: float, entries: Array
) -> tuple[Array, int, float]:
    """Return parts that leave small conditional means, and how they were found.

    All quantities are divided by the slice mass: the preconditioned residual is the
    conditional mean of each slice, so that its largest entry is what the stopping rule is
    about. Outputs are solved side by side, each with its own step lengths.

    Parameters
    ----------
    slices : Slices
        The tensor.
    means : ndarray of float64, shape (n_slices, n_outputs)
        Conditional means to remove.
    active : ndarray of bool, shape (n_slices,)
        Slices whose parts may change.
    goal : float
        Steps stop where every conditional mean is a tenth of this.
    entries : ndarray of float64, shape (n_outputs,)
        Largest entry of the tensor.

    Returns
    -------
    parts : ndarray of float64, shape (n_slices, n_outputs)
        The parts, zero in slices that are not active.
    steps : int
        Steps taken.
    smallest : float
        The smallest Ritz value met.
    """
    mean = np.where(active, means.T, 0.0)
    direction, parts = mean.copy(), np.zeros_like(mean)
    energy = np.asarray((mean * mean) @ slices.mass)
    leading = int(np.argmax(energy))
    noise = (NOISE * entries) ** 2 * float(slices.mass[active].sum())
    going = energy > noise
    lengths: list[float] = []
    turns: list[float] = []
    taken = np.empty((2, len(mean)))
    given = active, slices.mass, 0.1 * goal, noise, _FLATTEST
    n_above = 1
    while n_above > 0 and len(lengths) < _MOST_STEPS:
        image = np.ascontiguousarray(slices.image(direction.T).T)
        n_above = take_step(image, *given, going, energy, (direction, parts, mean), taken)
        if n_above >= 0:
            lengths.append(float(taken[0, leading]))
            turns.append(float(taken[1, leading]))
    return parts.T, len(lengths), _smallest_ritz_value(lengths, turns)


def _smallest_ritz_value(lengths: list[float], turns: list[float]) -> float:
    """Estimate the smallest eigenvalue that the iteration met, from its own coefficients.

    Conjugate gradients are a Lanczos process: its tridiagonal matrix has the diagonal
    1/length_k + turn_{k-1}/length_{k-1} and the off-diagonal sqrt(turn_k)/length_k.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    usable = 0
    while usable < len(lengths) and lengths[usable] > 0:
        usable += 1
    if usable == 0:
        return 1.0
    length, turn = np.array(lengths[:usable]), np.array(turns[:usable])
    diagonal = 1 / length
    diagonal[1:] += turn[:-1] / length[:-1]
    beside = np.sqrt(turn[:-1]) / length[:-1]
    smallest = eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))[0]
    return min(1.0, max(float(smallest), float(np.finfo(float).eps)))
