"""The product of a matrix with itself, by the BLAS that SciPy brings.

A compiled function calls it without asking the interpreter, which SciPy's own wrappers keep waiting
for. Its address is an argument, so that compiled functions can be kept. Matrices are in C order:
what is the upper triangle by rows is the lower one by columns, as the routine reads it.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from treepurify._kernels.compiling import kernel, part

# What the routine reads besides.
_LOWER, _NOT_TRANSPOSED = (np.frombuffer(letter, dtype=np.uint8) for letter in (b"L", b"N"))


def gram_routine() -> int:
    """Return the address of dsyrk."""
    address: int = get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
    return address


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
def subtract_gram(routine, rows, matrix):
    """Subtract ``rows.T @ rows`` from the upper triangle of a matrix, `rows` in C order.

    The rows of both may be parts of longer ones.
    """
    sizes, numbers = np.empty(4, dtype=np.int32), np.empty(2, dtype=rows.dtype)
    sizes[0], sizes[1] = rows.shape[1], len(rows)
    sizes[2], sizes[3] = _row_length(rows), _row_length(matrix)
    numbers[0], numbers[1] = -1, 1
    product = _LOWER, _NOT_TRANSPOSED, sizes, sizes[1:], numbers, rows, sizes[2:]
    _call(routine, (*product, numbers[1:], matrix, sizes[3:]))


@part
def _row_length(matrix):
    """Return how many numbers lie between the first ones of two rows."""
    length = matrix.strides[0] // matrix.itemsize
    least = matrix.shape[1] if matrix.shape[1] > 1 else 1
    return length if length > least else least
