"""Purify by mass-moving, Algorithms 1 and 2 of Lengerich et al. (2020)."""

import warnings

import numpy as np

from treepurify.errors import ConvergenceWarning
from treepurify.purification.general import solve_exactly
from treepurify.purification.pair import Solution, inverse_mass, largest_entry, move_out
from treepurify.typing import Array


def solve_by_mass_moving(
    values: Array, mass: Array, *, tolerance: float = 1e-13, most_sweeps: int = 10_000
) -> Solution:
    """Move the mean of each slice out of the tensor, axis after axis, until none is left.

    This is alternating projection. It ends after one sweep where the mass is a product of
    its margins. The paper's Theorem 2 bounds the sweeps by ``log2(M0 / epsilon)`` for every
    mass; that is not so: each sweep shrinks what is left by the squared cosine between the
    spaces of the two margins, which strong dependence brings as close to one as one likes.
    And a small mean does not prove a small error for the same reason: the error below is what
    an exact solve would still move.

    Slices without mass, of which the paper does not speak, are treated as in an exact solve.
    Where the support falls into separate blocks, each block's constant stays with the axis
    that the algorithm takes first; an exact solve would split it.

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
        In `history`, the unpurified mass of equation 11b, generalised to any number of axes,
        before each axis is taken and at the end: the paper counts its iterations in this way,
        several of which make up a sweep. It sums the absolute totals of the slices (equation
        11a: not divided by their mass), each times the mass of its slice, over all outputs. It
        need not fall at every step.
    """
    slice_mass = [np.asarray(mass.sum(axis=axis)) for axis in range(mass.ndim)]
    swept = [np.zeros((*part.shape, values.shape[-1])) for part in slice_mass]
    scale, rest = largest_entry(values), values
    history: list[float] = []
    for step in range(most_sweeps * mass.ndim + 1):
        weighted = mass[..., None] * rest
        means = [
            inverse_mass(part)[..., None] * weighted.sum(axis=i)
            for i, part in enumerate(slice_mass)
        ]
        totals = (
            part[..., None] ** 2 * np.abs(m) for part, m in zip(slice_mass, means, strict=True)
        )
        history.append(float(sum(total.sum() for total in totals)))
        axis = step % mass.ndim
        largest = max(map(largest_entry, means))
        converged = bool(largest <= tolerance * scale)
        if axis == 0 and (converged or step == most_sweeps * mass.ndim):
            break
        swept[axis] += means[axis]
        rest = rest - np.expand_dims(means[axis], axis)
    if not converged:
        warnings.warn(
            f"mass-moving did not converge in {most_sweeps} sweeps: means of effects along one "
            f'feature are up to {largest:.1e} instead of zero; use method="exact"',
            ConvergenceWarning,
            stacklevel=2,
        )
    rest = move_out(values, tuple(swept))
    left = solve_exactly(rest, mass)
    filled = [part[..., None] > 0 for part in slice_mass]
    moved = tuple(map(np.where, filled, swept, left.moved))
    wrong = [np.where(there, more, 0.0) for there, more in zip(filled, left.moved, strict=True)]
    error = max(map(largest_entry, wrong)) + left.error * largest_entry(rest)
    return Solution(
        pure=move_out(values, moved),
        moved=moved,
        unidentified=left.unidentified,
        empty_slices=left.empty_slices,
        error=error / scale if scale > 0 else 0.0,
        method="mass-moving",
        iterations=(len(history) - 1) // mass.ndim,
        converged=converged,
        growth=left.growth,
        history=tuple(history),
    )
