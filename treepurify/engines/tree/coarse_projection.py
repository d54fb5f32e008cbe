"""The projection on coarse cells as a route: for trees with too many leaves to be exact.

A fully grown tree has nearly as many leaves as rows. Projected on its own splits it describes the
noise of single rows, and the union of the cuts of many has more pairs of cells than any memory.
So the sum of all trees is projected at once on cells that are fixed beforehand: fine ones for
main effects, coarse ones for pairs, together few compared with the rows. Variation within
a cell is left in the remainder.
"""

from dataclasses import dataclass, replace

import numpy as np

from treepurify.arguments import check_whole
from treepurify.budget import check_budget
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Layout, Problem, check_memory
from treepurify.engines.tree.coarse_cells import (
    MergedCells,
    coarse_cuts,
    merge_cells,
    most_cells_of_pairs,
    pairs_on_paths,
)
from treepurify.engines.tree.coarse_problem import (
    CoarseFit,
    CoarseProblem,
    CoarseTerms,
    coarse_terms,
)
from treepurify.engines.tree.direct_solve import solve_directly
from treepurify.engines.tree.normal_equations import count_unknowns
from treepurify.engines.tree.projection import fitted_result
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, MissingCells, Subset, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.row_order import telling_rows
from treepurify.rows.row_weights import heaviest, mean_square, row_shares
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array
from treepurify.weights import Weighting

__all__ = ["CoarseProjection", "lay_out_coarse", "purify_on_coarse_cells"]

# Fewer rows for an unknown than this fit noise: on forests of real data new rows tell.
_ROWS_PER_UNKNOWN = 4
_MOST_UNKNOWNS = 5000
_MOST_MAIN_CELLS, _LEAST_MAIN_CELLS, _LEAST_PAIR_CELLS = 128, 8, 2
_PAIR = 2
_LEAST_SHARE = float(np.finfo(float).eps)


@dataclass(frozen=True)
class CoarseProjection:
    """The coarse projection (``method="coarse"`` of `purify`), with chosen numbers of intervals.

    It fits the sum of all trees on few intervals of each feature, which is fast for trees with
    very many leaves. What the model varies within an interval is in the remainder.

    Parameters
    ----------
    main_cells : int, optional
        Largest number of intervals of a numeric feature in main effects. By default the
        number of rows divided by eight times the number of features that the model uses, but at
        least 8 and at most 128. Here duplicate rows count once, and weighted rows by their
        effective number, so the unit of the weights does not matter.
    pair_cells : int, optional
        Largest number of intervals of a feature in pairs. By default as many as leave four rows
        for each unknown and at most 5000 unknowns, but never fewer than two.
    sample_rows, seed : int
        Of rows in batches, the number of rows that are drawn for the fit, and the seed.

    See Also
    --------
    treepurify.purify : Takes it as `method`.
    treepurify.options.TreeProjection : Projection on the cells of the trees.

    Examples
    --------
    >>> from treepurify.options import CoarseProjection
    >>> CoarseProjection(pair_cells=8).pair_cells
    8
    """

    main_cells: int | None = None
    pair_cells: int | None = None
    sample_rows: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("main_cells", self.main_cells), ("pair_cells", self.pair_cells)):
            if value is not None:
                check_whole(f"{name} of a coarse projection", value, least=2)
        check_whole("sample_rows of a coarse projection", self.sample_rows, least=1)
        check_whole("seed", self.seed, least=0)


def lay_out_coarse(
    model: Model,
    rows: RowBatch | None,
    weighting: Weighting,
    missing_cells: MissingCells,
    settings: CoarseProjection,
) -> Layout:
    """Return the grid of main effects with the rows on it, without the boxes of leaves."""
    if rows is None or not isinstance(model, TreeEnsemble):
        raise InvalidInputError('method="coarse" needs a tree ensemble and rows: pass X')
    columns, row_weights = rows.columns, rows.weights
    n_cells = settings.main_cells
    if n_cells is None:
        telling = telling_rows(columns, row_weights, model.used_features)
        enough = telling // (2 * _ROWS_PER_UNKNOWN * max(len(model.used_features), 1))
        n_cells = int(np.clip(enough, _LEAST_MAIN_CELLS, _MOST_MAIN_CELLS))
    shares = row_shares(columns.n_rows, row_weights)
    grid, encoded = make_grid(
        columns,
        model.features,
        coarse_cuts(ensemble_cuts(model), columns, shares, n_cells),
        match_names=model.has_feature_names,
        missing_cells=missing_cells,
    )
    weighted = None if encoded is None else replace(encoded, weights=row_weights)
    orders = range(1, _PAIR + 1)
    measure = weighting.describe()
    return Layout(
        None, dict.fromkeys(orders, grid), dict.fromkeys(orders, weighted), measure, "coarse"
    )


def purify_on_coarse_cells(problem: Problem, settings: CoarseProjection) -> Result:
    """Return the components of an ensemble, projected on coarse cells.

    In weighted least squares the margin is fitted by a table of each main effect on the cells of
    the grid and one of each pair on fewer cells. Both are tables on the grid in the
    end, where their sum is purified exactly. Where rows leave directions undetermined, the solution
    of least norm is taken (see `CoarseProblem`), with the part of a main effect that coarse
    cells see counted apart from what is finer.
    """
    rows = problem.encoded_rows
    if rows is None or problem.columns is None:
        raise InvalidInputError('method="coarse" needs rows: pass X')
    _check_order(problem.kept_terms.order)
    problem.report("predicting the rows", 0, 0)
    margin = problem.function(problem.columns)
    guide = margin if problem.guide is None else problem.guide(problem.columns)
    mean = np.average(margin, axis=0, weights=rows.weights)
    pairs = pairs_on_paths(problem.ensemble) if problem.kept_terms.order == _PAIR else []
    telling = telling_rows(problem.columns, rows.weights, problem.ensemble.used_features)
    merged = _merge(problem, rows, guide, pairs, settings.pair_cells, telling)
    terms = _terms(problem.ensemble.n_features, pairs, merged)
    subsets = [*((j,) for j in merged), *pairs]
    axes = [problem.grid.subset_axes(subset) for subset in subsets]
    check_memory(axes, len(mean), problem.memory_budget)
    fitted, unknowns = _fit(problem, rows, terms, margin - mean)
    effects = _effects(problem, pairs, merged, fitted, mean)
    cells = {
        axis.name: [axis.n_cells, merged[j].n_coarse]
        for j, axis in enumerate(problem.grid.axes)
        if j in merged
    }
    facts = {
        "trees": problem.ensemble.n_trees,
        "cells": cells,
        "unknowns": unknowns,
        "telling_rows": telling,
        "undetermined": fitted.undetermined,
        "converged": True,
        "error": [fitted.error] * len(mean),
    }
    return fitted_result(problem, rows, effects, margin, facts)


def _check_order(order: int | None) -> None:
    if order is None or order > _PAIR:
        asked = "all orders" if order is None else f"order={order}"
        raise InvalidInputError(
            'method="coarse" computes only main effects and pairs, '
            f'got {asked}: pass order=2, or weights="independent" with '
            'method="closed-form", which keeps every order'
        )


def _merge(
    problem: Problem,
    rows: EncodedRows,
    margin: Array,
    pairs: list[Subset],
    n_cells: int | None,
    telling: float,
) -> dict[int, MergedCells]:
    """Return the coarse cells of each feature that the model uses.

    If their number is not given, it is what `telling` rows can determine; see `telling_rows`.
    """
    used, axes = problem.ensemble.used_features, problem.grid.axes
    if n_cells is None:
        most = min(int(telling) // _ROWS_PER_UNKNOWN, _MOST_UNKNOWNS)
        most -= sum(axes[j].n_cells - 1 for j in used)
        sizes = [axis.n_cells for axis in axes]
        n_cells = most_cells_of_pairs(sizes, pairs, most, _LEAST_PAIR_CELLS)
    # Categories are ordered by the output that varies most.
    shares = rows.shares
    leading = margin[:, heaviest(mean_square(margin, shares))]
    merged = {}
    for j in used:
        mass, sums = (
            np.bincount(rows.codes[j], weights, axes[j].n_cells).astype(np.float64)
            for weights in (shares, shares * leading)
        )
        means = np.divide(sums, mass, out=np.full(len(mass), -np.inf), where=mass > 0)
        merged[j] = merge_cells(axes[j], mass, means, n_cells)
    return merged


def _terms(n_features: int, pairs: list[Subset], merged: dict[int, MergedCells]) -> CoarseTerms:
    """Return the terms: pairs on coarse cells, and main effects.

    A main effect's variation within coarse cells is the effect of an additional feature, numbered
    after all others.
    """
    in_pairs = {j for pair in pairs for j in pair}
    local = {j: cells.coarse for j, cells in merged.items()}
    local |= {n_features + j: cells.within for j, cells in merged.items() if cells.within.any()}
    subsets = [(j,) for j in local if j not in in_pairs]
    return coarse_terms(local, subsets + pairs)


def _fit(
    problem: Problem, rows: EncodedRows, terms: CoarseTerms, target: Array
) -> tuple[CoarseFit, int]:
    """Return the fit of the terms to the centred margin, and the number of unknowns."""
    if not terms.subsets:
        return CoarseFit({(): np.zeros(target.shape[1])}, 0, 0.0), 0
    codes = np.concatenate([rows.codes, rows.codes])
    # A weight that is rounding relative to the heaviest row determines nothing.
    weights = np.where(rows.shares < _LEAST_SHARE * rows.shares.max(), 0.0, rows.shares)
    fit = CoarseProblem(terms, terms.row_cells(codes), target, weights)
    unknowns = count_unknowns(fit).number
    check_budget(
        # The equations, their factor, and the counts or the norm of empty cells.
        24 * unknowns**2,
        problem.memory_budget,
        f"fitting {len(terms.subsets)} tables with {unknowns} unknowns",
        "Pass order=1 or fewer pair_cells.",
    )
    problem.report("fitting coarse intervals", 0, 0)
    return solve_directly(fit), unknowns


def _effects(
    problem: Problem,
    pairs: list[Subset],
    merged: dict[int, MergedCells],
    fitted: CoarseFit,
    mean: Array,
) -> EffectTensors:
    """Return the fitted tables on the grid."""
    n_features, tables = problem.ensemble.n_features, fitted.tables
    tensors: dict[Subset, EffectTensor] = {}
    for j, cells in merged.items():
        values = tables[j,][cells.coarse]
        if (n_features + j,) in tables:
            values = values + tables[n_features + j,][cells.within]
        tensors[j,] = EffectTensor((j,), problem.grid.subset_axes((j,)), values)
    for pair in pairs:
        first, second = (merged[j].coarse for j in pair)
        values = tables[pair][first[:, None], second]
        tensors[pair] = EffectTensor(pair, problem.grid.subset_axes(pair), values)
    return EffectTensors(mean + tables[()], tensors)
