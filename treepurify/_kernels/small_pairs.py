"""Equations of the shorter sides of many pair tables, one after the other."""

from treepurify._kernels.compiling import kernel


@kernel(error_model="numpy")
def subtract_couplings(sizes, mass, row_mass, matrices):
    """Subtract ``W' diag(1/r) W``, below the diagonal, from one matrix after the other.

    Each of `sizes`, (n_rows, n_columns), is a table W of `mass` and a square matrix over its
    columns; `row_mass` holds the rows r of all tables.
    """
    cell, row, start = 0, 0, 0
    for t in range(len(sizes)):
        n_columns = sizes[t, 1]
        for _ in range(sizes[t, 0]):
            if row_mass[row] > 0:
                inverse = 1 / row_mass[row]
                for j in range(1, n_columns):
                    share = mass[cell + j] * inverse
                    for k in range(j):
                        matrices[start + j * n_columns + k] -= share * mass[cell + k]
            cell += n_columns
            row += 1
        start += n_columns * n_columns


@kernel(error_model="numpy")
def invert_in_place(sizes, matrices, is_definite):
    """Replace positive definite matrices, one after the other, by their inverses.

    By elimination in place, which needs no pivots for these. A matrix that is not positive
    definite is only partly replaced, and marked.
    """
    start = 0
    for t in range(len(sizes)):
        n = sizes[t]
        is_definite[t] = True
        for p in range(n):
            at = start + p * n
            pivot = matrices[at + p]
            if not pivot > 0:
                is_definite[t] = False
                break
            inverse = 1 / pivot
            for k in range(n):
                matrices[at + k] *= inverse
            matrices[at + p] = inverse
            for i in range(n):
                if i != p:
                    row = start + i * n
                    factor = matrices[row + p]
                    matrices[row + p] = 0.0
                    for k in range(n):
                        matrices[row + k] -= factor * matrices[at + k]
        start += n * n
