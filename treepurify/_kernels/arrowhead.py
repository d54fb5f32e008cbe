"""Products and solves with an arrowhead matrix and a few vectors, a row of the matrix at a time.

Each vector is a row of an array. A library needs a call for every block, and packs its operands for
large products, which takes a little longer where vectors are few.
"""

from numba import njit


@njit(cache=True, nogil=True)
def multiply(bounds, blocks, border, rest, vectors, image):
    """Add the matrix times vectors, shape (n_vectors, n), to `image`.

    `blocks` and `rest` are read on and above their diagonals.
    """
    n_inside = len(border)
    for v in range(len(vectors)):
        vector, product = vectors[v], image[v]
        for block in range(len(bounds) - 1):
            first, last = bounds[block], bounds[block + 1]
            for i in range(first, last):
                row = blocks[i, i - first : last - first]
                product[i] += _dot(row, vector[i:last])
                _add(vector[i], row[1:], product[i + 1 : last])
    for i in range(n_inside):
        for v in range(len(vectors)):
            image[v, i] += _dot(border[i], vectors[v, n_inside:])
            _add(vectors[v, i], border[i], image[v, n_inside:])
    for i in range(len(rest)):
        row = rest[i, i:]
        for v in range(len(vectors)):
            image[v, n_inside + i] += _dot(row, vectors[v, n_inside + i :])
            _add(vectors[v, n_inside + i], row[1:], image[v, n_inside + i + 1 :])


@njit(cache=True, nogil=True)
def solve(bounds, blocks, border, rest, sides):
    """Solve ``R.T @ R @ x = side`` in place for each of `sides`, shape (n_sides, n).

    R is an upper triangle of the form of an arrowhead.
    """
    n_inside = len(border)
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        for i in range(first, last):
            for v in range(len(sides)):
                sides[v, i] /= blocks[i, i - first]
                _add(-sides[v, i], blocks[i, i - first + 1 : last - first], sides[v, i + 1 : last])
                _add(-sides[v, i], border[i], sides[v, n_inside:])
    for i in range(len(rest)):
        for v in range(len(sides)):
            sides[v, n_inside + i] /= rest[i, i]
            _add(-sides[v, n_inside + i], rest[i, i + 1 :], sides[v, n_inside + i + 1 :])
    for i in range(len(rest) - 1, -1, -1):
        for v in range(len(sides)):
            behind = _dot(rest[i, i + 1 :], sides[v, n_inside + i + 1 :])
            sides[v, n_inside + i] = (sides[v, n_inside + i] - behind) / rest[i, i]
    for block in range(len(bounds) - 1):
        first, last = bounds[block], bounds[block + 1]
        for i in range(last - 1, first - 1, -1):
            for v in range(len(sides)):
                behind = _dot(border[i], sides[v, n_inside:])
                behind += _dot(blocks[i, i - first + 1 : last - first], sides[v, i + 1 : last])
                sides[v, i] = (sides[v, i] - behind) / blocks[i, i - first]


# Sums in the order that fills the registers; the same in every run.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add(factor, row, to):
    for k in range(len(row)):
        to[k] += factor * row[k]
