"""Rows as normal scores given their levels, and copies of rows that are moved there.

A column of numbers becomes the normal scores of its ranks, apart from single values that many rows
share. Categories, and numbers of a few values, are levels, which have no order here. Given its
levels a row has normal scores whose means depend on the levels and whose correlations do not: the
general location model (Olkin & Tate 1961).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import (
    RowWeights,
    effective_rows,
    exceeds,
    first_reached,
    ordered_by_value,
    row_shares,
)
from treepurify.typing import Array, Indices, Mask
from treepurify.weights.points import even_numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_LEVELS_OF_NUMBERS = 12
# A value of a larger share of the rows, such as no capital gain, is no part of a continuum.
_FREQUENT = 0.05
_SEVERAL_ROWS = 2.5
_MOST_INDICATORS = 1000
# With this number of rows, a level's mean lies half way between the overall mean and its own.
_PRIOR_ROWS = 4.0
# The correlations of a group of rows are its own if it has this many rows for each score, or if the
# mean square of a residual, which should be one, is as large as the second number.
_ROWS_A_SCORE, _LARGE_RESIDUAL = 10, 4.0
_LEAST_EIGENVALUE = 1e-6
# Orders rows of equal value, so that the order of the table means nothing.
_SEED_OF_TIES = 20_211
_SEED_OF_COPIES = 16_807
_LEAST_COPIES, _MOST_COPIES = 4, 64
# Numbers that scores take for each value, and those that find the ranks of one feature.
_TABLES, _COLUMNS = 13, 12
# Numbers for each pair of features that have scores, and for each pair of levels.
_CORRELATIONS, _GRAMS = 12, 4
# Numbers for each value while copies are moved, and after it, besides those of one feature.
_TABLES_MOVED, _TABLES_LEFT = 4, 2
_ADVICE = 'Pass fewer rows, or use weights="empirical".'


class LatentRows(NamedTuple):
    """Rows as levels and, given these, as normal scores.

    Parameters
    ----------
    columns : Columns
        The rows, see `ordered_by_value`.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights; None for equal weights.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row in all of them.
    effective_rows : float
        How many rows of equal weight tell as much.
    scored : tuple of int
        Positions of the columns that have scores.
    levelled : tuple of int
        Positions of the columns that have levels, more than one each.
    levels : tuple of ndarray of intp, shape (n_rows,)
        Level of each row in each of the latter; -1 where it is missing.
    known : ndarray of bool, shape (n_scored, n_rows)
        Where there is a score: not where a value is missing, or one that many rows share.
    centre : ndarray of float64, shape (n_scored, n_rows)
        Mean of the normal score given the levels of the row.
    spread : ndarray of float64, shape (n_scored,)
        Standard deviation of the score given the levels.
    scores : ndarray of float64, shape (n_scored, n_rows)
        Scores less their centre, in units of their spread; zero where there is none.
    correlation : ndarray of float64, shape (n_scored, n_scored)
        Their correlations: shrunk, and positive definite.
    level_effects : tuple of ndarray of float64, shape (n_scored, n_levels)
        What each level of each column of levels adds to `centre`, the missing one first.
    """

    columns: Columns
    weights: RowWeights
    shares: Array
    effective_rows: float
    scored: tuple[int, ...]
    levelled: tuple[int, ...]
    levels: tuple[Indices, ...]
    known: Mask
    centre: Array
    spread: Array
    scores: Array
    correlation: Array
    level_effects: tuple[Array, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each column of levels, that of missing values included."""
        return tuple(effects.shape[1] for effects in self.level_effects)

    def names(self, positions: tuple[int, ...]) -> list[str]:
        """Return the names of some columns."""
        return [self.columns.features[j].name for j in positions]


def latent_rows(columns: Columns, weights: RowWeights, memory_budget: int) -> LatentRows:
    """Return rows in their latent form, in an order that depends on their values alone.

    Rows of weight zero are left out.

    Raises
    ------
    MemoryBudgetError
        If the scores would not fit.
    """
    n_bytes = 8 * columns.n_rows * (_TABLES * len(columns.values) + _COLUMNS)
    what = f"the normal scores of {columns.n_rows} rows of {len(columns.values)} features"
    check_budget(n_bytes, memory_budget, what, _ADVICE)
    from scipy.special import ndtri

    if weights is not None and not np.all(weights > 0):
        there = np.flatnonzero(weights > 0)
        columns, weights = columns.take(there), weights[there]
    columns, weights = ordered_by_value(columns, weights)
    n_rows, shares = columns.n_rows, row_shares(columns.n_rows, weights)
    effective = effective_rows(n_rows, weights)
    scored: dict[int, Indices] = {}
    levelled: dict[int, Indices] = {}
    for j, (spec, values) in enumerate(zip(columns.features, columns.values, strict=True)):
        level = np.full(n_rows, -1, dtype=np.intp)
        has_value = ~np.isnan(values)
        different, level[has_value] = np.unique(values[has_value], return_inverse=True)
        is_number = not spec.is_categorical and len(different) > _MOST_LEVELS_OF_NUMBERS
        stays = _kept_values(level, shares, effective)
        if is_number and np.any(stays < 0):
            scored[j] = stays
        elif len(different) > 1:
            levelled[j] = level
    known = np.array([stays < 0 for stays in scored.values()]).reshape(-1, n_rows)
    scores = np.zeros(known.shape)
    for score, there, j in zip(scores, known, scored, strict=True):
        score[there] = ndtri(_rank_positions(columns.values[j][there], shares[there]))
    indicators, meant = _indicators([*levelled.values(), *scored.values()], n_rows)
    n_bytes += 8 * (_CORRELATIONS * len(scored) ** 2 + _GRAMS * indicators.shape[1] ** 2)
    check_budget(n_bytes, memory_budget, f"{what}, with their correlations", _ADVICE)
    # What each level adds to each score, by ridge. Where a score is missing it is zero, the mean of
    # all: it does not move a level.
    weighted = indicators * (shares * effective)[:, None]
    gram = (indicators.T @ weighted).toarray() + _PRIOR_ROWS * np.eye(len(meant))
    effects = np.linalg.solve(gram, weighted.T @ scores.T)
    level_effects = []
    for column, level in enumerate(levelled.values()):
        own, n_levels = meant[:, 0] == column, int(level.max(initial=-1)) + 2
        of_levels = np.zeros((len(scored), n_levels))
        of_levels[:, meant[own, 1] + 1] = effects[own].T
        level_effects.append(of_levels)
    centre = np.ascontiguousarray((indicators @ effects).T)
    scores = np.where(known, scores - centre, 0.0)
    mass = known @ shares
    spread = np.sqrt((scores**2 @ shares) / np.where(mass > 0, mass, 1.0))
    spread = np.where(spread > 0, spread, 1.0)
    scores /= spread[:, None]
    return LatentRows(
        columns,
        weights,
        shares,
        effective,
        tuple(scored),
        tuple(levelled),
        tuple(levelled.values()),
        known,
        centre,
        spread,
        scores,
        _correlation(scores, known, shares, effective),
        tuple(level_effects),
    )


def _rank_positions(values: npt.NDArray[np.floating], shares: Array) -> Array:
    """Return where each value stands in the distribution, above zero and below one."""
    ties = np.random.default_rng(_SEED_OF_TIES).permutation(len(values))
    order = ties[np.argsort(values[ties], kind="stable")]
    in_order = shares[order]
    reached = in_order.cumsum()
    positions = np.empty(len(values))
    # The middle of the row's own share; rounding must not reach the ends.
    positions[order] = (reached - in_order / 2) / reached[-1]
    return np.clip(positions, 1e-12, 1 - 1e-12)


def _kept_values(level: Indices, shares: Array, effective: float) -> Indices:
    """Return a number for each value that stays as it is, missing or frequent; -1 for others."""
    mass = np.bincount(level + 1, shares).astype(np.float64)
    stays = np.zeros(len(mass), dtype=bool)
    stays[0] = True
    several = exceeds(mass, _SEVERAL_ROWS / effective)
    while True:
        # Frequent among those that are left: round numbers may hide behind one large value.
        frequent = ~stays & several & exceeds(mass, _FREQUENT * mass[~stays].sum())
        if not frequent.any():
            return np.where(stays[level + 1], level + 1, -1)
        stays |= frequent


def _indicators(columns: list[Indices], n_rows: int) -> tuple["csr_array", Indices]:
    """Return one indicator for each level of each column of levels, the rarest left out.

    Beside the matrix there is what each indicator means: a column, and a level, shape
    (n_indicators, 2).
    """
    from scipy.sparse import csr_array, hstack

    blocks, meant = [csr_array((n_rows, 0))], [np.empty((0, 2), dtype=np.intp)]
    for column, level in enumerate(columns):
        there, place = np.unique(level, return_inverse=True)
        # What all rows have says nothing.
        if len(there) > 1:
            ones = (np.ones(n_rows), (np.arange(n_rows), place))
            blocks.append(csr_array(ones, shape=(n_rows, len(there))))
            meant.append(np.column_stack([np.full(len(there), column), there]))
    together = csr_array(hstack(blocks, format="csr"))
    count: Array = together.sum(axis=0)
    frequent = np.sort(np.argsort(-count, kind="stable")[:_MOST_INDICATORS])
    return together[:, frequent], np.concatenate(meant)[frequent]


def _correlation(scores: Array, known: Mask, shares: Array, effective: float) -> Array:
    """Return correlations of the rows where both are known, shrunk towards none.

    The share by which they shrink is the noise in them over their size (Schäfer & Strimmer
    2005), so that many unrelated features add up to no dependence.
    """
    size = len(scores)
    if size < 2:
        return np.eye(size)
    weighted = scores * shares
    both = (known * shares) @ known.T
    square = (scores**2 * shares) @ known.T
    scale = np.sqrt(square * square.T)
    found = np.divide(weighted @ scores.T, scale, out=np.zeros_like(scale), where=scale > 0)
    found = np.clip(found, -1.0, 1.0)
    np.fill_diagonal(found, 0.0)
    noise = np.where(both > 0, (1 - found**2) ** 2 / np.maximum(both * effective, 1.0), 0.0)
    np.fill_diagonal(noise, 0.0)
    total = float((found**2).sum())
    found *= 1.0 - min(1.0, float(noise.sum()) / total) if total > 0 else 0.0
    np.fill_diagonal(found, 1.0)
    values, vectors = np.linalg.eigh(found)
    positive = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    diagonal = np.sqrt(np.diag(positive))
    return np.asarray(positive / np.outer(diagonal, diagonal))


def moved_copies(
    latent: LatentRows,
    bandwidths: Array,
    level_shares: Array,
    n_points: int,
    memory_budget: int,
) -> Columns:
    r"""Return several copies of each row, moved at random by a seed that is always the same.

    The scores are turned into `u`, which have no correlations: the score of the smallest
    bandwidth first, then the residual of the next given the first, and so on. With `h` the
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

    Returns
    -------
    Columns
        All rows, then all of them again, and so on; their values are values of the rows.

    Raises
    ------
    MemoryBudgetError
        If the copies would not fit.
    """
    n_rows, n_columns = latent.n_rows, len(latent.columns.values)
    copies = min(max(-(-n_points // max(n_rows, 1)), _LEAST_COPIES), _MOST_COPIES)
    copies += copies % 2
    numbers = max(_TABLES_MOVED * n_columns, _TABLES_LEFT * n_columns + _COLUMNS)
    what = f"{copies} copies of {n_rows} rows of {n_columns} features"
    check_budget(8 * copies * n_rows * numbers, memory_budget, what, _ADVICE)
    rng = np.random.default_rng(_SEED_OF_COPIES)
    values: list[npt.NDArray[Any]] = [np.tile(column, copies) for column in latent.columns.values]
    moved = _moved_scores(latent, bandwidths, copies, rng)
    _draw_levels(latent, level_shares, copies, values, moved, rng)
    for score, known, j in zip(moved, latent.known, latent.scored, strict=True):
        there = np.tile(known, copies)
        values[j][there] = _at_ranks(
            score[there], latent.columns.values[j][known], latent.shares[known]
        )
    return Columns(latent.columns.features, tuple(values), copies * n_rows)


def _moved_scores(
    latent: LatentRows, bandwidths: Array, copies: int, rng: np.random.Generator
) -> Array:
    """Return the normal score of each copy, shape (n_scored, copies * n_rows)."""
    n_scored, n_rows = latent.scores.shape
    if n_scored == 0:
        return np.zeros((0, copies * n_rows))
    # By bandwidth, then by name, so that the order of the features does not matter.
    names = latent.names(latent.scored)
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
        factor, spread = _dependence(latent, rows, there)
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


def _dependence(latent: LatentRows, rows: Indices, scored: Indices) -> tuple[Array, Array]:
    """Return a factor of the correlations of some scores in some rows, and their spread there.

    The rows are those that have exactly these scores. Values that many rows share are not
    missing at random, so the correlations of pairs, each from other rows, may contradict each
    other, and residuals of a score given others can be far larger than these correlations say.
    Where there are many such rows, or such residuals, their own correlations are taken.
    """
    scores, shares = latent.scores[np.ix_(scored, rows)], latent.shares[rows]
    effective = latent.effective_rows * float(shares.sum())
    shares = shares / shares.sum()
    overall = np.asarray(np.linalg.cholesky(latent.correlation[np.ix_(scored, scored)]), float)
    residual = np.linalg.solve(overall, scores) ** 2 @ shares
    if effective < _ROWS_A_SCORE * len(scored) and residual.max(initial=0.0) < _LARGE_RESIDUAL:
        return overall, np.ones(len(scored))
    spread = np.sqrt(scores**2 @ shares)
    spread = np.where(spread > 0, spread, 1.0)
    known = np.ones(scores.shape, dtype=np.bool_)
    correlation = _correlation(scores / spread[:, None], known, shares, effective)
    return np.asarray(np.linalg.cholesky(correlation), float), spread


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


def _at_ranks(scores: Array, values: npt.NDArray[Any], shares: Array) -> npt.NDArray[Any]:
    """Return, for the score of each copy, the value of the rows that stands at its rank."""
    order, by_value = np.argsort(scores), np.argsort(values, kind="stable")
    reached = shares[by_value].cumsum()
    of_copies = np.tile(shares, len(scores) // len(shares))[order]
    middle = of_copies.cumsum()
    # The middle of the copy's own share, in the sum of all as `reached` has it.
    middle = (middle - of_copies / 2) * (reached[-1] / middle[-1])
    moved = np.empty(len(scores), dtype=values.dtype)
    moved[order] = values[by_value[first_reached(reached, middle)]]
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
    names = latent.names(latent.levelled)
    for k in sorted(range(len(names)), key=names.__getitem__):
        j, level, of_levels = latent.levelled[k], latent.levels[k], latent.level_effects[k]
        column, spec = latent.columns.values[j], latent.columns.features[j]
        # Values that the model does not know stay, so that each of the rows' cells has a copy.
        unknown = (column == spec.n_codes) & spec.is_categorical
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
