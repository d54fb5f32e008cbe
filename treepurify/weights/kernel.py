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

    Few rows fill few cells of a model's grid, and effects purified under them are those of
    their noise. Here every row counts in several copies: with the normal scores of its ranks
    moved by normal noise of `bandwidth` standard deviations that has the correlations of the
    scores, and shrunk so that variances and correlations stay. Categories, numbers of up to
    twelve values, and single values that many rows share stay as they are, except where
    `level_share` draws levels anew; scores are centred by them. Missing stays missing, and every
    feature keeps the margin of the rows.

    The copies are the measure, on every route, and all tables are their margins. They are drawn
    with a fixed seed; ``diagnostics["measure"]`` says how many there are of each row: with `k`
    copies the draw adds at most `2 / k` of the variance that the rows themselves have as a sample.

    Parameters
    ----------
    bandwidth : float, optional
        Standard deviation of the noise, in those of the scores given the levels; the limit of
        large ones is `Copula`. By default each feature has its own: of all tables of pairs that it
        is in, the smallest of highest leave-one-out log-likelihood; and zero where values that
        rows share predict the levels of another feature better than neighbouring values do.
    level_share : float, optional
        Chance, from 0 to 1, that a level is drawn anew from its margin. By default each column of
        levels has its own: half of what is best for the summed log-likelihood of all pairs.
    n_points : int
        How many copies there are to be about, all rows together; at least 4 and at most 64
        of each row.

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
        """True: it moves rows."""
        return True

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the copies of the rows, which are the measure."""
        latent = latent_rows(columns, row_weights, memory_budget)
        choice = choose_smoothing(latent, self.bandwidth, self.level_share)
        # Where no finite bandwidth predicts rows better: the measure must say so.
        name = f"{self.name}: copula" if choice.is_copula else self.name
        return smoothed_measure(latent, choice, name, self.n_points, memory_budget)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Refuse: a grid and the cells of rows do not say where rows lie within them."""
        raise InvalidInputError(needs_values(self.name))

    def describe(self) -> str:
        """Return the measure in words."""
        return (
            self.name if self.bandwidth is None else f"{self.name} (bandwidth {self.bandwidth:g})"
        )
