"""What effects are worth, as a table and in words."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_whole
from treepurify.decomposition import Absorb, Decomposition
from treepurify.errors import UnknownComponentError
from treepurify.evidence.losses import loss_words
from treepurify.frozen import FrozenMapping
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.terms import in_digits
from treepurify.typing import Array

if TYPE_CHECKING:
    import pandas as pd


_MOST_LINES = 12


@dataclass(frozen=True, eq=False, repr=False)
class EffectWorth:
    """The rise of the loss on held-out rows when each effect is left out.

    Parameters
    ----------
    decomposition : Decomposition
        The effects.
    loss : str
        The name of the loss.
    n_rows : int
        Number of rows.
    model_loss, intercept_loss : float
        The loss of the model, and of its intercept alone.
    subsets : tuple of tuple of int
        The features of each effect; a remainder is ().
    worth : ndarray of float64, shape (n_effects,)
        Rise of the loss when the effect is left out and all other effects stay the same.
    low, high : ndarray of float64, shape (n_effects,)
        Limits of the bootstrap interval of `worth`; NaN without a bootstrap. It describes the
        variation over other rows, not over other trainings.
    standard_error : ndarray of float64, shape (n_effects,)
        Standard deviation of `worth` over the bootstrap samples.
    coverage : float
        Nominal coverage of the interval.
    n_bootstrap, seed : int
        Number of bootstrap samples, and their seed.
    absorb : bool or "main"
        The effects that were adjusted to compensate in `worth_absorbed`: all, main effects, or
        none.
    worth_absorbed : ndarray of float64, shape (n_effects,), optional
        Rise of the loss after the remaining effects have been adjusted to compensate; NaN for the
        remainder.
    shapley : ndarray of float64, shape (n_effects,), optional
        For a squared error without a link: the rise of the loss, averaged over all orders in which
        effects can be left out; these numbers sum to ``intercept_loss - model_loss``.
    notes : tuple of str
        The numbers that were not computed, and the reasons.
    rows_fingerprint : str
        SHA-256 of the rows as they were read, the target and the weights.

    See Also
    --------
    treepurify.effect_worth : Compute the worth of effects.
    treepurify.plots.worth : Figure of the worth of effects.
    """

    decomposition: Decomposition
    loss: str
    n_rows: int
    model_loss: float
    intercept_loss: float
    subsets: tuple[Subset, ...]
    worth: Array
    low: Array
    high: Array
    standard_error: Array
    coverage: float
    n_bootstrap: int
    seed: int
    absorb: Absorb = False
    worth_absorbed: Array | None = None
    shapley: Array | None = None
    notes: tuple[str, ...] = ()
    rows_fingerprint: str = ""

    def of(self, key: str | int | tuple[str | int, ...]) -> "FrozenMapping[str, float]":
        """Return the numbers of one effect, named as in ``d[key]`` or as in the table.

        Raises
        ------
        UnknownComponentError
            If there is no such effect.
        """
        from treepurify.evidence.editing import read_terms

        (subset,) = read_terms(self.decomposition, [key])
        if subset not in self.subsets:
            raise UnknownComponentError(f"no worth of {key!r} was computed")
        place = self.subsets.index(subset)
        return FrozenMapping({name: float(values[place]) for name, values in self._numbers()})

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per effect, the largest worth first.

        Returns
        -------
        DataFrame
            ``term``, ``order``, ``size`` and ``share`` (as in `Decomposition.importance`),
            ``worth``, ``low`` and ``high``, ``standard_error``, ``worth_share`` (worth divided by
            ``intercept_loss - model_loss``; NaN if the model has no lower loss than its intercept),
            and ``worth_absorbed`` and ``shapley`` if they were computed.
        """
        import pandas as pd

        d = self.decomposition
        lines = [d.ranking.by_effect[subset] for subset in self.subsets]
        order = 1 + max(map(len, d.components), default=0)
        columns: dict[str, Any] = {
            "term": [d.term_name(subset) or "remainder" for subset in self.subsets],
            "order": [len(subset) or order for subset in self.subsets],
            "size": [line.size for line in lines],
            "share": [line.share for line in lines],
            **dict(self._numbers()),
        }
        frame = pd.DataFrame(columns)
        return frame.sort_values("worth", ascending=False, kind="stable").reset_index(drop=True)

    def _numbers(self) -> list[tuple[str, Array]]:
        gain = self.intercept_loss - self.model_loss
        numbers = [
            ("worth", self.worth),
            ("low", self.low),
            ("high", self.high),
            ("standard_error", self.standard_error),
            ("worth_share", self.worth / gain if gain > 0 else np.full_like(self.worth, np.nan)),
        ]
        if self.worth_absorbed is not None:
            numbers.append(("worth_absorbed", self.worth_absorbed))
        if self.shapley is not None:
            numbers.append(("shapley", self.shapley))
        return numbers

    def ends(self, most: int) -> tuple["pd.DataFrame", "pd.DataFrame", str]:
        """Return at most `most` rows of `to_frame`, from both ends, and describe those in between.

        Harmful effects matter as much as helpful ones, so up to half of the rows are the effects
        with the lowest negative worth.

        Parameters
        ----------
        most : int
            Number of rows.

        Returns
        -------
        first, last : DataFrame
            The rows with the largest and the lowest worth.
        between : str
            Number of rows in between and the range of their worth; empty if there are none.
        """
        check_whole("most", most, 0)
        frame = self.to_frame()
        left_out = len(frame) - most
        if left_out <= 0:
            return frame, frame.iloc[:0], ""
        # What has no worth that is known stands at the end, and is not the lowest.
        known = frame["worth"].notna()
        n_last = min(int((frame["worth"] < 0).sum()), most // 2)
        last = frame[known].tail(n_last)
        first = frame.drop(last.index).head(most - n_last)
        rest = frame["worth"].drop(last.index).iloc[len(first) :].dropna()
        words = f"{left_out} more"
        if len(rest):
            ends = in_digits(rest.iloc[0], 3), in_digits(rest.iloc[-1], 3)
            words += f", with a worth of {ends[0]} to {ends[1]}"
        return first, last, words

    def summary(self, most: int = _MOST_LINES) -> list[str]:
        """Return the result as text, including the `most` effects of largest and lowest worth."""
        first, last, between = self.ends(most)
        lines = [
            f"The {loss_words(self.loss)} on {self.n_rows} held-out rows is {self.model_loss:.4g} "
            f"for the model and {self.intercept_loss:.4g} for its intercept alone. "
            f"{self._what_matters()}"
        ]
        if most:
            interval = ""
            if self.n_bootstrap:
                interval = f", {self.coverage:.0%} interval over {self.n_bootstrap} draws of rows"
            lines.append(f"Rise of the loss without each effect{interval}:")
        lines += self._lines(first)
        lines += [f"  ... {between}"] * bool(between)
        return [*lines, *self._lines(last), *self.notes]

    def _what_matters(self) -> str:
        """Return how many effects make the loss worse, and what the most important one does."""
        is_harmful = (self.high if self.n_bootstrap else self.worth) < 0
        n_harmful = int(is_harmful.sum())
        if not np.isfinite(self.worth).any():
            return ""
        worst = int(np.argmin(np.where(is_harmful, self.worth, np.inf)))
        place = worst if n_harmful else int(np.nanargmax(self.worth))
        name = self.decomposition.term_name(self.subsets[place]) or "the remainder"
        becomes = f"without {name}, it is {self.model_loss + self.worth[place]:.4g}"
        if not n_harmful:
            return f"No effect clearly makes it worse; {becomes}."
        makes = "1 effect makes" if n_harmful == 1 else f"{n_harmful} effects make"
        return f"{makes} it worse (tp.simplify): {becomes}."

    def _lines(self, rows: "pd.DataFrame") -> list[str]:
        lines = []
        for row in rows.to_dict("records"):
            line = f"  {in_digits(row['worth']):>10}"
            if self.n_bootstrap:
                line += f" ({in_digits(row['low'], 3)} to {in_digits(row['high'], 3)})"
            line += f"  {row['term']}, size {in_digits(row['size'], 3)}"
            if np.isfinite(row["worth_share"]):
                # Zero has no sign.
                line += f", {round(row['worth_share'], 3) + 0.0:.1%} of the explained loss"
            lines.append(line)
        return lines

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary([self.summary()[0], *self.notes], self.to_frame())
