import copy
import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models import catboost as reader
from treepurify.models.catboost_trees import (
    Split,
    nested_nodes,
    oblivious_nodes,
)
from treepurify.models.cuts import cut_at_most_single
from treepurify.models.parse import read_model
from treepurify.rows.category_hash import category_hash

catboost = pytest.importorskip("catboost")

SETTINGS = {
    "iterations": 20,
    "depth": 4,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
    "random_seed": 0,
}


def numeric_data(n_rows=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[::7, 1] = np.nan
    return X, np.nan_to_num(X).sum(axis=1) + X[:, 0] * X[:, 2]


def mixed_data(n_rows=400):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "color": rng.choice(["red", "green", "blue", "été"], n_rows),
            "size": rng.normal(size=n_rows),
            "level": rng.integers(-1, 4, n_rows),
            "flag": rng.random(n_rows) > 0.5,
            "kind": pd.Categorical(rng.choice(list("xyz"), n_rows)),
        }
    )
    y = X["size"] * (X["color"] == "red") + (X["level"] == 2) * X["flag"] - (X["kind"] == "z")
    return X, y.to_numpy(dtype=float)


CATEGORICAL = ["color", "level", "flag", "kind"]


def critical_rows(ensemble, n_rows):
    # Missing values that count as largest are split off at the end of single precision.
    with np.errstate(over="ignore"):
        return rows_beside_cuts(ensemble, n_rows)


def export(model, path):
    model.save_model(str(path), format="json")
    return json.loads(path.read_text(encoding="utf-8"))


def assert_same_margin(ensemble, model, X):
    expected = reader.raw_margin(model, X)
    got = ensemble.margin(X)
    assert got.shape == expected.shape == (len(X), ensemble.n_outputs)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-14 * scale)


LOSSES = {
    "RMSE": ("identity", lambda s: s),
    "Quantile": ("identity", lambda s: s),
    "Logloss": ("logit", lambda s: s > 0),
    "CrossEntropy": ("logit", lambda s: 0.3 + 0.4 * (s > 0)),
    "Poisson": ("log", np.abs),
    "Tweedie:variance_power=1.5": ("log", np.abs),
    "MultiClass": ("softmax", lambda s: np.array(["u", "v", "w"])[np.digitize(s, [-1, 1])]),
    "MultiClassOneVsAll": ("logit", lambda s: np.digitize(s, [-1, 1])),
    "MultiRMSE": ("identity", lambda s: np.column_stack([s, s**2])),
    "MultiLogloss": ("logit", lambda s: np.column_stack([s > 0, s > 1, s < 1]).astype(int)),
    "RMSEWithUncertainty": ("mean-variance", lambda s: s),
}


@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("loss", LOSSES)
def test_margin_of_every_loss_and_tree_shape(loss, grow_policy, nan_mode):
    X, signal = numeric_data()
    link, target = LOSSES[loss]
    model = catboost.CatBoost(
        {**SETTINGS, "loss_function": loss, "grow_policy": grow_policy, "nan_mode": nan_mode}
    ).fit(X, target(signal))
    ensemble = reader.parse(model)
    assert ensemble.link.name == link
    assert ensemble.source.notes == ()
    assert ensemble.n_trees == 20
    assert [spec.has_missing for spec in ensemble.features] == [False, True, False, False]
    assert_same_margin(ensemble, model, critical_rows(ensemble, 400))
    assert_same_margin(ensemble, model, X)


@pytest.mark.parametrize("loss", ["Logloss", "MultiClass", "MultiClassOneVsAll", "MultiLogloss"])
def test_link_gives_catboosts_probabilities(loss):
    X, signal = numeric_data()
    model = catboost.CatBoostClassifier(**SETTINGS, loss_function=loss)
    model.fit(X, LOSSES[loss][1](signal))
    ensemble = reader.parse(model)
    probability = model.predict_proba(X)
    if ensemble.n_outputs == 1:
        probability = probability[:, 1:]
    np.testing.assert_allclose(ensemble.link.inverse(ensemble.margin(X)), probability, rtol=1e-12)


def test_link_gives_catboosts_mean():
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS, loss_function="Poisson").fit(X, np.abs(signal))
    ensemble = reader.parse(model)
    response = ensemble.link.inverse(ensemble.margin(X))[:, 0]
    np.testing.assert_allclose(response, model.predict(X), rtol=1e-12)


def test_link_gives_catboosts_mean_and_variance():
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS, loss_function="RMSEWithUncertainty")
    model.fit(X, signal)
    ensemble = reader.parse(model)
    response = ensemble.link.inverse(ensemble.margin(X))
    np.testing.assert_allclose(response, model.predict(X), rtol=1e-12)


def test_output_names():
    X, signal = numeric_data()
    labels = LOSSES["MultiClass"][1](signal)
    model = catboost.CatBoostClassifier(**SETTINGS).fit(X, labels)
    assert reader.parse(model).output_names == ("u", "v", "w")
    model = catboost.CatBoostClassifier(**SETTINGS).fit(X, np.where(signal > 0, "yes", "no"))
    assert reader.parse(model).output_names == ("yes",)
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, signal)
    ensemble = reader.parse(model)
    assert ensemble.output_names == ("margin",)
    assert ensemble.source.version == catboost.__version__


def test_unknown_loss_is_said():
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, signal)
    summed = catboost.sum_models([model, model], weights=[0.5, 2.0])
    ensemble = reader.parse(summed)
    assert "does not state its loss" in ensemble.source.notes[0]
    assert_same_margin(ensemble, summed, critical_rows(ensemble, 200))


def test_scale_and_bias(tmp_path):
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, signal)
    model.set_scale_and_bias(-2.5, 3.25)
    assert_same_margin(reader.parse(model), model, X)
    document = export(model, tmp_path / "model.json")
    assert not reader.parse_document(document).source.unasked
    document["scale_and_bias"] = [-2.5, 3.25]  # as older versions write it
    ensemble = reader.parse_document(document)
    assert_same_margin(ensemble, model, X)
    assert "newer versions ignore it" in ensemble.source.unasked


def leaf_boxes(ensemble):
    """Yield what each leaf's path says of each feature: an interval, or the codes left."""
    for root in ensemble.tree_ptr[:-1]:
        stack = [(int(root), {})]
        while stack:
            node, path = stack.pop()
            feature = int(ensemble.feature[node])
            if feature < 0:
                yield path
                continue
            spec = ensemble.features[feature]
            if spec.is_categorical:
                start = ensemble.category_ptr[node]
                goes_left = ensemble.category_left[start : start + spec.n_codes + 1]
                codes = path.get(feature, np.ones(spec.n_codes + 1, dtype=bool))
                ways = codes & goes_left, codes & ~goes_left
            else:
                low, high = path.get(feature, (-np.inf, np.inf))
                cut = ensemble.cut[node]
                ways = (low, min(high, cut)), (max(low, cut), high)
            for child, way in zip((ensemble.left, ensemble.right), ways, strict=True):
                stack.append((int(child[node]), {**path, feature: way}))


@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Depthwise"])
def test_contradictory_nodes_are_left_out_and_no_others(grow_policy, tmp_path):
    X, y = mixed_data()
    model = catboost.CatBoostRegressor(
        **{**SETTINGS, "depth": 6}, one_hot_max_size=10, grow_policy=grow_policy
    ).fit(X, y, cat_features=CATEGORICAL)
    ensemble = reader.parse(model)
    for path in leaf_boxes(ensemble):
        for way in path.values():
            assert way[0] < way[1] if isinstance(way, tuple) else way.any()
    n_leaves = int((ensemble.feature < 0).sum())
    if grow_policy == "SymmetricTree":
        document = export(model, tmp_path / "model.json")
        n_listed = sum(len(tree["leaf_values"]) for tree in document["oblivious_trees"])
        n_with_rows = sum(np.count_nonzero(t["leaf_weights"]) for t in document["oblivious_trees"])
        assert n_with_rows < n_leaves < n_listed
    assert_same_margin(ensemble, model, X)


def test_a_test_that_is_repeated_on_the_path_is_left_out():
    number, label = Split(0, 0.5, -1), Split(1, np.nan, 3)
    for first, second in ((number, number), (label, label)):
        nodes = oblivious_nodes([[first, second]], [[1.0, 2.0, 3.0, 4.0]], 1)
        np.testing.assert_array_equal(nodes.feature, [first.feature, -1, -1])
        np.testing.assert_array_equal(nodes.value[1:, 0], [1.0, 4.0])
        nested = {"split": second, "left": {"value": 3.0}, "right": {"value": 4.0}}
        tree = {"split": first, "left": {"value": 1.0}, "right": nested}
        nodes = nested_nodes([tree], lambda split: split, 1)
        np.testing.assert_array_equal(nodes.value[1:, 0], [1.0, 4.0])


def test_cuts_are_exact_in_double_precision():
    rng = np.random.default_rng(2)
    largest = float(np.finfo(np.float32).max)
    borders = np.concatenate(
        [rng.normal(size=500).astype(np.float32), [0.0, 1e-38, 1e-45, -1e-45, largest, -largest]]
    ).astype(np.float32)
    cuts = cut_at_most_single(borders.astype(float))
    with np.errstate(over="ignore"):
        assert np.all(cuts.astype(np.float32) > borders)
        assert np.all(np.nextafter(cuts, -np.inf).astype(np.float32) <= borders)


def test_deep_trees_and_unused_columns():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5))
    X[:, 1] = 5.0
    X[:, 4] = 2.0
    model = catboost.CatBoostRegressor(**{**SETTINGS, "depth": 10}).fit(X, X[:, 0] * X[:, 2])
    ensemble = reader.parse(model)
    assert ensemble.n_features == 5
    assert ensemble.feature_names == ("x0", "x1", "x2", "x3", "x4")
    assert not ensemble.has_feature_names
    assert_same_margin(ensemble, model, critical_rows(ensemble, 200))


@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("kind", ["table", "array", "file"])
def test_a_text_column_that_no_tree_uses_is_ignored(kind, position, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    X.insert(position, "text", [" ".join(rng.choice(["red", "blue"], 2)) for _ in range(300)])
    rows = X.to_numpy(dtype=object) if kind == "array" else X
    model = catboost.CatBoostRegressor(**{**SETTINGS, "iterations": 5, "depth": 1})
    model.fit(rows, X["a"] > 0, text_features=[position])
    model.save_model(str(tmp_path / "model.cbm"))
    d = tp.purify(tmp_path / "model.cbm" if kind == "file" else model, rows, progress=False)
    assert len(d.feature_names) == 3
    np.testing.assert_allclose(d.predict(rows), model.predict(rows), rtol=1e-12)
    assert not any(position in subset for subset in d.components)


def test_embeddings_that_no_tree_uses_are_ignored(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, X["a"])
    document = export(model, tmp_path / "model.json")
    entry = {"flat_feature_index": 2, "feature_id": "vector"}
    document["features_info"]["embedding_features"] = [entry]
    rows = X.assign(vector=list(rng.normal(size=(200, 3))))
    margin = reader.parse_document(document).margin(rows)[:, 0]
    np.testing.assert_allclose(margin, model.predict(X), atol=1e-13)


@pytest.mark.parametrize("grow_policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_one_hot_categories_of_every_type(grow_policy, loss):
    X, y = mixed_data()
    target = y if loss == "RMSE" else np.digitize(y, [-0.5, 0.5])
    model = catboost.CatBoost(
        {**SETTINGS, "one_hot_max_size": 10, "loss_function": loss, "grow_policy": grow_policy}
    ).fit(catboost.Pool(X, target, cat_features=CATEGORICAL))
    ensemble = reader.parse(model)
    assert ensemble.has_feature_names
    assert_same_margin(ensemble, model, X)

    unseen = X.copy()
    unseen.loc[::3, "color"] = "mauve"
    unseen.loc[::4, "level"] = 77
    unseen["kind"] = unseen["kind"].cat.add_categories(["w"])
    unseen.loc[::5, "kind"] = "w"
    assert_same_margin(ensemble, model, unseen)

    text = X.astype(dict.fromkeys(CATEGORICAL, object))
    text["level"] = text["level"].astype(str)
    assert_same_margin(ensemble, model, text)
    np.testing.assert_array_equal(ensemble.margin(text), ensemble.margin(X))
    as_floats = X.assign(level=X["level"].astype(float))
    np.testing.assert_array_equal(ensemble.margin(as_floats), ensemble.margin(X))


def test_one_hot_from_an_object_array():
    X, y = mixed_data()
    rows = X.astype({"kind": str}).to_numpy(dtype=object)
    model = catboost.CatBoostRegressor(**SETTINGS, one_hot_max_size=10)
    model.fit(rows, y, cat_features=[0, 2, 3, 4])
    ensemble = reader.parse(model)
    assert not ensemble.has_feature_names
    assert_same_margin(ensemble, model, rows)


def test_columns_in_another_order():
    X, y = mixed_data()
    model = catboost.CatBoostRegressor(**SETTINGS, one_hot_max_size=10)
    model.fit(X, y, cat_features=CATEGORICAL)
    assert_same_margin(reader.parse(model), model, X[["kind", "flag", "level", "size", "color"]])


def test_categories_are_named_after_data():
    X, y = mixed_data()
    model = catboost.CatBoostRegressor(**SETTINGS, one_hot_max_size=10)
    model.fit(X, y, cat_features=CATEGORICAL)
    ensemble = reader.parse(model)
    color = ensemble.features[0]
    assert color.categories == tuple(f"#{code}" for code in color.label_hashes)
    labelled = read_model(ensemble, X)
    assert set(labelled.features[0].categories) <= {"red", "green", "blue", "été"}
    assert set(labelled.features[2].categories) <= {"-1", "0", "1", "2", "3"}
    assert set(labelled.features[3].categories) <= {"0", "1"}
    assert set(labelled.features[4].categories) <= {"x", "y", "z"}
    np.testing.assert_array_equal(labelled.margin(X), ensemble.margin(X))
    from_array = read_model(ensemble, X.to_numpy(dtype=object))
    assert from_array.features == labelled.features
    for spec in labelled.features:
        for label, code in zip(spec.categories or (), spec.label_hashes or (), strict=True):
            assert category_hash(label) == code


def test_category_hash_of_every_length():
    rng = np.random.default_rng(4)
    texts = ["".join(rng.choice(list("abcXYZé0_ß"), size)) for size in range(1, 180)]
    X = np.array([[text] for text in texts], dtype=object)
    model = catboost.CatBoostRegressor(**{**SETTINGS, "iterations": 60}, one_hot_max_size=255)
    model.fit(X, rng.normal(size=len(texts)), cat_features=[0])
    ensemble = reader.parse(model)
    known = set(ensemble.features[0].label_hashes)
    assert len(known) > 20
    assert known <= {category_hash(text) for text in texts}
    assert_same_margin(ensemble, model, X)


def test_binary_and_json_files(tmp_path):
    X, y = mixed_data()
    model = catboost.CatBoostRegressor(**SETTINGS, one_hot_max_size=10)
    model.fit(X, y, cat_features=CATEGORICAL)
    expected = reader.parse(model).margin(X)
    model.save_model(str(tmp_path / "model.cbm"))
    np.testing.assert_array_equal(reader.parse_cbm(tmp_path / "model.cbm").margin(X), expected)
    document = export(model, tmp_path / "model.json")
    np.testing.assert_array_equal(reader.parse_document(document).margin(X), expected)
    with pytest.raises(InvalidInputError, match="no file"):
        reader.parse_cbm(tmp_path / "other.cbm")
    (tmp_path / "broken.cbm").write_bytes(b"not a model")
    with pytest.raises(InvalidInputError, match="cannot use"):
        reader.parse_cbm(tmp_path / "broken.cbm")


def test_without_trees(tmp_path):
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, signal)
    document = export(model, tmp_path / "model.json")
    bias = document["scale_and_bias"][1]
    for key in ("oblivious_trees", "trees"):
        document.pop("oblivious_trees", None)
        ensemble = reader.parse_document({**document, key: []})
        assert ensemble.n_trees == 0
        np.testing.assert_array_equal(ensemble.margin(X), np.tile(bias, (len(X), 1)))


def test_trees_of_a_single_leaf(tmp_path):
    X, signal = numeric_data()
    model = catboost.CatBoostRegressor(**SETTINGS).fit(X, signal)
    document = export(model, tmp_path / "model.json")
    document["oblivious_trees"].insert(1, {"leaf_values": [1.5], "leaf_weights": [300]})
    expected = reader.raw_margin(model, X) + 1.5
    np.testing.assert_allclose(reader.parse_document(document).margin(X), expected, rtol=1e-13)


def test_refusals(tmp_path):
    with pytest.raises(InvalidInputError, match="not trained"):
        reader.parse(catboost.CatBoostRegressor())
    X, y = mixed_data()
    ends = np.random.default_rng(0).choice([*np.arange(20.0), np.inf, -np.inf], len(X))
    infinite = X[["size"]].assign(size=ends, other=X["size"])
    split_at_infinity = catboost.CatBoostRegressor(**SETTINGS).fit(infinite, np.sign(ends))
    with pytest.raises(UnsupportedModelError, match=r"infinite values in 'size'(?!.*one_hot)"):
        reader.parse(split_at_infinity)
    texts = X[["size"]].assign(words=np.where(y > 0, "good fine", "bad poor"))
    with_text = catboost.CatBoostClassifier(**SETTINGS)
    with_text.fit(texts, y > 0, text_features=["words"])
    with pytest.raises(UnsupportedModelError, match="as numbers before training"):
        reader.parse(with_text)


def test_damaged_documents(tmp_path):
    X, signal = numeric_data()
    for grow_policy, trees in [("SymmetricTree", "oblivious_trees"), ("Depthwise", "trees")]:
        model = catboost.CatBoostRegressor(**SETTINGS, grow_policy=grow_policy).fit(X, signal)
        document = export(model, tmp_path / "model.json")
        for key in ("features_info", trees):
            damaged = {name: part for name, part in document.items() if name != key}
            with pytest.raises(UnsupportedModelError):
                reader.parse_document(damaged)
        first = document[trees][0]
        first["leaf_values" if trees == "oblivious_trees" else "left"] = {"value": "text"}
        with pytest.raises(UnsupportedModelError):
            reader.parse_document(document)


@pytest.fixture(scope="module", params=["SymmetricTree", "Depthwise"])
def exported(request, tmp_path_factory):
    X, y = mixed_data()
    model = catboost.CatBoostRegressor(
        **SETTINGS | {"iterations": 4, "grow_policy": request.param, "one_hot_max_size": 9},
        cat_features=CATEGORICAL,
    ).fit(X, y)
    return export(model, tmp_path_factory.mktemp("exported") / "model.json")


def splits_of(document):
    """Every split of a document, of trees of either form."""
    if isinstance(document, list):
        return [split for entry in document for split in splits_of(entry)]
    if not isinstance(document, dict):
        return []
    if "split_type" in document:
        return [document]
    return [split for entry in document.values() for split in splits_of(entry)]


def test_every_split_says_twice_what_it_tests(exported):
    kinds = {"FloatFeature": "border", "OneHotFeature": "value"}
    assert {split["split_type"] for split in splits_of(exported)} == set(kinds)
    reader.parse_document(exported)
    for split_type, key in kinds.items():
        feature = "float_feature_index" if key == "border" else "cat_feature_index"
        for field, changed in ((key, 1), ("split_index", 1), ("split_index", 999), (feature, 7)):
            document = copy.deepcopy(exported)
            split = next(s for s in splits_of(document) if s["split_type"] == split_type)
            split[field] += changed
            with pytest.raises(UnsupportedModelError, match="damaged"):
                reader.parse_document(document)


@pytest.mark.parametrize(
    ("kind", "field", "changed", "message"),
    [
        ("float_features", "flat_feature_index", 10_000_000, "states 10000001 features"),
        ("float_features", "flat_feature_index", -1, "flat_feature_index is not a whole number"),
        ("float_features", "flat_feature_index", 0, "same flat_feature_index"),
        ("float_features", "flat_feature_index", 1.0, "flat_feature_index is not a whole number"),
        ("float_features", "feature_index", -1, "feature_index is not a whole number"),
        ("categorical_features", "feature_index", 3, "not in increasing order"),
        ("float_features", "borders", [1.0, 0.5], "increasing order"),
        ("float_features", "borders", [0.5, 0.5], "increasing order"),
        ("float_features", "borders", [float("nan")], "increasing order"),
        ("float_features", "borders", ["1"], "not numbers"),
        ("float_features", "borders", [10**400], "damaged"),
        ("categorical_features", "values", [5, 5], "repeated"),
        ("categorical_features", "values", [5.0], "not hashes"),
        ("categorical_features", "values", [2**31], "not hashes"),
    ],
)
def test_features_that_catboost_does_not_write(exported, kind, field, changed, message):
    document = copy.deepcopy(exported)
    document["features_info"][kind][0][field] = changed
    with pytest.raises(UnsupportedModelError, match=message):
        reader.parse_document(document)


@pytest.mark.parametrize("n_splits", [28, 40, 100_000])
@pytest.mark.parametrize("first", [True, False])
def test_many_splits_with_no_leaf_values(n_splits, first):
    info = {"borders": [0.5], "feature_index": 0, "flat_feature_index": 0}
    split = {"border": 0.5, "float_feature_index": 0, "split_index": 0}
    empty = {"leaf_values": [], "splits": [split | {"split_type": "FloatFeature"}] * n_splits}
    whole = {"leaf_values": [1.0, 2.0], "splits": [split | {"split_type": "FloatFeature"}]}
    document = {
        "features_info": {"float_features": [info | {"nan_value_treatment": "AsIs"}]},
        "oblivious_trees": [empty] if first else [whole, empty],
    }
    tracemalloc.start()
    with pytest.raises(UnsupportedModelError, match="leaf values"):
        reader.parse_document(document)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


def test_many_values_of_a_category_take_memory_only_where_they_are_tested():
    values = list(range(60_000))
    info = {"feature_id": "a", "feature_index": 0, "flat_feature_index": 0, "values": values}
    split = {"cat_feature_index": 0, "split_type": "OneHotFeature"}

    def document(n_trees):
        trees = [
            {"leaf_values": [0.0, i], "splits": [split | {"split_index": i, "value": i}]}
            for i in range(n_trees)
        ]
        return {"features_info": {"categorical_features": [info]}, "oblivious_trees": trees}

    tracemalloc.start()
    ensemble = reader.parse_document(document(3))
    with pytest.raises(UnsupportedModelError, match="tables of"):
        reader.parse_document(document(5000))
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
    assert ensemble.category_left.sum() == 3 * 60_000


@pytest.mark.parametrize("leaf", ["1.0", None, True, [1.0], float("nan"), 10**400])
def test_leaves_that_are_no_finite_numbers(exported, leaf):
    document = copy.deepcopy(exported)
    if "oblivious_trees" in document:
        document["oblivious_trees"][0]["leaf_values"][1] = leaf
    else:
        node = document["trees"][1]
        while "split" in node:
            node = node["left"]
        node["value"] = leaf if leaf != [1.0] else [1.0, 2.0]
    with pytest.raises(UnsupportedModelError):
        reader.parse_document(document)


@pytest.mark.parametrize(
    "scale_and_bias",
    [
        ["1", [0.0]],
        [1, ["0"]],
        [1, [[0.0]]],
        [1, [10**400]],
        [True, [0.0]],
        False,
    ],
)
def test_a_scale_and_bias_that_are_no_numbers(exported, scale_and_bias):
    with pytest.raises(UnsupportedModelError, match=r"scale_and_bias|damaged"):
        reader.parse_document(exported | {"scale_and_bias": scale_and_bias})


def test_a_tree_deeper_than_catboost_grows():
    borders = [float(i) for i in range(400)]
    info = {"borders": borders, "feature_index": 0, "flat_feature_index": 0}
    node = {"value": 0.0}
    for i in reversed(range(400)):
        split = {"border": borders[i], "float_feature_index": 0, "split_index": i}
        node = {
            "split": split | {"split_type": "FloatFeature"},
            "left": {"value": 1.0},
            "right": node,
        }
    features = {"float_features": [info | {"nan_value_treatment": "AsIs"}]}
    with pytest.raises(UnsupportedModelError, match="levels"):
        reader.parse_document({"features_info": features, "trees": [node]})


@pytest.mark.parametrize("damage", [-1, {}, {"value": [0.0, 1.0]}, {"split": {}}])
def test_damage_where_no_row_can_reach(exported, damage):
    if "trees" not in exported:
        pytest.skip("an oblivious tree has no branches of its own")
    document = copy.deepcopy(exported)
    root = next(tree for tree in document["trees"] if "border" in tree["split"])
    whole = copy.deepcopy(root["left"])
    # The same test again: its right branch is closed.
    root["left"] = {"split": root["split"], "left": whole, "right": whole}
    reader.parse_document(document)
    root["left"]["right"] = damage
    with pytest.raises(UnsupportedModelError):
        reader.parse_document(document)


@pytest.mark.parametrize("changed", [{"class_to_label": [0, 1, 256]}, {"class_to_label": [0, 1.5]}])
def test_outputs_of_classes_that_do_not_exist(exported, changed):
    classes = {"class_names": ["a", "b", "c"], "class_to_label": [0, 1, 2]}
    info = exported["model_info"]
    reader.parse_document(exported | {"model_info": info | {"class_params": classes}})
    with pytest.raises(UnsupportedModelError, match="unknown classes"):
        reader.parse_document(exported | {"model_info": info | {"class_params": classes | changed}})


def test_biases_that_do_not_fit_the_outputs(exported):
    with pytest.raises(UnsupportedModelError, match="2 biases for 1 outputs"):
        reader.parse_document(exported | {"scale_and_bias": [1, [0.5, 0.5]]})


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 10**400])
def test_numbers_that_catboost_misreads_are_refused_where_nobody_reads_them(exported, number):
    with pytest.raises(UnsupportedModelError, match=r"CatBoost does not write|damaged"):
        reader.parse_document(exported | {"trees_info": [{"weight": number}]})


def test_a_border_that_catboost_writes_as_a_whole_number_is_read(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * 1e17
    y = (X[:, 0] > 3e16) + 0.0
    model = catboost.CatBoostRegressor(iterations=3, depth=2, verbose=False).fit(X, y)
    model.save_model(tmp_path / "model.json", format="json")
    parsed = tp.parse_model(tmp_path / "model.json")
    assert "whole numbers beyond 2^53" in parsed.source.unasked
    found = parsed.margin(X, precision="float64")[:, 0]
    np.testing.assert_allclose(found, model.predict(X), atol=1e-12)
