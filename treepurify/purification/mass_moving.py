"""Purify by mass-moving, Algorithms 1 and 2 of Lengerich et al. (2020)."""

import warnings

import numpy as np

from treepurify.errors import ConvergenceWarning
from treepurify.purification.general import solve_general
from treepurify.purification.pair import solve_pair
from treepurify.purification.solution import (
    Solution,
    conditional_means,
    largest_entry,
    move_out,
)
from treepurify.typing import Array

__all__ = ["solve_by_mass_moving"]


def solve_by_mass_moving(
    values: Array, mass: Array, *, tolerance: float = 1e-13, most_sweeps: int = 10_000
) -> Solution:
    """Move the mean of each slice out of the tensor, axis after axis, until none is left.

    This is alternating projection. It ends after one sweep where the mass is a product of
    its margins. The paper's Theorem 2 bounds the sweeps by ``log2(M0 / epsilon)`` for every
    mass; that is not so: each sweep shrinks what is left by the squared cosine between the
    spaces of the two margins, which strong dependence brings as close to one as one likes.
    And a small mean does not prove a small error for the same reason: the error below is what
    an exact solve would still move. `solve_pair` has neither weakness.

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
    order = mass.ndim
    slice_mass = tuple(mass.sum(axis=i) for i in range(order))
    moved = [np.zeros((*part.shape, values.shape[-1])) for part in slice_mass]
    scale = largest_entry(values)
    rest, history, sweeps = values, [], 0
    while True:
        means = _all_means(rest, mass, slice_mass)
        largest = max(largest_entry(part) for part in means)
        if largest <= tolerance * scale or sweeps == most_sweeps:
            break
        for i in range(order):
            if i > 0:
                means = _all_means(rest, mass, slice_mass)
            history.append(_unpurified(means, slice_mass))
            moved[i] += means[i]
            rest = rest - np.expand_dims(means[i], i)
        sweeps += 1
    history.append(_unpurified(means, slice_mass))
    converged = bool(largest <= tolerance * scale)
    if not converged:
        warnings.warn(
            f"mass-moving did not converge in {most_sweeps} sweeps: means of effects along one "
            f'feature are up to {largest:.1e} instead of zero; use method="exact"',
            ConvergenceWarning,
            stacklevel=2,
        )
    rest = move_out(values, tuple(moved))
    left = solve_pair(rest, mass) if order == 2 else solve_general(rest, mass)
    parts = tuple(
        np.where(part[..., None] > 0, swept, more)
        for swept, more, part in zip(moved, left.moved, slice_mass, strict=True)
    )
    return Solution(
        pure=move_out(values, parts),
        moved=parts,
        unidentified=left.unidentified,
        empty_slices=left.empty_slices,
        error=_error(left, rest, slice_mass, scale),
        method="mass-moving",
        iterations=sweeps,
        converged=converged,
        growth=left.growth,
        is_bound=left.is_bound,
        history=tuple(history),
    )


def _all_means(rest: Array, mass: Array, slice_mass: tuple[Array, ...]) -> list[Array]:
    return [conditional_means(rest, mass, i, part) for i, part in enumerate(slice_mass)]


def _unpurified(means: list[Array], slice_mass: tuple[Array, ...]) -> float:
    """Return the sum of slice mass times absolute total, which is mass times mean."""
    return float(
        sum(
            (part[..., None] ** 2 * np.abs(mean)).sum()
            for part, mean in zip(slice_mass, means, strict=True)
        )
    )


def _error(left: Solution, rest: Array, slice_mass: tuple[Array, ...], scale: float) -> float:
    """Return what an exact solve would still move out of slices with mass, with its error."""
    if scale == 0:
        return 0.0
    solve_error = left.error * largest_entry(rest) / scale
    return solve_error + max(
        largest_entry(more[part > 0]) / scale
        for more, part in zip(left.moved, slice_mass, strict=True)
    )
