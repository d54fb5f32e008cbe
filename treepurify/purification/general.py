"""Purify a tensor of any order exactly: from three features on by conjugate gradients.

A slice holds the cells that differ along one axis only. Slices of all axes are numbered one
axis after the other, so that a function of fewer features is one array, with one entry per slice.
"""

from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.slice_sums import LIFT, add_slice_sums_twofold, set_slice_means
from treepurify.purification.pair import ROUNDING, Solution, largest_entry, move_out, solve_pair
from treepurify.purification.unidentified import count_unidentified, count_weak
from treepurify.typing import Array, Indices, Mask

_TOLERANCE = 1e-13
_MOST_ROUNDS = 60
_MOST_IDLE_ROUNDS = 12
_EMPTY_LEVEL = 1e-9
_MOST_STEPS = 20_000
_FLATTEST = 1e-14
# What a round leaves of the means of slices, and the rounding of these.
_LEFT, _NOISE = 1e-8, 5e-16


def solve_exactly(values: Array, mass: Array) -> Solution:
    """Purify a tensor (cells..., n_outputs) under the mass of its cells (cells...)."""
    if mass.ndim == 1:
        mean = mass @ values
        return Solution(values - mean, (mean,), error=2 * len(mass) * ROUNDING)
    return solve_pair(values, mass) if mass.ndim == 2 else solve_general(values, mass)


def solve_general(values: Array, mass: Array) -> Solution:
    """Project a tensor off the functions of fewer features, under any mass.

    Solves the weighted normal equations by conjugate gradients, preconditioned with the mass of
    each slice. Started at zero, they find the solution of least norm in L2 of the margins.

    Slices without mass are fitted by least squares under the product of the margins, where
    a level without mass counts for next to nothing (1e-9 of the lightest one with mass): under
    a product measure that is the mean given the level, as in the closed form.

    Parameters
    ----------
    values : ndarray of shape (cells..., n_outputs)
        The tensor.
    mass : ndarray of shape (cells...)
        Mass of each cell, summing to one.

    Returns
    -------
    Solution
    """
    slices = _slice_tensor(values, mass, np.flatnonzero(mass))
    is_filled = slices.mass > 0
    fit = _fit(slices, is_filled)
    moved = slices.tables(fit.parts)
    pure = move_out(values, moved)
    if not is_filled.all():
        is_empty = [np.expand_dims(mass.sum(axis=i) == 0, i) for i in range(mass.ndim)]
        cells = np.flatnonzero(reduce(np.logical_or, is_empty))
        even = _slice_tensor(pure, reduce(np.multiply.outer, _margins(mass)), cells)
        of_empty = even.tables(_fit(even, ~is_filled).parts)
        moved = tuple(map(np.add, moved, of_empty))
        pure = move_out(pure, of_empty)
    scale, size = largest_entry(slices.values), largest_entry(fit.parts)
    error = fit.error + ROUNDING * size
    if count_weak(mass):
        # Any part along such a direction would do, up to what the entries along it add up to.
        error += len(slices.mass) * scale + size
    return Solution(
        pure=pure,
        moved=moved,
        unidentified=count_unidentified(mass),
        empty_slices=int(np.count_nonzero(~is_filled)),
        error=error / scale if scale > 0 else 0.0,
        method="conjugate gradients",
        iterations=fit.steps,
        converged=fit.converged,
        growth=max(1.0, size / scale) if scale > 0 else 1.0,
    )


def _margins(mass: Array) -> list[Array]:
    """Return the margins of a mass, with a little mass for every level that has none."""
    margins = []
    for i in range(mass.ndim):
        margin = mass.sum(axis=tuple(j for j in range(mass.ndim) if j != i))
        margin = np.where(margin > 0, margin, _EMPTY_LEVEL * margin[margin > 0].min())
        margins.append(margin / margin.sum())
    return margins


class _Slices(NamedTuple):
    """A tensor of which only some cells count: with data, these are few among many.

    Parameters
    ----------
    shape : tuple of int
        Cells along the axes of the tensor.
    mass : ndarray of shape (n_slices,)
        Mass of each slice.
    slice_of : ndarray of uint32, shape (n_axes, n_cells)
        Slices of each cell that counts.
    weight : ndarray of shape (n_cells,)
        Mass of these cells.
    values : ndarray of shape (n_outputs, n_cells)
        The tensor in these cells.
    """

    shape: tuple[int, ...]
    mass: Array
    slice_of: npt.NDArray[np.uint32]
    weight: Array
    values: Array

    def residual(self, high: Array, low: Array) -> Array:
        """Return the mean in each slice of the tensor less parts ``high + low``.

        Right to double precision where these cancel; shape (n_outputs, n_slices), as of parts.
        """
        total, rest = np.zeros((2, *high.shape))
        weight = LIFT * self.weight
        for own in zip(self.values, high, low, total, rest, strict=True):
            add_slice_sums_twofold(self.slice_of, weight, *own)
        return np.asarray((total + rest) / (LIFT * np.where(self.mass > 0, self.mass, 1.0)))

    def image(self, parts: Array) -> Array:
        """Return the mean in each slice of the sum of the parts."""
        means = np.empty_like(parts)
        for own, mean in zip(parts, means, strict=True):
            set_slice_means(self.slice_of, self.weight, own, self.mass, mean)
        return means

    def tables(self, parts: Array) -> tuple[Array, ...]:
        """Return the parts as tables, shape (cells without one axis..., n_outputs)."""
        shapes = [self.shape[:i] + self.shape[i + 1 :] for i in range(len(self.shape))]
        pieces = np.split(parts.T, np.cumsum([prod(shape) for shape in shapes])[:-1])
        return tuple(
            np.ascontiguousarray(piece).reshape(*shape, len(parts))
            for piece, shape in zip(pieces, shapes, strict=True)
        )


def _slice_tensor(values: Array, mass: Array, cells: Indices) -> _Slices:
    """Return a tensor (cells..., n_outputs) under a mass (cells...) in some of its cells."""
    sums = [np.asarray(mass.sum(axis=axis)).ravel() for axis in range(mass.ndim)]
    slice_of = np.empty((mass.ndim, len(cells)), dtype=np.uint32)
    step, start = 1, sum(map(len, sums))
    for axis in reversed(range(mass.ndim)):
        # In C order a cell is (index before the axis, index along it, index behind it).
        # NumPy divides by one number several at a time, but takes no remainders that way.
        start -= len(sums[axis])
        before, behind = cells // (step * mass.shape[axis]), cells - cells // step * step
        slice_of[axis] = start + before * step + behind
        step *= mass.shape[axis]
    of_cells = np.ascontiguousarray(values.reshape(-1, values.shape[-1])[cells].T)
    return _Slices(mass.shape, np.concatenate(sums), slice_of, mass.ravel()[cells], of_cells)


class _Fit(NamedTuple):
    """Parts, shape (n_outputs, n_slices), how wrong they are, and the steps that found them."""

    parts: Array
    error: float
    converged: bool
    steps: int


def _fit(slices: _Slices, active: Mask) -> _Fit:
    """Fit the parts of the active slices, and again what they leave.

    What is left is measured in twofold precision, and each round's parts are as large as the error
    before it. Rounds end when every slice has a mean below 1e-13 of the largest entry, and the
    next round would be rounding. A norm would not see slices of little mass.
    """
    scale = largest_entry(slices.values)
    goal = _TOLERANCE * scale
    high = np.zeros((len(slices.values), len(slices.mass)))
    low, best = high, _Fit(high, np.inf, converged=False, steps=0)
    least, size, error, idle, steps = np.inf, 0.0, np.inf, 0, 0
    for _ in range(_MOST_ROUNDS):
        means = np.where(active, slices.residual(high, low), 0.0)
        largest = largest_entry(means)
        idle = 0 if largest < 0.5 * least else idle + 1
        if largest <= least:
            least = largest
            best = _Fit(high, max(error, largest), largest <= goal, steps)
        is_right = largest <= goal and error <= ROUNDING * max(scale, largest_entry(high))
        if is_right or scale == 0 or idle > _MOST_IDLE_ROUNDS:
            break
        going = active
        above = np.abs(means).max(axis=0) > goal
        if idle > 0 and above.any():
            # All slices together, or the norm would not be the least, until only those of little
            # mass are left.
            going = active & (slices.mass <= slices.mass[above].max())
        step, n_steps = _conjugate_gradients(slices, means, going)
        before, size, steps = size, largest_entry(step), steps + n_steps
        error = size * size / before if size < before else size
        high, low = _add_twofold(high, low, step)
    return best


def _add_twofold(high: Array, low: Array, step: Array) -> tuple[Array, Array]:
    """Return parts ``high + low`` and a step as parts in twofold precision."""
    total = high + step
    share = total - high
    low = low + ((high - (total - share)) + (step - share))
    high = total + low
    return high, low - (high - total)


def _conjugate_gradients(slices: _Slices, means: Array, active: Mask) -> tuple[Array, int]:
    """Return parts of the active slices that leave small means, and the number of steps to them.

    All quantities are divided by the slice mass: the preconditioned residual is the
    conditional mean of each slice. Outputs are solved side by side, each with its own step lengths.
    """
    mean = np.where(active, means, 0.0)
    direction, parts = mean.copy(), np.zeros_like(mean)
    energy = mean**2 @ slices.mass
    sizes = np.abs(mean).max(axis=1)
    noise = (_NOISE * sizes) ** 2 * slices.mass[active].sum()
    going = energy > noise
    for step in range(_MOST_STEPS):
        image = slices.image(direction)
        curvature = (direction * image) @ slices.mass
        # A flatter direction is rounding.
        going &= curvature > _FLATTEST * (direction**2 @ slices.mass)
        if not going.any():
            return parts, step
        length = _ratio(energy, curvature, going)
        parts += length * direction
        mean -= np.where(active, length * image, 0.0)
        before, energy = energy, mean**2 @ slices.mass
        direction = mean + _ratio(energy, before, going) * direction
        going &= (np.abs(mean).max(axis=1) > _LEFT * sizes) & (energy > noise)
    return parts, _MOST_STEPS


def _ratio(above: Array, below: Array, going: Mask) -> Array:
    """Return a quotient for each output; zero for those that are done."""
    return np.divide(above, below, out=np.zeros_like(above), where=going)[:, None]
