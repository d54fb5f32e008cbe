"""BLAS and LAPACK routines that leave other Python threads running while they work.

SciPy's own wrappers keep the interpreter to themselves meanwhile, so that threads would wait.
Matrices are in C order. What is the upper triangle by rows is the lower one by columns, as the
routines read it.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from treepurify.typing import Array

__all__ = ["factor_in_place", "subtract_gram", "whiten"]

_MODULES = {
    "dpotrf": "cython_lapack",
    "dtrsm": "cython_blas",
    "dsyrk": "cython_blas",
}


def factor_in_place(matrix: Array) -> bool:
    """Replace the upper triangle of a positive definite matrix by its Cholesky factor R.

    ``R.T @ R`` is the matrix; entries below the diagonal are neither read nor written.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n, n)
        Rows may be parts of longer ones.

    Returns
    -------
    bool
        Whether the matrix is positive definite; if not, it is only partly replaced.
    """
    info = ctypes.c_int(0)
    _call("dpotrf", b"L", len(matrix), matrix, _row_length(matrix), info)
    return info.value == 0


def whiten(factor: Array, rows: Array) -> None:
    """Replace `rows` by ``inv(R.T) @ rows``.

    Parameters
    ----------
    factor : ndarray of float64, shape (n, n)
        R, an upper triangle.
    rows : ndarray of float64, shape (n, n_columns)
        In C order.
    """
    n, n_columns = rows.shape
    lengths = _row_length(factor), _row_length(rows)
    _call("dtrsm", b"R", b"L", b"T", b"N", n_columns, n, 1.0, factor, lengths[0], rows, lengths[1])


def subtract_gram(rows: Array, matrix: Array) -> None:
    """Subtract ``rows.T @ rows`` from the upper triangle of a matrix.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n)
        In C order.
    matrix : ndarray of float64, shape (n, n)
        In C order.
    """
    n_rows, n = rows.shape
    lengths = _row_length(rows), _row_length(matrix)
    _call("dsyrk", b"L", b"N", n, n_rows, -1.0, rows, lengths[0], 1.0, matrix, lengths[1])


def _row_length(matrix: Array) -> int:
    """Return how many numbers lie between the first ones of two rows."""
    return max(int(matrix.strides[0]) // matrix.itemsize, int(matrix.shape[1]), 1)


def _call(name: str, *arguments: bytes | int | float | Array | ctypes.c_int) -> None:
    """Call a routine, which takes pointers only."""
    _routine(name)(*[_pointer(argument) for argument in arguments])


def _pointer(argument: bytes | int | float | Array | ctypes.c_int) -> Any:
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, float):
        argument = ctypes.c_double(argument)  # type: ignore[assignment]
    elif isinstance(argument, int):
        argument = ctypes.c_int(argument)
    return ctypes.byref(argument)  # type: ignore[arg-type]


@cache
def _routine(name: str) -> Any:
    from numba.extending import get_cython_function_address

    address = get_cython_function_address(f"scipy.linalg.{_MODULES[name]}", name)
    return ctypes.CFUNCTYPE(None)(address)
