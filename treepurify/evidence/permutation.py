"""By how much the loss rises where the values of one feature are those of other rows."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_flag_or, check_whole
from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import (
    Component,
    TensorComponent,
    evaluate_each,
    locate_cells,
)
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.held_out import HeldOutRows, read_held_out
from treepurify.evidence.losses import LossChoice
from treepurify.progress import progress_report
from treepurify.remainder import Difference, Function
from treepurify.typing import Array, Cells, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["permutation_importance"]

# Evaluations of effects that averaging over all values of one feature may take.
_MUCH_WORK = 5e7
# Margins of all rows at some of the values.
_MARGINS_A_BLOCK = 1 << 22


def permutation_importance(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    loss: LossChoice = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    exact: bool | Literal["auto"] = "auto",
    n_repeats: int = 20,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> "pd.DataFrame":
    """Return how much the loss rises when the values of a feature are shuffled among the rows.

    `sklearn.inspection.permutation_importance` estimates this number from a few random shuffles.
    Here it is computed exactly if possible: effects are constant within cells, so the mean over the
    values of *all* rows is a sum over the cells of the feature. The table also has shares of the
    variance.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows, preferably rows that the model was not trained on. For rows in batches (see
        `purify`), a sample of 100 000 rows is drawn in two passes; ``attrs["rows"]`` of the table
        says so.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs), or str
        The observed target; see `effect_worth`.
    loss : str, tuple or callable
        The loss; see `effect_worth`.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. It also weights the row's value when other rows
        receive it.
    exact : bool or "auto"
        Whether to average over the values of all rows. ``"auto"`` does so for each feature for
        which this is not too much work, if the loss is a mean over rows; otherwise the feature is
        shuffled.
    n_repeats : int
        Number of shuffles of a feature.
    seed : int
        Seed of the shuffling.
    memory_budget : int
        Bytes that the contributions of all effects may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    DataFrame
        One row per feature, the most important first. ``importance`` is the rise of the loss, in
        the units of `loss` (the mean over the rows), and ``standard_error`` is the standard error
        of its mean over the shuffles; it is 0 if ``exact`` is true. Shares refer to the sum of the
        variances of all effects: in ``variance_share`` the variance of an effect is split evenly
        among its features, in ``total_share`` it counts in full for each of them. The remainder
        takes part in the shuffling, but not in the shares.

    Raises
    ------
    InvalidInputError
        If the loss does not suit the model or the observations, or an option cannot be used.
    MemoryBudgetError
        If the contributions would not fit.

    See Also
    --------
    effect_worth : Rise of the held-out loss without each effect.
    Decomposition.importance : The table of all effects.

    Notes
    -----
    If features depend on each other, shuffling creates rows that may be unlike any in the data, as
    partial dependence does. `effect_worth` evaluates effects only at the rows themselves.

    References
    ----------
    Fisher, Rudin and Dominici 2019, "All models are wrong, but many are useful", equation 3.5,
    except that a row may also receive its value from itself; Breiman 2001, "Random forests".

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 1, 1]), X)
    >>> tp.permutation_importance(d, X, [0, 0, 1, 1])[["feature", "importance", "exact"]]
      feature  importance  exact
    0      x0         0.5   True
    1      x1         0.0   True
    """
    import pandas as pd

    check_whole("n_repeats", n_repeats, 2)
    check_whole("seed", seed, 0)
    check_flag_or("exact", exact, "auto")
    report = progress_report(progress)
    held_out = read_held_out(d, X, y, loss, sample_weight, memory_budget, report)
    if exact is True and held_out.loss.of_rows is None:
        raise InvalidInputError(
            f"the loss {held_out.loss.name!r} is not a mean over rows, so its mean over all "
            'values of a feature is unknown; pass exact="auto"'
        )
    base = held_out.loss.mean(held_out.margin, held_out.shares)
    rng = np.random.default_rng(seed)
    found = []
    for j, name in enumerate(d.feature_names):
        report("exchanging values", j, len(d.feature_names))
        parts = _PartsByFeature(d, held_out, j)
        lent = parts.rows_that_lend() if held_out.loss.of_rows is not None else None
        is_exact = lent is not None and (exact is True or (exact == "auto" and parts.work(lent)))
        if not parts.components:
            risen, error, is_exact = base, 0.0, True
        elif is_exact and lent is not None:
            risen, error = parts.mean_loss(*lent), 0.0
        else:
            risen, error = parts.shuffled_loss(rng, n_repeats)
        found.append((name, risen - base, error, bool(is_exact)))
    columns = ["feature", "importance", "standard_error", "exact"]
    table = pd.DataFrame(found, columns=columns).assign(**_variance_shares(d))
    if held_out.words:
        table.attrs["rows"] = held_out.words
    return table.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


class _PartsByFeature:
    """What depends on one feature, and what does not.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    held_out : HeldOutRows
        The rows.
    feature : int
        Position of the feature.
    """

    def __init__(self, d: Decomposition, held_out: HeldOutRows, feature: int) -> None:
        self.held_out, self.feature = held_out, feature
        every: list[Component] = [*d.components.values()]
        rest = d.remainder
        self.function: Function | None = None
        is_all = isinstance(rest, Difference) and rest.is_beyond(every)
        if rest is not None:
            every.append(rest)
        self.components = [part for part in every if feature in part.features]
        if isinstance(rest, Difference) and is_all:
            # Effects and what they leave are the function again: less work, and of trees only
            # those change that test the feature.
            self.function = rest.function.part_along((feature,))
            is_part = self.function is not rest.function
            changing = self.function(held_out.columns) if is_part else held_out.margin
        else:
            own = [k for k, part in enumerate(every) if feature in part.features]
            changing = held_out.contributions[own].sum(axis=0)
        self.fixed = held_out.margin - changing
        self.others = [part for part in self.components if not isinstance(part, TensorComponent)]

    @cached_property
    def tables(self) -> list[tuple[TensorComponent, Cells]]:
        """The tables with the cells of all rows: a lent value is in the cell of its lender."""
        tables = [part for part in self.components if isinstance(part, TensorComponent)]
        return [(part, self._cells(part)) for part in tables]

    def rows_that_lend(self) -> tuple[Indices, Array]:
        """Return one row for each cell that rows are in, and the share of the rows there."""
        values, shares = self.held_out.columns.values[self.feature], self.held_out.shares
        f = self.function
        same = values if f is None else f.alike_along(self.feature, values)
        _, lenders, place = np.unique(same, return_index=True, return_inverse=True)
        mass = np.bincount(place.ravel(), shares, minlength=len(lenders))
        if not self.others and self.tables:
            codes = [cells[part.features.index(self.feature)] for part, cells in self.tables]
            _, first, cell = np.unique(
                np.stack(codes)[:, lenders], axis=1, return_index=True, return_inverse=True
            )
            lenders, mass = lenders[first], np.bincount(cell.ravel(), mass, minlength=len(first))
        return lenders, np.asarray(mass, dtype=np.float64)

    def work(self, lent: tuple[Indices, Array]) -> bool:
        """Return whether averaging over these values is little work."""
        n_rows, n_outputs = self.fixed.shape
        is_quick = self.function is not None and self.function.is_quick_along
        n_parts = n_outputs if is_quick else len(self.components)
        return bool(len(lent[0]) * n_rows * n_parts <= _MUCH_WORK)

    def mean_loss(self, lenders: Indices, mass: Array) -> float:
        """Return the loss where every row has the value of each lender, by their mass."""
        of_rows, shares = self.held_out.loss.of_rows, self.held_out.shares
        if of_rows is None:
            raise ValueError("the loss is not a mean over rows")
        lenders, mass = lenders[mass > 0], mass[mass > 0]
        losses = [float(shares @ of_rows(margin)) for margin in self._margins(lenders)]
        return float(mass @ losses)

    def shuffled_loss(self, rng: np.random.Generator, n_repeats: int) -> tuple[float, float]:
        """Return the mean loss over random orders of the column, and its standard error."""
        shares = self.held_out.shares
        losses = []
        for _ in range(n_repeats):
            if np.all(shares == shares[0]):
                rows: Indices = rng.permutation(len(shares))
            else:
                rows = rng.choice(len(shares), size=len(shares), p=shares)
            losses.append(self.held_out.loss.mean(self._margin(rows), shares))
        return float(np.mean(losses)), float(np.std(losses, ddof=1) / np.sqrt(n_repeats))

    def _cells(self, part: TensorComponent) -> Cells:
        """Return the cells of all rows in a table."""
        axes = zip(part.features, part.axes, strict=True)
        return np.stack([locate_cells(self.held_out.columns, j, axis) for j, axis in axes])

    def _margins(self, lenders: Indices) -> Iterator[Array]:
        """Yield the margin of all rows with the value of one lender, for each of them."""
        n_rows, n_outputs = self.fixed.shape
        if self.function is None:
            yield from (self._margin(np.full(n_rows, lender)) for lender in lenders)
            return
        columns, size = self.held_out.columns, max(_MARGINS_A_BLOCK // (n_rows * n_outputs), 1)
        for start in range(0, len(lenders), size):
            lent = columns.values[self.feature][lenders[start : start + size]]
            for values in self.function.values_along(columns, self.feature, lent):
                yield self.fixed + values

    def _margin(self, lenders: Indices) -> Array:
        """Return the margin of all rows, each with the feature's value of another row."""
        columns = self.held_out.columns
        changed = columns.with_values(self.feature, columns.values[self.feature][lenders])
        if self.function is not None:
            return self.fixed + self.function(changed)
        margin = self.fixed.copy()
        for added in evaluate_each(self.others, changed):
            margin += added
        for part, cells in self.tables:
            position, lent = part.features.index(self.feature), cells.copy()
            lent[position] = cells[position, lenders]
            margin += part.on_cells(lent)
        return np.asarray(margin)


def _variance_shares(d: Decomposition) -> dict[str, Array]:
    """Return the shares of the variance of the components that features have."""
    split, total = np.zeros(len(d.feature_names)), np.zeros(len(d.feature_names))
    for subset, component in d.components.items():
        size = float(np.sum(component.variance))
        split[list(subset)] += size / len(subset)
        total[list(subset)] += size
    whole = float(split.sum()) or 1.0
    return {"variance_share": split / whole, "total_share": total / whole}
