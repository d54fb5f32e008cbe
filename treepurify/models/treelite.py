"""Read Treelite's models, which cuML and other libraries export; asked for their fields only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link, LinkName
from treepurify.models.cuts import (
    cut_at_most_double,
    cut_at_most_single,
    cut_below_single,
)
from treepurify.models.ensemble import (
    LEAF,
    NUMERIC_NODE,
    VECTOR_LEAF,
    TreeEnsemble,
)
from treepurify.models.limits import check_category_tables, check_features, check_outputs
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array, Integers, Mask

# Its numbers for kinds of nodes and comparisons.
_LEAF_NODE, _NUMERIC_NODE, _CATEGORICAL_NODE = 0, 1, 2
_LESS, _AT_MOST = 2, 3
# A test for more is one for at most with its children exchanged.
_TURNED = {4: _AT_MOST, 5: _LESS}
_LINKS: dict[str, LinkName] = {
    "identity": "identity",
    "identity_multiclass": "identity",
    "sigmoid": "logit",
    "multiclass_ova": "logit",
    "exponential": "log",
    "softmax": "softmax",
    "hinge": "step",
    "signed_square": "sqrt",
    "logarithm_one_plus_exp": "softplus",
    # A score of isolation forests with the other sign.
    "exponential_standard_ratio": "unknown",
}


def parse(model: Any) -> TreeEnsemble:
    """Read a Treelite model.

    Its margin is what Treelite calls so: ``treelite.gtil.predict(model, X, pred_margin=True)``,
    with an output for each class of several and for each target.

    Parameters
    ----------
    model : treelite.Model
        Of any library that it was made from. Treelite keeps the codes of categories without their
        labels, so rows have codes, too.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If it has comparisons or a post-processing that are not known, or tests a column both by
        number and by category.
    InvalidInputError
        If it has no trees.
    """
    if type(model).__name__ != "Model":
        raise UnsupportedModelError(
            f"expected a Treelite model (treelite.Model), got {type(model).__name__}"
        )
    if model.num_tree == 0:
        raise InvalidInputError("this Treelite model has no trees")
    header = model.get_header_accessor()
    n_classes = header.get_field("num_class")
    if len(n_classes) > 1 and np.any(n_classes > 1):
        raise UnsupportedModelError(
            "the Treelite model has several targets of several classes each, which is not supported"
        )
    n_outputs, n_features = int(n_classes.sum()), int(header.get_field("num_feature")[0])
    check_features(n_features)
    check_outputs(n_outputs, model.num_tree)
    trees = [_Tree(model.get_tree_accessor(t)) for t in range(model.num_tree)]
    sizes = [len(tree.feature) for tree in trees]
    tree_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    offset = np.repeat(tree_ptr[:-1], sizes)
    feature = np.concatenate([tree.feature for tree in trees]).astype(np.int32)
    inner = feature >= 0
    left = np.concatenate([tree.left for tree in trees]) + offset
    right = np.concatenate([tree.right for tree in trees]) + offset
    n_values = int(np.prod(header.get_field("leaf_vector_shape")))
    output = _tree_output(header, len(trees), n_values)
    share = np.repeat(_share(header, output), sizes)
    value = np.concatenate([tree.leaves(n_values) for tree in trees])
    n_codes = _count_codes(trees, n_features)
    category_ptr, category_left = _category_tables(trees, n_codes)
    return TreeEnsemble(
        tree_ptr=tree_ptr,
        feature=feature,
        cut=np.concatenate([tree.cut for tree in trees]),
        left=np.where(inner, left, LEAF).astype(np.int32),
        right=np.where(inner, right, LEAF).astype(np.int32),
        missing_left=np.concatenate([tree.missing_left for tree in trees]) & inner,
        category_ptr=category_ptr,
        category_left=category_left,
        value=np.where(inner, 0.0, share)[:, None] * value,
        tree_output=output,
        base=np.asarray(header.get_field("base_scores"), dtype=np.float64),
        features=tuple(
            FeatureSpec(f"x{j}", "categorical" if n else "numeric", n_codes=int(n))
            for j, n in enumerate(n_codes)
        ),
        output_names=("margin",) if n_outputs == 1 else tuple(map(str, range(n_outputs))),
        link=_link(header),
        source=ModelSource("treelite", _version(header), "Treelite model"),
        # It adds the base last, so that the last bits of single precision may differ.
        accumulation="float32" if model.output_type == "float32" else "float64",
    )


def _count_codes(trees: Sequence["_Tree"], n_features: int) -> Integers:
    """Return how many codes each feature has that is tested by category; 0 of others."""
    n_codes = np.zeros(n_features, dtype=np.int64)
    by_number = np.zeros(n_features, dtype=np.bool_)
    for tree in trees:
        by_number[tree.feature[(tree.feature >= 0) & ~tree.is_categorical]] = True
        for node in np.flatnonzero(tree.is_categorical).tolist():
            feature = tree.feature[node]
            n_codes[feature] = max(n_codes[feature], 1, *(tree.listed(node) + 1).tolist())
    if both := np.flatnonzero(by_number & (n_codes > 0)).tolist():
        raise UnsupportedModelError(
            f"the Treelite model tests column {both[0]} both as a number and as a category, "
            "which is not supported"
        )
    return n_codes


def _category_tables(trees: Sequence["_Tree"], n_codes: Integers) -> tuple[Integers, Mask]:
    """Return where the table of each node begins, and which codes go left; unknown ones last."""
    is_categorical = np.concatenate([tree.is_categorical for tree in trees])
    tested = np.concatenate([tree.feature for tree in trees])[is_categorical]
    ends = np.cumsum(n_codes[tested] + 1)
    check_category_tables(int(ends[-1]) if len(ends) else 0)
    pointer = np.full(len(is_categorical), NUMERIC_NODE, dtype=np.int64)
    pointer[is_categorical] = ends - n_codes[tested] - 1
    tables = [
        tree.codes_left(node, int(n_codes[tree.feature[node]]))
        for tree in trees
        for node in np.flatnonzero(tree.is_categorical).tolist()
    ]
    return pointer, np.concatenate([np.zeros(0, dtype=np.bool_), *tables])


def _version(header: Any) -> str:
    parts = (header.get_field(f"{part}_ver") for part in ("major", "minor", "patch"))
    return ".".join(str(int(part[0])) for part in parts)


def _link(header: Any) -> Link:
    name = header.get_field("postprocessor")
    if name not in _LINKS:
        raise UnsupportedModelError(
            f"the Treelite model has the postprocessor {name!r}, which is not supported. "
            f"Supported: {', '.join(sorted(_LINKS))}"
        )
    scale = float(header.get_field("sigmoid_alpha")[0]) if _LINKS[name] == "logit" else 1.0
    return Link(_LINKS[name], scale)


def _tree_output(header: Any, n_trees: int, n_values: int) -> npt.NDArray[np.int32]:
    """Return which output each tree feeds, with one target or one class."""
    if n_values > 1:
        return np.full(n_trees, VECTOR_LEAF, dtype=np.int32)
    output = np.asarray(header.get_field("target_id") + header.get_field("class_id"), np.int32)
    if len(output) != n_trees or np.any(output < 0):
        raise UnsupportedModelError(
            "the Treelite model does not state which output a tree contributes to"
        )
    return output


def _share(header: Any, output: npt.NDArray[np.int32]) -> Array:
    """Return by what the leaves of each tree are multiplied: means are over trees of an output."""
    if not header.get_field("average_tree_output")[0]:
        return np.ones(len(output))
    _, which, n_trees = np.unique(output, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / n_trees[which])


def _cuts(threshold: npt.NDArray[Any], comparison: npt.NDArray[Any]) -> Array:
    if threshold.dtype == np.float32:
        below, at_most = cut_below_single(threshold), cut_at_most_single(threshold)
    else:
        below, at_most = threshold, cut_at_most_double(threshold)
    return np.where(comparison == _LESS, below, at_most)


def raw_margin(model: Any, X: Any) -> Array:
    """Return the margin that Treelite's own library for predictions computes.

    Parameters
    ----------
    model : treelite.Model
        A model that `parse` reads.
    X : array_like or table of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
    """
    from treelite import gtil

    columns = parse(model).columns(X)
    rows = columns.matrix(0, columns.n_rows)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, dtype=model.input_type)
    margin = np.asarray(gtil.predict(model, rows, pred_margin=True), dtype=np.float64)
    return margin.reshape(len(rows), -1)


class _Tree:
    """The fields of one tree, with each test turned round that is not ``<`` or ``<=``."""

    def __init__(self, accessor: Any) -> None:
        kind = accessor.get_field("node_type")
        self.is_categorical = kind == _CATEGORICAL_NODE
        numeric = kind == _NUMERIC_NODE
        inner = numeric | self.is_categorical
        if unknown := set(kind[~inner].tolist()) - {_LEAF_NODE}:
            raise UnsupportedModelError(
                f"the Treelite model has nodes of the unknown kind {unknown.pop()}"
            )
        comparison = accessor.get_field("cmp")
        turned = numeric & np.isin(comparison, list(_TURNED))
        for number, other_way in _TURNED.items():
            comparison = np.where(comparison == number, other_way, comparison)
        if unknown := set(comparison[numeric].tolist()) - {_LESS, _AT_MOST}:
            raise UnsupportedModelError(
                f"the Treelite model compares by operator {unknown.pop()}, which is not supported"
            )
        # No number is less than the least: at most infinity is that with its children exchanged.
        is_any = numeric & (comparison == _AT_MOST) & np.isposinf(accessor.get_field("threshold"))
        turned = turned ^ is_any
        cut = np.where(is_any, -np.inf, _cuts(accessor.get_field("threshold"), comparison))
        self.feature = np.where(inner, accessor.get_field("split_index"), LEAF)
        self.missing_left = (accessor.get_field("default_left") != 0) ^ turned
        children = accessor.get_field("cleft"), accessor.get_field("cright")
        self.left = np.where(turned, children[1], children[0]).astype(np.int64)
        self.right = np.where(turned, children[0], children[1]).astype(np.int64)
        self.cut = np.where(numeric, cut, np.nan)
        self._accessor = accessor

    def listed(self, node: int) -> Integers:
        """Return the codes that a test by category lists."""
        begin, end = (self._accessor.get_field(f"category_list_{at}") for at in ("begin", "end"))
        codes = self._accessor.get_field("category_list")[int(begin[node]) : int(end[node])]
        return np.asarray(codes, dtype=np.int64)

    def codes_left(self, node: int, n_codes: int) -> Mask:
        """Return which codes go left at a test by category, and whether unknown ones do."""
        lists_right = bool(self._accessor.get_field("category_list_right_child")[node])
        goes_left = np.full(n_codes + 1, lists_right)
        goes_left[self.listed(node)] = not lists_right
        return goes_left

    def leaves(self, n_values: int) -> Array:
        """Return the values of all nodes, of shape (n_nodes, n_values); anything at inner ones."""
        vector = self._accessor.get_field("leaf_vector")
        if n_values == 1 and not len(vector):
            return np.asarray(self._accessor.get_field("leaf_value"), dtype=np.float64)[:, None]
        begin = self._accessor.get_field("leaf_vector_begin").astype(np.int64)
        width = self._accessor.get_field("leaf_vector_end").astype(np.int64) - begin
        if np.any(width[self.feature < 0] != n_values):
            raise UnsupportedModelError(
                "a leaf of the Treelite model lacks values; the model is damaged"
            )
        at = np.where(self.feature < 0, begin, 0)[:, None] + np.arange(n_values)
        return np.asarray(vector, dtype=np.float64)[at]
