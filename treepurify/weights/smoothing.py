"""Rows, smoothed: what "auto" does, and how much.

Few rows cover few combinations of a model's intervals, and effects averaged over them are noisy.
So from 30 to 32 768 rows `Auto` replaces each row by several copies, which are moved at random:

1. `latent_rows` turns the rows into normal scores given their levels;
2. `best_amount` picks how far each column is moved, by the leave-one-out log-likelihood of tables
   of pairs: not at all, by noise of some bandwidth, or as far as the Gaussian copula;
3. `moved_copies` moves the copies, and turns their scores back into values of the rows.

The copies are then rows like any others. `Smoothed` does the same for any number of rows, by a
given amount where one is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from treepurify.arguments import check_number, check_whole
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, effective_rows
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.distributions import Empirical, Points
from treepurify.weights.held_out import (
    best_bandwidths,
    best_level_shares,
    has_telling_values,
    held_out_level_shares,
)
from treepurify.weights.latent_rows import LatentRows, latent_rows, moved_copies
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = ["Amount", "Auto", "Smoothed", "best_amount"]

# How many copies there are by default, all rows together.
_USUAL_POINTS = 1 << 15
# Fewer say nothing of how much to smooth; what is so small is an example, or a full design.
_FEW = 30


class _OfValues(Weighting):
    """A weighting that moves rows, which requires their values."""

    needs_rows: ClassVar[bool] = True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Raise an error: cells do not show the values of the rows within them."""
        raise InvalidInputError(
            f"weights={self.name!r} needs the values of the rows, not only counts per interval: "
            "use purify or hooker_anova"
        )


@dataclass(frozen=True)
class Auto(_OfValues):
    """The rows, smoothed by the amount with the best leave-one-out log-likelihood.

    No smoothing, kernels and the Gaussian copula are compared for every pair of features, by the
    leave-one-out log-likelihood of the table of the pair, and each feature is smoothed as much as
    its pairs allow (`Smoothed`). Numbers whose repeated values have a meaning, such as the amounts
    of a tax table, are not smoothed. With fewer than 30 rows, or 32 768 and more, nothing is
    compared and the rows are used as they are. ``Decomposition.measure`` is then
    ``"empirical"``, and ``"smoothed rows"`` otherwise; ``diagnostics["measure"]`` says how much
    they were smoothed.

    See Also
    --------
    treepurify.weights.Empirical : The rows as they are.
    treepurify.weights.Smoothed : The rows, smoothed by an amount of your choice.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Auto().describe()
    'auto'
    """

    name: ClassVar[str] = "auto"
    # The usual number of copies: with as many rows, smoothing is hardly worth their draw.
    plenty: ClassVar[int] = _USUAL_POINTS

    def fitted(
        self, columns: Columns | None, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the rows, smoothed by the chosen amount where they are few."""
        facts: dict[str, Any] = {"picked": "empirical"}
        rows = FittedMeasure(Empirical(), columns, row_weights, facts)
        effective = np.inf if columns is None else effective_rows(columns.n_rows, row_weights)
        if columns is None or effective >= self.plenty:
            facts["reason"] = f"there are {self.plenty} rows or more"
            return rows
        if effective < _FEW:
            return rows
        try:
            latent = latent_rows(columns, row_weights, memory_budget)
            amount = best_amount(latent)
            if not (amount.bandwidths.any() or amount.level_shares.any()):
                facts |= amount.facts
                note = "were not smoothed, since this would not predict held-out rows better."
                return replace(rows, note=f"The {latent.n_rows} rows {note}")
            copies = _copies(latent, amount, "smoothed rows", _USUAL_POINTS, memory_budget)
        except MemoryBudgetError as error:
            note = f"The rows were not smoothed because of the memory budget: {error}"
            return replace(rows, note=note)
        is_copula = len(latent.scored) > 0 and bool(np.all(amount.bandwidths == np.inf))
        note = (
            f"The {latent.n_rows} rows were smoothed by the amount that best predicts held-out "
            f"rows, since effects averaged over so few rows would be noisy. {copies.note} "
            'weights="empirical" uses the rows as they are.'
        )
        facts = {"picked": "copula" if is_copula else "smoothed", **copies.facts}
        return replace(copies, facts=facts, note=note)


@dataclass(frozen=True)
class Smoothed(_OfValues):
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
    n_points: int = _USUAL_POINTS
    name: ClassVar[str] = "smoothed"

    def __post_init__(self) -> None:
        if self.bandwidth is not None and not self._is_copula:
            check_number("bandwidth", self.bandwidth, least=0, advice=" or numpy.inf")
        if self.level_share is not None:
            check_number("level_share", self.level_share, least=0, most=1)
        check_whole("n_points", self.n_points, 1)

    def fitted(
        self, columns: Columns | None, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the copies of the rows, which represent the distribution."""
        if columns is None:
            return FittedMeasure(self, None, None)
        latent = latent_rows(columns, row_weights, memory_budget)
        amount = best_amount(latent, self.bandwidth, self.level_share)
        return _copies(latent, amount, self.describe(), self.n_points, memory_budget)

    def describe(self) -> str:
        """Return the distribution in words."""
        if self.bandwidth is None:
            return self.name
        words = "Gaussian copula" if self._is_copula else f"bandwidth {self.bandwidth:g}"
        return f"{self.name} ({words})"

    @property
    def _is_copula(self) -> bool:
        return isinstance(self.bandwidth, float | np.floating) and bool(self.bandwidth == np.inf)


class Amount(NamedTuple):
    """How much each column is smoothed.

    Parameters
    ----------
    bandwidths : ndarray of float64, shape (n_scored,)
        Bandwidth of each column of scores; infinite for the Gaussian copula.
    level_shares : ndarray of float64, shape (n_levelled,)
        Chance with which a level of each column of levels is drawn anew.
    facts : dict of str to object
        Both by the names of the columns, as diagnostics have them.
    """

    bandwidths: Array
    level_shares: Array
    facts: dict[str, Any]


def best_amount(
    latent: LatentRows, bandwidth: float | None = None, level_share: float | None = None
) -> Amount:
    """Return the given amount of smoothing, or that of best leave-one-out log-likelihood."""
    names, levels = latent.names(latent.scored), latent.names(latent.levelled)
    facts: dict[str, Any] = {}
    bandwidths = np.full(len(names), bandwidth or 0.0)
    level_shares = np.full(len(levels), level_share or 0.0)
    if bandwidth is None:
        kept = has_telling_values(latent)
        bandwidths = np.where(kept, 0.0, best_bandwidths(latent))
        if kept.any():
            facts["kept_values_of"] = [names[k] for k in np.flatnonzero(kept)]
    if level_share is None:
        level_shares = best_level_shares(held_out_level_shares(latent), levels)
    facts["bandwidths"] = dict(zip(names, bandwidths.tolist(), strict=True))
    facts["level_shares"] = dict(zip(levels, level_shares.tolist(), strict=True))
    return Amount(bandwidths, level_shares, facts)


def _copies(
    latent: LatentRows, amount: Amount, words: str, n_points: int, memory_budget: int
) -> FittedMeasure:
    """Return moved copies of the rows as a measure, which `words` describe."""
    columns = moved_copies(latent, amount.bandwidths, amount.level_shares, n_points, memory_budget)
    n_points, copies = columns.n_rows, columns.n_rows // latent.n_rows
    weights = None if latent.weights is None else np.tile(latent.weights, copies)
    facts = {**amount.facts, "points": n_points, "copies_of_each_row": copies}
    note = (
        f"The distribution was sampled at {n_points} points, {copies} for each of the "
        f"{latent.n_rows} rows (fixed seed); sampling the points adds at most "
        f"{200 / copies:.3g}% to the sampling variance of the rows."
    )
    return FittedMeasure(Points(words), columns, weights, facts, note, copies)
