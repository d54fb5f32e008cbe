"""The leaves of one output of an ensemble, with the intervals that their paths test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.conditional import entry_probabilities, feature_margins, run_masses
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.engines.common.all_rows import count_in_cells
from treepurify.grids.grid import Grid, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.typing import Array, Integers
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import RowsOnGrid

__all__ = [
    "IndependentLeaves",
    "OutputLeaves",
    "independent_leaves",
    "output_values",
]


@dataclass(frozen=True, eq=False)
class IndependentLeaves:
    """The leaves of an ensemble on a grid whose features are independent.

    Parameters
    ----------
    boxes : LeafBoxes
        The leaves.
    grid : Grid
        The cells.
    margins : mapping of int to ndarray
        Mass of the cells of each feature that a path tests.
    n_outputs : int
        Outputs of the ensemble.
    """

    boxes: LeafBoxes
    grid: Grid
    margins: Mapping[int, Array]
    n_outputs: int

    @property
    def depth(self) -> int:
        """Most features on a path, at least 1."""
        return max((len(subset) for subset in self.boxes.subsets), default=1) or 1

    @cached_property
    def outputs(self) -> list["OutputLeaves"]:
        """The leaves of each output that contribute where there is mass."""
        conditions = _Conditions(
            self.grid.n_features,
            entry_probabilities(self.boxes, self.margins, self.grid),
            *run_masses(self.boxes, self.margins, self.grid),
        )
        values = output_values(self.boxes, self.n_outputs)
        return [_output_leaves(self.boxes, conditions, values[:, k]) for k in range(self.n_outputs)]


@dataclass(frozen=True, eq=False)
class _Conditions:
    """The probability of each entry of leaf boxes.

    `low` and `high` are the cumulative probabilities of a feature where each run starts and stops.
    """

    n_features: int
    probability: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class OutputLeaves:
    """The leaves of one output, by leaf and by feature.

    Leaves that test the same features follow each other. Equal intervals of a feature have one
    number, and the numbers of a feature follow each other.

    Parameters
    ----------
    leaves : ndarray of int64, shape (n_leaves,)
        Their positions among all leaves.
    values, amplitude : ndarray of float64, shape (n_leaves,)
        The values, and these times the probability of the box.
    leaf_ptr, leaf_feature, leaf_interval : ndarray of int64
        Features and intervals of each leaf.
    feature_ptr, feature_leaf, feature_interval : ndarray of int64
        Leaves that test each feature, in order, and their intervals.
    interval_ptr, interval_leaf : ndarray of int64
        Intervals of each feature, in the order of the leaves that test them first.
    interval_probability : ndarray of float64
        Their probabilities.
    run_ptr, low, high : ndarray
        Runs of each interval, between two cumulative probabilities of the feature.
    """

    leaves: Integers
    values: Array
    amplitude: Array
    leaf_ptr: Integers
    leaf_feature: Integers
    leaf_interval: Integers
    feature_ptr: Integers
    feature_leaf: Integers
    feature_interval: Integers
    interval_ptr: Integers
    interval_leaf: Integers
    interval_probability: Array
    run_ptr: Integers
    low: Array
    high: Array

    @property
    def features(self) -> Integers:
        """The features that the leaves test."""
        return np.flatnonzero(np.diff(self.feature_ptr))


def independent_leaves(
    ensemble: TreeEnsemble,
    stream: RowStream | None,
    weighting: Weighting,
    report: ProgressReport,
) -> IndependentLeaves:
    """Return the leaves of an ensemble on the grid of its own cuts, under rows read in one pass.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The ensemble.
    stream : RowStream, optional
        The rows that represent the distribution.
    weighting : Weighting
        The measure, under which features are independent.
    report : callable
        Progress.
    """
    grid, rows = _in_cells(ensemble, stream, weighting, report)
    boxes = leaf_boxes(ensemble, grid)
    margins = feature_margins(boxes, weighting, grid, rows)
    return IndependentLeaves(boxes, grid, margins, ensemble.n_outputs)


def _in_cells(
    ensemble: TreeEnsemble,
    stream: RowStream | None,
    weighting: Weighting,
    report: ProgressReport,
) -> tuple[Grid, RowsOnGrid | None]:
    """Return the grid of the cuts, and how many rows lie in the cells of each feature."""
    features, cuts = ensemble.features, ensemble_cuts(ensemble)
    match_names = ensemble.has_feature_names
    if stream is None:
        return make_grid(None, features, cuts, match_names=match_names)
    if stream.is_table and weighting.needs_rows and not weighting.counts_are_enough:
        # A measure of a user's own may look at the rows one by one.
        (rows,) = stream.batches()
        grid, encoded = make_grid(rows.columns, features, cuts, match_names=match_names)
        return grid, None if encoded is None else replace(encoded, weights=rows.weights)
    wide, _ = make_grid(None, features, cuts, match_names=match_names, missing_cells="always")
    tables = [(wide, [(j,) for j in ensemble.used_features])]
    (counted,) = count_in_cells(stream, tables, report, keep_special=False)
    return counted.grid, counted


def _output_leaves(boxes: LeafBoxes, conditions: _Conditions, values: Array) -> OutputLeaves:
    """Return the leaves of an output whose value and probability are not zero."""
    sizes = np.diff(boxes.entry_ptr)
    tests = np.flatnonzero(sizes > 0)
    product = np.ones(len(sizes))
    if len(tests):
        product[tests] = np.multiply.reduceat(conditions.probability, boxes.entry_ptr[tests])
    amplitude = values * product
    leaves = tests[(amplitude[tests] != 0) & (boxes.leaf_subset[tests] >= 0)]
    leaves = leaves[np.argsort(boxes.leaf_subset[leaves], kind="stable")]
    entries, leaf_ptr = _spread(boxes.entry_ptr, leaves)
    feature = boxes.entry_feature[entries].astype(np.int64)
    first, interval = _intervals(boxes, conditions, entries, feature)
    leaf = np.repeat(np.arange(len(leaves)), np.diff(leaf_ptr))
    runs, run_ptr = _spread(boxes.run_ptr, entries[first])
    by_feature = np.argsort(feature, kind="stable")
    numbers = np.arange(conditions.n_features + 1)
    return OutputLeaves(
        leaves=leaves.astype(np.int64),
        values=np.ascontiguousarray(values[leaves]),
        amplitude=amplitude[leaves],
        leaf_ptr=leaf_ptr,
        leaf_feature=feature,
        leaf_interval=interval,
        feature_ptr=np.searchsorted(feature[by_feature], numbers).astype(np.int64),
        feature_leaf=leaf[by_feature],
        feature_interval=interval[by_feature],
        interval_ptr=np.searchsorted(feature[first], numbers).astype(np.int64),
        interval_leaf=leaf[first],
        interval_probability=conditions.probability[entries[first]],
        run_ptr=run_ptr,
        low=conditions.low[runs],
        high=conditions.high[runs],
    )


def _spread(ptr: Integers, chosen: Integers) -> tuple[Integers, Integers]:
    """Return the members of the chosen groups, one group after the other, and where each starts."""
    sizes = ptr[chosen + 1] - ptr[chosen]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.repeat(ptr[chosen] - starts[:-1], sizes) + np.arange(starts[-1]), starts


def _intervals(
    boxes: LeafBoxes, conditions: _Conditions, entries: Integers, feature: Integers
) -> tuple[Integers, Integers]:
    """Number equal intervals; those of several runs have a number each.

    Returns
    -------
    first : ndarray of int64, shape (n_intervals,)
        Where in `entries` each interval occurs first, by feature and then in order.
    interval : ndarray of int64, shape (n_entries,)
        Interval of each entry.
    """
    run = boxes.run_ptr[entries]
    single = boxes.run_ptr[entries + 1] - run == 1
    low = np.where(single, conditions.low[run], -1.0)
    high = np.where(single, conditions.high[run], np.arange(len(entries)))
    order = np.lexsort((high, low, feature))
    keys = np.stack([feature[order], low[order], high[order]])
    is_new = np.append(True, np.any(keys[:, 1:] != keys[:, :-1], axis=0))[: len(order)]
    first = order[is_new]
    by_leaf = np.lexsort((first, feature[first]))
    rank = np.empty_like(by_leaf)
    rank[by_leaf] = np.arange(len(by_leaf))
    interval = np.empty(len(entries), dtype=np.int64)
    interval[order] = rank[np.cumsum(is_new) - 1]
    return first[by_leaf], interval


def output_values(boxes: LeafBoxes, n_outputs: int) -> Array:
    """Return the leaf values as one column for each output."""
    if boxes.values.shape[1] == n_outputs and np.all(boxes.output < 0):
        return boxes.values
    values = np.zeros((len(boxes.values), n_outputs))
    scalar = boxes.output >= 0
    values[scalar, boxes.output[scalar]] = boxes.values[scalar, 0]
    values[~scalar] = boxes.values[~scalar]
    return values
