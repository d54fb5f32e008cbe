"""Read the fields of an XGBoost document, and its arrays of all trees as flat node arrays."""

import re
import reprlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.cuts import cut_below_single
from treepurify.models.ensemble import LEAF, NUMERIC_NODE
from treepurify.models.limits import check_category_tables
from treepurify.models.ubjson import ABSENT, ArrayTable
from treepurify.typing import Array, Integers, Mask

_LARGEST_COUNT = 2**32 - 1
_COUNT = re.compile("[0-9]{1,10}")
# XGBoost's own limit: codes pass through single precision.
_MOST_CODES = 2**24
_NODE_KEYS = (
    "left_children",
    "right_children",
    "split_indices",
    "split_conditions",
    "default_left",
)
_CATEGORY_KEYS = ("categories_nodes", "categories_segments", "categories_sizes")
TREE_KEYS = (
    *_NODE_KEYS,
    "split_type",
    "categories",
    *_CATEGORY_KEYS,
    "base_weights",
    "leaf_weights",
    "parents",
    "sum_hessian",
)
TREE_NUMBERS = ("id", "num_nodes", "size_leaf_vector")
# What stands as the parent of a root: the largest int32, or -1 in trees of vector leaves.
_NO_PARENT = (2**31 - 1, -1)


@dataclass(frozen=True)
class FeatureCategories:
    """The categories that a model keeps of one feature.

    Parameters
    ----------
    n_codes : int
        Number of categories; 0 where none are kept.
    labels : tuple of hashable or None
        Label of each code.
    note : str
        What a user should know, or "".
    stored : tuple of str
        See ``stored_labels`` of `FeatureSpec`.
    """

    n_codes: int
    labels: tuple[Hashable, ...] | None
    note: str = ""
    stored: tuple[str, ...] = ()


def entry(holder: Any, key: str, kind: type) -> Any:
    """Return ``holder[key]``, which must be of the given type."""
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        held = "nothing" if value is None else type(value).__name__
        raise InvalidInputError(
            f"not a complete XGBoost model: {key!r} should contain a {kind.__name__}, found {held}"
        )
    return value


def integer(holder: dict[str, Any], key: str, default: int | None = None) -> int:
    """Return ``holder[key]`` as a count that XGBoost can hold, which it stores as text."""
    value = holder.get(key, default)
    text = str(value) if isinstance(value, int) else value
    if not isinstance(text, str) or not _COUNT.fullmatch(text) or int(text) > _LARGEST_COUNT:
        raise InvalidInputError(
            f"not a complete XGBoost model: {key!r} must be a whole number, got "
            f"{reprlib.repr(value)}"
        )
    return int(text)


def texts(learner: dict[str, Any], key: str) -> list[str]:
    """Return ``learner[key]`` as a list of texts; empty where there is none."""
    values = learner.get(key)
    if values is None or (isinstance(values, np.ndarray) and values.size == 0):
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidInputError(f"not a complete XGBoost model: {key!r} is not a list of texts")
    return values


def array(holder: Any, key: str, kinds: str) -> npt.NDArray[Any]:
    """Return ``holder[key]`` as a flat array of one of the NumPy kinds; empty where none."""
    try:
        values = np.asarray(holder.get(key, ()))
    except (AttributeError, ValueError):
        values = np.empty((0, 0))
    if values.ndim != 1 or (values.size and values.dtype.kind not in kinds):
        raise InvalidInputError(f"not a complete XGBoost model: {key!r} is not a list of numbers")
    return values


def singles(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return numbers in single precision; a damaged one may become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def read_categories(model: dict[str, Any], n_features: int) -> list[FeatureCategories]:
    """Read the category labels that XGBoost keeps from 3.1 on."""
    encodings = entry(model["cats"], "enc", list) if "cats" in model else []
    if not encodings:
        return [FeatureCategories(0, None)] * n_features
    if len(encodings) != n_features:
        raise InvalidInputError("'cats' does not list every feature; the model is damaged")
    return [_category(encoding, j) for j, encoding in enumerate(encodings)]


def _category(encoding: dict[str, Any], position: int) -> FeatureCategories:
    values = array(encoding, "values", "iu")
    if "offsets" not in encoding:
        return FeatureCategories(len(values), tuple(values.tolist()))
    offsets = array(encoding, "offsets", "iu").tolist()
    content = bytes(values.astype(np.int64).astype(np.uint8))
    if not offsets:
        return FeatureCategories(0, None)
    if sorted(offsets) != offsets or offsets[0] != 0 or offsets[-1] != len(content):
        raise InvalidInputError(
            "'cats' contains labels of impossible lengths; the model is damaged"
        )
    n_codes = len(offsets) - 1
    if not content.isascii():
        # XGBoost counts characters of a pandas label where it stores bytes, and cuts labels up.
        note = (
            f"some categories of feature {position} are not plain ASCII, and XGBoost does not "
            "store such labels reliably: their labels are those of the first table, which must "
            "have the categories of the training data in their order"
        )
        stored = tuple(content[a:b].decode("latin-1") for a, b in pairwise(offsets))
        return FeatureCategories(n_codes, None, note, stored)
    text = content.decode("ascii")
    labels = tuple(text[a:b] for a, b in pairwise(offsets))
    return FeatureCategories(n_codes, labels)


@dataclass(frozen=True, eq=False)
class XgboostNodes:
    """The reachable nodes of all trees, children after their parents.

    Parameters
    ----------
    tree_ptr, feature, cut, left, right, missing_left, category_ptr, category_left : ndarray
        As in `TreeEnsemble`.
    value : ndarray of float32, shape (n_nodes, n_values)
        Leaf values before any weight; 0 at inner nodes.
    n_codes : ndarray of int64, shape (n_features,)
        Number of codes each categorical feature distinguishes; -1 for a numeric feature.
    cover : ndarray of float64, shape (n_nodes,), optional
        Sums of second derivatives over the training rows in leaves; see `TreeEnsemble`.
    """

    tree_ptr: Integers
    feature: npt.NDArray[np.int32]
    cut: Array
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    missing_left: Mask
    category_ptr: Integers
    category_left: Mask
    value: npt.NDArray[np.float32]
    n_codes: Integers
    cover: Array | None

    @property
    def has_vector_leaves(self) -> bool:
        """Whether a leaf holds one value per output."""
        return bool(self.value.shape[1] > 1)


@dataclass(frozen=True, eq=False)
class _StoredNodes:
    """The nodes as stored, deleted ones included; children are global positions."""

    tree: Integers
    root: Integers
    left: Integers
    right: Integers
    is_leaf: Mask


@dataclass(frozen=True, eq=False)
class _CategorySets:
    """The members of the category sets: the node that owns the set, and the code."""

    node: Integers
    code: Integers


def read_nodes(
    table: ArrayTable, n_outputs: int, is_categorical: Sequence[bool], n_codes: Sequence[int]
) -> XgboostNodes:
    """Read the trees of a booster.

    Parameters
    ----------
    table : ArrayTable
        The arrays of the trees under `TREE_KEYS`.
    n_outputs : int
        Number of outputs of the model; the width of vector leaves.
    is_categorical : sequence of bool
        Whether each feature is declared categorical.
    n_codes : sequence of int
        Number of category labels the model keeps of each feature, 0 where it keeps none.

    Returns
    -------
    XgboostNodes

    Raises
    ------
    InvalidInputError
        If arrays do not fit each other.
    UnsupportedModelError
        If a feature is split both by code and by cut.
    """
    _check_lengths(table)
    _check_numbers(table, n_outputs)
    stored = _stored_nodes(table)
    order = _reachable(stored)
    _check_parents(table, stored, order)
    position = np.full(len(stored.tree), -1, dtype=np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    inner = ~stored.is_leaf[order]
    split_feature = _integers(table, "split_indices")[order]
    if np.any(inner & ((split_feature < 0) | (split_feature >= len(n_codes)))):
        raise InvalidInputError(
            "a split uses a feature the model does not list; the model is damaged"
        )
    feature = np.where(inner, split_feature, LEAF).astype(np.int32)
    by_code = inner & _split_by_code(table, len(position))[order]
    numeric = inner & ~by_code
    sets = _category_sets(table, stored, position, by_code)
    codes = _count_codes(sets, feature, numeric, is_categorical, n_codes)
    category_ptr, category_left = _category_tables(sets, feature, by_code, codes)
    condition = singles(_numbers(table, "split_conditions"))[order]
    cut = np.full(len(order), np.nan)
    cut[numeric] = cut_below_single(condition[numeric])
    tree_size = np.bincount(stored.tree[order], minlength=table.n_objects)
    return XgboostNodes(
        tree_ptr=np.concatenate([[0], np.cumsum(tree_size)]).astype(np.int64),
        feature=feature,
        cut=cut,
        left=np.where(inner, position[stored.left[order]], LEAF).astype(np.int32),
        right=np.where(inner, position[stored.right[order]], LEAF).astype(np.int32),
        missing_left=inner & _default_left(table)[order],
        category_ptr=category_ptr,
        category_left=category_left,
        value=_leaf_values(table, stored, order, condition, n_outputs),
        n_codes=codes,
        cover=_cover(table, inner, order),
    )


def _numbers(table: ArrayTable, key: str) -> npt.NDArray[Any]:
    values = table.values[key]
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _integers(table: ArrayTable, key: str) -> npt.NDArray[Any]:
    values = _numbers(table, key)
    if values.size == 0:
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        raise InvalidInputError(f"{key!r} contains fractions; the model is damaged")
    return values


def _check_lengths(table: ArrayTable) -> None:
    n_nodes = table.counts["left_children"]
    if np.any(n_nodes < 1):
        raise InvalidInputError("a tree has no nodes; the model is damaged")
    for key in (*_NODE_KEYS, "split_type", "parents", "sum_hessian"):
        # Models older than categorical splits have no 'split_type', trees of vector leaves no
        # 'sum_hessian'.
        if key not in _NODE_KEYS and not table.counts[key].any():
            continue
        if not np.array_equal(table.counts[key], n_nodes):
            raise InvalidInputError(
                f"{key!r} and 'left_children' differ in length within a tree; the model is damaged"
            )
    for key in _CATEGORY_KEYS[1:]:
        if not np.array_equal(table.counts[key], table.counts["categories_nodes"]):
            raise InvalidInputError(
                f"{key!r} and 'categories_nodes' differ in length; the model is damaged"
            )


def _check_numbers(table: ArrayTable, n_outputs: int) -> None:
    """Refuse what XGBoost itself goes by where it disagrees with the arrays."""
    expected = {
        "id": (np.arange(table.n_objects),),
        "num_nodes": (table.counts["left_children"],),
        "size_leaf_vector": (0, 1, n_outputs),
    }
    for name, allowed in expected.items():
        stored = table.numbers[name]
        agree = stored == ABSENT
        for value in allowed:
            agree |= stored == value
        if name == "size_leaf_vector" and len(stored):
            agree &= stored == stored[0]
        if not agree.all():
            raise InvalidInputError(f"{name!r} does not match the trees; the model is damaged")


def _stored_nodes(table: ArrayTable) -> _StoredNodes:
    n_nodes = table.counts["left_children"]
    start = np.cumsum(n_nodes) - n_nodes
    tree = np.repeat(np.arange(table.n_objects), n_nodes)
    offset = np.repeat(start, n_nodes)
    left = _integers(table, "left_children").astype(np.int64)
    right = _integers(table, "right_children").astype(np.int64)
    is_leaf = left == -1
    size = np.repeat(n_nodes, n_nodes)
    # -1 marks children outside the tree; deleted nodes may have any.
    left = np.where((left > 0) & (left < size), left + offset, -1)
    right = np.where((right > 0) & (right < size), right + offset, -1)
    return _StoredNodes(tree, start, left, right, is_leaf)


def _reachable(stored: _StoredNodes) -> Integers:
    """Positions of the nodes that the roots lead to, tree by tree, parents first."""
    n_stored = len(stored.tree)
    frontier = stored.root
    levels = [frontier]
    n_reached = len(frontier)
    while len(frontier):
        inner = frontier[~stored.is_leaf[frontier]]
        frontier = np.concatenate([stored.left[inner], stored.right[inner]])
        n_reached += len(frontier)
        if np.any(frontier < 0) or n_reached > n_stored:
            raise InvalidInputError("a node's child is not in its tree; the model is damaged")
        levels.append(frontier)
    reached = np.concatenate(levels)
    if np.bincount(reached, minlength=1).max(initial=0) > 1:
        raise InvalidInputError("a node is the child of two nodes; the model is damaged")
    # Level by level, so a stable sort by tree keeps parents before their children.
    return reached[np.argsort(stored.tree[reached], kind="stable")]


def _check_parents(table: ArrayTable, stored: _StoredNodes, order: Integers) -> None:
    """Refuse nodes whose parent is another one: XGBoost walks down and up again."""
    parent = _integers(table, "parents")
    if parent.size == 0:
        return
    offset = stored.root[stored.tree]
    inner = order[~stored.is_leaf[order]]
    agree = np.isin(parent[stored.root], _NO_PARENT).all()
    for child in (stored.left[inner], stored.right[inner]):
        agree &= np.array_equal(parent[child], inner - offset[inner])
    if not agree:
        raise InvalidInputError("'parents' do not match the children; the model is damaged")


def _default_left(table: ArrayTable) -> Mask:
    default_left = _integers(table, "default_left")
    if np.any((default_left != 0) & (default_left != 1)):
        raise InvalidInputError("'default_left' is neither 0 nor 1; the model is damaged")
    return np.asarray(default_left == 1)


def _split_by_code(table: ArrayTable, n_stored: int) -> Mask:
    split_type = _integers(table, "split_type")
    if split_type.size == 0:
        return np.zeros(n_stored, dtype=bool)
    unknown = split_type[(split_type != 0) & (split_type != 1)]
    if len(unknown):
        raise UnsupportedModelError(
            f"unknown kind of split {int(unknown[0])} in the XGBoost model; expected 0 (numeric) "
            "or 1 (categorical)"
        )
    return np.asarray(split_type == 1)


def _category_sets(
    table: ArrayTable,
    stored: _StoredNodes,
    position: npt.NDArray[np.int32],
    by_code: Mask,
) -> _CategorySets:
    count = table.counts["categories_nodes"]
    node = _integers(table, "categories_nodes").astype(np.int64)
    sizes = _integers(table, "categories_sizes").astype(np.int64)
    segments = _integers(table, "categories_segments").astype(np.int64)
    codes = _integers(table, "categories").astype(np.int64)
    n_listed = table.counts["categories"]
    outside = (node < 0) | (node >= np.repeat(table.counts["left_children"], count))
    # Sets lie one behind the other: no code is listed for two of them.
    total = np.concatenate([[0], np.cumsum(sizes)])
    end = total[1:] - np.repeat(total[np.cumsum(count) - count], count)
    misplaced = (sizes < 0) | (sizes > len(codes)) | (segments != end - sizes)
    misplaced |= end > np.repeat(n_listed, count)
    if np.any(outside) or np.any(misplaced) or np.any((codes < 0) | (codes > _MOST_CODES)):
        raise InvalidInputError("a category set does not match its tree; the model is damaged")
    node = position[node + np.repeat(stored.root, count)].astype(np.int64)
    used = node >= 0
    used[used] = by_code[node[used]]
    if not np.array_equal(np.sort(node[used]), np.flatnonzero(by_code)):
        raise InvalidInputError("a categorical split has no category set; the model is damaged")
    first = (segments + np.repeat(np.cumsum(n_listed) - n_listed, count))[used]
    sizes = sizes[used]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return _CategorySets(np.repeat(node[used], sizes), codes[np.repeat(first, sizes) + within])


def _count_codes(
    sets: _CategorySets,
    feature: npt.NDArray[np.int32],
    numeric: Mask,
    is_categorical: Sequence[bool],
    n_codes: Sequence[int],
) -> Integers:
    """Codes a feature distinguishes: labelled ones and those in a set; -1 where numeric."""
    counts = np.where(is_categorical, np.asarray(n_codes, dtype=np.int64), -1)
    np.maximum.at(counts, feature[sets.node], sets.code + 1)
    mixed = np.unique(feature[numeric & (counts[feature] >= 0)])
    if len(mixed):
        raise UnsupportedModelError(
            f"feature {int(mixed[0])} of the XGBoost model is categorical, but a split treats it "
            "as a number"
        )
    return counts


def _category_tables(
    sets: _CategorySets,
    feature: npt.NDArray[np.int32],
    by_code: Mask,
    n_codes: Integers,
) -> tuple[Integers, Mask]:
    # One entry more than codes: XGBoost sends every code outside the set left.
    width = np.where(by_code, n_codes[feature] + 1, 0)
    check_category_tables(int(width.sum()))
    end = np.cumsum(width)
    category_ptr = np.where(by_code, end - width, NUMERIC_NODE)
    category_left = np.ones(int(end[-1]) if len(end) else 0, dtype=bool)
    category_left[category_ptr[sets.node] + sets.code] = False
    return category_ptr, category_left


def _leaf_values(
    table: ArrayTable,
    stored: _StoredNodes,
    order: Integers,
    condition: npt.NDArray[np.float32],
    n_outputs: int,
) -> npt.NDArray[np.float32]:
    is_leaf = stored.is_leaf[order]
    n_weights = table.counts["leaf_weights"]
    if n_outputs > 1 and n_weights.any():
        row = _integers(table, "right_children").astype(np.int64)[order]
        tree = stored.tree[order]
        wrong = is_leaf & ((row < 0) | (row >= n_weights[tree] // n_outputs))
        if np.any(n_weights % n_outputs) or np.any(wrong):
            raise InvalidInputError("'leaf_weights' do not match the leaves; the model is damaged")
        row += (np.cumsum(n_weights) - n_weights)[tree] // n_outputs
        vectors = singles(_numbers(table, "leaf_weights")).reshape(-1, n_outputs)
        return np.where(is_leaf[:, None], vectors[np.where(is_leaf, row, 0)], np.float32(0))
    # Before 3.2, vector leaves stand among the vectors of all nodes.
    n_vectors = table.counts["base_weights"]
    if n_outputs > 1 and np.array_equal(n_vectors, table.counts["left_children"] * n_outputs):
        vectors = singles(_numbers(table, "base_weights")).reshape(-1, n_outputs)
        return np.where(is_leaf[:, None], vectors[order], np.float32(0))
    return np.where(is_leaf, condition, np.float32(0))[:, None]


def _cover(table: ArrayTable, inner: Mask, order: Integers) -> Array | None:
    weight = singles(_numbers(table, "sum_hessian"))
    return np.where(inner, 0.0, weight[order].astype(np.float64)) if weight.size else None
