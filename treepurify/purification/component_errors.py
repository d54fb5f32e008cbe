"""Carry the errors of solves down the cascade, to every component."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from treepurify.grids.grid import Subset
from treepurify.purification.refinement import ROUNDING
from treepurify.purification.solution import Solution

__all__ = ["Extent", "component_errors", "measure_extent"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Extent:
    """How large the tensor of a subset was when its turn came.

    Parameters
    ----------
    n_cells : int
        Its cells.
    values, pure : float
        Largest entries of the tensor and of its pure part.
    """

    n_cells: int
    values: float
    pure: float


def measure_extent(values: Array, pure: Array) -> Extent:
    """Return the extent of a tensor (cells..., n_outputs) and its pure part."""
    largest = [float(np.max(np.abs(table), initial=0.0)) for table in (values, pure)]
    return Extent(values[..., 0].size, *largest)


def component_errors(
    subsets: Sequence[Subset],
    solutions: Mapping[Subset, Solution],
    extents: Mapping[Subset, Extent],
) -> dict[Subset, float]:
    """Bound the error of each pure effect, and of the intercept under (), in cells with mass.

    What is wrong in the parts that one tensor moves is wrong in the tensors that receive
    them, whose own solves let it grow.

    Parameters
    ----------
    subsets : sequence of tuple of int
        All subsets, the largest last.
    solutions : mapping of tuple of int to Solution
        How those of two or more features were purified.
    extents : mapping of tuple of int to Extent
        How large their tensors were.

    Returns
    -------
    dict of tuple of int to float
        Bounds; estimates where one of the solutions is one.
    """
    errors = dict.fromkeys([(), *subsets], 0.0)
    for subset in reversed(subsets):
        own = extents[subset]
        if len(subset) == 1:
            # That of the mean: of the values, and rounding of its sum and of the mass.
            moved = errors[subset] + (2 * own.n_cells + 8) * ROUNDING * own.values
        else:
            is_open = _is_open(subset, solutions)
            moved = _moved_error(solutions[subset], own, errors[subset], is_open=is_open)
        errors[subset] += len(subset) * (moved + ROUNDING * own.values)
        for receiver in combinations(subset, len(subset) - 1):
            errors[receiver] += moved
    return errors


def _is_open(subset: Subset, solutions: Mapping[Subset, Solution]) -> bool:
    """Whether directions are undetermined, or not counted, in a subset or inside it."""
    inside = (part for size in range(2, len(subset) + 1) for part in combinations(subset, size))
    return any(solutions[part].unidentified != 0 for part in inside)


def _moved_error(solution: Solution, own: Extent, error: float, *, is_open: bool) -> float:
    """Bound the error of what moves out of a tensor that has an error of its own.

    Sums of parts, and masses that are sums of others, are known to a few roundings. A mass
    that is wrong in proportion acts as an error of the pure part in the same proportion.
    Parts that only exchange what several of them can hold meet again in smaller subsets,
    unless these leave something undetermined themselves.
    """
    rounded = 16 * ROUNDING * (own.values + own.pure)
    own_error = solution.error + (solution.exchange_error if is_open else 0.0)
    return own_error * own.values + solution.growth * (error + rounded)
