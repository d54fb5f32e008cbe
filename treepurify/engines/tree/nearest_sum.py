"""The effects of a low order under dependent features: the sum of few features nearest to a model.

`order=k` requires the function that is a sum of functions of at most k features and is nearest to
the model in mean square, in its pure form. Where the cells of all sets of k features are few enough
for the rows, it is fitted on all of them at once (`purify_jointly`). Elsewhere each tree is
projected by itself, or the low orders of a model of tables are taken. The sum of nearest parts is
not the part nearest to the sum, so that their residual is fitted once more on few intervals, if
rows that were left out show that this helps. Every fit ends with `fitted_result`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from treepurify.budget import check_budget
from treepurify.certificate import STOPPED, Certificate
from treepurify.components import TensorComponent
from treepurify.effects.accumulate import accumulate
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.explained import (
    ExplainedVariance,
    count_in_cells,
    explain_rows,
    measure_explained,
)
from treepurify.engines.common.finish import Result, table_components
from treepurify.engines.common.problem import Layout, Problem, check_memory
from treepurify.engines.tree.second_fit import SourceRows, fit_residual
from treepurify.engines.tree.table_fit import (
    Tables,
    add_up,
    all_cells,
    equations_of_folds,
    expand,
    places_of_rows,
    solve,
)
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.purification.cascade import Purified, purify_effects
from treepurify.remainder import Difference
from treepurify.rows.row_weights import mean_square
from treepurify.terms import term_name
from treepurify.threads import iterate_threads
from treepurify.typing import Array
from treepurify.weights.distributions import MassTables

_PAIR = 2
# Fewer rows for an unknown than this fit noise, and more unknowns take long.
_ROWS_PER_UNKNOWN, _MOST_UNKNOWNS = 4, 5000
# Matrices of the size of the equations: themselves, scaled, with a ridge, and factored.
_MATRICES = 5
# How much less of left-out rows the joint fit may explain than the other does of its own rows.
_ALLOWED_LOSS = 3e-3
# Shares of the variance of a direction: of the largest one, and of a direction in one effect.
_NO_DIRECTION, _NO_PART = 1e-10, 1e-12
# Bytes that undetermined directions may take as tables, as a share of the memory budget.
_DIRECTIONS_SHARE = 4
_MOST_COMBINATIONS = 1 << 20
_ANY_NUMBER = 1e15
_LEAST = float(np.finfo(float).tiny)


class FittedTables(NamedTuple):
    """Tables that were fitted to a model, before they are pure.

    Parameters
    ----------
    effects : EffectTensors
        The tables.
    rows : mapping of int to EncodedRows
        The rows of the fit on the grid of each order.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of these rows.
    facts : dict
        Entries of the diagnostics about the fit, its error among them.
    source_rows : SourceRows, optional
        Which of the given rows they are; None where the residual is not to be fitted.
    directions : EffectTensors, optional
        Sums of tables that vanish on all rows, as outputs side by side.
    note : str
        What a reader of the certificate must know of the fit.
    is_measure : bool
        Whether the rows are the whole measure.
    """

    effects: EffectTensors
    rows: Mapping[int, EncodedRows]
    margin: Array
    facts: dict[str, Any]
    source_rows: SourceRows | None = None
    directions: EffectTensors | None = None
    note: str = ""
    is_measure: bool = True


def count_unknowns(sizes: Sequence[Sequence[int]]) -> int:
    """Return the number of unknowns of all sets of features, on all cells.

    Parameters
    ----------
    sizes : sequence of sequence of int
        For sets of one feature, of two, and so on: the number of cells of each feature.
    """
    total = 0
    for size, of_features in enumerate(sizes, 1):
        # Sums of products over all sets of each size, one feature after the other.
        ways = np.zeros(size + 1)
        ways[0] = 1.0
        for n_cells in of_features:
            ways[1:] += ways[:-1] * (n_cells - 1)
        total += int(min(ways[size], _ANY_NUMBER))
    return total


def is_joint_fit(n_unknowns: int, effective_rows: float) -> bool:
    """Return whether rows determine all cells of all sets of features at once."""
    return n_unknowns <= min(effective_rows / _ROWS_PER_UNKNOWN, _MOST_UNKNOWNS)


def has_few_cells(layout: Layout) -> bool:
    """Return whether all combinations of cells can stand for rows that a measure does not have."""
    return prod(axis.n_cells for axis in layout.grids[1].axes) <= _MOST_COMBINATIONS


def purify_jointly(problem: Problem, other: Callable[[], FittedTables] | None) -> Result:
    """Return the components of the nearest sum, fitted on all cells at once.

    Parameters
    ----------
    problem : Problem
        The model on its grids.
    other : callable, optional
        Another way, which is taken if rows that are left out show that this one fits noise.
    """
    order = problem.kept_terms.order or 1
    rows, margin = _rows_and_margin(problem, order)
    features = [j for j in problem.model.used_features if problem.grid.axes[j].n_cells > 1]
    tables = all_cells(rows, features, problem.layout.grids)
    fitted = fit_tables(problem, tables, rows, margin, problem.source_rows)
    fitted = fitted._replace(facts=fitted.facts | {"missed": 0.0})
    if other is not None:
        held_out = fitted.facts.get("held_out_r_squared", 1.0)
        # No sum of fewer features explains more of these rows than the fit of all of them.
        if held_out < _explained_share(fitted) - _ALLOWED_LOSS:
            found = other()
            if held_out < _explained_share(found) - _ALLOWED_LOSS:
                return fitted_result(problem, found)
    return fitted_result(problem, fitted)


def fit_tables(
    problem: Problem,
    tables: Tables,
    rows: Mapping[int, EncodedRows],
    margin: Array,
    source_rows: SourceRows | None = None,
) -> FittedTables:
    """Return tables fitted to the margin of rows all at once.

    Parameters
    ----------
    problem : Problem
        The model on its grids.
    tables : Tables
        The tables.
    rows : mapping of int to EncodedRows
        The rows on the grid of each order.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Their margin.
    source_rows : SourceRows, optional
        Which of the given rows they are, if the fit is to be measured on rows that are left out.
    """
    check_budget(
        8 * _MATRICES * tables.n_unknowns**2,
        problem.memory_budget,
        f"fitting {len(tables.subsets)} tables with {tables.n_unknowns} unknowns at once",
        'Pass a smaller order, or method="projection"; of coarse intervals, fewer pair_cells.',
    )
    problem.report("fitting all effects at once", 0, 0)
    shares = rows[1].shares
    # A weight that is rounding relative to the heaviest row determines nothing.
    shares = np.where(shares < np.finfo(float).eps * shares.max(), 0.0, shares)
    mean = shares @ margin
    data = places_of_rows(tables, rows), shares, margin - mean
    total = add_up(tables, *data)
    fit = solve(total)
    n, n_open = len(mean), fit.directions.shape[1]
    facts: dict[str, Any] = {
        "unknowns": tables.n_unknowns,
        "undetermined": n_open,
        "converged": True,
        "error": [fit.error] * n,
    }
    if source_rows is not None:
        explained = sum(
            part.gain(solve(total.without(part)).solution) * float(part.square.sum())
            for part in equations_of_folds(tables, *data, source_rows.fold)
        )
        held_out = explained / max(float(total.square.sum()), _LEAST)
        facts |= {"effective_rows": source_rows.effective, "held_out_r_squared": held_out}
    expanded = expand(tables, np.column_stack([fit.solution, fit.directions]))
    constant = expanded.pop(())

    def tensors(outputs: slice, intercept: Array) -> EffectTensors:
        return _tensors(problem, intercept, {s: t[..., outputs] for s, t in expanded.items()})

    effects = tensors(slice(0, n), mean + constant[:n])
    directions = tensors(slice(n, None), constant[n:]) if n_open else None
    return FittedTables(effects, rows, margin, facts, directions=directions)


def low_orders(problem: Problem, complete: Result) -> FittedTables:
    """Return the effects of a complete decomposition up to the order that is kept."""
    order = problem.kept_terms.order or 1
    rows, margin = _rows_and_margin(problem, order)
    tables = {
        subset: component.values
        for subset, component in complete.components.items()
        if isinstance(component, TensorComponent) and len(subset) <= order
    }
    facts = {"undetermined": 0, "converged": True, "error": [0.0] * margin.shape[1]}
    return FittedTables(
        _tensors(problem, complete.intercept, tables), rows, margin, facts, problem.source_rows
    )


def _rows_and_margin(problem: Problem, order: int) -> tuple[dict[int, EncodedRows], Array]:
    """Return the rows on the grid of each order, and their margin.

    Where the measure is not made of rows, all combinations of cells with mass stand for them.
    """
    layout, sizes = problem.layout, range(1, order + 1)
    if problem.weighting.share_of_rows == 1.0 and problem.columns is not None:
        found = {size: layout.rows[size] for size in sizes}
        rows = {size: one for size, one in found.items() if isinstance(one, EncodedRows)}
        return rows, problem.function(problem.columns)
    grid = problem.grid
    several = tuple(j for j, axis in enumerate(grid.axes) if axis.n_cells > 1)
    joint = problem.weighting.tables(grid, problem.rows, [several])[several]
    cells = np.nonzero(joint)
    codes = np.zeros((grid.n_features, len(cells[0])), dtype=np.intp)
    codes[list(several)] = cells
    raw = accumulate(problem.ensemble, grid, problem.boxes, problem.memory_budget)
    margin = np.tile(raw.intercept, (len(cells[0]), 1))
    for subset, tensor in raw.tensors.items():
        margin += tensor.values[tuple(codes[list(subset)])]
    return dict.fromkeys(sizes, EncodedRows(codes, joint[cells])), margin


def _tensors(problem: Problem, intercept: Array, tables: Mapping[Subset, Array]) -> EffectTensors:
    grids = problem.layout.grids
    tensors = {
        subset: EffectTensor(subset, grids[len(subset)].subset_axes(subset), values)
        for subset, values in tables.items()
    }
    return EffectTensors(intercept, tensors)


class _Pure(NamedTuple):
    """Purified tables, with their masses and axes."""

    purified: Purified
    mass: MassTables
    axes: dict[Subset, tuple[FeatureAxis, ...]]


def fitted_result(problem: Problem, fitted: FittedTables) -> Result:
    """Return the components of fitted tables, with the rest of the model as remainder.

    Where the fitted rows are a sample, the tables are purified under all rows, and their share of
    the variance is measured on all of them.

    Parameters
    ----------
    problem : Problem
        The model on the grids of the tables.
    fitted : FittedTables
        The tables. The share of the variance that the components explain on the rows is added to
        what the diagnostics say of them.
    """
    facts = {"missed": None} | fitted.facts
    pure = _purify(problem, fitted.effects)
    explained = _explain(fitted, pure.purified.intercept, pure.purified.effects)
    if fitted.source_rows is not None:
        missed, more = fit_residual(
            problem, fitted.rows, fitted.margin, explained, fitted.source_rows
        )
        facts["missed"] = missed
        if more:
            pure = _purify(problem, _sum_of(problem, pure, more))
            explained = _explain(fitted, pure.purified.intercept, pure.purified.effects)
            facts["fitted_again"] = len(more)
    open_terms: tuple[Subset, ...] = ()
    if fitted.directions is not None:
        pure, facts["undetermined"], open_terms = _least_variance(problem, pure, fitted.directions)
    purified, mass, axes = pure
    tables = table_components(purified, mass, axes, problem.function.inputs, _own_tables(problem))
    kept = {subset: table for subset, table in tables.items() if problem.kept_terms.keeps(subset)}
    if len(kept) < len(tables):
        of_kept = {subset: purified.effects[subset] for subset in kept}
        explained = _explain(fitted, purified.intercept, of_kept)
    facts["r_squared"] = explained.share.tolist()
    note, n_rows = fitted.note, None
    if problem.all_rows is not None:
        problem.report("evaluating the rows", 0, 0)
        measured = explain_rows(
            problem.all_rows, problem.function, purified.intercept, kept, problem.report
        )
        explained, n_rows = measured.explained, measured.n_rows
        facts |= {"r_squared_of_sample": facts["r_squared"], "r_squared": explained.share.tolist()}
        n_sampled = fitted.rows[1].n_rows
        if n_sampled < n_rows:
            how = (
                f"Effects were fitted on a sample of {n_sampled} of {n_rows} rows; the "
                "distribution, purity and the explained share refer to all rows."
            )
            note = f"{note} {how}".strip()
    counted = sum(solution.unidentified or 0 for solution in purified.solutions.values())
    return Result(
        purified.intercept,
        tables,
        purified,
        Difference(problem.function, explained.rest_variance),
        explained.covariances if fitted.is_measure else None,
        {"projection": facts},
        n_rows,
        Certificate(
            unidentified=max(facts["undetermined"] - counted, 0) if open_terms else 0,
            unidentified_terms=tuple(
                term_name(problem.model.feature_names[j] for j in subset) for subset in open_terms
            ),
            fitted_share=tuple(explained.share.tolist()),
            missed=facts["missed"],
            solver_error=max(facts["error"]) / (purified.scale or 1.0),
            fit_unidentified=0 if open_terms else facts["undetermined"],
            note=note,
        ).noted(STOPPED * (not facts["converged"])),
    )


def _own_tables(problem: Problem) -> EffectTensors | None:
    """Return the tables that the model itself has, where its terms have one or two features."""
    layout = problem.layout
    if layout.effects is not None or layout.boxes is None or problem.depth > _PAIR:
        return layout.effects
    return accumulate(problem.ensemble, problem.grid, problem.boxes, problem.memory_budget)


def _purify(problem: Problem, effects: EffectTensors) -> _Pure:
    """Purify tables under the measure: that of all rows where the fitted ones are a sample."""
    layout, subsets = problem.layout, list(effects.tensors)
    problem.report("computing the distribution", 0, 0)
    axes = {subset: layout.grids[len(subset)].subset_axes(subset) for subset in subsets}
    if problem.all_rows is None:
        mass = layout.mass(problem.weighting, subsets)
    else:
        grids = {id(grid): grid for grid in layout.grids.values()}
        of_grid = [
            (grid, [s for s in subsets if layout.grids[len(s)] is grid]) for grid in grids.values()
        ]
        mass = {}
        counts = count_in_cells(problem.all_rows, of_grid, problem.report, keep_special=True)
        for counted, (_, some) in zip(counts, of_grid, strict=True):
            mass |= problem.weighting.tables(counted.grid, counted, some)
            axes |= {subset: counted.grid.subset_axes(subset) for subset in some}
    purified = purify_effects(effects, mass, axes, method="exact", progress=problem.report)
    return _Pure(purified, mass, axes)


def _explained_share(fitted: FittedTables) -> float:
    """Return the share of the variance of the rows that tables explain, over all outputs."""
    tables = {subset: tensor.values for subset, tensor in fitted.effects.tensors.items()}
    explained = _explain(fitted, fitted.effects.intercept, tables)
    whole = mean_square(fitted.margin, fitted.rows[1].shares).sum()
    return 1.0 - float(explained.rest_variance.sum() / max(whole, _LEAST))


def _explain(
    fitted: FittedTables, intercept: Array, tables: Mapping[Subset, Array]
) -> ExplainedVariance:
    """Return how much of the margin tables explain on the rows of the fit."""

    def on_rows(item: tuple[Subset, Array]) -> tuple[Subset, Array]:
        subset, table = item
        codes = fitted.rows[len(subset)].codes
        cells = np.ravel_multi_index(tuple(codes[j] for j in subset), table.shape[:-1])
        return subset, table.reshape(-1, table.shape[-1]).take(cells, axis=0)

    parts = iterate_threads(on_rows, tables.items())
    return measure_explained(fitted.margin, fitted.rows[1].shares, intercept, parts)


def _sum_of(problem: Problem, pure: _Pure, more: Mapping[Subset, Array]) -> EffectTensors:
    """Return pure tables with other tables added to them."""
    tables = dict(pure.purified.effects)
    for subset, table in more.items():
        tables[subset] = tables[subset] + table if subset in tables else table
    ordered = sorted(tables, key=lambda subset: (len(subset), subset))
    axes = map(problem.grid.subset_axes, ordered)
    check_memory(axes, len(pure.purified.intercept), problem.memory_budget)
    return _tensors(problem, pure.purified.intercept, {s: tables[s] for s in ordered})


def _least_variance(
    problem: Problem, pure: _Pure, directions: EffectTensors
) -> tuple[_Pure, int, tuple[Subset, ...]]:
    """Return the effects of the least sum of variances, and what the rows do not determine.

    Sums of pure effects that vanish on all rows can be added without changing a prediction there.
    Returns the effects, the number of independent sums, and the names of the effects in them.
    """
    n_directions = len(directions.intercept)
    cells = sum(prod(tensor.values.shape[:-1]) for tensor in directions.tensors.values())
    if 8 * cells * n_directions > problem.memory_budget // _DIRECTIONS_SHARE:
        return pure, n_directions, ()
    found = purify_effects(
        directions, pure.mass, pure.axes, method="exact", progress=lambda *_: None
    ).effects
    own = pure.purified.effects
    square = np.zeros((n_directions,) * 2)
    against = np.zeros((n_directions, len(pure.purified.intercept)))
    for subset, table in found.items():
        flat = table.reshape(-1, n_directions)
        weighted = (flat * pure.mass[subset].reshape(-1, 1)).T
        square += weighted @ flat
        against += weighted @ own[subset].reshape(flat.shape[0], -1)
    variances, vectors = np.linalg.eigh(square)
    # Orthonormal sums of pure effects; the other directions are no effects, but empty cells.
    is_open = variances > _NO_DIRECTION
    basis = vectors[:, is_open] / np.sqrt(variances[is_open])
    amounts = basis @ (basis.T @ against)
    open_terms = tuple(
        subset
        for subset, table in found.items()
        if np.any(np.tensordot(pure.mass[subset], (table @ basis) ** 2, table.ndim - 1) > _NO_PART)
    )
    effects = {subset: own[subset] - found[subset] @ amounts for subset in own}
    purified = replace(pure.purified, effects=effects)
    return pure._replace(purified=purified), int(is_open.sum()), open_terms
