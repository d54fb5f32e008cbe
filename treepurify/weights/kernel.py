"""Kernel weighting: the rows, each spread over its neighbourhood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel(Weighting):
    r"""The rows, each spread over its neighbourhood along the dependence of the features.

    A few rows occupy few combinations of a model's intervals, and effects purified under them
    contain their noise. Here every row counts in several copies. In each copy, the normal
    scores of the row's ranks are shifted by normal noise of `bandwidth` standard deviations that is
    correlated like the scores, and shrunk so that variances and correlations do not change.
    Categories, numbers of at most twelve values, and single values that many rows share do not
    change, except that `level_share` draws levels anew; scores are centred given these levels.
    Missing values stay missing, and every feature keeps its distribution in the rows.

    Every engine uses the copies as rows, and all tables are their margins. They are drawn
    with a fixed seed; ``diagnostics["measure"]`` has the number of copies of each row. With `k`
    copies the draw adds at most `2 / k` of the variance that the rows themselves have as a sample.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation of the noise, relative to that of the scores given the levels; the limit
        of large ones is `Copula`. By default the bandwidth with the highest leave-one-out
        log-likelihood is chosen for each pair of features, and each feature uses the smallest one
        of its pairs; it is zero if repeated values predict the levels of another feature better
        than neighbouring values do.
    level_share : float, optional
        Probability, from 0 to 1, that a level is drawn anew from its distribution in the rows. By
        default each column of levels uses half the value with the best log-likelihood, summed over
        all pairs.
    n_points : int
        Approximate number of copies of all rows together; at least 4 and at most 64 of each row.

    Examples
    --------
    >>> Kernel(0.3, 0.0).describe()
    'kernel (bandwidth 0.3)'
    """

    bandwidth: float | None = None
    level_share: float | None = None
    n_points: int = USUAL_POINTS
    name: ClassVar[str] = "kernel"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            check_number("bandwidth", self.bandwidth, least=0)
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
        # Where no finite bandwidth predicts rows better: the measure must say so.
        name = f"{self.name}: copula" if choice.is_copula else self.name
        return smoothed_measure(latent, choice, name, self.n_points, memory_budget)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Raise an error: cells do not show the values of the rows within them."""
        raise InvalidInputError(needs_values(self.name))

    def describe(self) -> str:
        """Return the distribution in words."""
        return (
            self.name if self.bandwidth is None else f"{self.name} (bandwidth {self.bandwidth:g})"
        )
