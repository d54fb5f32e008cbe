"""Weak spots: slices of the rows where a model loses more than elsewhere on held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_number, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.comparing.regions import cells_in_words
from treepurify.components import ModelInputs, locate_cells
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.evidence.cell_groups import LocatedRows, group_cells, locate_main_effects
from treepurify.evidence.held_out import read_predicted
from treepurify.evidence.losses import LossChoice, loss_words
from treepurify.grids.axis import FeatureAxis
from treepurify.html_summary import html_summary
from treepurify.progress import ProgressReport, progress_report
from treepurify.rows.resampling import row_parts
from treepurify.terms import in_digits
from treepurify.typing import Array, Indices, Mask

if TYPE_CHECKING:
    import pandas as pd

_LEAST_ROWS = 50
# Of one feature, and of two together: more groups make slices finer, and the search longer.
_MOST_GROUPS = {1: 64, 2: 12}
LIMITS = (
    "A high loss does not mean bias: where outcomes are noisy, even the best model has a higher "
    "loss. missed_effects shows what a model could still learn."
)
"""What weak spots do not show."""


class Side(NamedTuple):
    """Neighbouring cells of one feature, or a single one.

    Parameters
    ----------
    feature : int
        Position of the feature.
    axis : FeatureAxis
        The cells of its main effect.
    start, stop : int
        The first cell, and the one after the last.
    """

    feature: int
    axis: FeatureAxis
    start: int
    stop: int

    def words(self) -> str:
        """Return which values the feature has there."""
        return cells_in_words(self.axis, range(self.start, self.stop))


Slice = tuple[Side, ...]
"""The rows on one or two sides, of different features."""


def _rows_in_slice(sides: Slice, cells: Mapping[int, Indices]) -> Mask:
    """Return which rows belong to a slice, from their cells along each feature."""
    inside = [(cells[j] >= start) & (cells[j] < stop) for j, _, start, stop in sides]
    return np.asarray(np.logical_and.reduce(inside))


@dataclass(frozen=True, eq=False, repr=False)
class WeakSpot:
    """A slice that was found on one half of the rows, and its loss on the other half.

    Parameters
    ----------
    sides : tuple of Side
        The features and their values.
    n_rows : int
        Number of test rows in the slice.
    share : float
        Share of the test rows in the slice.
    loss : float
        Mean loss of these rows, in the units of the loss; NaN if there are none.
    excess : float
        Mean loss minus the mean loss of all test rows.
    low, high : float
        Limits of the simultaneous interval for the excess; NaN if there are fewer than two rows.
    search_excess : float
        The excess on the search half. The slice was chosen by it, so it is biased upwards.

    See Also
    --------
    treepurify.weak_spots : Slices in which the loss of a model is above average.
    """

    sides: Slice
    n_rows: int
    share: float
    loss: float
    excess: float
    low: float
    high: float
    search_excess: float

    def __repr__(self) -> str:
        """Return the slice and its excess."""
        excess, low, high = (in_digits(v, sign=True) for v in (self.excess, self.low, self.high))
        return (
            f"{self.words()}: mean loss {in_digits(self.loss)} on {self.n_rows} rows, "
            f"{excess} against all rows ({low} to {high})"
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether the whole interval of the excess is above zero."""
        return bool(self.low > 0)

    def words(self) -> str:
        """Return the slice in words."""
        return " & ".join(side.words() for side in self.sides)


@dataclass(frozen=True, eq=False, repr=False)
class WeakSpots:
    """Slices of the rows in which the loss of a model is above average.

    Parameters
    ----------
    spots : tuple of WeakSpot
        The slices, the largest excess first.
    loss : str
        The name of the loss.
    mean_loss : float
        Mean loss of all test rows.
    n_rows : tuple of int
        Number of rows in the search half and in the test half.
    coverage : float
        Nominal coverage of all intervals together.
    seed : int
        Seed of the halves.
    inputs : ModelInputs
        The features that the model reads.
    notes : tuple of str
        Notes on the rows, such as that a sample was drawn.

    See Also
    --------
    treepurify.weak_spots : Find slices in which the loss is above average.
    treepurify.plots.weak_spots : Figure of the slices.
    """

    spots: tuple[WeakSpot, ...]
    loss: str
    mean_loss: float
    n_rows: tuple[int, int]
    coverage: float
    seed: int
    inputs: ModelInputs
    notes: tuple[str, ...] = ()

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per slice, the largest excess first.

        Returns
        -------
        DataFrame
            ``slice`` in words, ``order`` (its number of features), ``n_rows`` and ``share`` of the
            test rows in it, their mean ``loss``, its ``excess`` over the mean loss of all test rows
            with the limits ``low`` and ``high`` of its interval, ``is_confirmed`` (whether the
            interval is above zero), and ``search_excess``, the excess on the search half.
        """
        import pandas as pd

        names = ["n_rows", "share", "loss", "excess", "low", "high", "is_confirmed"]
        rows = [
            (spot.words(), len(spot.sides), *(getattr(spot, name) for name in names))
            for spot in self.spots
        ]
        frame = pd.DataFrame(rows, columns=["slice", "order", *names])
        return frame.assign(search_excess=[spot.search_excess for spot in self.spots])

    def rows_in(self, number: int, X: Any) -> Mask:
        """Return which rows of a table belong to a slice.

        Parameters
        ----------
        number : int
            Position of the slice, from 0, in the order of `to_frame`.
        X : array_like or table of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of bool, shape (n_rows,)

        Raises
        ------
        InvalidInputError
            If there is no such slice, or the table cannot be read.
        """
        if not self.spots:
            raise InvalidInputError("no slice was found")
        check_whole("number", number, 0, len(self.spots) - 1)
        columns, sides = self.inputs.columns(X), self.spots[number].sides
        cells = {side.feature: locate_cells(columns, side.feature, side.axis) for side in sides}
        return _rows_in_slice(sides, cells)

    def summary(self, top: int = 5) -> list[str]:
        """Return the slices in sentences, the `top` confirmed ones of largest excess."""
        check_whole("top", top, 0)
        searched, tested = self.n_rows
        name = loss_words(self.loss)
        confirmed = [spot for spot in self.spots if spot.is_confirmed]
        lines = [
            f"Mean {name} of {tested} rows not used in the search: {in_digits(self.mean_loss)}.",
            f"{len(confirmed)} of {len(self.spots)} slices, found on {searched} other rows, "
            f"{'has' if len(confirmed) == 1 else 'have'} a higher {name} (simultaneous "
            f"{self.coverage:.0%} intervals).",
        ]
        lines += [
            f"{spot.words()}: {in_digits(spot.loss)}, {in_digits(spot.excess)} more "
            f"({in_digits(spot.low)} to {in_digits(spot.high)}); {spot.n_rows} rows, "
            f"{spot.share:.1%}."
            for spot in confirmed[:top]
        ]
        if top and len(confirmed) > top:
            lines.append(f"{len(confirmed) - top} more in the table.")
        return [*lines, *self.notes, LIMITS]

    def __repr__(self) -> str:
        """Return the summary."""
        return "\n".join(self.summary())

    def _repr_html_(self) -> str:
        return html_summary(self.summary(), self.to_frame())


def weak_spots(
    d: Decomposition,
    X: Any,
    y: Any,
    *,
    order: int = 2,
    n_spots: int = 10,
    min_share: float = 0.02,
    loss: LossChoice = "auto",
    sample_weight: npt.ArrayLike | str | None = None,
    coverage: float = 0.95,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> WeakSpots:
    """Find slices of one or two features in which the loss of the model is above average.

    Slices are ranges of the model's intervals, categories, and missing or unseen values. They are
    found on one half of the rows and tested on the other. The intervals are simultaneous: with
    probability `coverage`, all of them contain the true excess losses. So a slice whose interval
    lies above zero is not just the luckiest of many.

    Parameters
    ----------
    d : Decomposition
        The decomposition. Its main effects define the intervals; features without a main effect are
        left out.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Rows that the model was not trained on. Of rows in batches (see `purify`), at most
        100 000 are drawn; the notes of the result say so.
    y : array_like of shape (n_rows,) or (n_rows, n_outputs), or str
        The observed target, or the name of its column; see `effect_worth`.
    order : int
        Largest number of features of a slice: 1 or 2.
    n_spots : int
        Largest number of slices to test. With fewer slices, the intervals are narrower.
    min_share : float
        Smallest share of the rows in a slice, by weight; a slice also has at least 50 rows of the
        search half, and at most half of the rows that are in no earlier slice.
    loss : str or tuple
        The loss; see `effect_worth`. It must be a mean over rows, so ``"auc"`` and functions are
        not allowed.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    coverage : float
        Nominal coverage of all intervals together.
    seed : int
        Seed of the halves; each row is assigned independently.
    memory_budget : int
        Bytes that the cells of the rows and the sums over all slices may take.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    WeakSpots
        Losses are means over the rows of a slice, in the units of the loss.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used, or there are too few rows.
    MemoryBudgetError
        If the cells of the rows, or the sums, would not fit.

    See Also
    --------
    missed_effects : Effects that the model has not learnt in full.
    effect_worth : Rise of the held-out loss without each effect.
    treepurify.plots.weak_spots : Figure of the slices.

    Notes
    -----
    Each slice is searched among the rows that are in no earlier slice (Friedman and Fisher 1999).
    Its loss is computed from all of its rows, so slices can overlap. The interval of one slice is a
    Student's t interval for the ratio of two sums, with the transformation of Hall (1992) for
    skewed losses. The intervals are simultaneous by Bonferroni's inequality (Dunn 1961).

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = X[:, 0] + rng.normal(size=4000) * np.where(X[:, 1] > 1, 2.0, 0.5)
    >>> model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:1000], y[:1000])
    >>> found = tp.weak_spots(tp.purify(model, X[:1000]), X[1000:], y[1000:])
    >>> found.spots[0].is_confirmed, found.spots[0].words().split()[0]
    (True, 'x1')
    """
    check_whole("order", order, 1, 2)
    check_whole("n_spots", n_spots, 1)
    check_number("min_share", min_share, least=0, most=0.5, open_ends=True)
    check_number("coverage", coverage, least=0, most=1, open_ends=True)
    check_whole("seed", seed, 0)
    report = progress_report(progress)
    rows = read_predicted(d, X, y, loss, sample_weight, memory_budget, report)
    if rows.loss.of_rows is None:
        raise InvalidInputError(
            f"weak_spots needs a loss that is a mean over rows, which {rows.loss.name!r} is not: "
            'use "log_loss", "squared_error", "poisson" or ("quantile", 0.9)'
        )
    losses = rows.loss.of_rows(rows.margin)
    check_budget(
        8 * 3 * len(losses) * len(d.feature_names),
        memory_budget,
        f"finding the cells of {len(losses)} rows",
        "Pass fewer rows.",
    )
    located = locate_main_effects(d, rows.columns, "weak_spots")
    parts = row_parts(seed, 2, len(losses))
    search, test = (
        _half(located, losses, rows.shares, (parts == which) & (rows.shares > 0))
        for which in range(2)
    )
    least = max(min_share, _LEAST_ROWS / len(search.losses))
    slices = _find_slices(
        search.located, search.losses, search.shares, order, n_spots, least, memory_budget, report
    )
    spots = [_tested(each, search, test, 1.0 - (1.0 - coverage) / len(slices)) for each in slices]
    return WeakSpots(
        tuple(sorted(spots, key=lambda spot: -np.nan_to_num(spot.excess, nan=-np.inf))),
        rows.loss.name,
        test.mean(),
        (len(search.losses), len(test.losses)),
        coverage,
        seed,
        d.inputs,
        (rows.words,) if rows.words else (),
    )


class _Half(NamedTuple):
    """One half of the rows: their cells, losses and shares, which sum to one."""

    located: dict[int, LocatedRows]
    losses: Array
    shares: Array

    def inside(self, sides: Slice) -> Mask:
        """Return which rows belong to a slice."""
        return _rows_in_slice(
            sides, {side.feature: self.located[side.feature].cells for side in sides}
        )

    def mean(self, rows: Mask | slice = slice(None)) -> float:
        """Return the mean loss of some rows, NaN without any."""
        shares = self.shares[rows]
        return float(shares @ self.losses[rows] / shares.sum()) if len(shares) else np.nan


def _half(located: dict[int, LocatedRows], losses: Array, shares: Array, chosen: Mask) -> _Half:
    own = np.flatnonzero(chosen)
    if len(own) < 2 * _LEAST_ROWS:
        raise InvalidInputError(
            "slices are found on one half of the rows and tested on the other, which needs "
            f"{2 * _LEAST_ROWS} rows of positive weight in each half; one half has {len(own)}"
        )
    cells = {j: LocatedRows(each.axis, each.cells[own]) for j, each in located.items()}
    return _Half(cells, losses[own], np.asarray(shares[own] / shares[own].sum()))


def _find_slices(
    located: Mapping[int, LocatedRows],
    losses: Array,
    shares: Array,
    order: int,
    n_slices: int,
    min_share: float,
    memory_budget: int,
    report: ProgressReport,
) -> list[Slice]:
    """Return the slices whose rows lose most, the clearest first.

    Each is found among the rows that no earlier one has, which have at least `min_share` of all and
    at most half of those that are left. There are fewer where no more slices lose more than all
    rows: the covering of Friedman and Fisher (1999), over all slices instead of by peeling.
    """
    features = {
        size: {j: _sides(j, rows, shares, min_share, size) for j, rows in located.items()}
        for size in range(1, order + 1)
    }
    for size, of_size in features.items():
        largest = sorted(max(len(each.sides), each.n_groups) for each in of_size.values())
        check_budget(
            4 * 8 * int(np.prod(largest[-size:])),
            memory_budget,
            f"the slices of {size} features",
            "Use a larger min_share, or order=1.",
        )
    cells = {j: rows.cells for j, rows in located.items()}
    excess, left = losses - shares @ losses, shares.copy()
    found: list[Slice] = []
    for number in range(n_slices):
        report("searching slices", number, n_slices)
        # Of n slices without any weakness the clearest is about the root of 2 log n standard
        # errors above zero. So much is subtracted (Dümbgen and Spokoiny 2001), or the many pairs
        # of features would always hide the few features.
        total = max(float(left.sum()), np.finfo(np.float64).tiny)
        variance = float(left @ excess**2 / total - (left @ excess / total) ** 2)
        error = np.sqrt(max(variance, 0.0) * (left @ left)) / total
        best: list[tuple[float, Slice]] = []
        for size, of_size in features.items():
            score, n_looks = 0.0, 0
            sides: Slice = ()
            for subset in combinations(of_size.values(), size):
                scores = _scores(subset, left * excess, left, min_share)
                n_looks += scores.size
                place = int(scores.argmax()) if scores.size else 0
                if scores.size and scores.flat[place] > score:
                    score = float(scores.flat[place])
                    places = np.unravel_index(place, scores.shape)
                    sides = tuple(one.sides[at] for one, at in zip(subset, places, strict=True))
            if sides:
                best.append((score - error * np.sqrt(2.0 * np.log(n_looks)), sides))
        if not best:
            break
        found.append(max(best, key=lambda one: one[0])[1])
        left[_rows_in_slice(found[-1], cells)] = 0.0
    return found


class _FeatureSides(NamedTuple):
    """All sides of one feature that have enough rows.

    `start` and `stop` are the first group of cells of each, and the one after its last. Of
    categories and special cells those with too few rows are one group, the last of `n_groups`,
    which belongs to no side; `groups` has that of each row.
    """

    sides: tuple[Side, ...]
    start: Indices
    stop: Indices
    groups: Indices
    n_groups: int


def _sides(
    feature: int, rows: LocatedRows, shares: Array, min_share: float, size: int
) -> _FeatureSides:
    """Return the sides of a feature: no ranges of all regular cells, and none of few rows."""
    most = min(max(round(min_share ** (-1 / size)), 2), _MOST_GROUPS[size])
    axis, mass = rows.axis, rows.mass(shares)
    group = group_cells(axis, mass, most)
    n_all = int(group[-1]) + 1
    n_ranged = 0 if axis.is_categorical else n_all - (axis.n_cells - axis.n_regular)
    total = np.concatenate([[0.0], np.bincount(group, mass, n_all).cumsum()])
    single = n_ranged + np.flatnonzero(np.diff(total[n_ranged:]) >= min_share)
    first, last = np.triu_indices(n_ranged)
    enough = (last - first + 1 < n_ranged) & (total[last + 1] - total[first] >= min_share)
    # Groups of neighbouring cells are numbered in the order of the cells.
    start, stop = np.append(first[enough], single), np.append(last[enough], single) + 1
    cells = zip(*(np.searchsorted(group, ends).tolist() for ends in (start, stop)), strict=True)
    number = np.append(np.arange(n_ranged), np.full(n_all - n_ranged, n_ranged + len(single)))
    number[single] = n_ranged + np.arange(len(single))
    return _FeatureSides(
        tuple(Side(feature, axis, *ends) for ends in cells),
        number[start],
        number[stop - 1] + 1,
        number[group][rows.cells],
        n_ranged + len(single) + 1,
    )


def _scores(
    sides: tuple[_FeatureSides, ...], excess: Array, left: Array, min_share: float
) -> Array:
    """Return how clear all slices of one or two features are, 0 for those of few or most rows.

    A slice is the clearer the more its excess differs from zero in units of its standard error,
    were the losses of all rows equally spread (Kulldorff, Huang and Konty 2009).
    """
    weight, above = (_sums(sides, of_rows) for of_rows in (left, excess))
    total = left.sum()
    enough = (weight >= min_share) & (weight <= total / 2)
    spread = np.sqrt(np.where(enough, weight * (total - weight), 1.0))
    return np.where(enough, above / spread, 0.0)


def _sums(sides: tuple[_FeatureSides, ...], of_rows: Array) -> Array:
    """Return sums over the rows of all slices, shape (n_sides of each feature...)."""
    shape = tuple(one.n_groups for one in sides)
    groups = np.ravel_multi_index([one.groups for one in sides], shape)
    table = np.bincount(groups, of_rows, int(np.prod(shape))).reshape(shape)
    for axis, one in enumerate(sides):
        first = np.zeros((*table.shape[:axis], 1, *table.shape[axis + 1 :]))
        total = np.concatenate([first, table.cumsum(axis=axis)], axis=axis)
        table = total.take(one.stop, axis=axis) - total.take(one.start, axis=axis)
    return np.asarray(table)


def _tested(found: Slice, search: _Half, test: _Half, coverage: float) -> WeakSpot:
    """Return a slice with its loss on the test rows, and an interval of this coverage."""
    inside = test.inside(found)
    n_rows, share = int(inside.sum()), float(test.shares[inside].sum())
    loss, mean = test.mean(inside), test.mean()
    low = high = np.nan
    if 2 <= n_rows < len(inside):
        influence = test.shares * (inside * (test.losses - loss) / share - (test.losses - mean))
        # The number of rows of equal weight that estimate a mean as well (Kish 1965).
        fewer = test.shares[inside == (n_rows <= len(inside) / 2)]
        n_effective = float(fewer.sum() ** 2 / (fewer @ fewer))
        low, high = _interval(loss - mean, influence, n_effective, coverage)
    searched = search.mean(search.inside(found)) - search.mean()
    return WeakSpot(found, n_rows, share, loss, loss - mean, low, high, searched)


def _interval(
    value: float, influence: Array, n_rows: float, coverage: float
) -> tuple[float, float]:
    """Return the interval of an estimate whose error is the sum of the influences of the rows.

    Losses are skewed, and so is their mean over few rows: Student's quantiles are moved by Hall's
    (1992) cubic transformation, which takes the skewness out of the studentised mean.

    Parameters
    ----------
    value : float
        The estimate.
    influence : ndarray of float64, shape (n_rows,)
        What each row adds to its error.
    n_rows : float
        Number of rows, for Student's degrees of freedom.
    coverage : float
        Coverage.
    """
    from scipy.special import stdtrit

    square = influence @ influence
    if not square > 0 or n_rows <= 1:
        return (value, value) if n_rows > 1 else (np.nan, np.nan)
    error = np.sqrt(square * n_rows / (n_rows - 1.0))
    skewness = float((influence**3).sum() / square**1.5)
    quantiles = stdtrit(n_rows - 1.0, 0.5 + coverage / 2) * np.array([1.0, -1.0])
    if abs(skewness) > 1e-6:
        moved = np.cbrt(1.0 + skewness * (quantiles - skewness / 6.0))
        quantiles = 3.0 * (moved - 1.0) / skewness
    low, high = value - error * quantiles
    return float(low), float(high)
