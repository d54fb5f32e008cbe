"""Conditional expectations of an ensemble under independent features, in closed form."""

from collections.abc import Collection, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import add_conditional_corners
from treepurify.budget import check_budget
from treepurify.effects.accumulate import difference_tables, table_sizes
from treepurify.effects.leaf_boxes import LeafBoxes, Runs
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Cells, Indices, Integers
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import RowsOnGrid

# Choices of features that are made at a time.
_CHOICES_AT_A_TIME = 1 << 18


class Margins(NamedTuple):
    """Cumulative probabilities of the cells of each feature: 0, and on to the end of each cell."""

    start: Integers
    cumulative: Array

    @staticmethod
    def of(masses: Sequence[Array]) -> "Margins":
        """Return those of the masses of the cells of each feature."""
        start = np.cumsum([0, *(len(mass) + 1 for mass in masses)]).astype(np.int64)
        parts = [part for mass in masses for part in ([0.0], np.cumsum(mass))]
        return Margins(start, np.concatenate([np.zeros(0), *parts]))

    def of_feature(self, feature: int) -> Array:
        """Return those of one feature."""
        return self.cumulative[self.start[feature] : self.start[feature + 1]]

    def before(self, feature: Cells, cell: Cells) -> Array:
        """Return the probability of the cells before some cells, each of one feature."""
        place: Integers = self.start[feature] + cell
        return self.cumulative[place]

    def of_runs(self, runs: Runs) -> Array:
        """Return the probability of sets of cells, each of one feature."""
        there = slice(runs.ptr[0], runs.ptr[-1])
        owner = np.repeat(np.arange(len(runs.feature)), np.diff(runs.ptr))
        own = runs.feature[owner]
        masses = self.before(own, runs.stop[there]) - self.before(own, runs.start[there])
        return np.asarray(np.bincount(owner, masses, len(runs.feature)), dtype=np.float64)


def feature_margins(
    boxes: LeafBoxes, weighting: Weighting, grid: Grid, rows: RowsOnGrid | None
) -> dict[int, Array]:
    """Return the mass of the cells of each feature that restricts a leaf."""
    tables = weighting.tables(grid, rows, [(j,) for j in boxes.features])
    return {j: tables[(j,)] for j in boxes.features}


def occurring_subsets(boxes: LeafBoxes, size: int, n_features: int) -> list[Subset]:
    """Return the subsets of `size` features that are tested together on some path, in order."""
    base = n_features + 1
    if base**size >= 2**62:
        raise MemoryBudgetError(
            f"there are too many sets of {size} out of {n_features} features; pass a smaller order"
        )
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    keys = np.unique(subset_keys(boxes.entry_ptr, boxes.entry_feature, leaves, size, base))
    digits = keys // base ** np.arange(size, dtype=np.int64)[::-1, None] % base
    return list(zip(*digits.tolist(), strict=True))


def conditional_tensors(
    boxes: LeafBoxes,
    probability: Array,
    grid: Grid,
    subsets: Collection[Subset],
    n_outputs: int,
    memory_budget: int,
) -> dict[Subset, Array]:
    """Return, for every subset, what its leaves say given these features; all are of one size.

    The tensor of S sums, over the leaves whose path tests all of S, the value times the
    indicator of the leaf's box along S times the probability of the box along the path's
    other features. Centred along each axis, it is the ANOVA component of S: leaves that do
    not test all of S contribute functions of fewer features, which centring removes.

    Raises
    ------
    MemoryBudgetError
        If the tensors would not fit.
    """
    if not subsets:
        return {}
    ordered, base = sorted(subsets), grid.n_features + 1
    size = len(ordered[0])
    shapes = [grid.shape(subset) for subset in ordered]
    check_budget(
        8 * sum(table_sizes(shapes, n_outputs)),
        memory_budget,
        f"the tables of {len(ordered)} effects of {size} features with all split points",
        "Pass a smaller order, or name the interactions that you need.",
    )
    tables = difference_tables(shapes, n_outputs)
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    entries = boxes.entry_ptr, boxes.entry_feature, probability, *boxes.runs[:3]
    keys = np.array(ordered, dtype=np.int64) @ base ** np.arange(size, dtype=np.int64)[::-1]
    groups = keys, tables.offsets, tables.extents
    values = boxes.values, boxes.output, tables.values
    add_conditional_corners(leaves, size, base, *entries, *groups, *values)
    return dict(zip(ordered, tables.summed(), strict=True))


def subset_keys(
    entry_ptr: Integers,
    entry_feature: npt.NDArray[np.signedinteger[Any]],
    leaves: Indices,
    size: int,
    base: int,
) -> Integers:
    """Return the keys of all choices of `size` features of each leaf, leaf after leaf.

    The features are the digits of a key to the base `base`. Leaves that test the same features
    have the same keys.
    """
    first, n_features = entry_ptr[leaves], np.diff(entry_ptr)[leaves]
    n_choices = np.array([comb(n, size) for n in range(n_features.max(initial=0) + 1)])[n_features]
    ends = np.cumsum(n_choices)
    keys = np.empty(ends[-1] if len(ends) else 0, dtype=np.int64)
    for n in np.unique(n_features[n_features >= size]).tolist():
        choices = np.array(list(combinations(range(n), size)), dtype=np.int64)
        alike = np.flatnonzero(n_features == n)
        step = max(_CHOICES_AT_A_TIME // len(choices), 1)
        for some in np.split(alike, range(step, len(alike), step)):
            chosen = entry_feature[first[some, None, None] + choices].astype(np.int64)
            places = (ends - n_choices)[some, None] + np.arange(len(choices))
            keys[places] = chosen @ base ** np.arange(size - 1, -1, -1)
    return keys
