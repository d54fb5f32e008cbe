"""Read tree ensembles of ONNX: the operators of ``ai.onnx.ml`` for regression and classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.errors import (
    InvalidInputError,
    MissingDependencyError,
    TreepurifyError,
    UnsupportedModelError,
)
from treepurify.links import Link, LinkName
from treepurify.models.cuts import cut_at_most_double, cut_at_most_single, cut_below_single
from treepurify.models.ensemble import (
    LEAF,
    NUMERIC_NODE,
    VECTOR_LEAF,
    ModelSource,
    TreeEnsemble,
)
from treepurify.models.files import ModelFile
from treepurify.models.json_text import DAMAGE
from treepurify.models.limits import check_features, check_outputs
from treepurify.models.parsed import plain_labels
from treepurify.rows.columns import FeatureSpec
from treepurify.typing import Array, Indices, Mask

__all__ = ["load_file", "parse", "parse_file", "raw_margin"]

_OPERATORS = ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")
# Operators that change neither rows, up to their type, nor scores.
_NEUTRAL = frozenset({"Cast", "Identity", "ZipMap", "ArgMax", "LabelEncoder"})
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ")
# The numbers of the newer operator for the same.
_ALL_MODES = (*_MODES, "BRANCH_NEQ", "BRANCH_MEMBER")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_LINKS: dict[str, LinkName] = {"NONE": "identity", "SOFTMAX": "softmax", "LOGISTIC": "logit"}
# A test for one number is two for less, with a copy of what is behind it.
_MOST_COPIES = 64


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of all trees, whichever operator describes them; `mode` is LEAF at leaves."""

    roots: Sequence[int]
    mode: Sequence[str]
    feature: Indices
    threshold: Array
    missing_true: Mask
    true: Indices
    false: Indices
    weights: Array


def parse_file(file: ModelFile) -> TreeEnsemble | None:
    """Parse a ``.onnx`` file; return None for a file of another extension."""
    return parse(load_file(file.path)) if file.path.suffix.lower() == ".onnx" else None


def load_file(path: Path) -> Any:
    """Return the ``onnx.ModelProto`` in a file.

    Raises
    ------
    MissingDependencyError
        If onnx is not installed.
    InvalidInputError
        If it is no file of ONNX.
    """
    try:
        import onnx
    except ImportError as error:
        raise MissingDependencyError(
            "a .onnx file is read through onnx, which is not installed: "
            "pip install 'treepurify[onnx]'"
        ) from error
    try:
        model = onnx.load(str(path))
    except Exception as error:  # of protobuf, which has no other base
        raise InvalidInputError(f"the file is not an ONNX model: {error}") from error
    return model


def parse(model: Any) -> TreeEnsemble:
    """Read a model of ONNX that is one ensemble of trees.

    Its margin is what the trees and base values add up to, before ``post_transform``. A classifier
    of two classes whose leaves have one score has one output.

    Parameters
    ----------
    model : onnx.ModelProto
        With one ``TreeEnsembleRegressor``, ``TreeEnsembleClassifier`` or ``TreeEnsemble``.

    Returns
    -------
    TreeEnsemble

    Raises
    ------
    UnsupportedModelError
        If operators before or behind the trees change rows or scores, or it has comparisons,
        aggregates or transforms that are no sum of trees.
    """
    try:
        return _ensemble(model, _tree_node(model))
    except TreepurifyError:
        raise
    except DAMAGE as error:
        raise _damaged(f"its nodes are inconsistent ({error!r})") from error


def _ensemble(model: Any, node: Any) -> TreeEnsemble:
    attributes = _attributes(node)
    width, is_single = _input(model, node)
    names = _output_names(node, attributes)
    check_outputs(len(names), len(attributes.get("nodes_featureids", ())))
    read = _new_nodes if node.op_type == "TreeEnsemble" else _old_nodes
    nodes = read(attributes, len(names))
    inner = np.array([mode != "LEAF" for mode in nodes.mode])
    used = nodes.feature[inner]
    n_features = int(used.max(initial=-1)) + 1 if width is None else width
    check_features(n_features, len(used))
    if np.any(used < 0) or np.any(used >= n_features):
        raise _damaged("its nodes test columns that its input does not have")
    if not np.all(np.isfinite(nodes.threshold[inner])) or not np.all(np.isfinite(nodes.weights)):
        raise UnsupportedModelError(
            "the ONNX model has thresholds or leaf values that are infinite or NaN, which tables "
            "of effects cannot contain"
        )
    flat = _flat(nodes, is_single=is_single)
    value = nodes.weights[flat.origin] * (flat.feature < 0)[:, None]
    output = _tree_output(value, flat.tree_ptr)
    if np.all(output != VECTOR_LEAF):
        value = value.sum(axis=1, keepdims=True)
    return TreeEnsemble(
        tree_ptr=flat.tree_ptr,
        feature=flat.feature,
        cut=flat.cut,
        left=flat.left,
        right=flat.right,
        missing_left=flat.missing_left,
        category_ptr=np.full(len(flat.feature), NUMERIC_NODE, dtype=np.int64),
        category_left=np.zeros(0, dtype=np.bool_),
        value=value / _divisor(attributes, len(nodes.roots)),
        tree_output=output,
        base=_base(attributes, node, len(names)),
        features=tuple(FeatureSpec(f"x{j}") for j in range(n_features)),
        output_names=names,
        link=_link(attributes, node, len(names)),
        source=ModelSource(
            "onnx", "unknown", node.op_type, class_labels=plain_labels(_class_labels(attributes))
        ),
        # The runtime adds base values last, so that the last bits may differ.
        accumulation="float32" if is_single else "float64",
    )


def raw_margin(model: Any, X: Any) -> Array | None:
    """Return the scores that ONNX Runtime computes, before ``post_transform``.

    Parameters
    ----------
    model : onnx.ModelProto
        A model that `parse` reads.
    X : array_like or table of shape (n_rows, n_features)
        The rows.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs), or None
        None where ONNX Runtime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    ensemble = parse(model)
    session = onnxruntime.InferenceSession(
        _trees_alone(model, ensemble).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    columns = ensemble.columns(X)
    dtype = np.dtype(ensemble.accumulation)
    with np.errstate(over="ignore"):
        rows = columns.matrix().astype(dtype)
    (scores,) = session.run(["scores"], {"rows": rows})
    scores = np.asarray(scores, dtype=np.float64).reshape(columns.n_rows, -1)
    return scores[:, -ensemble.n_outputs :]


def _trees_alone(model: Any, ensemble: TreeEnsemble) -> Any:
    """Return a model of the trees only, without their post_transform."""
    from onnx import TensorProto, helper

    node = type(_tree_node(model))()
    node.CopyFrom(_tree_node(model))
    kept = [attribute for attribute in node.attribute if attribute.name != "post_transform"]
    del node.attribute[:]
    node.attribute.extend(kept)
    is_single = ensemble.accumulation == "float32"
    kind = TensorProto.FLOAT if is_single else TensorProto.DOUBLE
    rows = helper.make_tensor_value_info("rows", kind, [None, ensemble.n_features])
    returned = TensorProto.DOUBLE if node.op_type == "TreeEnsemble" and not is_single else None
    scores = helper.make_tensor_value_info("scores", returned or TensorProto.FLOAT, None)
    del node.input[:], node.output[:]
    node.input.append("rows")
    node.output.extend(["label", "scores"] if _is_classifier(node) else ["scores"])
    graph = helper.make_graph([node], "trees", [rows], [scores])
    alone = helper.make_model(graph, opset_imports=model.opset_import)
    alone.ir_version = model.ir_version
    return alone


def _is_classifier(node: Any) -> bool:
    return bool(node.op_type == "TreeEnsembleClassifier")


def _tree_node(model: Any) -> Any:
    """Return the only node with trees; refuse others that change rows or scores."""
    if type(model).__name__ != "ModelProto":
        raise UnsupportedModelError(
            f"expected an ONNX model (onnx.ModelProto), got {type(model).__name__}"
        )
    found = [node for node in model.graph.node if node.op_type in _OPERATORS]
    if len(found) != 1:
        raise UnsupportedModelError(
            f"the ONNX model has {len(found)} nodes with ensembles of trees, but only one is "
            f"supported: {', '.join(_OPERATORS)}. Pass the model that it was made from."
        )
    others = {node.op_type for node in model.graph.node if node is not found[0]}
    if unknown := sorted(others - _NEUTRAL):
        raise UnsupportedModelError(
            f"the ONNX model has the operators {', '.join(unknown)} around its trees, which may "
            "change rows or scores. Pass the model or the pipeline that it was made from."
        )
    return found[0]


def _input(model: Any, node: Any) -> tuple[int | None, bool]:
    """Return the number of columns, None where it is free, and whether they are float32."""
    from onnx import TensorProto

    made_by = {name: before for before in model.graph.node for name in before.output}
    inputs = {each.name: each.type.tensor_type for each in model.graph.input}
    name, kinds = node.input[0], []
    while name in made_by:
        kinds += [a.i for a in made_by[name].attribute if a.name == "to"]
        name = made_by[name].input[0]
    if name not in inputs:
        raise _damaged("its trees do not read an input of the model")
    kinds.append(inputs[name].elem_type)
    if set(kinds) - {TensorProto.FLOAT, TensorProto.DOUBLE}:
        raise UnsupportedModelError(
            "the trees of the ONNX model read rows of a type other than float or double; "
            "convert the model with inputs of FloatTensorType"
        )
    sizes = inputs[name].shape.dim
    width = sizes[1].dim_value if len(sizes) == 2 else 0
    return width or None, TensorProto.FLOAT in kinds


def _attributes(node: Any) -> dict[str, Any]:
    """Return the attributes, those of tensors by their names without ``_as_tensor``."""
    from onnx import TensorProto, helper, numpy_helper

    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, TensorProto):
            value = numpy_helper.to_array(value)
        found[attribute.name.removesuffix("_as_tensor")] = value
    return found


def _word(value: Any, words: Sequence[str]) -> str:
    """Return what the older operators spell and the newer one numbers."""
    if isinstance(value, bytes | str):
        return value.decode() if isinstance(value, bytes) else value
    return words[value] if 0 <= value < len(words) else f"number {value}"


def _output_names(node: Any, attributes: dict[str, Any]) -> tuple[str, ...]:
    """Return one name per output: of two classes the second where leaves have one score."""
    if not _is_classifier(node):
        count = int(attributes.get("n_targets", 1))
        return ("margin",) if count == 1 else tuple(f"target{k}" for k in range(count))
    names = tuple(map(str, _class_labels(attributes)))
    return names[1:] if len(names) == 2 and len(set(attributes["class_ids"])) == 1 else names


def _class_labels(attributes: dict[str, Any]) -> list[Any]:
    labels = attributes.get("classlabels_strings") or attributes.get("classlabels_int64s", ())
    return [label.decode() if isinstance(label, bytes) else label for label in labels]


def _divisor(attributes: dict[str, Any], n_trees: int) -> int:
    aggregate = _word(attributes.get("aggregate_function", "SUM"), _AGGREGATES)
    if aggregate not in {"SUM", "AVERAGE"}:
        raise UnsupportedModelError(
            f"the ONNX model aggregates its trees by {aggregate}, which is not a sum. Supported "
            "are SUM and AVERAGE."
        )
    return n_trees if aggregate == "AVERAGE" else 1


def _link(attributes: dict[str, Any], node: Any, n_outputs: int) -> Link:
    transform = _word(attributes.get("post_transform", "NONE"), _TRANSFORMS)
    if transform not in _LINKS or (transform == "SOFTMAX" and n_outputs == 1):
        raise UnsupportedModelError(
            f"the ONNX model has post_transform={transform!r} of {n_outputs} outputs, which is "
            f"not supported. Supported: {', '.join(_LINKS)}, and SOFTMAX for several outputs."
        )
    return Link(_LINKS[transform])


def _base(attributes: dict[str, Any], node: Any, n_outputs: int) -> Array:
    base = np.asarray(attributes.get("base_values", ()), dtype=np.float64)
    if len(base) == 0:
        return np.zeros(n_outputs)
    # Of two classes, ONNX Runtime adds a single base value to the score of the first, and to no
    # other.
    of_second = _is_classifier(node) and (n_outputs == 2 or set(attributes["class_ids"]) == {1})
    if len(base) != n_outputs or (of_second and n_outputs <= 2):
        raise UnsupportedModelError(
            f"the ONNX model has {len(base)} base values for {n_outputs} outputs, which "
            "different runtimes read in different ways. Pass the model that it was made from."
        )
    return base


def _old_nodes(attributes: dict[str, Any], n_outputs: int) -> _Nodes:
    """Return the nodes of a TreeEnsembleRegressor or a TreeEnsembleClassifier."""
    kind = "class" if "class_ids" in attributes else "target"
    names = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    place = {name: position for position, name in enumerate(names)}
    modes = [_word(mode, ()) for mode in attributes["nodes_modes"]]
    if len(place) < len(names) or len(modes) != len(names):
        raise _damaged("a node occurs twice")

    def children(key: str) -> Indices:
        ids = zip(names, attributes[key], modes, strict=True)
        return np.array([0 if m == "LEAF" else place[tree, k] for (tree, _), k, m in ids], np.intp)

    weights = np.zeros((len(names), n_outputs))
    voted = zip(attributes[f"{kind}_treeids"], attributes[f"{kind}_nodeids"], strict=True)
    at = [place[name] for name in voted]
    of_output = [0] * len(at) if n_outputs == 1 else list(attributes[f"{kind}_ids"])
    np.add.at(weights, (at, of_output), np.asarray(attributes[f"{kind}_weights"], np.float64))
    true, false = children("nodes_truenodeids"), children("nodes_falsenodeids")
    inner = np.array([mode != "LEAF" for mode in modes])
    is_child = np.zeros(len(names), dtype=np.bool_)
    is_child[true[inner]] = is_child[false[inner]] = True
    roots = np.flatnonzero(~is_child)
    if len({names[root][0] for root in roots}) < len(roots):
        raise _damaged("a tree has several roots")
    return _Nodes(
        roots.tolist(),
        modes,
        np.asarray(attributes["nodes_featureids"], dtype=np.intp),
        np.asarray(attributes["nodes_values"], dtype=np.float64),
        _flags(attributes, "nodes_missing_value_tracks_true", len(names)),
        true,
        false,
        weights,
    )


def _new_nodes(attributes: dict[str, Any], n_outputs: int) -> _Nodes:
    """Return the nodes of a TreeEnsemble, whose leaves follow the inner nodes."""
    modes = [_word(int(mode), _ALL_MODES) for mode in attributes["nodes_modes"]]
    n_inner, n_leaves = len(modes), len(attributes["leaf_weights"])

    def children(side: str) -> Indices:
        ids = np.asarray(attributes[f"nodes_{side}nodeids"], dtype=np.intp)
        return ids + n_inner * _flags(attributes, f"nodes_{side}leafs", n_inner)

    def with_leaves(values: Any) -> Array:
        return np.append(np.asarray(values, dtype=np.float64), np.zeros(n_leaves))

    weights = np.zeros((n_inner + n_leaves, n_outputs))
    at = n_inner + np.arange(n_leaves)
    weights[at, list(attributes["leaf_targetids"])] = attributes["leaf_weights"]
    return _Nodes(
        list(attributes["tree_roots"]),
        [*modes, *["LEAF"] * n_leaves],
        with_leaves(attributes["nodes_featureids"]).astype(np.intp),
        with_leaves(attributes["nodes_splits"]),
        _flags(attributes, "nodes_missing_value_tracks_true", n_inner),
        children("true"),
        children("false"),
        weights,
    )


def _flags(attributes: dict[str, Any], name: str, count: int) -> Mask:
    flags = np.asarray(attributes.get(name, np.zeros(count)), dtype=np.bool_)
    if len(flags) != count:
        raise _damaged(f"{name} has {len(flags)} entries for {count} nodes")
    return flags


class _Flat(NamedTuple):
    """Nodes as a `TreeEnsemble` has them, and which one of the model's each of them is."""

    tree_ptr: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int32]
    cut: Array
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    missing_left: Mask
    origin: Indices


def _flat(nodes: _Nodes, *, is_single: bool) -> _Flat:
    """Lay the nodes out, children after their parents, with ``x < cut`` as the only test."""
    tests = _tests(nodes, is_single=is_single)
    rows: list[_Row] = []
    tree_ptr = [0]
    children: list[list[int]] = []
    most = _MOST_COPIES * len(nodes.mode)
    for root in nodes.roots:
        waiting = [(root, LEAF, 0)]
        while waiting:
            test, parent, side = waiting.pop()
            if parent != LEAF:
                children[parent][side] = len(rows)
            if len(rows) > most:
                raise UnsupportedModelError(
                    "the ONNX model repeats nodes, or uses BRANCH_EQ so often that its trees "
                    "become too large. Pass the model that it was made from."
                )
            row = tests(test)
            waiting += [(child, len(rows), k) for k, child in enumerate(row.children)]
            rows.append(row)
            children.append([LEAF, LEAF])
        tree_ptr.append(len(rows))
    below = np.array(children, dtype=np.int32).reshape(-1, 2)
    return _Flat(
        np.array(tree_ptr, dtype=np.int64),
        np.array([row.feature for row in rows], dtype=np.int32),
        np.array([row.cut for row in rows]),
        below[:, 0].copy(),
        below[:, 1].copy(),
        np.array([row.missing_left for row in rows], dtype=np.bool_),
        np.array([row.origin for row in rows], dtype=np.intp),
    )


class _Row(NamedTuple):
    """One node: its children, left and right, are numbers of tests."""

    origin: int
    feature: int = LEAF
    cut: float = float("nan")
    missing_left: bool = False
    children: tuple[int, ...] = ()


def _tests(nodes: _Nodes, *, is_single: bool) -> Callable[[int], _Row]:
    """Return what says what a node tests; a negative number is the second test of BRANCH_EQ."""
    single = nodes.threshold.astype(np.float32)
    if is_single and np.any(single != nodes.threshold):
        raise UnsupportedModelError(
            "the ONNX model has thresholds in double precision for rows in single precision, which "
            "is not supported. Pass the model that it was made from."
        )
    below = cut_below_single(single) if is_single else nodes.threshold
    at_most = cut_at_most_single(single) if is_single else cut_at_most_double(nodes.threshold)

    def test(number: int) -> _Row:
        node = number if number >= 0 else ~number
        if not 0 <= node < len(nodes.mode):
            raise _damaged("a node has a child that does not exist")
        mode = nodes.mode[node]
        if mode == "LEAF":
            return _Row(node)
        if mode not in _MODES:
            raise UnsupportedModelError(
                f"the ONNX model compares by {mode}, which is not supported. Supported: "
                f"{', '.join(_MODES)}"
            )
        true, false = int(nodes.true[node]), int(nodes.false[node])
        feature, tracks = int(nodes.feature[node]), bool(nodes.missing_true[node])
        if number < 0:
            return _Row(node, feature, below[node], False, (false, true))
        if mode == "BRANCH_EQ":
            if tracks:
                raise UnsupportedModelError(
                    "the ONNX model sends missing values to the side where BRANCH_EQ is true, "
                    "which is not supported. Pass the model that it was made from."
                )
            return _Row(node, feature, at_most[node], False, (~node, false))
        cut = (at_most if mode in {"BRANCH_LEQ", "BRANCH_GT"} else below)[node]
        if mode in {"BRANCH_LEQ", "BRANCH_LT"}:
            return _Row(node, feature, cut, tracks, (true, false))
        return _Row(node, feature, cut, not tracks, (false, true))

    return test


def _tree_output(value: Array, tree_ptr: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return the output that each tree feeds, or of all that leaves hold one value per output."""
    feeds = np.logical_or.reduceat(value != 0, tree_ptr[:-1], axis=0)
    if np.any(feeds.sum(axis=1) > 1):
        return np.full(len(feeds), VECTOR_LEAF, dtype=np.int32)
    return np.asarray(np.argmax(feeds, axis=1), dtype=np.int32)


def _damaged(what: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"this ONNX model is damaged: {what}")
