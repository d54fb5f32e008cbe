"""The small subtrees that Shapley values of tree ensembles are computed by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from treepurify._kernels.shapley_twigs import find_twigs, path_bits, twig_states, twig_tables
from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Indices, Integers

# Measured at depth 6: larger tables leave the cache, smaller ones mean more look-ups.
_TWIG_BITS = 10
_MOST_BITS = 63


@dataclass(frozen=True, eq=False)
class Twigs:
    """Twigs of an ensemble; arrays are by node, and a twig goes by its root.

    Parameters
    ----------
    parent, bit, n_bits : ndarray of int64
        See `path_bits`.
    twig : ndarray of int64
        Root of the node's twig; -1 above twigs.
    buffer_row : ndarray of int64
        Row of the state buffer; -1 inside twigs.
    test_ptr, test_node, test_number : ndarray of int64
        Inner nodes of each twig, and the number of each in its own twig (-1 elsewhere).
    roots : ndarray of int64
        Roots of the twigs, increasing.
    leaf_ptr, leaf_node : ndarray of int64
        Leaves of each twig, by position in `roots`.
    player : ndarray of int32
        Player whose feature the node tests; -1 at leaves.
    """

    parent: Integers
    bit: Integers
    n_bits: Integers
    twig: Integers
    buffer_row: Integers
    test_ptr: Integers
    test_node: Integers
    test_number: Integers
    roots: Integers
    leaf_ptr: Integers
    leaf_node: Integers
    player: npt.NDArray[np.int32]

    def roots_of(self, first: int, last: int) -> Integers:
        """Return the twigs of the tree ``first:last``."""
        return self.roots[slice(*np.searchsorted(self.roots, [first, last]))]

    def n_tests(self, root: int) -> int:
        """Return the number of tests inside a twig."""
        return int(self.test_ptr[root + 1] - self.test_ptr[root])

    def n_state_bits(self, root: int) -> int:
        """Return the number of bits of a twig's state."""
        return int(self.n_bits[root]) + self.n_tests(root)

    def leaves(self, root: int) -> Integers:
        """Return the leaves of a twig."""
        position = np.searchsorted(self.roots, root)
        return self.leaf_node[self.leaf_ptr[position] : self.leaf_ptr[position + 1]]

    def players(self, root: int) -> list[int]:
        """Return the players on the paths to a twig's leaves, increasing."""
        nodes = list(self.test_node[self.test_ptr[root] : self.test_ptr[root + 1]])
        node = int(root)
        while self.parent[node] >= 0:
            node = int(self.parent[node])
            nodes.append(node)
        return sorted({int(self.player[node]) for node in nodes})


def lay_out_twigs(ensemble: TreeEnsemble, player_of_feature: Integers | None = None) -> Twigs:
    """Split the trees of an ensemble into twigs.

    A path is passed by a player who passes all of its tests of the player's features, so features
    that are one player need nothing but one bit for all of them.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    player_of_feature : ndarray of int64, shape (n_features,), optional
        The player that each feature belongs to; each is one by itself by default.

    Raises
    ------
    UnsupportedModelError
        If a path tests more than 63 different features.
    """
    player = ensemble.feature
    if player_of_feature is not None:
        player = np.where(player >= 0, player_of_feature[player], player).astype(np.int32)
    parent, bit = np.full((2, len(player)), -1, dtype=np.intp)
    n_bits = np.zeros(len(player), dtype=np.intp)
    path_bits(player, ensemble.left, ensemble.right, parent, bit, n_bits)
    if n_bits.max(initial=0) > _MOST_BITS:
        raise UnsupportedModelError(
            f"a path of a tree tests {n_bits.max()} different features, but interventional Shapley "
            f"values are computed for at most {_MOST_BITS}. Train with a smaller depth."
        )
    twig, n_tests = np.full_like(n_bits, -1), np.zeros_like(n_bits)
    find_twigs(ensemble.left, ensemble.right, n_bits, _TWIG_BITS, n_tests, twig)
    nodes = np.arange(len(twig))
    roots = np.flatnonzero(twig == nodes)
    is_leaf = ensemble.feature < 0
    tests = np.flatnonzero((twig >= 0) & ~is_leaf)
    tests = tests[np.argsort(twig[tests], kind="stable")]
    test_ptr = np.searchsorted(twig[tests], np.arange(len(twig) + 1))
    test_number = np.full(len(twig), -1, dtype=np.int64)
    test_number[tests] = np.arange(len(tests)) - test_ptr[twig[tests]]
    leaves = np.flatnonzero(is_leaf)
    leaves = leaves[np.argsort(twig[leaves], kind="stable")]
    buffered = (twig < 0) | (twig == nodes)
    tree = np.searchsorted(ensemble.tree_ptr, nodes, side="right") - 1
    rank = np.cumsum(buffered) - 1
    before = np.concatenate([[0], np.cumsum(buffered)])[ensemble.tree_ptr[tree]]
    return Twigs(
        parent,
        bit,
        n_bits,
        twig,
        np.where(buffered, rank - before, -1),
        test_ptr,
        tests,
        test_number,
        roots,
        np.append(np.searchsorted(twig[leaves], roots), len(leaves)),
        leaves,
        player,
    )


def states_of(
    ensemble: TreeEnsemble, twigs: Twigs, trees: Sequence[int], values: Array
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield each tree with the states of the rows, shape (n_buffers, n_rows).

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    trees : sequence of int
        The trees wanted.
    values : ndarray of float64, shape (n_features, n_rows)
        The rows, feature by feature. The yielded array is overwritten by the next tree.
    """
    roots = twigs.roots
    n_tests = twigs.test_ptr[roots + 1] - twigs.test_ptr[roots]
    widest = int(np.max(twigs.n_bits[roots] + n_tests, initial=1))
    of_type = next(t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if _bits(t) >= widest)
    goes_left = np.empty(values.shape[1], dtype=np.bool_)
    states: npt.NDArray[Any] = np.empty((0, values.shape[1]), dtype=of_type)
    for tree in trees:
        first, last = ensemble.tree_ptr[tree : tree + 2].tolist()
        n_buffers = int(twigs.buffer_row[first:last].max()) + 1
        if n_buffers > len(states):
            states = np.empty((n_buffers, values.shape[1]), dtype=of_type)
        twig_states(
            first,
            last,
            values,
            ensemble.feature,
            ensemble.cut,
            ensemble.left,
            ensemble.right,
            ensemble.missing_left,
            ensemble.category_ptr,
            ensemble.category_left,
            twigs.bit,
            twigs.n_bits,
            twigs.twig,
            twigs.buffer_row,
            twigs.test_ptr,
            twigs.test_node,
            goes_left,
            states,
        )
        yield tree, states


def _bits(of_type: type[np.unsignedinteger[Any]]) -> int:
    return 8 * np.dtype(of_type).itemsize


class TwigWorkspace(NamedTuple):
    """Workspace of `tables_of_twig`, and the weights of leaves.

    Parameters
    ----------
    gains, losses : ndarray of float64, shape (n_bits + 1, n_bits + 1)
        See `leaf_weights`.
    pattern : ndarray of int64, shape (n_states,)
        The pattern of a leaf's features in each state of the twig.
    slot : ndarray of int64, shape (n_bits,)
        Where the player of each feature is.
    own, alone, shared, loss : ndarray of float64, shape (n_states,)
        Weights of the patterns, and their weighted sums.
    """

    gains: Array
    losses: Array
    pattern: Indices
    slot: Indices
    own: Array
    alone: Array
    shared: Array
    loss: Array

    @classmethod
    def of(cls, n_bits: int) -> Self:
        """Return one for twigs whose state takes at most `n_bits`."""
        size = 1 << n_bits
        pattern, slot = np.empty(size, dtype=np.intp), np.empty(n_bits, dtype=np.intp)
        own, alone, shared, loss = np.empty((4, size))
        return cls(*leaf_weights(n_bits), pattern, slot, own, alone, shared, loss)


def tables_of_twig(
    ensemble: TreeEnsemble,
    twigs: Twigs,
    root: int,
    players: list[int],
    counts: Array,
    workspace: TwigWorkspace,
) -> Array:
    """Return the Shapley values of a twig by state, shape (n_values, n_players_of_twig, n_states).

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    twigs : Twigs
        Their twigs.
    root : int
        The twig.
    players : list of int
        Its players, increasing.
    counts : ndarray of float64, shape (n_states,)
        Share of the background in each state.
    workspace : TwigWorkspace
        Of twigs with as many states or more.
    """
    slot_of_player = np.zeros(players[-1] + 1, dtype=np.int64)
    slot_of_player[players] = np.arange(len(players))
    tables = np.zeros((ensemble.value.shape[1], len(players), len(counts)))
    twig_tables(
        root,
        twigs.leaves(root),
        counts,
        twigs.player,
        ensemble.left,
        twigs.parent,
        twigs.bit,
        twigs.n_bits,
        twigs.test_number,
        twigs.n_tests(root),
        ensemble.value,
        slot_of_player,
        workspace,
        tables,
    )
    return tables


@cache
def leaf_weights(width: int) -> tuple[Array, Array]:
    """Return the Shapley weights of a leaf whose path has at most `width` features.

    ``gains[a, q]`` goes to each of the `a` features that only the row passes, ``losses[a, q]``
    to each of the `q` features that only the background passes: ``(a - 1)! q! / (a + q)!`` and
    ``-a! (q - 1)! / (a + q)!``.
    """
    gains = np.zeros((width + 1, width + 1))
    # (a + q)! / (a! q!), by Pascal's triangle.
    choices = np.ones(width + 1)
    for a in range(1, width + 1):
        choices = np.cumsum(choices)
        gains[a] = 1.0 / (a * choices)
    return gains, np.ascontiguousarray(-gains.T)
