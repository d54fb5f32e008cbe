"""Shapley values of twigs where rows are few: no tables, each row goes to the leaves itself."""

from itertools import product
from typing import NamedTuple, Self

import numpy as np

from treepurify._kernels.background_walk import walk_background, write_visits
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.shapley.twigs import Twigs, leaf_weights
from treepurify.threads import RESULTS_AHEAD, available_threads, even_length, iterate_threads
from treepurify.typing import Array, Indices, Integers, Mask

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


def choose_walks(ensemble: TreeEnsemble, twigs: Twigs, n_rows: int, n_background: int) -> Mask:
    """Return for which twigs rows walk down with the background, shape (n_twigs,).

    The others have tables of the values of all states, in which rows are looked up. Rows walk
    where paths are too long for tables, and where that takes less time for the tree.

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
    of_twig = np.searchsorted(ensemble.tree_ptr, twigs.roots, side="right") - 1
    of_leaf = np.repeat(of_twig, n_leaves)
    all_visits, long_visits = (
        _visits(ensemble, wanted)[ensemble.tree_ptr[:-1]]
        for wanted in (ensemble.feature < 0, _leaves_of(twigs, walks))
    )
    of_tables = np.bincount(of_leaf, weights=tabled * is_short, minlength=ensemble.n_trees)
    of_walks = n_rows * n_background * (all_visits - long_visits)
    return np.asarray(walks | (of_walks < of_tables)[of_twig])


def _leaves_of(twigs: Twigs, chosen: Mask) -> Mask:
    """Return which nodes are leaves of the chosen twigs."""
    is_leaf = np.zeros(len(twigs.parent), dtype=np.bool_)
    is_leaf[twigs.leaf_node[np.repeat(chosen, np.diff(twigs.leaf_ptr))]] = True
    return is_leaf


def bytes_of_walk(
    ensemble: TreeEnsemble, walks: Mask, n_rows: int, n_background: int, n_players: int
) -> int:
    """Return the bytes of the lists of all threads, and of values that wait to be added."""
    if not walks.any():
        return 0
    members = min(n_background, _BACKGROUND_A_BLOCK) * (ensemble.depth + 1)
    waiting = (RESULTS_AHEAD + 1) * 8 * ensemble.n_outputs * n_players * min(n_rows, _ROWS_A_BLOCK)
    return (_BYTES_A_MEMBER * members + waiting) * available_threads()


def add_few_rows(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    walks: Mask,
    values: Array,
    background: Array,
    weights: Array,
    phi: Array,
    report: ProgressReport,
) -> None:
    """Add the Shapley values of the twigs that rows walk down to ``phi``.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    walks : ndarray of bool, shape (n_twigs,)
        From `choose_walks`.
    values, background : ndarray of float64, shape (n_features, n_rows)
        The rows to explain and those that stand for the distribution, feature by feature.
    weights : ndarray of float64, shape (n_background,)
        Weight of each background row.
    phi : ndarray of float64, shape (n_outputs, n_players, n_rows)
        Added to.
    report : callable
        Progress.
    """
    is_leaf = _leaves_of(twigs, walks)
    is_wanted = _visits(ensemble, is_leaf) > 0.0
    trees = np.flatnonzero(is_wanted[ensemble.tree_ptr[:-1]])
    height = ensemble.depth
    gains, losses = leaf_weights(int(twigs.n_bits[is_leaf].max(initial=0)))
    backgrounds = [
        (np.ascontiguousarray(background[:, some]), weights[some])
        for some in _blocks(len(weights), _BACKGROUND_A_BLOCK)
    ]
    longest = max((members.shape[1] for members, _ in backgrounds), default=0)

    def values_of(task: tuple[slice, Integers]) -> Array:
        block, some = task
        block_values = np.ascontiguousarray(values[:, block])
        part = np.zeros((*phi.shape[:2], block_values.shape[1]))
        workspace = WalkWorkspace.of(height, longest)
        for tree in some:
            for part_of_background, part_weights in backgrounds:
                walk_background(
                    ensemble.tree_ptr[tree],
                    height,
                    block_values,
                    part_of_background,
                    part_weights,
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


def _visits(ensemble: TreeEnsemble, wanted: Mask) -> Array:
    visits = wanted.astype(np.float64)
    write_visits(ensemble.left, ensemble.right, visits)
    return visits


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
    def of(cls, height: int, n_background: int) -> Self:
        """Return one for trees of at most this height, and as many background rows."""
        levels, members = height + 1, n_background
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


def _blocks(total: int, most: int) -> list[slice]:
    """Return slices of equal lengths of at most `most`."""
    size = even_length(total, most, 1)
    return [slice(start, start + size) for start in range(0, total, size)]
