"""Smoothed weighting: the rows, each spread over its neighbourhood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treepurify.arguments import check_number, check_whole
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

__all__ = ["Smoothed"]


@dataclass(frozen=True)
class Smoothed(Weighting):
    r"""The rows, smoothed by noise that follows the dependence between the features.

    A small sample covers few combinations of a model's intervals, and effects purified under it
    contain sampling noise. Here every row is replaced by several copies. Each feature is converted
    to normal scores by its ranks. Normal noise with the same correlations as the scores, and
    `bandwidth` times their size, is added to the scores, and the sum is shrunk so that variances
    and correlations stay the same. Missing values stay missing, and the distribution of each single
    feature does not change.

    Categories, numeric features with at most twelve values, and single values that many rows share
    are called levels. They receive no noise; with probability `level_share` a level is drawn anew.
    The scores of the other values are centred given the levels of their row.

    Every engine uses the copies as rows. They are drawn with a fixed seed;
    ``diagnostics["measure"]`` has the number of copies of each row. With `k` copies of each row,
    drawing them adds at most `2 / k` of the sampling variance of the rows themselves.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation of the noise, relative to that of the scores given the levels. With
        ``numpy.inf`` the scores are drawn anew from a normal distribution with the correlations
        of the rows: a Gaussian copula. By default the bandwidth with the highest leave-one-out
        log-likelihood is chosen for each pair of features, and each feature uses the smallest
        bandwidth of its pairs; the bandwidth is zero if exactly repeated values predict the levels
        of another feature better than neighbouring values do.
    level_share : float, optional
        Probability, from 0 to 1, that a level is drawn anew from its distribution in the rows. By
        default each feature uses half the value that has the highest log-likelihood, summed over
        all pairs.
    n_points : int
        Approximate total number of copies; each row has at least 4 and at most 64.

    See Also
    --------
    Auto : The same, only where rows are few and smoothing helps.
    Empirical : The rows as they are.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Smoothed(0.3, 0.0).describe()
    'smoothed (bandwidth 0.3)'
    """

    bandwidth: float | None = None
    level_share: float | None = None
    n_points: int = USUAL_POINTS
    name: ClassVar[str] = "smoothed"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not self._is_copula:
            check_number("bandwidth", self.bandwidth, least=0, advice=" or numpy.inf")
        if self.level_share is not None:
            check_number("level_share", self.level_share, least=0, most=1)
        check_whole("n_points", self.n_points, 1)

    @property
    def needs_values(self) -> bool:
        """True: rows are shifted, which requires their values."""
        return True

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the copies of the rows, which represent the distribution."""
        latent = latent_rows(columns, row_weights, memory_budget)
        choice = choose_smoothing(latent, self.bandwidth, self.level_share)
        return smoothed_measure(latent, choice, self.n_points, memory_budget)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Raise an error: cells do not show the values of the rows within them."""
        raise InvalidInputError(needs_values(self.name))

    def describe(self) -> str:
        """Return the distribution in words."""
        if self.bandwidth is None:
            return self.name
        words = "Gaussian copula" if self._is_copula else f"bandwidth {self.bandwidth:g}"
        return f"{self.name} ({words})"

    @property
    def _is_copula(self) -> bool:
        return isinstance(self.bandwidth, float | np.floating) and bool(self.bandwidth == np.inf)
