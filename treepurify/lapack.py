"""LAPACK routines that leave other Python threads running while they work."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["factor_in_place", "solve_factored"]

Array = npt.NDArray[np.float64]

_INTEGER = ctypes.POINTER(ctypes.c_int)
_NUMBERS = ctypes.POINTER(ctypes.c_double)
_ARGUMENTS = {
    "dpotrf": (_INTEGER, _NUMBERS, _INTEGER, _INTEGER),
    "dpotrs": (_INTEGER, _INTEGER, _NUMBERS, _INTEGER, _NUMBERS, _INTEGER, _INTEGER),
}


def factor_in_place(matrix: Array) -> bool:
    """Replace the upper triangle of a positive definite matrix by its Cholesky factor R.

    ``R.T @ R`` is the matrix; entries below the diagonal are neither read nor written. SciPy's
    own wrappers keep the interpreter to themselves meanwhile, so that threads would wait.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n, n)
        In C order.

    Returns
    -------
    bool
        Whether the matrix is positive definite; if not, it is only partly replaced.
    """
    info = ctypes.c_int(0)
    # What is the upper triangle by rows is the lower one by columns.
    _routine("dpotrf")(b"L", _size(matrix), _entries(matrix), _size(matrix), info)
    return info.value == 0


def solve_factored(factor: Array, sides: Array) -> Array:
    """Solve equations whose matrix `factor_in_place` has factored.

    Parameters
    ----------
    factor : ndarray of float64, shape (n, n)
        What it left.
    sides : ndarray of float64, shape (n, n_sides)
        Right sides.

    Returns
    -------
    ndarray of float64, shape (n, n_sides)
    """
    solved = np.array(sides, order="F")
    info = ctypes.c_int(0)
    size, n_sides = _size(factor), ctypes.c_int(solved.shape[1])
    _routine("dpotrs")(b"L", size, n_sides, _entries(factor), size, _entries(solved), size, info)
    return solved


@cache
def _routine(name: str) -> Any:
    """Return a routine of SciPy's LAPACK, which takes pointers only."""
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, *_ARGUMENTS[name])(address)


def _size(matrix: Array) -> ctypes.c_int:
    return ctypes.c_int(len(matrix))


def _entries(matrix: Array) -> Any:
    return matrix.ctypes.data_as(_NUMBERS)
