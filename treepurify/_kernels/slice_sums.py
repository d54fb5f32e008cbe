"""Sums over the slices of a tensor, of the cells with mass only."""

import numpy as np

from treepurify._kernels.compiling import kernel, part

# Their rests stay in the cache of a core while one axis after the other is gone through.
_CELLS_A_BLOCK = 1024


@kernel
def add_slice_sums(slice_of, weight, values, parts, total):
    """Add the weighted values, less the parts of their slices, to the sum of every slice.

    ``slice_of[i, c]`` is the slice of cell c along axis i, among the slices of all axes. One
    output: `values` has one entry per cell, `parts` and `total` have one per slice.
    """
    n_axes, n_cells = slice_of.shape
    rest = np.empty(_CELLS_A_BLOCK)
    for start in range(0, n_cells, _CELLS_A_BLOCK):
        n = n_cells - start if n_cells - start < _CELLS_A_BLOCK else _CELLS_A_BLOCK
        for c in range(n):
            rest[c] = values[start + c]
        for axis in range(n_axes):
            own = slice_of[axis, start : start + n]
            for c in range(n):
                rest[c] -= parts[own[c]]
        for c in range(n):
            rest[c] *= weight[start + c]
        for axis in range(n_axes):
            own = slice_of[axis, start : start + n]
            for c in range(n):
                total[own[c]] += rest[c]


@kernel
def set_slice_means(slice_of, weight, parts, per_mass, mean):
    """Set the weighted sum of the parts of all cells of a slice, times one over its mass.

    One output, as in `add_slice_sums`. A cell of three axes is read and added in one go.
    """
    n_axes, n_cells = slice_of.shape
    mean[:] = 0.0
    if n_axes == 3:
        for c in range(n_cells):
            first, second, third = slice_of[0, c], slice_of[1, c], slice_of[2, c]
            share = weight[c] * (parts[first] + parts[second] + parts[third])
            mean[first] += share
            mean[second] += share
            mean[third] += share
    else:
        for c in range(n_cells):
            total = 0.0
            for axis in range(n_axes):
                total += parts[slice_of[axis, c]]
            for axis in range(n_axes):
                mean[slice_of[axis, c]] += weight[c] * total
    for s in range(len(mean)):
        mean[s] *= per_mass[s]


@kernel
def add_slice_sums_twofold(slice_of, weight, values, high, low, total, rest):
    """Add the same sums for parts ``high + low``, to ``total + rest``, in twofold precision.

    Sums and products keep their rounding errors, so that what cancels between values and parts
    is right to about ``1e-30`` of them.
    """
    n_axes, n_cells = slice_of.shape
    for c in range(n_cells):
        left, left_rest = values[c], 0.0
        for axis in range(n_axes):
            own = slice_of[axis, c]
            left, error = two_sum(left, -high[own])
            left_rest += error - low[own]
        left, left_rest = two_sum(left, left_rest)
        product, error = two_product(weight[c], left)
        error += weight[c] * left_rest
        for axis in range(n_axes):
            own = slice_of[axis, c]
            total[own], lost = two_sum(total[own], product)
            rest[own] += lost + error


@part
def two_sum(first, second):
    """Return a sum and its rounding error (Knuth 1969)."""
    found = first + second
    share = found - first
    return found, (first - (found - share)) + (second - share)


@part
def two_product(first, second):
    """Return a product and its rounding error (Dekker 1971)."""
    found = first * second
    # Halves of 26 bits, whose products are exact.
    scaled = 134217729.0 * first
    first_high = scaled - (scaled - first)
    first_low = first - first_high
    scaled = 134217729.0 * second
    second_high = scaled - (scaled - second)
    second_low = second - second_high
    error = first_high * second_high - found + first_high * second_low
    return found, error + first_low * second_high + first_low * second_low
