"""BLAS and LAPACK routines that compiled functions call.

What calls several of them is one function for the interpreter: it leaves other threads running
throughout, where SciPy's own wrappers keep them waiting and every call of its own is a chance to
wait for them. The addresses of dpotrf, dtrsm, dsyrk and dpstrf, `routines`, are arguments, so that
compiled functions can be kept. Matrices are in C order. What is the upper triangle by rows is the
lower one by columns, as the routines read it.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from treepurify._kernels.compiling import kernel, part

# What the routines read besides.
_LETTERS = np.frombuffer(b"LRTN", dtype=np.uint8)


@intrinsic
def _call(typing_context, address, arrays):
    """Call the routine at an address with pointers to what the arrays begin with."""

    def generate(context, builder, signature, values):
        pointer = ir.IntType(8).as_pointer()
        routine = ir.FunctionType(ir.VoidType(), [pointer] * len(arrays)).as_pointer()
        pointers = []
        for i, kind in enumerate(arrays):
            array = context.make_array(kind)(context, builder, builder.extract_value(values[1], i))
            pointers.append(builder.bitcast(array.data, pointer))
        builder.call(builder.inttoptr(values[0], routine), pointers)
        return context.get_dummy_value()

    return types.void(address, arrays), generate


@kernel
def factor_in_place(routines, matrix):
    """Replace the upper triangle of a positive definite matrix by its Cholesky factor R.

    ``R.T @ R`` is the matrix, whose rows may be parts of longer ones; entries below the diagonal
    are neither read nor written. Returns whether it is positive definite; if not, it is only
    partly replaced.
    """
    sizes = np.empty(3, dtype=np.int32)
    sizes[0], sizes[1], sizes[2] = len(matrix), _row_length(matrix), 0
    failed = sizes[2:]
    _call(routines[0], (_LETTERS, sizes, matrix, sizes[1:], failed))
    return failed[0] == 0


@kernel
def factor_by_pivots(routines, matrix, least_pivot, order):
    """Replace the upper triangle of a semidefinite matrix by a factor of its rows in a new order.

    Of the rows that are left, the one with the largest pivot is taken next; `order`, of int32,
    becomes the rows as they were taken, counted from 1. Returns how many have pivots above
    `least_pivot`: the number of rows of the factor that are right. See `factor_in_place`.
    """
    sizes = np.empty(4, dtype=np.int32)
    sizes[0], sizes[1], sizes[2], sizes[3] = len(matrix), _row_length(matrix), 0, 0
    rank, failed = sizes[2:], sizes[3:]
    workspace = np.empty(2 * len(matrix), matrix.dtype)
    least = np.empty(1, matrix.dtype)
    least[0] = least_pivot
    what = _LETTERS, sizes, matrix, sizes[1:], order
    _call(routines[3], (*what, rank, least, workspace, failed))
    return rank[0]


@kernel
def subtract_gram(routines, rows, matrix):
    """Subtract ``rows.T @ rows`` from the upper triangle of a matrix, `rows` in C order."""
    sizes, numbers = _product_sizes(rows, matrix), _minus_one_and_one(rows)
    product = _LETTERS, _LETTERS[3:], sizes, sizes[1:], numbers, rows, sizes[2:]
    _call(routines[2], (*product, numbers[1:], matrix, sizes[3:]))


@kernel
def substitute(routines, factor, is_upper, sides):
    """Solve ``R.T @ x = side``, or ``R @ x = side``, in place, where R is an upper triangle.

    Each row of `sides`, which may be part of a longer one, is a side.
    """
    sizes, numbers = _product_sizes(sides, factor), _minus_one_and_one(sides)
    left = general = _LETTERS
    form = _LETTERS[2:] if is_upper else _LETTERS[3:]
    how = left, general, form, _LETTERS[3:]
    _call(routines[1], (*how, sizes, sizes[1:], numbers[1:], factor, sizes[3:], sides, sizes[2:]))


@part
def _minus_one_and_one(matrix):
    """Return both numbers in the precision of a matrix."""
    numbers = np.empty(2, dtype=matrix.dtype)
    numbers[0], numbers[1] = -1, 1
    return numbers


@part
def _product_sizes(rows, other):
    """Return the columns and rows of `rows`, and the row lengths of both."""
    sizes = np.empty(4, dtype=np.int32)
    sizes[0], sizes[1] = rows.shape[1], len(rows)
    sizes[2], sizes[3] = _row_length(rows), _row_length(other)
    return sizes


@part
def _row_length(matrix):
    """Return how many numbers lie between the first ones of two rows."""
    length = matrix.strides[0] // matrix.itemsize
    least = matrix.shape[1] if matrix.shape[1] > 1 else 1
    return length if length > least else least
