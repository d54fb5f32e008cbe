"""Several trainings of one model, purified on one grid: that of all their cuts, or of fewer.

On one grid purification is linear. So the mean of the purified models is the purified mean, and
all of them are purified at once, as outputs side by side: the cells are weighed once.

Together they can have more cells than any memory. Then each cut is moved to the nearest of some
that are kept. That changes a model only for the rows between the old place and the new one, and it
is linear as well: one choice of cuts serves all.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.components import Component, TensorComponent, evaluate_each, values_on_rows
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.grid_margin import margin_in_cells
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.common.explained import measure_explained
from treepurify.engines.common.finish import Evidence, Result, Unexplained
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.problem import KeptTerms, Resolution, lay_out
from treepurify.engines.tree.asked import Asked, Plan, plan, run, run_with_mean
from treepurify.engines.tree.coarse_cells import coarse_cuts, pairs_on_paths
from treepurify.engines.tree.refits import ReadRefits
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import row_shares
from treepurify.rows.source_reader import RowBatch
from treepurify.spread import CommonGrid, Spread
from treepurify.typing import Array, Indices

__all__ = ["purify_refits"]


@dataclass(frozen=True, eq=False)
class CutMoves:
    """Where each cut goes.

    Parameters
    ----------
    old, new : tuple of (ndarray of float64 or None)
        The cuts of each numeric feature in ascending order, and the kept cut that each goes to;
        None for categorical features.
    moved : float
        The largest share of the rows that one cut moves over.
    """

    old: tuple[Array | None, ...]
    new: tuple[Array | None, ...]
    moved: float


def choose_moves(ensemble: TreeEnsemble, columns: Columns, shares: Array, n_cells: int) -> CutMoves:
    """Keep at most ``n_cells - 1`` cuts of each feature, and move each other to the nearest.

    The rows between two kept cuts weigh about the same; the nearest is that with the fewest
    rows, by weight, between the two.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees whose cuts they are.
    columns : Columns
        The rows.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    n_cells : int
        Most cells of a feature, missing values aside.
    """
    old = ensemble_cuts(ensemble)
    kept = coarse_cuts(old, columns, shares, n_cells)
    new: list[Array | None] = []
    moved = 0.0
    for values, own, chosen in zip(columns.values, old, kept, strict=True):
        if own is None or chosen is None or len(own) == len(chosen):
            new.append(own)
            continue
        below = _rows_below(values, shares, own)
        below_chosen = below[np.searchsorted(own, chosen)]
        middles = (below_chosen[1:] + below_chosen[:-1]) / 2
        nearest = np.searchsorted(middles, below, side="left")
        new.append(chosen[nearest])
        moved = max(moved, float(np.max(np.abs(below - below_chosen[nearest]), initial=0.0)))
    return CutMoves(old, tuple(new), moved)


def move_cuts(ensemble: TreeEnsemble, moves: CutMoves) -> TreeEnsemble:
    """Return the ensemble with its cuts moved; all of them must be among those of the moves."""
    cut = ensemble.cut.copy()
    for j, (old, new) in enumerate(zip(moves.old, moves.new, strict=True)):
        if old is None or new is None or old is new:
            continue
        # A cut at -inf splits missing values from all others: it is none of a grid, and stays.
        nodes = np.flatnonzero((ensemble.feature == j) & (cut > -np.inf))
        cut[nodes] = new[np.searchsorted(old, cut[nodes])]
    return replace(ensemble, cut=cut)


def _rows_below(values: npt.NDArray[Any], shares: Array, cuts: Array) -> Array:
    """Return the share of the rows below each cut."""
    known = ~np.isnan(values)
    cells = np.searchsorted(cuts, values[known], side="right")
    mass = np.bincount(cells, weights=shares[known], minlength=len(cuts) + 1)
    return np.asarray(np.cumsum(mass)[:-1], dtype=np.float64)


def purify_side_by_side(
    refits: ReadRefits, centre: Model, stack: Model, asked: Asked, kept_terms: KeptTerms
) -> tuple[Plan, Result]:
    """Purify several models by one route on the grid of all their cuts.

    Parameters
    ----------
    refits : ReadRefits
        The models.
    centre, stack : TreeEnsemble or AdditiveTables
        What is decomposed, and all models side by side: those of `refits`, or with fewer cuts.
    asked : Asked
        The request. Its route is that of all models together.
    kept_terms : KeptTerms
        The effects that become components.
    """
    planned = plan(stack, asked)
    if planned.route in ("projection", "coarse", "joint") and planned.fitted is not None:
        n_rows = len(planned.fitted)
        check_budget(
            8 * n_rows * stack.n_outputs,
            asked.memory_budget,
            f"the margins of {len(refits.parsed)} models on {n_rows} rows",
            "Pass fewer models or rows.",
        )
    stacked, planned = planned, _same_cells(planned, centre, asked)
    if planned.route == "projection" and refits.is_mean:
        of_stack, result = run_with_mean(stacked, planned, asked, kept_terms)
    else:
        # What is chosen for the centre holds for all, so that effects stay linear in the model.
        result = run(planned, asked, kept_terms)
        of_stack = run(stacked, asked, kept_terms, ParsedFunction(centre), result.choice)
    common_grid: CommonGrid = "coarse cells" if planned.route == "coarse" else "all cuts"
    spread = _spread(refits, of_stack, result, kept_terms, common_grid)
    facts = planned.facts()
    facts["refits"] = {
        "models": refits.n_models,
        "how": refits.how,
        "decomposed": "mean" if refits.is_mean else "given model",
        "common_grid": common_grid,
        "cells": {axis.name: axis.n_cells for axis in planned.layout.union_grid.axes},
        "without_spread": [
            list(subset)
            for subset in result.components
            if kept_terms.keeps(subset) and subset not in spread.stacked
        ],
    }
    return planned, replace(
        result, diagnostics=facts | result.diagnostics, method=planned.route, spread=spread
    )


def _same_cells(planned: Plan, centre: Model, asked: Asked) -> Plan:
    """Return what was planned for all models together, for one model of the same cuts."""
    if isinstance(centre, TreeEnsemble):
        grid = planned.layout.union_grid
        boxes = None if planned.layout.boxes is None else leaf_boxes(centre, grid)
        return replace(planned, model=centre, layout=replace(planned.layout, boxes=boxes))
    resolution: Resolution = "union" if planned.layout.resolution == "union" else "term"
    return plan(centre, replace(asked, resolution=resolution))


def _spread(
    refits: ReadRefits,
    of_stack: Result,
    result: Result,
    kept_terms: KeptTerms,
    common_grid: CommonGrid,
) -> Spread:
    """Return the tables of all models; cells and masses are those of the centre."""
    names = refits.centre.output_names
    n_stacked = refits.n_models * len(names)
    stacked: dict[Subset, TensorComponent] = {}
    for subset, component in result.components.items():
        other = of_stack.components.get(subset)
        if not isinstance(component, TensorComponent) or not isinstance(other, TensorComponent):
            continue
        if kept_terms.keeps(subset):
            values = np.ascontiguousarray(other.values[..., :n_stacked])
            stacked[subset] = replace(component, values=values, raw=None)
    return Spread(
        refits.n_models,
        refits.how,
        of_stack.intercept[:n_stacked].reshape(refits.n_models, len(names)),
        stacked,
        refits.centre.feature_names,
        names,
        refits.is_mean,
        common_grid,
    )


_MOST_CELLS, _LEAST_CELLS, _STEP = 512, 2, 0.9
_PAIR = 2


def purify_refits(refits: ReadRefits, asked: Asked, kept_terms: KeptTerms) -> tuple[Plan, Result]:
    """Purify several models on one common grid.

    That is the grid of all their cuts where it fits the memory budget. Else each cut is moved to
    the nearest of fewer that fit, and the change that this makes is in the remainder.

    Raises
    ------
    MemoryBudgetError
        If not even few cells fit, or the models have no cuts that can be moved.
    """
    stack, rows = refits.stack, asked.table
    if not isinstance(stack, TreeEnsemble) or rows is None:
        return purify_side_by_side(refits, refits.centre, stack, asked, kept_terms)
    sizes, pairs = _cells_of_features(stack), pairs_on_paths(stack)
    if _may_fit(sizes, pairs, stack.n_outputs, asked.memory_budget):
        with suppress(MemoryBudgetError):
            return purify_side_by_side(refits, refits.centre, stack, asked, kept_terms)
    return _purify_on_fewer_cuts(refits, stack, rows, asked, kept_terms)


def _cells_of_features(stack: TreeEnsemble) -> Indices:
    """Return the number of cells of each feature, special ones left out."""
    sizes = [
        spec.n_codes if cuts is None else len(cuts) + 1
        for spec, cuts in zip(stack.features, ensemble_cuts(stack), strict=True)
    ]
    return np.array(sizes, dtype=np.intp)


def _may_fit(sizes: Indices, pairs: list[Subset], n_outputs: int, memory_budget: int) -> bool:
    """Return whether tables of pairs may fit: what `check_memory` counts, larger sets left out."""
    ends = np.array(pairs, dtype=np.intp).reshape(-1, _PAIR)
    cells = sizes[ends[:, 0]] * sizes[ends[:, 1]]
    n_bytes = 8 * (3 * cells.sum() + 4 * cells.max(initial=0)) * n_outputs
    return bool(n_bytes <= memory_budget)


def _purify_on_fewer_cuts(
    refits: ReadRefits, stack: TreeEnsemble, rows: RowBatch, asked: Asked, kept_terms: KeptTerms
) -> tuple[Plan, Result]:
    """Purify models whose cuts are moved, and put what that changes into the remainder."""
    shares = row_shares(len(rows), rows.weights)
    failed = MemoryBudgetError(
        "purifying these models together needs more memory than the memory budget: raise "
        "memory_budget, or pass fewer models"
    )
    for n_cells in _numbers_of_cells(stack, asked.memory_budget):
        moves = choose_moves(stack, rows.columns, shares, n_cells)
        centre = refits.centre
        if isinstance(centre, TreeEnsemble):
            centre = move_cuts(centre, moves)
        try:
            planned, result = purify_side_by_side(
                refits, centre, move_cuts(stack, moves), asked, kept_terms
            )
        except MemoryBudgetError as error:
            failed = error
            continue
        encoded = planned.layout.encoded_rows
        return planned, _with_difference(refits, result, encoded, rows, asked, kept_terms, moves)
    raise failed


def _numbers_of_cells(stack: TreeEnsemble, memory_budget: int) -> Iterator[int]:
    """Yield numbers of cells of a feature, fewer and fewer, whose pairs may fit the budget."""
    sizes, pairs = _cells_of_features(stack), pairs_on_paths(stack)
    n_cells = min(_MOST_CELLS, int(sizes.max()) - 1)
    while n_cells >= _LEAST_CELLS:
        if _may_fit(np.minimum(sizes, n_cells), pairs, stack.n_outputs, memory_budget):
            yield n_cells
        n_cells = min(int(n_cells * _STEP), n_cells - 1)


def _with_difference(
    refits: ReadRefits,
    result: Result,
    encoded: EncodedRows | None,
    rows: RowBatch,
    asked: Asked,
    kept_terms: KeptTerms,
    moves: CutMoves,
) -> Result:
    """Return the components of moved models, with what they leave of the model as remainder."""
    shares = row_shares(len(rows), rows.weights)
    margin = _margin(refits.centre, rows.columns, asked)
    is_rows = asked.weighting.share_of_rows == 1.0
    intercept = shares @ margin if is_rows else result.intercept
    kept = {s: c for s, c in result.components.items() if kept_terms.keeps(s)}
    parts = _values_of_each(kept, rows.columns, encoded)
    explained = measure_explained(margin, shares, intercept, parts)
    note = (
        "The models have too many different split points, so these were moved to a coarser common "
        f"grid, each past at most {moves.moved:.2%} of the rows. The remainder contains the "
        "difference."
    )
    evidence = result.evidence or Evidence()
    facts = {
        "common_grid": "fewer cuts",
        "cells_of_all_cuts": {
            spec.name: len(old) + 1
            for spec, old in zip(refits.centre.features, moves.old, strict=True)
            if old is not None
        },
        "moved_rows": moves.moved,
        "r_squared": explained.share.tolist(),
    }
    diagnostics = result.diagnostics
    return replace(
        result,
        intercept=intercept,
        evidence=replace(
            evidence,
            fitted_share=explained.share,
            note=" ".join(part for part in (evidence.note, note) if part),
        ),
        rest=Unexplained(ParsedFunction(refits.centre), explained.rest_variance),
        covariances=explained.covariances if is_rows else None,
        diagnostics=diagnostics | {"refits": diagnostics["refits"] | facts},
        spread=result.spread and replace(result.spread, common_grid="fewer cuts"),
    )


def _values_of_each(
    components: dict[Subset, Component], columns: Columns, rows: EncodedRows | None
) -> Iterator[tuple[Subset, Array]]:
    """Yield the values of each component on the rows."""
    if rows is not None and all(isinstance(c, TensorComponent) for c in components.values()):
        on_grid = dict.fromkeys(range(1, 1 + max(map(len, components), default=0)), rows)
        for subset, component in components.items():
            if isinstance(component, TensorComponent):
                yield subset, values_on_rows(component, on_grid)
    else:
        yield from zip(components, evaluate_each(components.values(), columns), strict=True)


def _margin(model: Model, columns: Columns, asked: Asked) -> Array:
    """Return the margin of the rows.

    Several models have very many trees together; shallow ones are not walked one by one.
    """
    if not isinstance(model, TreeEnsemble):
        return ParsedFunction(model)(columns)
    budget = asked.memory_budget
    how = asked.resolution, asked.missing_cells, budget
    layout = lay_out(model, asked.rows, asked.weighting, *how)
    boxes, grid, encoded = layout.leaf_boxes, layout.union_grid, layout.encoded_rows
    largest = max((prod(grid.shape(subset)) for subset in boxes.subsets), default=0)
    is_shallow = max(map(len, boxes.subsets), default=0) <= _PAIR
    if encoded is None or not is_shallow or 8 * largest * model.n_outputs > budget:
        return ParsedFunction(model)(columns)
    return margin_in_cells(model, grid, boxes, encoded.codes, budget)
