"""Node arrays shared by the two tree layouts of scikit-learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import LEAF
from treepurify.typing import Array, Integers, Mask

__all__ = [
    "FlatNodes",
    "check_fields",
    "flat_nodes",
]


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
        Left and right child, counted within the tree; anything at leaves.
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
    offset = np.repeat(tree_ptr[:-1].astype(np.int32), sizes)
    left, right = (np.where(inner, child + offset, np.int32(LEAF)) for child in children)
    del offset
    missing_left = missing_left & inner
    only_missing = inner & (cut == np.inf)

    saw_missing = np.zeros(n_features, dtype=np.bool_)
    # Where no training row of a node lacks the value, missing values follow the larger child.
    unexpected = inner & (missing_left != (count[left] > count[right]))
    saw_missing[feature[unexpected | only_missing]] = True

    # "x < inf" would send x = inf the wrong way, so such splits are turned round: no value
    # is below -inf, and those that are not missing go to the (new) right.
    return FlatNodes(
        tree_ptr=tree_ptr,
        feature=np.where(inner, feature, LEAF).astype(np.int32, copy=False),
        cut=np.where(only_missing, -np.inf, cut),
        left=np.where(only_missing, right, left).astype(np.int32, copy=False),
        right=np.where(only_missing, left, right).astype(np.int32, copy=False),
        missing_left=missing_left ^ only_missing,
        saw_missing=saw_missing,
        cover=None if weight is None else np.where(inner, 0.0, weight),
    )
