"""Copula weighting: the margins of the rows, and their correlations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treepurify.arguments import check_whole
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.latent_rows import latent_rows
from treepurify.weights.smoothing import (
    USUAL_POINTS,
    choose_smoothing,
    needs_values,
    smoothed_measure,
)
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = ["Copula"]


@dataclass(frozen=True)
class Copula(Weighting):
    """A Gaussian copula: features distributed as in the rows, with their correlations.

    This is the limit of `Kernel` for a large bandwidth: normal scores are drawn with the
    correlations of the rows. Their means depend on the categories of a row and on its numeric
    features with few values, which stay as they are. Use it for few rows whose features depend on
    each other only by correlation.

    Parameters
    ----------
    n_points : int
        Approximate number of points that are drawn; see `Kernel`.

    See Also
    --------
    treepurify.weights.Kernel : Smoothing along the rows instead of one dependence for all.
    treepurify.weights.Auto : Chooses how to smooth.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Copula().describe()
    'copula'
    """

    n_points: int = USUAL_POINTS
    name: ClassVar[str] = "copula"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("n_points", self.n_points, 1)

    @property
    def needs_values(self) -> bool:
        """True: rows are shifted, which requires their values."""
        return True

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the drawn rows, which represent the distribution."""
        latent = latent_rows(columns, row_weights, memory_budget)
        choice = choose_smoothing(latent, np.inf, 0.0)
        return smoothed_measure(latent, choice, self.name, self.n_points, memory_budget)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Raise an error: cells do not show the values of the rows within them."""
        raise InvalidInputError(needs_values(self.name))
