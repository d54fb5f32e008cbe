"""Which functions of one subset are the first independent ones, given what came before.

The cells of the subset have added directions to the space, and only coordinates in these
matter: functions of fewer features have none. A function is nonzero at up to `2**k` cells, so
that functions are written out a block at a time. Found directions are rotated out of the
coordinates of the cells, which leaves fewer coordinates for the functions that follow.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from treepurify._kernels.categorical import first_independent
from treepurify.engines.categorical.indicators import (
    cells_with_mass,
    functions_in_cells,
    of_own_cells,
)
from treepurify.typing import Array, Indices, Mask

__all__ = ["bytes_of_first_functions", "first_functions"]

_FUNCTIONS_A_BLOCK = 256
_INDEPENDENT = 1e-9


def bytes_of_first_functions(mass: Array, n_cells: int, n_directions: int) -> int:
    """Return the bytes that `first_functions` takes, its result included."""
    filled = np.count_nonzero(mass)
    coordinates = 8 * n_directions * (3 * filled + 3 * _FUNCTIONS_A_BLOCK)
    entries = 24 * 2**mass.ndim * (n_cells + _FUNCTIONS_A_BLOCK)
    return int(coordinates + entries + 25 * mass.size)


def first_functions(
    mass: Array, reference: tuple[int, ...], cells: Indices, coordinates: Array, wanted: int
) -> Mask:
    """Choose the first functions that do not depend on those before them.

    Parameters
    ----------
    mass : ndarray of shape (levels...)
        Mass of the cells of the subset.
    reference : tuple of int
        Reference level of each feature, whose indicator is one minus the others.
    cells : ndarray of int, shape (n_cells,)
        The flat cells without a reference level that have coordinates.
    coordinates : ndarray of shape (n_cells, n_directions)
        Their coordinates in the directions that the subset added.
    wanted : int
        Most functions to choose.

    Returns
    -------
    ndarray of bool, shape (n_functions,)
        The chosen functions, in the order of z, the last feature fastest.
    """
    number = cells_with_mass(mass)
    of_cells = of_own_cells(mass.shape, number, reference, cells) @ coordinates
    norms = np.concatenate(
        [np.linalg.norm(block @ of_cells, axis=1) for _, block in _functions(mass, number)]
    )
    # Functions that are rounding compared with the others are functions of what came before.
    norms[norms <= _INDEPENDENT * norms.max(initial=0.0)] = np.inf
    kept = np.zeros(len(norms), dtype=bool)
    for start, block in _functions(mass, number):
        rows = (block @ of_cells) / norms[start : start + block.shape[0], None]
        left = np.flatnonzero(np.linalg.norm(rows, axis=1) > _INDEPENDENT)
        if not len(left):
            continue
        directions = np.zeros((min(wanted - int(kept.sum()), len(left)), rows.shape[1]))
        chosen = np.zeros(len(left), dtype=bool)
        first_independent(rows[left], len(directions), _INDEPENDENT, directions, chosen)
        kept[start + left[chosen]] = True
        if kept.sum() == wanted:
            break
        of_cells = _without(of_cells, directions[: chosen.sum()])
    return kept


def _functions(mass: Array, number: Indices) -> Iterator[tuple[int, Any]]:
    """Yield the functions in blocks, with the place of the first of each block."""
    n_functions = math.prod(size - 1 for size in mass.shape)
    for start in range(0, n_functions, _FUNCTIONS_A_BLOCK):
        block = np.arange(start, min(start + _FUNCTIONS_A_BLOCK, n_functions))
        yield start, functions_in_cells(mass, number, block)


def _without(coordinates: Array, directions: Array) -> Array:
    """Return coordinates in the directions orthogonal to those given.

    Reflections keep what is left exactly orthogonal, however little that is.
    """
    from scipy.linalg.lapack import dgeqrf, dormqr

    reflectors, scales, _, _ = dgeqrf(directions.T)
    workspace = 64 * len(coordinates)
    turned, _, _ = dormqr("L", "T", reflectors, scales, coordinates.T, workspace, overwrite_c=1)
    return np.ascontiguousarray(turned[len(directions) :].T)
