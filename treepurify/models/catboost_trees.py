"""Expand CatBoost's trees, oblivious or nested, into plain node tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import LEAF
from treepurify.typing import Array, Indices, Integers, Mask

# CatBoost grows 16; the work at a node grows with the tests above it.
_MOST_LEVELS = 256
# Directions that a node's ancestors leave open.
_BOTH, _LEFT, _RIGHT = -1, 0, 1


class Split(NamedTuple):
    """One test: right iff ``float32(x) > border``, or iff the category has this code.

    `code` is -1 at numeric tests, `border` NaN at categorical ones.
    """

    feature: int
    border: float
    code: int


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of all trees, children after their parents.

    Parameters
    ----------
    tree_ptr : ndarray of int64, shape (n_trees + 1,)
        First node of each tree.
    feature : ndarray of int32, shape (n_nodes,)
        Feature tested; -1 at leaves.
    border : ndarray of float64, shape (n_nodes,)
        Border of numeric tests; NaN elsewhere.
    code : ndarray of int32, shape (n_nodes,)
        Code that goes right at categorical tests; -1 elsewhere.
    left, right : ndarray of int32, shape (n_nodes,)
        Children as positions in these arrays; -1 at leaves.
    value : ndarray of float64, shape (n_nodes, n_outputs)
        Leaf values; 0 at inner nodes.
    cover : ndarray of float64, shape (n_nodes,)
        Weights of the training rows in leaves, NaN where the model does not say; 0 at inner
        nodes.
    """

    tree_ptr: Integers
    feature: npt.NDArray[np.int32]
    border: Array
    code: npt.NDArray[np.int32]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: Array
    cover: Array


def oblivious_nodes(
    splits: Sequence[Sequence[Split]],
    values: Sequence[Sequence[float]],
    n_outputs: int,
    weights: Sequence[Sequence[float] | None] | None = None,
) -> NodeTable:
    """Expand oblivious trees, whose levels each share one test.

    Tests that earlier ones on the same feature have decided are left out, and with them
    the leaves that no row can reach.

    Parameters
    ----------
    splits : sequence over trees of sequence of Split
        Tests of each tree; the first is the least significant bit of the leaf's index.
    values : sequence over trees of sequence of float
        Leaf values, output after output within a leaf.
    n_outputs : int
        Number of outputs.
    weights : sequence over trees of (sequence of float or None), optional
        Weights of the training rows in the leaves, where they are known.

    Returns
    -------
    NodeTable

    Raises
    ------
    UnsupportedModelError
        If a tree does not have one value per leaf and output, or one weight per leaf.
    """
    depths = np.array([len(tree) for tree in splits], dtype=np.int64)
    sizes = np.zeros(len(splits), dtype=np.int64)
    groups = []
    for depth in np.unique(depths).tolist():
        trees = np.flatnonzero(depths == depth)
        leaves = _leaf_values([values[tree] for tree in trees.tolist()], depth, n_outputs)
        # Tested from the most significant bit down, the leaves lie in the order of their index.
        tests = [split for tree in trees.tolist() for split in reversed(splits[tree])]
        covers = _leaf_weights(weights, trees, depth)
        group = _expand(_columns(tests, (len(trees), depth)), leaves, covers[:, :, 0])
        sizes[trees] = np.diff(group.tree_ptr)
        groups.append((trees, group))
    return _interleave(groups, sizes, n_outputs)


def _leaf_values(values: Sequence[Sequence[float]], depth: int, n_outputs: int) -> Array:
    if any(len(tree) >> depth != n_outputs or len(tree) != n_outputs << depth for tree in values):
        raise UnsupportedModelError(
            f"a CatBoost tree of depth {depth} with {n_outputs} outputs must have "
            f"{n_outputs} * 2**{depth} leaf values; the model is damaged or of an unknown layout"
        )
    return _numbers(values).reshape(len(values), 1 << depth, n_outputs)


def _leaf_weights(
    weights: Sequence[Sequence[float] | None] | None, trees: Indices, depth: int
) -> Array:
    unknown = [np.nan] * (1 << depth)
    listed = [None if weights is None else weights[tree] for tree in trees.tolist()]
    return _leaf_values([of_tree or unknown for of_tree in listed], depth, 1)


def _numbers(values: Sequence[Sequence[float]]) -> Array:
    leaves = np.array(values)
    # Among other numbers, NumPy takes a truth value for one.
    holds_bool = any(bool in set(map(type, row)) for row in values)
    if leaves.size and (holds_bool or leaves.dtype.kind not in "if"):
        raise UnsupportedModelError("CatBoost leaf values are not numbers; the model is damaged")
    return leaves.astype(np.float64)


class _Tests(NamedTuple):
    feature: npt.NDArray[np.int32]
    border: Array
    code: npt.NDArray[np.int32]


def _columns(tests: Sequence[Split], shape: tuple[int, ...]) -> _Tests:
    return _Tests(
        np.array([test.feature for test in tests], dtype=np.int32).reshape(shape),
        np.array([test.border for test in tests], dtype=np.float64).reshape(shape),
        np.array([test.code for test in tests], dtype=np.int32).reshape(shape),
    )


def _expand(tests: _Tests, leaves: Array, covers: Array) -> NodeTable:
    """Expand oblivious trees of one depth; `tests` of shape (n_trees, depth), root first."""
    n_trees, depth = tests.feature.shape
    open_ways = [_open_ways(tests, level) for level in range(depth)]
    kept, target = _surviving(open_ways, n_trees, depth)
    n_inner = (1 << depth) - 1
    heap = np.arange(n_inner)
    level = np.zeros(n_inner, dtype=np.intp)
    for first in range(1, depth):
        level[(1 << first) - 1 :] = first

    sizes = kept.sum(axis=1)
    tree_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    position = np.cumsum(kept.ravel()).reshape(kept.shape) - 1
    children = np.full((2, *kept.shape), LEAF, dtype=np.int32)
    for side in range(2):
        child = target[:, 2 * heap + 1 + side]
        children[side, :, :n_inner] = np.take_along_axis(position, child, axis=1)

    def at_nodes(column: npt.NDArray[Any], leaf: float) -> npt.NDArray[Any]:
        padded = np.full(kept.shape, leaf, dtype=column.dtype)
        padded[:, :n_inner] = column[:, level]
        return padded[kept]

    value = np.zeros((*kept.shape, leaves.shape[2]))
    value[:, n_inner:] = leaves
    cover = np.zeros(kept.shape)
    cover[:, n_inner:] = covers
    return NodeTable(
        tree_ptr=tree_ptr,
        feature=at_nodes(tests.feature, LEAF),
        border=at_nodes(tests.border, np.nan),
        code=at_nodes(tests.code, -1),
        left=children[0][kept],
        right=children[1][kept],
        value=value[kept],
        cover=cover[kept],
    )


def _open_ways(tests: _Tests, level: int) -> npt.NDArray[np.int8]:
    """Return which ways are open at the 2**level nodes of a level, shape (n_trees, 2**level)."""
    n_trees = len(tests.feature)
    ways = np.full((n_trees, 1 << level), _BOTH, dtype=np.int8)
    heap = np.arange(1 << level)
    feature, border, code = (column[:, level] for column in tests)
    for above in range(level):
        same = feature == tests.feature[:, above]
        categorical = same & (code >= 0)
        numeric = same & (code < 0)
        equal = code == tests.code[:, above]
        after_right = np.full(n_trees, _BOTH, dtype=np.int8)
        after_right[categorical] = np.where(equal, _RIGHT, _LEFT)[categorical]
        after_right[numeric & (border <= tests.border[:, above])] = _RIGHT
        after_left = np.full(n_trees, _BOTH, dtype=np.int8)
        after_left[categorical & equal] = _LEFT
        after_left[numeric & (border >= tests.border[:, above])] = _LEFT
        went_right = (heap >> (level - 1 - above)) & 1 == 1
        decided = np.where(went_right, after_right[:, None], after_left[:, None])
        ways = np.where(decided == _BOTH, ways, decided)
    return ways


def _surviving(
    open_ways: list[npt.NDArray[np.int8]], n_trees: int, depth: int
) -> tuple[Mask, Indices]:
    """Return which heap nodes stay, and the node that replaces each of the others."""
    n_nodes = (2 << depth) - 1
    kept = np.ones((n_trees, n_nodes), dtype=np.bool_)
    target = np.tile(np.arange(n_nodes), (n_trees, 1))
    for level in range(depth):
        here = slice((1 << level) - 1, (2 << level) - 1)
        below = slice((2 << level) - 1, (4 << level) - 1)
        reached = np.repeat(kept[:, here], 2, axis=1)
        reached[:, 0::2] &= open_ways[level] != _RIGHT
        reached[:, 1::2] &= open_ways[level] != _LEFT
        kept[:, below] = reached
    for level in reversed(range(depth)):
        here = slice((1 << level) - 1, (2 << level) - 1)
        children = target[:, (2 << level) - 1 : (4 << level) - 1]
        ways = open_ways[level]
        only = np.where(ways == _LEFT, children[:, 0::2], children[:, 1::2])
        target[:, here] = np.where(ways == _BOTH, target[:, here], only)
        kept[:, here] &= ways == _BOTH
    return kept, target


def _interleave(
    groups: Sequence[tuple[Indices, NodeTable]],
    sizes: Integers,
    n_outputs: int,
) -> NodeTable:
    """Put the trees of all groups back into the order of the model."""
    tree_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_nodes = int(tree_ptr[-1])
    merged = NodeTable(
        tree_ptr=tree_ptr,
        feature=np.empty(n_nodes, dtype=np.int32),
        border=np.empty(n_nodes),
        code=np.empty(n_nodes, dtype=np.int32),
        left=np.empty(n_nodes, dtype=np.int32),
        right=np.empty(n_nodes, dtype=np.int32),
        value=np.empty((n_nodes, n_outputs)),
        cover=np.empty(n_nodes),
    )
    for trees, group in groups:
        shift = np.repeat(tree_ptr[trees] - group.tree_ptr[:-1], sizes[trees])
        place = np.arange(len(group.feature)) + shift
        for name in ("feature", "border", "code", "value", "cover"):
            getattr(merged, name)[place] = getattr(group, name)
        leaf = group.feature == LEAF
        merged.left[place] = np.where(leaf, LEAF, group.left + shift)
        merged.right[place] = np.where(leaf, LEAF, group.right + shift)
    return merged


def nested_nodes(
    trees: Sequence[Any], read_split: Callable[[Any], Split], n_outputs: int
) -> NodeTable:
    """Flatten non-symmetric trees, given as nested dictionaries.

    Tests that earlier ones have decided are left out, as in `oblivious_nodes`.

    Parameters
    ----------
    trees : sequence of dict
        Inner nodes have ``split``, ``left`` and ``right``, leaves a ``value``.
    read_split : callable
        From the dictionary of a split to a `Split`.
    n_outputs : int
        Number of outputs.

    Returns
    -------
    NodeTable
    """
    tests: list[Split] = []
    values: list[list[float]] = []
    weights: list[list[float]] = []
    children: list[list[int]] = []
    tree_ptr = [0]
    no_test, no_value = Split(LEAF, np.nan, -1), [0.0] * n_outputs
    for tree in trees:
        _check_tree(tree, read_split, n_outputs)
        pending: list[tuple[Any, int, int, _Path]] = [(tree, LEAF, _LEFT, ())]
        while pending:
            node, parent, side, path = pending.pop()
            node, test = _next_open(node, path, read_split)
            position = len(tests)
            if parent != LEAF:
                children[parent][side] = position
            children.append([LEAF, LEAF])
            tests.append(no_test if test is None else test)
            if test is None:
                values.append(_vector(node["value"], n_outputs))
                weights.append([node.get("weight", np.nan)])
                continue
            values.append(no_value)
            weights.append([0.0])
            if len(path) == _MOST_LEVELS:
                raise UnsupportedModelError(
                    f"a CatBoost tree has more than {_MOST_LEVELS} levels; the model is damaged"
                )
            pending.append((node["right"], position, _RIGHT, (*path, (test, True))))
            pending.append((node["left"], position, _LEFT, (*path, (test, False))))
        tree_ptr.append(len(tests))
    columns = _columns(tests, (len(tests),))
    both = np.array(children, dtype=np.int32).reshape(-1, 2)
    return NodeTable(
        np.array(tree_ptr, dtype=np.int64),
        *columns,
        left=both[:, 0].copy(),
        right=both[:, 1].copy(),
        value=_numbers(values).reshape(-1, n_outputs),
        cover=_numbers(weights).reshape(-1),
    )


def _check_tree(tree: Any, read_split: Callable[[Any], Split], n_outputs: int) -> None:
    """Refuse a damaged tree, also where no row can reach: CatBoost itself reads all of it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if "split" in node:
            read_split(node["split"])
            pending += (node["left"], node["right"])
        else:
            _vector(node["value"], n_outputs)


_Path = tuple[tuple[Split, bool], ...]


def _next_open(
    node: Any, path: _Path, read_split: Callable[[Any], Split]
) -> tuple[Any, Split | None]:
    """Skip the tests that the path has decided; return the next node, and its test if inner."""
    while "split" in node:
        test = read_split(node["split"])
        way = next((w for above in path if (w := _decided(test, *above)) != _BOTH), _BOTH)
        if way == _BOTH:
            return node, test
        node = node["left"] if way == _LEFT else node["right"]
    return node, None


def _decided(test: Split, above: Split, went_right: bool) -> int:
    if test.feature != above.feature:
        return _BOTH
    if test.code >= 0:
        if test.code == above.code:
            return _RIGHT if went_right else _LEFT
        return _LEFT if went_right else _BOTH
    if went_right:
        return _RIGHT if test.border <= above.border else _BOTH
    return _LEFT if test.border >= above.border else _BOTH


def _vector(value: Any, n_outputs: int) -> list[float]:
    vector = list(value) if isinstance(value, list) else [value]
    if len(vector) != n_outputs:
        raise UnsupportedModelError(
            f"a CatBoost leaf contains {len(vector)} values where the model has {n_outputs} "
            "outputs; the model is damaged or of an unknown layout"
        )
    return vector
