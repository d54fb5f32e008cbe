"""Node arrays shared by the two tree layouts of scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import LEAF
from treepurify.typing import Array, Integers, Mask

_NODES_A_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class FlatNodes:
    """The splits of all trees, as `TreeEnsemble` stores them.

    Parameters
    ----------
    tree_ptr, feature, cut, left, right, missing_left : ndarray
        See `TreeEnsemble`.
    saw_missing : ndarray of bool, shape (n_features,)
        Whether a split on the feature proves that training rows lacked its value.
    cover : ndarray of float64, shape (n_nodes,), optional
        See `TreeEnsemble`.
    """

    tree_ptr: Integers
    feature: npt.NDArray[np.int32]
    cut: Array
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    missing_left: Mask
    saw_missing: Mask
    cover: Array | None


def check_fields(
    names: tuple[str, ...] | None, required: frozenset[str], optional: frozenset[str]
) -> None:
    """Refuse a node layout with fields we cannot read: they may change the prediction.

    Raises
    ------
    UnsupportedModelError
        If a field is missing or not known; names the fields.
    """
    fields = frozenset(names or ())
    missing = sorted(required - fields)
    unknown = sorted(fields - required - optional)
    if missing or unknown:
        raise UnsupportedModelError(
            "the trees of this scikit-learn version have an unknown node layout "
            f"(missing fields: {missing or 'none'}; unknown fields: {unknown or 'none'}). "
            "Train the model with scikit-learn 1.2 to 1.9, or update treepurify."
        )


def flat_nodes(
    sizes: Integers,
    feature: npt.NDArray[Any],
    cut: Array,
    children: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    missing_left: Mask,
    count: npt.NDArray[Any],
    weight: npt.NDArray[Any] | None,
    n_features: int,
) -> FlatNodes:
    """Join the nodes of all trees.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_trees,)
        Number of nodes of each tree.
    feature : ndarray of int, shape (n_nodes,)
        Feature of each node; negative at leaves.
    cut : ndarray of float64, shape (n_nodes,)
        Cut of each numeric split, NaN elsewhere. An infinite cut parts the missing values,
        which go right, from all others.
    children : tuple of two ndarray of int, shape (n_nodes,)
        Left and right child, counted within the tree; anything at leaves. They are written to:
        forests of ten million nodes are read, and every copy takes much memory.
    missing_left : ndarray of bool, shape (n_nodes,)
        Whether missing values go left.
    count : ndarray of int, shape (n_nodes,)
        Number of training rows in each node.
    weight : ndarray of shape (n_nodes,), optional
        Weight of the training rows in each node, where it is known.
    n_features : int
        Number of features.

    Returns
    -------
    FlatNodes
    """
    tree_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    inner = feature >= 0
    leaf = ~inner
    offset = np.repeat(tree_ptr[:-1].astype(np.int32), sizes)
    for child in children:
        np.add(child, offset, out=child)
        child[leaf] = LEAF
    del offset
    left, right = (child.astype(np.int32, copy=False) for child in children)
    missing_left = missing_left & inner
    only_missing = inner & (cut == np.inf)
    saw_missing = np.zeros(n_features, dtype=np.bool_)
    saw_missing[feature[only_missing]] = True
    for start in range(0, len(feature), _NODES_A_BLOCK):
        block = slice(start, start + _NODES_A_BLOCK)
        # Where no training row of a node lacks the value, missing values follow the larger child.
        unexpected = missing_left[block] != (count[left[block]] > count[right[block]])
        saw_missing[feature[block][inner[block] & unexpected]] = True
    del count
    if only_missing.any():
        # "x < inf" would send x = inf the wrong way, so such splits are turned round: no value
        # is below -inf, and those that are not missing go to the (new) right.
        cut = np.where(only_missing, -np.inf, cut)
        left, right = np.where(only_missing, right, left), np.where(only_missing, left, right)
        missing_left ^= only_missing
    if feature.min(initial=LEAF) < LEAF:
        feature = np.where(inner, feature, LEAF)
    return FlatNodes(
        tree_ptr=tree_ptr,
        feature=feature.astype(np.int32, copy=False),
        cut=cut,
        left=left,
        right=right,
        missing_left=missing_left,
        saw_missing=saw_missing,
        cover=None if weight is None else np.where(inner, 0.0, weight),
    )
