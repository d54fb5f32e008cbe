"""How much of a function its components explain on rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from treepurify._kernels.explained import add_tables
from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import mean_square
from treepurify.threads import even_length, iterate_threads
from treepurify.typing import Array, Cells

__all__ = ["Explained", "measure_explained", "measure_explained_by_tables"]

# Most rows that a thread takes all tables from, and rows whose cells are found at a time.
_ROWS_OF_A_PIECE, _ROWS_AT_A_TIME = 1 << 14, 2048
# For as many threads, whatever their number: sums do not depend on it.
_PIECES_TOGETHER = 4
# Numbers in the tables that are copied to stand one after the other.
_NUMBERS_AT_A_TIME = 1 << 19


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
    rest : ndarray of float64, shape (n_rows, n_outputs)
        What they leave on the rows; empty where rows came in batches.
    """

    covariances: dict[Subset, Array]
    rest_variance: Array
    share: Array
    rest: Array


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
    length = even_length(n_rows, _ROWS_OF_A_PIECE, _PIECES_TOGETHER)
    groups = list(_some_at_a_time(tables))
    covered = [np.zeros((len(some), n_outputs)) for some in groups]

    def pieces() -> Iterator[tuple[int, int, tuple[Array, ...]]]:
        for group, some in enumerate(groups):
            laid_out = _lay_out(some, n_outputs)
            yield from ((group, first, laid_out) for first in range(0, n_rows, length))

    def add_up(piece: tuple[int, int, tuple[Array, ...]]) -> tuple[int, int, Array, Array]:
        group, first, laid_out = piece
        last = min(first + length, n_rows)
        index, part = np.empty(_ROWS_AT_A_TIME, dtype=np.uint32), np.empty(_ROWS_AT_A_TIME)
        sums, own = np.zeros((n_outputs, last - first)), np.zeros_like(covered[group])
        add_tables(codes, *laid_out, first, last, by_output, index, part, sums, own)
        return group, first, sums, own

    # Pieces do not depend on the number of threads, nor does the order of their sums.
    for group, first, sums, own in iterate_threads(add_up, pieces()):
        rest[:, first : first + sums.shape[1]] -= sums
        covered[group] += own
    covariances = dict(zip(tables, chain.from_iterable(covered), strict=True))
    return _explained(covariances, weighted, total, rest.T, shares)


def _some_at_a_time(tables: Mapping[Subset, Array]) -> Iterator[dict[Subset, Array]]:
    """Yield a few tables after the other, in order."""
    some: dict[Subset, Array] = {}
    n_numbers = 0
    for subset, table in tables.items():
        some[subset] = table
        n_numbers += table.size
        if n_numbers >= _NUMBERS_AT_A_TIME:
            yield some
            some, n_numbers = {}, 0
    if some:
        yield some


def _lay_out(tables: Mapping[Subset, Array], n_outputs: int) -> tuple[Any, ...]:
    """Return features, steps, the first of each table, and tables one after the other.

    Steps say how many cells lie between neighbours along each axis of a table.
    """
    steps = []
    for table in tables.values():
        step = table.size // n_outputs
        for n_cells in table.shape[:-1]:
            step //= n_cells
            steps.append(step)
    n_features = np.array([0, *map(len, tables)])
    n_cells = np.array([0, *(table.size // n_outputs for table in tables.values())])
    flat = np.concatenate([table.reshape(-1, n_outputs) for table in tables.values()])
    return (
        np.array([feature for subset in tables for feature in subset], dtype=np.int64),
        np.array(steps, dtype=np.uint32),
        np.cumsum(n_features),
        np.ascontiguousarray(flat.T),
        np.cumsum(n_cells)[:-1],
    )


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
    return Explained(covariances, mean_square(rest, shares), np.asarray(1.0 - left), rest)
