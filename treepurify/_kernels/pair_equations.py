"""The normal equations of many pair tables, reduced to their columns: see `solve_pair`.

The tables of `sizes` (n_tables, 2) stand one after the other, row by row, and so do their slices,
columns before rows, and their square matrices over the columns.
"""

from treepurify._kernels.compiling import kernel
from treepurify._kernels.support import find_root


@kernel
def label_columns(sizes, cell_mass, block, n_apart):
    """Label the connected blocks of the columns of each table, from 0 on.

    `block` begins as the number of each column within its table, or -1 without mass, and `n_apart`
    as how many columns have mass; it becomes the number of blocks. They are in the order of their
    first columns.
    """
    cell, first = 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        own = block[first : first + n_columns]
        first += n_columns + sizes[t, 0]
        for row in range(cell, cell + sizes[t, 0] * n_columns, n_columns):
            root = n_columns
            for j in range(n_columns):
                if n_apart[t] > 1 and cell_mass[row + j] > 0:
                    other = find_root(own, j)
                    n_apart[t] -= root < n_columns and root != other
                    if other < root < n_columns:
                        own[root] = other
                    elif root < other:
                        own[other] = root
                    root = other if other < root else root
        # A block's root is its first column, and what a column hangs on comes before it.
        n_blocks = 0
        for j in range(n_columns):
            above = own[j]
            if above == j:
                own[j] = n_blocks
                n_blocks += 1
            elif above >= 0:
                own[j] = own[above]
        cell += sizes[t, 0] * n_columns


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
def invert_in_place(sizes, matrices, column, is_definite):
    """Replace positive definite matrices over columns by their inverses.

    By sweeps over their lower triangles, which need no pivots for these and end with the inverse
    times minus one. A matrix that is not positive definite is only partly replaced, and marked.
    `column` is as long as the widest table.
    """
    start = 0
    for t in range(len(sizes)):
        n = sizes[t, 1]
        matrix = matrices[start : start + n * n]
        is_definite[t] = True
        for p in range(n):
            pivot = matrix[p * n + p]
            if not pivot > 0:
                is_definite[t] = False
                break
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
        start += n * n
