"""The projection on coarse cells as a route: for trees with too many leaves to be exact.

A fully grown tree has nearly as many leaves as rows. Projected on its own splits it describes the
noise of single rows, and the union of the cuts of many has more pairs of cells than any memory.
So the sum of all trees is projected at once on cells that are fixed beforehand: fine ones for
main effects, coarse ones for pairs, together few compared with the rows. Variation within
a cell is left in the remainder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from treepurify.arguments import check_whole
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.engines.common.problem import Layout, Problem, check_memory
from treepurify.engines.tree.nearest_sum import FittedTables, fit_tables
from treepurify.engines.tree.table_fit import join_cells, lay_out, without_heaviest
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import group_neighbours
from treepurify.grids.grid import Cuts, MissingCells, Subset, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import row_shares, telling_rows
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array
from treepurify.weights import Weighting

# Fewer rows for an unknown than this fit noise: on forests of real data new rows tell.
_ROWS_PER_UNKNOWN = 4
_MOST_UNKNOWNS = 5000
_MOST_MAIN_CELLS, _LEAST_MAIN_CELLS, _LEAST_PAIR_CELLS = 128, 8, 2
_PAIR = 2


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


def coarse_cuts(cuts: Cuts, columns: Columns, shares: Array, n_cells: int) -> Cuts:
    """Return at most ``n_cells - 1`` of the cuts of each numeric feature.

    The rows between two of them weigh about the same.

    Parameters
    ----------
    cuts : tuple of (ndarray or None)
        Sorted cuts of each numeric feature, None for categorical ones.
    columns : Columns
        The rows.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    n_cells : int
        Most cells of a feature, missing values aside.
    """
    chosen = []
    for own, values in zip(cuts, columns.values, strict=True):
        if own is None or len(own) < n_cells:
            chosen.append(own)
            continue
        known = ~np.isnan(values)
        cells = np.searchsorted(own, values[known], side="right")
        mass = np.bincount(cells, weights=shares[known], minlength=len(own) + 1)
        group = group_neighbours(mass, n_cells)
        chosen.append(own[np.diff(group) > 0])
    return tuple(chosen)


def fit_on_coarse_cells(problem: Problem, settings: CoarseProjection) -> FittedTables:
    """Return an ensemble projected on coarse cells.

    In weighted least squares the margin is fitted by a table of each main effect on the cells of
    the grid and one of each pair on fewer cells.
    """
    rows = problem.encoded_rows
    if rows is None or problem.columns is None:
        raise InvalidInputError('method="coarse" needs rows: pass X')
    order = problem.kept_terms.order
    if order is None or order > _PAIR:
        asked = "all orders" if order is None else f"order={order}"
        raise InvalidInputError(
            'method="coarse" computes only main effects and pairs, '
            f'got {asked}: pass order=2, or weights="independent" with '
            'method="closed-form", which keeps every order'
        )
    problem.report("predicting the rows", 0, 0)
    margin = problem.function(problem.columns)
    ensemble, grid = problem.ensemble, problem.grid
    pairs = _pairs(ensemble) if order == _PAIR else []
    used = ensemble.used_features
    telling = telling_rows(problem.columns, rows.weights, used)
    n_cells = settings.pair_cells
    if n_cells is None:
        sizes = [axis.n_cells for axis in grid.axes]
        most = min(int(telling) // _ROWS_PER_UNKNOWN, _MOST_UNKNOWNS)
        most -= sum(sizes[j] - 1 for j in used)
        n_cells = most_cells_of_pairs(sizes, pairs, most, _LEAST_PAIR_CELLS)
    joined = join_cells(grid, rows, used, margin, n_cells)
    subsets = [*((j,) for j in used), *pairs]
    check_memory(map(grid.subset_axes, subsets), margin.shape[1], problem.memory_budget)
    places = {}
    for j, cells in joined.items():
        places[1, j] = without_heaviest(np.arange(len(cells)), rows.codes[j], rows.shares)
        places[_PAIR, j] = without_heaviest(cells, rows.codes[j], rows.shares)
    fitted = fit_tables(
        problem, lay_out([(), *subsets], places), dict.fromkeys((1, _PAIR), rows), margin
    )
    facts = {
        "trees": ensemble.n_trees,
        "cells": {
            grid.axes[j].name: [len(cells), int(cells.max()) + 1] for j, cells in joined.items()
        },
        "telling_rows": telling,
    }
    return fitted._replace(facts=facts | fitted.facts)


def most_cells_of_pairs(
    sizes: Sequence[int], pairs: Sequence[Subset], most: int, least: int
) -> int:
    """Return the largest number of coarse cells with which pairs have at most `most` unknowns.

    Parameters
    ----------
    sizes : sequence of int
        Cells of each feature.
    pairs : sequence of tuple of int
        The pairs.
    most : int
        Most unknowns of all pairs together.
    least : int
        What is returned even if the unknowns are more.
    """
    ends = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    cells = np.array(sizes)
    k = least
    while k < cells.max(initial=0):
        free = np.minimum(cells, k + 1) - 1
        if (free[ends[:, 0]] * free[ends[:, 1]]).sum() > most:
            break
        k += 1
    return k


def _pairs(ensemble: TreeEnsemble) -> list[Subset]:
    """Return all pairs of features, or those on paths where all have too many unknowns."""
    pairs = list(combinations(ensemble.used_features, _PAIR))
    return pairs if len(pairs) <= _MOST_UNKNOWNS else pairs_on_paths(ensemble)


def pairs_on_paths(ensemble: TreeEnsemble) -> list[Subset]:
    """Return the pairs of features that occur together on a path of a tree."""
    parent, feature = ensemble.parents(), ensemble.feature
    together = np.zeros((ensemble.n_features,) * 2, dtype=bool)
    node = np.flatnonzero(feature >= 0)
    above = parent[node]
    while len(node):
        node, above = node[above >= 0], above[above >= 0]
        together[feature[node], feature[above]] = True
        above = parent[above]
    pairs = np.argwhere(np.triu(together | together.T, 1))
    return [(int(first), int(second)) for first, second in pairs]
