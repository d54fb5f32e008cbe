"""Find the cell of each value along one axis."""

import numpy as np

from treepurify._kernels.compiling import kernel


@kernel
def locate(values, cuts, missing_cell, cells):
    """Write the number of cuts <= x, or `missing_cell` for NaN, to `cells`.

    Returns whether a NaN was met and the smallest and largest finite value (inf and -inf
    where there is none).
    """
    any_missing = False
    lowest = np.inf
    highest = -np.inf
    n_cuts = len(cuts)
    for row in range(len(values)):
        x = np.float64(values[row])
        if np.isnan(x):
            any_missing = True
            cells[row] = missing_cell
            continue
        # A search of fixed length: the compiler turns the comparison into a conditional
        # move, which random data cannot mispredict.
        first = 0
        length = n_cuts
        while length > 1:
            half = length >> 1
            first += half if cuts[first + half - 1] <= x else 0
            length -= half
        if n_cuts > 0 and cuts[first] <= x:
            first += 1
        cells[row] = first
        if x < lowest and x > -np.inf:
            lowest = x
        if x > highest and x < np.inf:
            highest = x
    return any_missing, lowest, highest
