"""The closed-form functional ANOVA of any function of categorical features."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from treepurify._kernels.categorical import renumber_levels
from treepurify.arguments import check_choice, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.certificate import Certificate
from treepurify.components import Component, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.engines.categorical.observations import Observations, observe
from treepurify.engines.categorical.reading import (
    CategoricalProblem,
    Measured,
    measured,
    read_problem,
)
from treepurify.engines.categorical.routes import (
    Ranking,
    Route,
    Selection,
    Solved,
    candidate_subsets,
    check_neighbours,
    is_independent,
    ranked_features,
    solve_by_greedy_selection,
    solve_by_least_angle,
    solve_by_least_norm,
    solve_in_order,
    solve_independent,
)
from treepurify.engines.categorical.solution import CategoricalFit, measure_fit
from treepurify.engines.common.finish import Result, finish
from treepurify.engines.common.functions import (
    check_values_have_table,
    rows_for_model,
)
from treepurify.engines.common.inputs import check_order, check_order_fits, row_weights, with_note
from treepurify.engines.common.known_values import KnownValues
from treepurify.errors import ConvergenceWarning, InvalidInputError, SupportWarning
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.origin import Call, Identifiability, called
from treepurify.progress import progress_report
from treepurify.remainder import Difference
from treepurify.rows.row_weights import effective_rows, read_row_weights
from treepurify.weights import Weighting, as_weighting

_ROUNDING = 1e-9
# Of the variance: components that leave no more explain all of it.
_WHOLE = 1e-12
_CONVERGED = 1e-10
_NOT_CONVERGED = (
    "the effects are inaccurate: they differ from the best fit of the selected functions by "
    '{error:.1e} of the function\'s norm. Pass selection="least-norm", a smaller rank or order, or '
    "fewer bins"
)
_IN_ORDER = {
    "auto": solve_in_order,
    "greedy": solve_by_greedy_selection,
    "least-norm": solve_by_least_norm,
}


def categorical_anova(  # noqa: PLR0913 - what all engines take, and how functions are selected
    model: Any,
    X: Any,
    *,
    weights: str | Weighting = "empirical",
    order: int | None = None,
    rank: int | None = None,
    selection: Selection = "auto",
    neighbours: Mapping[int, Sequence[int]] | None = None,
    ranking: Ranking = "position",
    bins: int = 32,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Decompose any function of categories exactly, under a distribution of its features.

    It fits the functions ``prod_{i in A} (1{x_i = z_i} - 1{x_i = last}) / p_A(x_A)``, which span
    all functions of the observed combinations and are orthogonal to functions of fewer features
    (Ferrere et al. 2026, definition 3.1 and theorem 3.2). If every combination of levels has mass,
    the decomposition is unique. Otherwise some of these functions depend on others, and the first
    independent ones are used, beginning with sets of few features (algorithm 1). So main effects
    explain as much as the rows allow.

    Parameters
    ----------
    model : object, str, Path, callable, or array_like of shape (n_rows,) or (n_rows, n_outputs)
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs); or its values on the rows.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        Labels, codes or numbers. For a tree ensemble, the levels are the intervals between its
        split points. Otherwise text columns, and numeric columns of at most `bins` values, have
        one level per value, and other numeric columns are divided at quantiles. For rows in
        batches, as in `purify`, a weighted sample of at most 100 000 is used;
        ``diagnostics["stream"]`` says so.
    weights : str or Weighting
        The distribution of the features: by default that of the rows; see `purify`. Under another
        distribution the function is also called at combinations of levels that no row has.
        ``"laplace"``, ``"independent"`` and ``"uniform"`` give mass to every combination of
        levels, so the decomposition is unique.
    order : int, optional
        Largest number of features of an effect; all by default.
    rank : int, optional
        Largest number of functions to select, the constant included. By default the number of
        distinct rows, or with ``"lars"`` the number with the least BIC.
    selection : {"auto", "greedy", "least-norm", "lars"}
        ``"greedy"``: the first independent functions. If `rank` is smaller than their number, the
        order of the columns decides: put columns that matter first, or see `ranking`.
        ``"least-norm"``: the effects with the smallest sum of variances, among all that explain
        the same with as few features as the rows allow; all features are treated alike.
        ``"auto"``: ``"greedy"``; or ``"least-norm"``, with a warning, if no `rank` is given and
        the first functions nearly depend on each other, or fit any values and largely cancel;
        many more functions than distinct rows are refused where that would take long. ``"lars"``:
        a few of all functions up to `order`, selected along the LASSO path in any order (section 6
        of the paper), and then fitted by least squares. Its memory grows with the square of the
        number of functions.
    neighbours : mapping of int to sequence of int, optional
        Features that may interact, by position; all by default.
    ranking : {"position", "variance"}
        Order of the features within each size of subsets.
    bins : int
        Largest number of levels of a numeric column.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        Its effects are tables over levels, zero at combinations without mass. The ``remainder``
        is orthogonal to the selected functions. ``diagnostics["fit"]`` has R2 and errors for each
        output; ``diagnostics["identifiability"]`` has the rank and the effects that the rows do
        not determine. On the margin scale for parsed models, else on the scale of the function.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would take too much memory.

    Warns
    -----
    SupportWarning
        If effects are large and largely cancel, so that they mean little, or if effects of least
        norm were used for that reason.
    ConvergenceWarning
        If the effects do not reproduce the best fit of the selected functions.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    hooker_anova : Any function, fitted by tables on points.
    legendre_anova : Any function of continuous features, fitted on its rows.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.array([["a", "u"], ["a", "v"], ["b", "u"], ["b", "v"]])
    >>> d = tp.categorical_anova(lambda x: (x[:, 0] == "b") & (x[:, 1] == "v"), X)
    >>> d["x0", "x1"].values[..., 0]
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])

    If one feature is a copy of another, the first has the effect:

    >>> d = tp.categorical_anova([0.0, 1.0, 5.0], [[0, 0], [1, 1], [2, 2]])
    >>> d.diagnostics["identifiability"]["sentences"][0]
    'x1 is a function of x0: on the observed rows its effect cannot be distinguished ...'
    """
    call = called(categorical_anova, locals())
    _check_options(order, rank, selection, ranking)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    weighting = as_weighting(weights)
    if not weighting.needs_rows:
        row_weights(None, weighting, sample_weight)
    check_values_have_table(model, X)
    sample = rows_for_model(model, X, feature_names, sample_weight, memory_budget, report)
    problem = read_problem(model, sample.table, bins, feature_names, sample.weights)
    n_features, n_rows = problem.codes.shape
    check_order_fits(order, n_features)
    near = check_neighbours(neighbours, n_features)
    weights_of_rows = read_row_weights(sample.weights, n_rows)
    facts = {"effective_rows": effective_rows(n_rows, weights_of_rows)}
    measure = measured(problem, weights_of_rows, weighting, memory_budget)
    problem, row_masses = measure.problem, measure.weights
    observations = observe(
        problem.codes,
        problem.values,
        row_masses,
        tuple(axis.n_cells for axis in problem.grid.axes),
    )
    most = n_features if order is None else min(order, n_features)
    names = tuple(spec.name for spec in problem.grid.features)
    ranked = ranked_features(observations.level_mass, ranking)
    subsets = partial(candidate_subsets, ranked, most, near)
    route = Route(observations, subsets, names, rank, memory_budget, report)
    if selection == "lars":
        solved = solve_by_least_angle(route, facts["effective_rows"])
    elif rank is None and near is None and is_independent(observations):
        solved = solve_independent(route, most)
    else:
        solved = _IN_ORDER[selection](route)
    _check_tables(problem, solved, memory_budget)
    solved = replace(solved, diagnostics={**solved.diagnostics, **facts, **measure.facts})
    d = _finish(measure, observations, solved, n_rows, call)
    if solved.warning:
        warnings.warn(solved.warning, SupportWarning, stacklevel=2)
    if not solved.fit.error < _CONVERGED:
        warnings.warn(
            _NOT_CONVERGED.format(error=solved.fit.error), ConvergenceWarning, stacklevel=2
        )
    return with_note(d, sample)


def _check_options(order: int | None, rank: int | None, selection: str, ranking: str) -> None:
    check_order(order)
    if rank is not None:
        check_whole("rank", rank, 1)
    check_choice("selection", selection, get_args(Selection))
    check_choice("ranking", ranking, get_args(Ranking))
    if selection == "least-norm" and rank is not None:
        raise InvalidInputError(
            'selection="least-norm" uses all functions, so rank does not apply: leave rank out, '
            'or pass selection="greedy"'
        )


def _check_tables(problem: CategoricalProblem, solved: Solved, memory_budget: int) -> None:
    """Refuse tables over all levels, of which the rows may have few."""
    cells = sum(prod(problem.grid.shape(subset)) for subset in solved.fit.effects)
    check_budget(
        8 * cells * (1 + solved.fit.intercept.size),
        memory_budget,
        f"{len(solved.fit.effects)} effects of {cells} values in total",
        "Pass a smaller rank or order, or fewer bins.",
    )


def _finish(
    measure: Measured, observations: Observations, solved: Solved, n_rows: int, call: Call
) -> Decomposition:
    problem = measure.problem
    rows = EncodedRows(problem.codes, measure.weights)
    grid, fit = problem.grid, solved.fit
    components: dict[Subset, Component] = {}
    for subset, table in fit.effects.items():
        cells = np.ix_(*(observations.cell_of_level[j] for j in subset))
        values = np.zeros((*grid.shape(subset), observations.n_outputs))
        values[cells] = table
        mass = np.zeros(grid.shape(subset))
        mass[cells] = solved.mass[subset]
        axes = grid.subset_axes(subset)
        components[subset] = TensorComponent(subset, axes, values, mass, problem.inputs)
    errors = measure_fit(observations, fit)
    is_whole = bool(np.all(errors.r_squared >= 1 - _WHOLE))
    result = Result(
        fit.intercept,
        components,
        rest=_rest(problem, observations, fit),
        covariances=errors.covariances,
        diagnostics={
            "function": problem.source,
            "fit": errors.table(problem.output_names),
            **solved.diagnostics,
        },
        n_rows=n_rows,
        certificate=Certificate(
            float(np.abs(observations.values).max(initial=0.0)),
            unidentified=solved.unidentified,
            solver_error=float(fit.error),
            fitted_share=() if is_whole else tuple(errors.r_squared.tolist()),
            note=solved.note,
        ),
        method=solved.method,
    )
    d = finish(
        problem,
        result,
        engine="categorical closed form",
        measure=measure.words,
        call=call,
        note=measure.note,
        rows=dict.fromkeys(range(1, len(grid.features) + 1), rows),
    )
    origin = replace(d.origin, identifiability=_identifiability(solved))
    if not measure.are_rows:
        # The number of combinations is not the size of a sample.
        origin = replace(origin, measure_rows=0)
    return replace(d, origin=origin)


def _identifiability(solved: Solved) -> Identifiability | None:
    """Return which effects the rows determine, as code reads it."""
    report = solved.diagnostics.get("identifiability")
    if report is None:
        return None
    determined = report.get("determined_terms")
    return Identifiability(
        report["unique"],
        report["rank"],
        report["n_rejected"],
        None if determined is None else tuple(determined),
        solved.diagnostics.get("selection", {}).get("method") == "least-norm",
    )


def _rest(
    problem: CategoricalProblem, observations: Observations, fit: CategoricalFit
) -> Difference | None:
    """Return what is left; None where the components reproduce the function at every row."""
    scale = float(np.abs(observations.values).max())
    if np.abs(fit.residual).max() <= _ROUNDING * scale and not np.any(
        observations.within > (_ROUNDING * scale) ** 2
    ):
        return None
    squares = observations.mass @ fit.residual**2 + observations.within
    cells = np.empty(observations.codes.shape, dtype=problem.codes.dtype)
    for j, codes in enumerate(observations.codes):
        renumber_levels(codes, observations.cell_of_level[j], cells[j])
    axes, function = problem.grid.axes, problem.function
    return Difference(
        KnownValues(problem.inputs, cells.T, observations.values, axes, function),
        np.asarray(squares),
        is_joint=True,
        mean_absolute=np.asarray(observations.mass @ np.abs(fit.residual)),
    )
