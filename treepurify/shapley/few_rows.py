"""Shapley values of twigs where rows are few: no tables, each row goes to the leaves itself."""

from enum import IntEnum
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from treepurify._kernels.background_counts import count_background
from treepurify._kernels.background_walk import walk_background, write_visits
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.shapley.twigs import Twigs, leaf_weights
from treepurify.threads import RESULTS_AHEAD, available_threads, even_length, iterate_threads
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = ["Way", "add_few_rows", "bytes_of_walk", "choose_ways"]

# Longer paths have no table: one of 2**12 states already takes as long as a thousand short ones.
TABLE_BITS = 12
_ROWS_A_BLOCK = 64
# Enough for all threads where the rows are one block.
_PARTS_OF_TREES = 16
# Longer lists take more memory, and are not quicker.
_BACKGROUND_A_BLOCK = 8192
# The number of a background row, and the features that it fails.
_BYTES_A_MEMBER = 12
# Measured on forests and boosted trees, in visits of a node by a pair of rows, of five nanoseconds.
_STEPS_AN_ENTRY = 0.6
_STEPS_A_MEMBER = 0.25
_STEPS_A_ROW = 10.0
_STEPS_A_PATTERN = 0.5


class Way(IntEnum):
    """How the Shapley values of a twig's leaves are computed."""

    # Tables of the values of all states, in which rows are looked up.
    TABLES = 0
    # Each row meets the background rows of a leaf, counted by what they fail.
    COUNTS = 1
    # Each row walks down with those background rows that can reach a leaf with it.
    WALKS = 2


def choose_ways(ensemble: TreeEnsemble, twigs: Twigs, n_rows: int, n_background: int) -> Integers:
    """Return the `Way` of each twig, shape (n_twigs,).

    Rows walk where paths are too long to count patterns. The other leaves of a tree go the way
    that takes least time for that many rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    n_rows, n_background : int
        Number of rows to explain, and of background rows.
    """
    bits = twigs.n_bits[twigs.roots] + np.diff(twigs.test_ptr)[twigs.roots]
    walks = bits > TABLE_BITS
    n_leaves = np.diff(twigs.leaf_ptr)
    is_short = np.repeat(~walks, n_leaves)
    width = np.minimum(twigs.n_bits[twigs.leaf_node], TABLE_BITS)
    # Sums over supersets, and the leaf's value in every state of the twig.
    entries = (width**2 << width) + (width << np.repeat(np.minimum(bits, TABLE_BITS), n_leaves))
    tabled = _STEPS_AN_ENTRY * entries + _STEPS_A_MEMBER * (n_rows + n_background)
    # Each feature that a row passes doubles the patterns, and it passes half of them.
    met = n_rows * (_STEPS_A_ROW + _STEPS_A_PATTERN * 1.5**width)
    counted = met + _STEPS_A_MEMBER * n_background
    of_twig = np.searchsorted(ensemble.tree_ptr, twigs.roots, side="right") - 1
    of_leaf = np.repeat(of_twig, n_leaves)
    all_visits, long_visits = (
        _visits(ensemble, wanted)[ensemble.tree_ptr[:-1]]
        for wanted in (ensemble.feature < 0, _leaves_of(twigs, walks))
    )
    steps = (
        np.bincount(of_leaf, weights=tabled * is_short, minlength=ensemble.n_trees),
        np.bincount(of_leaf, weights=counted * is_short, minlength=ensemble.n_trees),
        n_rows * n_background * (all_visits - long_visits),
    )
    return np.where(walks, Way.WALKS, np.argmin(steps, axis=0)[of_twig])


def _leaves_of(twigs: Twigs, chosen: Mask) -> Mask:
    """Return which nodes are leaves of the chosen twigs."""
    is_leaf = np.zeros(len(twigs.parent), dtype=np.bool_)
    is_leaf[twigs.leaf_node[np.repeat(chosen, np.diff(twigs.leaf_ptr))]] = True
    return is_leaf


def bytes_of_walk(
    ensemble: TreeEnsemble, ways: Integers, n_rows: int, n_background: int, n_players: int
) -> int:
    """Return the bytes of the lists of all threads, and of values that wait to be added."""
    if np.all(ways == Way.TABLES):
        return 0
    # Counts need less than walks.
    members = min(n_background, _BACKGROUND_A_BLOCK) * (ensemble.depth + 1)
    waiting = (RESULTS_AHEAD + 1) * 8 * ensemble.n_outputs * n_players * min(n_rows, _ROWS_A_BLOCK)
    return (_BYTES_A_MEMBER * members + waiting) * available_threads()


def add_few_rows(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    ways: Integers,
    values: Array,
    background: Array,
    weights: Array,
    phi: Array,
    report: ProgressReport,
) -> None:
    """Add the Shapley values of the twigs that have no tables to ``phi``.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    ways : ndarray of int64, shape (n_twigs,)
        From `choose_ways`.
    values, background : ndarray of float64, shape (n_features, n_rows)
        The rows to explain and those that stand for the distribution, feature by feature.
    weights : ndarray of float64, shape (n_background,)
        Weight of each background row.
    phi : ndarray of float64, shape (n_outputs, n_players, n_rows)
        Added to.
    report : callable
        Progress.
    """
    add = partial(
        _add_way, ensemble, twigs, values, background, np.atleast_2d(weights), phi, report
    )
    add(count_background, CountWorkspace.of, _leaves_of(twigs, ways == Way.COUNTS))
    add(walk_background, WalkWorkspace.of, _leaves_of(twigs, ways == Way.WALKS))


def _visits(ensemble: TreeEnsemble, wanted: Mask) -> Array:
    visits = wanted.astype(np.float64)
    write_visits(ensemble.left, ensemble.right, visits)
    return visits


class _Sizes(NamedTuple):
    """What a workspace is for: trees of a height, paths of at most `width` features, and rows."""

    height: int
    width: int
    n_rows: int
    n_background: int


class CountWorkspace(NamedTuple):
    """Workspace of `count_background`.

    Parameters
    ----------
    row_failed, failed : ndarray of uint16, shape (height + 1, 2, n_rows) or (..., n_background)
        Which features rows and background rows fail on their way to both children of the nodes
        on the way to the one at hand.
    waiting : ndarray of int64, shape (3, height + 1)
        Nodes that are to be visited, with their depths and sides.
    player_of_bit : ndarray of int64, shape (64,)
        The player of each feature of the path.
    counts : ndarray of float64, shape (2**width,)
        Zeros: the weight of the background by pattern.
    shares : ndarray of float64, shape (2**width,)
        Weights of patterns that are listed.
    patterns : ndarray of uint64, shape (2**width,)
        These patterns.
    sums : ndarray of float64, shape (64,)
        What a leaf adds for each feature of its path.
    """

    row_failed: Integers
    failed: Integers
    waiting: Indices
    player_of_bit: Indices
    counts: Array
    shares: Array
    patterns: Integers
    sums: Array

    @classmethod
    def of(cls, sizes: _Sizes) -> Self:
        """Return one for trees and rows of at most these sizes."""
        levels, patterns = sizes.height + 1, 1 << sizes.width
        return cls(
            np.empty((levels, 2, sizes.n_rows), dtype=np.uint16),
            np.empty((levels, 2, sizes.n_background), dtype=np.uint16),
            np.empty((3, levels), dtype=np.intp),
            np.empty(64, dtype=np.intp),
            np.zeros(patterns),
            np.empty(patterns),
            np.empty(patterns, dtype=np.uint64),
            np.empty(64),
        )


class WalkWorkspace(NamedTuple):
    """Workspace of `walk_background`.

    Parameters
    ----------
    member : ndarray of int32, shape (n_background * (height + 1),)
        Background rows: segments of the list, one per node that is to be visited, the next one
        last.
    failed : ndarray of uint64, shape (n_background * (height + 1),)
        Which features each of them fails.
    shares : ndarray of float64, shape (n_background,)
        Their weights at a leaf.
    goes_left : ndarray of bool, shape (n_background,)
        Where they go at a test.
    waiting : ndarray of int64, shape (3, height + 1)
        Nodes that are to be visited, and where their segments begin and end.
    row_failed : ndarray of uint64, shape (height + 1,)
        Which features the row fails at each of them.
    player_of_bit : ndarray of int64, shape (64,)
        The player of each feature of the path.
    sums : ndarray of float64, shape (64,)
        What a leaf adds for each feature of its path.
    """

    member: Integers
    failed: Integers
    shares: Array
    goes_left: Mask
    waiting: Indices
    row_failed: Integers
    player_of_bit: Indices
    sums: Array

    @classmethod
    def of(cls, sizes: _Sizes) -> Self:
        """Return one for trees and background rows of at most these sizes."""
        levels, members = sizes.height + 1, sizes.n_background
        return cls(
            np.empty(members * levels, dtype=np.int32),
            np.empty(members * levels, dtype=np.uint64),
            np.empty(members),
            np.empty(members, dtype=np.bool_),
            np.empty((3, levels), dtype=np.intp),
            np.empty(levels, dtype=np.uint64),
            np.empty(64, dtype=np.intp),
            np.empty(64),
        )


def _add_way(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    values: Array,
    background: Array,
    weights: Array,
    phi: Array,
    report: ProgressReport,
    add_tree: Any,
    workspace_of: Any,
    is_leaf: Mask,
) -> None:
    """Add the Shapley values of some leaves, by the kernel of their way."""
    is_wanted = _visits(ensemble, is_leaf) > 0.0
    trees = np.flatnonzero(is_wanted[ensemble.tree_ptr[:-1]])
    height = ensemble.depth
    gains, losses = leaf_weights(int(twigs.n_bits[is_leaf].max(initial=0)))
    backgrounds = [
        (np.ascontiguousarray(background[:, some]), weights[:, some])
        for some in _blocks(weights.shape[1], _BACKGROUND_A_BLOCK)
    ]
    longest = max((members.shape[1] for members, _ in backgrounds), default=0)

    def values_of(task: tuple[slice, Integers]) -> Array:
        block, some = task
        block_values = np.ascontiguousarray(values[:, block])
        part = np.zeros((*phi.shape[:2], block_values.shape[1]))
        workspace = workspace_of(_Sizes(height, len(gains) - 1, block_values.shape[1], longest))
        for tree in some:
            for part_of_background, part_weights in backgrounds:
                add_tree(
                    ensemble.tree_ptr[tree],
                    height,
                    block_values,
                    part_of_background,
                    np.ascontiguousarray(part_weights),
                    is_wanted,
                    ensemble.feature,
                    twigs.player,
                    ensemble.cut,
                    ensemble.left,
                    ensemble.right,
                    ensemble.missing_left,
                    ensemble.category_ptr,
                    ensemble.category_left,
                    twigs.bit,
                    twigs.n_bits,
                    ensemble.value,
                    max(ensemble.tree_output[tree], 0),
                    gains,
                    losses,
                    workspace,
                    part,
                )
        return part

    some_trees = np.array_split(trees, min(_PARTS_OF_TREES, len(trees))) if len(trees) else []
    tasks = list(product(_blocks(values.shape[1], _ROWS_A_BLOCK), some_trees))
    found = zip(tasks, iterate_threads(values_of, tasks), strict=True)
    for done, ((block, _), part) in enumerate(found):
        report("Shapley values of trees", done, len(tasks))
        phi[:, :, block] += part


def _blocks(total: int, most: int) -> list[slice]:
    """Return slices of equal lengths of at most `most`."""
    size = even_length(total, most, 1)
    return [slice(start, start + size) for start in range(0, total, size)]
