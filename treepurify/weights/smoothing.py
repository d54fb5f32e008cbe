"""Choose how much rows are smoothed, and make the measure of their copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from treepurify.grids.grid import EncodedRows, Grid, Subset
from treepurify.weights.empirical import Empirical
from treepurify.weights.held_out import HeldOut, held_out_bandwidths, held_out_level_shares
from treepurify.weights.latent_rows import LatentRows
from treepurify.weights.smoothed_rows import smoothed_rows
from treepurify.weights.weighting import FittedMeasure, MassTables, Weighting

__all__ = [
    "USUAL_POINTS",
    "Choice",
    "Points",
    "choose_smoothing",
    "needs_values",
    "smoothed_measure",
    "smoothing_words",
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

    def tables(self, grid: Grid, rows: EncodedRows | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of each subset's cells."""
        return Empirical().tables(grid, rows, subsets)

    def describe(self) -> str:
        """Return the measure in words."""
        return self.words


@dataclass(frozen=True, eq=False)
class Choice:
    """How much is smoothed, and what was tried for it."""

    bandwidth: float
    level_share: float
    bandwidths: HeldOut | None = None
    level_shares: HeldOut | None = None

    def facts(self) -> dict[str, Any]:
        """Return the choice as diagnostics have it."""
        facts: dict[str, Any] = {"bandwidth": self.bandwidth, "level_share": self.level_share}
        if self.bandwidths is not None:
            facts["bandwidths"] = self.bandwidths.facts()
        if self.level_shares is not None:
            facts["level_shares"] = self.level_shares.facts()
        return facts

    def gain(self) -> str:
        """Return in words by how much the bandwidth is better than the copula."""
        found = self.bandwidths
        if found is None or not np.isfinite(self.bandwidth):
            return ""
        return f", {found.best_log_mass:.2g} nats a row and pair above the copula"


def choose_smoothing(
    latent: LatentRows, bandwidth: float | None, level_share: float | None
) -> Choice:
    """Return the smoothing that is asked for, or foretells held-out rows best where it is None."""
    bandwidths = held_out_bandwidths(latent) if bandwidth is None else None
    level_shares = held_out_level_shares(latent) if level_share is None else None
    if bandwidth is None:
        # One feature alone keeps its margin, whatever the bandwidth.
        bandwidth = 0.0 if bandwidths is None else bandwidths.best
    if level_share is None:
        level_share = 0.0 if level_shares is None else level_shares.best
    return Choice(float(bandwidth), float(level_share), bandwidths, level_shares)


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
    points = smoothed_rows(latent, choice.bandwidth, choice.level_share, n_points, memory_budget)
    facts = {
        **choice.facts(),
        "rows": latent.n_rows,
        "points": points.columns.n_rows,
        "copies_of_each_row": points.copies,
    }
    words = smoothing_words(choice.bandwidth, choice.level_share)
    words = f"{name} ({words}{choice.gain()})" if words else name
    return FittedMeasure(Points(words), points.columns, points.weights, facts)


def smoothing_words(bandwidth: float, level_share: float) -> str:
    """Return how much is smoothed, in words; none for the Gaussian copula."""
    words = [f"bandwidth {bandwidth:g}"] if 0 < bandwidth < np.inf else []
    if level_share > 0:
        words.append(f"{100 * level_share:g} % of levels drawn anew")
    return ", ".join(words)


def needs_values(name: str) -> str:
    """Return why such a weighting cannot weigh the cells of a grid by itself."""
    return (
        f"weights={name!r} need the values of the rows, not their cells alone: pass them to purify "
        "or hooker_anova, which know them"
    )
