"""The normal equations of many pair tables, reduced to their columns: see `solve_pair`.

The tables of `sizes` (n_tables, 2) stand one after the other, row by row, and so do their slices,
columns before rows, and their square matrices over the columns.
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.support import find_root


@kernel
def label_slices(sizes, cell_mass, mass, block, n_blocks, block_mass, heaviest):
    """Number the connected blocks of the slices of each table, through all of them.

    `block` becomes that of each slice, -1 without mass, and `n_blocks` how many each table has, in
    the order of their first columns. ``block_mass``, of zeros, becomes the mass of each, and
    ``heaviest`` its column with the largest mass. Returns the number of blocks.
    """
    cell, first, total = 0, 0, 0
    for t in range(len(sizes)):
        n_columns, last = sizes[t, 1], first + sizes[t, 1]
        own = block[first:last]
        n_apart = 0
        for j in range(n_columns):
            own[j] = j if mass[first + j] > 0 else -1
            n_apart += mass[first + j] > 0
        for row in range(cell, cell + sizes[t, 0] * n_columns, n_columns):
            root = n_columns
            for j in range(n_columns):
                if n_apart > 1 and cell_mass[row + j] > 0:
                    other = find_root(own, j)
                    n_apart -= root < n_columns and root != other
                    if other < root < n_columns:
                        own[root] = other
                    elif root < other:
                        own[other] = root
                    root = other if other < root else root
        before = total
        # A block's root is its first column, and what a column hangs on comes before it.
        for j in range(n_columns):
            above = own[j]
            if above < 0:
                continue
            if above == j:
                own[j], heaviest[total] = total, first + j
                total += 1
            else:
                own[j] = own[above]
            block_mass[own[j]] += mass[first + j]
            if mass[first + j] > mass[heaviest[own[j]]]:
                heaviest[own[j]] = first + j
        n_blocks[t] = total - before
        first = last + sizes[t, 0]
        for s in range(last, first):
            block[s] = -1
            for j in range(n_columns):
                if cell_mass[cell + j] > 0:
                    block[s] = own[j]
                    break
            cell += n_columns
    return total


@kernel
def set_laplacians(sizes, cell_mass, inverse_mass, laplacian):
    """Set ``diag(c) - W' diag(1/r) W`` of each table W, which begins as zero.

    The diagonal is minus the sum of the other entries. `inverse_mass` is one over the mass of
    each slice, and zero without mass.
    """
    cell, first, entry = 0, 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        own = laplacian[entry : entry + n_columns * n_columns]
        first += n_columns
        last = first + sizes[t, 0]
        # Two rows at a time: the entries are read and written half as often.
        for s in range(first, last, 2):
            row = cell_mass[cell : cell + n_columns]
            cell += n_columns if s + 1 < last else 0
            other = cell_mass[cell : cell + n_columns]
            cell += n_columns
            of_row, of_other = inverse_mass[s], inverse_mass[s + 1] if s + 1 < last else 0.0
            for j in range(1, n_columns):
                before = own[j * n_columns : j * n_columns + j]
                share, share_of_other = row[j] * of_row, other[j] * of_other
                for k in range(j):
                    before[k] -= share * row[k] + share_of_other * other[k]
        for j in range(n_columns):
            for k in range(j):
                coupled = own[j * n_columns + k]
                own[k * n_columns + j] = coupled
                own[j * n_columns + j] -= coupled
                own[k * n_columns + k] -= coupled
        first = last
        entry += n_columns * n_columns


@kernel(error_model="numpy")
def invert_laplacians(sizes, laplacian, mass, block, block_mass, workspace, inverse, condition):
    """Set what solves each Laplacian up to constants of the blocks, and how well it does.

    The equations are scaled by the masses of the columns and deflated by the blocks. `condition`
    is their reciprocal condition; it is zero, like the inverse, where they are not positive
    definite. `workspace`, of shape (3, any), is as long as the widest table.
    """
    start, first = 0, 0
    scale, share = workspace[0], workspace[1]
    for t in range(len(sizes)):
        n = sizes[t, 1]
        own, matrix = laplacian[start : start + n * n], inverse[start : start + n * n]
        for j in range(n):
            b = block[first + j]
            scale[j] = np.sqrt(1 / mass[first + j]) if b >= 0 else 0.0
            share[j] = np.sqrt(mass[first + j] / block_mass[b]) if b >= 0 else 0.0
        for i in range(n):
            b = block[first + i]
            for k in range(n):
                deflation = share[i] * share[k] if block[first + k] == b else 0.0
                matrix[i * n + k] = deflation + own[i * n + k] * (scale[i] * scale[k])
            if b < 0:
                matrix[i * n + i] = 1.0
        norm = _largest_row(matrix, n)
        if _invert_in_place(matrix, n, workspace[2]):
            condition[t] = 1 / (norm * _largest_row(matrix, n))
        else:
            condition[t] = 0.0
            for j in range(n):
                scale[j] = 0.0
        for i in range(n):
            for k in range(n):
                matrix[i * n + k] *= scale[i] * scale[k]
        start += n * n
        first += n + sizes[t, 0]


@part
def _largest_row(matrix, n):
    """Return the largest sum of absolute entries along a row."""
    largest = 0.0
    for i in range(n):
        total = 0.0
        for k in range(n):
            total += abs(matrix[i * n + k])
        largest = total if total > largest else largest
    return largest


@part
def _invert_in_place(matrix, n, column):
    """Replace a positive definite matrix by its inverse, and return whether it is one.

    By sweeps over its lower triangle, which need no pivots and end with the inverse times minus
    one.
    """
    for p in range(n):
        pivot = matrix[p * n + p]
        if not pivot > 0:
            return False
        inverse = 1 / pivot
        for k in range(n):
            column[k] = matrix[p * n + k] if k < p else matrix[k * n + p]
        for i in range(n):
            row, factor = matrix[i * n : i * n + i + 1], column[i] * inverse
            for k in range(i + 1):
                row[k] -= factor * column[k]
        for k in range(n):
            at = p * n + k if k < p else k * n + p
            matrix[at] = column[k] * inverse
        matrix[p * n + p] = -inverse
    for j in range(n):
        for k in range(j + 1):
            entry = -matrix[j * n + k]
            matrix[j * n + k] = entry
            matrix[k * n + j] = entry
    return True


# Sums in the order that fills the registers; the same in every run.
@kernel(fastmath={"reassoc", "contract"})
def solve_parts(sizes, cell_mass, mass, block, block_mass, inverse, means, right, excess, parts):
    """Set the parts of least norm that leave the slices these means, to rounding of the solve.

    Slices without mass have mean zero. `right` is as long as the widest table, and ``excess``, one
    number for each block, begins as zero.
    """
    cell, first, entry = 0, 0, 0
    for t in range(len(sizes)):
        n, last = sizes[t, 1], first + sizes[t, 1]
        end, of_columns = last + sizes[t, 0], parts[first:last]
        for j in range(n):
            right[j] = mass[first + j] * means[first + j]
        for s in range(last, end):
            row = cell_mass[cell + (s - last) * n : cell + (s - last + 1) * n]
            for j in range(n):
                right[j] -= row[j] * means[s]
        for j in range(n):
            row, total = inverse[entry : entry + n], 0.0
            for k in range(n):
                total += row[k] * right[k]
            of_columns[j] = total
            entry += n
            if block[first + j] >= 0:
                excess[block[first + j]] += total * mass[first + j]
        for s in range(last, end):
            row, total = cell_mass[cell : cell + n], 0.0
            for j in range(n):
                total += row[j] * of_columns[j]
            parts[s] = means[s]
            if block[s] >= 0:
                parts[s] -= total / mass[s]
                excess[block[s]] -= parts[s] * mass[s]
            cell += n
        # The mean of each block is split evenly between its rows and columns.
        for s in range(first, end):
            if block[s] >= 0:
                mean = 0.5 * excess[block[s]] / block_mass[block[s]]
                parts[s] += mean if s >= last else -mean
        first = end
