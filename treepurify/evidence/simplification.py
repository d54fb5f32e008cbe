"""The fewest effects within a tolerance of the held-out loss: one after the other is left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag, check_number, check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import TensorComponent
from treepurify.decomposition import Absorb, Decomposition
from treepurify.evidence.editing import add_tables, has_independent_effects, only
from treepurify.evidence.effect_space import (
    TOLERANCE,
    EffectSpace,
    absorbing,
    effect_space,
    space_on_rows,
    taken_over,
)
from treepurify.evidence.held_out import PredictedRows, read_predicted
from treepurify.evidence.losses import LossChoice, loss_words
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport, progress_report
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

# With more effects than this, a tenth of them is left out at once.
_ONE_BY_ONE = 30
# Number of effects, those that cost least, for which refitting the others is tried.
_CANDIDATES = 4
# How closely others are refitted where losses are only compared, or many effects are left.
_ROUGHLY = 1e-7
_MOST_NAMED, _MOST_KEPT = 4, 12
_ABSORBED = {
    "main": "The remaining main effects were adjusted to compensate for what was left out.",
    True: "The remaining effects were adjusted to compensate for what was left out.",
    False: "The remaining effects were not adjusted.",
}


@dataclass(frozen=True)
class PathStep:
    """One step of a simplification.

    Parameters
    ----------
    left_out : tuple of tuple of int
        The effects that this step removed; a remainder is ().
    kept : tuple of tuple of int
        The effects that are left.
    loss : float
        The held-out loss with these effects.
    rise_error : float
        Standard error, over rows, of the difference from the loss of the model; NaN if the loss is
        not a mean over rows.
    """

    left_out: tuple[Subset, ...]
    kept: tuple[Subset, ...]
    loss: float
    rise_error: float = np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Simplification:
    """A decomposition with few effects, and the held-out loss for every number of effects.

    Parameters
    ----------
    model : Decomposition
        The decomposition that was simplified.
    decomposition : Decomposition
        The decomposition with the fewest effects whose loss is within the tolerance.
    loss : str
        The name of the loss.
    n_rows : int
        Number of held-out rows.
    tolerance : float
        Largest relative increase of the loss that was allowed.
    hierarchical : bool
        Whether interactions could stay only together with all effects on subsets of their features.
    absorb : bool or "main"
        The effects that were adjusted to compensate for those removed.
    steps : tuple of PathStep
        The steps from the model down to the intercept.
    chosen : int
        Position of the step of `decomposition`.
    sample : str
        Description of the sample that was drawn from rows in batches; empty if all rows were used.

    See Also
    --------
    treepurify.simplify : Remove effects as long as the held-out loss allows.
    treepurify.plots.simplification : Loss against the number of effects.
    """

    model: Decomposition
    decomposition: Decomposition
    loss: str
    n_rows: int
    tolerance: float
    hierarchical: bool
    absorb: Absorb
    steps: tuple[PathStep, ...]
    chosen: int
    sample: str = ""

    @property
    def model_loss(self) -> float:
        """The held-out loss of the model."""
        return self.steps[0].loss

    def at(self, n_effects: int, *, memory_budget: int = DEFAULT_BUDGET) -> Decomposition:
        """Return the decomposition of the largest step with at most `n_effects` effects.

        Parameters
        ----------
        n_effects : int
            Largest number of effects.
        memory_budget : int
            Bytes that the cells of effects may take if effects are adjusted to compensate.

        Raises
        ------
        MemoryBudgetError
            If the cells would not fit.
        """
        check_whole("n_effects", n_effects, 0)
        step = next(step for step in self.steps if len(step.kept) <= n_effects)
        return only(self.model, step.kept, absorb=self.absorb, memory_budget=memory_budget)

    def to_frame(self) -> "pd.DataFrame":
        """Return the path, one row per step.

        Returns
        -------
        DataFrame
            ``n_effects``, ``loss`` on the held-out rows, ``rise`` (increase relative to the loss of
            the model), ``rise_error`` (its standard error over rows), ``left_out`` (the effects
            that the step removed) and ``is_chosen``.
        """
        import pandas as pd

        size = abs(self.model_loss) or 1.0
        return pd.DataFrame(
            {
                "n_effects": [len(step.kept) for step in self.steps],
                "loss": [step.loss for step in self.steps],
                "rise": [(step.loss - self.model_loss) / size for step in self.steps],
                "rise_error": [step.rise_error / size for step in self.steps],
                "left_out": [self._names(step.left_out) for step in self.steps],
                "is_chosen": [place == self.chosen for place in range(len(self.steps))],
            }
        )

    def _names(self, subsets: tuple[Subset, ...]) -> str:
        return ", ".join(self.model.term_name(subset) or "remainder" for subset in subsets)

    def summary(self) -> list[str]:
        """Return the result in sentences."""
        step, first = self.steps[self.chosen], self.steps[0]
        best = min(self.steps, key=lambda each: each.loss)
        size = abs(first.loss) or 1.0
        loss = f"{loss_words(self.loss)} on {self.n_rows} held-out rows"
        if best.loss < first.loss:
            lines = [
                f"Removing effects improves the {loss} from {first.loss:.4g} to {best.loss:.4g}, "
                f"with {len(best.kept)} of {len(first.kept)} effects."
            ]
        else:
            lines = [f"Removing effects does not improve the {loss}: {first.loss:.4g}."]
        lines.append(
            f"{len(step.kept)} of {len(first.kept)} effects are within {self.tolerance:.2%} of the "
            f"loss of the model: {step.loss:.4g} ({(step.loss - first.loss) / size:+.2%})."
        )
        if step.kept:
            more = len(step.kept) - _MOST_KEPT
            also = f" and {more} more" if more > 0 else ""
            lines.append(f"Kept: {self._names(step.kept[:_MOST_KEPT])}{also}.")
        if self.chosen + 1 < len(self.steps):
            following = self.steps[self.chosen + 1]
            lines.append(
                f"The next step, without {self._names(following.left_out[:_MOST_NAMED])}, has a "
                f"loss of {following.loss:.4g}."
            )
        if self.chosen:
            lines += [
                _ABSORBED[self.absorb],
                "The effects were chosen on these rows, so the loss on new rows will be larger: "
                "measure it there.",
            ]
        return [*lines, self.sample] if self.sample else lines

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame())


def simplify(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    loss: LossChoice = "auto",
    tolerance: float = 0.01,
    hierarchical: bool = True,
    absorb: Absorb | Literal["auto"] = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Simplification:
    """Remove effects one by one, as long as the held-out loss stays within a tolerance.

    Each step removes the effect whose removal raises the loss least; while more than 30 effects are
    left, a step removes a tenth of them. The result is the step with the fewest effects whose loss
    is within the tolerance. This greedy search need not find the best set of that size. The loss is
    slightly optimistic, since the same rows were used to choose the effects; to report it, compute
    it on other rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that the model was not trained on. Of rows in batches (see `purify`), at most
        100 000 are drawn; the result says so.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs), or str
        The observed target, or the name of its column; see `effect_worth`.
    loss : str, tuple or callable
        The loss; see `effect_worth`.
    tolerance : float
        Largest relative increase of the loss, at least 0; 0.01 allows 1%.
    hierarchical : bool
        Whether an interaction may stay only if all effects on subsets of its features stay.
    absorb : bool, "main" or "auto"
        Whether to adjust the remaining effects (or with ``"main"`` the remaining main effects)
        after each step so that they compensate for those removed; see `Decomposition.without`. With
        True and many cells, pairs can overfit single rows. ``"auto"`` is ``"main"`` if the
        decomposition contains the rows of its distribution.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    memory_budget : int
        Bytes that the contributions of all effects may take, and also the limit for their cells.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Simplification
        The simplified decomposition, and the path from the model down to the intercept. Effects are
        on the margin scale, losses in the units of `loss`.

    Raises
    ------
    InvalidInputError
        If the loss does not suit the model or the observations, or an option cannot be used.
    MemoryBudgetError
        If the contributions or the cells would not fit.

    See Also
    --------
    effect_worth : Rise of the held-out loss without each effect.
    Decomposition.only : Retain some effects.
    treepurify.plots.simplification : Loss against the number of effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 4))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=900)
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> simple = tp.simplify(tp.purify(model, X[:300]), X[300:], y[300:])
    >>> [simple.decomposition.term_name(subset) for subset in simple.decomposition]
    ['x0']
    """
    check_number("tolerance", tolerance, least=0)
    check_flag("hierarchical", hierarchical)
    check_result("d", d, Decomposition)
    chosen = _read_absorb(d, absorb)
    report = progress_report(progress)
    rows = read_predicted(d, X, y, loss, sample_weight, memory_budget, report, has_parts=True)
    steps = _Path(d, rows, chosen, hierarchical, memory_budget).walk(report)
    allowed = steps[0].loss + tolerance * abs(steps[0].loss)
    found = min((step for step in steps if step.loss <= allowed), key=lambda step: len(step.kept))
    return Simplification(
        model=d,
        decomposition=only(d, found.kept, absorb=chosen, memory_budget=memory_budget),
        loss=rows.loss.name,
        n_rows=len(rows.shares),
        tolerance=tolerance,
        hierarchical=bool(hierarchical),
        absorb=chosen,
        steps=tuple(steps),
        chosen=steps.index(found),
        sample=rows.words,
    )


def _read_absorb(d: Decomposition, absorb: Absorb | Literal["auto"]) -> Absorb:
    if isinstance(absorb, str) and absorb == "auto":
        return "main" if d.rows is not None else False
    absorbing((), absorb)
    return absorb


class _Path:
    """The effects that are left, and what they add on the held-out rows."""

    def __init__(
        self,
        d: Decomposition,
        rows: PredictedRows,
        absorb: Absorb,
        hierarchical: bool,
        memory_budget: int,
    ) -> None:
        self._d, self._rows, self._absorb = d, rows, absorb
        self._tensors = d.tensor_components()
        # With what each took over; that is zero while all are there.
        self._left = dict(rows.parts)
        self._margin = rows.margin
        # The model without those that went; their sum on the rows of the measure is `_gone_there`.
        self._gone: set[Subset] = set()
        self._bare = rows.margin
        self._larger: dict[Subset, set[Subset]] = {subset: set() for subset in self._left}
        for subset in self._left if hierarchical else ():
            for size in range(1, len(subset)):
                for part in combinations(subset, size):
                    self._larger.get(part, set()).add(subset)
        self._measure: EffectSpace | None = None
        if absorb and not has_independent_effects(d):
            self._measure = effect_space(d, d.components, memory_budget)
            self._there = space_on_rows(d, d.components, rows, memory_budget)
            self._gone_there = np.zeros((len(self._measure.shares), d.n_outputs))

    def walk(self, report: ProgressReport) -> list[PathStep]:
        """Leave out all effects, and return every step, the model first."""
        total = len(self._left)
        steps = [self._step(())]
        while self._left:
            report("leaving effects out", total - len(self._left), total)
            out = self._next()
            self._leave_out(out)
            steps.append(self._step(out))
        return steps

    def _next(self) -> tuple[Subset, ...]:
        """Return the effects to leave out next: those whose absence costs least."""
        costs = {s: self._rows.loss_of(self._margin - own) for s, own in self._left.items()}
        ranked = sorted(costs, key=lambda subset: costs[subset])
        if self._measure is None or len(ranked) > _ONE_BY_ONE:
            count = len(ranked) // 10 if len(ranked) > _ONE_BY_ONE else 1
            out: list[Subset] = []
            for subset in ranked:
                if len(out) < count and self._larger[subset] <= self._gone.union(out):
                    out.append(subset)
            return tuple(out)
        candidates = [s for s in ranked if self._larger[s] <= self._gone][:_CANDIDATES]
        return (self._cheapest(self._measure, candidates),)

    def _cheapest(self, measure: EffectSpace, candidates: Sequence[Subset]) -> Subset:
        """Return the effect without which the loss is lowest after the others were adjusted."""
        losses = {}
        for subset, taken in taken_over(
            measure,
            self._there,
            {subset: self._absorbing(subset) for subset in candidates},
            lambda subset: self._gone_there + self._sum_of(measure, [subset]),
            _ROUGHLY,
        ):
            losses[subset] = self._rows.loss_of(self._bare - self._rows.parts[subset] + taken)
        return min(candidates, key=lambda subset: losses[subset])

    def _sum_of(self, measure: EffectSpace, subsets: Sequence[Subset]) -> Array:
        """Return the sum of some effects on the rows that are the measure."""
        return measure.sum_of({s: self._tensors[s].stored().values for s in subsets if s})

    def _absorbing(self, *more: Subset) -> tuple[Subset, ...]:
        """Return the effects that take over what was left out, and some more."""
        gone = self._gone.union(more)
        return absorbing([subset for subset in self._tensors if subset not in gone], self._absorb)

    def _leave_out(self, out: Sequence[Subset]) -> None:
        self._gone.update(out)
        self._left = {s: own for s, own in self._rows.parts.items() if s not in self._gone}
        self._bare = self._bare - np.sum([self._rows.parts[s] for s in out], axis=0)
        self._margin = self._bare
        if self._measure is None:
            return
        self._gone_there = self._gone_there + self._sum_of(self._measure, out)
        # All that was left out at once: what each step absorbs depends on no other.
        tolerance = _ROUGHLY if len(self._left) > _ONE_BY_ONE else TOLERANCE
        projected = self._measure.project(self._gone_there, self._absorbing(), tolerance)
        kept = {s: c for s, c in self._d.components.items() if s not in self._gone}
        bare = replace(self._d, components=kept)
        added, _ = add_tables(bare, projected.tables, projected.pure)
        self._margin = self._margin + added.intercept - self._d.intercept + projected.mean
        for subset, component in added.components.items():
            if component is not kept.get(subset) and isinstance(component, TensorComponent):
                values = self._there.sum_of({subset: component.values})
                self._margin += values - self._left[subset]
                self._left[subset] = values

    def _step(self, out: Sequence[Subset]) -> PathStep:
        """Return what is left; the error is that of a mean over rows, where the loss is one."""
        error, rows = np.nan, self._rows
        if rows.loss.of_rows is not None:
            rise = rows.loss.of_rows(self._margin) - rows.loss.of_rows(rows.margin)
            centred = rise - (rows.shares * rise).sum()
            error = float(np.sqrt(((rows.shares * centred) ** 2).sum()))
        return PathStep(tuple(out), tuple(self._left), rows.loss_of(self._margin), error)
