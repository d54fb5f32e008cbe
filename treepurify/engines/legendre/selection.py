"""Which columns a decomposition keeps: candidates, least angle regression and a criterion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_whole
from treepurify.budget import check_budget
from treepurify.engines.common.least_angle import (
    Criterion,
    TooFewRowsError,
    full_fit,
    lars_path,
)
from treepurify.engines.legendre.densities import Density
from treepurify.engines.legendre.design import (
    LegendreBasis,
    ScaledRows,
    count_columns,
    design_blocks,
)
from treepurify.engines.legendre.least_squares import (
    explained_variances,
    least_squares,
)
from treepurify.engines.legendre.moments import Moments, measure_moments
from treepurify.engines.legendre.scaling import Axis
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.typing import Array, Indices
from treepurify.weights.distributions import outer_product

ColumnScale = Literal["unit", "density", "polynomial", "equation 7"]

Densities = Callable[[Sequence[Subset]], dict[Subset, Density]]

_USUAL_DEGREE = 10
# Where rows are few: rows for each column, and curves as long as main effects allow them.
_ROWS_A_COLUMN = 2
_DEGREE_OF_CURVES = 2
_EMPTY_COLUMN = 1e-24
_SCREENING_DEGREE = 4
# What a tuple of features takes in the list of all of them.
_BYTES_A_SUBSET = 400


@dataclass(frozen=True)
class TermSelection:
    """Which functions `legendre_anova` keeps: the selection of the columns of its regression.

    Least angle regression depends on the scale of its columns: a column that is twice as long is
    as attractive as one that is twice as correlated. The paper (Ferrere et al., "Generalized
    Functional ANOVA in Closed-Form") divides products of polynomials by densities and does not
    standardise, so its choice depends on where densities are small. It also depends on whether the
    factor of the paper's equation 7 is applied.

    Parameters
    ----------
    criterion : {"bic", "aic", "all"}
        Information criterion along the path; ``"all"`` selects every column.
    column_scale : {"unit", "density", "polynomial", "equation 7"}
        ``"unit"`` gives all columns standard deviation one, so that correlations decide;
        ``"density"`` leaves normalised polynomials over densities as they are;
        ``"polynomial"`` uses Legendre polynomials that are one at the upper end, which
        reproduces the paper's figures, though its equation 17 says otherwise;
        ``"equation 7"`` multiplies normalised ones of a subset S by ``2**(-(p - |S|) / 2)``.
    max_steps : int
        Largest number of steps of the path. scikit-learn's ``LassoLarsIC``, which the paper uses,
        stops after 500.
    max_candidates : int
        Largest number of columns from which the path selects. If there are more, all columns of
        main effects are used, and the interaction columns most correlated with the residuals of
        the main effects; ``diagnostics["fit"]`` has the number of columns left out.

    Raises
    ------
    InvalidInputError
        If an option is unknown or a number is not positive.

    See Also
    --------
    treepurify.legendre_anova : Takes it as `selection`.
    """

    criterion: Criterion | Literal["all"] = "bic"
    column_scale: ColumnScale = "unit"
    max_steps: int = 1000
    max_candidates: int = 4000

    def __post_init__(self) -> None:
        for name, known in (
            ("criterion", ("bic", "aic", "all")),
            ("column_scale", get_args(ColumnScale)),
        ):
            check_choice(name, getattr(self, name), known)
        for name in ("max_steps", "max_candidates"):
            check_whole(name, getattr(self, name), 1)


@dataclass(frozen=True, eq=False)
class Selected:
    """The selected columns of one output.

    Parameters
    ----------
    columns : ndarray of int
        Positions of the columns, increasing.
    steps : int
        Steps that the path took.
    at_limit : bool
        Whether the path was cut off at `max_steps` with the criterion still falling.
    noise_variance : float
        Of the criterion; NaN without one.
    dropped : int
        Candidates that are linear combinations of others, of which the first are preferred.
    """

    columns: Indices
    steps: int
    at_limit: bool
    noise_variance: float
    dropped: int


def as_selection(selection: str | TermSelection) -> TermSelection:
    """Return the selection; a name stands for a criterion."""
    if isinstance(selection, TermSelection):
        return selection
    return TermSelection(criterion=selection)  # type: ignore[arg-type]


def choose_degree(
    axes: Mapping[int, Axis], order: int, selection: TermSelection, n_rows: float
) -> tuple[int, TermSelection, str]:
    """Return the degree that some rows allow, the selection under it, and a note if it is lower.

    The noise has to be estimated from the rows that are more than the columns. Where those of the
    usual degree are too many, the degree is the largest with two rows for each column; where a
    parabola of each feature is too much for interactions, these are screened.

    Parameters
    ----------
    axes : mapping of int to Axis
        The scaled features.
    order : int
        Most features of a column.
    selection : TermSelection
        How many columns there may be.
    n_rows : float
        Number of rows.
    """
    n_usual = count_columns(axes, order, _USUAL_DEGREE)
    most = max(selection.max_candidates, count_columns(axes, 1, _USUAL_DEGREE))
    if selection.criterion == "all" or min(n_usual, most) < n_rows - 1:
        return _USUAL_DEGREE, selection, ""
    most = int(n_rows / _ROWS_A_COLUMN)
    curves = _DEGREE_OF_CURVES if count_columns(axes, 1, _DEGREE_OF_CURVES) <= most else 1
    lower = range(_USUAL_DEGREE - 1, curves, -1)
    degree = next((d for d in lower if count_columns(axes, order, d) <= most), curves)
    note = (
        f"Since there are only {n_rows:.0f} rows, polynomials have a degree of at most {degree} "
        f"instead of {_USUAL_DEGREE}; pass degree= to choose another."
    )
    fewer = replace(selection, max_candidates=max(min(selection.max_candidates, most), 1))
    return degree, fewer, note


def candidate_columns(
    axes: Mapping[int, Axis],
    rows: ScaledRows,
    values: Array,
    make: Densities,
    order: int,
    degree: int,
    selection: TermSelection,
    report: ProgressReport,
    memory_budget: int,
) -> tuple[LegendreBasis, int]:
    """Return the columns to choose from, and how many were left out before.

    Parameters
    ----------
    axes : mapping of int to Axis
        The scaled features.
    rows : ScaledRows
        The rows.
    values : ndarray of float64, shape (n_rows, n_outputs)
        Values of the function.
    make : callable
        Returns the densities of some subsets.
    order, degree : int
        Most features of a column, and the largest degree of a polynomial.
    selection : TermSelection
        How many columns there may be.
    report : callable
        Progress.
    memory_budget : int
        Bytes that the regression may take.

    Raises
    ------
    MemoryBudgetError
        If the regression would not fit.
    """
    total = count_columns(axes, order, degree)
    n_mains = count_columns(axes, 1, degree)
    n_subsets = sum(comb(len(axes), size) for size in range(1, order + 1))
    n_columns = min(total, max(selection.max_candidates, n_mains))
    # A component has a column or more.
    n_values = values.shape[1] * min(n_subsets, n_columns)
    check_budget(
        8 * (4 * n_columns**2 + rows.n_rows * (n_values + 2 * len(axes)))
        + _BYTES_A_SUBSET * n_subsets,
        memory_budget,
        f"inner products of {n_columns} columns on {rows.n_rows} rows",
        "Lower the degree, the order or max_candidates of TermSelection, or use fewer rows.",
    )
    others = [s for size in range(2, order + 1) for s in combinations(axes, size)]
    basis = LegendreBasis(axes, make([(j,) for j in axes]), degree)
    if total > selection.max_candidates:
        others = _screened(basis, others, rows, values, make, selection.max_candidates, report)
    basis = LegendreBasis(axes, {**basis.densities, **make(others)}, degree)
    return basis, total - basis.n_columns


def _screened(
    basis: LegendreBasis,
    subsets: Sequence[Subset],
    rows: ScaledRows,
    values: Array,
    make: Densities,
    max_candidates: int,
    report: ProgressReport,
) -> list[Subset]:
    """Return the main effects and the interactions that explain most of what these leave.

    Each interaction is fitted on its own, with polynomials of degree up to 4, to the residual
    of all main effects; those with the largest explained share in any output are taken as
    long as their columns at the full degree fit into `max_candidates`.
    """
    residual = values - _fitted(basis, rows, values)
    gains = np.zeros(len(subsets))
    degree = min(basis.degree, _SCREENING_DEGREE)
    for i, subset in enumerate(subsets):
        report("screening interactions", i, len(subsets))
        alone = LegendreBasis(basis.axes, make([subset]), degree)
        gains[i] = _gain(measure_moments(alone, rows, residual))
    left = max_candidates - basis.n_columns
    chosen = []
    for i in np.argsort(-gains, kind="stable"):
        size = int(np.prod(basis.shape(subsets[i])))
        if size <= left:
            chosen.append(subsets[i])
            left -= size
    return sorted(chosen, key=lambda s: (len(s), s))


def _fitted(basis: LegendreBasis, rows: ScaledRows, values: Array) -> Array:
    moments = measure_moments(basis, rows, values)
    every = [np.arange(basis.n_columns)] * values.shape[1]
    coefficients = least_squares(basis, rows, values, moments, every)
    fitted = np.tile(moments.value_means, (rows.n_rows, 1))
    for start, stop, block in design_blocks(basis, rows):
        fitted[start:stop] += (block - moments.means) @ coefficients.values
    return fitted


def _gain(moments: Moments) -> float:
    """Return the largest share of an output's variance that the columns explain."""
    explained = explained_variances(moments.gram, moments.covariances)
    return float(np.max(explained / np.where(moments.value_squares > 0, moments.value_squares, 1)))


def select_terms(
    moments: Moments, basis: LegendreBasis, selection: TermSelection, n_rows: float
) -> list[Selected]:
    """Return the selected columns of each output.

    Raises
    ------
    InvalidInputError
        If there are not more rows than columns.
    """
    variance = np.diag(moments.gram)
    square = moments.means**2 + variance
    kept = np.flatnonzero(variance > _EMPTY_COLUMN * square)
    n_outputs = moments.covariances.shape[1]
    if selection.criterion == "all":
        return [Selected(kept, 0, False, float("nan"), 0)] * n_outputs
    scale = _column_scales(basis, selection.column_scale, variance)[kept]
    gram = moments.gram[np.ix_(kept, kept)] if len(kept) < len(variance) else moments.gram.copy()
    # Sums over rows rather than means, as the criteria have them.
    gram *= (n_rows * scale)[:, None]
    gram *= scale
    selected = []
    for k in range(n_outputs):
        total = n_rows * float(moments.value_squares[k])
        right = n_rows * scale * moments.covariances[kept, k]
        try:
            selected.append(_select(gram, right, total, kept, selection, n_rows))
        except TooFewRowsError as error:
            raise TooFewRowsError(f"{error} {_what_fits(basis, n_rows)}") from error
    return selected


def _what_fits(basis: LegendreBasis, n_rows: float) -> str:
    """Return the largest degree of each order whose columns are fewer than the rows."""
    order = max(len(subset) for subset in basis.densities)
    largest = []
    for size in range(order, 0, -1):
        fits = (
            degree
            for degree in range(basis.degree, 0, -1)
            if count_columns(basis.axes, size, degree) < n_rows - 1
        )
        degree = next(fits, None)
        if degree is not None:
            largest.append(f"order={size}, degree={degree}")
    if not largest:
        return "Even main effects of degree 1 need more rows."
    return f"These rows are enough for {', or '.join(largest)}."


def _select(
    gram: Array, right: Array, total: float, kept: Indices, selection: TermSelection, n_rows: float
) -> Selected:
    if total <= 0 or len(kept) == 0:
        return Selected(kept[:0], 0, False, float("nan"), 0)
    name: Criterion = "aic" if selection.criterion == "aic" else "bic"
    full = full_fit(gram, right, total, n_rows)
    path = lars_path(
        gram,
        right,
        total,
        max_steps=selection.max_steps,
        stop=(name, n_rows, full),
    )
    criterion = path.criterion(name, n_rows, full.noise_variance)
    best = int(np.argmin(criterion))
    steps = len(criterion) - 1
    dropped = len(kept) - full.rank
    at_limit = steps >= selection.max_steps and best > 0.95 * steps
    return Selected(
        kept[path.support(best)], steps, at_limit, full.noise_variance / n_rows, dropped
    )


def _column_scales(basis: LegendreBasis, name: ColumnScale, variance: Array) -> Array:
    if name == "unit":
        return np.asarray(1.0 / np.sqrt(np.where(variance > 0, variance, 1.0)))
    scale = np.ones(len(variance))
    if name == "equation 7":
        for subset, columns in basis.slices.items():
            scale[columns] = 2.0 ** (-(len(basis.axes) - len(subset)) / 2)
    if name == "polynomial":
        for subset, columns in basis.slices.items():
            norms = [basis.axes[j].norms(basis.degree) for j in subset]
            scale[columns] = outer_product(norms).ravel()
    return scale
