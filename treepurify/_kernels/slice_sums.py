"""Sums over the slices of a tensor, of the cells with mass only."""

import numpy as np
from numba import njit

# Their rests stay in the cache of a core while one axis after the other is gone through.
_CELLS_A_BLOCK = 1024


@njit(cache=True, nogil=True)
def add_slice_sums(slice_of, weight, values, parts, total):
    """Add the weighted values, less the parts of their slices, to the sum of every slice.

    ``slice_of[i, c]`` is the slice of cell c along axis i, among the slices of all axes. One
    output: `values` has an entry a cell, or none, which stands for zeros; `parts` and
    `total` have one a slice.
    """
    n_axes, n_cells = slice_of.shape
    rest = np.empty(_CELLS_A_BLOCK)
    for start in range(0, n_cells, _CELLS_A_BLOCK):
        n = min(_CELLS_A_BLOCK, n_cells - start)
        for c in range(n):
            rest[c] = values[start + c] if len(values) > 0 else 0.0
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
