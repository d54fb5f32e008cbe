"""The equations of a pair table: its columns eliminated, and parts refined until they are right."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.slice_sums import LIFT, two_product, two_sum

_MOST_ROUNDS = 10
_ROUNDING = 2.0**-52


class PairEquations(NamedTuple):
    """A pair's mass, and its columns as `eliminate_columns` leaves them, the light ones first.

    `of_slices` has the block of each column and row: slices stand in this order everywhere.
    """

    mass: npt.NDArray[np.float64]
    slice_mass: npt.NDArray[np.float64]
    order: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]
    pivots: npt.NDArray[np.float64]
    of_slices: npt.NDArray[np.int64]
    block_mass: npt.NDArray[np.float64]


@kernel(error_model="numpy")
def eliminate_columns(coupling, start, stop, mass, weakest, shares, pivots, leads):
    """Eliminate ``start:stop`` of the columns, whose equations are a Laplacian.

    ``coupling[p, k]`` holds column `p` to the later column `k`. When `p` goes, its coupling and its
    `mass` pass to the later columns in `shares`: sums and products of positive numbers, so that
    every entry keeps its digits, however small it is (Grassmann, Taksar and Heyman 1985). Rows of
    `coupling` from `stop` on are left as they were. `leads` becomes the column that holds `p` most.

    A column is held too weakly if the block that went into it and the rest would have an
    eigenvalue below `weakest`: it ends a block, and its pivot is infinite. Returns how many end a
    block though something holds them.
    """
    n, n_weak = len(coupling), 0
    for p in range(start, stop):
        row, of_row = coupling[p], shares[p]
        total, later, most, lead = 0.0, 0.0, 0.0, p
        for k in range(p + 1, n):
            total += row[k]
            later += mass[k]
            if row[k] > most:
                most, lead = row[k], k
        if total == 0 or total / mass[p] + total / later < weakest:
            n_weak += total > 0
            pivots[p], leads[p] = np.inf, p
            continue
        pivots[p], leads[p] = total, lead
        inverse, own = 1 / total, mass[p]
        for k in range(p + 1, n):
            of_row[k] = row[k] * inverse
            mass[k] += own * of_row[k]
        for j in range(p + 1, stop):
            other, share = coupling[j], of_row[j]
            for k in range(j + 1, n):
                other[k] += share * row[k]
    return n_weak


@kernel(error_model="numpy")
def solve_pair_parts(equations, tables, workspace, parts, errors):
    """Set the parts of least norm of each output's table, and the error that their last step shows.

    Each round gains as many digits as the elimination gets right: what is left is measured in
    twofold precision, and each step is as large as the error before it. `workspace` has four
    numbers for each slice.
    """
    low, means, rest, step = workspace
    for k in range(len(tables)):
        high, size, error = parts[k], 0.0, 0.0
        for s in range(len(high)):
            high[s] = low[s] = 0.0
        for turn in range(_MOST_ROUNDS):
            _set_means(equations, tables[k], high, low, means, rest)
            before, size, largest = size, _set_step(equations, means, rest, step), 0.0
            error = size * size / before if turn > 0 and size < before else size
            for s in range(len(high)):
                total, lost = two_sum(high[s], step[s])
                high[s], low[s] = two_sum(total, low[s] + lost)
                largest = abs(total) if abs(total) > largest else largest
            if error <= _ROUNDING * largest:
                break
        errors[k] = error


@part(error_model="numpy")
def _set_means(equations, table, high, low, means, rest):
    """Set the mean in each slice of a table less parts ``high + low``; zero without mass."""
    n_rows, n_columns = table.shape
    for s in range(len(means)):
        means[s] = rest[s] = 0.0
    for i in range(n_rows):
        own, mass, row = table[i], equations.mass[i], n_columns + i
        total, lost_of_row, high_of_row, low_of_row = 0.0, 0.0, high[row], low[row]
        for j in range(n_columns):
            left, error = two_sum(own[j], -high[j])
            left, other = two_sum(left, -high_of_row)
            left, error = two_sum(left, error + other - low[j] - low_of_row)
            weight = LIFT * mass[j]
            product, lost = two_product(weight, left)
            lost += weight * error
            means[j], more = two_sum(means[j], product)
            rest[j] += lost + more
            total, more = two_sum(total, product)
            lost_of_row += lost + more
        means[row], rest[row] = total, lost_of_row
    for s in range(len(means)):
        mass_of_slice = LIFT * equations.slice_mass[s]
        means[s] = (means[s] + rest[s]) / mass_of_slice if mass_of_slice > 0 else 0.0


# Sums in the order that fills the registers; the same in every run.
@part(error_model="numpy", fastmath={"reassoc", "contract"})
def _set_step(equations, means, right, step):
    """Set the parts of least norm that leave the slices these means, to rounding of the solve.

    Returns the largest. `right` is workspace.
    """
    mass, slice_mass, order, shares, pivots, of_slices, block_mass = equations
    n_rows, n_columns = mass.shape
    for j in range(n_columns):
        step[j] = slice_mass[j] * means[j]
    for i in range(n_rows):
        row, mean = mass[i], means[n_columns + i]
        for j in range(n_columns):
            step[j] -= row[j] * mean
    for p in range(n_columns):
        right[p] = step[order[p]]
    for p in range(n_columns):
        row, passed = shares[p], right[p]
        for k in range(p + 1, n_columns):
            right[k] += passed * row[k]
    for p in range(n_columns - 1, -1, -1):
        row, total = shares[p], right[p] / pivots[p]
        for k in range(p + 1, n_columns):
            total += row[k] * right[k]
        right[p] = step[order[p]] = total
    for i in range(n_rows):
        row, total = mass[i], 0.0
        for j in range(n_columns):
            total += row[j] * step[j]
        s = n_columns + i
        step[s] = means[s] - total / slice_mass[s] if slice_mass[s] > 0 else 0.0
    # The mean of each block is split evenly between its rows and columns.
    for b in range(len(block_mass)):
        right[b] = 0.0
    for s in range(len(step)):
        right[of_slices[s]] += (
            slice_mass[s] * step[s] if s < n_columns else -slice_mass[s] * step[s]
        )
    largest = 0.0
    for s in range(len(step)):
        if slice_mass[s] > 0:
            shift = 0.5 * right[of_slices[s]] / block_mass[of_slices[s]]
            step[s] += -shift if s < n_columns else shift
            largest = abs(step[s]) if abs(step[s]) > largest else largest
    return largest
