"""How much of a function its components explain on rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import mean_square
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Cells

__all__ = ["Explained", "measure_explained", "measure_explained_by_tables"]


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
    # Sums rather than matrix products: for one column the threads of a BLAS only wait.
    weight = shares[:, None]
    centred = values - (weight * values).sum(axis=0)
    weighted = weight * centred
    total = (weighted * centred).sum(axis=0)
    rest = values - intercept
    covariances: dict[Subset, Array] = {}
    for subset, part in parts:
        rest -= part
        covariances[subset] = (weighted * part).sum(axis=0)
    covariances[()] = (weighted * rest).sum(axis=0)
    left = (weight * rest**2).sum(axis=0) / np.where(total > 0, total, 1.0)
    return Explained(covariances, mean_square(rest, shares), np.asarray(1.0 - left), rest)


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
    n_outputs = values.shape[1]

    def on_rows(item: tuple[Subset, Array]) -> tuple[Subset, Array]:
        subset, table = item
        cells = np.ravel_multi_index(tuple(codes[j] for j in subset), table.shape[:-1])
        return subset, table.reshape(-1, n_outputs).take(cells, axis=0)

    parts = iterate_threads(on_rows, tables.items())
    return measure_explained(values, shares, intercept, parts)
