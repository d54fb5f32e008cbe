"""A model along one feature: observed and predicted means, partial dependence and its curves."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice, check_whole, read_output
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.engines.ale.axes import accumulation_axes
from treepurify.engines.ale.components import interpolate
from treepurify.engines.ale.local_effects import accumulate_main
from treepurify.engines.common.functions import (
    CalledFunction,
    ParsedFunction,
    ResponseFunction,
    RowFunction,
    read_function,
    rows_for_model,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis, quantile_cuts
from treepurify.grids.grid import encode_rows
from treepurify.html_summary import html_summary
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import (
    RowWeights,
    counted_rows,
    read_row_weights,
    row_quantiles,
    row_shares,
)
from treepurify.rows.samples import sample_rows
from treepurify.rows.targets import read_target
from treepurify.terms import read_features
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

ProfileScale = Literal["response", "margin"]
_CURVES = 50


@dataclass(frozen=True, eq=False, repr=False)
class FeatureProfile:
    """Profile of a model along one feature.

    Parameters
    ----------
    feature : str
        Name of the feature.
    labels : tuple of str
        The intervals or categories, in words.
    points : ndarray of float64, shape (n_cells,)
        Values at which curves are evaluated: the median of the rows in an interval, NaN for missing
        values, or the number of the category.
    is_numeric : bool
        Whether the feature is numeric.
    share : ndarray of float64, shape (n_cells,)
        Share of the rows in each cell.
    predicted : ndarray of float64, shape (n_cells, n_outputs)
        Mean prediction of the rows in each cell.
    observed, observed_error : ndarray of float64, shape (n_cells,), optional
        Mean of the observed target in each cell, and its standard error from the spread in the cell
        (NaN for a single row; a row of weight three counts as one row, not three). None if no
        target was passed.
    partial_dependence, dependence_error : ndarray of float64, shape (n_cells, n_outputs)
        Mean prediction of all rows with the feature set to the point, and its standard error if a
        sample of rows was used; zero if all rows were used.
    accumulated : ndarray of float64, shape (n_cells, n_outputs)
        Mean prediction plus the accumulated local effect; NaN for missing values.
    curves : ndarray of float64, shape (n_curves, n_cells, n_outputs)
        Predictions of single rows with the feature set to each point.
    scale : {"response", "margin"}
        Scale of the predictions.
    output_names : tuple of str
        Names of the outputs.
    n_rows, rows_used : int
        Number of rows, and number of rows used for partial dependence.
    sample : str
        Description of the sample that was drawn from rows in batches; empty if all rows were used.
    ordered_labels : tuple of hashable
        The categories in their order, if they are ordered.
    link : Link
        The link from the margin to the response, if predictions are margins.

    See Also
    --------
    treepurify.feature_profile : Compute the profile.
    treepurify.plots.profile : Figure of the profile.
    """

    feature: str
    labels: tuple[str, ...]
    points: Array
    is_numeric: bool
    share: Array
    predicted: Array
    observed: Array | None
    observed_error: Array | None
    partial_dependence: Array
    dependence_error: Array
    accumulated: Array
    curves: Array
    scale: ProfileScale
    output_names: tuple[str, ...]
    n_rows: int
    rows_used: int
    sample: str = ""
    ordered_labels: tuple[Hashable, ...] = ()
    link: Link = field(default_factory=Link)

    def __repr__(self) -> str:
        """Return the feature and the sizes."""
        rows = self.sample or f"{self.n_rows} rows"
        return (
            f"Profile of {self.feature} in {len(self.labels)} intervals or categories: {rows}, "
            f"partial dependence over {self.rows_used} of them, on the {self.scale} scale"
        )

    def _repr_html_(self) -> str:
        return html_summary([repr(self)], self.to_frame())

    @property
    def has_scale_of_observed(self) -> bool:
        """Whether predictions and observations are on the same scale."""
        return self.scale == "response" or self.link == Link()

    def to_frame(self, output: int | str = 0) -> "pd.DataFrame":
        """Return one row per cell.

        Returns
        -------
        DataFrame
            Columns ``cell``, ``point``, ``share``, ``observed``, ``predicted``, ``residual``
            (observed minus predicted), ``observed_error``, ``partial_dependence``,
            ``dependence_error`` and ``accumulated``. The columns of observations exist only if a
            target was passed, and ``residual`` only if predictions are on the same scale, not
            log-odds, for example.
        """
        import pandas as pd

        k = read_output(output, self.output_names)
        seen: dict[str, Array | None] = {}
        if self.observed is not None:
            seen["observed"] = self.observed
            if self.has_scale_of_observed:
                seen["residual"] = self.observed - self.predicted[:, k]
            seen["observed_error"] = self.observed_error
        return pd.DataFrame(
            {
                "cell": self.labels,
                "point": self.points,
                "share": self.share,
                "predicted": self.predicted[:, k],
                **seen,
                "partial_dependence": self.partial_dependence[:, k],
                "dependence_error": self.dependence_error[:, k],
                "accumulated": self.accumulated[:, k],
            }
        )


def feature_profile(
    model: Any,
    X: Any,
    feature: str | int,
    y: npt.ArrayLike | str | None = None,
    *,
    scale: ProfileScale = "response",
    bins: int = 20,
    most_rows: int = 2000,
    seed: int = 0,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> FeatureProfile:
    """Profile a model along one feature, next to the observed values.

    For each interval or category of the feature, the profile has the mean of the observations, of
    the predictions and of their difference; partial dependence, with the curves of single rows
    (individual conditional expectation, Goldstein et al. 2015); and accumulated local effects. If
    predicted means and partial dependence differ, correlated features play a role. If observed and
    predicted means differ by more than chance, the model is off. If the curves of single rows are
    not parallel, the feature interacts on the chosen scale: probabilities are hardly ever parallel,
    even where log-odds are.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. For rows in batches (see `purify`), a sample of 100 000 rows is drawn in two
        passes; ``sample`` of the result says so.
    feature : str or int
        The feature, by name or position.
    y : array_like of shape (n_rows,) or str, optional
        The observed target, on the scale of the response, for models of one output: numbers,
        classes as 0 and 1, or labels, one of which is the name of the output. For rows in batches,
        the name of its column.
    scale : {"response", "margin"}
        Whether predictions of parsed models are responses, such as probabilities, or margins.
    bins : int
        Number of intervals of a numeric feature, between quantiles of the rows. Missing values form
        an additional one.
    most_rows : int
        Largest number of rows that partial dependence averages over. If there are more, rows are
        drawn at random in proportion to their weights. Curves are computed for at most 50 of them.
    seed : int
        Seed of that draw.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. Rows of weight zero have no influence. For rows
        in batches, the name of the column of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    FeatureProfile
        `treepurify.plots.profile` draws it. Predictions are on the scale that `scale` names.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or an option cannot be used.
    MemoryBudgetError
        If the predictions would not fit.

    See Also
    --------
    ale_anova : Accumulated local effects of any function.
    partial_dependence_anova : Partial dependence of any order, for any function.
    treepurify.plots.profile : Figure of the profile.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> found = tp.feature_profile(lambda X: X[:, 0] * X[:, 1], X, "x0", [0, 0, 0, 1])
    >>> found.to_frame()[["cell", "observed", "predicted", "partial_dependence"]]
        cell  observed  predicted  partial_dependence
    0  < 0.5       0.0        0.0                 0.0
    1 >= 0.5       0.5        0.5                 0.5
    """
    check_choice("scale", scale, get_args(ProfileScale))
    for name, value, least in (("bins", bins, 2), ("most_rows", most_rows, 2), ("seed", seed, 0)):
        check_whole(name, value, least)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    sample = rows_for_model(
        model,
        X,
        feature_names,
        sample_weight,
        memory_budget,
        report,
        observed=() if y is None else (y,),
        seed=seed,
    )
    y, sample_weight = next(iter(sample.observed), None), sample.weights
    f, columns = read_function(model, sample.table, feature_names)
    if isinstance(f, ParsedFunction) and scale == "response" and f.link != Link():
        f = ResponseFunction(f.model)
    (j,) = _one_feature(feature, [spec.name for spec in columns.features])
    observed = None if y is None else _observed(y, columns.n_rows, f.output_names, sample_weight)
    columns, weights = counted_rows(columns, sample_weight)
    shares = row_shares(columns.n_rows, weights)
    axis, cells = _cells(columns, weights, j, bins)
    kept = np.flatnonzero(np.bincount(cells, shares, minlength=axis.n_cells))
    place = np.searchsorted(kept, cells)
    points = _points(columns, weights, j, place, len(kept))
    report("averaging predictions", 0, 0)
    predictions = f(columns)
    drawn_rows = sample_rows(columns.n_rows, weights, most_rows, seed)
    lines = _lines(f, columns.take(drawn_rows.picked), j, points, memory_budget)
    dependence = np.einsum("r,rck->ck", drawn_rows.shares, lines)
    unseen = drawn_rows.shares**2 * drawn_rows.unseen
    spread = np.einsum("r,rck->ck", unseen, (lines - dependence) ** 2)
    drawn = np.unique(np.linspace(0, len(lines) - 1, min(_CURVES, len(lines))).astype(np.intp))
    mass = np.bincount(place, shares, minlength=len(kept)).astype(np.float64)
    mean, error = None, None
    if observed is not None:
        mean, error = _means(place, shares, observed, mass)
    spec = columns.features[j]
    return FeatureProfile(
        spec.name,
        tuple(axis.labels()[cell] for cell in kept),
        points,
        not spec.is_categorical,
        mass,
        np.stack([_means(place, shares, own, mass)[0] for own in predictions.T], axis=1),
        mean,
        error,
        dependence,
        np.sqrt(spread),
        _accumulated(f, columns, weights, shares, j, bins, points, memory_budget)
        + shares @ predictions,
        lines[drawn],
        scale,
        f.output_names,
        columns.n_rows,
        len(lines),
        sample.words,
        spec.ordered_labels if spec.is_categorical else spec.labels,
        f.link,
    )


def _one_feature(feature: str | int, names: list[str]) -> tuple[int]:
    found = read_features(feature, names)
    if len(found) != 1:
        raise InvalidInputError(f"feature must be one feature, got {feature!r}")
    return (found[0],)


def _observed(
    y: npt.ArrayLike, n_rows: int, output_names: Sequence[str], sample_weight: npt.ArrayLike | None
) -> Array:
    if len(output_names) != 1:
        raise InvalidInputError(
            f"y is one number per row, but the model has {len(output_names)} outputs: omit y, or "
            "pass a function of one output, such as lambda X: model.predict_proba(X)[:, 2]"
        )
    observed = read_target("y", y, n_rows, output_names)
    weights = read_row_weights(sample_weight, n_rows)
    return observed if weights is None else observed[weights > 0]


def _cells(columns: Columns, weights: RowWeights, j: int, bins: int) -> tuple[FeatureAxis, Indices]:
    """Return the cells of the feature, and that of each row."""
    spec, values = columns.features[j], columns.values[j]
    cuts = None if spec.is_categorical else quantile_cuts(values, bins, weights)
    own = FeatureAxis(spec.name, cuts, spec.labels)
    rows, (axis,) = encode_rows(Columns((spec,), (values,), columns.n_rows), (own,))
    return axis, rows.codes[0].astype(np.intp)


def _points(columns: Columns, weights: RowWeights, j: int, place: Indices, n_cells: int) -> Array:
    """Return a value of the feature in each cell: the median of its rows."""
    values = columns.values[j]
    points = np.full(n_cells, np.nan)
    for k in range(n_cells):
        inside = np.flatnonzero((place == k) & ~np.isnan(values))
        if len(inside):
            own = None if weights is None else weights[inside]
            points[k] = row_quantiles(values[inside], own, np.array([0.5]))[0]
    return points


def _lines(f: RowFunction, rows: Columns, j: int, points: Array, memory_budget: int) -> Array:
    """Return the predictions of rows with the feature set to each point."""
    check_budget(
        8 * rows.n_rows * (2 * len(points) * f.n_outputs + len(rows.features)),
        memory_budget,
        f"the predictions of {rows.n_rows} rows at {len(points)} points",
        "Use fewer rows or bins.",
    )
    if isinstance(f, CalledFunction) or not isinstance(f.model, TreeEnsemble):
        return np.stack([f(rows.with_values(j, point)) for point in points], axis=1)
    margins = f.model.margin_along(rows, j, points).transpose(1, 0, 2)
    if isinstance(f, ParsedFunction):
        return margins
    responses = f.model.link.inverse(margins.reshape(-1, f.n_outputs))
    return responses.reshape(*margins.shape[:2], -1)


def _means(place: Indices, shares: Array, values: Array, mass: Array) -> tuple[Array, Array]:
    """Return weighted means in cells, and their standard errors.

    With the weights ``w`` of a cell summing to one, the error of its mean has the square
    ``sum(w**2) * variance``, and ``sum(w**2 * (value - mean)**2)`` expects ``(sum(w**2) -
    2 * sum(w**3) + sum(w**2)**2) * variance``: the ratio of the two factors, which is
    ``n / (n - 1)`` where weights are equal, takes the bias off. Rows count once, whatever their
    weight.
    """
    mean = np.bincount(place, shares * values, minlength=len(mass)) / mass
    own = shares / mass[place]
    second, third, squares = (
        np.bincount(place, part, minlength=len(mass))
        for part in (own**2, own**3, (own * (values - mean[place])) ** 2)
    )
    expected = second - 2.0 * third + second**2
    # Of a single row nothing can be told but by rounding.
    several = np.bincount(place, minlength=len(mass)) > 1
    factor = np.divide(second, expected, out=np.full(len(mass), np.nan), where=several)
    return mean, np.sqrt(squares * factor)


def _accumulated(
    f: RowFunction,
    columns: Columns,
    weights: RowWeights,
    shares: Array,
    j: int,
    bins: int,
    points: Array,
    memory_budget: int,
) -> Array:
    """Return accumulated local effects at the points; NaN where there is none."""
    axis = accumulation_axes(columns, weights, (j,), bins, {}, memory_budget).get(j)
    if axis is None:
        return np.zeros((len(points), f.n_outputs))
    effect = accumulate_main(f, columns, shares, axis)
    placed = axis.place(points)
    known = np.isfinite(placed)[:, None]
    return np.where(known, interpolate(effect.values, [placed]), np.nan)
