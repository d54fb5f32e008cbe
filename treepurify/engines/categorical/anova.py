"""The closed-form functional ANOVA of any function of categorical features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, ModelInputs, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.engines.assemble import check_order
from treepurify.engines.categorical.candidates import (
    Ranking,
    candidate_subsets,
    check_neighbours,
    ranked_features,
)
from treepurify.engines.categorical.identifiability import describe_identifiability
from treepurify.engines.categorical.independent import independent_effects, is_independent
from treepurify.engines.categorical.observations import Observations, observe
from treepurify.engines.categorical.quality import certify, measure_fit, variance_inflation
from treepurify.engines.categorical.reading import Question, read_question
from treepurify.engines.categorical.residual import Residual
from treepurify.engines.categorical.selection import Basis, select_in_order
from treepurify.engines.categorical.solution import Fit, solve
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.progress import progress_report

__all__ = ["categorical_anova"]

Array = npt.NDArray[np.float64]

TOLERANCE = 1e-4
"""Share of an indicator's norm that must be left after projection for it to be independent."""

_BUDGET = 4 << 30
_ROUNDING = 1e-9
_CANCELLING = 10.0


@dataclass(frozen=True, eq=False)
class _Result:
    """A fit, the basis it was found in, and how it was found."""

    fit: Fit
    basis: Basis | None
    method: str


def categorical_anova(
    f: Any,
    X: Any,
    *,
    order: int | None = None,
    rank: int | None = None,
    neighbours: Mapping[int, Sequence[int]] | None = None,
    ranking: Ranking = "position",
    bins: int = 32,
    sample_weight: npt.ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = _BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Decompose any function of categories exactly, under the distribution of the rows.

    The functions ``prod_{i in A} (1{x_i = z_i} - 1{x_i = last}) / p_A(x_A)`` span all
    functions of the observed combinations and are orthogonal to functions of fewer features
    (Ferrere et al. 2026, definition 3.1 and theorem 3.2). Where every combination has mass
    they are a basis and the decomposition is unique. Elsewhere the first independent ones
    are taken, in the order of the subsets' sizes (algorithm 1), so that effects are
    explained by as few features as the rows allow.

    Parameters
    ----------
    f : callable, model, or array_like of shape (n_rows,) or (n_rows, n_outputs)
        The function, or its values on the rows. Tree ensembles are decomposed on the margin
        scale; other models through ``predict``.
    X : array_like or table of shape (n_rows, n_features)
        Labels, codes or numbers. For a tree ensemble the levels are the cells of its grid;
        else text and numeric columns of at most `bins` values have one level a value, and
        other numeric columns are cut at quantiles.
    order : int, optional
        Largest number of features of a component; all by default.
    rank : int, optional
        Most functions to select, the constant included; as many as there are distinct rows
        by default.
    neighbours : mapping of int to sequence of int, optional
        Features that may interact, by position; all by default.
    ranking : {"position", "variance"}
        Order of the features within each size of subsets.
    bins : int
        Most levels of a numeric column.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row.
    feature_names : sequence of str, optional
        Names of the columns.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        Its components are tables over levels, zero at combinations without mass. What the
        selected functions leave is the ``remainder``, orthogonal to all of them.
        ``diagnostics["fit"]`` has R2 and errors by output, ``diagnostics["identifiability"]``
        the rank and what the rows do not determine.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would not fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([["a", "u"], ["a", "v"], ["b", "u"], ["b", "v"]])
    >>> d = categorical_anova(lambda x: (x[:, 0] == "b") & (x[:, 1] == "v"), X)
    >>> d["x0", "x1"].values[..., 0]
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])

    Where one feature is a copy of another, the first carries the effect:

    >>> d = categorical_anova([0.0, 1.0, 5.0], [[0, 0], [1, 1], [2, 2]])
    >>> d.diagnostics["identifiability"]["sentences"][0]
    'x1 is a function of x0: on the observed rows its effect cannot be told from that of x0, ...'
    """
    _check_options(order, rank, ranking)
    report = progress_report(progress)
    question = read_question(f, X, bins, feature_names)
    n_features, n_rows = question.codes.shape
    near = check_neighbours(neighbours, n_features)
    row_weights = _row_weights(sample_weight, n_rows)
    observations = observe(
        question.codes,
        question.values,
        row_weights,
        tuple(axis.n_cells for axis in question.grid.axes),
    )
    most = n_features if order is None else min(order, n_features)
    if rank is None and near is None and is_independent(observations):
        result = _solve_independent(observations, most)
    else:
        subsets = candidate_subsets(ranked_features(observations.level_mass, ranking), most, near)
        wanted = min(rank or observations.n_points, observations.n_points)
        basis = select_in_order(observations, subsets, wanted, TOLERANCE, memory_budget, report)
        result = _Result(solve(observations, basis, memory_budget, report), basis, "Gram system")
    return _assemble(question, observations, result, EncodedRows(question.codes, row_weights))


def _check_options(order: int | None, rank: int | None, ranking: str) -> None:
    check_order(order)
    whole = isinstance(rank, int | np.integer) and not isinstance(rank, bool)
    if rank is not None and not (whole and rank >= 1):
        raise InvalidInputError(f"rank must be a whole number of at least 1, got {rank!r}")
    if ranking not in ("position", "variance"):
        raise InvalidInputError(f'ranking must be "position" or "variance", got {ranking!r}')


def _row_weights(sample_weight: npt.ArrayLike | None, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight must have one number a row ({n_rows}), got shape {weights.shape}"
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise InvalidInputError("sample_weight must be finite, not negative, and not all zero")
    return weights


def _solve_independent(observations: Observations, order: int) -> _Result:
    intercept, effects = independent_effects(observations, order)
    residual = observations.values - intercept
    for subset, table in effects.items():
        observations.add(subset, -table, residual)
    method = "conditional means (independent features)"
    return _Result(Fit(intercept, effects, residual, 0.0, 0), None, method)


def _assemble(
    question: Question, observations: Observations, result: _Result, rows: EncodedRows
) -> Decomposition:
    grid, fit = question.grid, result.fit
    inputs = ModelInputs(grid.features, grid.match_names)
    components: dict[Subset, Component] = {}
    for subset, table in fit.effects.items():
        mass = observations.margin(subset) if result.basis is None else result.basis.mass[subset]
        cells = np.ix_(*(observations.cell_of_level[j] for j in subset))
        values = np.zeros((*grid.shape(subset), observations.n_outputs))
        values[cells] = table
        full_mass = np.zeros(grid.shape(subset))
        full_mass[cells] = mass
        axes = grid.subset_axes(subset)
        components[subset] = TensorComponent(subset, axes, values, full_mass, inputs)
    quality = measure_fit(observations, fit)
    names = tuple(spec.name for spec in grid.features)
    diagnostics: dict[str, Any] = {
        "method": result.method,
        "function": question.source,
        "rows": int(question.codes.shape[1]),
        "fit": quality.table(question.output_names),
        "tolerance": TOLERANCE,
    }
    if result.basis is not None:
        basis = result.basis
        report_of_rows = describe_identifiability(observations, basis, names)
        inflation = variance_inflation(observations, fit, basis)
        if inflation > _CANCELLING:
            report_of_rows["sentences"].append(
                f"The variances of the components add up to {inflation:.3g} times that of the "
                "function: on the observed rows large components cancel each other, and how they "
                "share the function is hardly determined. A smaller rank or order avoids this."
            )
        diagnostics["identifiability"] = report_of_rows | {"inflation": inflation}
        diagnostics["selection"] = {
            "tried": basis.tried,
            "smallest_kept": basis.smallest_kept,
            "largest_rejected": basis.largest_rejected,
            "exhausted": basis.exhausted,
            "made_orthogonal": fit.replaced,
        }
    return Decomposition(
        intercept=fit.intercept,
        components=components,
        output_names=question.output_names,
        measure="empirical",
        engine="categorical closed form",
        inputs=inputs,
        link=question.link,
        certificate=certify(observations, fit, result.basis),
        remainder=_residual(question, observations, fit, components, inputs),
        diagnostics=diagnostics,
        rows=dict.fromkeys(range(1, len(grid.features) + 1), rows),
        stored_covariances=quality.covariances,
    )


def _residual(
    question: Question,
    observations: Observations,
    fit: Fit,
    components: dict[Subset, Component],
    inputs: ModelInputs,
) -> Residual | None:
    """Return what is left; None where the components reproduce the function at every row."""
    scale = float(np.abs(observations.values).max())
    if np.abs(fit.residual).max() <= _ROUNDING * scale and not np.any(
        observations.within > (_ROUNDING * scale) ** 2
    ):
        return None
    squares = observations.mass @ fit.residual**2 + observations.within
    narrow = question.codes.dtype
    levels = zip(observations.cell_of_level, observations.codes, strict=True)
    cells = np.stack([own.astype(narrow)[codes] for own, codes in levels])
    return Residual(
        inputs,
        question.grid.axes,
        fit.intercept,
        tuple(components.values()),
        np.asarray(squares),
        np.asarray(observations.mass @ np.abs(fit.residual)),
        question.function,
        cells,
        fit.residual,
    )
