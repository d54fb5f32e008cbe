"""What taking effects out does to the gap between two groups, and to the loss.

Which effects go is chosen on one half of the rows; gap and loss are those of the other half, so
that the choice does not flatter them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.arguments import check_flag_or
from treepurify.decomposition import Absorb, Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.editing import without
from treepurify.evidence.held_out import HELD_OUT_ROWS, HeldOutRows, observed_stream, read_held_out
from treepurify.evidence.losses import LossChoice, loss_words
from treepurify.evidence.resampling import Intervals, draw_counts, resample
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.rows.labelled_rows import sample_table
from treepurify.rows.resampling import RowSplit
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.table_reader import matched_names
from treepurify.rows.tables import take_rows
from treepurify.terms import listed_names
from treepurify.typing import Array, Indices
from treepurify.validation.group_rows import TwoGroups
from treepurify.validation.group_sums import Draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GapEdits", "GapRows", "gap_edits"]

_LEAST_ROWS = 2


@dataclass(frozen=True, eq=False)
class GapEdits:
    """Gap and loss as effects are removed one by one.

    Each step removes the effect whose removal brings the gap closest to zero, in addition to those
    of earlier steps. The steps end when no effect brings it closer.

    Parameters
    ----------
    terms : tuple of str
        The effects, in the order in which they are removed.
    output_name : str
        The output whose gap was measured.
    loss : str
        The name of the loss.
    n_rows : tuple of int
        Number of rows used to choose the effects, and number of rows used for the results.
    gap : Intervals of shape (1 + n_steps,)
        Difference of mean margins on the rows used for the results: for the model, then after each
        step.
    loss_rise : Intervals of shape (n_steps,)
        Rise of the loss after each step.
    model_loss : float
        Loss of the model.
    absorb : bool or "main"
        The effects that were adjusted to compensate in the next two fields; False if there are
        none.
    absorbed_gap, absorbed_loss_rise : Intervals, optional
        Gap and rise of the loss if the remaining effects are adjusted to compensate.
    """

    terms: tuple[str, ...]
    output_name: str
    loss: str
    n_rows: tuple[int, int]
    gap: Intervals
    loss_rise: Intervals
    model_loss: float
    absorb: Absorb = False
    absorbed_gap: Intervals | None = None
    absorbed_loss_rise: Intervals | None = None

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per step and way, the model first.

        Returns
        -------
        DataFrame
            ``way`` (``"model"``, ``"taken out"`` or ``"absorbed"``), ``n_effects`` taken out, the
            ``term`` that the step takes out, the ``gap`` with ``gap_low`` and ``gap_high``, and the
            ``loss_rise`` with ``loss_low`` and ``loss_high``.
        """
        import pandas as pd

        model = ("model", 0, "", *_numbers_at(self.gap, 0), 0.0, 0.0, 0.0)
        rows = [model, *self._steps("taken out", self.gap, self.loss_rise)]
        if self.absorbed_gap is not None and self.absorbed_loss_rise is not None:
            rows += self._steps("absorbed", self.absorbed_gap, self.absorbed_loss_rise)
        names = ["way", "n_effects", "term", "gap", "gap_low", "gap_high"]
        return pd.DataFrame(rows, columns=[*names, "loss_rise", "loss_low", "loss_high"])

    def _steps(self, way: str, gap: Intervals, rise: Intervals) -> list[tuple[Any, ...]]:
        return [
            (way, step, term, *_numbers_at(gap, step), *_numbers_at(rise, step - 1))
            for step, term in enumerate(self.terms, start=1)
        ]

    def sentences(self) -> list[str]:
        """Return gap and loss without all of the effects, in sentences."""
        chosen, reported = self.n_rows
        if not self.terms:
            return [
                (
                    f"No effect brings the gap closer to zero on the {chosen} rows used for "
                    "selection."
                )
            ]
        size = abs(self.model_loss) or 1.0
        words = (
            f"Without {listed_names(self.terms)} (chosen on {chosen} rows), the gap on {reported} "
            f"other rows is {self.gap.value[-1]:+.4g} instead of {self.gap.value[0]:+.4g}, and the "
            f"{loss_words(self.loss)} changes by {self.loss_rise.value[-1] / size:+.2%}"
        )
        if self.absorbed_gap is not None and self.absorbed_loss_rise is not None:
            words += (
                f"; if the remaining {'main effects' if self.absorb == 'main' else 'effects'} are "
                f"adjusted to compensate, the gap is {self.absorbed_gap.value[-1]:+.4g} and "
                f"the loss changes by {self.absorbed_loss_rise.value[-1] / size:+.2%}"
            )
        return [f"{words}."]


def _numbers_at(found: Intervals, place: int) -> tuple[float, float, float]:
    return float(found.value[place]), float(found.low[place]), float(found.high[place])


@dataclass(frozen=True, eq=False)
class GapRows:
    """Rows with their groups, observations and weights, as `treepurify.group_gap` takes them."""

    X: Any
    group: Any
    y: Any
    weights: Any


@dataclass(frozen=True, eq=False)
class _Half:
    """One half of the rows, with what tells the groups."""

    held_out: HeldOutRows
    codes: Indices

    def gaps(self, margins: Sequence[Array], output: int, counts: Array) -> Array:
        """Return the gaps of some margins for each count of the rows, (n_counts, n_margins)."""
        scores = np.stack([margin[:, output] for margin in margins], axis=1)
        weights = counts * self.held_out.shares
        of_group = []
        for group in range(2):
            own = self.codes == group
            total = weights[:, own].sum(axis=1, keepdims=True)
            of_group.append(weights[:, own] @ scores[own] / np.where(total > 0, total, np.nan))
        return np.asarray(of_group[1] - of_group[0])


def gap_edits(
    d: Decomposition,
    rows: GapRows,
    groups: TwoGroups,
    output: int,
    n_edits: int,
    absorb: Absorb | Literal["auto"],
    loss: LossChoice,
    draws: Draws,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[GapEdits, tuple[str, ...]]:
    """Return gap and loss where effects are taken out, and a note of what the rows are.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    rows : GapRows
        The rows, as a caller passed them.
    groups : TwoGroups
        The groups.
    output : int
        The output whose gap is to be closed.
    n_edits, absorb, loss
        See `treepurify.group_gap`.
    draws : Draws
        How rows are drawn again, and the seed of the halves.
    memory_budget : int
        Bytes that the contributions of all effects may take, and likewise the draws.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If one half of the rows lacks one of the groups.
    """
    table, words = _table(d, rows, draws.seed, memory_budget, report)
    halves = _halves(d, table, groups, draws.seed, loss, memory_budget, report)
    choosing, reporting = halves
    order = _chosen(choosing, output, n_edits)
    terms = [choosing.held_out.subsets[place] for place in order]
    if absorb != "auto":
        check_flag_or("absorb", absorb, "main")
    used: Absorb = ("main" if d.rows is not None else False) if absorb == "auto" else absorb
    counts = draw_counts(len(reporting.codes), draws.n_bootstrap, draws.seed, memory_budget)
    plain = [d, *_edited(d, terms, False, memory_budget, report)]
    gap, rise = _measured(reporting, plain, output, counts, draws)
    absorbed: tuple[Intervals | None, Intervals | None] = (None, None)
    if used and terms:
        edited = [d, *_edited(d, terms, used, memory_budget, report)]
        absorbed = _measured(reporting, edited, output, counts, draws)
    held_out = reporting.held_out
    edits = GapEdits(
        terms=tuple(d.term_name(subset) or "remainder" for subset in terms),
        output_name=d.output_names[output],
        loss=held_out.loss.name,
        n_rows=(len(choosing.codes), len(reporting.codes)),
        gap=gap,
        loss_rise=rise,
        model_loss=held_out.loss.mean(held_out.margin, held_out.shares),
        absorb=used,
        absorbed_gap=absorbed[0],
        absorbed_loss_rise=absorbed[1],
    )
    return edits, ((words,) if words else ())


def _table(
    d: Decomposition,
    rows: GapRows,
    seed: int,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[GapRows, str]:
    """Return all rows as a table, or a sample of rows in batches and a sentence about it."""
    source, (group, y, weight) = open_rows(rows.X), (rows.group, rows.y, rows.weights)
    if isinstance(source, TableSource):
        batch: Any = observed_stream(d, rows.X, (group, y), weight).whole
        labels, observed = batch.observed
        return GapRows(batch.rows.columns, labels, observed, batch.rows.weights), ""
    others = [name for name in source.names or () if name not in (y, weight)]
    if d.inputs.match_names:
        wanted = set(d.feature_names)
        matched = zip(matched_names(others, d.inputs.features), others, strict=True)
        features = [name for known, name in matched if known in wanted]
    else:
        features = [name for name in others if name != group]
    columns = tuple(dict.fromkeys([*features, group, y]))
    drawn = sample_table(source, columns, weight, HELD_OUT_ROWS, seed, memory_budget, report)
    words = ""
    if len(drawn.table) < drawn.n_rows:
        words = (
            f"Effects are removed on a sample of {len(drawn.table)} of the {drawn.n_rows} rows "
            f"of {source.describe()}, drawn with seed {seed}."
        )
    table = drawn.table
    labels, observed = (table[name].to_numpy() for name in (group, y))
    return GapRows(table[features], labels, observed, drawn.weights), words


def _halves(
    d: Decomposition,
    table: GapRows,
    groups: TwoGroups,
    seed: int,
    loss: LossChoice,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[_Half, _Half]:
    """Return two random halves of the rows that are in one of the groups."""
    codes = groups.codes((np.asarray(table.group),), len(table.group))
    counted = codes >= 0
    if table.weights is not None:
        counted &= table.weights > 0
    parts = RowSplit(seed, 0, 2).parts(0, 0, len(codes))
    halves = []
    for which in range(2):
        own = np.flatnonzero(counted & (parts == which))
        if np.bincount(codes[own], minlength=2).min() < _LEAST_ROWS:
            raise InvalidInputError(
                "n_edits chooses effects on one half of the rows and measures the gap on the other "
                "half, but one half has almost no rows of one group: pass more rows"
            )
        weights = None if table.weights is None else table.weights[own]
        observed = np.asarray(table.y)[own]
        held_out = read_held_out(
            d, take_rows(table.X, own), observed, loss, weights, memory_budget // 2, report
        )
        halves.append(_Half(held_out, codes[own]))
    return halves[0], halves[1]


def _chosen(half: _Half, output: int, n_edits: int) -> list[int]:
    """Return the positions of effects, each of which brings the gap closest to zero.

    Without absorbing, a gap is a sum over effects: no margin has to be computed again.
    """
    held_out = half.held_out
    once = np.ones((1, len(half.codes)))
    differences = half.gaps(list(held_out.contributions), output, once)[0]
    gap, order = float(differences.sum()), list[int]()
    while len(order) < min(n_edits, len(differences)):
        left = [place for place in range(len(differences)) if place not in order]
        best = min(left, key=lambda place: abs(gap - differences[place]))
        if abs(gap - differences[best]) >= abs(gap):
            break
        order.append(best)
        gap -= float(differences[best])
    return order


def _edited(
    d: Decomposition,
    terms: Sequence[Subset],
    absorb: Absorb,
    memory_budget: int,
    report: ProgressReport,
) -> list[Decomposition]:
    """Return the decomposition without the first of some effects, the first two, and so on."""
    edited = []
    for size in range(1, len(terms) + 1):
        report("removing effects", size - 1, len(terms))
        edited.append(without(d, terms[:size], absorb=absorb, memory_budget=memory_budget))
    return edited


def _measured(
    half: _Half,
    decompositions: Sequence[Decomposition],
    output: int,
    counts: Any,
    draws: Draws,
) -> tuple[Intervals, Intervals]:
    """Return the gap of each decomposition, and the rise of the loss from the first."""
    held_out = half.held_out
    margins = [held_out.margin, *(each.on_rows(held_out.columns) for each in decompositions[1:])]
    whole = np.ones((1, len(half.codes)))
    gaps = np.concatenate([half.gaps(margins, output, whole), half.gaps(margins, output, counts)])
    rises = resample(
        held_out.loss, margins[0], iter(margins[1:]), held_out.shares, counts, draws.coverage
    )
    return draws.intervals(gaps), rises
