"""Choose how much rows are smoothed, and make the measure of their copies.

Smoothing takes neighbouring values for much the same. Where rows of one value have levels of
other columns that rows of the next value do not, as the capital gains of a tax table have marital
statuses, it would mix what is apart: `has_telling_values` finds such features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights, equal_parts, exceeds, first_reached
from treepurify.typing import Array, Indices, Mask
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.empirical import Empirical
from treepurify.weights.held_out import (
    HeldOut,
    held_out_bandwidths,
    held_out_level_shares,
    level_shares_of_best_sum,
    smoothings,
)
from treepurify.weights.latent_rows import LatentRows
from treepurify.weights.points import even_numbers
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = [
    "USUAL_POINTS",
    "Choice",
    "Points",
    "choose_smoothing",
    "gains_of_values",
    "has_telling_values",
    "needs_values",
    "smoothed_measure",
    "smoothed_rows",
]

USUAL_POINTS = 1 << 15
"""How many copies there are by default, all rows together."""
_SEED = 16_807
_MOST_COPIES = 64
_LEAST_COPIES = 4
# Numbers for each value while copies are moved, and then, in addition to those that find the
# values of one feature.
_TABLES, _TABLES_LEFT, _COLUMNS = 4, 2, 12
_CELLS = 32
# With this number of rows, the prediction of a value is the mean of its own rows' and of all rows'.
_PRIOR_ROWS = 4.0
# The sum over pairs hides the pair that loses most: half of what is best for the sum brought
# effects nearest on most of ten real data sets, and never much further away.
_LEVELS_MOVED = 0.5
_STANDARD_ERRORS = 2.0
_LEAST_ROWS = 30
_MOST_CELLS = 1 << 20
_LEAST_SHARED = 0.5


@dataclass(frozen=True)
class Points(Weighting):
    """The empirical distribution of rows that stand for another measure."""

    words: str
    name: ClassVar[str] = "points"
    needs_rows: ClassVar[bool] = True

    @property
    def share_of_rows(self) -> float:
        """One: the points are the whole measure."""
        return 1.0

    @property
    def counts_are_enough(self) -> bool:
        """True: only the cells of points count."""
        return True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        return Empirical().tables(grid, rows, subsets)

    def describe(self) -> str:
        """Return the measure in words."""
        return self.words


@dataclass(frozen=True, eq=False)
class Choice:
    """How much each column is smoothed, and what was tried for it.

    Parameters
    ----------
    bandwidths : ndarray of float64, shape (n_scored,)
        Bandwidth of each column of scores; infinite for the Gaussian copula.
    level_shares : ndarray of float64, shape (n_levelled,)
        Chance with which a level of each column of levels is drawn anew.
    tried_bandwidths, tried_level_shares : HeldOut, optional
        What was tried, where they were not given.
    telling : ndarray of bool, shape (n_scored,), optional
        Where the bandwidth is zero since values that rows share tell more than their neighbours
        do; see `has_telling_values`. None where the bandwidth was given.
    """

    bandwidths: Array
    level_shares: Array
    tried_bandwidths: HeldOut | None = None
    tried_level_shares: HeldOut | None = None
    telling: Mask | None = None

    @property
    def is_rows(self) -> bool:
        """Whether nothing is smoothed."""
        return not (self.bandwidths.any() or self.level_shares.any())

    @property
    def is_copula(self) -> bool:
        """Whether scores are drawn anew altogether."""
        return len(self.bandwidths) > 0 and bool(np.all(np.isinf(self.bandwidths)))

    def facts(self, latent: LatentRows) -> dict[str, Any]:
        """Return the choice as diagnostics have it."""
        facts: dict[str, Any] = {
            "bandwidths": _by_name(latent, latent.scored, self.bandwidths),
            "level_shares": _by_name(latent, latent.levelled, self.level_shares),
        }
        if self.telling is not None and self.telling.any():
            names = [latent.columns.features[j].name for j in latent.scored]
            facts["kept_values_of"] = [
                n for n, is_kept in zip(names, self.telling, strict=True) if is_kept
            ]
        if self.tried_bandwidths is not None:
            facts["tried_bandwidths"] = self.tried_bandwidths.facts()
        if self.tried_level_shares is not None:
            facts["tried_level_shares"] = self.tried_level_shares.facts()
        return facts

    def words(self) -> str:
        """Return how much is smoothed, and what that gains."""
        words = []
        if self.is_copula:
            words.append("Gaussian copula")
        elif len(self.bandwidths):
            words.append(f"bandwidth {_range(self.bandwidths)}")
        if self.level_shares.any():
            words.append(f"{_range(100 * self.level_shares)}% of levels exchanged")
        found = self.tried_bandwidths
        if found is not None and len(self.bandwidths) and not self.is_copula:
            words.append(f"held-out log-likelihood of pairs {found.gain:.2g} nats above the copula")
        return ", ".join(words)


def _range(values: Array) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _by_name(latent: LatentRows, positions: tuple[int, ...], values: Array) -> dict[str, float]:
    names = [latent.columns.features[j].name for j in positions]
    return dict(zip(names, values.tolist(), strict=True))


def choose_smoothing(
    latent: LatentRows, bandwidth: float | None, level_share: float | None
) -> Choice:
    """Return the given smoothing, or that of best leave-one-out likelihood where it is None."""
    # A column that is in no pair keeps its margin whatever its smoothing: none is needed.
    tried = held_out_bandwidths(latent) if bandwidth is None else None
    bandwidths = np.full(len(latent.scored), 0.0 if bandwidth is None else float(bandwidth))
    telling = None
    if tried is not None:
        telling = has_telling_values(latent)
        bandwidths = np.where(telling, 0.0, tried.best(len(bandwidths)))
    tried_levels = held_out_level_shares(latent) if level_share is None else None
    level_shares = np.full(len(latent.levelled), 0.0 if level_share is None else float(level_share))
    if tried_levels is not None:
        names = [latent.columns.features[j].name for j in latent.levelled]
        level_shares = _LEVELS_MOVED * level_shares_of_best_sum(tried_levels, names)
    return Choice(bandwidths, level_shares, tried, tried_levels, telling)


def smoothed_measure(
    latent: LatentRows, choice: Choice, n_points: int, memory_budget: int
) -> FittedMeasure:
    """Return the copies of the rows as a measure.

    Parameters
    ----------
    latent : LatentRows
        The rows.
    choice : Choice
        How much is smoothed.
    n_points : int
        How many copies there are to be about.
    memory_budget : int
        Bytes that they may take.
    """
    points = smoothed_rows(latent, choice.bandwidths, choice.level_shares, n_points, memory_budget)
    facts = {
        **choice.facts(latent),
        "points": points.columns.n_rows,
        "copies_of_each_row": points.copies,
    }
    words = choice.words()
    words = f"smoothed ({words})" if words else "smoothed"
    note = (
        f"The distribution was sampled at {points.columns.n_rows} points, {points.copies} for each "
        f"of the {latent.n_rows} rows (fixed seed); sampling the points adds at most "
        f"{200 / points.copies:.3g}% to the sampling variance of the rows."
    )
    return FittedMeasure(Points(words), points.columns, points.weights, facts, note, points.copies)


def needs_values(name: str) -> str:
    """Return why such a weighting cannot weigh the cells of a grid by itself."""
    return (
        f"weights={name!r} needs the values of the rows, not only counts per interval: use purify "
        "or hooker_anova"
    )


@dataclass(frozen=True, eq=False)
class _SmoothedRows:
    """The copies of all rows.

    Parameters
    ----------
    columns : Columns
        The copies, whose values are values of the rows.
    weights : ndarray of float64, shape (n_points,), optional
        Their weights; None for equal weights.
    copies : int
        How often each row is among them.
    """

    columns: Columns
    weights: RowWeights
    copies: int


def smoothed_rows(
    latent: LatentRows,
    bandwidths: Array,
    level_shares: Array,
    n_points: int,
    memory_budget: int,
) -> _SmoothedRows:
    r"""Return several copies of each row, moved at random by a seed that is always the same.

    The scores are turned into `u`, which have no correlations: the score of the smallest
    bandwidth first, then what is left of the next given the first, and so on. With `h` the
    bandwidth of a feature, its `u` becomes :math:`(u + h \epsilon) / \sqrt{1 + h^2}`, with normal
    noise; and all are turned back. So variances and correlations stay as they are, `h = 0`
    leaves the rows, and :math:`h = \infty` leaves the Gaussian copula given the levels of each
    row. Noise without these correlations would shrink them by `1 + h^2`, and purified effects
    would be up to a quarter further from the population's. Scores turn back into values by their
    ranks among all copies: the margin of each feature stays that of the rows. Missing stays
    missing, and a level is drawn anew with a chance of `level_shares`, from the margin; scores
    follow it by the difference of the levels' means.

    Parameters
    ----------
    latent : LatentRows
        The rows.
    bandwidths : ndarray of float64, shape (n_scored,)
        Standard deviation of the noise, in standard deviations of the scores; may be infinite.
    level_shares : ndarray of float64, shape (n_levelled,)
        Chance that a level is drawn anew.
    n_points : int
        How many copies there are to be about, all rows together.
    memory_budget : int
        Bytes that they may take.

    Raises
    ------
    MemoryBudgetError
        If the copies would not fit.
    """
    n_rows = latent.n_rows
    copies = min(max(-(-n_points // max(n_rows, 1)), _LEAST_COPIES), _MOST_COPIES)
    copies += copies % 2
    n_columns = len(latent.columns.values)
    check_budget(
        8 * copies * n_rows * max(_TABLES * n_columns, _TABLES_LEFT * n_columns + _COLUMNS),
        memory_budget,
        f"{copies} copies of {n_rows} rows of {n_columns} features",
        'Pass fewer rows, or use weights="empirical".',
    )
    rng = np.random.default_rng(_SEED)
    values: list[npt.NDArray[Any]] = [np.tile(column, copies) for column in latent.columns.values]
    moved = _moved_scores(latent, bandwidths, copies, rng)
    _draw_levels(latent, level_shares, copies, values, moved, rng)
    for score, known, j in zip(moved, latent.known, latent.scored, strict=True):
        there = np.tile(known, copies)
        of_rows = None if latent.weights is None else latent.shares[known]
        values[j][there] = _by_rank(score[there], latent.columns.values[j][known], of_rows, copies)
    weights = None if latent.weights is None else np.tile(latent.weights, copies)
    columns = Columns(latent.columns.features, tuple(values), copies * n_rows)
    return _SmoothedRows(columns, weights, copies)


def has_telling_values(latent: LatentRows) -> Mask:
    """Return, for each column of scores, whether its values should stay as they are.

    They should where, for some column of levels, a row's level is predicted better by the other
    rows of exactly the same value than by the rows of neighbouring ranks, smoothed at their best:
    by the mean leave-one-out log-likelihood, by more than two standard errors. Most rows must share
    their value with others.
    """
    telling = np.zeros(len(latent.scored), dtype=bool)
    for first, j in enumerate(latent.scored):
        known = latent.known[first] & (latent.shares > 0)
        if not known.any():
            continue
        different, value = np.unique(latent.columns.values[j][known], return_inverse=True)
        alone = np.bincount(value)[value] == 1
        rows = latent.shares[known] * latent.effective_rows
        if exceeds(_LEAST_ROWS, rows.sum()) or alone.mean() > _LEAST_SHARED:
            continue
        cell = equal_parts(latent.positions[first][known], _CELLS)
        telling[first] = any(
            len(different) * n_levels <= _MOST_CELLS
            and _is_clear(gains_of_values(value, cell, level[known] + 1, rows), rows)
            for level, n_levels in zip(latent.levels, latent.n_levels, strict=True)
        )
    return telling


def gains_of_values(value: Indices, cell: Indices, level: Indices, rows: Array) -> Array:
    """Return how much better exact values predict levels than their neighbourhood does.

    Parameters
    ----------
    value, cell, level : ndarray of int, shape (n_rows,)
        Value, one of 32 cells of ranks, and level of each row.
    rows : ndarray of float64, shape (n_rows,)
        How many rows of equal weight each counts as.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Leave-one-out log-likelihood in nats, less that under the best bandwidth.
    """
    others = np.maximum(np.bincount(level, rows) - 1.0, 0.0) / (rows.sum() - 1.0)
    by_value = _table(value, level, rows)
    same = np.maximum(by_value[value, level] - 1.0, 0.0) + _PRIOR_ROWS * others[level]
    exact = same / (np.maximum(by_value.sum(axis=1)[value] - 1.0, 0.0) + _PRIOR_ROWS)
    # A level that only one row has cannot be predicted from other rows.
    counts = np.where(others > 0, _table(cell, level, rows, _CELLS), 0.0)
    near = _predicted(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(near[:, counts > 0]) @ counts[counts > 0]
        found = np.log(exact) - np.log(near[np.argmax(mean)][cell, level])
    return np.where((others[level] > 0) & (rows > 0), found, 0.0)


def _moved_scores(
    latent: LatentRows, bandwidths: Array, copies: int, rng: np.random.Generator
) -> Array:
    """Return the normal score of each copy, shape (n_scored, copies * n_rows)."""
    n_scored, n_rows = latent.scores.shape
    if n_scored == 0:
        return np.zeros((0, copies * n_rows))
    # By bandwidth, then by name, so that the order of the features does not matter.
    names = [latent.columns.features[j].name for j in latent.scored]
    order = np.array(sorted(range(n_scored), key=lambda k: (bandwidths[k], names[k])), dtype=int)
    keep = 1.0 / np.hypot(1.0, bandwidths)[:, None]
    noise = np.sqrt(1.0 - keep**2)
    moved = np.zeros((n_scored, copies, n_rows))
    steps = _even_steps(n_scored, n_rows, copies // 2, rng)
    # Rows with the same scores together: a missing value or a level has none, and a row cannot be
    # conditioned on a score that it lacks.
    patterns, pattern, sizes = np.unique(
        latent.known[order], axis=1, return_inverse=True, return_counts=True
    )
    by_pattern = np.split(np.argsort(pattern.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for known, rows in zip(patterns.T, by_pattern, strict=True):
        there = order[known]
        factor, spread = latent.dependence_in(rows, there)
        own = np.ix_(there, rows)
        spread, centre = spread[:, None], latent.centre[own]
        still = factor @ (keep[there] * np.linalg.solve(factor, latent.scores[own] / spread))
        spread = spread * latent.spread[there][:, None]
        of_steps = np.ix_(np.flatnonzero(known), rows)
        for pair in range(copies // 2):
            step = factor @ (noise[there] * steps[pair][of_steps])
            # Each step is taken both ways, so that the copies of a row have its own mean. What is
            # the same both ways, such as a product of two steps, is then known from half of them.
            moved[:, 2 * pair][own] = centre + spread * (still + step)
            moved[:, 2 * pair + 1][own] = centre + spread * (still - step)
    return moved.reshape(n_scored, copies * n_rows)


def _even_steps(n_scored: int, n_rows: int, n_steps: int, rng: np.random.Generator) -> Array:
    """Return independent normal numbers, shape (n_steps, n_scored, n_rows), that fill space evenly.

    They are points of `even_numbers`, some that follow each other for each row. With numbers that
    ignore each other, what the draw adds to the variance of components is two to three times as
    large under the Gaussian copula, and 1.1 to 1.4 times under kernels.
    """
    from scipy.special import ndtri

    # Rows are in an order that is as good as random, so any of them may have the first points.
    points = even_numbers(n_steps * n_rows, n_scored, rng)
    normal = ndtri(points, out=points).reshape(n_rows, n_steps, n_scored)
    return np.asarray(normal.transpose(1, 2, 0))


def _by_rank(
    scores: Array, values: npt.NDArray[Any], shares: Array | None, copies: int
) -> npt.NDArray[Any]:
    """Return, for the score of each copy, the value of the rows that stands at its rank."""
    order = np.argsort(scores)
    moved = np.empty(len(scores), dtype=values.dtype)
    if shares is None:
        moved[order] = np.repeat(np.sort(values), copies)
        return moved
    by_value = np.argsort(values, kind="stable")
    in_order = np.repeat(values[by_value], copies)
    of_scores = np.tile(shares, copies)[order]
    reached = np.repeat(shares[by_value], copies).cumsum()
    # The middle of the copy's own share, in the sum of all as `reached` has it.
    middle = of_scores.cumsum()
    middle = (middle - of_scores / 2) * (reached[-1] / middle[-1])
    moved[order] = in_order[first_reached(reached, middle)]
    return moved


def _draw_levels(
    latent: LatentRows,
    level_shares: Array,
    copies: int,
    values: list[npt.NDArray[Any]],
    moved: Array,
    rng: np.random.Generator,
) -> None:
    """Draw some levels of the copies anew, from their margins, and let the scores follow.

    Changes `values`, the levels of all copies, and `moved`, their scores, in place.
    """
    features = latent.columns.features
    for k in sorted(range(len(latent.levelled)), key=lambda k: features[latent.levelled[k]].name):
        j, level, of_levels = latent.levelled[k], latent.levels[k], latent.level_effects[k]
        column = latent.columns.values[j]
        # Values that the model does not know stay, so that each of the rows' cells has a copy.
        unknown = (column == features[j].n_codes) & features[j].is_categorical
        givers = np.flatnonzero((level >= 0) & ~unknown)
        if level_shares[k] == 0.0 or not len(givers):
            continue
        copied = np.add.outer(latent.n_rows * np.arange(copies), givers).ravel()
        redrawn = copied[rng.random(len(copied)) < level_shares[k]]
        reached = latent.shares[givers].cumsum()
        picked = np.searchsorted(reached, rng.random(len(redrawn)) * reached[-1], side="right")
        given = givers[np.minimum(picked, len(givers) - 1)]
        values[j][redrawn] = column[given]
        before, after = level[redrawn % latent.n_rows] + 1, level[given] + 1
        for score, means in zip(moved, of_levels, strict=True):
            score[redrawn] += means[after] - means[before]


def _predicted(counts: Array) -> Array:
    """Return how probable a level is in each cell without one row of it, under each bandwidth."""
    own = np.diagonal(smoothings(_CELLS), axis1=1, axis2=2)[:, :, None]
    smoothed = smoothings(_CELLS) @ counts
    of_all = np.maximum(smoothed.sum(axis=2, keepdims=True) - own, np.finfo(float).tiny)
    return np.asarray(np.maximum(smoothed - own, 0.0) / of_all)


def _is_clear(gains: Array, rows: Array) -> bool:
    """Return whether the mean lies above zero by more than two standard errors."""
    mean = np.average(gains, weights=rows)
    error = np.sqrt(rows @ (gains - mean) ** 2) / rows.sum()
    return bool(mean > _STANDARD_ERRORS * error)


def _table(first: Indices, second: Indices, rows: Array, least: int = 0) -> Array:
    shape = max(int(first.max()) + 1, least), int(second.max()) + 1
    counts = np.bincount(first * shape[1] + second, rows, shape[0] * shape[1])
    return np.asarray(counts, dtype=np.float64).reshape(shape)
