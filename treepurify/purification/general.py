"""Purify a tensor of any order, a large one by preconditioned conjugate gradients.

The eigenvectors of a small tensor's normal equations solve it, and bound the error of any solve.
"""

from dataclasses import dataclass, replace

import numpy as np

from treepurify._kernels.gradient_steps import take_step
from treepurify.purification.slices import MassSlices, Slices, mass_slices, product_slices
from treepurify.purification.solution import (
    ROUNDING,
    Refined,
    Solution,
    largest_entry,
    largest_means,
    move_out,
    refine_parts,
)
from treepurify.purification.unidentified import count_unidentified, support_rank
from treepurify.typing import Array, Mask

__all__ = ["solve_general"]

_TOLERANCE = 1e-13
_MOST_BOUNDED = 300
_EMPTY_LEVEL = 1e-9
_MOST_ROUNDS = 60
_MOST_IDLE_ROUNDS = 12
# Conditional means are known to this part of the table's largest entry, whatever their size.
_NOISE = 5e-16
_MOST_STEPS = 20_000
_FLATTEST = 1e-14
_LEAST_DIGIT = 0.1
_MOST_CORRECTIONS = 50


def solve_general(values: Array, mass: Array, *, tolerance: float = _TOLERANCE) -> Solution:
    """Project a tensor off the functions of fewer features, under any mass.

    Solves the weighted normal equations, of up to 300 slices by their eigenvectors. Larger
    tensors, and masses over too many decades for eigenvectors, take conjugate gradients
    preconditioned with the mass of each slice. Started at zero, they find the solution of
    least norm in L2 of the margins. Steps stop when every slice with mass has a conditional
    mean below `tolerance` times the largest entry, not when a norm is small: a norm cannot
    see slices of little mass. Where such slices remain, the solve goes on with them alone,
    since those of large mass no longer change.

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
    slices = mass_slices(values, mass)
    split = slices.layout.split
    filled = slices.mass > 0
    fit = _fit_filled(slices, mass, _largest_entries(values), tolerance)
    parts, pure = fit.parts, move_out(values, split(fit.parts))
    n_empty = int(np.sum(~filled))
    if n_empty:
        even = product_slices(pure, _margins(mass))
        extension = _fit(even, ~filled, _largest_entries(pure), tolerance)
        parts, pure = parts + extension.parts, move_out(pure, split(extension.parts))
    scale = largest_entry(values)
    return Solution(
        pure=pure,
        moved=split(parts),
        unidentified=count_unidentified(mass),
        empty_slices=n_empty,
        error=fit.error / scale if scale > 0 else 0.0,
        exchange_error=fit.exchange_error / scale if scale > 0 else 0.0,
        method=fit.method,
        iterations=fit.steps,
        converged=fit.converged,
        growth=fit.growth,
        is_bound=fit.is_bound,
    )


@dataclass(frozen=True, eq=False)
class _FittedParts:
    parts: Array
    error: float
    growth: float
    method: str = "conjugate gradients"
    steps: int = 0
    converged: bool = True
    is_bound: bool = False
    exchange_error: float = 0.0


def _fit_filled(slices: MassSlices, mass: Array, entries: Array, tolerance: float) -> _FittedParts:
    """Fit the parts on the slices with mass, and bound or estimate their error."""
    filled = slices.mass > 0
    n_filled = int(filled.sum())
    if n_filled > _MOST_BOUNDED:
        fit = _fit(slices.filled_only(), np.ones(n_filled, dtype=np.bool_), entries, tolerance)
        parts = np.zeros((len(filled), len(entries)))
        parts[filled] = fit.parts
        return replace(fit, parts=parts)
    spectrum = _decompose(slices, mass)
    refined = _solve_by_eigenvectors(slices, spectrum)
    if refined is None:
        fit = _fit(slices, filled, entries, tolerance)
        refined = Refined(fit.parts, largest_means(slices, fit.parts, np.zeros_like(fit.parts)))
    else:
        fit = _FittedParts(refined.parts, 0.0, 0.0, "direct, eigenvectors")
    if not spectrum.is_known:
        # Some direction depends on less mass than rounding, and its parts may be anything
        # that the entries along it can add up to.
        size = largest_entry(fit.parts)
        error = size + n_filled * float(entries.max(initial=0.0))
        return replace(fit, error=error, growth=n_filled)
    error, exchange_error = _bound_error(refined, spectrum)
    growth = _bound_growth(spectrum)
    return replace(fit, error=error, exchange_error=exchange_error, growth=growth, is_bound=True)


def _fit(slices: Slices, active: Mask, entries: Array, tolerance: float) -> _FittedParts:
    """Fit the parts on the active slices until all their conditional means are small.

    `entries` holds the largest entry of the tensor for each output.
    """
    goal = tolerance * float(entries.max(initial=0.0))
    parts = np.zeros((len(active), len(entries)))
    steps, slowest = 0, 1.0
    best, best_mean, idle = _iterated(parts, np.inf, slowest, 0, converged=False), np.inf, 0
    for _ in range(_MOST_ROUNDS):
        means = np.where(active[:, None], slices.residual(parts), 0.0)
        sizes = np.abs(means).max(axis=1, initial=0.0)
        largest = float(sizes.max(initial=0.0))
        idle = 0 if largest < 0.5 * best_mean else idle + 1
        if largest < best_mean:
            norm = float(np.sqrt((slices.mass @ means**2).max(initial=0.0)))
            norm += _NOISE * float(entries.max(initial=0.0))
            error = max(largest, norm / slowest)
            best = _iterated(parts, error, slowest, steps, converged=largest <= goal)
            best_mean = largest
        if largest <= goal or idle > _MOST_IDLE_ROUNDS:
            break
        # The first solve takes all slices together, or its norm would not be the least. Then
        # slices of large mass are done, and only those up to the heaviest violator go on.
        limit = float(slices.mass[sizes > goal].max()) if steps > 0 else np.inf
        going = active & (slices.mass <= limit)
        correction, n_steps, smallest = _conjugate_gradients(slices, means, going, goal, entries)
        parts = parts + correction
        steps += n_steps
        slowest = min(slowest, smallest)
    return best


def _iterated(
    parts: Array, error: float, slowest: float, steps: int, *, converged: bool
) -> _FittedParts:
    return _FittedParts(parts, error, 1 / np.sqrt(slowest), steps=steps, converged=converged)


def _largest_entries(values: Array) -> Array:
    flat = values.reshape(-1, values.shape[-1])
    return np.asarray(np.maximum(flat.max(axis=0, initial=0.0), -flat.min(axis=0, initial=0.0)))


def _margins(mass: Array) -> tuple[Array, ...]:
    """Return the margins of a mass, with a little mass for every level that has none."""
    margins = []
    for i in range(mass.ndim):
        margin = mass.sum(axis=tuple(j for j in range(mass.ndim) if j != i))
        margin = np.where(margin > 0, margin, _EMPTY_LEVEL * margin[margin > 0].min())
        margins.append(margin / margin.sum())
    return tuple(margins)


def _conjugate_gradients(
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
    noise = (_NOISE * entries) ** 2 * float(slices.mass[active].sum())
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
    off_diagonal = np.sqrt(turn[:-1]) / length[:-1]
    smallest = eigvalsh_tridiagonal(diagonal, off_diagonal, select="i", select_range=(0, 0))[0]
    return min(1.0, max(float(smallest), float(np.finfo(float).eps)))


@dataclass(frozen=True, eq=False)
class _Spectrum:
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


def _decompose(slices: MassSlices, mass: Array) -> _Spectrum:
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
    _Spectrum
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
    return _Spectrum(
        filled,
        root_mass,
        shares,
        eigenvalues,
        vectors,
        n_null,
        float(rounding),
        float(null_rounding),
    )


def _solve_by_eigenvectors(slices: MassSlices, spectrum: _Spectrum) -> Refined | None:
    """Return the parts of least norm, refined with residuals in twofold precision.

    Parameters
    ----------
    slices : MassSlices
        The tensor.
    spectrum : _Spectrum
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


def _bound_error(refined: Refined, spectrum: _Spectrum) -> tuple[float, float]:
    """Bound the error of parts, whatever found them, from the means that they leave.

    Parameters
    ----------
    refined : Refined
        The parts.
    spectrum : _Spectrum
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
    # Vectors of the null space are wrong by their residual, over the gap.
    angle = 2 * spectrum.null_rounding / spectrum.least
    turned = angle * np.linalg.norm(spectrum.root_mass * largest)
    off = np.linalg.norm(spectrum.root_mass * means) / spectrum.least
    return (
        _in_each_slice(float(off), means, spectrum) + ROUNDING * float(np.max(largest)),
        _in_each_slice(float(along + parts.shape[1] * turned), 0.0 * means, spectrum),
    )


def _bound_growth(spectrum: _Spectrum) -> float:
    """Bound the parts of a tensor whose entries are at most one in size.

    Parameters
    ----------
    spectrum : _Spectrum
        Its equations.

    Returns
    -------
    float
        Largest part.
    """
    one = np.ones(len(spectrum.root_mass))
    return _in_each_slice(1 / float(np.sqrt(spectrum.least)), one, spectrum)


def _in_each_slice(in_mean_square: float, means: Array, spectrum: _Spectrum) -> float:
    """Turn a bound in L2 of the margins into one that holds in each slice.

    A part is the mean of its slice less the means of the other parts there, so it is bounded
    by theirs, most of which lie in heavier slices.
    """
    bound = in_mean_square / spectrum.root_mass
    for _ in range(_MOST_CORRECTIONS):
        lower = np.minimum(bound, means + spectrum.shares @ bound)
        if np.max(lower) > 0.9 * np.max(bound):
            return float(np.max(lower))
        bound = lower
    return float(np.max(bound))
