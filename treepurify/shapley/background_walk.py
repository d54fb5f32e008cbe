"""The twigs whose rows walk down with the background rows, and their Shapley values."""

import numpy as np

from treepurify._kernels.background_walk import expected_visits, walk_background
from treepurify._kernels.shapley_twigs import leaf_weights
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.shapley.twigs import Twigs
from treepurify.threads import available_threads, even_length, map_threads
from treepurify.typing import Array, Mask

__all__ = ["bytes_of_walk", "choose_walked", "walk_trees"]

# Longer paths have no table: one of 2**12 states already takes as long as a thousand short ones.
TABLE_BITS = 12
_ROWS_A_BLOCK = 64
# Longer lists take more memory, and are not quicker.
_BACKGROUND_A_BLOCK = 8192
# The number of a background row, and the features that it fails.
_BYTES_A_MEMBER = 12


def choose_walked(ensemble: TreeEnsemble, twigs: Twigs, n_pairs: int) -> Mask:
    """Return for each twig whether rows walk down to its leaves with the background rows.

    They do where paths are too long for tables, and in trees where all pairs of rows visit fewer
    nodes than the tables have entries to be computed.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    n_pairs : int
        Number of rows times number of background rows.

    Returns
    -------
    ndarray of bool, shape (n_twigs,)
    """
    bits = twigs.n_bits[twigs.roots] + np.diff(twigs.test_ptr)[twigs.roots]
    is_long = bits > TABLE_BITS
    n_leaves = np.diff(twigs.leaf_ptr)
    bits_of_leaf = np.repeat(np.minimum(bits, TABLE_BITS), n_leaves)
    width = np.minimum(twigs.n_bits[twigs.leaf_node], TABLE_BITS)
    # Sums over supersets, and the leaf's value in every state of the twig.
    entries = np.where(
        np.repeat(is_long, n_leaves), 0, (width**2 << width) + (width << bits_of_leaf)
    )
    of_leaf = np.searchsorted(ensemble.tree_ptr, twigs.leaf_node, side="right") - 1
    n_entries = np.bincount(of_leaf, weights=entries, minlength=ensemble.n_trees)
    more_visits = np.subtract(
        *(
            expected_visits(wanted, ensemble.left, ensemble.right)[ensemble.tree_ptr[:-1]]
            for wanted in (ensemble.feature < 0, _leaves_of(twigs, is_long))
        )
    )
    of_twig = np.searchsorted(ensemble.tree_ptr, twigs.roots, side="right") - 1
    return np.asarray(is_long | (n_pairs * more_visits < n_entries)[of_twig])


def _leaves_of(twigs: Twigs, chosen: Mask) -> Mask:
    """Return which nodes are leaves of the chosen twigs."""
    is_leaf = np.zeros(len(twigs.parent), dtype=np.bool_)
    is_leaf[twigs.leaf_node[np.repeat(chosen, np.diff(twigs.leaf_ptr))]] = True
    return is_leaf


def bytes_of_walk(ensemble: TreeEnsemble, walked: Mask, n_background: int) -> int:
    """Return the bytes of the lists of all threads."""
    if not walked.any():
        return 0
    members = min(n_background, _BACKGROUND_A_BLOCK) * (ensemble.depth + 1)
    return _BYTES_A_MEMBER * members * available_threads()


def walk_trees(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    walked: Mask,
    values: Array,
    background: Array,
    weights: Array,
    phi: Array,
    report: ProgressReport,
) -> None:
    """Add the Shapley values of the walked twigs to ``phi``.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    walked : ndarray of bool, shape (n_twigs,)
        From `choose_walked`.
    values, background : ndarray of float64, shape (n_features, n_rows)
        The rows to explain and those that stand for the distribution, feature by feature.
    weights : ndarray of float64, shape (n_background,) or (n_rows, n_background)
        Weight of each background row, or of each for each row.
    phi : ndarray of float64, shape (n_outputs, n_players, n_rows)
        Added to.
    report : callable
        Progress.
    """
    is_wanted = expected_visits(_leaves_of(twigs, walked), ensemble.left, ensemble.right) > 0.0
    trees = np.flatnonzero(is_wanted[ensemble.tree_ptr[:-1]])
    gains, losses = leaf_weights(int(twigs.n_bits.max(initial=0)))
    height = ensemble.depth
    weights = np.atleast_2d(weights)
    parts = [
        (np.ascontiguousarray(background[:, start:stop]), weights[:, start:stop])
        for start in range(0, weights.shape[1], _BACKGROUND_A_BLOCK)
        for stop in (start + _BACKGROUND_A_BLOCK,)
    ]
    size = even_length(values.shape[1], _ROWS_A_BLOCK, available_threads())

    def add_block(start: int) -> None:
        block = slice(start, start + size)
        block_values = np.ascontiguousarray(values[:, block])
        part = np.ascontiguousarray(phi[:, :, block])
        for done, tree in enumerate(trees):
            if start == 0:
                report("Shapley values of trees", done, len(trees))
            for part_of_background, part_weights in parts:
                of_rows = part_weights if len(part_weights) == 1 else part_weights[block]
                walk_background(
                    ensemble.tree_ptr[tree],
                    height,
                    block_values,
                    part_of_background,
                    np.ascontiguousarray(of_rows),
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
                    part,
                )
        phi[:, :, block] = part

    map_threads(add_block, range(0, values.shape[1], size))
