"""A simplified decomposition, and the path on which effects were left out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Absorb, Decomposition
from treepurify.grids.grid import Subset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PathStep", "Simplification"]

_MOST_NAMED = 4
_ABSORBED = {
    "main": "The main effects that stay took over what they could of those left out.",
    True: "The effects that stay took over what they could of those left out.",
    False: "The effects that stay took over nothing of those left out.",
}


@dataclass(frozen=True)
class PathStep:
    """One step of leaving effects out.

    Parameters
    ----------
    left_out : tuple of tuple of int
        The effects that this step left out; the remainder as ().
    kept : tuple of tuple of int
        The effects that are left.
    loss : float
        The held-out loss with them.
    rise_error : float
        Standard error, over rows, of the rise from the loss of the model; NaN where the loss is
        not a mean over rows.
    """

    left_out: tuple[Subset, ...]
    kept: tuple[Subset, ...]
    loss: float
    rise_error: float = np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Simplification:
    """A decomposition with few effects, and how the loss rises with fewer.

    Parameters
    ----------
    model : Decomposition
        The decomposition that was simplified.
    decomposition : Decomposition
        The fewest effects of the path within the tolerance.
    loss : str
        The loss.
    n_rows : int
        Number of held-out rows.
    tolerance : float
        By what share of its own size the loss might rise.
    hierarchical : bool
        Whether interactions stayed only with all effects on subsets of their features.
    absorb : bool or "main"
        Which effects absorbed parts of those that were left out.
    steps : tuple of PathStep
        From the model to the intercept alone.
    chosen : int
        Position of the step that `decomposition` is.
    sample : str
        What sample of rows in batches the held-out rows are; empty where they are all.
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
        """Return the decomposition of the largest step with at most so many effects.

        Parameters
        ----------
        n_effects : int
            The most effects.
        memory_budget : int
            Bytes that the cells of effects may take where others absorb what they can.

        Raises
        ------
        MemoryBudgetError
            If the cells would not fit.
        """
        from treepurify.evidence.editing import only

        check_whole("n_effects", n_effects, 0)
        step = next(step for step in self.steps if len(step.kept) <= n_effects)
        return only(self.model, step.kept, absorb=self.absorb, memory_budget=memory_budget)

    def to_frame(self) -> "pd.DataFrame":
        """Return the path, one row per step.

        Returns
        -------
        DataFrame
            ``n_effects``, ``loss`` on the held-out rows, ``rise`` over the model's as a share of
            it, ``rise_error`` (standard error over rows, as the same share), ``left_out`` (the
            effects that the step left out) and ``is_chosen``.
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
        loss = self.loss.replace("_", " ")
        lines = [
            f"{len(step.kept)} of {len(first.kept)} effects are within {self.tolerance:.2%} of the "
            f"{loss} on {self.n_rows} held-out rows: {step.loss:.6g} with them, "
            f"{first.loss:.6g} with all ({(step.loss - first.loss) / size:+.2%})."
        ]
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
                f"The next step, without {self._names(following.left_out[:_MOST_NAMED])}, has "
                f"{following.loss:.6g}."
            )
        return [*lines, self.sample] if self.sample else lines

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        from html import escape

        lines = "".join(f"<p>{escape(line)}</p>" for line in self.summary())
        table = self.to_frame().to_html(index=False, float_format=lambda x: f"{x:.4g}", border=0)
        return f"{lines}{table}"
