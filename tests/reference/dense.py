"""Slow dense truths: projections and functional ANOVA by plain least squares."""

from fractions import Fraction
from itertools import combinations

import numpy as np

from tests.reference.rational import solve

# Directions whose squared singular value is rounding are not identified in double precision.
RELATIVE_RANK = 1e-7


def additive_design(shape: tuple[int, ...]) -> tuple[np.ndarray, list[slice]]:
    """Indicators of the slices of a table: one row a cell, one column a slice of each axis."""
    cells = np.indices(shape).reshape(len(shape), -1)
    blocks, columns, start = [], [], 0
    for axis in range(len(shape)):
        rest = tuple(size for i, size in enumerate(shape) if i != axis)
        number = np.ravel_multi_index(tuple(np.delete(cells, axis, axis=0)), rest)
        block = np.zeros((cells.shape[1], int(np.prod(rest))))
        block[np.arange(cells.shape[1]), number] = 1.0
        blocks.append(block)
        columns.append(slice(start, start + block.shape[1]))
        start += block.shape[1]
    return np.hstack(blocks), columns


def project_off(values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Residual and moved parts of the weighted least-squares fit by functions of fewer features.

    Rows are scaled by the square root of the mass and columns by that of the slice, so that
    the solution of least norm is the one of least norm in L2 of the margins. Parts of slices
    without mass are NaN, and so is the residual there.
    """
    design, columns = additive_design(mass.shape)
    slice_mass = design.T @ mass.ravel()
    filled = slice_mass > 0
    root = np.sqrt(mass.ravel())[:, None]
    scaling = np.where(filled, 1 / np.sqrt(np.where(filled, slice_mass, 1.0)), 0.0)
    system = root * design * scaling
    target = values.reshape(mass.size, -1)
    solution = np.linalg.lstsq(system, root * target, rcond=RELATIVE_RANK)[0]
    # A second solve for the residual removes the error of the first one to first order.
    rest = target - design @ (scaling[:, None] * solution)
    solution += np.linalg.lstsq(system, root * rest, rcond=RELATIVE_RANK)[0]
    fitted = np.where(filled[:, None], scaling[:, None] * solution, np.nan)
    pure = target - (design[:, :, None] * fitted[None]).sum(axis=1, where=design[:, :, None] > 0)
    parts = []
    for axis, block in enumerate(columns):
        rest_shape = tuple(size for i, size in enumerate(mass.shape) if i != axis)
        parts.append(fitted[block].reshape(*rest_shape, -1))
    return pure.reshape(values.shape), parts


def project_off_exactly(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Residual of the same fit in rational arithmetic, for small tables of any grading.

    `values` has no output axis. Cells in slices without mass are left out of the fit.
    """
    design, _ = additive_design(mass.shape)
    weight = [Fraction(float(w)) for w in mass.ravel()]
    target = [Fraction(float(t)) for t in values.ravel()]
    members = [np.flatnonzero(row) for row in design]
    n = design.shape[1]
    system = [[Fraction(0)] * n for _ in range(n)]
    right = [[Fraction(0)] for _ in range(n)]
    for cell, slices in enumerate(members):
        for i in slices:
            for j in slices:
                system[i][j] += weight[cell]
            right[i][0] += weight[cell] * target[cell]
    solution = solve(system, right)
    residual = [t - sum(solution[i][0] for i in s) for t, s in zip(target, members, strict=True)]
    return np.array([float(r) for r in residual]).reshape(values.shape)


def functional_anova(values: np.ndarray, mass: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """All components of a function on a full grid under any joint mass with full margins.

    One linear system for all components at once: they add up to the function in every cell,
    and the mean of each over any one of its features, given its others, is zero. Solved by
    least squares; `values` has the shape of `mass` plus an output axis. The component of the
    empty subset is the mean.
    """
    d = mass.ndim
    subsets = [s for size in range(d + 1) for s in combinations(range(d), size)]
    shapes = [tuple(mass.shape[j] for j in s) for s in subsets]
    starts = np.concatenate([[0], np.cumsum([int(np.prod(shape)) for shape in shapes])])
    cells = np.indices(mass.shape).reshape(d, -1)
    sums = np.zeros((mass.size, starts[-1]))
    for subset, shape, start in zip(subsets, shapes, starts, strict=False):
        number = np.ravel_multi_index(tuple(cells[list(subset)]), shape) if subset else 0
        sums[np.arange(mass.size), start + number] = 1.0
    means, outputs = [], values.shape[-1]
    for subset, shape, start in zip(subsets, shapes, starts, strict=False):
        margin = mass.sum(axis=tuple(j for j in range(d) if j not in subset))
        number = np.arange(margin.size).reshape(shape)
        for axis in range(len(subset)):
            slices = np.moveaxis(number, axis, -1).reshape(-1, shape[axis])
            weights = np.moveaxis(margin, axis, -1).reshape(-1, shape[axis])
            for cells_of, weight in zip(slices, weights, strict=True):
                row = np.zeros(starts[-1])
                if weight.sum() > 0:
                    row[start + cells_of] = weight / weight.sum()
                means.append(row)
    system = np.vstack([sums, np.array(means).reshape(-1, starts[-1])])
    right = np.vstack([values.reshape(mass.size, outputs), np.zeros((len(means), outputs))])
    inverse = np.linalg.pinv(system, rcond=1e-14)
    solution = inverse @ right
    solution += inverse @ (right - system @ solution)
    return {
        subset: solution[start:stop].reshape(*shape, outputs)
        for subset, shape, start, stop in zip(subsets, shapes, starts[:-1], starts[1:], strict=True)
    }


def largest_conditional_mean(values: np.ndarray, mass: np.ndarray) -> float:
    """Largest mean of a table given all but one of its features, over slices with mass."""
    largest = 0.0
    for axis in range(mass.ndim):
        total = mass.sum(axis=axis)
        # Scaled slice by slice, so that no product falls out of double precision.
        top = mass.max(axis=axis, keepdims=True)
        share = mass / np.where(top > 0, top, 1.0)
        mean = (values * share[..., None]).sum(axis=axis) / np.maximum(share.sum(axis=axis), 1.0)[
            ..., None
        ]
        largest = max(largest, float(np.abs(mean[total > 0]).max(initial=0.0)))
    return largest


def put_together(pure: np.ndarray, moved: tuple[np.ndarray, ...]) -> np.ndarray:
    """The sum of a pure table and the parts that left it."""
    total = pure
    for axis, part in enumerate(moved):
        total = total + np.expand_dims(part, axis)
    return total
