"""Which columns a decomposition keeps: least angle regression and a criterion."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_whole
from treepurify.engines.common.least_angle import (
    Criterion,
    PathMethod,
    TooFewRowsError,
    full_fit,
    lars_path,
)
from treepurify.engines.legendre.design import Basis, Moments, count_columns
from treepurify.typing import Array, Indices
from treepurify.weights.weighting import outer_product

__all__ = ["ColumnScale", "Selected", "TermSelection", "as_selection", "select_terms"]

ColumnScale = Literal["unit", "density", "polynomial", "equation 7"]

_EMPTY_COLUMN = 1e-24


@dataclass(frozen=True)
class TermSelection:
    """How the columns of the regression are selected.

    Least angle regression is not invariant to the scale of its columns: one twice as long is
    as attractive as one twice as correlated. The paper divides products of polynomials by
    densities and does not standardise, so that its choice depends on where densities are
    small; whether the factor of its equation 7 is applied changes the result, too.

    Parameters
    ----------
    criterion : {"bic", "aic", "all"}
        Information criterion along the path; ``"all"`` keeps every column.
    method : {"lasso", "lar"}
        Whether coefficients that reach zero leave the path.
    column_scale : {"unit", "density", "polynomial", "equation 7"}
        ``"unit"`` gives all columns standard deviation one, so that correlations decide;
        ``"density"`` leaves normalised polynomials over densities as they are;
        ``"polynomial"`` takes Legendre polynomials that are one at the upper end, which is
        what gives the paper's figures, though not what its equation 17 says;
        ``"equation 7"`` multiplies normalised ones of a subset S by ``2**(-(p - |S|) / 2)``.
    max_steps : int
        Most steps of the path. scikit-learn's ``LassoLarsIC``, which the paper uses, stops
        after 500.
    max_candidates : int
        Most columns that the path may choose from. If there are more, all columns of main
        effects and the interaction columns most correlated with what main effects leave
        over are kept; ``diagnostics["fit"]`` says how many were not.
    penalty : {"none", "ridge"}
        Whether the selected columns are fitted by least squares, or with a ridge that grows with
        the square of the degree (the paper's equation 101, where the penalty is left open); its
        size is found by cross-validation in five parts of the rows, and stands in
        ``diagnostics["fit"]``. It brings interactions on new rows nearer to those of the
        population, most of all with few rows.

    Raises
    ------
    InvalidInputError
        If an option is unknown or a number is not positive.
    """

    criterion: Criterion | Literal["all"] = "bic"
    method: PathMethod = "lasso"
    column_scale: ColumnScale = "unit"
    max_steps: int = 1000
    max_candidates: int = 4000
    penalty: Literal["none", "ridge"] = "none"

    def __post_init__(self) -> None:
        for name, known in (
            ("criterion", ("bic", "aic", "all")),
            ("method", get_args(PathMethod)),
            ("column_scale", get_args(ColumnScale)),
            ("penalty", ("none", "ridge")),
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


def select_terms(
    moments: Moments, basis: Basis, selection: TermSelection, n_rows: float
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


def _what_fits(basis: Basis, n_rows: float) -> str:
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
            largest.append(f"order={size} up to degree={degree}")
    if not largest:
        return "Not even main effects of degree 1 have so few columns."
    return f"These rows can hold {', or '.join(largest)}."


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
        method=selection.method,
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


def _column_scales(basis: Basis, name: ColumnScale, variance: Array) -> Array:
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
