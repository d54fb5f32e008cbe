"""Factor and solve arrowhead equations of which many may depend on the others.

A pivot that is next to nothing belongs to an equation that depends on those before it. Its row of
the factor becomes that of the unit matrix: solving sets its unknown to zero, up to rounding, and
solving for that unit vector alone gives the direction along which nothing changes. Large
products and triangles are left to a library: sides are hundreds.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.lapack import substitute, subtract_gram, subtract_product, whiten

# Number of rows eliminated at a time, and of units solved for.
_PANEL = 96
_UNITS = 64
_UP, _DOWN, _YES = np.bool_(True), np.bool_(False), np.bool_(True)


@kernel
def factor_with_gaps(routines, bounds, blocks, border, rest, least, pivots):
    """Put the factor R, an upper triangle of the same form, in the place of the matrix.

    Each pivot is written to `pivots`, and those below `least` are gaps.
    """
    n_inside = len(border)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        square = blocks[first:last, : last - first]
        _factor(routines, square, least, pivots[first:last])
        whiten(routines, square, border[first:last])
        _clear(border[first:last], least, pivots[first:last])
    subtract_gram(routines, border, rest)
    _factor(routines, rest, least, pivots[n_inside:])


@part
def _factor(routines, matrix, least, pivots):
    n = len(matrix)
    for first in range(0, n, _PANEL):
        last = min(first + _PANEL, n)
        square = matrix[first:last, first:last]
        _factor_square(square, least, pivots[first:last])
        if last < n:
            rows = matrix[first:last, last:]
            whiten(routines, square, rows)
            _clear(rows, least, pivots[first:last])
            subtract_gram(routines, rows, matrix[last:, last:])


@part
def _factor_square(matrix, least, pivots):
    n = len(matrix)
    for i in range(n):
        pivot = matrix[i, i]
        pivots[i] = pivot
        is_gap = pivot < least
        scale = 0.0 if is_gap else 1 / np.sqrt(pivot)
        matrix[i, i] = 1.0 if is_gap else np.sqrt(pivot)
        row = matrix[i]
        for k in range(i + 1, n):
            row[k] *= scale
        if is_gap:
            continue
        for k in range(i + 1, n):
            to, factor = matrix[k], row[k]
            for c in range(k, n):
                to[c] -= factor * row[c]


@part
def _clear(rows, least, pivots):
    """Make the rows of gaps zero."""
    for i in range(len(rows)):
        if pivots[i] < least:
            for k in range(rows.shape[1]):
                rows[i, k] = 0.0


@kernel
def solve_units(routines, bounds, blocks, border, rest, places, solved):
    """Solve ``R @ x = side`` for the unit vectors of places in increasing order.

    ``solved``, shape (n_places, n), is filled with zeros. Below its one a solution has only zeros.
    """
    n_inside, n = len(border), len(places)
    for i in range(n):
        solved[i, places[i]] = 1.0
    n_first = 0
    while n_first < n and places[n_first] < n_inside:
        n_first += 1
    for start in range(n_first, n, _UNITS):
        stop = min(start + _UNITS, n)
        width = places[stop - 1] + 1 - n_inside
        outside = solved[start:stop, n_inside : n_inside + width]
        substitute(routines, rest[:width, :width], _UP, outside)
        to = solved[start:stop, :n_inside]
        subtract_product(routines, border[:, :width], _DOWN, outside, to)
    of_block = 0
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        square = blocks[first:last, : last - first]
        substitute(routines, square, _UP, solved[n_first:, first:last])
        start = of_block
        while of_block < n_first and places[of_block] < last:
            of_block += 1
        substitute(routines, square, _UP, solved[start:of_block, first:last])


@kernel
def solve_many(routines, bounds, blocks, border, rest, sides):
    """Solve ``R.T @ R @ x = side`` in place for each of `sides`, shape (n_sides, n)."""
    n_inside = len(border)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        substitute(routines, blocks[first:last, : last - first], _DOWN, sides[:, first:last])
    inside, outside = sides[:, :n_inside], sides[:, n_inside:]
    subtract_product(routines, border, _YES, inside, outside)
    substitute(routines, rest, _DOWN, outside)
    substitute(routines, rest, _UP, outside)
    subtract_product(routines, border, _DOWN, outside, inside)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        substitute(routines, blocks[first:last, : last - first], _UP, sides[:, first:last])
