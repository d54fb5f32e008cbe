"""The effects of a low order under dependent features: the sum of few features nearest to a model.

`order=k` asks for the function that is a sum of functions of at most k features and is nearest to
the model in mean square, in its pure form. Where the cells of all sets of k features are few enough
for the rows, it is fitted on all of them at once (`purify_jointly`). Elsewhere each tree is
projected by itself, or the low orders of a model of tables are taken. The sum of nearest parts is
not the part nearest to the sum, so that what they leave is fitted once more on few intervals, if
rows that were left out say that this helps (`look_closer`). Every fit ends with `fitted_result`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np

from treepurify.budget import check_budget
from treepurify.components import TensorComponent
from treepurify.effects.accumulate import accumulate
from treepurify.effects.grid_margin import margin_in_cells
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.all_rows import count_in_cells, explain_rows
from treepurify.engines.common.explained import (
    Explained,
    measure_explained,
    measure_explained_by_tables,
)
from treepurify.engines.common.finish import Evidence, Result, Unexplained, table_components
from treepurify.engines.common.problem import Layout, Problem, check_memory
from treepurify.engines.tree.coarse_cells import merge_cells
from treepurify.engines.tree.table_fit import (
    FOLDS,
    Equations,
    Tables,
    add_up,
    all_cells,
    equations_of_folds,
    expand,
    lay_out,
    least_norm,
    places_of_rows,
    ridge,
    split_undetermined,
)
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.purification.cascade import Purified, purify_effects
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CopiedRows
from treepurify.rows.row_order import distinct_numbers, telling_numbers
from treepurify.rows.row_weights import RowWeights, effective_rows, heaviest, mean_square
from treepurify.typing import Array, Indices, Integers
from treepurify.weights.weighting import MassTables

__all__ = [
    "FitChoice",
    "FittedTables",
    "SourceRows",
    "count_unknowns",
    "fit_tables",
    "fitted_result",
    "given_rows",
    "has_few_cells",
    "is_joint_fit",
    "low_orders",
    "purify_jointly",
]

_PAIR = 2
# Fewer rows for an unknown than this fit noise, and more unknowns take long.
_ROWS_PER_UNKNOWN, _MOST_UNKNOWNS = 4, 5000
# Share of the variance below which nothing is gained.
_NOTHING = 1e-3
# What the joint fit may explain less of left-out rows than the other does of its own rows.
_ALLOWED_LOSS = 3e-3
# Of what is left: intervals of a feature in pairs and in main effects, unknowns of all pairs.
_PAIR_CELLS, _MAIN_CELLS, _PAIR_UNKNOWNS = 6, 16, 900
# In looking for pairs: rows of no effect that are added to each cell, features, and operations.
_PRIOR_ROWS, _MOST_FEATURES, _MOST_OPERATIONS = 4.0, 60, 4e9
_PENALTIES = (1.0, 10.0, 100.0)
_STANDARD_ERRORS = 2.0
_ROWS_AT_A_TIME = 4096
# Shares of the variance of a direction: of the largest one, and of a direction in one effect.
_NO_DIRECTION, _NO_PART = 1e-10, 1e-12
# Bytes that undetermined directions may take as tables, as a share of the memory budget.
_DIRECTIONS_SHARE = 4
_MOST_COMBINATIONS = 1 << 20
_ANY_NUMBER = 1e15


class SourceRows(NamedTuple):
    """Which of the rows that were given each row is, or is a copy of.

    Parameters
    ----------
    number : ndarray of int, shape (n_rows,)
        Number of the given row. Equal rows have one number, which is as good as random.
    effective : float
        Effective number of rows.
    telling : float
        The same of distinct rows; see `telling_numbers`.
    """

    number: Indices
    effective: float
    telling: float

    @property
    def fold(self) -> Integers:
        """One of five folds for each row."""
        return np.asarray(self.number % FOLDS, dtype=np.int64)

    @property
    def half(self) -> Integers:
        """One of two halves for each row."""
        return np.asarray(self.number // FOLDS % 2, dtype=np.int64)


def given_rows(
    columns: Columns, weights: RowWeights, copied: CopiedRows | None, used: Collection[int]
) -> SourceRows:
    """Return which of the given rows the rows of a measure are.

    Parameters
    ----------
    columns, weights : Columns, ndarray or None
        The rows of the measure.
    copied : CopiedRows, optional
        The rows that were given, where the former are copies of them, in the order of their values.
    used : collection of int
        Features that the model uses.
    """
    of_model = sorted(used)
    if copied is None:
        number = distinct_numbers(columns.only(of_model))
        effective = effective_rows(columns.n_rows, weights)
        return SourceRows(number, effective, telling_numbers(number, weights))
    whole = copied.rows.whole
    if whole is None:  # a sample of them was copied, and is not kept
        n_rows = columns.n_rows // copied.copies
        return SourceRows(np.tile(np.arange(n_rows), copied.copies), n_rows, n_rows)
    given, own = whole.columns, whole.weights
    if own is not None:
        given, own = given.take(np.flatnonzero(own > 0)), own[own > 0]
    number = distinct_numbers(given.only(of_model))
    effective = effective_rows(given.n_rows, own)
    telling = telling_numbers(number, own)
    # The copies stand in the order of the values of their rows.
    return SourceRows(np.tile(np.sort(number), copied.copies), effective, telling)


@dataclass(frozen=True, eq=False)
class FitChoice:
    """What was chosen for one model, so that other trainings of it are fitted in the same way.

    Parameters
    ----------
    is_joint : bool
        Whether all cells were fitted at once.
    tables : Tables, optional
        What else is fitted to what the first fit leaves; None for nothing.
    penalty : float
        Penalty of that fit.
    missed : float
        Share of the model's variance that effects of this order may explain beyond what they do,
        as estimated on rows that were left out.
    """

    is_joint: bool = False
    tables: Tables | None = None
    penalty: float = 0.0
    missed: float = 0.0


@dataclass(frozen=True, eq=False)
class FittedTables:
    """Tables that were fitted to a model, before they are pure.

    Parameters
    ----------
    effects : EffectTensors
        The tables.
    rows : mapping of int to EncodedRows
        The rows of the fit on the grid of each order.
    given : SourceRows, optional
        Which of the given rows they are; None where what is left is not to be fitted.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Margin of these rows.
    facts : dict
        What the diagnostics say of the fit, its error among them.
    directions : EffectTensors, optional
        Sums of tables that vanish on all rows, as outputs side by side.
    note : str
        What a reader of the certificate must know of the fit.
    is_measure : bool
        Whether the rows are the whole measure.
    """

    effects: EffectTensors
    rows: Mapping[int, EncodedRows]
    given: SourceRows | None
    margin: Array
    facts: dict[str, Any]
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


def purify_jointly(
    problem: Problem, given: SourceRows | None, other: Callable[[], FittedTables] | None
) -> Result:
    """Return the components of the nearest sum, fitted on all cells at once.

    Parameters
    ----------
    problem : Problem
        The model on its grids.
    given : SourceRows, optional
        Which of the given rows the rows are; None where cells stand for rows.
    other : callable, optional
        Another way, which is taken if rows that are left out say that this one fits noise.
    """
    if problem.choice is not None and not problem.choice.is_joint and other is not None:
        return fitted_result(problem, other())
    order = problem.kept_terms.order or 1
    rows, margin = _rows_and_margin(problem, order)
    features = [j for j in problem.model.used_features if problem.grid.axes[j].n_cells > 1]
    sizes = range(1, order + 1)
    n_cells = {(s, j): problem.layout.grids[s].axes[j].n_cells for s in sizes for j in features}
    tables = all_cells(rows, features, order, n_cells)
    _check_fit(problem, tables)
    shares = rows[1].shares
    facts: dict[str, Any] = {}
    if given is not None:
        problem.report("fitting all effects at once", 0, 0)
        held_out, best = _held_out(tables, rows, shares, margin, given)
        facts = {"effective_rows": given.effective, "held_out_r_squared": held_out}
        # No sum of fewer features explains more of these rows than the fit of all of them.
        if other is not None and problem.choice is None and held_out < best - _ALLOWED_LOSS:
            found = other()
            if held_out < _explained_share(found) - _ALLOWED_LOSS:
                return fitted_result(problem, found)
    facts["missed"] = 0.0
    fitted = fit_tables(problem, tables, rows, shares, margin, facts)
    return fitted_result(replace(problem, choice=FitChoice(is_joint=True)), fitted)


def fit_tables(
    problem: Problem,
    tables: Tables,
    rows: Mapping[int, EncodedRows],
    shares: Array,
    margin: Array,
    facts: dict[str, Any],
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
    shares : ndarray of float64, shape (n_rows,)
        Their weights.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Their margin.
    facts : dict
        What else the diagnostics say of the fit.
    """
    _check_fit(problem, tables)
    problem.report("fitting all effects at once", 0, 0)
    mean = np.average(margin, axis=0, weights=shares)
    fit = least_norm(add_up(tables, places_of_rows(tables, rows), shares, margin - mean))
    solution, flat = split_undetermined(fit)
    expanded = expand(tables, np.column_stack([solution, flat]))
    n = len(mean)
    constant = expanded.pop(())
    effects = _tensors(problem, mean + constant[:n], {s: t[..., :n] for s, t in expanded.items()})
    directions = None
    if flat.shape[1]:
        tables_of_directions = {s: t[..., n:] for s, t in expanded.items()}
        directions = _tensors(problem, constant[n:], tables_of_directions)
    facts = facts | {
        "unknowns": tables.n_unknowns,
        "undetermined": flat.shape[1],
        "converged": True,
        "error": [fit.error] * n,
    }
    return FittedTables(effects, rows, None, margin, facts, directions)


def _check_fit(problem: Problem, tables: Tables) -> None:
    """Refuse equations that would not fit: the matrix, scaled, and its factor."""
    check_budget(
        24 * tables.n_unknowns**2,
        problem.memory_budget,
        f"fitting {len(tables.subsets)} tables with {tables.n_unknowns} unknowns at once",
        'Pass a smaller order, or method="projection"; of coarse intervals, fewer pair_cells.',
    )


def has_few_cells(layout: Layout) -> bool:
    """Return whether all combinations of cells can stand for rows that a measure does not have."""
    return prod(axis.n_cells for axis in layout.union_grid.axes) <= _MOST_COMBINATIONS


def _rows_and_margin(problem: Problem, order: int) -> tuple[dict[int, EncodedRows], Array]:
    """Return the rows on the grid of each order, and their margin.

    Where the measure is not made of rows, all combinations of cells with mass stand for them.
    """
    layout = problem.layout
    if problem.weighting.share_of_rows == 1.0 and problem.columns is not None:
        rows = {size: _encoded(layout.rows[size]) for size in range(1, order + 1)}
        return rows, problem.function(problem.columns)
    grid = problem.grid
    several = tuple(j for j, axis in enumerate(grid.axes) if axis.n_cells > 1)
    joint = problem.weighting.tables(grid, problem.rows, [several])[several]
    cells = np.nonzero(joint)
    codes = np.zeros((grid.n_features, len(cells[0])), dtype=np.intp)
    codes[list(several)] = cells
    margin = margin_in_cells(problem.ensemble, grid, problem.boxes, codes, problem.memory_budget)
    return dict.fromkeys(range(1, order + 1), EncodedRows(codes, joint[cells])), margin


def _encoded(rows: object) -> EncodedRows:
    if not isinstance(rows, EncodedRows):
        raise TypeError("a fit needs rows one by one")
    return rows


def low_orders(problem: Problem, given: SourceRows, complete: Result) -> FittedTables:
    """Return the effects of a complete decomposition up to the order that is kept."""
    order = problem.kept_terms.order or 1
    rows, margin = _rows_and_margin(problem, order)
    tables = {
        subset: component.values
        for subset, component in complete.components.items()
        if isinstance(component, TensorComponent) and len(subset) <= order
    }
    facts = {"undetermined": 0, "converged": True, "error": [0.0] * margin.shape[1]}
    return FittedTables(_tensors(problem, complete.intercept, tables), rows, given, margin, facts)


def _held_out(
    tables: Tables,
    rows: Mapping[int, EncodedRows],
    shares: Array,
    margin: Array,
    given: SourceRows,
) -> tuple[float, float]:
    """Return the share of the variance that a joint fit explains of left-out, and of own rows."""
    places, target = places_of_rows(tables, rows), margin - shares @ margin
    total = add_up(tables, places, shares, target)
    whole = max(float(total.square.sum()), np.finfo(float).tiny)
    left_out = 0.0
    for part in equations_of_folds(tables, places, shares, target, given.fold):
        left_out += part.gain(least_norm(total.without(part)).solution) * float(part.square.sum())
    return left_out / whole, total.gain(least_norm(total).solution)


def _explained_share(found: FittedTables) -> float:
    """Return the share of the variance of the rows that tables explain, over all outputs."""
    explained = _explain(found, found.effects)
    shares = found.rows[1].shares
    whole = mean_square(found.margin - shares @ found.margin, shares).sum()
    return 1.0 - float(explained.rest_variance.sum() / max(whole, np.finfo(float).tiny))


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
    """Return the components of fitted tables, with the unexplained part of the model as remainder.

    Where the fitted rows are a sample, the tables are purified under all rows, and what they
    explain is measured on all of them.

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
    explained = _explain_pure(fitted, pure)
    choice = problem.choice
    if fitted.given is not None:
        if choice is None:
            choice = _look_closer(problem, fitted, fitted.given, pure, explained.rest)
        if choice.tables is not None:
            more = _fit_rest(choice, choice.tables, fitted, fitted.given, explained.rest)
            pure = _purify(problem, _sum_of(problem, pure, more))
            explained = _explain_pure(fitted, pure)
            facts = facts | {"fitted_again": len(choice.tables.subsets)}
        facts = facts | {"missed": choice.missed}
    names: tuple[Subset, ...] = ()
    if fitted.directions is not None:
        pure, n_open, names = _least_variance(problem, pure, fitted.directions)
        facts = facts | {"undetermined": n_open}
    return _result(problem, fitted, pure, names, explained, facts, choice)


def _result(
    problem: Problem,
    fitted: FittedTables,
    pure: _Pure,
    open_terms: tuple[Subset, ...],
    explained: Explained,
    facts: dict[str, Any],
    choice: FitChoice | None,
) -> Result:
    purified, rows = pure.purified, fitted.rows
    raw = _own_tables(problem)
    tables = table_components(purified, pure.mass, pure.axes, problem.function.inputs, raw)
    kept = {subset: table for subset, table in tables.items() if problem.kept_terms.keeps(subset)}
    if len(kept) < len(tables):
        kept_effects = {subset: purified.effects[subset] for subset in kept}
        explained = _explain(fitted, _tensors(problem, purified.intercept, kept_effects))
    facts = facts | {"r_squared": explained.share.tolist()}
    diagnostics: dict[str, Any] = {"projection": facts}
    note, n_rows, n_counted = "", None, 0
    if problem.all_rows is not None:
        problem.report("evaluating the rows", 0, 0)
        sampled, n_sampled = explained.share.tolist(), rows[1].n_rows
        measured = explain_rows(
            problem.all_rows, problem.function, purified.intercept, kept, problem.report
        )
        explained, n_rows = measured.explained, measured.n_rows
        facts = facts | {"r_squared": explained.share.tolist(), "r_squared_of_sample": sampled}
        diagnostics = {"projection": facts}
        n_counted = n_rows
        if n_sampled < n_rows:
            note = (
                f"Effects were fitted on a sample of {n_sampled} of {n_rows} rows; the "
                "distribution, purity and the explained share refer to all rows."
            )
    counted = sum(solution.unidentified or 0 for solution in purified.solutions.values())
    return Result(
        purified.intercept,
        tables,
        Evidence(
            purified.scale,
            purified,
            unidentified=max(facts["undetermined"] - counted, 0) if open_terms else 0,
            open_terms=open_terms,
            fitted_share=explained.share,
            missed=facts["missed"],
            solver_error=max(facts["error"]) / (purified.scale or 1.0),
            fit_unidentified=0 if open_terms else facts["undetermined"],
            converged=facts["converged"],
            note=f"{fitted.note} {note}".strip(),
        ),
        Unexplained(problem.function, explained.rest_variance),
        explained.covariances if fitted.is_measure else None,
        diagnostics,
        n_rows,
        n_counted,
        choice=choice,
    )


def _own_tables(problem: Problem) -> EffectTensors | None:
    """Return the tables that the model itself has, where its terms have one or two features."""
    layout = problem.layout
    if layout.effects is not None or layout.boxes is None or layout.depth > _PAIR:
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


def _explain_pure(fitted: FittedTables, pure: _Pure) -> Explained:
    tensors = {s: EffectTensor(s, pure.axes[s], v) for s, v in pure.purified.effects.items()}
    return _explain(fitted, EffectTensors(pure.purified.intercept, tensors))


def _explain(fitted: FittedTables, effects: EffectTensors) -> Explained:
    """Return how much of the margin tables explain on the rows of the fit."""
    rows, margin, intercept = fitted.rows, fitted.margin, effects.intercept
    shares = rows[1].shares
    values = {subset: tensor.values for subset, tensor in effects.tensors.items()}
    if len({id(one) for one in rows.values()}) == 1:
        return measure_explained_by_tables(margin, shares, intercept, values, rows[1].codes)
    parts = (
        (subset, table[tuple(rows[len(subset)].codes[j] for j in subset)])
        for subset, table in values.items()
    )
    return measure_explained(margin, shares, intercept, parts)


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
    """Return effects of the least sum of variances, and what the rows leave open.

    Sums of pure effects that vanish on all rows can be added without changing a prediction there.
    Of all effects with the same sum those of least variances are taken.

    Returns
    -------
    _Pure
    int
        Number of independent sums of pure effects that vanish on all rows.
    tuple of tuple of int
        The effects in which they are.
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


def _look_closer(
    problem: Problem, fitted: FittedTables, given: SourceRows, pure: _Pure, rest: Array
) -> FitChoice:
    """Return whether what effects leave of a model is worth a fit on few intervals, and how.

    First all pairs of features are looked at: their mean rest in 6 x 6 intervals on one half of
    the given rows says how much of the rest of the other half it explains. If that is something,
    the best pairs are fitted together, and the gain on rows that were left out decides.
    """
    rows, order = fitted.rows, problem.kept_terms.order or 1
    shares = rows[1].shares
    whole = mean_square(fitted.margin - shares @ fitted.margin, shares).sum()
    left = float(mean_square(rest, shares).sum() / max(float(whole), np.finfo(float).tiny))
    features = _leading_features(problem, pure)
    if left <= _NOTHING or not features:
        return FitChoice()
    size = min(order, _PAIR)
    problem.report("looking at what effects leave", 0, 0)
    cells = _merged(problem, fitted, features, size, _PAIR_CELLS)
    weights = shares * given.telling
    gains = _gains([cells[j][rows[size].codes[j]] for j in features], weights, rest, given)
    gains = np.diag(np.diag(gains)) if size == 1 else np.triu(gains, 1)
    hoped_for = left * float(gains[gains > 0].sum())
    if hoped_for <= _NOTHING:
        return FitChoice(missed=hoped_for)
    pairs = [] if size == 1 else _best_pairs(gains, features, cells)
    subsets = [*((j,) for j in features), *pairs]
    main = _merged(problem, fitted, features, 1, _MAIN_CELLS)
    places = {(1, j): main[j] for j in features} | {(_PAIR, j): cells[j] for j in features}
    tables = lay_out(subsets, places)
    of_rows = places_of_rows(tables, rows)
    folds = list(equations_of_folds(tables, of_rows, weights, rest, given.fold))
    total = Equations(*(np.sum(parts, axis=0) for parts in zip(*folds, strict=True)))
    explained = {
        penalty: left * np.array([part.gain(ridge(total.without(part), penalty)) for part in folds])
        for penalty in _PENALTIES
    }
    best = max(_PENALTIES, key=lambda penalty: float(explained[penalty].mean()))
    gain = float(explained[best].mean())
    error = _STANDARD_ERRORS * float(explained[best].std(ddof=1)) / FOLDS**0.5
    if gain > max(_NOTHING, error):
        return FitChoice(tables=tables, penalty=best, missed=error)
    return FitChoice(missed=max(gain + error, 0.0))


def _leading_features(problem: Problem, pure: _Pure) -> list[int]:
    """Return the features of the largest effects, of which there are few enough for all pairs."""
    used = [j for j in problem.model.used_features if problem.grid.axes[j].n_cells > 1]
    if len(used) <= _MOST_FEATURES:
        return used
    size = dict.fromkeys(used, 0.0)
    for subset, table in pure.purified.effects.items():
        variance = float((pure.mass[subset][..., None] * table**2).sum())
        for j in subset:
            size[j] = size.get(j, 0.0) + variance
    return sorted(sorted(used, key=lambda j: -size[j])[:_MOST_FEATURES])


def _merged(
    problem: Problem, fitted: FittedTables, features: list[int], size: int, n_cells: int
) -> dict[int, Indices]:
    """Return, for each feature, the interval of each cell of the grid of a size of effects.

    Categories are joined in the order of their mean margin, that of the output that varies most.
    """
    rows, shares = fitted.rows[size], fitted.rows[size].shares
    centred = fitted.margin - shares @ fitted.margin
    leading = centred[:, heaviest(mean_square(centred, shares))]
    merged = {}
    for j in features:
        axis = problem.layout.grids[size].axes[j]
        mass, sums = (
            np.bincount(rows.codes[j], weights, axis.n_cells).astype(np.float64)
            for weights in (shares, shares * leading)
        )
        means = np.divide(sums, mass, out=np.full(len(mass), -np.inf), where=mass > 0)
        merged[j] = merge_cells(axis, mass, means, n_cells)
    return merged


def _gains(cells: list[Indices], weights: Array, rest: Array, given: SourceRows) -> Array:
    """Return how much of the rest each pair of features explains, shape (n_features, n_features).

    The mean rest of a cell on one half of the given rows predicts that of the other half. A feature
    with itself is the feature alone.
    """
    sizes = np.array([int(own.max(initial=0)) + 1 for own in cells])
    first = np.concatenate([[0], np.cumsum(sizes)])
    n_columns, n_outputs = int(first[-1]), rest.shape[1]
    step = 1 + int(len(rest) * (1 + n_outputs) * 2.0 * n_columns**2 // _MOST_OPERATIONS)
    mass = np.zeros((2, n_columns, n_columns))
    sums = np.zeros((2, n_outputs, n_columns, n_columns))
    square = 0.0
    for half in range(2):
        own = np.flatnonzero((given.half == half) & (given.number % step == 0))
        for start in range(0, len(own), _ROWS_AT_A_TIME):
            block = own[start : start + _ROWS_AT_A_TIME]
            is_one = np.zeros((len(block), n_columns))
            for i, of_feature in enumerate(cells):
                is_one[np.arange(len(block)), first[i] + of_feature[block]] = 1.0
            weighted = is_one * weights[block, None]
            mass[half] += is_one.T @ weighted
            for output in range(n_outputs):
                sums[half, output] += is_one.T @ (weighted * rest[block, output, None])
            square += float(weights[block] @ (rest[block] ** 2).sum(axis=1))
    explained = np.zeros((n_columns, n_columns))
    for half in range(2):
        mean = sums[1 - half] / (mass[1 - half] + _PRIOR_ROWS)
        explained += (2 * mean * sums[half] - mass[half] * mean**2).sum(axis=0)
    by_pair = np.add.reduceat(np.add.reduceat(explained, first[:-1], axis=0), first[:-1], axis=1)
    return np.asarray(by_pair / max(square, np.finfo(float).tiny))


def _best_pairs(gains: Array, features: list[int], cells: Mapping[int, Indices]) -> list[Subset]:
    """Return the pairs that explain most, of at most 900 cells together."""
    sizes = {j: int(own.max()) + 1 for j, own in cells.items()}
    found = {
        (features[a], features[b]): float(gains[a, b])
        for a, b in combinations(range(len(features)), _PAIR)
    }
    chosen, n_cells = [], 0
    for pair in sorted(found, key=lambda pair: -found[pair]):
        n_cells += sizes[pair[0]] * sizes[pair[1]]
        if n_cells > _PAIR_UNKNOWNS:
            break
        chosen.append(pair)
    return sorted(chosen)


def _fit_rest(
    choice: FitChoice, tables: Tables, fitted: FittedTables, given: SourceRows, rest: Array
) -> dict[Subset, Array]:
    """Return the tables that a choice fits to what effects leave of a model."""
    weights = fitted.rows[1].shares * given.telling
    total = add_up(tables, places_of_rows(tables, fitted.rows), weights, rest)
    return expand(tables, ridge(total, choice.penalty))
