"""Conditional expectations of an ensemble under independent features, in closed form."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import add_conditional_corners
from treepurify.budget import check_budget
from treepurify.effects.accumulate import difference_tables, table_sizes
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array, Indices, Integers
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import RowsOnGrid

__all__ = [
    "conditional_tensors",
    "cumulative_margins",
    "entry_probabilities",
    "feature_margins",
    "margin_tables",
    "occurring_subsets",
    "run_masses",
    "run_probabilities",
    "subset_keys",
]

# Choices of features that are made at a time.
_CHOICES_AT_A_TIME = 1 << 18


def feature_margins(
    boxes: LeafBoxes, weighting: Weighting, grid: Grid, rows: RowsOnGrid | None
) -> dict[int, Array]:
    """Return the mass of the cells of each feature that restricts a leaf."""
    tables = weighting.tables(grid, rows, [(j,) for j in boxes.features])
    return {j: tables[(j,)] for j in boxes.features}


def margin_tables(margins: Mapping[int, Array], grid: Grid) -> tuple[Integers, Array]:
    """Return the cumulative margins of all features, one after the other, and their starts."""
    nothing = np.zeros(0)
    return cumulative_margins([margins.get(j, nothing) for j in range(grid.n_features)])


def cumulative_margins(margins: Sequence[Array]) -> tuple[Integers, Array]:
    """Return cumulative margins, each from zero on, one after the other, and their starts."""
    starts = np.cumsum([0, *(len(margin) + 1 for margin in margins)]).astype(np.int64)
    cumulative = [part for margin in margins for part in ([0.0], np.cumsum(margin))]
    return starts, np.concatenate([np.zeros(0), *cumulative])


def entry_probabilities(boxes: LeafBoxes, margins: Mapping[int, Array], grid: Grid) -> Array:
    """Return the probability of each entry of `boxes` under its feature's margin."""
    runs = boxes.run_ptr, boxes.run_start, boxes.run_stop
    return run_probabilities(boxes.entry_feature, *runs, *margin_tables(margins, grid))


def run_probabilities(
    feature: npt.NDArray[np.signedinteger[Any]],
    run_ptr: Integers,
    run_start: npt.NDArray[np.integer[Any]],
    run_stop: npt.NDArray[np.integer[Any]],
    starts: Integers,
    cumulative: Array,
) -> Array:
    """Return the probability of some sets of cells, each of one feature and given as runs.

    `starts` and `cumulative` are those of `cumulative_margins`.
    """
    runs = slice(run_ptr[0], run_ptr[-1])
    owner = np.repeat(np.arange(len(feature)), np.diff(run_ptr))
    ends = run_start[runs], run_stop[runs]
    first, last = _cumulative_at_ends(feature[owner], *ends, starts, cumulative)
    return np.asarray(np.bincount(owner, last - first, len(feature)), dtype=np.float64)


def run_masses(boxes: LeafBoxes, margins: Mapping[int, Array], grid: Grid) -> tuple[Array, Array]:
    """Return the cumulative probabilities at the start and at the stop of every run."""
    feature = np.repeat(boxes.entry_feature, np.diff(boxes.run_ptr))
    ends = boxes.run_start, boxes.run_stop
    return _cumulative_at_ends(feature, *ends, *margin_tables(margins, grid))


def _cumulative_at_ends(
    feature: npt.NDArray[np.signedinteger[Any]],
    run_start: npt.NDArray[np.integer[Any]],
    run_stop: npt.NDArray[np.integer[Any]],
    starts: Integers,
    cumulative: Array,
) -> tuple[Array, Array]:
    """Return the cumulative margin at both ends of runs, each of one feature."""
    base = starts[feature]
    return cumulative[base + run_start], cumulative[base + run_stop]


def occurring_subsets(boxes: LeafBoxes, size: int, n_features: int) -> list[Subset]:
    """Return the subsets of `size` features that are tested together on some path, in order."""
    return _numbered_subsets(boxes, size, n_features)[1]


def _numbered_subsets(
    boxes: LeafBoxes, size: int, n_features: int, only: Collection[Subset] | None = None
) -> tuple[Integers, list[Subset]]:
    """Return the keys by which kernels find these subsets, or those in `only`, and the subsets."""
    keys = _keys(boxes, size, n_features)
    places = (n_features + 1) ** np.arange(size, dtype=np.int64)[::-1]
    subsets = list(zip(*(keys // places[:, None] % (n_features + 1)).tolist(), strict=True))
    if only is None:
        return keys, subsets
    wanted = np.array([subset in only for subset in subsets], dtype=bool)
    return keys[wanted], [subset for subset in subsets if subset in only]


def conditional_tensors(
    boxes: LeafBoxes,
    probability: Array,
    grid: Grid,
    size: int,
    n_outputs: int,
    memory_budget: int,
    only: Collection[Subset] | None = None,
) -> dict[Subset, Array]:
    """Return, for every subset of `size` features, what its leaves say given these features.

    The tensor of S sums, over the leaves whose path tests all of S, the value times the
    indicator of the leaf's box along S times the probability of the box along the path's
    other features. Centred along each axis, it is the ANOVA component of S: leaves that do
    not test all of S contribute functions of fewer features, which centring removes.

    Raises
    ------
    MemoryBudgetError
        If the tensors would not fit.
    """
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    keys, subsets = _numbered_subsets(boxes, size, grid.n_features, only)
    shapes = [grid.shape(subset) for subset in subsets]
    check_budget(
        8 * sum(table_sizes(shapes, n_outputs)),
        memory_budget,
        f"the tables of {len(subsets)} effects of {size} features with all split points",
        "Pass a smaller order, or name the interactions that you need.",
    )
    tables = difference_tables(shapes, n_outputs)
    add_conditional_corners(
        leaves,
        size,
        grid.n_features + 1,
        boxes.entry_ptr,
        boxes.entry_feature,
        probability,
        boxes.run_ptr,
        boxes.run_start,
        boxes.run_stop,
        keys,
        tables.offsets,
        tables.extents,
        boxes.values,
        boxes.output,
        tables.values,
    )
    return dict(zip(subsets, tables.summed(), strict=True))


def _keys(boxes: LeafBoxes, size: int, n_features: int) -> Integers:
    base = n_features + 1
    if base**size >= 2**62:
        raise MemoryBudgetError(
            f"there are too many sets of {size} out of {n_features} features; pass a smaller order"
        )
    leaves = np.flatnonzero(boxes.leaf_subset >= 0)
    keys = subset_keys(boxes.entry_ptr, boxes.entry_feature, leaves, size, base)
    return np.unique(keys)


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
