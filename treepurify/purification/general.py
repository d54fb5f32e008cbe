"""Purify a tensor of any order: preconditioned conjugate gradients."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.purification.solution import Solution, conditional_means, move_out
from treepurify.purification.unidentified import count_unidentified

__all__ = ["solve_general"]

Array = npt.NDArray[np.float64]
Parts = tuple[Array, ...]
Masks = tuple[npt.NDArray[np.bool_], ...]

_TOLERANCE = 1e-13
_EMPTY_LEVEL = 1e-9
_MOST_STEPS = 20_000
_MOST_ROUNDS = 60
_MOST_IDLE_ROUNDS = 12
_FLATTEST = 1e-14
_ROUNDING = 5e-16


def solve_general(values: Array, mass: Array, *, tolerance: float = _TOLERANCE) -> Solution:
    """Project a tensor off the functions of fewer features, under any mass.

    Solves the weighted normal equations by conjugate gradients preconditioned with the mass
    of each slice. Started at zero, they find the solution of least norm in L2 of the
    margins. Steps stop when every slice with mass has a conditional mean below `tolerance`
    times the largest entry, not when a norm is small: a norm cannot see slices of little
    mass. Where such slices remain, the solve goes on with them alone, since those of large
    mass no longer change.

    Slices without mass are fitted by least squares under the product of the margins, where
    a level without mass counts for next to nothing (1e-9 of the lightest one with mass): under
    a product measure that is the mean given the level, as in the closed form.

    Parameters
    ----------
    values : ndarray of shape (cells..., n_outputs)
        The tensor.
    mass : ndarray of shape (cells...)
        Mass of each cell, summing to one.
    tolerance : float
        Largest conditional mean left, relative to the largest entry.

    Returns
    -------
    Solution
    """
    slice_mass = tuple(mass.sum(axis=i) for i in range(mass.ndim))
    filled = tuple(part > 0 for part in slice_mass)
    fit = _fit(values, mass, slice_mass, filled, tolerance)
    moved, pure = fit.parts, fit.rest
    n_empty = int(sum(np.sum(~mask) for mask in filled))
    if n_empty:
        even = _product_of_margins(mass)
        extension = _fit(
            pure,
            even,
            tuple(even.sum(axis=i) for i in range(mass.ndim)),
            tuple(~mask for mask in filled),
            tolerance,
        )
        moved = tuple(a + b for a, b in zip(moved, extension.parts, strict=True))
        pure = extension.rest
    scale = float(np.max(np.abs(values), initial=0.0))
    return Solution(
        pure=pure,
        moved=moved,
        unidentified=count_unidentified(mass),
        empty_slices=n_empty,
        error=fit.error / scale if scale > 0 else 0.0,
        method="conjugate gradients",
        iterations=fit.steps,
        converged=fit.converged,
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    parts: Parts
    rest: Array
    steps: int
    error: float
    converged: bool


def _fit(values: Array, mass: Array, slice_mass: Parts, active: Masks, tolerance: float) -> _Fit:
    """Fit the parts on the active slices until all their conditional means are small."""
    goal = tolerance * float(np.max(np.abs(values), initial=0.0))
    n_outputs = values.shape[-1]
    parts = tuple(np.zeros((*part.shape, n_outputs)) for part in slice_mass)
    rest, steps, slowest = values, 0, 1.0
    best, best_mean, idle = _Fit(parts, rest, 0, np.inf, False), np.inf, 0
    for _ in range(_MOST_ROUNDS):
        means = _means(rest, mass, slice_mass, active)
        largest = _largest(means)
        idle = 0 if largest < 0.5 * best_mean else idle + 1
        if largest < best_mean:
            error = max(largest, _weighted_norm(means, slice_mass) / slowest)
            best, best_mean = _Fit(parts, rest, steps, error, largest <= goal), largest
        if largest <= goal or idle > _MOST_IDLE_ROUNDS:
            break
        # The first solve takes all slices together, or its norm would not be the least. Then
        # slices of large mass are done, and only those up to the heaviest violator go on.
        heaviest = max(
            float(part[np.abs(mean).max(axis=-1) > goal].max(initial=0.0))
            for part, mean in zip(slice_mass, means, strict=True)
        )
        limit = heaviest if steps > 0 else np.inf
        going = tuple(mask & (part <= limit) for mask, part in zip(active, slice_mass, strict=True))
        found, n_steps, smallest = _conjugate_gradients(rest, mass, slice_mass, going, goal)
        parts = tuple(a + b for a, b in zip(parts, found, strict=True))
        rest = move_out(values, parts)
        steps += n_steps
        slowest = min(slowest, smallest)
    return best


def _means(rest: Array, mass: Array, slice_mass: Parts, active: Masks) -> Parts:
    return tuple(
        np.where(mask[..., None], conditional_means(rest, mass, axis, part), 0.0)
        for axis, (part, mask) in enumerate(zip(slice_mass, active, strict=True))
    )


def _largest(parts: Parts) -> float:
    return max(float(np.max(np.abs(part), initial=0.0)) for part in parts)


def _weighted_norm(means: Parts, slice_mass: Parts) -> float:
    """Norm in L2 of the margins, the largest over the outputs."""
    squared = sum(
        (part[..., None] * mean**2).sum(axis=tuple(range(part.ndim)))
        for part, mean in zip(slice_mass, means, strict=True)
    )
    return float(np.sqrt(np.max(squared, initial=0.0)))


def _conjugate_gradients(
    values: Array, mass: Array, slice_mass: Parts, active: Masks, goal: float
) -> tuple[Parts, int, float]:
    """Return the parts, the number of steps and the smallest Ritz value met.

    All quantities are divided by the slice mass: `mean` is the preconditioned residual, so
    that its largest entry is what the stopping rule is about. Outputs are solved side by
    side, each with its own step lengths.
    """
    mean = _means(values, mass, slice_mass, active)
    direction = mean
    parts = tuple(np.zeros_like(part) for part in mean)
    energy = _inner(mean, mean, slice_mass)
    lengths: list[float] = []
    turns: list[float] = []
    leading = int(np.argmax(energy))
    # Conditional means are known to rounding of the table's entries, whatever their own size.
    active_mass = sum(
        float(part[mask].sum()) for part, mask in zip(slice_mass, active, strict=True)
    )
    entry = np.abs(values).reshape(-1, len(energy)).max(axis=0)
    noise = (_ROUNDING * entry) ** 2 * active_mass
    going = energy > noise
    steps = 0
    while steps < _MOST_STEPS and going.any():
        spread = move_out(np.zeros((*mass.shape, len(energy))), direction)
        image = tuple(-part for part in _means(spread, mass, slice_mass, active))
        curvature = _inner(direction, image, slice_mass)
        # A direction flatter than rounding holds nothing but rounding.
        going &= curvature > _FLATTEST * _inner(direction, direction, slice_mass)
        if not going.any():
            break
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=going)
        parts = tuple(a + length * b for a, b in zip(parts, direction, strict=True))
        mean = tuple(a - length * b for a, b in zip(mean, image, strict=True))
        renewed = _inner(mean, mean, slice_mass)
        turn = np.divide(renewed, energy, out=np.zeros_like(energy), where=going)
        direction = tuple(a + turn * b for a, b in zip(mean, direction, strict=True))
        lengths.append(float(length[leading]))
        turns.append(float(turn[leading]))
        energy = renewed
        going &= energy > noise
        steps += 1
        if _largest(mean) <= 0.1 * goal:
            break
    return parts, steps, _smallest_ritz_value(lengths, turns)


def _inner(first: Parts, second: Parts, slice_mass: Parts) -> Array:
    total = sum(
        (part[..., None] * a * b).sum(axis=tuple(range(part.ndim)))
        for part, a, b in zip(slice_mass, first, second, strict=True)
    )
    return np.asarray(total)


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
    smallest = float(eigvalsh_tridiagonal(diagonal, np.sqrt(turn[:-1]) / length[:-1])[0])
    return min(1.0, max(smallest, float(np.finfo(float).eps)))


def _product_of_margins(mass: Array) -> Array:
    table = np.ones(())
    for i in range(mass.ndim):
        margin = mass.sum(axis=tuple(j for j in range(mass.ndim) if j != i))
        table = np.multiply.outer(
            table, np.where(margin > 0, margin, _EMPTY_LEVEL * margin[margin > 0].min())
        )
    return np.asarray(table / table.sum())
