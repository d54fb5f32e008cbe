"""Hooker's weighted functional ANOVA of a function: least squares on a grid, then purified."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.certificate import STOPPED, Certificate
from treepurify.components import TensorComponent, values_on_rows
from treepurify.decomposition import Decomposition
from treepurify.effects.accumulate import model_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.explained import measure_explained
from treepurify.engines.common.finish import (
    Result,
    finish,
    table_components,
)
from treepurify.engines.common.functions import (
    ParsedFunction,
    ResponseFunction,
    RowFunction,
    read_function,
    rows_for_model,
)
from treepurify.engines.common.inputs import (
    Interactions,
    check_order_fits,
    named_subsets,
    row_weights,
    with_note,
)
from treepurify.engines.common.problem import check_memory
from treepurify.engines.hooker.freedom import Freedom, measure_freedom
from treepurify.errors import FitWarning, InvalidInputError
from treepurify.grids.axis import quantile_cuts
from treepurify.grids.grid import Cuts, Grid, Subset, make_grid
from treepurify.origin import called
from treepurify.progress import ProgressReport, progress_report
from treepurify.purification.cascade import Purified, downward_closure, purify_effects
from treepurify.remainder import Difference
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array
from treepurify.weights import Weighting, as_weighting
from treepurify.weights.distributions import MassTables
from treepurify.weights.points import MeasurePoints, sample_points

_MOST_ORDER = 3
_TOLERANCE = 1e-12
_STEPS = 5000
# Bytes of a table in addition to its cells: arrays, axes and the report of its solve.
_BYTES_A_TABLE = 2048
# Values of a feature, its cells, and what drawing and finding them takes.
_TABLES_OF_POINTS = 4


def hooker_anova(
    model: Any,
    X: Any,
    *,
    weights: str | Weighting = "empirical",
    order: int = 2,
    bins: int = 16,
    interactions: Interactions | None = None,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    n_points: int = 20_000,
    seed: int = 0,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    r"""Fit main effects and interactions to any function, orthogonal under a chosen density.

    The function is fitted by a sum of tables of up to `order` features, with least squares under
    the distribution (Hooker 2007, section 3). The tables are then purified, so that every
    effect is orthogonal to all functions of fewer of its features. For a tree model whose
    paths test at most `order` features, the fit is exact on the rows, and the result is that of
    `purify` if the rows determine the tables. If they do not, `purify` uses the tables of the
    model, and this function the fit of least norm: ``certificate.fit_unidentified`` is the number
    of undetermined parameters. A `FitWarning` says if the tables could fit any values on the rows.

    Parameters
    ----------
    model : object, str, Path or callable
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs).
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. For rows in batches, as in `purify`, a weighted sample of at most 100 000
        is used; ``diagnostics["stream"]`` says so.
    weights : str or Weighting
        The distribution of the features; see `purify`.
    order : {1, 2, 3}
        Largest number of features of an effect.
    bins : int
        Number of intervals of a numeric feature, between quantiles of the rows, if a function is
        decomposed. Parsed models keep their split points.
    interactions : sequence of tuple of (str or int), optional
        The interactions that are fitted; all up to `order` by default.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    n_points : int
        Number of points at which a function is evaluated if the distribution is not that of the
        rows. The draw does not depend on the order of the rows.
    seed : int
        Seed of these points, and of a sample of rows.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        The remainder is the function minus the effects. ``diagnostics["fit"]["r_squared"]`` is the
        share of the variance that the effects explain. In cells without a point, values are
        a convention: those of least norm. Effects are on the margin scale for parsed models, else
        on the scale of the function.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the tables would take too much memory.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    legendre_anova : Any function of continuous features, fitted on its rows.
    categorical_anova : Any function of categories, in closed form.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(400, 3)).astype(float)
    >>> d = tp.hooker_anova(lambda X: X[:, 0] + X[:, 1] * X[:, 2], X, weights="uniform")
    >>> d["x1", "x2"].values[..., 0].round(6)
    array([[ 0.25, -0.25], [-0.25,  0.25]])
    """
    call = called(hooker_anova, locals())
    check_whole("order", order, 1, _MOST_ORDER)
    check_whole("bins", bins, 2)
    check_whole("n_points", n_points, 2)
    check_whole("seed", seed, 0)
    check_memory_budget(memory_budget)
    report = progress_report(progress)
    sample = rows_for_model(
        model, X, feature_names, sample_weight, memory_budget, report, seed=seed
    )
    weighting = as_weighting(weights)
    f, columns = read_function(model, sample.table, feature_names)
    check_order_fits(order, len(f.features))
    given = row_weights(columns, weighting, sample.weights)
    measure, n_rows = weighting.fitted(columns, given, memory_budget), columns.n_rows
    facts = {"measure": dict(measure.facts)} if measure.facts else {}
    weighting, columns = measure.weighting, measure.columns or columns
    grid, rows = make_grid(
        columns,
        f.features,
        _function_cuts(f, columns, measure.row_weights, bins),
        match_names=f.inputs.match_names,
    )
    if rows is None:
        raise InvalidInputError("X has no rows; pass the rows that represent the distribution")
    rows = replace(rows, weights=measure.row_weights)
    fitted = _fitted_subsets(f, grid, order, interactions, memory_budget)
    subsets = downward_closure(fitted)
    axes = {subset: grid.subset_axes(subset) for subset in subsets}
    check_memory([*axes.values()], f.n_outputs, memory_budget)
    if weighting.share_of_rows != 1.0:
        _check_points(n_points, len(f.features), f.n_outputs, memory_budget)
    rng = np.random.default_rng(seed)
    points = sample_points(weighting, MeasurePoints(columns, rows), grid, n_points, rng)
    _check_fit(len(fitted), len(points.shares), memory_budget)
    report("evaluating the function", 0, 0)
    values = f(points.columns)
    report("fitting tables", 0, 0)
    mass = weighting.tables(grid, rows, subsets)
    found, purified = _find(points, values, grid, fitted, mass, seed, report)
    tables = table_components(purified, mass, axes, f.inputs)
    result = _result(f, found, purified, tables, facts, n_rows)
    d = finish(
        f,
        result,
        engine="hooker",
        measure=weighting.describe(),
        call=call,
        note=measure.note,
    )
    return with_note(d, sample)


@dataclass(frozen=True, eq=False)
class _FittedEffects:
    effects: EffectTensors
    steps: int
    gradient: float
    converged: bool


@dataclass(frozen=True, eq=False)
class _Found:
    """The points, the function there, its fit, and what that leaves open."""

    points: MeasurePoints
    values: Array
    fit: _FittedEffects
    freedom: Freedom
    seed: int

    def note(self) -> str:
        """Say how points were drawn, and how directions of the fit were counted."""
        freedom_note = _note(self.freedom)
        if not self.points.drawn:
            return freedom_note
        return (
            f"The fit used {self.points.drawn} points drawn from the distribution (seed "
            f"{self.seed}): other seeds show how far the draw moves effects. {freedom_note}"
        ).rstrip()

    def facts(self, share: Array) -> dict[str, Any]:
        """Return what diagnostics say of the fit."""
        return {
            "points": len(self.points.shares),
            "drawn": self.points.drawn,
            "seed": self.seed,
            "steps": self.fit.steps,
            "gradient": self.fit.gradient,
            "undetermined": self.freedom.directions,
            "undetermined_is_exact": self.freedom.is_exact,
            "r_squared": share.tolist(),
        }


def _find(
    points: MeasurePoints,
    values: Array,
    grid: Grid,
    fitted: list[Subset],
    mass: MassTables,
    seed: int,
    report: ProgressReport,
) -> tuple[_Found, Purified]:
    """Return the fit with what it leaves open, and its purified effects."""
    axes = {subset: grid.subset_axes(subset) for subset in mass}
    fit = _fit(points, values, grid, fitted, report)
    purified = purify_effects(fit.effects, mass, axes, method="exact", progress=report)
    kept, sizes = points.shares > 0, [axis.n_cells for axis in grid.axes]
    freedom = measure_freedom(points.encoded.codes[:, kept], fitted, sizes)
    return _Found(points, values, fit, freedom, seed), purified


def _result(
    f: RowFunction,
    found: _Found,
    purified: Purified,
    tables: Mapping[Subset, TensorComponent],
    facts: Mapping[str, Any],
    n_rows: int,
) -> Result:
    """Return fitted and purified tables with what they explain of the points."""
    points, fit, freedom = found.points, found.fit, found.freedom
    on_points = dict.fromkeys(range(1, _MOST_ORDER + 1), points.encoded)
    parts = ((subset, values_on_rows(table, on_points)) for subset, table in tables.items())
    explained = measure_explained(found.values, points.shares, purified.intercept, parts)
    solutions = purified.solutions.values()
    counted = sum(solution.unidentified or 0 for solution in solutions)
    return Result(
        purified.intercept,
        tables,
        purified,
        Difference(f, explained.rest_variance),
        explained.covariances,
        {**facts, "fit": found.facts(explained.share)},
        n_rows,
        Certificate(
            fitted_share=tuple(explained.share.tolist()),
            solver_error=fit.gradient,
            fit_unidentified=max(freedom.directions - counted, 0),
            note=found.note(),
        ).noted(STOPPED * (not fit.converged)),
    )


def _note(freedom: Freedom) -> str:
    """Say how directions of the fit were counted, and warn where it fits anything."""
    if freedom.fits_anything:
        warnings.warn(
            f"the tables have {freedom.directions} more unknowns than the points determine, so "
            "they would fit any function, and the explained share of the variance says nothing "
            "about other rows. Pass more rows, fewer bins or a smaller order, or use tp.purify, "
            "which reads the tables of the model itself",
            FitWarning,
            stacklevel=5,
        )
    if freedom.is_exact:
        return ""
    return "The true number of undetermined parameters may be larger."


def _function_cuts(f: RowFunction, columns: Columns, weights: RowWeights, bins: int) -> Cuts:
    """Return the cuts of each numeric feature: the model's own, else quantiles of the rows."""
    if isinstance(f, ParsedFunction | ResponseFunction):
        return model_cuts(f.model)
    return tuple(
        None if spec.is_categorical else quantile_cuts(values, bins, weights)
        for spec, values in zip(f.features, columns.values, strict=True)
    )


def _fitted_subsets(
    f: RowFunction,
    grid: Grid,
    order: int,
    interactions: Interactions | None,
    memory_budget: int,
) -> list[Subset]:
    """Return the largest subsets that are fitted; smaller ones are functions of the same."""
    useful = [j for j in f.used_features if grid.axes[j].n_cells > 1]
    wanted = named_subsets(f.features, interactions, order)
    if wanted is None:
        size = min(order, len(useful))
        # Before they are listed, which takes long where they are too many.
        _check_fit(comb(len(useful), size), 0, memory_budget)
        return list(combinations(useful, size)) if size else []
    covered = {j for subset in wanted for j in subset}
    inside = {part for s in wanted for size in range(2, len(s)) for part in combinations(s, size)}
    return sorted({(j,) for j in useful if j not in covered} | (wanted - inside))


def _check_points(n_points: int, n_features: int, n_outputs: int, memory_budget: int) -> None:
    """Refuse points that would not fit, each with its values, its cells and its answers."""
    check_budget(
        8 * n_points * (_TABLES_OF_POINTS * n_features + 2 * n_outputs),
        memory_budget,
        f"{n_points} points",
        "Pass a smaller n_points.",
    )


def _check_fit(n_tables: int, n_points: int, memory_budget: int) -> None:
    """Refuse a fit that would not fit: the tables themselves, and the cell of each point."""
    check_budget(
        (_BYTES_A_TABLE + 24 * n_points) * n_tables,
        memory_budget,
        f"fitting {n_tables} tables" + (f" to {n_points} points" if n_points else ""),
        "Use a smaller order, fewer rows or points, or name the interactions that you need.",
    )


def _fit(
    points: MeasurePoints,
    values: Array,
    grid: Grid,
    fitted: list[Subset],
    report: ProgressReport,
) -> _FittedEffects:
    """Fit tables by least squares: one indicator per cell with points, scaled by its mass.

    The solution is the one of least norm in L2 of the masses, which does not depend on the
    order of features or rows.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, lsmr

    kept = np.flatnonzero(points.shares > 0)
    root = np.sqrt(points.shares[kept])
    column = np.empty((len(kept), max(len(fitted), 1)), dtype=np.int64)
    cells, start = [], 0
    for i, subset in enumerate(fitted):
        flat = np.zeros(len(kept), dtype=np.int64)
        for j in subset:
            flat = flat * grid.axes[j].n_cells + points.encoded.codes[j, kept]
        used, number = np.unique(flat, return_inverse=True)
        column[:, i] = start + number
        cells.append(used)
        start += len(used)
    column = column[:, : len(fitted)]
    scale = np.sqrt(np.bincount(column.ravel(), np.repeat(root**2, len(fitted)), minlength=start))
    entries = (root[:, None] / scale[column]).ravel() if start else np.zeros(0)
    pointers = np.arange(len(kept) + 1) * len(fitted)
    design: Any = csr_array((entries, column.ravel(), pointers), shape=(len(kept), start))
    taken = count(1)

    def image(vector: Array) -> Array:
        report("fitting tables: step", next(taken), 0)
        return np.asarray(design @ vector)

    system = LinearOperator(design.shape, image, design.T.__matmul__, dtype=np.float64)
    mean = points.shares @ values
    solution = np.zeros((start, values.shape[1]))
    steps, gradient, converged = 0, 0.0, True
    for k in range(values.shape[1] if start else 0):
        target = root * (values[kept, k] - mean[k])
        coefficients, _, n_steps, _, norm, *_ = lsmr(
            system, target, atol=_TOLERANCE, btol=_TOLERANCE, conlim=0, maxiter=_STEPS
        )
        solution[:, k] = coefficients / scale
        steps = max(steps, int(n_steps))
        size = max(float(np.linalg.norm(target)), 1e-300)
        gradient = max(gradient, float(norm) / size)
        converged &= int(n_steps) < _STEPS
    tensors = {}
    ends = np.concatenate([[0], np.cumsum([len(used) for used in cells])]).astype(np.intp)
    for i, subset in enumerate(fitted):
        shape = grid.shape(subset)
        table = np.zeros((int(np.prod(shape)), values.shape[1]))
        table[cells[i]] = solution[ends[i] : ends[i + 1]]
        axes = grid.subset_axes(subset)
        tensors[subset] = EffectTensor(subset, axes, table.reshape(*shape, -1))
    return _FittedEffects(EffectTensors(mean, tensors), steps, gradient, converged)
