"""The XGBoost parser against XGBoost's own margins, bit for bit."""

import contextlib
import copy
import json
import math
import struct
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treepurify as tp
from tests.cases import needs_stored_labels, rows_beside_cuts
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models import parse as parse_module
from treepurify.models import ubjson as ubjson_module
from treepurify.models.cuts import cut_below_single
from treepurify.models.ubjson import read_ubjson
from treepurify.models.xgboost import parse, parse_bytes, parse_document, raw_margin
from treepurify.models.xgboost_objectives import base_margin, find_objective

xgboost = pytest.importorskip("xgboost")

VERSION = tuple(map(int, xgboost.__version__.split(".")[:2]))
N_ROWS = 80
IDENTITY = [
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "binary:logitraw",
]
LOGIT = ["binary:logistic", "reg:logistic"]
LOG = ["count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"]
RANK = ["rank:pairwise", "rank:ndcg", "rank:map"]
SOFTMAX = ["multi:softmax", "multi:softprob"]
LINKS = {
    **dict.fromkeys(IDENTITY + RANK, "identity"),
    **dict.fromkeys(LOGIT, "logit"),
    **dict.fromkeys(LOG, "log"),
    **dict.fromkeys(SOFTMAX, "softmax"),
    "binary:hinge": "step",
}


@pytest.fixture(params=[1, 1000], ids=["joined", "one by one"])
def _each_way(request, monkeypatch):
    """Read few trees as many are read, and as few are."""
    monkeypatch.setattr(ubjson_module, "_MANY_OBJECTS", request.param)


def features(seed=0, n_features=3, missing=0.1):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(N_ROWS, n_features)), 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def response(objective, X, seed=0):
    rng = np.random.default_rng(seed + 1)
    signal = np.nansum(X, axis=1) + 0.3 * rng.normal(size=len(X))
    if objective.startswith("multi"):
        return np.digitize(signal, [-1.0, 1.0])
    if objective.startswith(("binary", "rank")) or objective == "reg:logistic":
        return (signal > 0).astype(float)
    return np.exp(0.3 * signal) if objective in LOG or "log" in objective else signal


def train(objective="reg:squarederror", rounds=4, X=None, y=None, **parameters):
    X = features() if X is None else X
    y = response(objective, X) if y is None else y
    data = xgboost.DMatrix(X, y)
    if objective.startswith("rank"):
        data.set_group([N_ROWS // 2, N_ROWS // 2])
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y)
        data.set_float_info("label_upper_bound", y)
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    settings_ = {"objective": objective, "max_depth": 3, "nthread": 1, "verbosity": 0}
    return xgboost.train({**settings_, **parameters}, data, rounds)


def document_of(booster):
    return json.loads(booster.save_raw("json"))


def trees_of(document):
    return document["learner"]["gradient_booster"]["model"]["trees"]


def dart_of(document):
    """The model and the weights of the trees; where they stand differs between versions."""
    booster = document["learner"]["gradient_booster"]
    model = dict(booster.get("gbtree", booster)["model"])
    nested = model.pop("weight_drop", None)
    return model, booster.get("weight_drop", nested)


def assert_same_margin(model, rows=None, ensemble=None):
    ensemble = parse(model) if ensemble is None else ensemble
    rows = rows_beside_cuts(ensemble, 150) if rows is None else rows
    margin = ensemble.margin(rows)
    assert margin.shape == (len(rows), ensemble.n_outputs)
    np.testing.assert_array_equal(margin, raw_margin(model, rows))
    return ensemble


@settings(max_examples=60, deadline=None)
@given(
    objective=st.sampled_from(sorted(LINKS)),
    parameters=st.fixed_dictionaries(
        {
            "max_depth": st.integers(1, 5),
            "eta": st.sampled_from([0.1, 0.3, 1.0]),
            "num_parallel_tree": st.integers(1, 2),
            "subsample": st.sampled_from([0.5, 1.0]),
            "gamma": st.sampled_from([0.0, 1.0]),
            "tree_method": st.sampled_from(["hist", "exact", "approx"]),
            "grow_policy": st.sampled_from(["depthwise", "lossguide"]),
        }
    ),
    rounds=st.integers(0, 5),
    seed=st.integers(0, 100),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_margin_of_drawn_models(objective, parameters, rounds, seed, missing):
    X = features(seed, missing=missing)
    if parameters["tree_method"] == "exact":
        parameters = {**parameters, "grow_policy": "depthwise"}
    booster = train(objective, rounds, X, response(objective, X, seed), **parameters)
    ensemble = parse(booster)
    assert_same_margin(booster, rows_beside_cuts(ensemble, 150, seed=seed), ensemble)
    assert_same_margin(booster, X, ensemble)


@pytest.mark.parametrize("objective", sorted(LINKS))
@pytest.mark.parametrize("base_score", [None, 0.3])
def test_every_objective(objective, base_score):
    given_score = {} if base_score is None else {"base_score": base_score}
    booster = train(objective, **given_score)
    ensemble = assert_same_margin(booster)
    assert ensemble.link.name == LINKS[objective]
    X = features()
    if objective != "multi:softmax":
        predicted = booster.inplace_predict(X).reshape(N_ROWS, -1)
        np.testing.assert_allclose(
            ensemble.link.inverse(ensemble.margin(X)), predicted, rtol=2e-6, atol=1e-7
        )


def test_raw_margin_is_what_predict_says():
    X = features()
    y = response("binary:logistic", X)
    for kind in ("gbtree", "dart"):
        booster = train("binary:logistic", booster=kind)
        expected = booster.predict(xgboost.DMatrix(X), output_margin=True)
        np.testing.assert_array_equal(raw_margin(booster, X), expected[:, None])
        wrapper = xgboost.XGBClassifier(n_estimators=5, booster=kind, missing=0.5, n_jobs=1)
        expected = wrapper.fit(X, y).predict(X, output_margin=True)
        np.testing.assert_allclose(raw_margin(wrapper, X), expected[:, None], rtol=1e-5)


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_base_margin_is_rounded_as_in_xgboost(objective):
    X, y = np.zeros((2, 1)), np.array([0.0, 1.0])
    for score in np.random.default_rng(0).random(25):
        booster = xgboost.train(
            {"objective": objective, "base_score": score}, xgboost.DMatrix(X, y), 0
        )
        assert_same_margin(booster, X)


def test_base_score_layouts():
    logistic, softmax = find_objective("binary:logistic"), find_objective("multi:softprob")
    for stored in ("3E-1", "[3E-1]"):
        np.testing.assert_allclose(
            base_margin(stored, logistic, 1), [math.log(0.3 / 0.7)], rtol=1e-6
        )
    np.testing.assert_array_equal(base_margin("5E-1", softmax, 3), np.float32([0.5] * 3))
    np.testing.assert_array_equal(base_margin("[1E0,2E0,3E0]", softmax, 3), np.float32([1, 2, 3]))
    for damaged in ("", "[1E0,2E0]", "[[1]]", "nan", None, "text", "[1e400]"):
        with pytest.raises(InvalidInputError, match="base score"):
            base_margin(damaged, softmax, 3)
    with pytest.raises(UnsupportedModelError, match="infinite"):
        base_margin("0E0", find_objective("count:poisson"), 1)


# What XGBoost 1.7.6, 2.1.4, 3.0.5 and 3.1.3 themselves predict, and 3.2.0.
BASE_MARGINS = [
    ("1E-9", -20.723267, -13.81551),
    ("1E-7", -16.118095, -13.81551),
    ("2E-6", -13.122361, -13.122361),
    ("3E-1", -0.84729785, -0.84729785),
    ("9.999998E-1", 15.249238, 13.74516),
    ("9.9999994E-1", 15.942385, 13.74516),
]


@pytest.mark.parametrize(("score", "before", "since"), BASE_MARGINS)
def test_probabilities_near_0_and_1_are_clamped_since_3_2(score, before, since):
    document = document_of(train("binary:logistic", rounds=1))
    for version, expected in (([1, 7, 6], before), ([3, 1, 3], before), ([3, 2, 0], since)):
        stored = f"[{score}]" if version > [3, 1] else score
        document["learner"]["learner_model_param"]["base_score"] = stored
        document["version"] = version
        assert parse_document(document).base[0] == np.float32(expected)
    document["version"] = []
    if before != since:
        with pytest.raises(UnsupportedModelError, match="depends on the version"):
            parse_document(document)


@pytest.mark.parametrize("score", ["0E0", "1E0", "-1E-3"])
def test_base_scores_that_old_versions_do_not_load(score):
    document = document_of(train("binary:logistic", rounds=1))
    document["learner"]["learner_model_param"]["base_score"] = f"[{score}]"
    document["version"] = [3, 1, 3]
    with pytest.raises(InvalidInputError, match=r"3\.1\.3 rejects"):
        parse_document(document)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("iteration_indptr", [1, 2, 3], "iteration_indptr"),
        ("iteration_indptr", [0, 2, 1, 3], "iteration_indptr"),
        ("iteration_indptr", [0, 1, 2], "iteration_indptr"),
        ("iteration_indptr", [10**40, 1, 2, 3], "iteration_indptr"),
        ("base_score", "9" * 30, "does not have the form that XGBoost"),
    ],
)
def test_redundant_fields_by_which_xgboost_goes_are_checked(field, value, message):
    document = document_of(train("reg:squarederror", rounds=3))
    learner = document["learner"]
    if field == "base_score":
        document["version"] = [3, 1, 0]
        learner["learner_model_param"][field] = value
    else:
        learner["gradient_booster"]["model"][field] = value
    with pytest.raises(InvalidInputError, match=message):
        parse_document(document)


def test_trees_say_alike_how_long_their_leaves_are():
    document = document_of(train("multi:softprob", rounds=1))
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    trees[1]["tree_param"]["size_leaf_vector"] = str(len(trees))
    with pytest.raises(InvalidInputError, match="size_leaf_vector"):
        parse_document(document)


def test_a_base_score_that_versions_read_differently_is_not_compared(tmp_path):
    booster = train("binary:logistic", rounds=1, base_score=1e-9)
    document = document_of(booster)
    document["learner"]["learner_model_param"]["base_score"] = "[1E-9]"
    document["version"] = [3, 1, 3]
    (tmp_path / "model.json").write_text(json.dumps(document))
    X = np.zeros((2, booster.num_features()))
    assert parse_module.raw_margin(tmp_path / "model.json", X) is None


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_constant_classes(label):
    ensemble = assert_same_margin(train("binary:logistic", y=np.full(N_ROWS, label)))
    assert np.isfinite(ensemble.base).all()


def test_unknown_objective_is_refused():
    document = document_of(train())
    document["learner"]["objective"]["name"] = "reg:custom"
    with pytest.raises(UnsupportedModelError, match="reg:custom"):
        parse_document(document)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_cuts_are_exact(thresholds):
    threshold = np.array(thresholds, dtype=np.float32)
    cut = cut_below_single(threshold)
    with np.errstate(over="ignore"):
        for x in (
            cut,
            np.nextafter(cut, -np.inf),
            np.nextafter(cut, np.inf),
            np.float64(threshold),
        ):
            np.testing.assert_array_equal(x < cut, x.astype(np.float32) < threshold)


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "binary:logistic"])
@pytest.mark.parametrize("base_score", [{}, {"base_score": 0.3}])
@pytest.mark.parametrize("kind", ["gbtree", "dart"])
def test_zero_trees(objective, base_score, kind):
    booster = train(objective, rounds=0, booster=kind, **base_score)
    ensemble = assert_same_margin(booster, features())
    assert ensemble.n_trees == 0
    assert parse_document(document_of(booster)).n_trees == 0


def test_single_leaves():
    booster = train(y=np.full(N_ROWS, 2.0))
    assert all(tree["left_children"] == [-1] for tree in trees_of(document_of(booster)))
    ensemble = assert_same_margin(booster, features())
    assert len(ensemble.feature) == ensemble.n_trees


def test_pruned_nodes_are_left_out():
    booster = train(rounds=6, tree_method="exact", gamma=3.0, max_depth=6)
    trees = trees_of(document_of(booster))
    deleted = sum(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    assert deleted > 0
    ensemble = assert_same_margin(booster)
    assert len(ensemble.feature) == sum(len(tree["left_children"]) for tree in trees) - deleted


def test_children_stored_before_their_parents_are_read():
    document = document_of(train(rounds=1, max_depth=2))
    expected = parse_document(document).margin(features())
    (tree,) = trees_of(document)
    n = len(tree["left_children"])
    moved = [0, *range(n - 1, 0, -1)]
    for key in ("split_indices", "split_conditions", "default_left", "split_type", "base_weights"):
        tree[key] = [tree[key][old] for old in moved]
    for key in ("left_children", "right_children"):
        tree[key] = [-1 if tree[key][old] < 0 else moved[tree[key][old]] for old in moved]
    no_parent, *parents = (tree["parents"][old] for old in moved)
    tree["parents"] = [no_parent, *(moved[parent] for parent in parents)]
    np.testing.assert_array_equal(parse_document(document).margin(features()), expected)


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob", "binary:logistic"])
@pytest.mark.parametrize("parallel", [1, 3])
def test_dart(objective, parallel):
    booster = train(
        objective, 8, booster="dart", rate_drop=0.5, skip_drop=0.2, num_parallel_tree=parallel
    )
    _, weight_drop = dart_of(document_of(booster))
    assert min(weight_drop) < 1.0
    ensemble = assert_same_margin(booster)
    assert ensemble.source.kind == "dart"


def test_other_layouts_of_dart():
    booster = train(rounds=5, booster="dart", rate_drop=0.5)
    document = document_of(booster)
    expected = parse_document(document).margin(features())
    model, weight_drop = dart_of(document)
    nested = {"name": "dart", "gbtree": {"model": model}, "weight_drop": weight_drop}
    flat = {"name": "dart", "model": model, "weight_drop": weight_drop}
    inner = {"name": "dart", "model": {**model, "weight_drop": weight_drop}}
    for layout in (nested, flat, inner, {**inner, "name": "gbtree"}):
        document["learner"]["gradient_booster"] = layout
        ensemble = parse_document(document)
        np.testing.assert_array_equal(ensemble.margin(features()), expected)
        assert ensemble.source.kind == "dart"
    flat["weight_drop"] = [1.0, 0.5]
    document["learner"]["gradient_booster"] = flat
    short = parse_document(document)
    flat["weight_drop"] = [1.0, 0.5, 1.0, 1.0, 1.0]
    np.testing.assert_array_equal(short.value, parse_document(document).value)
    del flat["weight_drop"]
    with pytest.raises(InvalidInputError, match="weight_drop"):
        parse_document(document)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_many_targets(strategy, objective):
    X = features()
    first = response(objective, X)
    y = np.column_stack([first, response(objective, -X), first * (X[:, 0] > 0)])
    booster = train(objective, X=X, y=y, multi_strategy=strategy)
    ensemble = assert_same_margin(booster)
    assert ensemble.output_names == ("0", "1", "2")
    assert ensemble.value.shape[1] == (3 if strategy == "multi_output_tree" else 1)
    parsed_json = parse_document(document_of(booster))
    np.testing.assert_array_equal(parsed_json.value, ensemble.value)


def test_vector_leaves_among_the_vectors_of_all_nodes():
    X = features()
    y = np.column_stack([response("reg:squarederror", X), response("reg:squarederror", -X)])
    document = document_of(train(X=X, y=y, multi_strategy="multi_output_tree"))
    if "leaf_weights" not in trees_of(document)[0]:
        pytest.skip("this version of XGBoost writes the older layout itself")
    expected = parse_document(document).margin(X)
    for tree in trees_of(document):
        vectors = np.array(tree["base_weights"]).reshape(-1, 2)
        leaves = np.array(tree.pop("leaf_weights")).reshape(-1, 2)
        right = np.array(tree["right_children"])
        is_leaf = np.array(tree["left_children"]) == -1
        vectors[is_leaf] = leaves[right[is_leaf]]
        tree["base_weights"] = vectors.ravel().tolist()
        tree["right_children"] = np.where(is_leaf, -1, right).tolist()
    np.testing.assert_array_equal(parse_document(document).margin(X), expected)


def test_quantiles():
    booster = train("reg:quantileerror", quantile_alpha=[0.2, 0.5, 0.9])
    assert assert_same_margin(booster).n_outputs == 3


# What XGBoost 3.4.1 itself predicts before the first round.
EXPECTILE_MARGINS = [
    ("[2E0]", [2.0]),
    ("[0E0,1E0]", [0.0, 0.5413233]),
    ("[0E0,1E-7]", [0.0, -13.81551]),
    ("[3E0,1E0]", [3.0, -13.81551]),
    ("[0E0,2E1,3E2]", [0.0, 19.999998, 280.0]),
]


@pytest.mark.parametrize(("stored", "margin"), EXPECTILE_MARGINS)
def test_base_scores_of_expectiles(stored, margin):
    objective = find_objective("reg:expectileerror", len(margin))
    assert objective.link.name == ("identity" if len(margin) == 1 else "ordered")
    found = base_margin(stored, objective, len(margin))
    np.testing.assert_array_equal(found, np.float32(margin))
    with pytest.raises(InvalidInputError, match="base score"):
        base_margin("[2E0]", objective, 4)


@pytest.mark.skipif(VERSION < (3, 3), reason="XGBoost learned expectiles in 3.3")
@pytest.mark.parametrize("levels", [0.3, [0.2, 0.7], [0.1, 0.5, 0.9]])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("base_score", [None, 0.7])
@pytest.mark.parametrize("rounds", [0, 4])
def test_expectiles(levels, strategy, base_score, rounds):
    given_score = {} if base_score is None else {"base_score": base_score}
    booster = train(
        "reg:expectileerror", rounds, expectile_alpha=levels, multi_strategy=strategy, **given_score
    )
    ensemble = assert_same_margin(booster)
    rows = rows_beside_cuts(ensemble, 150)
    predicted = booster.inplace_predict(rows).reshape(len(rows), -1)
    response = ensemble.link.inverse(ensemble.margin(rows))
    np.testing.assert_allclose(response, predicted, rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100),
    one_hot=st.sampled_from([1, 20]),
    n_codes=st.integers(2, 9),
    booster=st.sampled_from(["gbtree", "dart"]),
)
def test_category_codes(seed, one_hot, n_codes, booster):
    rng = np.random.default_rng(seed)
    X = features(seed)
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, rng.integers(0, n_codes, N_ROWS))
    y = np.nan_to_num(X[:, 0]) + rng.normal(size=n_codes + 1)[np.nan_to_num(X[:, 1]).astype(int)]
    data = xgboost.DMatrix(X, y, feature_types=["q", "c", "q"])
    parameters = {"max_depth": 4, "max_cat_to_onehot": one_hot, "booster": booster, "nthread": 1}
    model = xgboost.train({**parameters, "rate_drop": 0.5}, data, 5)
    ensemble = parse(model)
    assert [spec.is_categorical for spec in ensemble.features] == [False, True, False]
    assert ensemble.features[1].n_codes <= n_codes
    assert_same_margin(model, rows_beside_cuts(ensemble, 150, seed=seed), ensemble)


def categorical_table(seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "colour": pd.Categorical(rng.choice(["red", "green", "blue", "grey"], N_ROWS)),
            "size": rng.normal(size=N_ROWS),
            "code": pd.Categorical(rng.choice([30, 7, 9], N_ROWS)),
        }
    )
    table.loc[:4, "colour"] = None
    y = table["size"] + 3 * (table["colour"] == "red") - 2 * (table["code"] == 7)
    return table, y.to_numpy()


def test_pandas_categories():
    table, y = categorical_table()
    model = xgboost.XGBRegressor(
        n_estimators=10, max_depth=3, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1
    ).fit(table, y)
    ensemble = assert_same_margin(model, table)
    assert ensemble.feature_names == ("colour", "size", "code")
    assert ensemble.has_feature_names
    needs_stored_labels(model)
    colour, _, code = ensemble.features
    assert colour.categories == ("blue", "green", "grey", "red")
    assert code.categories == (7, 9, 30)
    expected = ensemble.margin(table)
    other_order = table.assign(
        colour=table["colour"].cat.reorder_categories(["red", "grey", "blue", "green"])
    )[["code", "colour", "size"]]
    np.testing.assert_array_equal(ensemble.margin(other_order), expected)
    np.testing.assert_array_equal(raw_margin(model, other_order), expected)
    np.testing.assert_array_equal(ensemble.margin(table.astype({"colour": object})), expected)
    assert_same_margin(model, rows_beside_cuts(ensemble, 100), ensemble)
    assert_same_margin(model.get_booster(), table)


def test_categories_that_xgboost_cuts_up_are_not_trusted():
    table, y = categorical_table()
    needs_stored_labels(xgboost.XGBRegressor(n_estimators=5, enable_categorical=True).fit(table, y))
    table["colour"] = table["colour"].cat.rename_categories({"red": "größe", "blue": "é"})
    model = xgboost.XGBRegressor(n_estimators=5, enable_categorical=True, n_jobs=1).fit(table, y)
    ensemble = assert_same_margin(model, table)
    assert ensemble.features[0].categories is None
    assert ensemble.features[0].n_codes == 4
    assert any("ASCII" in note for note in ensemble.source.notes)


def test_classifier_names_its_classes():
    X = features()
    y = response("multi:softprob", X)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y)
    assert assert_same_margin(model, X).output_names == ("0", "1", "2")
    assert parse(model.get_booster()).output_names == ("0", "1", "2")
    binary = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, y > 0)
    ensemble = assert_same_margin(binary, X)
    assert ensemble.output_names == ("margin",)
    np.testing.assert_allclose(
        ensemble.link.inverse(ensemble.margin(X))[:, 0], binary.predict_proba(X)[:, 1], rtol=1e-6
    )


@pytest.mark.parametrize("name", ["XGBRFRegressor", "XGBRFClassifier", "XGBRanker"])
def test_other_wrappers(name):
    X = features()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`XGBRF.* is deprecated", FutureWarning)
        model = getattr(xgboost, name)(n_estimators=6, max_depth=3, n_jobs=1, random_state=0)
    if name == "XGBRanker":
        model.fit(X, response("rank:ndcg", X), qid=np.repeat([0, 1], N_ROWS // 2))
    else:
        model.fit(X, response("binary:logistic", X))
    ensemble = assert_same_margin(model)
    assert ensemble.source.kind == f"{name}, gbtree"


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
@pytest.mark.parametrize("classes", [False, True])
def test_early_stopping(booster, classes):
    X, held_out = features(0), features(1)
    objective = "multi:softprob" if classes else "reg:squarederror"
    wrapper = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    model = wrapper(
        n_estimators=60,
        learning_rate=1.0,
        num_parallel_tree=2,
        subsample=0.7,
        early_stopping_rounds=3,
        booster=booster,
        n_jobs=1,
    ).fit(
        X,
        response(objective, X),
        eval_set=[(held_out, response(objective, held_out, 9))],
        verbose=False,
    )
    a_round = 2 * (3 if classes else 1)
    ensemble = assert_same_margin(model)
    assert ensemble.n_trees == (model.best_iteration + 1) * a_round
    everything = assert_same_margin(model.get_booster())
    assert everything.n_trees == (model.best_iteration + 4) * a_round
    assert any("early stopping" in note for note in everything.source.notes)
    # Models from before 2.0 have no list of rounds.
    document = copy.deepcopy(document_of(model.get_booster()))
    gradient_booster = document["learner"]["gradient_booster"]
    del gradient_booster.get("gbtree", gradient_booster)["model"]["iteration_indptr"]
    assert parse_document(document, best_iteration_only=True).n_trees == ensemble.n_trees


@pytest.mark.parametrize("missing", [0.0, -999.1])
def test_missing_value_of_the_wrapper(missing):
    X = features(missing=0.05)
    X[::5, 0] = missing
    y = response("reg:squarederror", X) + 9.0 * (X[:, 0] == missing)
    model = xgboost.XGBRegressor(n_estimators=5, missing=missing, n_jobs=1).fit(X, y)
    rows = np.concatenate([X, X])
    # What XGBoost calls equal is equal in single precision.
    rows[:8, 0] = [missing, np.float32(missing), missing + 1e-50, 1e-50, -0.0, 0.0, np.nan, 1.0]
    ensemble = assert_same_margin(model, rows)
    as_missing = ensemble.margin(np.where(rows == missing, np.nan, rows))
    np.testing.assert_array_equal(as_missing[8:], ensemble.margin(rows)[8:])
    assert not np.array_equal(parse(model.get_booster()).margin(rows), ensemble.margin(rows))
    assert_same_margin(model, pd.DataFrame(rows))
    assert_same_margin(model, rows.astype(np.float32))


def test_missing_value_among_categories():
    table, y = categorical_table()
    model = xgboost.XGBRegressor(
        n_estimators=8, max_depth=4, enable_categorical=True, missing=1.0, n_jobs=1
    ).fit(table, y)
    model_without = xgboost.XGBRegressor(
        n_estimators=8, max_depth=4, enable_categorical=True, n_jobs=1
    ).fit(table, y)
    model_without.set_params(missing=1.0)
    for fitted in (model, model_without):
        ensemble = assert_same_margin(fitted, table)
        assert_same_margin(fitted, rows_beside_cuts(ensemble, 100), ensemble)


@pytest.mark.parametrize("first", [["p", "q"], [1, 2]])
def test_columns_with_several_levels(first):
    """XGBoost joins the levels of a name by blanks."""
    levels = pd.MultiIndex.from_product([first, ["u", "v"]])
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)), columns=levels)
    model = xgboost.XGBRegressor(n_estimators=5).fit(X, X.iloc[:, 0] * X.iloc[:, 1])
    for table in (X, X.iloc[:, ::-1]):
        composed = tp.parse_model(model).margin(table)[:, 0]
        np.testing.assert_array_equal(composed, model.predict(X))
    assert tp.purify(model, X, weights="empirical", progress=False).feature_names == tuple(
        map(str, levels)
    )


def test_names_without_a_table_and_columns_without_names():
    X = features()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    y = response("reg:squarederror", X)
    named = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(table, y)
    unnamed = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y)
    assert parse(named).feature_names == ("a", "b", "c")
    assert parse(unnamed).feature_names == ("x0", "x1", "x2")
    assert not parse(unnamed).has_feature_names
    for model in (named, unnamed, named.get_booster(), unnamed.get_booster()):
        assert_same_margin(model, X)
        assert_same_margin(model, table)


def test_linear_boosters_and_untrained_models_are_refused():
    with pytest.raises(UnsupportedModelError, match="gblinear"):
        parse(train(X=np.nan_to_num(features()), booster="gblinear", updater="coord_descent"))
    with pytest.raises(InvalidInputError, match="trained"):
        parse(xgboost.XGBRegressor())
    with pytest.raises(InvalidInputError, match="trained"):
        parse(xgboost.Booster())


@pytest.mark.usefixtures("_each_way")
def test_json_and_ubjson_say_the_same():
    table, y = categorical_table()
    data = xgboost.DMatrix(table, y, enable_categorical=True)
    booster = xgboost.train({"max_depth": 4, "nthread": 1}, data, 5)
    from_json, from_ubjson = parse_document(document_of(booster)), parse(booster)
    for name in (
        "tree_ptr",
        "feature",
        "cut",
        "left",
        "right",
        "missing_left",
        "category_ptr",
        "category_left",
        "value",
        "tree_output",
        "base",
    ):
        np.testing.assert_array_equal(getattr(from_json, name), getattr(from_ubjson, name))
    assert from_json.features == from_ubjson.features
    without_tables = parse_document(read_ubjson(booster.save_raw("ubj")))
    np.testing.assert_array_equal(without_tables.value, from_ubjson.value)


@pytest.fixture(scope="module")
def categorical_document():
    table, y = categorical_table()
    data = xgboost.DMatrix(table, y, enable_categorical=True)
    booster = xgboost.train({"max_depth": 3, "nthread": 1, "max_cat_to_onehot": 1}, data, 2)
    return document_of(booster)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items if isinstance(value, dict | list) else ():
        yield from places(inner, (*path, key)) if isinstance(inner, dict | list) else [(*path, key)]


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_damaged_documents_are_refused_or_harmless(categorical_document, data):
    document = copy.deepcopy(categorical_document)
    path = data.draw(st.sampled_from([place for place in places(document) if place]))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    damage = data.draw(
        st.sampled_from(
            ["delete", None, -5, 10**25, 0.5, "text", [], [1], ["a"], [[1]], {}, 1e300, 99]
        )
    )
    if damage == "delete":
        del holder[path[-1]]
    else:
        holder[path[-1]] = damage
    with contextlib.suppress(InvalidInputError, UnsupportedModelError):
        parse_document(document)


def test_inconsistent_arrays_are_refused(categorical_document):
    for key in ("split_conditions", "default_left", "categories_sizes", "split_type"):
        document = copy.deepcopy(categorical_document)
        trees_of(document)[0][key].pop()
        with pytest.raises(InvalidInputError, match=key):
            parse_document(document)
    for children in ([1, 3, 1], [0, 0, 0], [5000, 1, 2]):
        document = copy.deepcopy(categorical_document)
        trees_of(document)[0]["left_children"][:3] = children
        with pytest.raises(InvalidInputError, match="damaged"):
            parse_document(document)


@pytest.mark.parametrize(
    ("key", "number", "message"),
    [
        ("default_left", 2, "neither 0 nor 1"),
        ("default_left", -1, "neither 0 nor 1"),
        ("parents", 0, "parents"),
        ("split_type", -1, "unknown kind of split -1"),
        ("categories_segments", 1, "category set"),
        ("categories_sizes", 2**62, "category set"),
    ],
)
def test_numbers_that_say_nothing_are_refused(categorical_document, key, number, message):
    document = copy.deepcopy(categorical_document)
    trees_of(document)[0][key][0] = number
    with pytest.raises((InvalidInputError, UnsupportedModelError), match=message):
        parse_document(document)


@pytest.mark.parametrize(
    ("holder", "key", "claimed"),
    [
        ("learner_model_param", "num_feature", "2000000"),
        ("learner_model_param", "num_feature", "4294967295"),
        ("learner_model_param", "num_feature", "1_0"),
        ("learner_model_param", "num_feature", "\u0663"),
        ("learner_model_param", "num_feature", 3.5),
        ("learner_model_param", "num_class", "4294967295"),
        ("gbtree_model_param", "num_trees", "1"),
        ("gbtree_model_param", "num_trees", "4294967295"),
    ],
)
def test_counts_that_the_file_does_not_hold(holder, key, claimed):
    document = document_of(train("multi:softprob", rounds=2))
    learner = document["learner"]
    inner = learner["gradient_booster"]["model"]
    (learner if holder in learner else inner)[holder][key] = claimed
    learner["feature_names"] = learner["feature_types"] = []
    tracemalloc.start()
    with pytest.raises((InvalidInputError, UnsupportedModelError), match=r"states|num_"):
        parse_document(document)
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()


def test_a_large_code_of_many_splits_takes_no_memory(categorical_document):
    document = copy.deepcopy(categorical_document)
    for tree in trees_of(document):
        tree["categories"] = [2**24 for _ in tree["categories"]]
    model = document["learner"]["gradient_booster"]["model"]
    model["trees"] = [tree | {"id": i} for i, tree in enumerate(model["trees"] * 20)]
    model["tree_info"] *= 20
    model["iteration_indptr"] = list(range(41))
    model["gbtree_model_param"]["num_trees"] = "40"
    tracemalloc.start()
    with pytest.raises(UnsupportedModelError, match="tables of"):
        parse_document(document)
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()


def pair(name, content):
    return b"L" + len(name).to_bytes(8, "big") + name + content


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("in_tree", [True, False])
def test_ubjson_that_repeats_a_key(in_tree):
    content = bytes(train(rounds=2).save_raw("ubj"))
    key = b"split_type" if in_tree else b"version"
    at = content.index(pair(key, b""))
    again = pair(key, b"[$U#L" + (1).to_bytes(8, "big") + b"\0")
    with pytest.raises(InvalidInputError, match=f"{key.decode()}' occurs twice"):
        parse_bytes(content[:at] + again + content[at:])


def test_ubjson_lists_take_no_more_memory_than_the_file():
    n = 100_000
    for item in (b"Z", b"T", b"$Z"):
        items = item if item == b"$Z" else b""
        body = b"" if items else item * n
        content = b"{" + pair(b"a", b"[" + items + b"#L" + n.to_bytes(8, "big") + body) + b"}"
        with pytest.raises(InvalidInputError, match=r"expected a number or text|typed array"):
            read_ubjson(content)
    content = b"{" + pair(b"trees", b"[#L" + n.to_bytes(8, "big") + b"{}" * n) + b"}"
    tracemalloc.start()
    with pytest.raises(InvalidInputError):
        parse_bytes(content)
    assert tracemalloc.get_traced_memory()[1] < 60 * len(content)
    tracemalloc.stop()


@pytest.mark.parametrize("counted", [True, False])
def test_ubjson_lists_of_numbers_of_several_types(counted):
    forms = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
    numbers = [(kind, n % 100 + 1) for kind in "iiUILLldDddi" for n in range(300)]
    items = [kind.encode() + struct.pack(forms[kind], number) for kind, number in numbers]
    items.insert(777, b"Si\x02ab")
    head, foot = (b"[#L" + struct.pack(">q", len(items)), b"") if counted else (b"[", b"]")
    found = read_ubjson(b"{" + pair(b"a", head + b"".join(items) + foot) + b"}")["a"]
    expected = [number for _, number in numbers]
    expected.insert(777, "ab")
    assert found == expected
    assert {type(value) for value in found} == {int, float, str}
    for cut in (20, 700, 5000):
        with pytest.raises(InvalidInputError, match="cut short"):
            read_ubjson(b"{" + pair(b"a", head + b"".join(items)[:cut]))


def test_ubjson_with_something_behind_it():
    content = bytes(train(rounds=1).save_raw("ubj"))
    with pytest.raises(InvalidInputError, match="bytes follow"):
        parse_bytes(content + b"{}")


@pytest.mark.usefixtures("_each_way")
def test_ubjson_cut_short_or_altered():
    content = bytes(train(rounds=2).save_raw("ubj"))
    for length in range(0, len(content) - 1, 7):
        with pytest.raises((InvalidInputError, UnsupportedModelError)):
            parse_bytes(content[:length])
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 300):
        altered = bytearray(content)
        altered[position] = rng.integers(256)
        with contextlib.suppress(InvalidInputError, UnsupportedModelError):
            parse_bytes(bytes(altered))


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (pair(b"id", b"i\x01"), pair(b"id", b"i\x02"), "id"),
        (b"size_leaf_vectorSL" + (1).to_bytes(8, "big") + b"1", b"4", "size_leaf_vector"),
        (b"num_nodesSL" + (1).to_bytes(8, "big") + b"3", b"5", "num_nodes"),
        (b"num_nodesSL" + (1).to_bytes(8, "big") + b"3", b"x", "num_nodes"),
    ],
)
def test_numbers_of_a_tree_that_do_not_fit_it(old, new, name):
    booster = train(rounds=2, max_depth=1)
    content = bytes(booster.save_raw("ubj"))
    assert old in content
    with pytest.raises(InvalidInputError, match=f"'{name}' does not match"):
        parse_bytes(content.replace(old, old[: -len(new)] + new))
    document = document_of(booster)
    tree = trees_of(document)[1]
    (tree if name in tree else tree["tree_param"])[name] = "99"
    with pytest.raises(InvalidInputError, match=f"'{name}' does not match"):
        parse_document(document)


@pytest.mark.parametrize("has_labels", [True, False])
@pytest.mark.parametrize("missing", [0.0, 1.0, 2.0])
def test_cells_of_categories_that_count_as_missing_hold_the_value_of_missing(has_labels, missing):
    rng = np.random.default_rng(int(missing))
    codes = rng.integers(0, 3, 400)
    X = pd.DataFrame(
        {"a": rng.normal(size=400) + 7, "c": pd.Categorical.from_codes(codes, [*"uvw"])}
    )
    options = {"enable_categorical": True}
    if not has_labels:
        X["c"] = codes.astype(float)
        options = {"enable_categorical": True, "feature_types": ["float", "c"]}
    model = xgboost.XGBRegressor(
        n_estimators=10, max_cat_to_onehot=1, missing=missing, n_jobs=1, **options
    ).fit(X, X["a"] * (codes == 1) + (codes == 2) - 2.0 * (codes == 0))
    moved = []
    for code in range(3):
        column = pd.Categorical.from_codes([code] * 400, [*"uvw"]) if has_labels else float(code)
        moved.append(model.predict(X.assign(c=column)).mean())
    found = tp.partial_dependence_anova(model, X, progress=False)["c"].values[:3, 0]
    np.testing.assert_allclose(np.diff(found), np.diff(moved), atol=1e-5)


def test_models_of_spark_are_refused_with_what_to_pass():
    spark = type("SparkXGBRegressorModel", (), {"__module__": "xgboost.spark.estimator"})
    with pytest.raises(UnsupportedModelError, match=r"model of Spark.*model\.get_booster\(\)"):
        tp.parse_model(spark())
