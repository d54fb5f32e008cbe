"""The spectrum of a small tensor's normal equations: a solve, and bounds for any solve."""

from dataclasses import dataclass

import numpy as np

from treepurify.purification.refinement import ROUNDING, Refined, refine_parts
from treepurify.purification.slices import MassSlices
from treepurify.purification.unidentified import support_rank
from treepurify.typing import Array, Mask

__all__ = ["Spectrum", "bound_error", "bound_growth", "decompose", "solve_by_eigenvectors"]

_LEAST_DIGIT = 0.1
_MOST_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The normal equations of a small tensor, scaled by the mass of the slices.

    Parameters
    ----------
    filled : ndarray of bool, shape (n_slices,)
        Slices with mass.
    root_mass : ndarray of shape (n_filled,)
        Square root of their mass.
    shares : ndarray of shape (n_filled, n_filled)
        The share of the mass of each slice that lies in another one.
    eigenvalues, vectors : ndarray
        Of the scaled equations, in increasing order.
    n_null : int
        How many eigenvalues are zero.
    rounding : float
        Largest error of an eigenvalue.
    null_rounding : float
        What the equations leave of the vectors of the null space, where nothing should be left.
    """

    filled: Mask
    root_mass: Array
    shares: Array
    eigenvalues: Array
    vectors: Array
    n_null: int
    rounding: float
    null_rounding: float

    @property
    def is_known(self) -> bool:
        """Whether the smallest eigenvalue that is not zero is more than rounding."""
        return self.least > self.rounding

    @property
    def least(self) -> float:
        """A lower bound of the smallest eigenvalue that is not zero, unless it is rounding."""
        return float(self.eigenvalues[self.n_null] - self.rounding)


def decompose(slices: MassSlices, mass: Array) -> Spectrum:
    """Return the spectrum of a small tensor: the work grows with the cube of its slices.

    The null space depends on the support alone: its dimension comes from whole numbers.

    Parameters
    ----------
    slices : MassSlices
        The tensor.
    mass : ndarray of shape (cells...)
        Mass of each cell.

    Returns
    -------
    Spectrum
    """
    filled = slices.mass > 0
    n_filled, order = int(filled.sum()), len(slices.slice_of)
    number, root_mass = np.cumsum(filled) - 1, np.sqrt(slices.mass[filled])
    normal = np.zeros((n_filled, n_filled))
    for first in slices.slice_of:
        for second in slices.slice_of:
            parts = slices.weight / root_mass[number[first]] / root_mass[number[second]]
            np.add.at(normal, (number[first], number[second]), parts)
    eigenvalues, vectors = np.linalg.eigh(normal)
    image = normal @ vectors
    left = np.linalg.norm(image - vectors * eigenvalues)
    turned = np.linalg.norm(vectors.T @ vectors - np.eye(n_filled))
    # Twice for the rounding of these norms. Two slices share one cell at most, so that only
    # the mass of a slice is a sum.
    of_entries = order * (max(mass.shape) + 8) * ROUNDING
    rounding = 2 * (left + order * turned) + of_entries
    shares = normal * root_mass / root_mass[:, None]
    np.fill_diagonal(shares, 0.0)
    tables = [np.asarray(mass.any(axis=axis)) for axis in range(mass.ndim)]
    n_null = n_filled - support_rank(mass > 0, tables)
    null_rounding = 2 * np.linalg.norm(image[:, :n_null]) + of_entries
    return Spectrum(
        filled,
        root_mass,
        shares,
        eigenvalues,
        vectors,
        n_null,
        float(rounding),
        float(null_rounding),
    )


def solve_by_eigenvectors(slices: MassSlices, spectrum: Spectrum) -> Refined | None:
    """Return the parts of least norm, refined with residuals in twofold precision.

    Parameters
    ----------
    slices : MassSlices
        The tensor.
    spectrum : Spectrum
        Its equations.

    Returns
    -------
    Refined or None
        None where the solve gets no digit right of a direction that depends on little mass,
        or of a slice of little mass.
    """
    root_mass = spectrum.root_mass[:, None]
    reach = _LEAST_DIGIT * spectrum.least * float(root_mass.min())
    if not spectrum.is_known or spectrum.rounding > reach:
        return None
    known = spectrum.vectors[:, spectrum.n_null :] / root_mass
    inverse = 1 / spectrum.eigenvalues[spectrum.n_null :, None]

    def solve(means: Array) -> Array:
        parts = np.zeros_like(means)
        totals = root_mass**2 * means[spectrum.filled]
        parts[spectrum.filled] = known @ (inverse * (known.T @ totals))
        return parts

    return refine_parts(slices, solve)


def bound_error(refined: Refined, spectrum: Spectrum) -> tuple[float, float]:
    """Bound the error of parts, whatever found them, from the means that they leave.

    Parameters
    ----------
    refined : Refined
        The parts.
    spectrum : Spectrum
        Its equations.

    Returns
    -------
    error, exchange_error : float
        Largest error in any slice with mass, off the null space and along it.
    """
    parts, means = refined.parts[spectrum.filled], refined.means[spectrum.filled]
    largest = np.abs(parts).max(axis=1, initial=0.0)
    null = spectrum.vectors[:, : spectrum.n_null]
    along = np.linalg.norm(null.T @ (spectrum.root_mass[:, None] * parts))
    # Vectors of the null space are wrong by what is left of them, over the gap.
    angle = 2 * spectrum.null_rounding / spectrum.least
    turned = angle * np.linalg.norm(spectrum.root_mass * largest)
    off = np.linalg.norm(spectrum.root_mass * means) / spectrum.least
    return (
        _in_each_slice(float(off), means, spectrum) + ROUNDING * float(np.max(largest)),
        _in_each_slice(float(along + parts.shape[1] * turned), 0.0 * means, spectrum),
    )


def bound_growth(spectrum: Spectrum) -> float:
    """Bound the parts of a tensor whose entries are at most one in size.

    Parameters
    ----------
    spectrum : Spectrum
        Its equations.

    Returns
    -------
    float
        Largest part.
    """
    one = np.ones(len(spectrum.root_mass))
    return _in_each_slice(1 / float(np.sqrt(spectrum.least)), one, spectrum)


def _in_each_slice(in_mean_square: float, means: Array, spectrum: Spectrum) -> float:
    """Turn a bound in L2 of the margins into one that holds in each slice.

    A part is the mean of its slice less the means of the other parts there, so it is bounded
    by theirs, most of which lie in heavier slices.
    """
    bound = in_mean_square / spectrum.root_mass
    for _ in range(_MOST_ROUNDS):
        lower = np.minimum(bound, means + spectrum.shares @ bound)
        if np.max(lower) > 0.9 * np.max(bound):
            return float(np.max(lower))
        bound = lower
    return float(np.max(bound))
