"""Which leaves are left and reached at each step along one feature, and bounds of such steps.

Between two neighbouring cells of a feature, a tree goes from one leaf to another, or stays. The
step of a model is the sum over its trees: a function of the other features. Its smallest value is
bounded from below by the sum of the smallest steps of all trees, which is what a monotone
constraint makes of them. Where a step is a sum of functions of one other feature each, it is the
sum of their smallest values, over all cells of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treepurify._kernels.leaf_steps import smallest_differences
from treepurify.typing import Array, Indices, Integers, Mask
from treepurify.validation.model_leaves import ModelLeaves

__all__ = ["LeafRuns", "TreeSteps", "leaf_runs_along", "tree_steps"]

# Pairs of leaves of one tree that are compared at one step; of more, only the extremes.
_MOST_PAIRS = 1 << 22
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class LeafRuns:
    """The runs of leaves along an ordered row of cells of one feature.

    Parameters
    ----------
    feature : int
        The feature.
    n_places : int
        Number of cells in the row; there is one step less.
    leaf : ndarray of int64, shape (n_runs,)
        Leaf of each run; those that do not test the feature have none.
    start, stop : ndarray of int64, shape (n_runs,)
        Half-open runs of places in the row.
    """

    feature: int
    n_places: int
    leaf: Indices
    start: Indices
    stop: Indices


def leaf_runs_along(model: ModelLeaves, feature: int, cells: Indices) -> LeafRuns:
    """Return the runs of all leaves that test a feature along some of its cells, in their order.

    Parameters
    ----------
    model : ModelLeaves
        The leaves.
    feature : int
        The feature.
    cells : ndarray of int64, shape (n_places,)
        Different cells of the feature, in the order in which they are stepped through.
    """
    boxes = model.boxes
    entry = np.flatnonzero((boxes.entry_feature == feature) & model.reached[model.owner])
    n_runs = np.diff(boxes.run_ptr)[entry]
    run = _ranges(boxes.run_ptr[entry], n_runs)
    leaf = np.repeat(model.owner[entry], n_runs)
    start, stop = boxes.run_start[run].astype(np.int64), boxes.run_stop[run].astype(np.int64)
    if np.array_equal(cells, np.arange(len(cells))):
        stop = np.minimum(stop, len(cells))
    else:
        leaf, start, stop = _in_order(leaf, start, stop, cells, int(model.n_cells[feature]))
    kept = start < stop
    return LeafRuns(feature, len(cells), leaf[kept], start[kept], stop[kept])


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


@dataclass(frozen=True, eq=False)
class TreeSteps:
    """The leaves that each tree leaves and reaches at each step, for one output.

    A group is one tree at one step. Its leaves stand together: those that are left from `first`
    on, by falling value, those that are reached from `middle` on, by rising value.

    Parameters
    ----------
    model : ModelLeaves
        The leaves.
    runs : LeafRuns
        Their runs along the feature.
    gain : ndarray of float64, shape (n_leaves,)
        What each leaf adds, with the sign of the direction: a negative step is wrong.
    leaf : ndarray of int64, shape (n_moves,)
        The leaves.
    is_reached : ndarray of bool, shape (n_moves,)
        Whether the leaf is reached, not left.
    group_step, first, middle, last : ndarray of int64, shape (n_groups,)
        Step of each group, and where its leaves stand.
    is_everywhere : ndarray of bool, shape (n_groups,)
        Whether the tree goes to another leaf whatever the other features are.
    is_additive : ndarray of bool, shape (n_groups,)
        Whether the step of the tree is a sum of functions of one other feature.
    """

    model: ModelLeaves
    runs: LeafRuns
    gain: Array
    leaf: Indices
    is_reached: Mask
    group_step: Indices
    first: Indices
    middle: Indices
    last: Indices
    is_everywhere: Mask
    is_additive: Mask

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return max(self.runs.n_places - 1, 0)

    @cached_property
    def move_step(self) -> Indices:
        """Step of each leaf that is left or reached."""
        return np.repeat(self.group_step, self.last - self.first)

    @cached_property
    def signed_gain(self) -> Array:
        """What each leaf adds to its step: minus its gain where it is left."""
        gain = self.gain[self.leaf]
        return np.where(self.is_reached, gain, -gain)

    @cached_property
    def rounding(self) -> Array:
        """What sums over the leaves of each step may be off by, shape (n_steps,)."""
        count = np.bincount(self.move_step, minlength=self.n_steps)
        size = _sums(self.move_step, np.abs(self.signed_gain), self.n_steps)
        return (count + 1) * np.finfo(np.float64).eps * size

    @cached_property
    def smallest(self) -> Array:
        """The smallest step of each tree, over all values of the other features."""
        boxes = self.model.boxes
        found = np.empty(len(self.first))
        smallest_differences(
            self.runs.feature,
            self.leaf,
            self.gain[self.leaf],
            self.first,
            self.middle,
            self.last,
            _MOST_PAIRS,
            boxes.entry_ptr,
            boxes.entry_feature,
            boxes.run_ptr,
            boxes.run_start,
            boxes.run_stop,
            found,
        )
        return np.where(self.is_everywhere, found, np.minimum(found, 0.0))

    def tree_bounds(self) -> Array:
        """Return the sum of the smallest steps of all trees, a lower bound, shape (n_steps,)."""
        return _sums(self.group_step, self.smallest, self.n_steps)

    def table_bounds(self, steps: Indices) -> tuple[Array, Mask]:
        """Return lower bounds of some steps from sums of tables, and which of them are reached.

        What is additive in all trees together is one function for each other feature, whose
        smallest values add up. All other trees count with their own smallest steps.
        """
        is_deep = ~self.is_additive
        deep = _sums(self.group_step[is_deep], self.smallest[is_deep], self.n_steps)
        is_exact = np.bincount(self.group_step[is_deep], minlength=self.n_steps) == 0
        bound = deep[steps]
        for block, constant, tables in self._blocks(steps):
            smallest = np.minimum.reduceat(tables, self._places[:-1], axis=1)
            bound[block] += constant + smallest.sum(axis=1)
        return bound, is_exact[steps]

    def cells_of_smallest(self, step: int) -> dict[int, int]:
        """Return the cells of other features in which an additive step is smallest."""
        ((_, _, tables),) = self._blocks(np.array([step]))
        parts = [table[:-1] for table in np.split(tables[0], self._places[1:-1])]
        return {j: int(np.argmin(part)) for j, part in enumerate(parts) if np.any(part)}

    @cached_property
    def _places(self) -> Indices:
        """Where the cells of each feature start, with one more behind each feature's last."""
        return np.concatenate([[0], np.cumsum(self.model.n_cells + 1)])

    def _blocks(self, steps: Indices) -> Iterator[tuple[slice, Array, Array]]:
        """Yield constants and tables of some steps, shape (steps of the block, cells)."""
        length = max(_CELLS_AT_ONCE // int(self._places[-1]), 1)
        additive = np.repeat(self.is_additive, self.last - self.first)
        moves = np.flatnonzero(additive)
        moves = moves[np.argsort(self.move_step[moves], kind="stable")]
        ordered = self.move_step[moves]
        for start in range(0, len(steps), length):
            block = slice(start, min(start + length, len(steps)))
            begin = np.searchsorted(ordered, steps[block])
            count = np.searchsorted(ordered, steps[block], side="right") - begin
            row = np.repeat(np.arange(len(count)), count)
            yield block, *self._summed(moves[_ranges(begin, count)], row, len(count))

    def _summed(self, moves: Indices, row: Indices, n_rows: int) -> tuple[Array, Array]:
        """Add the leaves of some moves up, each in the row of its step."""
        boxes, leaf, gain = self.model.boxes, self.leaf[moves], self.signed_gain[moves]
        n_entries = np.diff(boxes.entry_ptr)[leaf]
        alone = n_entries == 1
        constant = _sums(row[alone], gain[alone], n_rows)
        entry = boxes.entry_ptr[leaf[~alone]]
        entry = entry + (boxes.entry_feature[entry] == self.runs.feature)
        n_runs = np.diff(boxes.run_ptr)[entry]
        run = _ranges(boxes.run_ptr[entry], n_runs)
        base = np.repeat(
            row[~alone] * self._places[-1] + self._places[boxes.entry_feature[entry]], n_runs
        )
        weight = np.repeat(gain[~alone], n_runs)
        tables = np.zeros(n_rows * int(self._places[-1]))
        np.add.at(tables, base + boxes.run_start[run], weight)
        np.add.at(tables, base + boxes.run_stop[run], -weight)
        tables = np.cumsum(tables.reshape(n_rows, -1), axis=1)
        # No cell: nothing is smallest there.
        tables[:, self._places[1:] - 1] = np.inf
        return constant, tables


def _sums(place: Indices, values: Array, n_places: int) -> Array:
    """Return the sum of the values at each place, in double precision also where there are none."""
    return np.bincount(place, values, minlength=n_places).astype(np.float64)


def tree_steps(model: ModelLeaves, runs: LeafRuns, gain: Array) -> TreeSteps:
    """Return which leaves each tree leaves and reaches at each step.

    Parameters
    ----------
    model : ModelLeaves
        The leaves.
    runs : LeafRuns
        Their runs along the feature.
    gain : ndarray of float64, shape (n_leaves,)
        What each leaf adds, with the sign of the direction; NaN for leaves that do not count.
    """
    counts = ~np.isnan(gain[runs.leaf])
    run_leaf, start, stop = runs.leaf[counts], runs.start[counts], runs.stop[counts]
    is_left, comes = stop < runs.n_places, start > 0
    leaf = np.concatenate([run_leaf[is_left], run_leaf[comes]])
    step = np.concatenate([stop[is_left], start[comes]]) - 1
    is_reached = np.repeat([False, True], [is_left.sum(), comes.sum()])
    tree = model.tree[leaf]
    sign = np.where(is_reached, 1, -1)
    order = np.lexsort((sign * gain[leaf], sign, step, tree))
    leaf, step, tree, sign = leaf[order], step[order], tree[order], sign[order]
    is_new = np.ones(len(leaf), dtype=bool)
    is_new[1:] = (tree[1:] != tree[:-1]) | (step[1:] != step[:-1])
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(leaf))
    n_left = np.add.reduceat(sign < 0, first, dtype=np.int64) if len(first) else first
    group_tree = tree[first]
    # Leaves that hold the place before the step: those at the first place, and what changed since.
    at_first = np.bincount(model.tree[_holding_first(model, runs)], minlength=model.n_trees)
    change = np.concatenate([[0], np.cumsum(sign)])
    begins = np.searchsorted(group_tree, group_tree)
    holding = at_first[group_tree] + change[first] - change[first[begins]]
    n_partners = np.diff(model.boxes.entry_ptr)[leaf] - 1
    most_partners = np.maximum.reduceat(n_partners, first) if len(first) else first
    return TreeSteps(
        model,
        runs,
        gain,
        leaf,
        sign > 0,
        step[first],
        first,
        first + n_left,
        last,
        holding == n_left,
        most_partners <= 1,
    )


def _holding_first(model: ModelLeaves, runs: LeafRuns) -> Indices:
    """Return the leaves that a cell at the first place reaches."""
    tests = np.zeros(len(model.tree), dtype=bool)
    tests[model.owner[model.boxes.entry_feature == runs.feature]] = True
    return np.concatenate([np.flatnonzero(model.reached & ~tests), runs.leaf[runs.start == 0]])
