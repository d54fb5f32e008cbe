"""Tree ensembles of ONNX: the margin is that of ONNX Runtime on and next to cuts."""

import numpy as np
import pytest

import treepurify as tp
from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.parse import parse_model, raw_margin

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

helper = onnx.helper
N_ROWS = 100_000
N_COLUMNS = 3
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ")


def random_trees(seed, n_trees=12, depth=4, n_targets=1, modes=MODES):
    """Full trees as the attributes of a TreeEnsembleRegressor."""
    rng = np.random.default_rng(seed)
    nodes, votes = [], []
    n_inner = 2**depth - 1
    for tree in range(n_trees):
        for node in range(2 * n_inner + 1):
            is_leaf = node >= n_inner
            mode = "LEAF" if is_leaf else str(rng.choice(modes))
            value = 0.0 if is_leaf else np.float32(rng.choice([0.1, -1.0, 2.0, rng.normal()]))
            tracks = int(rng.random() < 0.5 and not is_leaf and mode != "BRANCH_EQ")
            children = (0, 0) if is_leaf else (2 * node + 1, 2 * node + 2)
            feature = 0 if is_leaf else int(rng.integers(N_COLUMNS))
            nodes.append((tree, node, feature, float(value), mode, *children, tracks))
            if is_leaf:
                votes += [
                    (tree, node, k, float(np.float32(rng.normal()))) for k in range(n_targets)
                ]
    return nodes, votes


def attributes_of(nodes, votes, kind="target"):
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    names += ("missing_value_tracks_true",)
    made = {f"nodes_{n}": list(c) for n, c in zip(names, zip(*nodes, strict=True), strict=True)}
    columns = zip(*votes, strict=True)
    voted = zip(("treeids", "nodeids", "ids", "weights"), columns, strict=True)
    return made | {f"{kind}_{name}": list(column) for name, column in voted}


def as_model(operator, attributes, elem_type=onnx.TensorProto.FLOAT, before=(), opset=3):
    names = ["label", "scores"] if operator == "TreeEnsembleClassifier" else ["scores"]
    node = helper.make_node(operator, ["X"], names, domain="ai.onnx.ml", **attributes)
    rows = helper.make_tensor_value_info("X", elem_type, [None, N_COLUMNS])
    kind = elem_type if operator == "TreeEnsemble" else onnx.TensorProto.FLOAT
    scores = helper.make_tensor_value_info("scores", kind, None)
    graph = helper.make_graph([*before, node], "trees", [rows], [scores])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(model, rows):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype[session.get_inputs()[0].type])
    (scores,) = session.run(["scores"], {"X": rows})
    return np.asarray(scores, dtype=np.float64).reshape(len(rows), -1)


def critical_rows(parsed, n_rows=N_ROWS):
    rows = rows_beside_cuts(parsed, n_rows)
    rows[np.random.default_rng(1).random(rows.shape) < 0.1] = np.nan
    return rows


@pytest.mark.parametrize("mode", [*MODES, "all"])
@pytest.mark.parametrize("precision", ["FLOAT", "DOUBLE"])
def test_regressors_with_each_comparison(mode, precision):
    modes = MODES if mode == "all" else (mode,)
    attributes = attributes_of(*random_trees(0, modes=modes))
    attributes |= {"n_targets": 1, "base_values": [0.25]}
    model = as_model("TreeEnsembleRegressor", attributes, getattr(onnx.TensorProto, precision))
    parsed = parse_model(model)
    rows = critical_rows(parsed)
    own = run(model, rows)
    np.testing.assert_allclose(parsed.margin(rows), own, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(raw_margin(model, rows), own)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_several_targets_and_their_responses(aggregate, transform):
    attributes = attributes_of(*random_trees(1, n_targets=3))
    attributes |= {"n_targets": 3, "base_values": [0.5, -0.25, 1.0]}
    attributes |= {"aggregate_function": aggregate, "post_transform": transform}
    model = as_model("TreeEnsembleRegressor", attributes)
    parsed = parse_model(model)
    rows = critical_rows(parsed)
    margin = parsed.margin(rows)
    np.testing.assert_allclose(raw_margin(model, rows), margin, rtol=0, atol=1e-5)
    np.testing.assert_allclose(parsed.link.inverse(margin), run(model, rows), rtol=0, atol=1e-5)


@pytest.mark.parametrize("scored", [[0], [1], [0, 1], [0, 1, 2]])
def test_classifiers(scored):
    nodes, votes = random_trees(2, n_targets=len(scored))
    votes = [(tree, node, scored[k], weight) for tree, node, k, weight in votes]
    labels = ["no", "yes", "maybe"][: max(len(scored), 2)]
    attributes = attributes_of(nodes, votes, "class")
    attributes |= {"classlabels_strings": labels, "post_transform": "LOGISTIC"}
    if scored in ([0], [0, 1, 2]):
        attributes["base_values"] = [0.25] * len(scored)
    else:
        refused = as_model("TreeEnsembleClassifier", attributes | {"base_values": [0.5]})
        with pytest.raises(UnsupportedModelError, match="different ways"):
            parse_model(refused)
    model = as_model("TreeEnsembleClassifier", attributes)
    parsed = parse_model(model)
    assert parsed.output_names == (("yes",) if len(scored) == 1 else tuple(labels))
    rows = critical_rows(parsed)
    margin = parsed.margin(rows)
    np.testing.assert_allclose(raw_margin(model, rows), margin, rtol=0, atol=1e-5)
    response = run(model, rows)[:, -len(scored) :]
    np.testing.assert_allclose(parsed.link.inverse(margin), response, rtol=0, atol=1e-5)


def newer_model(nodes, votes, precision):
    """The same trees as the newer operator has them."""
    inner = [node for node in nodes if node[4] != "LEAF"]
    place = {node[:2]: k for k, node in enumerate(inner)}
    leaf = {vote[:2]: k for k, vote in enumerate(votes)}

    def children(position):
        names = [(node[0], node[position]) for node in inner]
        return [leaf.get(name, place.get(name)) for name in names], [int(n in leaf) for n in names]

    (true, true_leafs), (false, false_leafs) = children(5), children(6)
    kind = getattr(onnx.TensorProto, precision)
    splits = [node[3] for node in inner]
    weights = [vote[3] for vote in votes]
    modes = [MODES.index(node[4]) for node in inner]
    return as_model(
        "TreeEnsemble",
        {
            "n_targets": 1,
            "tree_roots": [place[tree, 0] for tree in sorted({node[0] for node in nodes})],
            "nodes_featureids": [node[2] for node in inner],
            "nodes_modes": helper.make_tensor("m", onnx.TensorProto.UINT8, [len(modes)], modes),
            "nodes_splits": helper.make_tensor("s", kind, [len(splits)], splits),
            "nodes_truenodeids": true,
            "nodes_trueleafs": true_leafs,
            "nodes_falsenodeids": false,
            "nodes_falseleafs": false_leafs,
            "nodes_missing_value_tracks_true": [node[7] for node in inner],
            "leaf_targetids": [0] * len(votes),
            "leaf_weights": helper.make_tensor("w", kind, [len(weights)], weights),
        },
        kind,
        opset=5,
    )


@pytest.mark.parametrize("precision", ["FLOAT", "DOUBLE"])
def test_the_newer_operator(precision):
    model = newer_model(*random_trees(3), precision)
    parsed = parse_model(model)
    rows = critical_rows(parsed)
    own = run(model, rows)
    tolerance = 1e-5 if precision == "FLOAT" else 1e-13
    np.testing.assert_allclose(parsed.margin(rows), own, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(raw_margin(model, rows), own)


def test_files_and_effects_of_them(tmp_path):
    path = tmp_path / "model.onnx"
    attributes = attributes_of(*random_trees(4, n_trees=3, depth=2)) | {"n_targets": 1}
    cast = helper.make_node("Cast", ["rows"], ["X"], to=onnx.TensorProto.FLOAT)
    model = as_model("TreeEnsembleRegressor", attributes, onnx.TensorProto.DOUBLE, [cast])
    model.graph.input[0].name = "rows"
    onnx.save(model, path)
    assert parse_model(path).fingerprint() == parse_model(model).fingerprint()
    X = np.random.default_rng(0).normal(size=(300, N_COLUMNS))
    for given in (path, model):
        d = tp.purify(given, X, weights="empirical", progress=False)
        assert d.certificate.margin_error < 1e-5
    path.write_bytes(b"no model")
    with pytest.raises(InvalidInputError, match="ONNX"):
        parse_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aggregate_function": "MAX"}, "aggregates its trees by MAX"),
        ({"post_transform": "PROBIT"}, "PROBIT"),
        ({"post_transform": "SOFTMAX"}, "SOFTMAX"),
        ({"base_values": [1.0, 2.0]}, "2 base values for 1 outputs"),
        ({"nodes_featureids": [99] * 42}, "damaged"),
        ({"nodes_truenodeids": [99] * 42}, "damaged"),
        ({"nodes_modes": ["BRANCH_NEQ"] * 42}, "BRANCH_NEQ"),
        ({"nodes_values": [float("inf")] * 42}, "infinite"),
    ],
)
def test_what_is_not_read_says_so(change, message):
    attributes = attributes_of(*random_trees(5, n_trees=6, depth=2)) | {"n_targets": 1}
    assert len(attributes["nodes_values"]) == 42
    if "nodes_modes" in change:
        modes = [m if m == "LEAF" else "BRANCH_NEQ" for m in attributes["nodes_modes"]]
        change = {"nodes_modes": modes}
    with pytest.raises(UnsupportedModelError, match=message):
        parse_model(as_model("TreeEnsembleRegressor", attributes | change))


def test_other_operators_are_refused_by_name():
    attributes = attributes_of(*random_trees(5, n_trees=1)) | {"n_targets": 1}
    scaler = helper.make_node("Scaler", ["Z"], ["X"], domain="ai.onnx.ml", scale=[2.0])
    with pytest.raises(UnsupportedModelError, match="Scaler"):
        parse_model(as_model("TreeEnsembleRegressor", attributes, before=[scaler]))
    model = as_model("TreeEnsembleRegressor", attributes)
    del model.graph.node[:]
    with pytest.raises(UnsupportedModelError, match="0 nodes with ensembles"):
        parse_model(model)
