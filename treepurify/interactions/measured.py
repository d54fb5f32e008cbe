"""How strongly pairs of features interact in data, before a model of interactions is trained."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.quadrants import add_pair_sums, best_crossing
from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.engines.common.inputs import Interactions, check_interactions, named_subsets
from treepurify.engines.common.table_form import read_table
from treepurify.grids.axis import FeatureAxis, quantile_cuts
from treepurify.grids.grid import Subset
from treepurify.html_summary import html_summary
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns, FeatureSpec, numeric_cells
from treepurify.rows.row_weights import counted_rows, equal_parts, read_row_weights
from treepurify.rows.table_reader import check_distribution
from treepurify.rows.targets import later_label, read_target
from treepurify.threads import map_threads
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MeasuredInteractions", "bin_columns", "fit_additive", "measure_interactions"]

_PAIR = 2

_MOST_STEPS = 5000
_TOLERANCE = 1e-12
_MOST_NAMED = 8


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredInteractions:
    """How strongly pairs of features interact in a target, the strongest first.

    Parameters
    ----------
    pairs : tuple of tuple of int
        The pairs.
    strength : ndarray of float64, shape (n_pairs,)
        Root mean square of the gain of the best crossing, in the units of the target; see
        `measure_interactions`. A crossing is a pair of split points, one of each feature; it
        divides the rows into four quadrants.
    share : ndarray of float64, shape (n_pairs,)
        Its square over the variance of the target.
    chi_square : ndarray of float64, shape (n_pairs,)
        The square of the strength, divided by its mean for one crossing by chance: the variance
        of the residuals, divided by the number of rows. The best of many crossings is reported,
        so it is far above 1 even if there is no interaction. To judge a value, compare it with
        the values for a shuffled target.
    crossings : tuple of tuple of str
        The side below each of the two split points, in words; empty if no crossing has enough
        rows.
    least_rows : ndarray of float64, shape (n_pairs,)
        Rows in the smallest of the four quadrants, by weight.
    additive_share : float
        Share of the variance of the target that the sum of functions of one feature explains;
        interactions are measured in its residuals.
    solve_error : float
        Norm of the gradient at the end of the fit of that sum, relative to the start; NaN if
        predictions were given.
    feature_names : tuple of str
        Names.

    See Also
    --------
    treepurify.measure_interactions : Computes them.
    """

    pairs: tuple[Subset, ...]
    strength: Array
    share: Array
    chi_square: Array
    crossings: tuple[tuple[str, ...], ...]
    least_rows: Array
    additive_share: float
    solve_error: float
    feature_names: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the strongest pairs."""
        first = [
            f"{self.feature_names[i]} & {self.feature_names[j]} {share:.2%}"
            for (i, j), share in zip(self.pairs[:3], self.share, strict=False)
        ]
        return (
            f"Strongest of {len(self.pairs)} pairs, measured in the data without a model: "
            f"{', '.join(first) or 'none'} of the variance of the target"
        )

    def _repr_html_(self) -> str:
        return html_summary([repr(self)], self.to_frame())

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per pair, the strongest first."""
        import pandas as pd

        names = self.feature_names
        return pd.DataFrame(
            {
                "first": [names[i] for i, _ in self.pairs],
                "second": [names[j] for _, j in self.pairs],
                "strength": self.strength,
                "share": self.share,
                "chi_square": self.chi_square,
                "first_side": [c[0] if c else "" for c in self.crossings],
                "second_side": [c[1] if c else "" for c in self.crossings],
                "least_rows": self.least_rows,
            }
        )


def measure_interactions(
    X: Any,
    y: npt.ArrayLike,
    *,
    prediction: npt.ArrayLike | None = None,
    interactions: Interactions | None = None,
    bins: int = 32,
    least_rows: int = 5,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> MeasuredInteractions:
    """Rank pairs of features by how much they interact in data.

    The method is FAST (Lou et al. 2013), purified. First, the best sum of functions of one feature
    is subtracted, fitted by least squares to all features together. Then every crossing is tried:
    a split point of one feature with one of the other, which divide the rows into four quadrants.
    The gain is what the quadrants explain of the residuals beyond one number for each side of each
    split point, so no main effect counts as interaction.

    Parameters
    ----------
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    y : array_like of shape (n_rows,)
        The target: numbers, or truth values or labels of two classes, whose interactions are
        those of the probability.
    prediction : array_like of shape (n_rows,), optional
        Predictions of an additive model on the scale of `y`, such as boosted stumps or
        the main effects of a model; their residuals are measured as they are. By
        default a sum of functions of one feature is fitted.
    interactions : sequence of tuple of (str or int), optional
        The pairs that are measured; all by default.
    bins : int
        Number of intervals of each feature, between quantiles; categories are ordered by the mean
        of the target. Missing values have one more.
    least_rows : int
        Smallest number of rows in each quadrant of a crossing, by weight.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row, finite and not negative.
    feature_names : sequence of str, optional
        Names of the features, in the order of the columns.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    MeasuredInteractions
        Strengths are in the units of the target, shares of its variance.

    Raises
    ------
    InvalidInputError
        If the rows, the target or an option cannot be used.
    MemoryBudgetError
        If the additive fit would take too much memory.

    See Also
    --------
    h_statistics : Interaction strength from partial dependence.
    interaction_indices : Variances by order and by pair, for independent features.
    missed_effects : Effects that the model has not learnt in full.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> found = tp.measure_interactions(X, X[:, 0] + 2 * X[:, 1] * X[:, 3])
    >>> found.pairs[0]
    (1, 3)
    """
    check_whole("bins", bins, 2)
    check_whole("least_rows", least_rows, 1)
    check_interactions(interactions)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    _, columns, _ = read_table(X, feature_names)
    check_distribution(columns)
    target = read_target("y", y, columns.n_rows, later_label(y))
    given = None if prediction is None else read_target("prediction", prediction, columns.n_rows)
    counted, weights, target, given = _counted(columns, sample_weight, target, given)
    binned = bin_columns(counted, bins, weights, target)
    report("fitting functions of one feature", 0, 0)
    error = np.nan
    if given is None:
        fit = fit_additive(binned, weights, target, memory_budget)
        given, error = fit.fitted, fit.residual_norm
    rest = target - given
    rest -= np.average(rest, weights=weights)
    wanted = named_subsets(counted.features, interactions, _PAIR)
    pairs = sorted(wanted) if wanted is not None else [*combinations(range(len(binned)), 2)]
    report("measuring pairs", 0, len(pairs))
    found = map_threads(
        lambda pair: _crossing(binned[pair[0]], binned[pair[1]], weights, rest, least_rows), pairs
    )
    centred = target - np.average(target, weights=weights)
    variance = float(np.average(centred**2, weights=weights))
    left = float(np.average(rest**2, weights=weights))
    gain = np.array([crossing.gain for crossing in found]) / weights.sum()
    order = np.argsort(-gain, kind="stable").tolist()
    gain = gain[order]
    return MeasuredInteractions(
        tuple(pairs[k] for k in order),
        np.sqrt(gain),
        gain / variance if variance > 0 else gain,
        gain * len(weights) / left if left > 0 else gain,
        tuple(found[k].sides for k in order),
        np.array([found[k].least for k in order]),
        1.0 - left / variance if variance > 0 else 1.0,
        error,
        tuple(spec.name for spec in columns.features),
    )


def _counted(
    columns: Columns, sample_weight: npt.ArrayLike | None, target: Array, given: Array | None
) -> tuple[Columns, Array, Array, Array | None]:
    """Leave rows of weight zero out; weights have mean one."""
    weights = read_row_weights(sample_weight, columns.n_rows)
    if weights is not None:
        kept = weights > 0
        target, given = target[kept], None if given is None else given[kept]
    counted, positive = counted_rows(columns, sample_weight)
    shares = np.ones(counted.n_rows) if positive is None else positive / positive.mean()
    return counted, shares, target, given


@dataclass(frozen=True, eq=False)
class _BinnedColumn:
    """A column whose rows stand in ordered cells.

    Parameters
    ----------
    cells : ndarray of intp, shape (n_rows,)
        Cell of each row. Numbers come by size and missing values last, categories by the mean
        of the target.
    n_cells : int
        Number of cells.
    cuts : ndarray of float64, optional
        Cuts between the cells of numbers; None for categories.
    categories : tuple of tuple of hashable
        Labels in each cell of categories, also of those that are read as numbers.
    """

    cells: Indices
    n_cells: int
    cuts: Array | None = None
    categories: tuple[tuple[Hashable, ...], ...] = ()

    def below(self, cut: int) -> str:
        """Return the cells before a cut, in words."""
        if self.cuts is not None and cut > len(self.cuts):
            return "not missing"
        if self.cuts is None or self.categories:
            labels = [str(label) for cell in self.categories[:cut] for label in cell]
            more = f", and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
            return f"one of {', '.join(labels[:_MOST_NAMED])}{more}"
        return FeatureAxis("", self.cuts[cut - 1 : cut]).labels()[0]


def bin_columns(columns: Columns, bins: int, weights: Array, target: Array) -> list[_BinnedColumn]:
    """Return every column in cells; see `bin_column`."""
    return [
        bin_column(values, spec, bins, weights, target)
        for values, spec in zip(columns.values, columns.features, strict=True)
    ]


def bin_column(
    values: npt.NDArray[np.floating], spec: FeatureSpec, bins: int, weights: Array, target: Array
) -> _BinnedColumn:
    """Return a column in at most `bins` cells of about equal weight, and one for the missing.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The column; codes where it is categorical.
    spec : FeatureSpec
        What it is.
    bins : int
        Largest number of cells.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows, all positive.
    target : ndarray of float64, shape (n_rows,)
        By whose means categories are ordered.
    """
    missing = np.isnan(values)
    if not spec.is_categorical:
        cuts = quantile_cuts(values, bins, weights)
        cells = numeric_cells(values, cuts)
        axis = FeatureAxis(spec.name, cuts, spec.labels)
        named = tuple(map(axis.ordered_categories, range(axis.n_regular * bool(spec.labels))))
        return _BinnedColumn(cells, axis.n_regular + int(missing.any()), cuts, named)
    labels: list[Hashable] = [*spec.labels, "other", "missing"]
    codes = np.where(missing, len(labels) - 1, np.minimum(values, spec.n_codes)).astype(np.intp)
    weight = np.bincount(codes, weights, minlength=len(labels))
    total = np.bincount(codes, weights * target, minlength=len(labels))
    met = np.flatnonzero(weight)
    order = met[np.argsort(total[met] / weight[met], kind="stable")]
    # The middle of a category on a line of all weights says in which cell it belongs.
    middle = weight[order].cumsum() - weight[order] / 2
    cell_of_place = np.arange(len(order))
    if len(order) > bins:
        parts = equal_parts(middle / weight.sum(), bins)
        cell_of_place = np.unique(parts, return_inverse=True)[1]
    cell = np.zeros(len(labels), dtype=np.intp)
    cell[order] = cell_of_place
    n_cells = int(cell_of_place[-1]) + 1
    named = tuple(
        tuple(labels[code] for code in order[cell_of_place == k].tolist()) for k in range(n_cells)
    )
    return _BinnedColumn(cell[codes], n_cells, None, named)


def _pair_table(first: _BinnedColumn, second: _BinnedColumn, values: Array) -> Array:
    """Return the sum of the values of the rows in each pair of cells."""
    table = np.zeros((first.n_cells, second.n_cells))
    add_pair_sums(first.cells, second.cells, values, table)
    return table


@dataclass(frozen=True)
class _Crossing:
    gain: float
    sides: tuple[str, ...]
    least: float


def _crossing(
    first: _BinnedColumn, second: _BinnedColumn, weights: Array, rest: Array, least_rows: int
) -> _Crossing:
    weight = _pair_table(first, second, weights)
    total = _pair_table(first, second, weights * rest)
    gain, a, b, least = best_crossing(weight, total, float(least_rows))
    sides = (first.below(a), second.below(b)) if a >= 0 else ()
    return _Crossing(gain, sides, least)


@dataclass(frozen=True, eq=False)
class _AdditiveFit:
    """The best sum of one number per cell of each column, by weighted least squares.

    Parameters
    ----------
    fitted : ndarray of float64, shape (n_rows,)
        The sum on the rows.
    residual_norm : float
        Norm of the gradient that the solve leaves, relative to the first.
    """

    fitted: Array
    residual_norm: float


def fit_additive(
    columns: list[_BinnedColumn], weights: Array, target: Array, memory_budget: int
) -> _AdditiveFit:
    """Fit a target by a sum of one function per column, constant in its cells.

    The normal equations are the tables of all pairs of columns; they are solved by conjugate
    gradients, which take the solution of least norm where columns determine each other.

    Raises
    ------
    MemoryBudgetError
        If the equations would not fit.
    """
    from scipy.sparse.linalg import cg

    start = np.concatenate([[0], np.cumsum([column.n_cells for column in columns])])
    size = int(start[-1])
    check_budget(
        16 * size**2,
        memory_budget,
        f"the additive fit of {len(columns)} columns with {size} intervals in total",
        "Use fewer bins or columns, or pass the predictions of an additive model.",
    )
    mean = np.average(target, weights=weights)
    centred = weights * (target - mean)
    gram = np.zeros((size, size))
    right = np.zeros(size)
    for i, column in enumerate(columns):
        own = slice(start[i], start[i + 1])
        right[own] = np.bincount(column.cells, centred, minlength=column.n_cells)
        for j in range(i + 1):
            other = slice(start[j], start[j + 1])
            gram[own, other] = _pair_table(column, columns[j], weights)
            gram[other, own] = gram[own, other].T
    scale = 1.0 / np.sqrt(np.diagonal(gram))
    gram *= scale[:, None] * scale
    right *= scale
    solution, _ = cg(gram, right, rtol=_TOLERANCE, atol=0.0, maxiter=_MOST_STEPS)
    left = float(np.linalg.norm(right - gram @ solution))
    coefficients = scale * solution
    fitted = np.full(len(target), mean)
    for i, column in enumerate(columns):
        fitted += coefficients[start[i] : start[i + 1]][column.cells]
    return _AdditiveFit(fitted, left / max(float(np.linalg.norm(right)), 1e-300))
