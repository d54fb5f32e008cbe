"""Drift between two data sets: mean margins effect by effect, distributions, values, and loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result, check_whole, read_names
from treepurify.budget import DEFAULT_BUDGET
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import LossChoice, read_loss
from treepurify.evidence.resampling import Intervals
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport, progress_report
from treepurify.remainder import used_features
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import given_rows
from treepurify.rows.row_weights import RowWeights, counted_rows, read_row_weights
from treepurify.rows.tables import check_any_rows
from treepurify.terms import in_digits
from treepurify.typing import Array, Indices, Mask
from treepurify.validation.distributions import (
    DistributionShift,
    equal_but_for_rounding,
    level_shift,
    number_shift,
)
from treepurify.validation.group_sums import Draws, PartSums, group_sums, side_by_side
from treepurify.validation.mean_differences import MeanDifferences, mean_differences, read_draws

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Drift", "DriftLoss", "FeatureDrift", "drift"]

_MOST_NAMED = 5
_ARGUMENTS = ("X_before", "X_after")


@dataclass(frozen=True)
class FeatureDrift:
    """Change of the distribution of one feature.

    Parameters
    ----------
    name : str
        The feature.
    shift : DistributionShift
        Change of its distribution.
    missing_before, missing_after : float
        Share of the rows in which it is missing.
    below, above : float
        Share of the later rows with numbers below the smallest, and above the largest, of the
        earlier ones; NaN for labels.
    new_levels : float
        Share of the later rows with labels that no earlier row has; NaN for numbers.
    new_level_names : tuple of str
        Names of these labels if the model contains them; ``"unknown to the model"`` for others.
    """

    name: str
    shift: DistributionShift
    missing_before: float
    missing_after: float
    below: float
    above: float
    new_levels: float
    new_level_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DriftLoss:
    """The loss on both data sets.

    Parameters
    ----------
    name : str
        The name of the loss.
    before, after : float
        The mean loss of the earlier and of the later rows.
    rise : Intervals of shape ()
        Their difference, with its bootstrap interval.
    """

    name: str
    before: float
    after: float
    rise: Intervals


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """How predictions, effects and features moved between two data sets.

    Parameters
    ----------
    differences : MeanDifferences
        Difference of mean margins and its parts, the differences of the mean effects, with the
        number of rows of each data set.
    scores : tuple of DistributionShift
        Change of the distribution of the margin, by output.
    effects : tuple of tuple of DistributionShift
        Change of the distribution of each effect, in the order of ``differences.subsets``, by
        output.
    features : tuple of FeatureDrift
        Change of each feature that the model uses.
    loss : DriftLoss, optional
        The losses on both data sets, if observed targets were passed.
    notes : tuple of str
        Notes on the rows, such as that a sample was drawn.

    See Also
    --------
    treepurify.drift : Change between two data sets.
    treepurify.plots.mean_difference : Figure of a gap or a drift.
    """

    differences: MeanDifferences
    scores: tuple[DistributionShift, ...]
    effects: tuple[tuple[DistributionShift, ...], ...]
    features: tuple[FeatureDrift, ...]
    loss: DriftLoss | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per effect and output, the largest difference of means first.

        Returns
        -------
        DataFrame
            The columns of `GroupGap.to_frame` without those of rates, the first data set being the
            earlier one; and for the distribution of each effect ``psi`` (population stability
            index), ``psi_limit`` (its 95% limit if nothing changed) and ``wasserstein``
            (Wasserstein distance, on the margin scale).
        """
        frame, found = self.differences.to_frame(), self.differences
        output_names = found.decomposition.output_names
        places = {found.term_name(i): i for i in range(len(found.subsets))}
        outputs = frame["output"] if "output" in frame else [output_names[0]] * len(frame)
        shifts = [
            self.effects[places[term]][output_names.index(output)]
            for term, output in zip(frame["term"], outputs, strict=True)
        ]
        return frame.assign(
            psi=[shift.psi for shift in shifts],
            psi_limit=[shift.psi_limit for shift in shifts],
            wasserstein=[shift.wasserstein for shift in shifts],
        )

    def features_frame(self) -> "pd.DataFrame":
        """Return one row per feature, the largest stability index first.

        Returns
        -------
        DataFrame
            ``feature``, ``psi`` (population stability index), ``psi_limit`` (its 95% limit if
            nothing changed), ``wasserstein`` (Wasserstein distance in the units of the feature; NaN
            for labels), ``missing_before`` and ``missing_after`` (shares of missing values),
            ``below`` and ``above`` (share of the later rows outside the range of the earlier ones),
            ``new_levels`` and ``new_level_names`` (share and names of labels that no earlier row
            has).
        """
        import pandas as pd

        rows = [
            {
                "feature": one.name,
                "psi": one.shift.psi,
                "psi_limit": one.shift.psi_limit,
                "wasserstein": one.shift.wasserstein,
                "missing_before": one.missing_before,
                "missing_after": one.missing_after,
                "below": one.below,
                "above": one.above,
                "new_levels": one.new_levels,
                "new_level_names": ", ".join(one.new_level_names),
            }
            for one in self.features
        ]
        frame = pd.DataFrame(rows)
        return (
            frame
            if frame.empty
            else frame.sort_values("psi", ascending=False, kind="stable", ignore_index=True)
        )

    def summary(self, top: int = 5) -> list[str]:
        """Return the drift in sentences, with the `top` largest effects of each output."""
        check_whole("top", top, 0)
        found = self.differences
        lines = [
            f"{found.names[0]}: {found.n_rows[0]} rows; {found.names[1]}: {found.n_rows[1]} rows.",
            *found.sentences(top),
        ]
        for name, shift in zip(found.decomposition.output_names, self.scores, strict=True):
            which = f" of {name}" if len(self.scores) > 1 else ""
            lines.append(
                f"The stability index of the margin{which} is {shift.psi:.4g} (up to "
                f"{shift.psi_limit:.2g} in 95% of samples without drift), its Wasserstein "
                f"distance {shift.wasserstein:.4g}."
            )
        lines.append(self._moved())
        lines += [line for line in map(_values_sentence, self.features) if line]
        if self.loss is not None:
            low, high = float(self.loss.rise.low), float(self.loss.rise.high)
            ends = in_digits(low, sign=True), in_digits(high, sign=True)
            interval = f" ({found.coverage:.0%} interval {ends[0]} to {ends[1]})"
            lines.append(
                f"The {self.loss.name.replace('_', ' ')} is {in_digits(self.loss.after)} after and "
                f"{in_digits(self.loss.before)} before: "
                f"{in_digits(float(self.loss.rise.value), sign=True)}"
                f"{interval if np.isfinite(low) else ''}."
            )
        return [*lines, *self.notes]

    def _moved(self) -> str:
        moved = sorted(
            (one for one in self.features if one.shift.is_clear), key=lambda one: -one.shift.psi
        )
        if not moved:
            return f"None of {len(self.features)} features has an index above that limit."
        named = ", ".join(f"{one.name} ({one.shift.psi:.3g})" for one in moved[:_MOST_NAMED])
        return (
            f"{len(moved)} of {len(self.features)} features have an index above that limit: "
            f"{named}{' and others' if len(moved) > _MOST_NAMED else ''}."
        )

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame(), self.features_frame())


def _values_sentence(one: FeatureDrift) -> str:
    """Return which values of a feature are new, in a sentence; empty where none is."""
    parts = []
    if one.new_levels > 0:
        named = ", ".join(one.new_level_names[:_MOST_NAMED])
        parts.append(f"{one.new_levels:.2%} have labels that did not occur before ({named})")
    if one.below > 0:
        parts.append(f"{one.below:.2%} lie below all earlier values")
    if one.above > 0:
        parts.append(f"{one.above:.2%} lie above all earlier values")
    if one.missing_after > 0 and not one.missing_before:
        parts.append(f"{one.missing_after:.2%} are missing; none was missing before")
    return f"{one.name}: {', '.join(parts)}." if parts else ""


def drift(  # noqa: PLR0913 - rows, observations and weights of two data sets
    d: Decomposition,
    X_before: Any,
    X_after: Any,
    y_before: Any = None,
    y_after: Any = None,
    *,
    weight_before: npt.ArrayLike | str | None = None,
    weight_after: npt.ArrayLike | str | None = None,
    names: Sequence[str] = ("before", "after"),
    loss: LossChoice = "auto",
    n_bins: int = 10,
    n_bootstrap: int = 200,
    coverage: float = 0.95,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Drift:
    """Return how predictions, effects and features moved between two data sets.

    The difference between the mean margins of two data sets is exactly the sum, over all effects
    and the remainder, of the differences between their means. Only features that the model uses are
    examined.

    Parameters
    ----------
    d : Decomposition
        The decomposition. If later rows have missing values or labels that it has not seen, it must
        have been made with ``missing_cells="always"``.
    X_before, X_after : array_like, table of shape (n_rows, n_features), or rows in batches
        The earlier and the later rows. Of rows in batches (see `purify`), at most 100 000 are
        drawn; the notes of the result say so.
    y_before, y_after : array_like of shape (n_rows,) or (n_rows, n_outputs), or str, optional
        The observed targets; for rows in batches, the names of their columns. Both or neither.
    weight_before, weight_after : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the names of the columns.
    names : sequence of str
        Names of the two data sets.
    loss : str, tuple or callable
        The loss; see `effect_worth`. It must be a mean over rows, so ``"auc"`` and functions are
        not allowed.
    n_bins : int
        Number of bins for the stability indices.
    n_bootstrap : int
        Number of bootstrap samples of both data sets for the intervals, in which each row is drawn
        a Poisson number of times; 0 for no intervals.
    coverage : float
        Nominal coverage of the intervals, which are percentiles of the bootstrap samples.
    seed : int
        Seed of the bootstrap and of samples.
    memory_budget : int
        Bytes that samples and sums over bootstrap samples may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Drift
        Differences of means are on the margin scale; stability indices have no unit.

    Raises
    ------
    InvalidInputError
        If rows, observations or the loss cannot be used.
    MemoryBudgetError
        If sums or samples would not fit.

    See Also
    --------
    group_gap : Difference of predictions between two groups.
    compare : Differences of two decompositions, effect by effect.
    treepurify.plots.mean_difference : Figure of a gap or a drift.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, X[:, 0] + X[:, 1])
    >>> later = X + [0.5, 0.0]
    >>> found = tp.drift(tp.purify(model, X), X, later)
    >>> found.to_frame()["term"].iloc[0], found.features_frame()["feature"].iloc[0]
    ('x0', 'x0')
    """
    check_result("d", d, Decomposition)
    check_whole("n_bins", n_bins, 2)
    draws = read_draws(n_bootstrap, coverage, seed)
    if (y_before is None) != (y_after is None):
        raise InvalidInputError("pass both y_before and y_after, or neither")
    first, second = read_names("names", names, 2)
    report = progress_report(progress)
    options = (d, loss, draws, memory_budget, report)
    before = _read(X_before, y_before, weight_before, 0, *options)
    after = _read(X_after, y_after, weight_after, 1, *options)
    sums = side_by_side(before.sums, after.sums)
    scores, effects = _part_shifts(d, before, after, n_bins, report)
    return Drift(
        differences=mean_differences(d, (first, second), sums, draws),
        scores=scores,
        effects=effects,
        features=tuple(
            _feature_drift(d, j, before, after, n_bins)
            for j in used_features(d.components, d.remainder)
        ),
        loss=_drift_loss(sums, before.loss, draws),
        notes=tuple(
            f"The rows {name} are {side.words}."
            for name, side in ((first, before), (second, after))
            if side.words
        ),
    )


class _DataSet(NamedTuple):
    """One data set: its rows of positive weight, the sums over them, and the name of the loss."""

    columns: Columns
    weights: RowWeights
    sums: PartSums
    loss: str
    words: str


def _read(
    X: Any,
    y: Any,
    weight: Any,
    data_set: int,
    d: Decomposition,
    loss: LossChoice,
    draws: Draws,
    memory_budget: int,
    report: ProgressReport,
) -> _DataSet:
    """Read the rows of one data set, and sum up effects and losses over them."""
    observed = () if y is None else (y,)
    rows = given_rows(
        X, d.inputs.features, weight, observed, memory_budget, report, seed=draws.seed
    )
    columns = d.inputs.columns(rows.table)
    check_any_rows(columns.n_rows, "the rows of both data sets", _ARGUMENTS[data_set])
    weights = read_row_weights(rows.weights, columns.n_rows)
    losses, name = None, ""
    if y is not None:
        read = read_loss(loss, rows.observed[0], d.link, d.output_names, columns.n_rows)
        name = read.name
        if read.of_rows is None:
            raise InvalidInputError(
                f"drift needs a loss that is a mean over rows, which {name!r} is not: use another "
                "loss, or effect_worth on each data set"
            )
        losses = read.of_rows(d.on_rows(columns))[:, None]
    everyone = np.zeros(columns.n_rows, dtype=np.intp)
    sums = group_sums(
        d, columns, weights, everyone, losses, draws, memory_budget, report, data_set=data_set
    )
    return _DataSet(*counted_rows(columns, weights), sums, name, rows.words)


def _drift_loss(sums: PartSums, name: str, draws: Draws) -> DriftLoss | None:
    if not name:
        return None
    means = sums.number_means[:, :, 0]
    rise = draws.intervals(means[:, 1] - means[:, 0])
    return DriftLoss(name, float(means[0, 0]), float(means[0, 1]), rise)


def _part_shifts(
    d: Decomposition, before: _DataSet, after: _DataSet, n_bins: int, report: ProgressReport
) -> tuple[tuple[DistributionShift, ...], tuple[tuple[DistributionShift, ...], ...]]:
    """Return how the distributions of the margin and of each effect moved, by output."""
    sides = (before, after)
    margins = [np.tile(d.intercept, (side.columns.n_rows, 1)) for side in sides]
    effects = []
    n_parts = len(d) + (d.remainder is not None)
    parts = zip(*(d.evaluate_parts(side.columns) for side in sides), strict=True)
    for place, values in enumerate(parts):
        report("comparing distributions", place, n_parts)
        effects.append(_shifts(values, sides, n_bins))
        margins = [margin + part for margin, part in zip(margins, values, strict=True)]
    return _shifts(margins, sides, n_bins), tuple(effects)


def _shifts(
    values: Sequence[Array], sides: tuple[_DataSet, _DataSet], n_bins: int
) -> tuple[DistributionShift, ...]:
    weights = (sides[0].weights, sides[1].weights)
    return tuple(
        number_shift(*equal_but_for_rounding(first, second), *weights, n_bins)
        for first, second in zip(*(side.T for side in values), strict=True)
    )


def _feature_drift(
    d: Decomposition, j: int, before: _DataSet, after: _DataSet, n_bins: int
) -> FeatureDrift:
    spec = d.inputs.features[j]
    first, second = (
        np.asarray(side.columns.values[j], dtype=np.float64) for side in (before, after)
    )
    weights = (before.weights, after.weights)
    old, new = (
        np.ones(len(values)) if weight is None else weight
        for values, weight in zip((first, second), weights, strict=True)
    )
    missing = _share(np.isnan(first), old), _share(np.isnan(second), new)
    if not spec.is_categorical:
        known = first[~np.isnan(first)]
        return FeatureDrift(
            spec.name,
            number_shift(first, second, *weights, n_bins),
            *missing,
            _share(second < known.min(initial=np.inf), new),
            _share(second > known.max(initial=-np.inf), new),
            np.nan,
        )
    before_codes, after_codes = (_label_codes(values, spec.n_codes) for values in (first, second))
    # Labels that the model does not know are one code: which they are is not known here.
    labels = [str(label) for label in spec.categories or range(spec.n_codes)]
    named = [*labels[: spec.n_codes], "unknown to the model"]
    added = np.setdiff1d(after_codes, np.append(before_codes, spec.n_codes + 1))
    return FeatureDrift(
        spec.name,
        level_shift(before_codes, after_codes, *weights),
        *missing,
        np.nan,
        np.nan,
        _share(np.isin(after_codes, added), new),
        tuple(named[code] for code in added),
    )


def _share(chosen: Mask, weights: Array) -> float:
    return float(weights[chosen].sum() / weights.sum())


def _label_codes(values: Array, n_codes: int) -> Indices:
    """Return codes of labels: those that the model does not know are one, missing ones the last."""
    known = np.where((values >= 0) & (values < n_codes), values, n_codes)
    return np.where(np.isnan(values), n_codes + 1, known).astype(np.intp)
