"""What every way of purifying one tensor returns."""

from dataclasses import dataclass

import numpy as np

from treepurify.typing import Array

__all__ = ["ROUNDING", "Solution", "inverse_mass", "largest_entry", "move_out"]

ROUNDING = float(np.finfo(np.float64).eps)


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
        Error of the moved parts in slices with mass, relative to the largest entry of the tensor,
        as measured by the last step that refined them.
    method : str
        Algorithm that ran.
    iterations : int
        Sweeps or conjugate-gradient steps; 0 for a direct solve.
    converged : bool
        Whether the stopping tolerance was met.
    growth : float
        How many times larger than a change of the tensor a change of the moved parts can be.
    history : tuple of float
        Unpurified mass before each step of the mass-moving algorithm, and at its end.
    """

    pure: Array
    moved: tuple[Array, ...]
    unidentified: int | None = 0
    empty_slices: int = 0
    error: float = 0.0
    method: str = "direct"
    iterations: int = 0
    converged: bool = True
    growth: float = 1.0
    history: tuple[float, ...] = ()


def largest_entry(values: Array) -> float:
    """Return the largest absolute entry of an array; zero for an empty one."""
    # Not by way of np.abs, which would write a second array first.
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def inverse_mass(mass: Array) -> Array:
    """Return one over each mass; zero where there is none."""
    return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)


def move_out(values: Array, moved: tuple[Array, ...]) -> Array:
    """Return the tensor without its moved parts."""
    rest = values.copy()
    for axis, part in enumerate(moved):
        # As `np.expand_dims` does, which takes longer than the work on a small table.
        rest -= part[(slice(None),) * axis + (None,)]
    return rest
