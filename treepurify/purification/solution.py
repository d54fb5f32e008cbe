"""What every way of purifying one tensor returns, refined until only rounding is left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treepurify._kernels.slice_sums import add_slice_sums_twofold
from treepurify.purification.slices import MassSlices
from treepurify.typing import Array

__all__ = [
    "LIFT",
    "MOST_STEPS",
    "ROUNDING",
    "Refined",
    "Solution",
    "add_step",
    "conditional_means",
    "inverse_mass",
    "largest_entry",
    "largest_means",
    "move_out",
    "refine_parts",
]

ROUNDING = float(np.finfo(np.float64).eps)
MOST_STEPS = 8
# Masses down to 1e-280 are lifted, or the rounding errors of their products would vanish.
LIFT = 2.0**200


@dataclass(frozen=True, eq=False)
class Solution:
    """One purified tensor and what left it.

    Parameters
    ----------
    pure : ndarray of float64, shape (cells..., n_outputs)
        The tensor without the parts in `moved`.
    moved : tuple of ndarray of float64
        ``moved[i]`` no longer depends on axis ``i`` and goes to the tensor without that
        feature; shape (cells without axis i..., n_outputs).
    unidentified : int or None
        Number of directions in which the moved parts are not determined by the cells with
        mass; None where it was not counted.
    empty_slices : int
        Slices without mass; what is moved out of them is a convention.
    error : float
        Bound or estimate of the error of the moved parts in slices with mass, relative to the
        largest entry of the tensor. The true parts are the solution of least norm for the
        tensor and the mass as they were given.
    method : str
        Algorithm that ran.
    iterations : int
        Sweeps or conjugate-gradient steps; 0 for a direct solve.
    converged : bool
        Whether the stopping tolerance was met.
    growth : float
        At most how many times larger than a change of the tensor in its cells with mass a
        change of the moved parts can be.
    is_bound : bool
        Whether `error` and `growth` are bounds, not estimates.
    exchange_error : float
        Bound of a further error, in what the parts exchange with each other: it adds up to
        zero in every cell with mass, and reaches components only where a direction of lower
        effects is undetermined.
    history : tuple of float
        Unpurified mass before each step of the mass-moving algorithm, and at its end.
    """

    pure: Array
    moved: tuple[Array, ...]
    unidentified: int | None
    empty_slices: int
    error: float
    method: str
    iterations: int = 0
    converged: bool = True
    growth: float = 1.0
    is_bound: bool = False
    exchange_error: float = 0.0
    history: tuple[float, ...] = field(default=())


def largest_entry(values: Array) -> float:
    """Return the largest absolute entry of an array; zero for an empty one."""
    # Not by way of np.abs, which would write a second array first.
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def inverse_mass(mass: Array) -> Array:
    """Return one over each mass; zero where there is none."""
    return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)


def conditional_means(
    values: Array,
    mass: Array,
    axis: int,
    slice_mass: Array,
) -> Array:
    """Return the mean of each slice along `axis` under `mass`; zero for slices without mass.

    Equation 10 of Lengerich et al. (2020), divided by the mass of the slice: the paper
    calls it a mean but leaves the division out, without which nothing converges.
    """
    total = np.asarray((values * mass[..., None]).sum(axis=axis))
    divisor = np.where(slice_mass > 0, slice_mass, 1.0)[..., None]
    return np.asarray(np.where(slice_mass[..., None] > 0, total / divisor, 0.0))


def move_out(values: Array, moved: tuple[Array, ...]) -> Array:
    """Return the tensor without its moved parts."""
    rest = values.copy()
    for axis, part in enumerate(moved):
        rest -= np.expand_dims(part, axis)
    return rest


class _CellsWithMass(Protocol):
    """The cells with mass of one tensor or of several, and their slices; see `MassSlices`."""

    @property
    def mass(self) -> Array:
        """Mass of each slice, shape (n_slices,)."""

    @property
    def slice_of(self) -> npt.NDArray[np.signedinteger]:
        """Slices of each cell, shape (n_axes, n_cells)."""

    @property
    def weight(self) -> Array:
        """Mass of each cell, shape (n_cells,)."""

    @property
    def values(self) -> Array:
        """The tensor in these cells, shape (n_outputs, n_cells)."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Parts, and what their conditional means still are.

    Parameters
    ----------
    parts : ndarray of shape (n_slices, n_outputs)
        The parts, one row per slice, to rounding.
    means : ndarray of shape (n_slices,)
        Bound of the conditional means that the parts leave in their slices before they are
        rounded to `parts`, the largest over the outputs.
    """

    parts: Array
    means: Array


def refine_parts(slices: MassSlices, solve: Callable[[Array], Array]) -> Refined:
    """Solve for the parts, and again for the residual, in twofold precision.

    Iterative refinement gains as many digits in each step as the solve gets right. With
    conditional means that are right far beyond double precision, the error of the parts
    falls to their rounding, however much the solve amplifies rounding, as long as it gets
    one digit right.

    Parameters
    ----------
    slices : MassSlices
        The tensor.
    solve : callable
        From the conditional means of a tensor, shape (n_slices, n_outputs), to approximate
        parts of the same shape.

    Returns
    -------
    Refined
    """
    high = np.zeros((len(slices.mass), len(slices.values)))
    low = np.zeros_like(high)
    means = _rounded_means(slices)
    before = np.inf
    for _ in range(MOST_STEPS):
        step = solve(means)
        size = largest_entry(step)
        if not size < 0.5 * before:
            break
        high, low = add_step(high, low, step)
        means = _means_left(slices, high, low)
        # The next step would be shorter in the same proportion; after the first, by nothing.
        shrinks = min(size / before, 1.0) if before < np.inf else 1.0
        if size * shrinks <= 0.1 * ROUNDING * largest_entry(high):
            break
        before = size
    return Refined(high, _bound(slices, high, means))


def largest_means(slices: MassSlices, high: Array, low: Array) -> Array:
    """Bound the conditional means of a tensor less its parts ``high + low``.

    Parameters
    ----------
    slices : MassSlices
        The tensor.
    high, low : ndarray of shape (n_slices, n_outputs)
        The parts and what rounding took from them.

    Returns
    -------
    ndarray of shape (n_slices,)
        The largest over the outputs; zero for slices without mass.
    """
    return _bound(slices, high, _means_left(slices, high, low))


def add_step(high: Array, low: Array, step: Array) -> tuple[Array, Array]:
    """Return parts ``high + low`` and a step as parts in twofold precision."""
    total = high + step
    share = total - high
    low = low + ((high - (total - share)) + (step - share))
    high = total + low
    return high, low - (high - total)


def _bound(slices: MassSlices, high: Array, means: Array) -> Array:
    """Bound the conditional means, of which `means` are right to double precision."""
    entries = largest_entry(slices.values)
    entries += slices.layout.n_axes * largest_entry(high)
    floor = 8 * max(slices.layout.shape) * ROUNDING**2 * entries
    largest = np.max(np.abs(means), axis=1, initial=0.0)
    return np.where(slices.mass > 0, (1 + 4 * ROUNDING) * largest + floor, 0.0)


def _rounded_means(slices: _CellsWithMass) -> Array:
    """Return the conditional means of the tensor, right to the rounding of their sums.

    Enough for a first step, whose own error is larger, and after which there are better ones.
    Without a kernel, which the tables of shallow trees would not need otherwise.
    """
    total = np.zeros((len(slices.values), len(slices.mass)))
    weight = LIFT * slices.weight
    for k, values in enumerate(slices.values):
        weighted = weight * values
        for slice_of in slices.slice_of:
            total[k] += np.bincount(slice_of, weighted, len(slices.mass))
    mass = LIFT * np.where(slices.mass > 0, slices.mass, 1.0)
    return np.ascontiguousarray((total / mass).T)


def _means_left(slices: _CellsWithMass, high: Array, low: Array) -> Array:
    """Return the conditional means of the tensor less its parts, right to double precision."""
    total, rest = np.zeros(high.shape[::-1]), np.zeros(high.shape[::-1])
    highs, lows = np.ascontiguousarray(high.T), np.ascontiguousarray(low.T)
    weight = LIFT * slices.weight
    for k, values in enumerate(slices.values):
        add_slice_sums_twofold(
            slices.slice_of, weight, values, highs[k], lows[k], total[k], rest[k]
        )
    mass = LIFT * np.where(slices.mass > 0, slices.mass, 1.0)
    return np.ascontiguousarray(((total + rest) / mass).T)
