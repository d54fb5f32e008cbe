"""What every way of purifying one tensor returns."""

from dataclasses import dataclass, field

import numpy as np

from treepurify.typing import Array

__all__ = ["Solution", "conditional_means", "inverse_mass", "largest_entry", "move_out"]


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
