"""The steps of a model along one feature: bounds from its trees and tables, and those of rows.

Between two neighbouring cells of a feature, a tree goes from one leaf to another, or stays. The
step of a model is the sum over its trees: a function of the other features. Its smallest value is
bounded from below by the sum of the smallest steps of all trees, which is what a monotone
constraint makes of them. Where a step is a sum of functions of one other feature each, it is the
sum of their smallest values, over all cells of each. The terms of additive tables count as trees.
The steps of a row are exact, with all of its other values as they are.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from treepurify._kernels.jumps import add_jumps
from treepurify._kernels.leaf_steps import smallest_differences
from treepurify.budget import check_budget
from treepurify.effects.accumulate import model_cuts
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.effects.table_effects import table_cuts
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Indices, Integers, Mask
from treepurify.validation.monotonicity_result import Method

# A feature, the start of its runs, one run of cells, and a value.
_BYTES_PER_ENTRY = 28
# Pairs of leaves of one tree that are compared at one step; of more, only the extremes.
_MOST_PAIRS = 1 << 22
# Steps, or values of rows, that are held at a time.
_NUMBERS_AT_ONCE = 1 << 20


class Leaves(NamedTuple):
    """A model as a sum of trees, each a value per box of cells.

    Parameters
    ----------
    grid : Grid
        All cuts of the model, with cells for missing and unseen values everywhere.
    boxes : LeafBoxes
        The leaves on it. Those of one tree that a cell reaches fill the grid without overlap.
    tree : ndarray of int64, shape (n_leaves,)
        Tree of each leaf.
    """

    grid: Grid
    boxes: LeafBoxes
    tree: Indices

    def values(self, output: int) -> Array:
        """Return what each leaf adds to one output, (n_leaves,); NaN where it feeds others."""
        values, feeds = self.boxes.values, self.boxes.output
        own = values[:, 0] if values.shape[1] == 1 else values[:, output]
        return np.where(feeds == output, values[:, 0], np.where(feeds < 0, own, np.nan))


class StepBounds(NamedTuple):
    """What is known without rows of the steps of one output along a feature.

    Parameters
    ----------
    lower : ndarray of float64, shape (n_steps,)
        Lower bounds, with the sign of the direction: a negative step is wrong.
    rounding : ndarray of float64, shape (n_steps,)
        What sums over the leaves of each step, and steps of rows, may be off by.
    method : {"trees", "tables"}
        What the bounds of the last steps came from.
    worst : int, optional
        The smallest step that is wrong and exact.
    cells : dict of int to int
        The cells of other features in which it is smallest.
    """

    lower: Array
    rounding: Array
    method: Method
    worst: int | None
    cells: dict[int, int]

    @property
    def is_open(self) -> bool:
        """Whether some step may be wrong."""
        return bool(np.any(self.lower < -self.rounding))


def read_leaves(model: Model, memory_budget: int) -> Leaves:
    """Return the leaves of a model on the grid of all its cuts.

    Raises
    ------
    MemoryBudgetError
        If they would not fit.
    """
    grid, _ = make_grid(
        None,
        model.features,
        model_cuts(model),
        match_names=model.has_feature_names,
        missing_cells="always",
    )
    if isinstance(model, AdditiveTables):
        n_leaves = sum(prod(term.scores.shape[:-1]) for term in model.terms)
        longest = max((len(term.features) for term in model.terms), default=0)
    else:
        n_leaves, longest = model.n_leaves, min(model.depth, len(model.used_features))
    check_budget(
        _BYTES_PER_ENTRY * n_leaves * max(longest, 1),
        memory_budget,
        f"the cells of {n_leaves} leaves along up to {longest} features",
        "Train with fewer or smaller trees.",
    )
    if isinstance(model, AdditiveTables):
        return _leaves_of_tables(model, grid)
    leaves = np.flatnonzero(model.feature < 0)
    tree = np.searchsorted(model.tree_ptr, leaves, side="right") - 1
    return Leaves(grid, leaf_boxes(model, grid), tree.astype(np.intp))


def _leaves_of_tables(model: AdditiveTables, grid: Grid) -> Leaves:
    """Return each cell of each table as a leaf."""
    terms = [term for term in model.terms if term.features]
    nothing = np.zeros(0, dtype=np.int32)
    features, start, stop = [nothing], [nothing], [nothing]
    for term in terms:
        places = np.indices(term.scores.shape[:-1]).reshape(len(term.features), -1)
        ends = [
            np.stack(_ends_on_axis(grid.axes[j], cuts))[:, place]
            for j, cuts, place in zip(term.features, term.cuts, places, strict=True)
        ]
        features.append(np.tile(term.features, places.shape[1]).astype(np.int32))
        start.append(np.stack([end[0] for end in ends], axis=1).ravel().astype(np.int32))
        stop.append(np.stack([end[1] for end in ends], axis=1).ravel().astype(np.int32))
    sizes = [prod(term.scores.shape[:-1]) for term in terms]
    tree = np.repeat(np.arange(len(terms)), sizes)
    orders = np.array([len(term.features) for term in terms], dtype=np.int64)
    entry_ptr = np.concatenate([[0], np.cumsum(np.repeat(orders, sizes))])
    run_start, run_stop = np.concatenate(start), np.concatenate(stop)
    # Cells without an interval of the grid, such as one below a cut at minus infinity.
    unreached = np.repeat(np.arange(len(tree)), np.diff(entry_ptr))[run_stop <= run_start]
    leaf_subset = tree.copy()
    leaf_subset[unreached] = -1
    boxes = LeafBoxes(
        tuple(term.features for term in terms),
        leaf_subset,
        entry_ptr,
        np.concatenate(features),
        np.arange(len(run_start) + 1),
        run_start,
        run_stop,
        np.concatenate([term.scores.reshape(-1, model.n_outputs) for term in terms])
        if terms
        else np.zeros((0, model.n_outputs)),
        np.full(len(tree), -1, dtype=np.int32),
    )
    return Leaves(grid, boxes, tree)


def _ends_on_axis(axis: FeatureAxis, cuts: Array | None) -> tuple[Indices, Indices]:
    """Return where the cells of a term with these cuts start and stop on a finer axis."""
    if cuts is None or axis.cuts is None:
        start = np.arange(axis.n_cells)
        return start, start + 1
    inner, regular = np.searchsorted(axis.cuts, cuts) + 1, axis.n_regular
    return (
        np.concatenate([[0], inner, [regular]]),
        np.concatenate([inner, [regular, regular + 1]]),
    )


def bound_steps(
    leaves: Leaves, feature: int, cells: Indices, gain: Array, least_rounding: float
) -> StepBounds:
    """Bound all steps by trees, and where that proves nothing, by tables.

    Parameters
    ----------
    leaves : Leaves
        The leaves.
    feature : int
        The feature.
    cells : ndarray of int64, shape (n_places,)
        Different cells of the feature, in the order in which they are stepped through.
    gain : ndarray of float64, shape (n_leaves,)
        What each leaf adds, with the sign of the direction; NaN for leaves that do not count.
    least_rounding : float
        What steps of rows may be off by.
    """
    n_steps, boxes = max(len(cells) - 1, 0), leaves.boxes
    moves = _moves(leaves, feature, cells, gain)
    leaf, signed = moves.leaf, np.where(moves.is_reached, 1.0, -1.0) * gain[moves.leaf]
    count = np.bincount(moves.step, minlength=n_steps)
    size = (count + 1) * _sums(moves.step, np.abs(signed), n_steps)
    rounding = np.maximum(np.finfo(np.float64).eps * size, least_rounding)
    # A group is one tree at one step: its leaves that are left, then those that are reached.
    is_new = np.ones(len(leaf), dtype=bool)
    is_new[1:] = (np.diff(moves.tree) != 0) | (np.diff(moves.step) != 0)
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(leaf))[: len(first)]
    group = np.cumsum(is_new) - 1
    n_left = np.bincount(group[~moves.is_reached], minlength=len(first))
    smallest = np.empty(len(first))
    smallest_differences(
        feature,
        leaf,
        gain[leaf],
        first,
        first + n_left,
        last,
        _MOST_PAIRS,
        boxes.entry_ptr,
        boxes.entry_feature,
        boxes.run_ptr,
        boxes.run_start,
        boxes.run_stop,
        smallest,
    )
    # Unless all leaves before the step are left, the tree stays for some values of the others.
    stays = moves.n_holding[first] > n_left
    smallest = np.where(stays, np.minimum(smallest, 0.0), smallest)
    lower = _sums(moves.step[first], smallest, n_steps)
    remaining = lower < -rounding
    if not remaining.any():
        return StepBounds(lower, rounding, "trees", None, {})
    # What is additive in all trees together is one function for each other feature. All other
    # trees count with their own smallest steps.
    n_partners = np.diff(boxes.entry_ptr)[leaf] - 1
    is_deep = np.bincount(group[n_partners > 1], minlength=len(first)) > 0
    is_exact = remaining & (np.bincount(moves.step[first][is_deep], minlength=n_steps) == 0)
    bound = _sums(moves.step[first][is_deep], smallest[is_deep], n_steps)
    counted = ~is_deep[group] & remaining[moves.step]
    alone = counted & (n_partners == 0)
    bound += _sums(moves.step[alone], signed[alone], n_steps)
    paired = np.flatnonzero(counted & (n_partners == 1))
    steps = moves.step[paired]
    for _, table in _tables(leaves, feature, leaf[paired], steps, signed[paired], n_steps):
        bound += table.min(axis=1)
    # Where they are exact they are also larger, but for rounding.
    lower = np.where(is_exact, bound, np.where(remaining, np.maximum(bound, lower), lower))
    wrong = np.flatnonzero(is_exact & (lower < -rounding))
    if not len(wrong):
        return StepBounds(lower, rounding, "tables", None, {})
    worst = int(wrong[np.argmin(lower[wrong])])
    there = paired[steps == worst]
    tables = _tables(leaves, feature, leaf[there], np.zeros_like(there), signed[there], 1)
    smallest_at = {j: int(np.argmin(table)) for j, table in tables if np.any(table)}
    return StepBounds(lower, rounding, "tables", worst, smallest_at)


class _Moves(NamedTuple):
    """Leaves that are left or reached at a step, by tree, step, side, and value.

    `n_holding` is the number of leaves of the tree that hold the place before the step.
    """

    tree: Indices
    step: Indices
    leaf: Indices
    is_reached: Mask
    n_holding: Integers


def _moves(leaves: Leaves, feature: int, cells: Indices, gain: Array) -> _Moves:
    """Return which leaves each tree leaves and reaches at each step."""
    boxes, tree_of = leaves.boxes, leaves.tree
    owner = np.repeat(np.arange(len(tree_of)), np.diff(boxes.entry_ptr))
    tests = boxes.entry_feature == feature
    reached = boxes.leaf_subset >= 0
    entry = np.flatnonzero(tests & reached[owner] & ~np.isnan(gain)[owner])
    n_runs = np.diff(boxes.run_ptr)[entry]
    run = _ranges(boxes.run_ptr[entry], n_runs)
    leaf = np.repeat(owner[entry], n_runs)
    start, stop = boxes.run_start[run].astype(np.int64), boxes.run_stop[run].astype(np.int64)
    if np.array_equal(cells, np.arange(len(cells))):
        stop = np.minimum(stop, len(cells))
        kept = start < stop
        leaf, start, stop = leaf[kept], start[kept], stop[kept]
    else:
        n_cells = leaves.grid.axes[feature].n_cells
        leaf, start, stop = _in_order(leaf, start, stop, cells, n_cells)
    is_left, comes = stop < len(cells), start > 0
    held = np.ones(len(tree_of), dtype=bool)
    held[owner[tests]] = False
    at_first = np.concatenate([np.flatnonzero(reached & held), leaf[~comes]])
    n_at_first = np.bincount(tree_of[at_first], minlength=int(tree_of.max(initial=-1)) + 1)
    step = np.concatenate([stop[is_left], start[comes]]) - 1
    sign = np.repeat([-1, 1], [is_left.sum(), comes.sum()])
    leaf = np.concatenate([leaf[is_left], leaf[comes]])
    order = np.lexsort((sign * gain[leaf], sign, step, tree_of[leaf]))
    leaf, step, sign = leaf[order], step[order], sign[order]
    tree = tree_of[leaf]
    change = np.concatenate([[0], np.cumsum(sign)])
    n_holding = n_at_first[tree] + change[:-1] - change[np.searchsorted(tree, tree)]
    return _Moves(tree, step, leaf, sign > 0, n_holding)


def _ranges(first: Integers, lengths: Integers) -> Indices:
    """Return ``first[0], first[0] + 1, ...``, as many as `lengths` says, then those of the next."""
    before = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return (before + np.arange(len(before))).astype(np.intp)


def _in_order(
    leaf: Indices, start: Indices, stop: Indices, cells: Indices, n_cells: int
) -> tuple[Indices, Indices, Indices]:
    """Return runs of places for runs of cells."""
    place_of = np.full(n_cells, -1, dtype=np.int64)
    place_of[cells] = np.arange(len(cells))
    place = place_of[_ranges(start, stop - start)]
    leaf = np.repeat(leaf, stop - start)[place >= 0]
    place = place[place >= 0]
    order = np.lexsort((place, leaf))
    leaf, place = leaf[order], place[order]
    is_first = np.ones(len(leaf), dtype=bool)
    is_first[1:] = (leaf[1:] != leaf[:-1]) | (place[1:] != place[:-1] + 1)
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(leaf))[: len(first)] - 1
    return leaf[first], place[first], place[last] + 1


def _tables(
    leaves: Leaves, feature: int, leaf: Indices, row: Indices, gain: Array, n_rows: int
) -> Iterator[tuple[int, Array]]:
    """Yield what leaves of one partner add to each row of a table of the partner's cells."""
    boxes = leaves.boxes
    entry = boxes.entry_ptr[leaf]
    entry = entry + (boxes.entry_feature[entry] == feature)
    partner = boxes.entry_feature[entry]
    for j in np.unique(partner).tolist():
        own = np.flatnonzero(partner == j)
        n_runs = np.diff(boxes.run_ptr)[entry[own]]
        run = _ranges(boxes.run_ptr[entry[own]], n_runs)
        rows, weight = np.repeat(row[own], n_runs), np.repeat(gain[own], n_runs)
        table = np.zeros((n_rows, leaves.grid.axes[j].n_cells + 1))
        np.add.at(table, (rows, boxes.run_start[run]), weight)
        np.add.at(table, (rows, boxes.run_stop[run]), -weight)
        yield j, np.cumsum(table, axis=1)[:, :-1]


def _sums(place: Indices, values: Array, n_places: int) -> Array:
    """Return the sum of the values at each place, in double precision also where there are none."""
    return np.bincount(place, values, minlength=n_places).astype(np.float64)


class WrongRows(NamedTuple):
    """Rows along which one output goes against a direction, and the largest step that does.

    Parameters
    ----------
    row_share, mass_share, near_share : float
        Shares of the rows and of their mass along which the margin somewhere goes against the
        direction, and of the mass of those that are on one side of such a step.
    size : float
        How far the margin goes against the direction at most; 0 where it never does.
    row, place, step : int
        The position of the row, its place among the cells (-2 at none of them), and the step.
    """

    row_share: float = 0.0
    mass_share: float = 0.0
    near_share: float = 0.0
    size: float = 0.0
    row: int = 0
    place: int = -2
    step: int = 0


def wrong_rows(
    model: Model,
    feature: int,
    cells: Indices,
    sign: int,
    limits: Array,
    columns: Columns,
    counts: Array,
    places: Indices,
) -> list[WrongRows]:
    """Return along which rows each output of a margin goes against a direction.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    feature : int
        The feature that is moved.
    cells : ndarray of int64, shape (n_steps + 1,)
        Its cells, in the order in which they are stepped through.
    sign : int
        1 where the margin must not fall, -1 where it must not rise.
    limits : ndarray of float64, shape (n_steps, n_outputs)
        Rounding of each step: what goes against the direction by more counts.
    columns : Columns
        The rows.
    counts : ndarray of float64, shape (n_rows,)
        Their weights, all positive.
    places : ndarray of int64, shape (n_rows,)
        The place of each row among the cells; -2 for rows at none of them.
    """
    n_steps, n_outputs = limits.shape
    # A row has its steps, and three values of each feature: see `add_jumps`.
    length = max(_NUMBERS_AT_ONCE // max(n_steps * n_outputs, 3 * model.n_features), 1)

    def of_block(start: int) -> tuple[int, Array]:
        steps = _steps_of_rows(model, columns.part(start, start + length), feature, cells)
        return start, np.where(-sign * steps > limits, -sign * steps, 0.0)

    sums = np.zeros((3, n_outputs))
    worst = [WrongRows()] * n_outputs
    starts = range(0, columns.n_rows if n_steps else 0, length)
    for start, against in iterate_threads(of_block, starts):
        block, wrong = slice(start, start + len(against)), against > 0.0
        somewhere = wrong.any(axis=1)
        near = np.zeros_like(somewhere)
        for step in (places[block] - 1, places[block]):
            inside = np.flatnonzero((step >= 0) & (step < n_steps))
            near[inside] |= wrong[inside, step[inside]]
        sums += [somewhere.sum(axis=0), counts[block] @ somewhere, counts[block] @ near]
        for k, known in enumerate(worst):
            row, step = divmod(int(np.argmax(against[:, :, k])), n_steps)
            if against[row, step, k] > known.size:
                size = float(against[row, step, k])
                row += start
                place = int(places[row])
                worst[k] = known._replace(size=size, row=row, place=place, step=step)
    shares = (sums.T / [columns.n_rows, counts.sum(), counts.sum()]).tolist()
    return [
        known._replace(row_share=rows, mass_share=mass, near_share=near)
        for known, (rows, mass, near) in zip(worst, shares, strict=True)
    ]


def _steps_of_rows(model: Model, columns: Columns, j: int, cells: Indices) -> Array:
    """Return by how much the margin moves at each step, shape (n_rows, n_steps, n_outputs)."""
    if isinstance(model, TreeEnsemble) and not model.features[j].is_categorical:
        return _jumps(model, columns, j, len(cells) - 1)
    places = cells.astype(np.float64)
    if isinstance(model, AdditiveTables):
        cuts = table_cuts(model)[j]
        model = replace(model, terms=tuple(term for term in model.terms if j in term.features))
        if cuts is not None:
            # A cell of numbers contains the cut at which it begins.
            places = np.concatenate([[-np.inf], cuts])
    margins = []
    for value in places:
        values = list(columns.values)
        values[j] = np.full(columns.n_rows, value)
        moved = Columns(columns.features, tuple(values), columns.n_rows)
        margins.append(model.margin(moved, precision="float64"))
    return np.diff(np.stack(margins, axis=1), axis=1)


def _jumps(model: TreeEnsemble, columns: Columns, j: int, n_steps: int) -> Array:
    """Return the jumps of trees at each cut of one feature."""
    n_rows = columns.n_rows
    jumps = np.zeros((n_rows * n_steps, model.n_outputs))
    numeric = (model.feature == j) & (model.category_ptr < 0)
    cuts = np.unique(model.cut[numeric])
    cuts = cuts[cuts > -np.inf]
    used = model.used_features
    moved = used.index(j)
    points = np.repeat(columns.of_features(used).matrix()[:, :, None], 3, axis=2)
    # Any number does in between: all cuts lie within the range of steps.
    points[:, moved] = -np.inf, 0.0, np.inf
    each = np.arange(n_rows)
    add_jumps(
        points,
        np.ones(n_rows),
        each[:, None],
        np.zeros_like(each),
        np.full(n_rows, n_steps),
        each * n_steps,
        np.where(np.arange(len(used)) == moved, 0, -1),
        np.searchsorted(cuts, model.cut, side="right") - 1,
        model.tree_ptr,
        *model.walk,
        model.cut,
        model.missing_left,
        model.category_ptr,
        model.category_left,
        model.value,
        model.tree_output,
        jumps,
        np.zeros((n_rows, 1, model.n_outputs)),
    )
    return jumps.reshape(n_rows, n_steps, model.n_outputs)
