"""Select columns by least angle regression and an information criterion, from a Gram matrix."""

from typing import Literal, NamedTuple

import numpy as np

from treepurify._kernels.lars import least_angle_path
from treepurify.errors import InvalidInputError
from treepurify.typing import Array, Indices

Criterion = Literal["bic", "aic"]

_TIE = 1e-9
_PIVOT_SHARE = 1e-11
_RANK_SHARE = 1e-11
_LEAST_NOISE = 1e-14


class TooFewRowsError(InvalidInputError):
    """There are no more rows than independent columns: the noise has no estimate."""


class FullFit(NamedTuple):
    """The least squares fit with all columns, as the criteria need it.

    Parameters
    ----------
    sum_of_squares : float
        Residual sum of squares with all columns.
    rank : int
        Number of independent columns.
    noise_variance : float
        ``sum_of_squares / (n_rows - rank - 1)``: scikit-learn's ``LassoLarsIC`` divides the same
        way, by the number of columns where all are independent. At least ``1e-14`` of the
        total sum of squares per row, so that a function without noise does not divide by zero.
    """

    sum_of_squares: float
    rank: int
    noise_variance: float


class LarsPath(NamedTuple):
    """The path of least angle regression, breakpoint by breakpoint.

    Parameters
    ----------
    levels : ndarray of float64, shape (n_steps,)
        Absolute inner product of the active columns with the residual; decreasing.
        scikit-learn's ``alphas`` are these over the number of rows.
    sums_of_squares : ndarray of float64, shape (n_steps,)
        Residual sum of squares.
    n_terms : ndarray of int, shape (n_steps,)
        Number of coefficients that are not zero.
    dropped : ndarray of int
        Columns that are zero or linear combinations of columns that joined before, as far as
        the path met them.
    n_columns : int
        Number of columns.
    columns, values : ndarray
        Columns with a coefficient, and these, breakpoint after breakpoint.
    """

    levels: Array
    sums_of_squares: Array
    n_terms: Indices
    dropped: Indices
    n_columns: int
    columns: Indices
    values: Array

    def support(self, step: int) -> Indices:
        """Return the columns with a coefficient at a breakpoint, increasing."""
        return np.flatnonzero(self.coefficients(step))

    def coefficients(self, step: int) -> Array:
        """Return the coefficients at a breakpoint, shape (n_columns,)."""
        last = self.n_terms.cumsum()[step]
        some = slice(last - self.n_terms[step], last)
        values = np.zeros(self.n_columns)
        values[self.columns[some]] = self.values[some]
        return values

    def criterion(self, name: Criterion, n_rows: float, noise_variance: float) -> Array:
        """Return the information criterion at every breakpoint, shape (n_steps,).

        ``n log(2 pi s2) + RSS / s2 + c k`` with ``k`` coefficients that are not zero, and
        ``c = log n`` (BIC) or ``2`` (AIC): the convention of scikit-learn's ``LassoLarsIC``
        (Zou, Hastie and Tibshirani 2007, on the degrees of freedom of the LASSO).

        Parameters
        ----------
        name : {"bic", "aic"}
            Which criterion.
        n_rows : float
            Number of rows.
        noise_variance : float
            Variance of the noise, as from `full_fit`.
        """
        constant = n_rows * np.log(2.0 * np.pi * noise_variance)
        fit = self.sums_of_squares / noise_variance
        return np.asarray(constant + fit + _penalty(name, n_rows) * self.n_terms)


def full_fit(gram: Array, correlations: Array, total: float, n_rows: float) -> FullFit:
    """Return the fit with all columns, by a Cholesky factorisation with pivoting.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_columns, n_columns)
        Inner products of the centred columns; only its lower triangle is read.
    correlations : ndarray of float64, shape (n_columns,)
        Inner products of the columns with the centred response.
    total : float
        Sum of squares of the centred response.
    n_rows : float
        Number of rows.

    Raises
    ------
    TooFewRowsError
        If there are no more rows than independent columns: the noise has no estimate then.
    """
    from scipy.linalg import solve_triangular
    from scipy.linalg.lapack import dpstrf

    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    kept = np.flatnonzero(scale > 0)
    whole = gram if len(kept) == len(gram) else gram[np.ix_(kept, kept)]
    # In Fortran order the transpose comes without a copy, and its upper triangle is our lower.
    scaled = (whole / scale[kept][:, None]).T
    scaled /= scale[kept][:, None]
    factor, pivots, rank, _ = dpstrf(scaled, lower=0, tol=_RANK_SHARE, overwrite_a=1)
    order = kept[pivots[:rank] - 1]
    right = (correlations / np.where(scale > 0, scale, 1.0))[order]
    solved = solve_triangular(factor[:rank, :rank], right, trans=1, lower=False, check_finite=False)
    rest = max(total - float(solved @ solved), 0.0)
    freedom = n_rows - rank - 1
    if freedom <= 0:
        raise TooFewRowsError(
            f"an information criterion needs more rows than columns to estimate the noise; got "
            f"{n_rows:.0f} rows and {rank} independent columns. Use a lower order or degree, or "
            "fewer candidates."
        )
    noise = max(rest / freedom, _LEAST_NOISE * total / n_rows, np.finfo(float).tiny)
    return FullFit(rest, int(rank), noise)


def lars_path(
    gram: Array,
    correlations: Array,
    total: float,
    *,
    max_terms: int | None = None,
    max_steps: int | None = None,
    stop: tuple[Criterion, float, FullFit] | None = None,
) -> LarsPath:
    """Follow the LASSO by least angle regression on a Gram matrix (Efron et al. 2004).

    Columns and response are taken to be centred by the caller, and the scale of the columns
    matters: a column twice as long joins as if it were twice as correlated. Equal to
    scikit-learn's ``lars_path(..., method="lasso")``, but for columns that are linear
    combinations of others: here they are left out and reported, whatever the scale.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_columns, n_columns)
        Inner products of the columns; symmetric.
    correlations : ndarray of float64, shape (n_columns,)
        Inner products of the columns with the response.
    total : float
        Sum of squares of the response.
    max_terms : int, optional
        Most columns at a time; all by default.
    max_steps : int, optional
        Most steps; eight times the number of columns by default.
    stop : tuple of (criterion, n_rows, FullFit), optional
        End the path early where the criterion cannot get better: not even with the residual
        of all columns and a tenth fewer columns than are active.

    Returns
    -------
    LarsPath

    Examples
    --------
    >>> import numpy as np
    >>> columns = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> response = np.array([3.0, -3.0, 1.0, -1.0])
    >>> path = lars_path(columns.T @ columns, columns.T @ response, response @ response)
    >>> path.levels
    array([6., 2., 0.])
    >>> path.coefficients(1), path.coefficients(2)
    (array([2., 0.]), array([3., 1.]))
    """
    n_columns = len(correlations)
    penalty, noise, floor = 0.0, 1.0, 0.0
    if stop is not None:
        name, n_rows, full = stop
        penalty, noise = _penalty(name, n_rows), full.noise_variance
        floor = full.sum_of_squares
    levels, squares, ends, columns, values, state = least_angle_path(
        np.ascontiguousarray(gram),
        correlations.copy(),
        float(total),
        n_columns if max_terms is None else min(max_terms, n_columns),
        8 * n_columns if max_steps is None else max_steps,
        _PIVOT_SHARE,
        penalty,
        noise,
        floor,
        _TIE,
    )
    n_terms, dropped = np.diff(ends, prepend=0), np.flatnonzero(state == 2)
    return LarsPath(levels, squares, n_terms, dropped, n_columns, columns, values)


def _penalty(name: Criterion, n_rows: float) -> float:
    return float(np.log(n_rows)) if name == "bic" else 2.0
