"""The leaves of an ensemble whose features are independent, and those of one output by feature."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.conditional import Margins, feature_margins
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes, members_of
from treepurify.engines.common.explained import count_in_cells
from treepurify.grids.grid import Grid, Subset, make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.typing import Array, Integers
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import RowsOnGrid


class OutputLeaves(NamedTuple):
    """The leaves of one output, by leaf and by feature.

    Leaves that test the same features follow each other. Equal intervals of a feature have one
    number, and the numbers of a feature follow each other.

    Parameters
    ----------
    values, amplitude : ndarray of float64, shape (n_leaves,)
        The values, and these times the probability of the box.
    leaf_ptr, leaf_feature, leaf_interval : ndarray of int64
        Features and intervals of each leaf.
    feature_ptr, feature_leaf, feature_interval : ndarray of int64
        Leaves that test each feature, in order, and their intervals.
    interval_ptr : ndarray of int64
        Intervals of each feature.
    probability : ndarray of float64
        Probability of each interval.
    run_ptr, low, high : ndarray
        Runs of each interval, between two cumulative probabilities of the feature.
    """

    values: Array
    amplitude: Array
    leaf_ptr: Integers
    leaf_feature: Integers
    leaf_interval: Integers
    feature_ptr: Integers
    feature_leaf: Integers
    feature_interval: Integers
    interval_ptr: Integers
    probability: Array
    run_ptr: Integers
    low: Array
    high: Array


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
    def cumulative(self) -> Margins:
        """The margins, summed up."""
        nothing = np.zeros(0)
        return Margins.of([self.margins.get(j, nothing) for j in range(self.grid.n_features)])

    @cached_property
    def probability(self) -> Array:
        """The probability of each entry of the boxes."""
        return self.cumulative.of_runs(self.boxes.runs)

    @cached_property
    def mass(self) -> Array:
        """The probability of each box."""
        mass, entry_ptr = (self.boxes.leaf_subset >= 0).astype(np.float64), self.boxes.entry_ptr
        tests = np.flatnonzero(np.diff(entry_ptr))
        mass[tests] *= np.multiply.reduceat(self.probability, entry_ptr[tests])
        return mass

    @property
    def mean(self) -> Array:
        """The expectation of the sum of all trees, shape (n_outputs,)."""
        return self.boxes.weighted_sum(self.mass, self.n_outputs)

    def of_output(self, output: int, only: Subset | None = None) -> OutputLeaves:
        """Return the leaves of an output that contribute where there is mass.

        With `only`, those that test some features, and their conditions along these, by position.
        """
        boxes = self.boxes
        scalar = np.where(boxes.output == output, boxes.values[:, 0], 0.0)
        vector = boxes.values[:, output % boxes.values.shape[1]]
        values = np.where(boxes.output >= 0, scalar, vector)
        amplitude = values * self.mass
        contributes = (amplitude != 0) & (np.diff(boxes.entry_ptr) > 0)
        leaves = np.arange(len(values)) if only is None else boxes.leaves_with(only)
        leaves = leaves[contributes[leaves]]
        leaves = leaves[np.argsort(boxes.leaf_subset[leaves], kind="stable")]
        entries, leaf = members_of(boxes.entry_ptr, leaves)
        if only is not None:
            kept = np.isin(boxes.entry_feature[entries], only)
            entries, leaf = entries[kept], leaf[kept]
        feature = boxes.entry_feature[entries].astype(np.int64)
        first, interval = self._intervals(entries, feature)
        runs, of_interval = members_of(boxes.run_ptr, entries[first])
        feature_of_run = feature[first][of_interval]
        if only is not None:
            feature = np.searchsorted(only, feature)
        by_feature = np.argsort(feature, kind="stable")
        features = np.arange((self.grid.n_features if only is None else len(only)) + 1)
        return OutputLeaves(
            values=values[leaves],
            amplitude=amplitude[leaves],
            leaf_ptr=np.searchsorted(leaf, np.arange(len(leaves) + 1)),
            leaf_feature=feature,
            leaf_interval=interval,
            feature_ptr=np.searchsorted(feature[by_feature], features),
            feature_leaf=leaf[by_feature],
            feature_interval=interval[by_feature],
            interval_ptr=np.searchsorted(feature[first], features),
            probability=self.probability[entries[first]],
            run_ptr=np.searchsorted(of_interval, np.arange(len(first) + 1)),
            low=self.cumulative.before(feature_of_run, boxes.run_start[runs]),
            high=self.cumulative.before(feature_of_run, boxes.run_stop[runs]),
        )

    def _intervals(self, entries: Integers, feature: Integers) -> tuple[Integers, Integers]:
        """Return where each interval occurs first, by feature, and the interval of each entry."""
        boxes, n_ends = self.boxes, max((axis.n_cells for axis in self.grid.axes), default=0) + 1
        run = boxes.run_ptr[entries]
        is_single = boxes.run_ptr[entries + 1] - run == 1
        ends = boxes.run_start[run] * np.int64(n_ends) + boxes.run_stop[run]
        # What has several runs is not compared.
        number = np.where(is_single, ends, n_ends**2 + np.arange(len(entries)))
        number += feature * (n_ends**2 + len(entries))
        _, first, interval = np.unique(number, return_index=True, return_inverse=True)
        return first, interval.reshape(-1)


def independent_leaves(
    ensemble: TreeEnsemble,
    stream: RowStream | None,
    weighting: Weighting,
    report: ProgressReport,
) -> IndependentLeaves:
    """Return the leaves of an ensemble on the grid of its own cuts, under rows read in one pass."""
    features, cuts = ensemble.features, ensemble_cuts(ensemble)
    match_names = ensemble.has_feature_names
    rows: RowsOnGrid | None = None
    whole = None if stream is None else stream.whole
    if stream is not None and whole is None:
        wide, _ = make_grid(None, features, cuts, match_names=match_names, missing_cells="always")
        tables = [(wide, [(j,) for j in ensemble.used_features])]
        (rows,) = count_in_cells(stream, tables, report, keep_special=False)
        grid = rows.grid
    else:
        columns = None if whole is None else whole.columns
        grid, encoded = make_grid(columns, features, cuts, match_names=match_names)
        if whole is not None and encoded is not None:
            rows = replace(encoded, weights=whole.weights)
    boxes = leaf_boxes(ensemble, grid)
    margins = feature_margins(boxes, weighting, grid, rows)
    return IndependentLeaves(boxes, grid, margins, ensemble.n_outputs)
