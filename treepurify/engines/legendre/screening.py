"""Choose the interactions that a regression can hold, where there are too many."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from treepurify.engines.legendre.densities import Density
from treepurify.engines.legendre.design import (
    Basis,
    Moments,
    ScaledRows,
    design_blocks,
    measure_moments,
)
from treepurify.engines.legendre.selection import Selected
from treepurify.engines.legendre.solution import least_squares
from treepurify.progress import ProgressReport

__all__ = ["screen"]

Array = npt.NDArray[np.float64]
Subset = tuple[int, ...]
Densities = Callable[[Sequence[Subset]], dict[Subset, Density]]

_SCREENING_DEGREE = 4


def screen(
    basis: Basis,
    subsets: Sequence[Subset],
    rows: ScaledRows,
    values: Array,
    make: Densities,
    max_candidates: int,
    report: ProgressReport,
) -> list[Subset]:
    """Return the main effects and the interactions that explain most of what these leave.

    Each interaction is fitted on its own, with polynomials of degree up to 4, to the residual
    of all main effects; those with the largest explained share in any output are taken as
    long as their columns at the full degree fit into `max_candidates`.

    Parameters
    ----------
    basis : Basis
        Axes and degree; its densities are those of the main effects.
    subsets : sequence of tuple of int
        All interactions.
    rows : ScaledRows
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    make : callable
        Returns the densities of some subsets.
    max_candidates : int
        Most columns.
    report : callable
        Is told of progress.
    """
    residual = values - _fitted(basis, rows, values)
    gains = np.zeros(len(subsets))
    degree = min(basis.degree, _SCREENING_DEGREE)
    for i, subset in enumerate(subsets):
        report("screening interactions", i, len(subsets))
        alone = Basis(basis.axes, make([subset]), degree)
        gains[i] = _gain(measure_moments(alone, rows, residual))
    left = max_candidates - basis.n_columns
    chosen = []
    for i in np.argsort(-gains, kind="stable"):
        size = int(np.prod(basis.shape(subsets[i])))
        if size <= left:
            chosen.append(subsets[i])
            left -= size
    return sorted(chosen, key=lambda s: (len(s), s))


def _fitted(basis: Basis, rows: ScaledRows, values: Array) -> Array:
    moments = measure_moments(basis, rows, values)
    every = Selected(np.arange(basis.n_columns), 0, False, float("nan"), 0)
    coefficients = least_squares(basis, rows, values, moments, [every] * values.shape[1])
    fitted = np.tile(moments.value_means, (rows.n_rows, 1))
    for start, stop, block in design_blocks(basis, rows):
        fitted[start:stop] += (block - moments.means) @ coefficients.values
    return fitted


def _gain(moments: Moments) -> float:
    """Return the largest share of an output's variance that the columns explain."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(moments.gram), np.finfo(float).tiny))
    shares, directions = np.linalg.eigh(moments.gram * scale[:, None] * scale)
    kept = shares > 1e-10 * shares[-1]
    inside = directions[:, kept].T @ (scale[:, None] * moments.covariances)
    explained = (inside**2 / shares[kept, None]).sum(axis=0)
    return float(np.max(explained / np.where(moments.value_squares > 0, moments.value_squares, 1)))
