"""The canonical form of a tree ensemble: flat arrays over all nodes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.along import add_steps_along
from treepurify._kernels.traverse import add_leaf_values
from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.models.parsed import ModelSource, ParsedModel
from treepurify.origin import ModelFacts, array_fingerprint
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.threads import map_threads
from treepurify.typing import Array, Floats, Indices, Integers, Mask

LEAF = -1
NUMERIC_NODE = -1
VECTOR_LEAF = -1
_ROWS_A_BLOCK = 8192
# The steps of some rows along a feature stay in the cache of a core.
_STEPS_A_BLOCK = 1 << 17


class _Walk(NamedTuple):
    """How rows go from node to node without branches.

    Parameters
    ----------
    n_levels : ndarray of int64, shape (n_trees,)
        So many levels of a tree are worth going down with all rows, whether or not a row has come
        to a leaf: few rows go on below twice the depth of a balanced tree. Zero for a tree that
        tests categories.
    tested : ndarray of uint32, shape (n_nodes,)
        Feature that a node tests; any at leaves.
    child : ndarray of uint32, shape (n_nodes, 2)
        The right child and then the left one. A leaf is its own child.
    """

    n_levels: Integers
    tested: npt.NDArray[np.uint32]
    child: npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False, repr=False)
class TreeEnsemble(ParsedModel):
    """A sum of decision trees on the margin scale.

    A row starts at node ``tree_ptr[t]`` of tree ``t``. At a numeric node it goes left iff
    ``float64(x) < cut``, a missing value iff ``missing_left``. At a categorical node code
    ``c`` goes left iff ``category_left[category_ptr[node] + c]``; the entry at
    ``c = n_codes`` is the direction of every code the model does not know.

    Parameters
    ----------
    tree_ptr : ndarray of int64, shape (n_trees + 1,)
        First node of each tree, which is its root; the last entry is the number of nodes.
    feature : ndarray of int32, shape (n_nodes,)
        Feature tested at the node; -1 marks a leaf.
    cut : ndarray of float64, shape (n_nodes,)
        Cut of numeric nodes; NaN elsewhere.
    left, right : ndarray of int32, shape (n_nodes,)
        Children as positions in these flat arrays; -1 at leaves.
    missing_left : ndarray of bool, shape (n_nodes,)
        Whether missing values go left.
    category_ptr : ndarray of int64, shape (n_nodes,)
        Offset of a categorical node's table in `category_left`; -1 at other nodes.
    category_left : ndarray of bool
        Tables of ``n_codes + 1`` entries, one per categorical node.
    value : ndarray of float64, shape (n_nodes, n_values)
        Leaf values with learning rate, dropout weight and averaging folded in; 0 at inner
        nodes. ``n_values`` is 1 where every tree feeds one output, else ``n_outputs``.
    tree_output : ndarray of int32, shape (n_trees,)
        Output that the tree feeds; -1 where leaves hold one value per output.
    base : ndarray of float64, shape (n_outputs,)
        Constant on the margin scale.
    features : tuple of FeatureSpec
        The features, in the order of the model.
    output_names : tuple of str
        One name per output: class labels, target names, or ``("margin",)``.
    link : Link
        From the margin to the response.
    source : ModelSource
        Library, version and kind.
    accumulation : {"float64", "float32"}
        Type in which the library itself adds leaves up, in tree order from the base.
    has_feature_names : bool
        Whether the names come from the user's training table.
    cover : ndarray of float64, shape (n_nodes,), optional
        Weight of the training rows in each leaf, as the library counts them; 0 at inner
        nodes. None where the model does not say.
    """

    tree_ptr: Integers
    feature: npt.NDArray[np.int32]
    cut: Array
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    missing_left: Mask
    category_ptr: Integers
    category_left: Mask
    value: Array
    tree_output: npt.NDArray[np.int32]
    base: Array
    features: tuple[FeatureSpec, ...]
    output_names: tuple[str, ...]
    link: Link
    source: ModelSource
    accumulation: Literal["float64", "float32"] = "float64"
    has_feature_names: bool = False
    cover: Array | None = None

    def __post_init__(self) -> None:
        _check_structure(self)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_ptr) - 1

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return int(np.sum(self.feature < 0))

    @property
    def depth(self) -> int:
        """Largest number of tests on the way to a leaf."""
        deepest = 0
        roots = self.tree_ptr[:-1]
        parents = roots[self.feature[roots] >= 0]
        while len(parents):
            deepest += 1
            children = np.concatenate([self.left[parents], self.right[parents]])
            parents = children[self.feature[children] >= 0]
        return deepest

    @cached_property
    def used_features(self) -> tuple[int, ...]:
        """Positions of the features that the trees test, increasing."""
        return tuple(np.unique(self.feature[self.feature >= 0]).tolist())

    def of_features(self, positions: tuple[int, ...]) -> "TreeEnsemble":
        """Return the same trees of some features, among them all that they test."""
        features = tuple(self.features[j] for j in positions)
        return replace(self, feature=self._places(positions), features=features)

    def part_along(self, positions: tuple[int, ...]) -> "TreeEnsemble":
        """Return the trees that test all of some features, without the base.

        Mixed differences along these features are those of the whole ensemble.
        """
        tree = np.repeat(np.arange(self.n_trees), np.diff(self.tree_ptr))
        is_kept = np.ones(self.n_trees, dtype=bool)
        for j in positions:
            is_kept &= np.bincount(tree[self.feature == j], minlength=self.n_trees) > 0
        nodes = is_kept[tree]
        place = np.cumsum(nodes, dtype=np.int32) - 1
        feature = self.feature[nodes]
        left, right = (
            np.where(feature >= 0, place[child[nodes]], LEAF).astype(np.int32)
            for child in (self.left, self.right)
        )
        return replace(
            self,
            tree_ptr=np.concatenate([[0], np.cumsum(np.diff(self.tree_ptr)[is_kept])]),
            feature=feature,
            cut=self.cut[nodes],
            left=left,
            right=right,
            missing_left=self.missing_left[nodes],
            category_ptr=self.category_ptr[nodes],
            value=self.value[nodes],
            tree_output=self.tree_output[is_kept],
            base=np.zeros_like(self.base),
            cover=None if self.cover is None else self.cover[nodes],
        )

    def facts(self) -> ModelFacts:
        """Return library, version, kind, notes, the number of trees, and the fingerprint."""
        return replace(self.source.facts(), trees=self.n_trees, sha256=self.fingerprint())

    def fingerprint(self) -> str:
        """Return the SHA-256 of the nodes, the leaves and the base; names do not count."""
        nodes = (self.tree_ptr, self.feature, self.cut, self.left, self.right, self.missing_left)
        categories = (self.category_ptr, self.category_left)
        return array_fingerprint((*nodes, *categories, self.value, self.tree_output, self.base))

    def leaves_in_trees(self) -> Indices:
        """Return the number of leaves of each tree."""
        leaves_before = np.concatenate([[0], np.cumsum(self.feature < 0)])
        return np.diff(leaves_before[self.tree_ptr])

    @cached_property
    def walk(self) -> _Walk:
        """The nodes as `add_leaf_values` takes them, with rows of the used features alone."""
        is_categorical = self.category_ptr >= 0
        return _lay_out_walk(
            self.tree_ptr, self._places(self.used_features), self.left, self.right, is_categorical
        )

    def _places(self, positions: tuple[int, ...]) -> npt.NDArray[np.int32]:
        """Return which of some features, in increasing order, each node tests; -1 at leaves."""
        places = np.searchsorted(positions, self.feature)
        return np.where(self.feature >= 0, places, LEAF).astype(np.int32)

    def parents(self) -> npt.NDArray[np.int32]:
        """Return the node above each node; -1 for roots."""
        parent = np.full(len(self.left), -1, dtype=np.int32)
        inner = np.flatnonzero(self.feature >= 0)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return parent

    def margin(self, X: Any, *, precision: Literal["library", "float64"] = "library") -> Array:
        """Return the raw prediction, before the inverse link.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.
        precision : {"library", "float64"}
            ``"library"`` adds leaves in the library's own type and order and so repeats
            its rounding; ``"float64"`` adds the same leaves in double precision, which is
            what is purified.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_outputs)
            Margins.

        Raises
        ------
        InvalidInputError
            If the columns do not fit the model.
        """
        columns = self.columns(X).of_features(self.used_features)
        single = precision == "library" and self.accumulation == "float32"
        total = np.empty((columns.n_rows, self.n_outputs))
        total[:] = self.base.astype(np.float32) if single else self.base

        walk = self.walk

        def add_block(start: int) -> None:
            matrix = columns.matrix(start, start + _ROWS_A_BLOCK)
            add_leaf_values(
                matrix,
                self.tree_ptr,
                *walk,
                self.cut,
                self.missing_left,
                self.category_ptr,
                self.category_left,
                self.value,
                self.tree_output,
                single,
                np.empty(len(matrix), dtype=np.uint32),
                total[start : start + _ROWS_A_BLOCK],
            )

        map_threads(add_block, range(0, columns.n_rows, _ROWS_A_BLOCK))
        return total

    def margin_along(self, columns: Columns, feature: int, values: Floats) -> Array:
        """Return the margin, in double precision, where a feature has each of some values.

        Parameters
        ----------
        columns : Columns
            The rows, whose own values of the feature do not count.
        feature : int
            Position of the feature.
        values : ndarray of shape (n_values,)
            Its values: numbers, or codes of categories; NaN is missing.

        Returns
        -------
        ndarray of float64, shape (n_values, n_rows, n_outputs)
            Margins.
        """
        order = np.argsort(values, kind="stable")
        along = values[order].astype(np.float64)
        margins = np.empty((len(along), columns.n_rows, self.n_outputs))
        if feature not in self.used_features:
            margins[:] = self.margin(columns, precision="float64")
            return margins
        used = columns.of_features(self.used_features)
        n_numbers = int(np.count_nonzero(~np.isnan(along)))
        turn = np.searchsorted(along[:n_numbers], self.cut)
        walk = self.walk

        def add_block(rows: slice) -> None:
            matrix = used.matrix(rows.start, rows.stop)
            steps = np.zeros((len(matrix), self.n_outputs, len(along) + 1))
            add_steps_along(
                matrix,
                self.used_features.index(feature),
                along,
                n_numbers,
                turn,
                self.tree_ptr,
                walk.tested,
                walk.child,
                self.cut,
                self.missing_left,
                self.category_ptr,
                self.category_left,
                self.value,
                self.tree_output,
                np.empty((len(along), 3), dtype=np.int64),
                steps,
            )
            np.cumsum(steps, axis=2, out=steps)
            margins[order, rows] = self.base + steps[:, :, :-1].transpose(2, 0, 1)

        size = max(_STEPS_A_BLOCK // (self.n_outputs * (len(along) + 1)), 1)
        map_threads(add_block, [slice(at, at + size) for at in range(0, columns.n_rows, size)])
        return margins


def without_missing_codes(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Send categories whose codes count as missing where missing values go.

    No row has such a code, but cells of categories are stepped through, drawn and weighted.
    """
    left = ensemble.category_left.copy()
    for j, spec in enumerate(ensemble.features):
        nodes = np.flatnonzero((ensemble.feature == j) & (ensemble.category_ptr >= 0))
        for code in np.flatnonzero(spec.counts_as_missing(np.arange(float(spec.n_codes)))):
            left[ensemble.category_ptr[nodes] + code] = ensemble.missing_left[nodes]
    return replace(ensemble, category_left=left)


def _check_structure(ensemble: TreeEnsemble) -> None:
    """Refuse node tables that a traversal could run out of; files can be damaged."""
    n_nodes = len(ensemble.feature)
    by_node = ("cut", "left", "right", "missing_left", "category_ptr", "value")
    if any(len(getattr(ensemble, name)) != n_nodes for name in by_node):
        raise UnsupportedModelError("the model is damaged: its node tables differ in length")
    if ensemble.cover is not None and ensemble.cover.shape != (n_nodes,):
        raise UnsupportedModelError(
            "the model is damaged: the number of node weights differs from the number of nodes"
        )
    inner = ensemble.feature >= 0
    problems = []
    if len(ensemble.tree_output) != ensemble.n_trees or int(ensemble.tree_ptr[0]) != 0:
        problems.append("the first tree does not start at the first node, or trees are missing")
    n_values = ensemble.n_outputs if np.any(ensemble.tree_output < 0) else 1
    if ensemble.value.ndim != 2 or ensemble.value.shape[1] < n_values:
        problems.append("the leaves do not have one value per output")
    if int(ensemble.tree_ptr[-1]) != n_nodes or np.any(np.diff(ensemble.tree_ptr) < 1):
        problems.append("tree boundaries do not cover the nodes")
    if np.any(ensemble.feature >= ensemble.n_features):
        problems.append("a split uses a feature the model does not list")
    problems += _child_problems(ensemble)
    if not np.all(np.isfinite(ensemble.value)) or not np.all(np.isfinite(ensemble.base)):
        problems.append("a leaf value or the base is not finite")
    numeric = inner & (ensemble.category_ptr < 0)
    if np.any(np.isnan(ensemble.cut[numeric])):
        problems.append("a cut is NaN")
    n_codes = np.array([spec.n_codes for spec in ensemble.features], dtype=np.int64)
    tables = inner & ~numeric
    ends = ensemble.category_ptr[tables] + n_codes[ensemble.feature[tables]] + 1
    if np.any(ends > len(ensemble.category_left)):
        problems.append("a list of categories is longer than the stored data")
    if np.any(ensemble.tree_output >= ensemble.n_outputs):
        problems.append("a tree contributes to an output that does not exist")
    if len(ensemble.output_names) != ensemble.n_outputs:
        problems.append("the number of output names differs from the number of outputs")
    if problems:
        raise UnsupportedModelError(
            f"the {ensemble.source.library} model is damaged or of an unknown layout: "
            + "; ".join(problems)
        )


def _child_problems(ensemble: TreeEnsemble) -> list[str]:
    position = np.flatnonzero(ensemble.feature >= 0)
    for child in (ensemble.left[position], ensemble.right[position]):
        # Children after their parents: every walk ends.
        if np.any(child <= position) or np.any(child >= len(ensemble.feature)):
            return ["a node is listed before its parent"]
    children = np.concatenate([ensemble.left[position], ensemble.right[position]])
    # Or there could be far more ways down a tree than nodes.
    if np.bincount(children).max(initial=0) > 1:
        return ["a node is a child twice"]
    return []


def _lay_out_walk(
    tree_ptr: Integers,
    feature: npt.NDArray[np.int32],
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    has_categories: Mask,
) -> _Walk:
    """Return this form of the nodes, of which some may test categories; see `TreeEnsemble`."""
    is_inner = feature >= 0
    n_nodes = np.diff(tree_ptr)
    tree = np.repeat(np.arange(len(n_nodes)), n_nodes)
    # A tree of n leaves has n - 1 other nodes.
    most = 2 * np.ceil(np.log2((n_nodes + 1) // 2)).astype(np.int64)
    most[tree[has_categories]] = 0
    n_levels = np.zeros(len(n_nodes), dtype=np.int64)
    nodes, depth = tree_ptr[:-1], 0
    while len(nodes := nodes[is_inner[nodes] & (most[tree[nodes]] > depth)]):
        depth += 1
        n_levels[tree[nodes]] = depth
        nodes = np.concatenate([left[nodes], right[nodes]])
    child = np.repeat(np.arange(len(feature), dtype=np.uint32)[:, None], 2, axis=1)
    child[is_inner, 0], child[is_inner, 1] = right[is_inner], left[is_inner]
    return _Walk(n_levels, np.maximum(feature, 0).astype(np.uint32), child)
