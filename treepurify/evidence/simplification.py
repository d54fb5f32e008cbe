"""The fewest effects within a tolerance of the held-out loss: one after the other is left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag, check_number, check_result, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import TensorComponent
from treepurify.decomposition import Absorb, Decomposition
from treepurify.evidence.editing import REMAINDER, add_tables, has_independent_effects, only
from treepurify.evidence.effect_space import (
    EffectSpace,
    Projected,
    absorbing,
    effect_space,
    space_on_rows,
)
from treepurify.evidence.held_out import HeldOutRows, read_held_out
from treepurify.evidence.losses import LossChoice, loss_words
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport, progress_report
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PathStep", "Simplification", "simplify"]

# With more effects than this, a tenth of them is left out at once.
_ONE_BY_ONE = 30
# Number of effects, those that cost least, for which refitting the others is tried.
_CANDIDATES = 4
_MOST_NAMED = 4
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
        size = abs(first.loss) or 1.0
        loss = loss_words(self.loss)
        lines = [
            f"{len(step.kept)} of {len(first.kept)} effects are within {self.tolerance:.2%} of the "
            f"{loss} on {self.n_rows} held-out rows: {step.loss:.6g} with them, "
            f"{first.loss:.6g} with all ({(step.loss - first.loss) / size:+.2%})."
        ]
        if self.chosen:
            lines.append(
                "The effects were chosen on these rows, so the loss on new rows will be larger: "
                "measure it there."
            )
        if step.kept:
            lines.append(f"Kept: {self._names(step.kept)}.")
        if self.chosen:
            lines.append(_ABSORBED[self.absorb])
        best = min(self.steps, key=lambda each: each.loss)
        if best.loss < first.loss:
            lines.append(
                f"The lowest loss of the path is {best.loss:.6g}, with {len(best.kept)} effects."
            )
        if self.chosen + 1 < len(self.steps):
            following = self.steps[self.chosen + 1]
            lines.append(
                f"The next step, without {self._names(following.left_out[:_MOST_NAMED])}, has a "
                f"loss of {following.loss:.6g}."
            )
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
    held_out = read_held_out(d, X, y, loss, sample_weight, memory_budget, report)
    path = _Path(d, held_out, chosen, hierarchical, memory_budget)
    steps = path.walk(report)
    allowed = steps[0].loss + tolerance * abs(steps[0].loss)
    found = min((step for step in steps if step.loss <= allowed), key=lambda step: len(step.kept))
    return Simplification(
        model=d,
        decomposition=only(d, found.kept, absorb=chosen, memory_budget=memory_budget),
        loss=held_out.loss.name,
        n_rows=len(held_out.shares),
        tolerance=tolerance,
        hierarchical=bool(hierarchical),
        absorb=chosen,
        steps=tuple(steps),
        chosen=steps.index(found),
        sample=held_out.words,
    )


def _read_absorb(d: Decomposition, absorb: Absorb | Literal["auto"]) -> Absorb:
    if isinstance(absorb, str) and absorb == "auto":
        return "main" if d.rows is not None else False
    absorbing((), absorb)
    return absorb


@dataclass(frozen=True, eq=False)
class _Spaces:
    """The cells of all effects on the rows of the measure, and on the held-out rows."""

    measure: EffectSpace
    there: EffectSpace


class _Path:
    """The effects that are left, and what they add on the held-out rows."""

    def __init__(
        self,
        d: Decomposition,
        held_out: HeldOutRows,
        absorb: Absorb,
        hierarchical: bool,
        memory_budget: int,
    ) -> None:
        self._d = d
        self._held_out = held_out
        self._absorb = absorb
        self._hierarchical = hierarchical
        self._spaces = None
        if absorb and not has_independent_effects(d):
            cells = (d, d.components, held_out.columns, held_out.shares, memory_budget)
            self._spaces = _Spaces(
                effect_space(d, d.components, memory_budget), space_on_rows(*cells)
            )
        self._own = dict(zip(held_out.subsets, held_out.contributions, strict=True))
        # With what each took over; that is zero while all are there.
        self._added = dict(self._own)
        # The model without those that went, and their sum on the rows of the measure.
        self._bare = self._margin = held_out.margin
        self._gone_there: Array | float = 0.0
        self._before = self._losses(self._margin)

    def walk(self, report: ProgressReport) -> list[PathStep]:
        """Leave out all effects, and return every step, the model first."""
        total = len(self._added)
        steps = [self._step((), self._margin)]
        while self._added:
            report("leaving effects out", total - len(self._added), total)
            out = self._next()
            self._leave_out(out)
            steps.append(self._step(out, self._margin))
        return steps

    def _next(self) -> tuple[Subset, ...]:
        """Return the effects to leave out next."""
        if len(self._added) > _ONE_BY_ONE:
            return self._cheapest(len(self._added) // 10)
        if self._spaces is None:
            return self._cheapest(1)
        candidates = self._ranked()[:_CANDIDATES]
        losses = [self._loss(self._margin_without(subset)) for subset in candidates]
        return (candidates[int(np.argmin(losses))],)

    def _cheapest(self, count: int) -> tuple[Subset, ...]:
        out: list[Subset] = []
        for subset in self._ranked(everything=True):
            if len(out) < count and self._may_go(subset, out):
                out.append(subset)
        return tuple(out)

    def _ranked(self, *, everything: bool = False) -> list[Subset]:
        """Return the effects that may go, or all, by what their absence alone costs."""
        subsets = [s for s in self._added if everything or self._may_go(s, ())]
        losses = [self._loss(self._margin - self._added[subset]) for subset in subsets]
        return [subsets[i] for i in np.argsort(losses, kind="stable")]

    def _may_go(self, subset: Subset, gone: Sequence[Subset]) -> bool:
        if not self._hierarchical or subset == REMAINDER:
            return True
        return not any(
            other not in gone and len(other) > len(subset) and set(subset) < set(other)
            for other in self._added
        )

    def _margin_without(self, subset: Subset) -> Array:
        """Return the margin without an effect, of which others absorbed what they can."""
        margin = self._bare - self._own[subset]
        if self._spaces is None:
            return np.asarray(margin)
        gone = self._gone_there + self._on_measure(self._spaces, [subset])
        projected = self._project(self._spaces, gone, [*self._gone(), subset])
        absorbed = projected.mean + self._spaces.there.sum_of(projected.tables)
        return np.asarray(margin + absorbed)

    def _gone(self) -> list[Subset]:
        return [subset for subset in self._own if subset not in self._added]

    def _on_measure(self, spaces: _Spaces, subsets: Sequence[Subset]) -> Array:
        """Return the sum of some effects on the rows that are the measure."""
        tensors = self._d.tensor_components()
        values = {s: tensors[s].stored().values for s in subsets if s != REMAINDER}
        return spaces.measure.sum_of(values)

    def _project(self, spaces: _Spaces, function: Array, gone: Sequence[Subset]) -> Projected:
        """Project all that was left out at once: what each step absorbs depends on no other."""
        kept = [s for s in self._d.tensor_components() if s not in gone]
        return spaces.measure.project(function, absorbing(kept, self._absorb))

    def _leave_out(self, out: Sequence[Subset]) -> None:
        for subset in out:
            del self._added[subset]
        gone = self._gone()
        self._added = {subset: self._own[subset] for subset in self._added}
        self._bare = self._bare - np.sum([self._own[s] for s in out], axis=0)
        self._margin = self._bare
        if self._spaces is None:
            return
        self._gone_there = self._gone_there + self._on_measure(self._spaces, out)
        projected = self._project(self._spaces, self._gone_there, gone)
        kept = {s: c for s, c in self._d.components.items() if s not in gone}
        added = add_tables(replace(self._d, components=kept), projected.tables, projected.pure)
        self._margin = self._margin + added.intercept - self._d.intercept + projected.mean
        for subset, component in added.components.items():
            before = kept.get(subset)
            if component is not before and isinstance(component, TensorComponent):
                values = self._spaces.there.sum_of({subset: component.values})
                self._margin += values - self._added[subset]
                self._added[subset] = values

    def _loss(self, margin: Array) -> float:
        return self._held_out.loss.mean(margin, self._held_out.shares)

    def _losses(self, margin: Array) -> Array | None:
        of_rows = self._held_out.loss.of_rows
        return None if of_rows is None else of_rows(margin)

    def _step(self, out: Sequence[Subset], margin: Array) -> PathStep:
        """Return what is left; the error is that of a mean over rows, where the loss is one."""
        error = np.nan
        after = self._losses(margin)
        if after is not None and self._before is not None:
            shares = self._held_out.shares
            rise = after - self._before
            centred = rise - (shares * rise).sum()
            error = float(np.sqrt(((shares * centred) ** 2).sum()))
        return PathStep(tuple(out), tuple(self._added), self._loss(margin), error)
