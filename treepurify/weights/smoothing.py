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
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from treepurify.arguments import check_number, check_whole
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, effective_rows, equal_parts, exceeds
from treepurify.typing import Array, Indices, Mask
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.distributions import Empirical, FittedMeasure, MassTables, Points, Weighting
from treepurify.weights.latent_rows import LatentRows, latent_rows, moved_copies

BANDWIDTHS = (0.0, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, np.inf)
"""Bandwidths that are tried: zero leaves the rows, infinity the Gaussian copula."""
LEVEL_SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Chances that a level is drawn anew: zero leaves the rows, one makes levels independent."""
# Cells of a score, and of what levels do not explain of it, of which a level drawn anew is
# independent.
_CELLS, _CELLS_OF_REST = 32, 8
_POINTS_A_CELL = 8
_LARGEST_CORRELATION = 0.999
# Rows times pairs that are counted, and pairs that are taken however many rows there are.
_MOST_COUNTS = 5_000_000
_LEAST_PAIRS, _MOST_PAIRS = 10, 300
# Larger tables hold no more than one row per cell, and are left out.
_MOST_CELLS = 1 << 20
# What fewer rows have says nothing.
_LEAST_ROWS = 30
# What rounding leaves where a row is alone in its cell and nothing is smoothed.
_ROUNDING = 1e-12
# In place of minus infinity, where rows are alone in their cells: worse than anything else.
_NEVER = -1e6
_START, _MOST_SWEEPS = 0.1, 10
# The sum over pairs hides the pair that loses most: half of what is best for the sum brought
# effects nearest on most of ten real data sets, and never much further away.
_LEVELS_MOVED = 0.5
# With this number of rows, the prediction of a level is the mean of its value's and of all rows'.
_PRIOR_ROWS = 4.0
_STANDARD_ERRORS = 2.0
_LEAST_SHARED = 0.5


class HeldOut(NamedTuple):
    """Leave-one-out log-likelihood of each of several smoothings, pair by pair.

    Parameters
    ----------
    pairs : list of tuple of int
        The pairs, each by positions in the list of what is smoothed.
    log_mass : ndarray of float64, shape (n_pairs, n_tried)
        Mean over rows of the log of the mass of a row's cell, in nats, less that under the last
        one tried, which smooths most. Minus infinity where a row is alone in its cell.
    """

    pairs: list[tuple[int, int]]
    log_mass: Array


def best_bandwidths(latent: LatentRows) -> Array:
    """Return the bandwidth of each column of scores, the least of the best of its pairs.

    The finest dependence that a column takes part in would be lost under more: under one bandwidth
    for all, effects of longitude and latitude were twice as far off.
    """
    found = held_out_bandwidths(latent)
    # A column that is in no pair keeps its margin whatever its smoothing: none is needed.
    places = np.full(len(latent.scored), len(BANDWIDTHS) - 1 if found.pairs else 0)
    # Of those within rounding the last, which smooths most.
    best = found.log_mass >= found.log_mass.max(axis=1, keepdims=True) - _ROUNDING
    last = len(BANDWIDTHS) - 1 - np.argmax(best[:, ::-1], axis=1)
    for pair, place in zip(found.pairs, last, strict=True):
        for column in pair:
            if column < len(places):
                places[column] = min(places[column], place)
    return np.asarray(np.array(BANDWIDTHS)[places])


def held_out_bandwidths(latent: LatentRows) -> HeldOut:
    r"""Return the likelihood of each bandwidth for pairs of scores, and of a score and a level.

    A pair of scores with correlation `rho` is turned into :math:`u_1 = e_1` and
    :math:`u_2 = (e_2 - \rho e_1) / \sqrt{1 - \rho^2}`. There the noise has no correlation, and the
    smoothed table on fixed cells, equally likely under the normal distribution, is `S C S'`:
    `C` the shares of the rows, and one matrix `S` of columns that sum to one. A row in cell
    `(a, b)` gave it `S[a, a] S[b, b]` of its own share, which is taken away again. The Jacobian
    of that turn is the Gaussian copula's density, the same for every bandwidth, so that
    log-likelihoods are counted from the copula's. Weighted rows count as their effective number.
    A level, which comes after the scores, is not smoothed.
    """
    size = len(latent.scored)
    few = [size + k for k, n in enumerate(latent.n_levels) if n * _CELLS <= _MOST_CELLS]
    known = latent.known.astype(np.float64)
    together = (known * latent.shares) @ known.T * latent.effective_rows
    enough = ~exceeds(_LEAST_ROWS, together)
    pairs = [(i, j) for i, j in combinations(range(size), 2) if enough[i, j]]
    pairs += [(i, j) for i in range(size) for j in few if enough[i, i]]
    pairs = _some(pairs, latent.n_rows)
    cells = _cells(latent.scores, _CELLS)
    log_mass = np.array([_log_mass_of_pair(latent, cells, *pair) for pair in pairs])
    log_mass = log_mass.reshape(len(pairs), len(BANDWIDTHS))
    return HeldOut(pairs, log_mass)


def _some(pairs: list[tuple[int, int]], n_rows: int) -> list[tuple[int, int]]:
    """Return all pairs, or evenly spaced ones if all would take long to count."""
    most = min(max(_MOST_COUNTS // max(n_rows, 1), _LEAST_PAIRS), _MOST_PAIRS)
    if len(pairs) <= most:
        return pairs
    return [pairs[place] for place in np.linspace(0, len(pairs) - 1, most).astype(np.intp)]


def _log_mass_of_pair(latent: LatentRows, cells: Indices, first: int, second: int) -> Array:
    """Return the log-likelihood of a score, and another or a level, under each bandwidth."""
    matrices = smoothings()
    itself, known = np.diagonal(matrices, axis1=1, axis2=2), latent.known[first]
    size = len(latent.scored)
    if second >= size:
        level, n_levels = latent.levels[second - size][known] + 1, latent.n_levels[second - size]
        counts, own = _table(latent, known, level, cells[first][known], (n_levels, _CELLS))
        others = counts.sum(axis=1) - own
        # A level that only one row has cannot be predicted from other rows.
        counts, others = counts[others > own / 2], others[others > own / 2]
        smoothed = counts @ matrices.transpose(0, 2, 1) - own * itself[:, None, :]
        return _mean_logs(counts, smoothed * (_CELLS / others[:, None]))
    known = known & latent.known[second]
    rho = float(latent.correlation[first, second])
    rho = float(np.clip(rho, -_LARGEST_CORRELATION, _LARGEST_CORRELATION))
    one, other = latent.scores[first][known], latent.scores[second][known]
    turned = _cells((1.0 / np.sqrt(1.0 - rho**2)) * (other - rho * one), _CELLS)
    counts, own = _table(latent, known, cells[first][known], turned, (_CELLS, _CELLS))
    smoothed = (matrices @ counts) @ matrices.transpose(0, 2, 1)
    smoothed -= own * itself[:, :, None] * itself[:, None, :]
    return _mean_logs(counts, smoothed * (_CELLS**2 / (1.0 - own)))


def _table(
    latent: LatentRows, known: Mask, first: Indices, second: Indices, shape: tuple[int, int]
) -> tuple[Array, float]:
    """Return the shares of the known rows in each cell, and the share of one row."""
    shares = latent.shares[known]
    counts = _sums(first, second, shares, shape)
    mass = float(counts.sum())
    return counts / mass, min(1.0 / (latent.effective_rows * mass), 0.5)


def _sums(first: Indices, second: Indices, shares: Array, shape: tuple[int, int]) -> Array:
    """Return the summed shares in each cell of a table."""
    sums = np.bincount(first * shape[1] + second, shares, shape[0] * shape[1])
    return sums.astype(np.float64).reshape(shape)


def _mean_logs(counts: Array, masses: Array) -> Array:
    """Return the mean log-likelihood of the rows in each of several tables, shape (n_tables,)."""
    there = np.flatnonzero(counts)
    inside = masses.reshape(len(masses), -1)[:, there]
    inside[inside <= _ROUNDING] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(inside) @ counts.ravel()[there])


def _cells(scores: Array, n_cells: int) -> Indices:
    """Return the cell of each score; cells are equally likely under the normal distribution."""
    from scipy.special import ndtr

    # In half the time of a search for the ends of cells.
    return np.asarray(np.minimum(ndtr(scores) * n_cells, n_cells - 1), dtype=np.intp)


@cache
def smoothings() -> Array:
    """Return where the mass of each cell goes, shape (n_bandwidths, n_cells, n_cells).

    There is one column per cell, which sums to one.
    """
    from scipy.special import ndtr, ndtri

    inner = _CELLS * _POINTS_A_CELL
    points = ndtri((np.arange(inner) + 0.5) / inner)
    ends = ndtri(np.arange(_CELLS + 1) / _CELLS)
    matrices = [np.eye(_CELLS)]
    for bandwidth in BANDWIDTHS[1:]:
        keep = 1.0 / np.hypot(1.0, bandwidth)
        below = ndtr((ends[:, None] - keep * points) / np.sqrt(1.0 - keep**2))
        mass = np.diff(below, axis=0)
        matrices.append(mass.reshape(_CELLS, _CELLS, _POINTS_A_CELL).mean(axis=2))
    return np.stack(matrices)


def best_level_shares(found: HeldOut, names: Sequence[str]) -> Array:
    """Return the chances with which levels are drawn anew: half of those that are best together.

    One chance after the other is set to the best for the sum over pairs, given the others, until
    none changes. Of a pair whose levels are drawn anew with chances `s` and `t`, the share of
    independence is `1 - (1 - s)(1 - t)`, whose likelihood is interpolated.

    Parameters
    ----------
    found : HeldOut
        The likelihood of shares of independence, of pairs whose first is a column of levels.
    names : sequence of str
        Names of these columns; others follow them and are not moved.

    Returns
    -------
    ndarray of float64, shape (n_levelled,)
        The chances; zero for a column that is in no pair.
    """
    tried = np.array(LEVEL_SHARES)
    log_mass = np.where(np.isfinite(found.log_mass), found.log_mass, _NEVER)
    shares = dict.fromkeys(range(len(names)), _START)
    pairs_of = {k: [p for p, pair in enumerate(found.pairs) if k in pair] for k in shares}
    for _ in range(_MOST_SWEEPS):
        before = dict(shares)
        for k in sorted(shares, key=names.__getitem__):
            total = np.zeros(len(tried))
            for p in pairs_of[k]:
                (other,) = set(found.pairs[p]) - {k}
                apart = 1.0 - (1.0 - tried) * (1.0 - shares.get(other, 0.0))
                total += np.interp(apart, tried, log_mass[p])
            shares[k] = float(tried[np.argmax(total)]) if pairs_of[k] else 0.0
        if shares == before:
            break
    return _LEVELS_MOVED * np.array(list(shares.values()))


def held_out_level_shares(latent: LatentRows) -> HeldOut:
    """Return the likelihood of each share of independence of levels.

    Pairs are those of levels, and of a level and what all levels leave unexplained of a score:
    with `C` the table of a pair, `m` its margins and `a` a share the mass is `(1 - a) C + a m m'`,
    less the row's own share in all three (compare Aitchison & Aitken 1976, whose kernel spreads
    evenly over levels, and so would change the margins).
    """
    rest = np.where(latent.known, _cells(latent.scores, _CELLS_OF_REST), -1)
    levels = (*latent.levels, *rest)
    sizes = (*latent.n_levels, *(_CELLS_OF_REST + 1 for _ in rest))
    pairs = [
        (first, second)
        for first, second in combinations(range(len(sizes)), 2)
        if first < len(latent.levels) and sizes[first] * sizes[second] <= _MOST_CELLS
    ]
    pairs = _some(pairs, latent.n_rows)
    everywhere, log_mass = np.ones(latent.n_rows, dtype=np.bool_), []
    for first, second in pairs:
        one, other = levels[first] + 1, levels[second] + 1
        table, own = _table(latent, everywhere, one, other, (sizes[first], sizes[second]))
        together, *margins = (
            np.maximum(mass - own, 0.0) / (1.0 - own)
            for mass in (table, table.sum(axis=1), table.sum(axis=0))
        )
        apart = np.outer(*margins)
        # A level that only one row has cannot be predicted from other rows: the share is chosen
        # without it.
        table = np.where(apart > _ROUNDING, table, 0.0)
        masses = [(1.0 - share) * together + share * apart for share in LEVEL_SHARES]
        found = np.array([_mean_logs(table, mass[None])[0] for mass in masses])
        log_mass.append(found - found[-1])
    return HeldOut(pairs, np.array(log_mass).reshape(len(pairs), len(LEVEL_SHARES)))


def has_telling_values(latent: LatentRows) -> Mask:
    """Return, for each column of scores, whether its values should stay as they are.

    They should where, for some column of levels, a row's level is predicted better by the other
    rows of exactly the same value than by the rows of neighbouring ranks, smoothed at their best:
    by the mean leave-one-out log-likelihood, by more than two standard errors. Most rows must share
    their value with others. Smoothing, which takes neighbouring values for much the same, would mix
    what is apart there, as the capital gains of a tax table with their marital statuses.
    """
    telling = np.zeros(len(latent.scored), dtype=np.bool_)
    for first, j in enumerate(latent.scored):
        known = latent.known[first]
        different, value = np.unique(latent.columns.values[j][known], return_inverse=True)
        alone = np.bincount(value)[value] == 1
        rows = latent.shares[known] * latent.effective_rows
        if exceeds(_LEAST_ROWS, rows.sum()) or alone.mean() > _LEAST_SHARED:
            continue
        for level, n_levels in zip(latent.levels, latent.n_levels, strict=True):
            if len(different) * n_levels <= _MOST_CELLS:
                counts = _sums(value, level[known] + 1, rows, (len(different), n_levels))
                gains = gains_of_values(counts)
                mean = float((counts * gains).sum() / counts.sum())
                error = np.sqrt((counts * (gains - mean) ** 2).sum()) / counts.sum()
                telling[first] |= mean > _STANDARD_ERRORS * error
    return telling


def gains_of_values(counts: Array) -> Array:
    """Return how much better exact values predict levels than their neighbourhood does.

    Parameters
    ----------
    counts : ndarray of float64, shape (n_values, n_levels)
        Number of rows of each value, in order, and level.

    Returns
    -------
    ndarray of float64, shape (n_values, n_levels)
        Leave-one-out log-likelihood of such a row in nats, less that under the best bandwidth.
    """
    of_values, of_levels = counts.sum(axis=1), counts.sum(axis=0)
    # The middle of the rows of a value.
    cell = equal_parts((of_values.cumsum() - of_values / 2) / of_values.sum(), _CELLS)
    others = np.maximum(of_levels - 1.0, 0.0) / (of_levels.sum() - 1.0)
    exact = np.maximum(counts - 1.0, 0.0) + _PRIOR_ROWS * others
    exact /= (np.maximum(of_values - 1.0, 0.0) + _PRIOR_ROWS)[:, None]
    # A level that only one row has cannot be predicted from other rows.
    there = (counts > 0) & (others > 0)
    in_cells = np.zeros((_CELLS, len(of_levels)))
    np.add.at(in_cells, cell, np.where(there, counts, 0.0))
    matrices = smoothings()
    own = np.diagonal(matrices, axis1=1, axis2=2)[:, :, None]
    smoothed = matrices @ in_cells
    of_all = np.maximum(smoothed.sum(axis=2, keepdims=True) - own, np.finfo(float).tiny)
    near = (np.maximum(smoothed - own, 0.0) / of_all)[:, cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.argmax(np.log(near[:, there]) @ counts[there])
        return np.where(there, np.log(exact) - np.log(near[best]), 0.0)


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
