"""How much of a function its components explain on rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from treepurify._kernels.explained import take_off
from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import mean_square
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Cells

__all__ = ["Explained", "measure_explained", "measure_explained_by_tables"]

# Rows whose remainder stays near the processor while all tables are taken from it, and rows
# whose cells are found at a time.
_ROWS_OF_A_PIECE, _ROWS_AT_A_TIME = 1 << 15, 2048


@dataclass(frozen=True, eq=False)
class Explained:
    """How much of a function its components explain on rows.

    Parameters
    ----------
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function; of what they leave under ().
    rest_variance : ndarray of float64, shape (n_outputs,)
        Variance of what they leave.
    share : ndarray of float64, shape (n_outputs,)
        Share of the variance of the function that they explain.
    """

    covariances: dict[Subset, Array]
    rest_variance: Array
    share: Array


def measure_explained(
    values: Array, shares: Array, intercept: Array, parts: Iterable[tuple[Subset, Array]]
) -> Explained:
    """Return how much of a function its components explain on rows.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_outputs)
        The function.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row in the measure.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    parts : iterable of (tuple of int, ndarray of float64 of shape (n_rows, n_outputs))
        The components.
    """
    weighted, total = _weighted(values, shares)
    rest = values - intercept
    covariances: dict[Subset, Array] = {}
    for subset, part in parts:
        rest -= part
        covariances[subset] = (weighted * part).sum(axis=0)
    return _explained(covariances, weighted, total, rest, shares)


def measure_explained_by_tables(
    values: Array, shares: Array, intercept: Array, tables: Mapping[Subset, Array], codes: Cells
) -> Explained:
    """Return how much of a function tables on one grid explain; see `measure_explained`.

    Parameters
    ----------
    values, shares, intercept : ndarray of float64
        As there.
    tables : mapping of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        The components.
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cells of the rows.
    """
    weighted, total = _weighted(values, shares)
    rest = np.ascontiguousarray((values - intercept).T)
    by_output = np.ascontiguousarray(weighted.T)
    n_outputs, n_rows = rest.shape
    flat = [
        (np.array(subset), _steps(table), np.ascontiguousarray(table.reshape(-1, n_outputs).T))
        for subset, table in tables.items()
    ]

    def take_tables_off(first: int) -> Array:
        last = min(first + _ROWS_OF_A_PIECE, n_rows)
        index, part = np.empty(_ROWS_AT_A_TIME, dtype=np.uint32), np.empty(_ROWS_AT_A_TIME)
        covered = np.zeros((len(flat), n_outputs))
        for given, covariance in zip(flat, covered, strict=True):
            take_off(codes, *given, first, last, by_output, index, part, rest, covariance)
        return covered

    # Pieces do not depend on the number of threads, nor does the order of their sums.
    sums = np.zeros((len(flat), n_outputs))
    for covered in iterate_threads(take_tables_off, range(0, n_rows, _ROWS_OF_A_PIECE)):
        sums += covered
    return _explained(dict(zip(tables, sums, strict=True)), weighted, total, rest.T, shares)


def _steps(table: Array) -> Cells:
    """Return how many cells lie between neighbours along each axis of a table."""
    sizes = np.array((*table.shape[1:-1], 1), dtype=np.uint32)
    return np.cumprod(sizes[::-1], dtype=np.uint32)[::-1].copy()


def _weighted(values: Array, shares: Array) -> tuple[Array, Array]:
    """Return the centred function times the shares of the rows, and its variance."""
    # Sums rather than matrix products: for one column the threads of a BLAS only wait.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    weighted = weight * centred
    return weighted, np.asarray((weighted * centred).sum(axis=0))


def _explained(
    covariances: dict[Subset, Array], weighted: Array, total: Array, rest: Array, shares: Array
) -> Explained:
    """Return what was measured; `rest` is what the components leave on the rows."""
    covariances[()] = (weighted * rest).sum(axis=0)
    left = (shares[:, None] * rest**2).sum(axis=0) / np.where(total > 0, total, 1.0)
    return Explained(covariances, mean_square(rest, shares), np.asarray(1.0 - left))
