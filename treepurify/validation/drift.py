"""Drift between two data sets: mean margins effect by effect, distributions, values, and loss."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
from treepurify.rows.row_weights import (
    effective_rows,
    read_row_weights,
    row_quantiles,
    within_range,
)
from treepurify.rows.tables import check_any_rows
from treepurify.terms import in_digits
from treepurify.typing import Array, Indices, Mask
from treepurify.validation.mean_differences import (
    COVERAGE,
    GroupMeans,
    MeanDifferences,
    group_means,
    intervals,
)

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 5
_N_BINS = 10
# What each bin holds beyond its rows, so that an empty one does not make the index infinite.
_PRIOR = 0.5
# How often the index of two samples of one distribution exceeds its limit.
_RATE = 0.05
# Sums of effects differ by this part of the largest where rows have one prediction.
_ROUNDING = 1e-12


class Shift(NamedTuple):
    """Change of the distribution of a numeric variable or of labels.

    Parameters
    ----------
    psi : float
        Population stability index: the sum over bins of ``(a - b) log(a / b)``, where b and a are
        the shares of rows before and after. Bins end at deciles of the rows before; labels and
        missing values are bins of their own.
    psi_limit : float
        The 95% quantile of the index if the distribution did not change, by the chi-squared
        approximation.
    wasserstein : float
        Wasserstein distance: the mean distance by which values must be moved to turn the
        distribution before into the one after, in the units of the variable; missing values are
        left out. NaN for labels.
    """

    psi: float
    psi_limit: float
    wasserstein: float


@dataclass(frozen=True)
class FeatureDrift:
    """Change of the distribution of one feature.

    Parameters
    ----------
    feature : str
        Name of the feature.
    psi, psi_limit, wasserstein : float
        Change of its distribution; see `Shift`.
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

    feature: str
    psi: float
    psi_limit: float
    wasserstein: float
    missing_before: float
    missing_after: float
    below: float = np.nan
    above: float = np.nan
    new_levels: float = np.nan
    new_level_names: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return which values are new; empty if none is."""
        parts = []
        if self.new_levels > 0:
            named = ", ".join(self.new_level_names[:_MOST_NAMED])
            parts.append(f"{self.new_levels:.2%} have labels that did not occur before ({named})")
        if self.below > 0:
            parts.append(f"{self.below:.2%} lie below all earlier values")
        if self.above > 0:
            parts.append(f"{self.above:.2%} lie above all earlier values")
        if self.missing_after > 0 and not self.missing_before:
            parts.append(f"{self.missing_after:.2%} are missing; none was missing before")
        return f"{self.feature}: {', '.join(parts)}." if parts else ""


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
    scores : tuple of Shift
        Change of the distribution of the margin, by output.
    effects : tuple of tuple of Shift
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
    scores: tuple[Shift, ...]
    effects: tuple[tuple[Shift, ...], ...]
    features: tuple[FeatureDrift, ...]
    loss: DriftLoss | None = None
    notes: tuple[str, ...] = ()

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
        import pandas as pd

        found = self.differences
        n_outputs = found.decomposition.n_outputs
        shifts = [self.effects[i][k] for k in range(n_outputs) for i in found.largest(k)]
        return pd.concat([found.to_frame(), pd.DataFrame(shifts, columns=Shift._fields)], axis=1)

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

        frame = pd.DataFrame([asdict(one) for one in self.features])
        if frame.empty:
            return frame
        frame["new_level_names"] = frame["new_level_names"].map(", ".join)
        return frame.sort_values("psi", ascending=False, kind="stable", ignore_index=True)

    def summary(self, top: int = 5) -> list[str]:
        """Return the drift in sentences, with the `top` largest effects of each output."""
        check_whole("top", top, 0)
        found = self.differences
        lines = found.sentences(top)
        for name, shift in zip(found.decomposition.output_names, self.scores, strict=True):
            which = f" of {name}" if len(self.scores) > 1 else ""
            lines.append(
                f"The stability index of the margin{which} is {shift.psi:.4g} (up to "
                f"{shift.psi_limit:.2g} in 95% of samples without drift), its Wasserstein "
                f"distance {shift.wasserstein:.4g}."
            )
        lines.append(self._moved())
        lines += [line for one in self.features if (line := one.sentence())]
        if self.loss is not None:
            low, high = float(self.loss.rise.low), float(self.loss.rise.high)
            ends = in_digits(low, sign=True), in_digits(high, sign=True)
            interval = f" ({COVERAGE:.0%} interval {ends[0]} to {ends[1]})"
            lines.append(
                f"The {self.loss.name.replace('_', ' ')} is {in_digits(self.loss.after)} after and "
                f"{in_digits(self.loss.before)} before: "
                f"{in_digits(float(self.loss.rise.value), sign=True)}"
                f"{interval if np.isfinite(low) else ''}."
            )
        return [*lines, *self.notes]

    def _moved(self) -> str:
        moved = sorted(
            (one for one in self.features if one.psi > one.psi_limit), key=lambda one: -one.psi
        )
        if not moved:
            return f"None of {len(self.features)} features has an index above that limit."
        named = ", ".join(f"{one.feature} ({one.psi:.3g})" for one in moved[:_MOST_NAMED])
        return (
            f"{len(moved)} of {len(self.features)} features have an index above that limit: "
            f"{named}{' and others' if len(moved) > _MOST_NAMED else ''}."
        )

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame(), self.features_frame())


def drift(
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

    See Also
    --------
    group_gap : Difference of predictions between two groups.
    compare : Differences of two decompositions, effect by effect.
    treepurify.plots.mean_difference : Figure of a gap or a drift.

    Notes
    -----
    Intervals are percentiles of 200 bootstrap samples of both data sets with a fixed seed, in which
    each row is drawn a Poisson number of times; their nominal coverage is 95%.

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
    if (y_before is None) != (y_after is None):
        raise InvalidInputError("pass both y_before and y_after, or neither")
    first, second = read_names("names", names, 2)
    report = progress_report(progress)
    before = _read(d, X_before, y_before, weight_before, loss, report, 0)
    after = _read(d, X_after, y_after, weight_after, loss, report, 1)
    means = before.means.with_groups_of(after.means)
    parts = list(_part_shifts(d, before, after, report))
    of_loss = None
    if y_before is not None:
        of_rows = means.numbers[..., 0]
        rise = intervals(of_rows[:, 1] - of_rows[:, 0])
        of_loss = DriftLoss(before.loss, float(of_rows[0, 0]), float(of_rows[0, 1]), rise)
    return Drift(
        MeanDifferences(d, (first, second), (before.columns.n_rows, after.columns.n_rows), means),
        scores=parts[-1],
        effects=tuple(parts[:-1]),
        features=tuple(
            _feature_drift(d, j, before, after) for j in used_features(d.components, d.remainder)
        ),
        loss=of_loss,
        notes=tuple(
            f"The rows {name} are {side.words}."
            for name, side in ((first, before), (second, after))
            if side.words
        ),
    )


class _DataSet(NamedTuple):
    """One data set: its rows of positive weight, the means over them, and the name of the loss."""

    columns: Columns
    weights: Array
    means: GroupMeans
    loss: str
    words: str


def _read(
    d: Decomposition,
    X: Any,
    y: Any,
    weight: Any,
    loss: LossChoice,
    report: ProgressReport,
    data_set: int,
) -> _DataSet:
    """Read the rows of one data set, and take the means of effects and losses over them."""
    observed = () if y is None else (y,)
    rows = given_rows(X, d.inputs.features, weight, observed, DEFAULT_BUDGET, report)
    columns = d.inputs.columns(rows.table)
    name = ("X_before", "X_after")[data_set]
    check_any_rows(columns.n_rows, "the rows of both data sets", name)
    given = read_row_weights(rows.weights, columns.n_rows)
    weights = np.ones(columns.n_rows) if given is None else within_range(given)
    losses, name = np.empty((columns.n_rows, 0)), ""
    if y is not None:
        read = read_loss(loss, rows.observed[0], d.link, d.output_names, columns.n_rows)
        name = read.name
        if read.of_rows is None:
            raise InvalidInputError(
                f"drift needs a loss that is a mean over rows, which {name!r} is not: use another "
                "loss, or effect_worth on each data set"
            )
        losses = read.of_rows(d.on_rows(columns))[:, None]
    means = group_means(d, columns, weights[None], losses, report, data_set)
    kept = np.flatnonzero(weights)
    return _DataSet(columns.take(kept), weights[kept], means, name, rows.words)


def _part_shifts(
    d: Decomposition, before: _DataSet, after: _DataSet, report: ProgressReport
) -> Iterator[tuple[Shift, ...]]:
    """Yield how the distribution of each effect, and at last that of the margin, moved."""
    margins = [np.tile(d.intercept, (side.columns.n_rows, 1)) for side in (before, after)]
    n_parts = len(d) + (d.remainder is not None)
    parts = zip(*(d.evaluate_parts(side.columns) for side in (before, after)), strict=True)
    for place, values in enumerate(parts):
        report("comparing distributions", place, n_parts)
        yield _shifts(values, before.weights, after.weights)
        margins = [margin + part for margin, part in zip(margins, values, strict=True)]
    yield _shifts(margins, before.weights, after.weights)


def _shifts(values: Sequence[Array], before: Array, after: Array) -> tuple[Shift, ...]:
    return tuple(
        number_shift(*_equal_but_for_rounding(*columns), before, after)
        for columns in zip(*(side.T for side in values), strict=True)
    )


def _feature_drift(d: Decomposition, j: int, before: _DataSet, after: _DataSet) -> FeatureDrift:
    spec, weights = d.inputs.features[j], (before.weights, after.weights)
    first, second = (
        np.asarray(side.columns.values[j], dtype=np.float64) for side in (before, after)
    )
    gone = _share(np.isnan(first), before.weights), _share(np.isnan(second), after.weights)
    if not spec.is_categorical:
        known = first[~np.isnan(first)]
        below = _share(second < known.min(initial=np.inf), after.weights)
        above = _share(second > known.max(initial=-np.inf), after.weights)
        return FeatureDrift(
            spec.name, *number_shift(first, second, *weights), *gone, below=below, above=above
        )
    n_codes = spec.n_codes
    # Labels that the model does not know are one code: which they are is not known here.
    old, new = (
        np.where((values >= 0) & (values < n_codes), values, n_codes + np.isnan(values))
        for values in (first, second)
    )
    named = [*map(str, (spec.categories or range(n_codes))[:n_codes]), "unknown to the model"]
    added = np.setdiff1d(new, np.append(old, n_codes + 1))
    return FeatureDrift(
        spec.name,
        *level_shift(old.astype(np.intp), new.astype(np.intp), *weights),
        *gone,
        new_levels=_share(np.isin(new, added), after.weights),
        new_level_names=tuple(named[int(code)] for code in added),
    )


def _share(chosen: Mask, weights: Array) -> float:
    return float(weights[chosen].sum() / weights.sum())


def number_shift(before: Array, after: Array, before_weights: Array, after_weights: Array) -> Shift:
    """Return the shift of numbers, shape (n_rows,), of which NaN are missing.

    Examples
    --------
    >>> number_shift(np.arange(9.0), np.arange(9.0) + 2, np.ones(9), np.ones(9)).wasserstein
    2.0
    """
    from scipy.stats import wasserstein_distance

    known, known_after = np.isfinite(before), np.isfinite(after)
    edges = np.empty(0)
    if known.any() and known_after.any():
        deciles = np.arange(1, _N_BINS) / _N_BINS
        edges = np.unique(row_quantiles(before[known], before_weights[known], deciles))
    # A value that many rows share ends its bin, so that what lies above it is another bin.
    old, new = (
        np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))
        for values in (before, after)
    )
    shift = level_shift(old, new, before_weights, after_weights)
    if not len(edges):
        return shift
    distance = wasserstein_distance(
        before[known], after[known_after], before_weights[known], after_weights[known_after]
    )
    return shift._replace(wasserstein=float(distance))


def level_shift(
    before: Indices, after: Indices, before_weights: Array, after_weights: Array
) -> Shift:
    """Return the shift of labels, shape (n_rows,), as codes from 0.

    Examples
    --------
    >>> level_shift(np.array([0, 1]), np.array([0, 1]), np.ones(2), np.ones(2)).psi
    0.0
    """
    from scipy.special import chdtri

    sides = ((before, before_weights), (after, after_weights))
    n_levels = 1 + int(max(codes.max(initial=0) for codes, _ in sides))
    sizes = np.array([effective_rows(len(codes), weights) for codes, weights in sides])
    counts = np.stack([np.bincount(codes, weights, n_levels) for codes, weights in sides])
    counts = counts[:, counts.sum(axis=0) > 0]
    smoothed = counts / counts.sum(axis=1, keepdims=True) * sizes[:, None] + _PRIOR
    b, a = smoothed / smoothed.sum(axis=1, keepdims=True)
    freedom = len(b) - 1
    limit = float(chdtri(freedom, _RATE) * np.sum(1 / sizes)) if freedom else 0.0
    return Shift(float(((a - b) * np.log(a / b)).sum()), limit, np.nan)


def _equal_but_for_rounding(first: Array, second: Array) -> tuple[Array, Array]:
    """Return two samples, each number replaced by the smallest that it equals up to rounding."""
    together = np.concatenate([first, second])
    order = np.argsort(together, kind="stable")
    ranked = together[order]
    is_new = ~(np.diff(ranked, prepend=-np.inf) <= _ROUNDING * np.abs(ranked).max(initial=0.0))
    together[order] = ranked[is_new][np.cumsum(is_new) - 1]
    return together[: len(first)], together[len(first) :]
