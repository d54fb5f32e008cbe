"""Kernels of the categorical closed form: counts of common rows, lookups, rank decisions."""

import numpy as np

from treepurify._kernels.compiling import kernel

# Words of 64 rows that one block of columns brings into the cache at a time.
_COLUMNS_A_BLOCK = 64


@kernel
def count_common(left, right, counts):
    """Number of rows in both columns: ``counts[i, j] = |left[i] & right[j]|``, bits are rows.

    The sum of bits is written out because Numba has no name for it; compilers know the form
    and use the machine's own instruction.
    """
    pairs = np.uint64(0x5555555555555555)
    nibbles = np.uint64(0x3333333333333333)
    low = np.uint64(0x0F0F0F0F0F0F0F0F)
    bytes_ = np.uint64(0x0101010101010101)
    one, two, four, top = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
    n_words = left.shape[1]
    for start in range(0, left.shape[0], _COLUMNS_A_BLOCK):
        stop = min(start + _COLUMNS_A_BLOCK, left.shape[0])
        for j in range(right.shape[0]):
            for i in range(start, stop):
                total = np.uint64(0)
                for k in range(n_words):
                    x = left[i, k] & right[j, k]
                    x = x - ((x >> one) & pairs)
                    x = (x & nibbles) + ((x >> two) & nibbles)
                    x = (x + (x >> four)) & low
                    total += (x * bytes_) >> top
                counts[i, j] = total


@kernel
def combine_rows(start, column, factor, matrix, combined):
    """Sparse rows times a dense matrix: ``combined = factor @ matrix``."""
    for i in range(len(start) - 1):
        for k in range(combined.shape[1]):
            combined[i, k] = 0.0
        for entry in range(start[i], start[i + 1]):
            row = column[entry]
            weight = factor[entry]
            for k in range(combined.shape[1]):
                combined[i, k] += weight * matrix[row, k]


@kernel
def eliminate_in_order(residual, threshold, kept, left):
    """Cholesky factor of the columns that do not depend on those before them, in their order.

    Columns have norm one. `residual` holds the inner products left after projecting on
    earlier columns; its lower triangle becomes the coordinates of every column in the
    directions of the kept ones. `left` gets the squared norm that each column has left.
    """
    n = residual.shape[0]
    for j in range(n):
        left[j] = residual[j, j]
        kept[j] = left[j] > threshold
        if not kept[j]:
            continue
        root = np.sqrt(left[j])
        for i in range(j, n):
            residual[i, j] /= root
        for k in range(j + 1, n):
            factor = residual[k, j]
            for i in range(k, n):
                residual[i, k] -= residual[i, j] * factor


@kernel
def first_independent(rows, wanted, threshold, directions, kept):
    """Keep the first rows that do not depend on those before them, at most `wanted`.

    Gram-Schmidt, twice for each row. `rows` must have norm one; `directions` gets the orthonormal
    directions found.
    """
    count = 0
    for i in range(rows.shape[0]):
        kept[i] = False
        if count == wanted:
            continue
        rest = rows[i].copy()
        for _ in range(2):
            for k in range(count):
                product = np.dot(directions[k], rest)
                rest -= product * directions[k]
        norm = np.sqrt(np.dot(rest, rest))
        if norm > threshold:
            directions[count] = rest / norm
            kept[i] = True
            count += 1
    return count


@kernel
def hash_rows(bits, factors, hashes):
    """Number each row of words so that equal rows have equal numbers."""
    for i in range(bits.shape[0]):
        total = np.uint64(0)
        for k in range(bits.shape[1]):
            word = bits[i, k] + factors[k]
            word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            total += word ^ (word >> np.uint64(32))
        hashes[i] = total


@kernel
def mark_levels(codes, used):
    """Set ``used[level]`` for every level that occurs."""
    for row in range(len(codes)):
        used[codes[row]] = True


@kernel
def renumber_levels(codes, number, renumbered):
    """Look up the new number of each row's level."""
    for row in range(len(codes)):
        renumbered[row] = number[codes[row]]


@kernel
def append_digit(codes, n_levels, numbers):
    """Extend a number in mixed radix by one digit per row."""
    base = np.uint64(n_levels)
    for row in range(len(codes)):
        numbers[row] = numbers[row] * base + np.uint64(codes[row])


@kernel
def pack_levels(codes, bits):
    """Set bit ``row`` of ``bits[level]`` where the row has the level; `bits` is zero at first."""
    for row in range(len(codes)):
        bits[codes[row], row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@kernel
def determines(first, second, partner):
    """Whether each level of `first` occurs with one level of `second` alone.

    `partner` has one entry per level of `first`, -1 at first.
    """
    for row in range(len(first)):
        known = partner[first[row]]
        if known < 0:
            partner[first[row]] = second[row]
        elif known != second[row]:
            return False
    return True


@kernel
def number_cells(codes, features, strides, cells):
    """Cell of each row in a table over some features."""
    for row in range(codes.shape[1]):
        cells[row] = strides[0] * np.int64(codes[features[0], row])
    for position in range(1, len(features)):
        own = codes[features[position]]
        for row in range(codes.shape[1]):
            cells[row] += strides[position] * np.int64(own[row])


@kernel
def add_table(cells, table, total):
    """Add to each row the entry of a table in the row's cell."""
    for row in range(len(cells)):
        for k in range(total.shape[1]):
            total[row, k] += table[cells[row], k]


@kernel
def sum_in_cells(cells, values, table):
    """Add each row's values to the table entry of the row's cell.

    Where few cells get many rows, rows take turns on four sums per cell: additions to one
    number would wait for each other.
    """
    mask = 3 if 4 * len(table) <= len(cells) else 0
    partial = np.empty((mask + 1, len(table)))
    for k in range(values.shape[1]):
        partial[:] = 0.0
        for row in range(len(cells)):
            partial[row & mask, cells[row]] += values[row, k]
        for part in range(mask + 1):
            for cell in range(len(table)):
                table[cell, k] += partial[part, cell]
