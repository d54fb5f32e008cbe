"""Sums over the slices of a tensor, of the cells with mass only.

``slice_of[i, c]`` is the slice of cell c along axis i, among the slices of all axes, without a
sign: such numbers are not tested for counting from the end.
"""

from treepurify._kernels.compiling import kernel, part

# Masses down to 1e-280 are lifted, or the rounding errors of their products would vanish.
LIFT = 2.0**200


@kernel
def set_slice_means(slice_of, weight, parts, slice_mass, mean):
    """Set the mean of the parts of all cells of a slice; zero without mass.

    One output: `parts` and `mean` have one entry per slice.
    """
    n_axes, n_cells = slice_of.shape
    mean[:] = 0.0
    for c in range(n_cells):
        total = 0.0
        for axis in range(n_axes):
            total += parts[slice_of[axis, c]]
        total *= weight[c]
        for axis in range(n_axes):
            mean[slice_of[axis, c]] += total
    for s in range(len(mean)):
        if slice_mass[s] > 0:
            mean[s] /= slice_mass[s]


@kernel
def add_slice_sums_twofold(slice_of, weight, values, high, low, total, rest):
    """Add the weighted values less parts ``high + low`` to ``total + rest``, in twofold precision.

    One output: `values` has one entry per cell, the others have one per slice. Sums and products
    keep their rounding errors, so that what cancels between values and parts is right to about
    ``1e-30`` of them.
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
