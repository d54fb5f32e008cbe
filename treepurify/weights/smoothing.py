"""Choose how much rows are smoothed, and make the measure of their copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Mask
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.empirical import Empirical
from treepurify.weights.held_out import HeldOut, held_out_bandwidths, held_out_level_shares
from treepurify.weights.latent_rows import LatentRows
from treepurify.weights.shared_values import has_telling_values
from treepurify.weights.smoothed_rows import smoothed_rows
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = [
    "USUAL_POINTS",
    "Choice",
    "Points",
    "choose_smoothing",
    "needs_values",
    "smoothed_measure",
]

USUAL_POINTS = 1 << 15
"""How many copies there are by default, all rows together."""


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
        """Return the mass of each subset's cells."""
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
        """Return how much is smoothed, and what that gains; empty for the Gaussian copula."""
        words = []
        if len(self.bandwidths) and not self.is_copula:
            words.append(f"bandwidth {_range(self.bandwidths)}")
        if self.level_shares.any():
            words.append(f"{_range(100 * self.level_shares)} % of levels drawn anew")
        found = self.tried_bandwidths
        if found is not None and len(self.bandwidths) and not self.is_copula:
            words.append(f"held-out log-mass of pairs {found.gain:.2g} nats above the copula")
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
    """Return the smoothing that is asked for, or foretells held-out rows best where it is None."""
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
        level_shares = tried_levels.best(len(level_shares))
    return Choice(bandwidths, level_shares, tried, tried_levels, telling)


def smoothed_measure(
    latent: LatentRows, choice: Choice, name: str, n_points: int, memory_budget: int
) -> FittedMeasure:
    """Return the copies of the rows as a measure.

    Parameters
    ----------
    latent : LatentRows
        The rows.
    choice : Choice
        How much is smoothed.
    name : str
        The measure in a word or two.
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
    words = f"{name} ({words})" if words else name
    note = (
        f"The measure is that of {points.columns.n_rows} points, {points.copies} for each of the "
        f"{latent.n_rows} rows, drawn with a fixed seed; the draw adds at most 2/{points.copies} "
        "of the variance that the rows have as a sample."
    )
    return FittedMeasure(Points(words), points.columns, points.weights, facts, note)


def needs_values(name: str) -> str:
    """Return why such a weighting cannot weigh the cells of a grid by itself."""
    return (
        f"weights={name!r} need the values of the rows, not their cells alone: pass them to purify "
        "or hooker_anova, which know them"
    )
