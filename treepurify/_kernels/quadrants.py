"""Sums of rows in pairs of cells, and the best crossing of two cuts through a table of them."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def add_pair_sums(first, second, values, table):
    """Add each row's value to the entry of its two cells."""
    for row in range(len(values)):
        table[first[row], second[row]] += values[row]


@kernel
def best_crossing(weight, total, least_weight):
    """Return the gain of the best crossing of two cuts, the cuts, and its smallest weight.

    `weight` and `total` hold, for each pair of cells, the weight of the rows and the sum of their
    weighted values. Cuts a and b part the table into four quadrants; means of the four fit the
    values better than sums of one number per side by the contrast of the four means, squared,
    over the sum of the inverse weights. Quadrants must weigh `least_weight` or more.
    """
    n_first, n_second = weight.shape
    below = np.zeros((n_first + 1, n_second + 1))
    below_total = np.zeros((n_first + 1, n_second + 1))
    for a in range(n_first):
        along, along_total = 0.0, 0.0
        for b in range(n_second):
            along += weight[a, b]
            along_total += total[a, b]
            below[a + 1, b + 1] = below[a, b + 1] + along
            below_total[a + 1, b + 1] = below_total[a, b + 1] + along_total
    gain, first, second, smallest = 0.0, -1, -1, 0.0
    whole, whole_total = below[n_first, n_second], below_total[n_first, n_second]
    for a in range(1, n_first):
        for b in range(1, n_second):
            low_low = below[a, b]
            low_high = below[a, n_second] - low_low
            high_low = below[n_first, b] - low_low
            high_high = whole - low_low - low_high - high_low
            least = min(low_low, low_high, high_low, high_high)
            if least < least_weight or least <= 0.0:
                continue
            sum_low_low = below_total[a, b]
            sum_low_high = below_total[a, n_second] - sum_low_low
            sum_high_low = below_total[n_first, b] - sum_low_low
            sum_high_high = whole_total - sum_low_low - sum_low_high - sum_high_low
            contrast = (
                sum_low_low / low_low
                - sum_low_high / low_high
                - sum_high_low / high_low
                + sum_high_high / high_high
            )
            inverse = 1.0 / low_low + 1.0 / low_high + 1.0 / high_low + 1.0 / high_high
            if contrast * contrast / inverse > gain:
                gain = contrast * contrast / inverse
                first, second, smallest = a, b, least
    return gain, first, second, smallest
