"""One axis of a grid: the cells that a model can distinguish along one feature."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.rows.columns import ZERO_THRESHOLD
from treepurify.rows.row_weights import RowWeights, row_quantiles
from treepurify.typing import Array, Indices

# Shares of the rows below the central values, and up to their end.
CENTRAL_ENDS = (0.005, 0.995)
# Values of a column that say where its ends are.
_SAMPLED = 2000
# What rounding makes of equal masses stays equal, whatever the order of the rows.
_TIE = 1e-9
# Ordered categories that are all named where a cell holds them.
_MOST_LISTED = 3


@dataclass(frozen=True, eq=False)
class FeatureAxis:
    """The cells along one feature.

    Numeric features have ``len(cuts) + 1`` intervals, ``x < cuts[0]`` first and
    ``x >= cuts[-1]`` last. Categorical features have one cell per code, then, where needed,
    one for every other value. The missing cell, where there is one, comes last.

    Parameters
    ----------
    name : str
        Name of the feature.
    cuts : ndarray of float64, shape (n_cuts,), optional
        Sorted cuts; None for a categorical feature.
    categories : tuple of hashable
        Labels of the codes of a categorical feature, or of the numbers 0, 1, ... of a numeric one
        that stand for ordered categories.
    has_other : bool
        Whether there is a cell for values the model does not know (categorical only).
    has_missing : bool
        Whether there is a cell for missing values.
    bounds : tuple of float, optional
        Smallest and largest finite value in the data that the grid was made with.
    central : tuple of float, optional
        The values below and above which 0.5% of these data lie each, whatever their weights and
        whatever the cuts: two models on the same rows have the same.
    unnamed : tuple of int
        Cells of categories whose labels are not known, because the model keeps hashes and no row
        has them; empty where no label is known.
    """

    name: str
    cuts: Array | None
    categories: tuple[Hashable, ...] = ()
    has_other: bool = False
    has_missing: bool = False
    bounds: tuple[float, float] | None = None
    central: tuple[float, float] | None = None
    unnamed: tuple[int, ...] = ()

    @property
    def is_categorical(self) -> bool:
        """Whether the cells are categories."""
        return self.cuts is None

    @property
    def has_labels(self) -> bool:
        """Whether what the cells hold has labels: categories, also where they are cut in order."""
        return self.is_categorical or len(self.categories) > 0

    @property
    def n_regular(self) -> int:
        """Number of cells without those for other and missing values."""
        return len(self.categories) if self.cuts is None else len(self.cuts) + 1

    @cached_property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_regular + int(self.has_other) + int(self.has_missing)

    @property
    def other_cell(self) -> int | None:
        """Position of the cell of unseen categories."""
        return self.n_regular if self.has_other else None

    @property
    def missing_cell(self) -> int | None:
        """Position of the cell of missing values."""
        return self.n_cells - 1 if self.has_missing else None

    def labels(self, *, exact: bool = False) -> list[str]:
        """Return one readable label per cell, in the order of the cells.

        Parameters
        ----------
        exact : bool
            Whether the ends of intervals part values as the model does, in its own precision,
            for tables that people look values up in. Otherwise they have as few digits as tell
            them apart.

        Examples
        --------
        >>> FeatureAxis("age", np.array([30.0, 50.0]), has_missing=True).labels()
        ['< 30', '[30, 50)', '>= 50', 'missing']

        LightGBM takes what is not beyond 1e-35 for zero, and so do the labels of such cuts.

        >>> FeatureAxis("visits", np.array([1.0000000180025095e-35, 2.5])).labels()
        ['<= 0', '(0, 2.5)', '>= 2.5']

        >>> FeatureAxis("income", np.array([30500.0, 197650.5])).labels()
        ['< 30500', '[30500, 197700)', '>= 197700']

        >>> FeatureAxis("days", np.array([242.06782531738])).labels()
        ['< 242.1', '>= 242.1']
        >>> FeatureAxis("days", np.array([242.06782531738])).labels(exact=True)
        ['< 242.06782531738', '>= 242.06782531738']

        Ordered categories that a model reads as numbers have their labels.

        >>> FeatureAxis("size", np.array([0.5, 1.5]), ("S", "M", "L", "XL")).labels()
        ['S', 'M', 'L, XL']
        """
        if self.cuts is None:
            regular = [str(label) for label in self.categories]
        else:
            regular = _interval_labels(self.cuts, exact)
            if self.categories:
                regular = [
                    _in_order(self.ordered_categories(cell), exact) or interval
                    for cell, interval in enumerate(regular)
                ]
        return regular + self.special_labels()

    def ordered_categories(self, cell: int) -> tuple[Hashable, ...]:
        """Return the labels of the numbers in an interval; none where it is not of categories."""
        cuts = np.empty(0) if self.cuts is None else self.cuts
        cells = np.searchsorted(cuts, np.arange(len(self.categories)), side="right")
        first, stop = np.searchsorted(cells, [cell, cell + 1])
        return self.categories[first:stop]

    def special_labels(self) -> list[str]:
        """Return the labels of the cells of unseen categories and of missing values."""
        return ["other"] * self.has_other + ["missing"] * self.has_missing

    @cached_property
    def with_unnamed_merged(self) -> "FeatureAxis":
        """The axis with one last category in the place of those without a known label.

        Examples
        --------
        >>> axis = FeatureAxis("city", None, ("#7", "Rome", "#9"), unnamed=(0, 2))
        >>> axis.with_unnamed_merged.labels()
        ['Rome', '2 other categories']
        """
        n = len(self.unnamed)
        if not n:
            return self
        named = (label for k, label in enumerate(self.categories) if k not in self.unnamed)
        merged = f"{n} other categor{'y' if n == 1 else 'ies'}"
        return replace(self, categories=(*named, merged), unnamed=())

    def same_regular(self, other: "FeatureAxis") -> bool:
        """Whether another axis has the same cells, those of special values aside."""
        if self.cuts is None or other.cuts is None:
            return self.cuts is other.cuts and self.categories == other.categories
        return np.array_equal(self.cuts, other.cuts)

    def cells_in(self, coarse: "FeatureAxis") -> Indices:
        """Return, for each cell of this axis, the cell of `coarse` that contains it.

        The cuts of `coarse` must be among the cuts of this axis. A special cell that
        `coarse` does not have maps to its last cell.
        """
        if self.cuts is None or coarse.cuts is None:
            regular = np.arange(self.n_regular)
        else:
            left = np.concatenate([[-np.inf], self.cuts])
            regular = np.searchsorted(coarse.cuts, left, side="right")
        last = coarse.n_cells - 1
        special = []
        if self.has_other:
            special.append(last if coarse.other_cell is None else coarse.other_cell)
        if self.has_missing:
            special.append(last if coarse.missing_cell is None else coarse.missing_cell)
        return np.concatenate([regular, np.array(special, dtype=np.intp)]).astype(np.intp)

    def lengths(self) -> Array:
        """Return the length of each cell in the units of the feature.

        The outer intervals end at `bounds`, or, where the data do not reach beyond the
        outer cuts, have length zero. Categories have length one, special cells zero.
        """
        special = np.zeros(self.n_cells - self.n_regular)
        if self.cuts is None or self.bounds is None or len(self.cuts) == 0:
            return np.concatenate([np.ones(self.n_regular), special])
        lower, upper = self.bounds
        edges = np.concatenate([[lower], np.clip(self.cuts, lower, upper), [upper]])
        return np.concatenate([np.diff(edges), special])


def central_values(values: npt.NDArray[np.floating]) -> tuple[float, float] | None:
    """Return the values below and above which 0.5% of a column lie each; None without values.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The column; what is not finite counts for nothing.

    Examples
    --------
    >>> central_values(np.arange(1001.0))
    (5.0, 995.0)
    """
    is_finite = np.isfinite(values)
    finite = values if is_finite.all() else values[is_finite]
    if len(finite) == 0:
        return None
    return _lower_end(finite), -_lower_end(-finite)


def _lower_end(values: npt.NDArray[np.floating]) -> float:
    rank = CENTRAL_ENDS[0] * (len(values) - 1)
    first = math.floor(rank)
    ranks = [first, min(first + 1, len(values) - 1)]
    low, high = np.partition(_with_smallest(values, ranks[1] + 1), ranks)[ranks].tolist()
    return float(low + (high - low) * (rank - first))


def _with_smallest(values: npt.NDArray[np.floating], n: int) -> npt.NDArray[np.floating]:
    """Return some of the values, with the `n` smallest among them: a tenth of the time of all.

    A sample says which values these could be. Where too few are, all values are returned.
    """
    step = max(len(values) // _SAMPLED, 1)
    sample = values[::step]
    place = math.ceil(n / step + 3 * math.sqrt(n / step))
    if place >= len(sample):
        return values
    near = values[values <= np.partition(sample, place)[place]]
    return near if len(near) >= n else values


def quantile_cuts(values: npt.NDArray[np.floating], bins: int, weights: RowWeights = None) -> Array:
    """Return sorted cuts between at most `bins` cells with about as many rows each.

    A column with at most `bins` different values is cut between them.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The column; what is not finite counts for nothing.
    bins : int
        Largest number of cells.
    weights : ndarray of float64, shape (n_rows,), optional
        Weights of the rows; those of weight zero count for nothing.
    """
    counts = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    finite = values[counts].astype(np.float64)
    levels = np.unique(finite)
    if len(levels) <= bins:
        return np.asarray((levels[1:] + levels[:-1]) / 2)
    inner = np.arange(1, bins) / bins
    counted = None if weights is None else weights[counts]
    cuts = np.unique(row_quantiles(finite, counted, inner))
    return np.asarray(cuts[cuts > levels[0]])


def group_neighbours(mass: npt.NDArray[np.number[Any]], n_groups: int) -> Indices:
    """Return a group of about equal mass for each of some neighbouring cells, from 0 on.

    A group ends where it is nearest to an equal share of the mass that is left, so that a heavy
    cell costs no other group. Cells without mass join the group before them.

    Examples
    --------
    >>> group_neighbours(np.array([0.1, 0.1, 0.6, 0.0, 0.2]), 3)
    array([0, 0, 1, 1, 2])
    """
    groups, left, of_group = list[int](), float(mass.sum()), 0.0
    number = 0
    for own in mass.tolist():
        share = left / (n_groups - number)
        nearer_without = 2 * (share - of_group) < own - _TIE
        if of_group > 0 and own > 0 and number < n_groups - 1 and nearer_without:
            left -= of_group
            of_group = 0.0
            number += 1
        of_group += own
        groups.append(number)
    return np.array(groups, dtype=np.intp)


def _in_order(labels: tuple[Hashable, ...], exact: bool) -> str:
    """Return the labels of neighbours, of many only the first and the last unless `exact`."""
    if exact or len(labels) <= _MOST_LISTED:
        return ", ".join(map(str, labels))
    return f"{labels[0]} to {labels[-1]}"


def _interval_labels(cuts: Array, exact: bool) -> list[str]:
    if len(cuts) == 0:
        return ["all"]
    ends = [_ends(cuts, i, exact) for i in range(len(cuts))]
    between = [
        "0" if (low, high) == (_FROM_ZERO, _TO_ZERO) else f"{low}, {high}"
        for (_, low), (high, _) in pairwise(ends)
    ]
    below, above = ends[0][0], ends[-1][1]
    first = f"{'<=' if below.endswith(']') else '<'} {below[:-1]}"
    return [first, *between, f"{'>=' if above.startswith('[') else '>'} {above[1:]}"]


_LEAST_SINGLE = float(np.finfo(np.float32).smallest_subnormal)
# Numbers of that size are written without an exponent.
_MOST_ROUNDED, _LARGEST_PLAIN = 1e4, 1e15
_FROM_ZERO, _TO_ZERO = "[0", "0]"


def _ends(cuts: Array, i: int, exact: bool) -> tuple[str, str]:
    """Return how the cell below a cut ends, and how the cell above it starts.

    LightGBM cuts next to zero at 1e-35, which it takes for zero: that cell ends with zero.
    """
    if _is_at_zero(cuts[i], exact):
        return (_TO_ZERO, "(0") if cuts[i] > 0 else ("0)", _FROM_ZERO)
    if exact:
        return _exact_ends(cuts[i])
    text = _shortest(cuts, i)
    return f"{text})", f"[{text}"


def _is_at_zero(cut: np.float64, exact: bool) -> bool:
    """Return whether a cut parts negative numbers from zero, or zero from positive ones.

    XGBoost cuts there at half the least number of single precision. In double precision there
    are numbers below it, which exact labels distinguish.
    """
    is_of_lightgbm = abs(abs(cut) - ZERO_THRESHOLD) <= 1e-9 * ZERO_THRESHOLD
    return bool(is_of_lightgbm or (not exact and 0.0 < abs(cut) <= _LEAST_SINGLE))


def _exact_ends(cut: np.float64) -> tuple[str, str]:
    """Return the ends next to a cut: the shorter of the last number below it and the first above.

    A cut between two numbers of single precision is that of a model that rounds to it, so these
    two are its neighbours.
    """
    with np.errstate(over="ignore", under="ignore"):
        last: np.floating[Any] = np.nextafter(cut, -np.inf)
        first: np.floating[Any] = cut
        if np.float32(last) < np.float32(first):
            last, first = np.float32(last), np.float32(first)
    below, above = (str(number).removesuffix(".0") for number in (last, first))
    if len(below) < len(above):
        return f"{below}]", f"({below}"
    return f"{above})", f"[{above}"


def _shortest(cuts: Array, i: int) -> str:
    """Format a cut with as few digits as distinguish it from its neighbours.

    Cuts that nine digits do not distinguish may print alike, but in their order.
    """
    below, above = cuts[max(i - 1, 0) : i], cuts[i + 1 : i + 2]
    ordered = []
    for digits in (4, 6, 9):
        # Plus zero, so that minus zero is zero.
        text = f"{cuts[i] + 0.0:.{digits}g}"
        value = float(text)
        if all(cut < value for cut in below) and all(value < cut for cut in above):
            is_round = _MOST_ROUNDED <= abs(value) < _LARGEST_PLAIN
            ordered.append(f"{value:.0f}" if is_round else text)
            if all(_differs(cut, value, digits) for cut in (*below, *above)):
                return ordered[-1]
    return ordered[0] if ordered else f"{cuts[i]:.17g}"


def _differs(cut: np.float64, value: float, digits: int) -> bool:
    """Return whether a cut, printed with a number of digits, is another number than `value`."""
    # Most are too far apart for formatting, the slow part.
    is_far = abs(cut - value) > 10.0 ** (1 - digits) * abs(value)
    return bool(is_far or float(f"{cut:.{digits}g}") != value)
