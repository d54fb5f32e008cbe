"""Purify by mass-moving, Algorithms 1 and 2 of Lengerich et al. (2020)."""

import warnings

import numpy as np
import numpy.typing as npt

from treepurify.errors import ConvergenceWarning
from treepurify.purification.solution import Solution, conditional_means, move_out

__all__ = ["solve_by_mass_moving"]

Array = npt.NDArray[np.float64]


def solve_by_mass_moving(
    values: Array, mass: Array, *, tolerance: float = 1e-13, most_sweeps: int = 10_000
) -> Solution:
    """Move the mean of each slice out of the tensor, axis after axis, until none is left.

    This is alternating projection. It ends after one sweep where the mass is a product of
    its margins. The paper's Theorem 2 bounds the sweeps by ``log2(M0 / epsilon)`` for every
    mass; that is not so: each sweep shrinks what is left by the squared cosine between the
    spaces of the two margins, which strong dependence brings as close to one as one likes.
    And a small mean does not prove a small error for the same reason, so the estimated
    error below divides by one minus the observed rate. `solve_pair` has neither weakness.

    Parameters
    ----------
    values : ndarray of shape (cells..., n_outputs)
        The tensor.
    mass : ndarray of shape (cells...)
        Mass of each cell, summing to one.
    tolerance : float
        Largest conditional mean left, relative to the largest entry.
    most_sweeps : int
        Sweeps after which it stops, with a `ConvergenceWarning`.

    Returns
    -------
    Solution
        With the unpurified mass (equation 11b) before each sweep in `history`.
    """
    order = mass.ndim
    slice_mass = tuple(mass.sum(axis=i) for i in range(order))
    moved = [np.zeros((*part.shape, values.shape[-1])) for part in slice_mass]
    scale = float(np.max(np.abs(values), initial=0.0))
    rest, history = values, []
    largest = np.inf
    for _ in range(most_sweeps + 1):
        means = [conditional_means(rest, mass, i, slice_mass[i]) for i in range(order)]
        history.append(_unpurified(means, slice_mass))
        largest = max(float(np.max(np.abs(part), initial=0.0)) for part in means)
        if largest <= tolerance * scale or len(history) > most_sweeps:
            break
        for i in range(order):
            mean = conditional_means(rest, mass, i, slice_mass[i])
            moved[i] += mean
            rest = rest - np.expand_dims(mean, i)
    converged = bool(largest <= tolerance * scale)
    if not converged:
        warnings.warn(
            f"mass-moving stopped after {most_sweeps} sweeps with a slice mean of {largest:.1e}; "
            'use method="exact"',
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(
        pure=move_out(values, tuple(moved)),
        moved=tuple(moved),
        unidentified=None,
        empty_slices=int(sum(np.sum(part == 0) for part in slice_mass)),
        error=_error(history, largest, scale),
        method="mass-moving",
        iterations=len(history) - 1,
        converged=converged,
        history=tuple(history),
    )


def _unpurified(means: list[Array], slice_mass: tuple[Array, ...]) -> float:
    return float(
        sum(
            (part[..., None] * np.abs(mean)).sum()
            for part, mean in zip(slice_mass, means, strict=True)
        )
    )


def _error(history: list[float], largest: float, scale: float) -> float:
    """Estimate what the endless rest of the sweeps would still move."""
    if scale == 0:
        return 0.0
    rate = history[-1] / history[-2] if len(history) > 2 and history[-2] > 0 else 0.0
    return largest / scale / max(1 - min(rate, 1.0), float(np.finfo(float).eps))
