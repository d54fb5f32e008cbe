"""Products and solves with an arrowhead matrix and a few vectors, four rows of it at a time.

Each vector is a row of an array. A row of the matrix is read once for all vectors, and entries of
a vector once for four rows; a library needs a call for every block, and packs its operands for
large products.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.lapack import factor_in_place, subtract_gram, whiten

# Sums in the order that fills the registers; the same in every run.
_REGISTERS = {"reassoc", "contract"}
# Not constants to the compiler, for which functions would be compiled again.
_TRIANGLE, _RECTANGLE, _FIRST = np.bool_(True), np.bool_(False), np.int64(0)


@kernel
def factor(routines, bounds, blocks, border, rest, ridge):
    """Put the factor R, an upper triangle of the same form, in the place of the matrix.

    `ridge` is added to the diagonal. Returns whether the matrix is positive; if not, it is only
    partly replaced. `routines` are those of `_kernels.lapack`.
    """
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        square = blocks[first:last, : last - first]
        for i in range(last - first):
            square[i, i] += ridge
        if not factor_in_place(routines, square):
            return False
        whiten(routines, square, border[first:last])
    # A slice as the blocks are, for which the same functions are compiled.
    square = rest[:, : len(rest)]
    for i in range(len(square)):
        square[i, i] += ridge
    subtract_gram(routines, border, square)
    return factor_in_place(routines, square)


@kernel
def multiply(bounds, blocks, border, rest, vectors, image):
    """Add the matrix times vectors, shape (n_vectors, n), to `image`.

    `blocks` and `rest` are read on and above their diagonals.
    """
    n_inside = len(border)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        _multiply(blocks[first:last], _TRIANGLE, first, first, vectors, image)
    _multiply(border, _RECTANGLE, _FIRST, n_inside, vectors, image)
    _multiply(rest, _TRIANGLE, n_inside, n_inside, vectors, image)


@kernel
def solve_lower(bounds, blocks, border, rest, sides):
    """Solve ``R.T @ x = side`` in place for each of `sides`, shape (n_sides, n).

    R is an upper triangle of the form of an arrowhead.
    """
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        _substitute_forward(blocks[first:last], first, sides)
    _subtract_rows(border, sides)
    _substitute_forward(rest, len(border), sides)


@kernel
def solve_upper(bounds, blocks, border, rest, sides):
    """Solve ``R @ x = side`` in place for each of `sides`."""
    _substitute_back(rest, len(border), sides)
    _subtract_dots(border, sides)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        _substitute_back(blocks[first:last], first, sides)


@part(fastmath=_REGISTERS)
def _multiply(matrix, is_upper, first, column, vectors, image):
    """Add a part of a symmetric matrix, and its transpose, times vectors.

    Its rows stand at `first` and its columns at `column`. Of an upper triangle, only one side is
    read.
    """
    n = len(matrix)
    width = n if is_upper else matrix.shape[1]
    end = column + width
    for i in range(0, n - 3, 4):
        start = i + 4 if is_upper else 0
        a, b = matrix[i, start:width], matrix[i + 1, start:width]
        c, d = matrix[i + 2, start:width], matrix[i + 3, start:width]
        for v in range(len(vectors)):
            x, y = vectors[v, column + start : end], image[v, column + start : end]
            at, to = vectors[v, first + i : first + i + 4], image[v, first + i : first + i + 4]
            p = q = r = s = 0.0
            for k in range(len(x)):
                p += a[k] * x[k]
                q += b[k] * x[k]
                r += c[k] * x[k]
                s += d[k] * x[k]
                y[k] += a[k] * at[0] + b[k] * at[1] + c[k] * at[2] + d[k] * at[3]
            to[0] += p
            to[1] += q
            to[2] += r
            to[3] += s
            if is_upper:
                for j in range(4):
                    to[j] += matrix[i + j, i + j] * at[j]
                    for k in range(j + 1, 4):
                        to[j] += matrix[i + j, i + k] * at[k]
                        to[k] += matrix[i + j, i + k] * at[j]
    for i in range(n - n % 4, n):
        for v in range(len(vectors)):
            if is_upper:
                image[v, first + i] += matrix[i, i] * vectors[v, first + i]
            for k in range(i + 1 if is_upper else 0, width):
                image[v, first + i] += matrix[i, k] * vectors[v, column + k]
                image[v, column + k] += matrix[i, k] * vectors[v, first + i]


@part(fastmath=_REGISTERS)
def _substitute_forward(upper, first, sides):
    """Solve ``upper.T @ x = side`` for the part of each of `sides` that begins at `first`."""
    n = len(upper)
    end = first + n
    for i in range(0, n - 3, 4):
        a, b = upper[i, i:n], upper[i + 1, i:n]
        c, d = upper[i + 2, i:n], upper[i + 3, i:n]
        for v in range(len(sides)):
            x = sides[v, first + i : end]
            x[0] /= a[0]
            x[1] = (x[1] - a[1] * x[0]) / b[1]
            x[2] = (x[2] - a[2] * x[0] - b[2] * x[1]) / c[2]
            x[3] = (x[3] - a[3] * x[0] - b[3] * x[1] - c[3] * x[2]) / d[3]
            _subtract(x[0], a[4:], x[1], b[4:], x[2], c[4:], x[3], d[4:], x[4:])
    for i in range(n - n % 4, n):
        for v in range(len(sides)):
            sides[v, first + i] /= upper[i, i]
            for k in range(i + 1, n):
                sides[v, first + k] -= sides[v, first + i] * upper[i, k]


@part(fastmath=_REGISTERS)
def _substitute_back(upper, first, sides):
    """Solve ``upper @ x = side`` for the part of each of `sides` that begins at `first`."""
    n = len(upper)
    end = first + n
    for i in range(n - 1, n - n % 4 - 1, -1):
        for v in range(len(sides)):
            for k in range(i + 1, n):
                sides[v, first + i] -= upper[i, k] * sides[v, first + k]
            sides[v, first + i] /= upper[i, i]
    for i in range(n - n % 4 - 4, -1, -4):
        a, b = upper[i, i:n], upper[i + 1, i:n]
        c, d = upper[i + 2, i:n], upper[i + 3, i:n]
        for v in range(len(sides)):
            x = sides[v, first + i : end]
            p, q, r, s = _dots(a[4:], b[4:], c[4:], d[4:], x[4:])
            x[3] = (x[3] - s) / d[3]
            x[2] = (x[2] - r - c[3] * x[3]) / c[2]
            x[1] = (x[1] - q - b[2] * x[2] - b[3] * x[3]) / b[1]
            x[0] = (x[0] - p - a[1] * x[1] - a[2] * x[2] - a[3] * x[3]) / a[0]


@part(fastmath=_REGISTERS)
def _subtract_rows(border, sides):
    """Subtract the border, times what stands at its rows, from what stands at its columns."""
    n = len(border)
    for i in range(0, n - 3, 4):
        a, b, c, d = border[i], border[i + 1], border[i + 2], border[i + 3]
        for v in range(len(sides)):
            x = sides[v, i : i + 4]
            _subtract(x[0], a, x[1], b, x[2], c, x[3], d, sides[v, n:])
    for i in range(n - n % 4, n):
        for v in range(len(sides)):
            for k in range(border.shape[1]):
                sides[v, n + k] -= sides[v, i] * border[i, k]


@part(fastmath=_REGISTERS)
def _subtract_dots(border, sides):
    """Subtract the border, times what stands at its columns, from what stands at its rows."""
    n = len(border)
    for i in range(0, n - 3, 4):
        a, b, c, d = border[i], border[i + 1], border[i + 2], border[i + 3]
        for v in range(len(sides)):
            p, q, r, s = _dots(a, b, c, d, sides[v, n:])
            sides[v, i] -= p
            sides[v, i + 1] -= q
            sides[v, i + 2] -= r
            sides[v, i + 3] -= s
    for i in range(n - n % 4, n):
        for v in range(len(sides)):
            for k in range(border.shape[1]):
                sides[v, i] -= border[i, k] * sides[v, n + k]


@part(fastmath=_REGISTERS, inline="always")
def _dots(a, b, c, d, x):
    p = q = r = s = 0.0
    for k in range(len(x)):
        p += a[k] * x[k]
        q += b[k] * x[k]
        r += c[k] * x[k]
        s += d[k] * x[k]
    return p, q, r, s


@part(fastmath=_REGISTERS, inline="always")
def _subtract(p, a, q, b, r, c, s, d, to):
    for k in range(len(to)):
        to[k] -= p * a[k] + q * b[k] + r * c[k] + s * d[k]
