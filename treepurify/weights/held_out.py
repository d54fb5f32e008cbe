"""The amount of smoothing, by leave-one-out log-likelihood of tables of pairs in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from treepurify._kernels.score_cells import add_score_cells
from treepurify.rows.row_weights import equal_parts, exceeds
from treepurify.typing import Array, Indices
from treepurify.weights.latent_rows import LatentRows, rank_positions

__all__ = [
    "BANDWIDTHS",
    "LEVEL_SHARES",
    "HeldOut",
    "held_out_bandwidths",
    "held_out_level_shares",
    "level_shares_of_best_sum",
    "smoothings",
]

LEVEL_SHARES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Chances that a level is drawn anew: zero leaves the rows, one makes levels independent."""
# Cells of what levels do not explain of a score, which a level drawn anew is independent of.
_CELLS_OF_REST = 8
# In place of minus infinity, where rows are alone in their cells: worse than anything else.
_NEVER = -1e6
_START, _MOST_SWEEPS = 0.1, 10
# What rounding leaves where a row is alone in its cell and nothing is smoothed.
_ROUNDING = 1e-12
# Cells of a score: many where there are rows for them and a fine bandwidth is best on few.
_FEW_CELLS, _MANY_CELLS = 32, 64
_ROWS_FOR_MANY = 4096
_FINE = 0.2
# Where a score is looked up: steps of a sixteenth from -8 to 8.
_STEPS_A_UNIT, _FARTHEST = 16, 8
_LARGEST_CORRELATION = 0.999
# Rows times pairs that are counted, and pairs that are taken however many rows there are.
_MOST_COUNTS = 5_000_000
_LEAST_PAIRS = 10
_MOST_PAIRS = 300
# Larger tables hold no more than one row per cell, and are left out.
_MOST_CELLS = 1 << 20
# A pair that fewer rows have says nothing.
_LEAST_ROWS = 30
BANDWIDTHS = (0.0, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.5, np.inf)
"""Bandwidths that are tried: zero leaves the rows, infinity the Gaussian copula."""
_POINTS_A_CELL = 8


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Leave-one-out log-likelihood of each of several smoothings, pair by pair.

    Parameters
    ----------
    tried : tuple of float
        Bandwidths, or chances; more smoothing comes later.
    pairs : tuple of tuple of int
        The pairs, each by positions in the list of what is smoothed.
    log_mass : ndarray of float64, shape (n_pairs, n_tried)
        Mean over rows of the log of the mass of a row's cell, in nats, less that under the last
        one tried. Minus infinity where a row is alone in its cell.
    of_pairs : int
        Number of pairs, of which `pairs` are some or all.
    """

    tried: tuple[float, ...]
    pairs: tuple[tuple[int, int], ...]
    log_mass: Array
    of_pairs: int

    def best(self, count: int) -> Array:
        """Return the smoothing of each of the first columns, the least of the best of its pairs.

        The finest dependence that a column takes part in would be lost under more: under one
        bandwidth for all, effects of longitude and latitude were twice as far off.
        """
        # Of equal ones the last, which smooths most.
        last = len(self.tried) - 1 - _first_best(self.log_mass[:, ::-1])
        best = np.full(count, len(self.tried) - 1)
        for pair, place in zip(self.pairs, last, strict=True):
            for column in pair:
                if column < count:
                    best[column] = min(best[column], place)
        return np.asarray(np.array(self.tried)[best])

    @property
    def gain(self) -> float:
        """Mean over pairs of the best log-likelihood, less that of the last smoothing tried."""
        return float(np.max(self.log_mass, axis=1).mean())

    def facts(self) -> dict[str, object]:
        """Return what was found, as diagnostics have it."""
        return {
            "tried": list(self.tried),
            "held_out_log_mass": self.log_mass.mean(axis=0).tolist(),
            "gain": self.gain,
            "pairs": len(self.pairs),
            "of_pairs": self.of_pairs,
        }


def _first_best(log_mass: Array) -> Indices:
    """Return the first of the best of each row; those within rounding are equal."""
    best = log_mass >= log_mass.max(axis=1, keepdims=True) - _ROUNDING
    return np.asarray(np.argmax(best, axis=1))


def held_out_bandwidths(latent: LatentRows) -> HeldOut | None:
    r"""Return the likelihood of each bandwidth; None where nothing can be smoothed.

    A pair of scores with correlation `rho` is turned into :math:`u_1 = e_1` and
    :math:`u_2 = (e_2 - \rho e_1) / \sqrt{1 - \rho^2}`. There the noise has no correlation, and the
    smoothed table on fixed cells, equally likely under the normal distribution, is `S C S'`:
    `C` the shares of the rows, and one matrix `S` of columns that sum to one. A row in cell
    `(a, b)` gave it `S[a, a] S[b, b]` of its own share, which is taken away again. The Jacobian
    of that turn is the Gaussian copula's density, the same for every bandwidth, so that
    log-likelihoods are counted from the copula's. Weighted rows count as their effective number.
    A score and a level are a pair, too, which is smoothed along the score alone.
    """
    size = len(latent.scored)
    few = [k for k, n in enumerate(latent.n_levels) if n * _MANY_CELLS <= _MOST_CELLS]
    known = latent.known.astype(np.float64)
    together = (known * latent.shares) @ known.T * latent.effective_rows
    enough = ~exceeds(_LEAST_ROWS, together)
    every = [(i, j) for i, j in combinations(range(size), 2) if enough[i, j]]
    every += [(i, size + k) for i in range(size) for k in few if enough[i, i]]
    if not every:
        return None
    pairs = _some(every, latent.n_rows)
    log_mass = np.empty((len(pairs), len(BANDWIDTHS)))
    all_pairs = range(len(pairs))
    _fill_log_mass(log_mass, latent, pairs, all_pairs, _FEW_CELLS)
    if latent.n_rows >= _ROWS_FOR_MANY:
        best = np.array(BANDWIDTHS)[_first_best(log_mass)]
        fine = np.flatnonzero(best <= _FINE).tolist()
        _fill_log_mass(log_mass, latent, pairs, fine, _MANY_CELLS)
    return HeldOut(BANDWIDTHS, tuple(pairs), log_mass, len(every))


def held_out_level_shares(latent: LatentRows) -> HeldOut | None:
    """Return the likelihood of each share of independence of levels; None where there is no pair.

    Pairs are those of levels, and of a level and what all levels leave unexplained of a score:
    with `C` the table of a pair, `m` its margins and `a` a share the mass is `(1 - a) C + a m m'`,
    less the row's own share in all three (compare Aitchison & Aitken 1976, whose kernel spreads
    evenly over levels, and so would change the margins). Of a pair whose levels are drawn anew
    with chances `s` and `t`, the share is `1 - (1 - s)(1 - t)`.
    """
    rest = [_parts_of_rest(latent, which) for which in range(len(latent.scored))]
    levels = (*latent.levels, *rest)
    sizes = (*latent.n_levels, *(_CELLS_OF_REST + 1 for _ in rest))
    every = [
        (first, second)
        for first, second in combinations(range(len(sizes)), 2)
        if first < len(latent.levels) and sizes[first] * sizes[second] <= _MOST_CELLS
    ]
    if not every:
        return None
    pairs = _some(every, latent.n_rows)
    everywhere = np.ones(latent.n_rows, dtype=bool)
    log_mass = np.empty((len(pairs), len(LEVEL_SHARES)))
    for row, (first, second) in zip(log_mass, pairs, strict=True):
        one, other = levels[first] + 1, levels[second] + 1
        table, own = _table(latent, everywhere, one, other, (sizes[first], sizes[second]))
        row[:] = _log_mass_of_level_shares(table, own)
    return HeldOut(LEVEL_SHARES, tuple(pairs), log_mass, len(every))


def _log_mass_of_level_shares(table: Array, own: float) -> Array:
    """Return the likelihood of each share of independence in a table, less that of the last."""
    rest = np.maximum(table - own, 0.0) / (1.0 - own)
    rows = np.maximum(table.sum(axis=1) - own, 0.0) / (1.0 - own)
    columns = np.maximum(table.sum(axis=0) - own, 0.0) / (1.0 - own)
    apart = np.outer(rows, columns)
    # A level that only one row has cannot be predicted from other rows: the share is chosen
    # without it.
    table = np.where(apart > _ROUNDING, table, 0.0)
    log_mass = np.array(
        [_mean_log(table, (1.0 - share) * rest + share * apart) for share in LEVEL_SHARES]
    )
    return np.asarray(log_mass - log_mass[-1])


def level_shares_of_best_sum(found: HeldOut, names: Sequence[str]) -> Array:
    """Return the chances with which levels are drawn anew that are best for all pairs together.

    One chance after the other is set to the best, given the others, until none changes.

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
    tried = np.array(found.tried)
    log_mass = np.where(np.isfinite(found.log_mass), found.log_mass, _NEVER)
    pairs = np.array(found.pairs)
    moves = pairs < len(names)
    # One more, for what is not moved.
    shares = np.zeros(len(names) + 1)
    shares[:-1] = _START
    others = np.where(moves, pairs, len(names))
    in_order = sorted(range(len(names)), key=names.__getitem__)
    for _ in range(_MOST_SWEEPS):
        before = shares.copy()
        for column in in_order:
            own = np.flatnonzero((pairs == column).any(axis=1))
            other = np.where(pairs[own, 0] == column, others[own, 1], pairs[own, 0])
            apart = 1.0 - np.multiply.outer(1.0 - tried, 1.0 - shares[other])
            total = _between(tried, log_mass[own], apart).sum(axis=1)
            shares[column] = tried[np.argmax(total)] if len(own) else 0.0
        if np.array_equal(shares, before):
            break
    return shares[:-1]


def _between(tried: Array, log_mass: Array, wanted: Array) -> Array:
    """Return the likelihood of each pair at other shares, shape (n_shares, n_pairs): linear."""
    after = np.clip(np.searchsorted(tried, wanted, side="right"), 1, len(tried) - 1)
    part = (wanted - tried[after - 1]) / (tried[after] - tried[after - 1])
    pair = np.arange(len(log_mass))
    return np.asarray((1.0 - part) * log_mass[pair, after - 1] + part * log_mass[pair, after])


def _parts_of_rest(latent: LatentRows, which: int) -> Indices:
    """Return the part, of eight with as many rows, of each known score; -1 elsewhere."""
    known, score = latent.known[which], latent.scores[which]
    parts = np.full(len(score), -1, dtype=np.intp)
    n_known = int(known.sum())
    places = rank_positions(score[known], np.ones(n_known), np.arange(n_known))
    parts[known] = equal_parts(places, _CELLS_OF_REST)
    return parts


@cache
def smoothings(n_cells: int) -> Array:
    """Return where the mass of each cell goes, shape (n_bandwidths, n_cells, n_cells).

    There is one column per cell, which sums to one.
    """
    return np.stack([_smoothing(bandwidth, n_cells) for bandwidth in BANDWIDTHS])


def _some(pairs: list[tuple[int, int]], n_rows: int) -> list[tuple[int, int]]:
    """Return all pairs, or evenly spaced ones if all would take long to count."""
    most = min(max(_MOST_COUNTS // max(n_rows, 1), _LEAST_PAIRS), _MOST_PAIRS)
    if len(pairs) <= most:
        return pairs
    return [pairs[place] for place in np.linspace(0, len(pairs) - 1, most).astype(np.intp)]


def _fill_log_mass(
    log_mass: Array,
    latent: LatentRows,
    pairs: Sequence[tuple[int, int]],
    places: Sequence[int],
    n_cells: int,
) -> None:
    """Fill in the log-likelihood of the pairs at some places, on `n_cells` cells of each score."""
    size, ends = len(latent.scored), _inner_ends(n_cells)
    cells = {
        first: np.searchsorted(ends, latent.scores[first], side="right")
        for first in {pairs[place][0] for place in places}
    }
    for place in places:
        first, second = pairs[place]
        if second >= size:
            of_pair = _of_score_and_level(latent, first, second - size, cells[first], n_cells)
        else:
            of_pair = _of_scores(latent, first, second, cells[first], n_cells)
        log_mass[place] = of_pair


def _of_scores(latent: LatentRows, first: int, second: int, cells: Indices, n_cells: int) -> Array:
    """Return the log-likelihood of two scores under each bandwidth; `cells` are of the first."""
    known = latent.known[first] & latent.known[second]
    rho = float(latent.correlation[first, second])
    rho = float(np.clip(rho, -_LARGEST_CORRELATION, _LARGEST_CORRELATION))
    shares = latent.shares
    counts = np.zeros((n_cells, n_cells))
    add_score_cells(
        latent.scores[first],
        cells,
        latent.scores[second],
        known,
        rho,
        1.0 / np.sqrt(1.0 - rho**2),
        _inner_ends(n_cells),
        _starts(n_cells),
        float(_STEPS_A_UNIT),
        shares,
        counts,
    )
    mass = float(counts.sum())
    counts /= mass
    own = _own_share(latent, mass)
    matrices = smoothings(n_cells)
    itself = np.diagonal(matrices, axis1=1, axis2=2)
    smoothed = (matrices @ counts) @ matrices.transpose(0, 2, 1)
    smoothed -= own * itself[:, :, None] * itself[:, None, :]
    smoothed *= n_cells**2 / (1.0 - own)
    return _mean_logs(counts, smoothed)


def _of_score_and_level(
    latent: LatentRows, first: int, level: int, cells: Indices, n_cells: int
) -> Array:
    """Return the log-likelihood of a score given a level, under each bandwidth."""
    known = latent.known[first]
    of_rows = latent.levels[level][known] + 1
    counts, own = _table(latent, known, of_rows, cells[known], (latent.n_levels[level], n_cells))
    others = counts.sum(axis=1) - own
    counts, others = counts[others > own / 2], others[others > own / 2]
    matrices = smoothings(n_cells)
    itself = np.diagonal(matrices, axis1=1, axis2=2)
    smoothed = counts @ matrices.transpose(0, 2, 1) - own * itself[:, None, :]
    return _mean_logs(counts, smoothed * (n_cells / others[:, None]))


def _table(
    latent: LatentRows,
    known: npt.NDArray[np.bool_],
    first: Indices,
    second: Indices,
    shape: tuple[int, int],
) -> tuple[Array, float]:
    """Return the shares of the known rows in each cell, and the share of one row."""
    shares = latent.shares[known]
    mass = float(shares.sum())
    cells = np.bincount(first * shape[1] + second, shares, shape[0] * shape[1])
    counts = cells.astype(np.float64).reshape(shape)
    return counts / mass, _own_share(latent, mass)


def _own_share(latent: LatentRows, mass: float) -> float:
    """Return the share of one row among those that have `mass` together."""
    return min(1.0 / (latent.effective_rows * mass), 0.5)


@cache
def _starts(n_cells: int) -> Indices:
    """Return the cell of the lower end of each step in which scores are looked up."""
    steps = np.arange(-_FARTHEST * _STEPS_A_UNIT, _FARTHEST * _STEPS_A_UNIT) / _STEPS_A_UNIT
    starts = np.searchsorted(_inner_ends(n_cells), steps, side="right")
    # The first step holds all lower scores, too.
    starts[0] = 0
    return starts


def _mean_log(counts: Array, mass: Array) -> float:
    return float(_mean_logs(counts, mass[None])[0])


def _mean_logs(counts: Array, masses: Array) -> Array:
    """Return the mean log-likelihood of the rows in each of several tables, shape (n_tables,)."""
    there = np.flatnonzero(counts)
    inside = masses.reshape(len(masses), -1)[:, there]
    inside[inside <= _ROUNDING] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(inside) @ counts.ravel()[there])


@cache
def _inner_ends(n_cells: int) -> Array:
    """Return the scores between cells that are equally likely under the normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.arange(1, n_cells) / n_cells))


def _smoothing(bandwidth: float, n_cells: int) -> Array:
    """Return where the mass of each cell goes under one bandwidth."""
    from scipy.special import ndtr, ndtri

    if bandwidth == 0.0:
        return np.eye(n_cells)
    keep = 1.0 / np.hypot(1.0, bandwidth)
    inner = n_cells * _POINTS_A_CELL
    points = ndtri((np.arange(inner) + 0.5) / inner)
    ends = np.concatenate([[-np.inf], _inner_ends(n_cells), [np.inf]])
    below = ndtr((ends[:, None] - keep * points) / np.sqrt(1.0 - keep**2))
    mass = np.diff(below, axis=0)
    return np.asarray(mass.reshape(n_cells, n_cells, _POINTS_A_CELL).mean(axis=2))
