"""LightGBM models against the library's own raw scores, bit for bit."""

import pickle
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import treepurify as tp
from tests.cases import rows_beside_cuts
from treepurify.errors import InvalidInputError, MemoryBudgetError, UnsupportedModelError
from treepurify.models import lightgbm as reader
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.lightgbm import parse, parse_text, raw_margin
from treepurify.models.lightgbm_library import text_of
from treepurify.models.parse import raw_margin as raw_margin_of_file
from treepurify.models.parse import read_model

lgb = pytest.importorskip("lightgbm")

QUIET = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 3, "num_leaves": 6, "seed": 1}
CATEGORIES_SMALL = {"min_data_per_group": 2, "cat_smooth": 1.0, "max_cat_to_onehot": 2}
_ZERO = float(np.float32(1e-35))
_MAX = np.finfo(float).max


def _data(seed: int = 0, n_rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, numbers with NaN, small integers with many zeros, category codes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(n_rows) < 0.2, 1] = np.nan
    X[:, 2] = rng.integers(-2, 3, n_rows)
    X[:, 3] = rng.integers(0, 40, n_rows)
    y = X[:, 0] * np.nan_to_num(X[:, 1], nan=2.0) + (X[:, 2] == 0) + np.sin(7 * X[:, 3])
    return X, y + 0.1 * rng.normal(size=n_rows)


def _train(X, y, n_iterations: int = 12, categorical=(), **parameters) -> "lgb.Booster":
    data = lgb.Dataset(X, y, categorical_feature=list(categorical))
    return lgb.train({**QUIET, **parameters}, data, n_iterations)


def _assert_exact(model, n_rows: int = 400, seed: int = 0) -> TreeEnsemble:
    ensemble = parse(model)
    rows = rows_beside_cuts(ensemble, n_rows, seed=seed)
    np.testing.assert_array_equal(ensemble.margin(rows), raw_margin(model, rows))
    return ensemble


def _without_sizes(text: str) -> str:
    """Drop the byte counts, so that an edited text can be read."""
    return re.sub(r"tree_sizes=.*\n", "", text)


def _with_sizes(text: str) -> str:
    """Bring the byte counts of an edited text up to date."""
    trees = text.replace("\r\n", "\n").partition("\nend of trees")[0].split("\nTree=")[1:]
    sizes = " ".join(str(len(tree) + len("\nTree=")) for tree in trees)
    return re.sub(r"tree_sizes=[\d ]*", f"tree_sizes={sizes}", text)


@pytest.fixture(scope="module")
def booster():
    X, y = _data()
    return _train(X, y, categorical=[3], **CATEGORIES_SMALL)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    zero_as_missing=st.booleans(),
    use_missing=st.booleans(),
    categorical=st.sampled_from([(), (3,), (2, 3)]),
    n_leaves=st.integers(2, 12),
    boosting=st.sampled_from(["gbdt", "dart"]),
    objective=st.sampled_from(["regression", "multiclass"]),
)
def test_margin_is_the_raw_score(
    seed, zero_as_missing, use_missing, categorical, n_leaves, boosting, objective
):
    X, y = _data(seed, 120)
    several = {} if objective == "regression" else {"num_class": 3}
    model = _train(
        X,
        y if not several else np.digitize(y, [-0.5, 1.0]),
        6,
        categorical,
        zero_as_missing=zero_as_missing,
        use_missing=use_missing,
        num_leaves=n_leaves,
        boosting=boosting,
        objective=objective,
        drop_rate=0.5,
        **several,
        **CATEGORIES_SMALL,
    )
    ensemble = _assert_exact(model, 300, seed)
    assert ensemble.n_outputs == (3 if several else 1)
    assert any(spec.is_categorical for spec in ensemble.features) == bool(categorical)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(*[st.floats(width=64)] * 3, st.integers(-3, 50)), min_size=1))
def test_margin_on_any_rows(booster, rows):
    X = np.array(rows, dtype=float)
    np.testing.assert_array_equal(parse(booster).margin(X), raw_margin(booster, X))


def test_missing_values_are_known_where_nodes_know_them(booster):
    features = parse(booster).features
    assert [spec.has_missing for spec in features[:3]] == [False, True, False]
    assert not any(spec.zero_is_missing for spec in features)
    X, y = _data()
    features = _assert_exact(_train(X, y, zero_as_missing=True)).features
    assert features[2].zero_is_missing
    assert features[2].has_missing


@pytest.mark.parametrize("missing_type", [0, 4, 8], ids=["none", "zero", "nan"])
@pytest.mark.parametrize("default_left", [0, 2])
@pytest.mark.parametrize(
    "threshold",
    [s * t for s in (-1, 1) for t in (0.0, 5e-324, 1e-36, _ZERO, 1e-34, 1e300, _MAX, np.inf)],
)
def test_thresholds_around_zero(missing_type, default_left, threshold):
    X, y = _data()
    text = _without_sizes(_train(X[:, :1], y, 1, num_leaves=2).model_to_string())
    text = re.sub(r"threshold=.*", f"threshold={float(threshold)!r}", text)
    text = re.sub(r"decision_type=.*", f"decision_type={missing_type + default_left}", text)
    model = lgb.Booster(model_str=text)
    tiny = np.array([0.0, -0.0, 1e-36, -1e-36, 5e-324, _ZERO, -_ZERO, 1e-34, -1e-34, 1e300])
    rows = np.concatenate(
        [tiny, np.nextafter(tiny, np.inf), np.nextafter(tiny, -np.inf), [np.nan, np.inf, -np.inf]]
    )[:, None]
    ensemble = parse_text(text)
    expected = raw_margin(model, rows)
    # Without missing values, every number is at most infinity.
    everything_left = threshold == np.inf and (missing_type == 0 or default_left)
    assert len(np.unique(expected)) == (1 if everything_left else 2)
    np.testing.assert_array_equal(ensemble.margin(rows), expected)


def test_splits_between_present_and_missing():
    X, y = _data()
    y = y + 50.0 * np.isnan(X[:, 1])
    model = _train(X, y)
    assert "threshold=inf" in model.model_to_string()
    ensemble = _assert_exact(model)
    rows = np.zeros((4, 4))
    rows[:, 1] = [np.nan, np.inf, -np.inf, np.finfo(float).max]
    margin = ensemble.margin(rows)
    np.testing.assert_array_equal(margin, raw_margin(model, rows))
    assert len(np.unique(margin)) > 1


def test_zero_as_missing_agrees_with_no_missing_but_not_with_nan():
    X, y = _data()
    first = _train(X[:, [0]], y, 1, num_leaves=2).model_to_string()
    model = lgb.Booster(model_str=first)
    text = lgb.train(
        {**QUIET, "num_leaves": 2}, lgb.Dataset(X[:, [0]], y), 1, init_model=model
    ).model_to_string()

    def with_types(one: int, other: int) -> str:
        types = iter([one, other])
        return re.sub(
            r"decision_type=.*", lambda _: f"decision_type={next(types)}", _without_sizes(text)
        )

    rows = np.array([[0.0], [np.nan], [1e-36], [1.0], [-1.0]])
    for types in [(4, 2), (6, 0), (0, 4), (0, 8), (10, 0)]:
        mixed = lgb.Booster(model_str=with_types(*types))
        np.testing.assert_array_equal(parse(mixed).margin(rows), raw_margin(mixed, rows))
    with pytest.raises(UnsupportedModelError, match="zero_as_missing"):
        parse_text(with_types(4, 8))


def test_categories_of_numbers(booster):
    ensemble = parse(booster)
    spec = ensemble.features[3]
    assert spec.is_categorical
    assert spec.categories is None
    assert spec.n_codes == 40
    assert np.any(ensemble.category_ptr >= 0)
    assert spec.numbers_are == "codes"
    assert any("without labels" in note for note in ensemble.source.notes)
    rows = np.zeros((9, 4))
    rows[:, 3] = [np.nan, -1, -7.5, 39.9, 40, 1e9, 1e18, np.inf, -np.inf]
    np.testing.assert_array_equal(ensemble.margin(rows), raw_margin(booster, rows))


@pytest.mark.parametrize("missing", [{}, {"use_missing": False}, {"zero_as_missing": True}])
@pytest.mark.parametrize("as_rows", [np.array, pd.DataFrame, lambda rows: np.array(rows, object)])
def test_codes_between_minus_one_and_zero_are_the_code_zero(missing, as_rows):
    codes = np.repeat(np.arange(6.0), 40)[:, None]
    model = _train(codes, 9.0 * (codes[:, 0] == 0), 2, [0], **CATEGORIES_SMALL, **missing)
    fractions = [-5e-324, -1e-30, -0.5, np.nextafter(-1.0, 0.0)]
    rows = np.array([0.0, -0.0, *fractions, -1.0, np.nextafter(-1.0, -2.0), -1.5, 99.0])[:, None]
    margin = parse(model).margin(as_rows(rows))
    np.testing.assert_array_equal(margin, model.predict(rows, raw_score=True)[:, None])
    assert len(np.unique(margin[: 2 + len(fractions)])) == 1
    assert margin[0] != margin[-1]


OBJECTIVES = [
    ("regression", {}),
    ("regression", {"reg_sqrt": True}),
    ("regression_l1", {}),
    ("mape", {"reg_sqrt": True}),
    ("huber", {}),
    ("fair", {}),
    ("quantile", {}),
    ("poisson", {}),
    ("gamma", {}),
    ("tweedie", {}),
    ("binary", {"sigmoid": 0.7}),
    ("cross_entropy", {}),
    ("cross_entropy_lambda", {}),
    ("multiclass", {"num_class": 3}),
    ("multiclassova", {"num_class": 3, "sigmoid": 1.25}),
    ("lambdarank", {}),
    ("rank_xendcg", {}),
]


@pytest.mark.parametrize(("objective", "parameters"), OBJECTIVES)
def test_link_gives_the_prediction(objective, parameters):
    X, y = _data()
    if "num_class" in parameters or "rank" in objective:
        y = np.digitize(y, [-0.5, 1.0])
    elif objective in ("binary", "cross_entropy", "cross_entropy_lambda"):
        y = (y > 0).astype(float)
    elif objective in ("poisson", "gamma", "tweedie"):
        y = np.abs(y) + 0.1
    data = lgb.Dataset(X, y, group=[100, 100] if "rank" in objective else None)
    model = lgb.train({**QUIET, "objective": objective, **parameters}, data, 4)
    ensemble = _assert_exact(model)
    rows = rows_beside_cuts(ensemble, 50)
    response = ensemble.link.inverse(ensemble.margin(rows))
    expected = model.predict(rows).reshape(50, -1)
    np.testing.assert_allclose(response, expected, rtol=1e-13, atol=1e-15)
    expected_names = ("0", "1", "2") if "num_class" in parameters else ("margin",)
    assert ensemble.output_names == expected_names


def test_objectives_without_a_known_link():
    X, y = _data()

    def residual(prediction, data):
        return prediction - data.get_label(), np.ones_like(prediction)

    own = _assert_exact(_train(X, y, objective=residual))
    assert own.link.name == "identity"
    assert "'custom'" in own.source.notes[0]
    text = _train(X, y).model_to_string().replace("objective=regression", "objective=newest")
    other = parse_text(text)
    assert "'newest': the function from the margin to the response" in other.source.notes[0]
    with pytest.raises(InvalidInputError, match=r"not known how.*scale=\"margin\""):
        other.link.inverse(other.margin(X))


@pytest.mark.parametrize("n_iterations", [1, 5])
@pytest.mark.parametrize("objective", ["regression", "binary", "multiclass"])
def test_random_forest_is_the_mean_of_its_trees(objective, n_iterations):
    X, y = _data()
    y = {"regression": y, "binary": y > 0, "multiclass": np.digitize(y, [-0.5, 1.0])}[objective]
    model = _train(
        X, y, n_iterations, boosting="rf", bagging_freq=1, bagging_fraction=0.6,
        objective=objective, num_class=3 if objective == "multiclass" else 1,
    )  # fmt: skip
    ensemble = parse(model)
    rows = rows_beside_cuts(ensemble, 200)
    margin = ensemble.margin(rows)
    np.testing.assert_allclose(margin, raw_margin(model, rows), rtol=1e-14, atol=1e-15)
    expected = model.predict(rows).reshape(200, -1)
    np.testing.assert_allclose(ensemble.link.inverse(margin), expected, rtol=1e-13)
    assert ensemble.source.kind == "rf"
    assert "mean" in ensemble.source.notes[0]


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_early_stopping_keeps_the_best_iteration():
    X, y = _data()
    stop = [lgb.early_stopping(2, verbose=False)]
    fit, held_out = lgb.Dataset(X[:100], y[:100]), lgb.Dataset(X[100:], y[100:])
    # Without keep_training_booster, lgb.train itself drops the later trees.
    model = lgb.train(
        {**QUIET, "learning_rate": 0.5}, fit, 50, [held_out],
        callbacks=stop, keep_training_booster=True,
    )  # fmt: skip
    assert 0 < model.best_iteration < model.current_iteration()
    assert _assert_exact(model).n_trees == model.best_iteration
    wrapper = lgb.LGBMRegressor(n_estimators=50, learning_rate=0.5, verbose=-1, n_jobs=1)
    wrapper.fit(X[:100], y[:100], eval_set=[(X[100:], y[100:])], callbacks=stop)
    ensemble = _assert_exact(wrapper)
    assert ensemble.n_trees == wrapper.best_iteration_ < 50
    # Not the wrapper's `predict`, which warns of names with the oldest versions of both libraries.
    best = wrapper.booster_.predict(X, raw_score=True)
    np.testing.assert_array_equal(ensemble.margin(X).ravel(), best)


def test_early_stopping_of_a_random_forest():
    X, y = _data()
    forest = {**QUIET, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}
    fit, held_out = lgb.Dataset(X[:100], y[:100]), lgb.Dataset(X[100:], y[100:])
    model = lgb.train(forest, fit, 8, [held_out])
    model.best_iteration = 3
    margin = parse(model).margin(X)
    np.testing.assert_allclose(margin.ravel(), model.predict(X), rtol=1e-14)
    np.testing.assert_allclose(raw_margin(model, X), margin, rtol=1e-14)


def test_wrappers_name_their_classes():
    X, y = _data()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 1.0])]
    settings_ = {"n_estimators": 4, "verbose": -1, "n_jobs": 1}
    classifier = lgb.LGBMClassifier(**settings_).fit(X, labels)
    assert _assert_exact(classifier).output_names == ("high", "low", "middle")
    binary = lgb.LGBMClassifier(**settings_).fit(X, labels == "low")
    assert _assert_exact(binary).output_names == ("margin",)
    named = lgb.LGBMClassifier(**settings_).fit(X, np.where(labels == "low", "low", "other"))
    assert _assert_exact(named).output_names == ("other",)
    ranker = lgb.LGBMRanker(**settings_).fit(X, np.digitize(y, [0.0]), group=[100, 100])
    _assert_exact(ranker)
    with pytest.raises(InvalidInputError, match="call fit"):
        parse(lgb.LGBMRegressor())


def test_models_of_no_trees_one_leaf_and_one_row():
    X, y = _data()
    untrained = lgb.Booster(QUIET, lgb.Dataset(X, y))
    ensemble = _assert_exact(untrained)
    assert ensemble.n_trees == 0
    assert np.all(ensemble.margin(X) == 0)
    constant = _assert_exact(_train(X, np.full(len(X), 3.5)))
    assert constant.n_trees == 1
    assert np.all(constant.margin(X) == 3.5)
    # Classes 1 and 2 cannot be told apart by the one feature: their trees have one leaf.
    lopsided = _train(X[:, :1], (X[:, 0] > 0).astype(int), objective="multiclass", num_class=3)
    leaves_a_tree = np.diff(_assert_exact(lopsided).tree_ptr)
    assert 1 in leaves_a_tree
    assert leaves_a_tree.max() > 1
    assert raw_margin(lopsided, X[:0, :1]).shape == (0, 3)


def test_continued_training(booster):
    X, y = _data(5)
    options = {**QUIET, **CATEGORIES_SMALL}
    data = lgb.Dataset(X, y, categorical_feature=[3])
    longer = lgb.train(options, data, 4, init_model=booster)
    assert _assert_exact(longer).n_trees == 16
    _assert_exact(pickle.loads(pickle.dumps(longer)))
    numeric = lgb.train(options, lgb.Dataset(X, y), 9, init_model=booster)
    with pytest.raises(UnsupportedModelError, match="numeric in others"):
        parse(numeric)


def test_refused_models():
    X, y = _data()
    with pytest.raises(UnsupportedModelError, match="linear"):
        parse(_train(X, y, linear_tree=True))
    with pytest.raises(UnsupportedModelError, match="one of its boosters"):
        parse(lgb.CVBooster())


def test_a_text_gives_what_its_booster_gives(booster):
    text = booster.model_to_string()
    assert text_of(booster) == text
    ours, theirs = parse(booster), parse_text(text.replace("\n", "\r\n"))
    for name in ("tree_ptr", "feature", "left", "right", "value", "missing_left", "category_left"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.features == theirs.features
    assert ours.source == replace(theirs.source, unasked="", version=lgb.__version__)


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_older_layouts(booster, version):
    text = booster.model_to_string().replace("version=v4", f"version={version}")
    ensemble = parse_text(text)
    rows = rows_beside_cuts(ensemble, 200)
    np.testing.assert_array_equal(
        ensemble.margin(rows), raw_margin(lgb.Booster(model_str=text), rows)
    )


OLD_FILES = Path(__file__).parents[1] / "data"
# Without the line "end of trees"; the first two without a version and the sizes of the trees.
WITHOUT_END = ["2.0.4", "2.0.7", "2.1.2"]


@pytest.mark.parametrize("version", [*WITHOUT_END, "2.2.0", "3.3.5", "4.3.0"])
def test_files_of_older_versions(version):
    path = OLD_FILES / f"lightgbm-{version}.txt"
    ensemble = parse_text(path.read_text())
    assert not ensemble.source.unasked
    rows = rows_beside_cuts(ensemble, 300)
    np.testing.assert_array_equal(ensemble.margin(rows), raw_margin_of_file(path, rows, ensemble))


@pytest.mark.parametrize("version", WITHOUT_END)
def test_old_texts_are_refused_where_they_are_cut_short(version):
    text = (OLD_FILES / f"lightgbm-{version}.txt").read_text()
    importances = text.index("feature importances:")
    whole_lines = [at + 1 for at in range(importances, len(text) - 1) if text[at] == "\n"]
    for end in range(7, len(text) - 2, 3):
        if end not in whole_lines:
            with pytest.raises(InvalidInputError, match="LightGBM"):
                parse_text(text[:end])
    start, stop = text.index("Tree=2"), text.index("Tree=3")
    with pytest.raises(InvalidInputError, match=r"trees|expected|in the place of"):
        parse_text(text[:start] + text[stop:])


def test_texts_older_than_every_reader_are_refused():
    text = (OLD_FILES / "lightgbm-2.0.4.txt").read_text()
    with pytest.raises(UnsupportedModelError, match=r"before 2\.0\.4"):
        parse_text(re.sub(r"num_cat=\d+\n", "", text))


def test_only_old_versions_leave_the_end_of_the_trees_out(booster):
    text = booster.model_to_string()
    old = text[: text.index("end of trees")] + "\nfeature importances:\nColumn_0=3\n"
    with pytest.raises(InvalidInputError, match="'end of trees' is missing"):
        parse_text(old)
    assert parse_text(old.replace("version=v4", "version=v2")).n_trees == 12


@settings(max_examples=200, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_text_cut_short_is_refused(booster, share):
    text = booster.model_to_string()
    complete = text.index("\nend of parameters") + len("\nend of parameters")
    at = int(share * complete)
    with pytest.raises(InvalidInputError):
        parse_text(text[:at])


def test_a_text_cut_within_its_labels_is_refused():
    frame, y = _frame()
    text = lgb.LGBMRegressor(n_estimators=2, **SMALL).fit(frame, y).booster_.model_to_string()
    start = text.index("\npandas_categorical") + 1
    for end in range(start + 1, len(text) - 1):
        with pytest.raises(InvalidInputError):
            parse_text(text[:end])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_text_with_a_line_less_is_refused_or_the_same(booster, data):
    lines = booster.model_to_string().split("\n")
    last = lines.index("end of trees")
    gone = data.draw(st.integers(0, last))
    damaged = "\n".join(lines[:gone] + lines[gone + 1 :])
    if lines[gone].startswith(("objective", "tree_sizes")):
        np.testing.assert_array_equal(parse_text(damaged).value, parse(booster).value)
        return
    if lines[gone] == "" and gone < lines.index("Tree=0"):
        return
    with pytest.raises(InvalidInputError):
        parse_text(damaged)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_without_sizes_never_escapes(booster, data):
    text = _without_sizes(booster.model_to_string())
    at = data.draw(st.integers(0, text.index("end of trees")))
    junk = data.draw(st.sampled_from(["", "-", " ", "9", "99999999999999999999", "x", "\n", "="]))
    try:
        ensemble = parse_text(text[:at] + junk + text[at + 1 :])
    except (InvalidInputError, UnsupportedModelError):
        return
    if ensemble.n_features == 4:
        ensemble.margin(np.zeros((1, 4)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version=v4", "version=v5", "version 'v5' of LightGBM's model format"),
        (r"decision_type=\d+", "decision_type=64", "unknown bits"),
    ],
)
def test_unknown_layouts_are_refused(old, new, message):
    X, y = _data()
    text = _without_sizes(_train(X, y, 1).model_to_string())
    with pytest.raises(UnsupportedModelError, match=message):
        parse_text(re.sub(old, new, text, count=1))


def test_numbers_that_the_file_cannot_hold_are_not_believed(booster):
    text = booster.model_to_string().partition("\nTree=0")[0]
    text = re.sub("(num_class|num_tree_per_iteration)=1", rf"\1={10**9}", _without_sizes(text))
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match="1000000000 outputs"):
        parse_text(text + "\nend of trees\n\nparameters:\n\nend of parameters\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e7


@pytest.mark.parametrize("code", [10**7, 2**31 - 2])
def test_a_large_code_takes_no_memory(booster, code):
    text = _without_sizes(booster.model_to_string()).replace(":39:", f":{code}:", 1)
    tracemalloc.start()
    ensemble = parse_text(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e7
    assert ensemble.features[3].labels[-1] == code


@pytest.fixture(scope="module")
def identified():
    """A model whose categories are identifiers of up to eight digits, and rows of all kinds."""
    rng = np.random.default_rng(0)
    ids = np.sort(np.concatenate([[0], rng.choice(8_000_000, 30, replace=False)]))
    X = np.stack([rng.choice(ids, 1000), rng.normal(size=1000)], axis=1)
    y = X[:, 0] % 7 + X[:, 1]
    model = _train(X, y, 5, [0], **CATEGORIES_SMALL)
    rows = X.copy()
    odd = [-1, -0.5, np.nan, 2**31 - 1]
    rows[:97, 0] = np.concatenate([odd, ids, ids + 0.7, ids - 1])
    return model, X, rows


def test_categories_of_large_numbers(identified, tmp_path):
    model, X, rows = identified
    ensemble = parse(model)
    np.testing.assert_array_equal(ensemble.margin(rows), raw_margin(model, rows))
    assert len(ensemble.category_left) < 10_000
    np.testing.assert_array_equal(ensemble.features[0].labels, np.unique(X[:, 0]))
    model.save_model(tmp_path / "model.txt")
    d = tp.purify(tmp_path / "model.txt", X, weights="empirical", progress=False)
    assert d.certificate.margin_error == 0.0
    np.testing.assert_array_equal(d["x0"].axes[0].categories, np.unique(X[:, 0]))
    # LightGBM takes no objects: it is asked with the numbers that the parsed model has read.
    as_objects = rows.astype(object)
    np.testing.assert_array_equal(raw_margin(model, as_objects), raw_margin(model, rows))
    with pytest.raises(InvalidInputError, match=r"the model knows the codes 0, \d+"):
        tp.purify(
            model, np.stack([X[:, 0] + 0.5e7, X[:, 1]], axis=1), weights="empirical", progress=False
        )


def test_errors_name_the_file(booster, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_MAX_CATEGORY_TABLE", 10)
    booster.save_model(tmp_path / "large.txt")
    with pytest.raises(MemoryBudgetError, match=r"large\.txt.*categorical splits"):
        tp.parse_model(tmp_path / "large.txt")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("^tree\n", "forest\n", "first line"),
        (r"threshold=0 \S+", "threshold=0 nan", "threshold is NaN"),
        (r"left_child=\S+", "left_child=1-", "not a number"),
        (r"left_child=\S+", "left_child=1-2", "not a number"),
        (r"left_child=\S+", "left_child=-", "not a number"),
        (r"left_child=\S+", "left_child=--1", "not a number"),
        (r"left_child=\S+", "left_child=1.5", "not a number"),
        (r"left_child=\S+", "left_child=99999999999999999999", "not a number"),
        (r"left_child=\S+", "left_child=-99999999999999999999", "not a number"),
        (r"left_child=\S+", "left_child= 1", "entries, expected"),
        (r"leaf_value=\S+", "leaf_value=a", "not a number"),
        ("Tree=3\n", "Tree=4\n", "expected tree 3, found tree"),
        (r"left_child=\S+", "left_child=77", "outside its tree"),
        (r"left_child=\S+", "left_child=-9", "outside its tree"),
        (r"split_feature=\S+", "split_feature=4", "does not list"),
        ("leaf_value=", "leaf_value=1 ", "entries, expected"),
        ("max_feature_idx=3", "max_feature_idx=5", "declares 6 features"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=5", "1 classes, but 5 trees"),
        ("class=1\nnum_tree_per_iteration=1", "class=5\nnum_tree_per_iteration=5", "5 outputs"),
        ("label_index=0\n", "label_index=0\nlabel_index=0\n", "label_index twice"),
        ("label_index=0\n", "", "no label_index"),
        ("(num_cat=.*\n)(split_feature=.*\n)", r"\2\1", "out of order"),
        ("(threshold=.*\n)", r"\1\1", "threshold twice"),
        ("split_gain=", "split_grain=", "does not write"),
        ("split_gain=", "split_gain=1 ", "split_gain of a tree"),
        ("leaf_count=", "leaf_count=1 ", "leaf_count of a tree"),
        ("internal_count=.*", "internal_count=", "internal_count of a tree"),
        ("is_linear=0", "is_linear=2", "is_linear=2"),
        ("average_output=|label_index=0", "average_output=1", "the unexpected line"),
        (r"leaf_value=\S+", "leaf_value=1_0", "not a number"),
        (r"leaf_value=\S+", "leaf_value=Infinity", "not a number"),
        ("Column_1", "Column_0", "feature_names twice"),
        (r"feature_infos=\S+", "feature_infos=[2:1]", "feature_infos has the unexpected entry"),
        (r"feature_infos=\S+", "feature_infos=1_0:2", "feature_infos has the unexpected entry"),
        ("feature_infos=", "monotone_constraints=1\nfeature_infos=", "expected 4"),
        (r"(\[boosting: \w+\]\n)", r"\1\1", "parameter is listed twice"),
        ("pandas_categorical:.*", "pandas_categorical:" + "[" * 100_000, "cannot be read"),
        ("pandas_categorical:.*", "pandas_categorical:[[[]]]", "neither text nor a number"),
        ("pandas_categorical:.*", 'pandas_categorical:[["a", "a"]]', "label twice"),
        ("objective=regression", "objective=binary sigmoid:nan", "objective="),
        ("objective=regression", "objective=multiclass num_class:3", "objective="),
        (r"feature_infos=\S+", "feature_infos=[a:b]", "feature_infos has the unexpected entry"),
    ],
)
def test_contradictions_are_refused(booster, old, new, message):
    text = _without_sizes(booster.model_to_string())
    with pytest.raises(InvalidInputError, match=message):
        parse_text(re.sub(old, new, text, count=1))
    with pytest.raises(InvalidInputError, match="should have"):
        parse_text(booster.model_to_string().replace("shrinkage=1\n", "shrinkage=11\n"))


WRITTEN = [
    {},
    {"objective": "binary", "sigmoid": 0.7},
    {"objective": "multiclass", "num_class": 3},
    {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    {"boosting": "dart"},
    {"monotone_constraints": [1, 0, 0, 0]},
    {"zero_as_missing": True},
    {"objective": "regression", "reg_sqrt": True},
    {"min_data_in_leaf": 10_000},
]


@pytest.mark.parametrize("parameters", WRITTEN)
def test_every_file_of_lightgbm_is_as_written(parameters, tmp_path):
    X, y = _data()
    objective = parameters.get("objective", "regression")
    y = {"regression": y, "binary": y > 0, "multiclass": np.digitize(y, [-0.5, 1.0])}[objective]
    categorical = [] if "monotone_constraints" in parameters else [3]
    model = _train(np.abs(X), y, 4, categorical, **CATEGORIES_SMALL, **parameters)
    model.save_model(tmp_path / "model.txt")
    lgb.Booster(model_file=tmp_path / "model.txt").save_model(tmp_path / "again.txt")
    model.save_model(tmp_path / "gain.txt", importance_type="gain", num_iteration=2)
    for path in tmp_path.iterdir():
        ensemble = parse_text(path.read_text())
        assert not ensemble.source.unasked, path.name
        check = read_model(path, X).check
        assert check.error == 0.0, path.name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tree_sizes=.*\n", ""),
        (r"leaf_value=(\S+)", r"leaf_value=\g<1>00000000000000000000"),
        ("shrinkage=1\n", "shrinkage=1.\n"),
        ("\nTree=0", "\n\nTree=0"),
        (r"split_feature=(\d)", r"split_feature=00\1"),
        ("\n", "\r\n"),
        ("feature_importances:", "feature importances:"),
    ],
)
def test_lightgbm_is_not_asked_about_what_it_does_not_write(
    booster, tmp_path, monkeypatch, old, new
):
    text = _with_sizes(re.sub(old, new, booster.model_to_string()))
    path = tmp_path / "edited.txt"
    path.write_text(text, newline="")
    monkeypatch.setattr(reader, "load_file", lambda path: pytest.fail("LightGBM was asked"))
    X, _ = _data()
    d = tp.purify(path, X, weights="empirical", progress=False)
    assert d.certificate.margin_error is None
    assert "differs from what LightGBM would write" in d.certificate.note
    assert raw_margin_of_file(path, X) is None


# pandas

SMALL = {"verbose": -1, "n_jobs": 1, "min_child_samples": 3, **CATEGORIES_SMALL}


def _frame(n_rows: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = ["small", "middle", "large"]
    frame = pd.DataFrame(
        {
            "hours a week": rng.normal(size=n_rows),
            "town": pd.Categorical(rng.choice(list("xyzw"), n_rows)),
            "size": pd.Categorical(rng.choice(sizes, n_rows), categories=sizes, ordered=True),
            "same": pd.Categorical(["only"] * n_rows),
            "flag": rng.integers(0, 2, n_rows),
            "year": pd.Categorical(rng.choice([1999, 2003, 2010], n_rows)),
        }
    )
    y = frame["hours a week"] * (frame["town"] == "x") + 2.0 * (frame["size"] == "large")
    y = y + (frame["year"] == 2003) * frame["flag"]
    frame.loc[:19, "town"] = np.nan
    frame.loc[:9, "size"] = np.nan
    return frame, y.to_numpy(dtype=float)


def test_pandas_categories():
    frame, y = _frame()
    model = lgb.LGBMRegressor(n_estimators=20, **SMALL).fit(frame, y)
    ensemble = parse(model)
    assert ensemble.feature_names == ("hours_a_week", "town", "size", "same", "flag", "year")
    assert ensemble.has_feature_names
    categories = [spec.categories for spec in ensemble.features]
    assert categories == [
        None, ("w", "x", "y", "z"), ("small", "middle", "large"), ("only",), None,
        (1999, 2003, 2010),
    ]  # fmt: skip
    kinds = [spec.is_categorical for spec in ensemble.features]
    assert kinds == [False, True, False, True, False, True]
    expected = model.predict(frame, raw_score=True)
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(ensemble.margin(frame).ravel(), expected)
    np.testing.assert_array_equal(raw_margin(model, frame).ravel(), expected)


def test_pandas_categories_in_other_orders_and_unseen():
    frame, y = _frame()
    model = lgb.LGBMRegressor(n_estimators=20, **SMALL).fit(frame, y)
    ensemble = parse(model)
    other = frame.copy()
    other["town"] = other["town"].cat.set_categories(["new", "z", "x", "y", "w"])
    other.loc[30:60, "town"] = "new"
    other["size"] = other["size"].cat.set_categories(["huge", "large", "small", "middle"])
    other.loc[50:90, "size"] = "huge"
    expected = model.predict(other, raw_score=True)
    assert not np.array_equal(expected, model.predict(frame, raw_score=True))
    np.testing.assert_array_equal(ensemble.margin(other).ravel(), expected)
    # LightGBM takes columns by position whatever they are called; both of ours by name.
    turned = other[other.columns[::-1]]
    np.testing.assert_array_equal(ensemble.margin(turned).ravel(), expected)
    np.testing.assert_array_equal(raw_margin(model, turned).ravel(), expected)
    text = turned.assign(town=turned["town"].astype(object))
    np.testing.assert_array_equal(ensemble.margin(text).ravel(), expected)
    np.testing.assert_array_equal(raw_margin(model, text).ravel(), expected)


def test_pandas_numbers_in_place_of_labels_are_codes():
    frame, y = _frame()
    frame = frame[["hours a week", "year"]]
    model = lgb.LGBMRegressor(n_estimators=20, **SMALL).fit(frame, y)
    codes = np.column_stack([frame["hours a week"], frame["year"].cat.codes])
    expected = model.booster_.predict(frame, raw_score=True)
    np.testing.assert_array_equal(model.booster_.predict(codes, raw_score=True), expected)
    np.testing.assert_array_equal(parse(model).margin(codes).ravel(), expected)


def test_labels_that_cannot_be_matched_are_refused():
    frame, y = _frame()
    frame = frame[["flag", "size", "town"]].rename(columns={"flag": "a"})
    # Both integer columns look like an ordered category of three levels.
    frame = frame.assign(a=np.arange(200) % 3, b=np.arange(200) % 3)[["a", "size", "b", "town"]]
    model = lgb.LGBMRegressor(n_estimators=3, **SMALL).fit(frame, y)
    with pytest.raises(UnsupportedModelError, match="ordered categories as numbers"):
        parse(model)


def test_integer_categories_beside_labelled_ones():
    frame, y = _frame()
    frame = frame[["hours a week", "town"]].assign(code=np.arange(200) % 30)
    model = lgb.LGBMRegressor(n_estimators=8, **SMALL)
    model.fit(frame, y, categorical_feature=["town", "code"])
    ensemble = parse(model)
    assert [spec.categories for spec in ensemble.features] == [None, ("w", "x", "y", "z"), None]
    assert [spec.is_categorical for spec in ensemble.features] == [False, True, True]
    np.testing.assert_array_equal(
        ensemble.margin(frame).ravel(), model.predict(frame, raw_score=True)
    )


def test_names_with_blanks():
    X, y = _data()
    frame = pd.DataFrame(X, columns=["a b", "c_d", "e f g", "h"])
    model = lgb.LGBMRegressor(n_estimators=5, **SMALL).fit(frame, y)
    ensemble = parse(model)
    assert ensemble.feature_names == ("a_b", "c_d", "e_f_g", "h")
    expected = model.predict(frame, raw_score=True)
    underscored = frame.rename(columns=lambda name: name.replace(" ", "_"))
    for table in (frame, underscored, frame[frame.columns[::-1]]):
        np.testing.assert_array_equal(ensemble.margin(table).ravel(), expected)
        np.testing.assert_array_equal(raw_margin(model, table).ravel(), expected)
    with pytest.raises(InvalidInputError, match="'c d'"):
        ensemble.margin(frame.rename(columns={"h": "c d"}))


def test_names_of_the_table_are_kept():
    X, y = _data()
    frame = pd.DataFrame(X, columns=["a b", "c_d", "e f g", "h"])
    model = lgb.LGBMRegressor(n_estimators=5, **SMALL).fit(frame, y)
    expected = model.predict(frame, raw_score=True)
    underscored = frame.rename(columns=lambda name: name.replace(" ", "_"))
    for source in (model, parse(model)):
        d = tp.purify(source, frame, weights="empirical", progress=False)
        assert d.feature_names == ("a b", "c_d", "e f g", "h")
        for table in (frame, underscored, frame[frame.columns[::-1]]):
            np.testing.assert_allclose(d.predict(table), expected, atol=1e-12)
        assert "a b" in d.to_frame("a b").columns
    assert (
        tp.purify(model, underscored, weights="empirical", progress=False).feature_names[0] == "a_b"
    )
    assert tp.purify(model, X, weights="empirical", progress=False).feature_names[0] == "a_b"


def test_generated_names_match_by_position():
    X, y = _data()
    model = _train(X, y)
    ensemble = parse(model)
    assert ensemble.feature_names == ("x0", "x1", "x2", "x3")
    assert not ensemble.has_feature_names
    frame = pd.DataFrame(X, columns=list("dcba"))
    expected = raw_margin(model, X)
    np.testing.assert_array_equal(ensemble.margin(frame), expected)
    np.testing.assert_array_equal(raw_margin(model, frame), expected)
    np.testing.assert_array_equal(
        ensemble.margin(X.astype(np.float32)), raw_margin(model, X.astype(np.float32))
    )
    whole = np.full((1, 4), 2**24 + 1)
    np.testing.assert_array_equal(ensemble.margin(whole), raw_margin(model, whole))


def test_a_text_is_read_without_the_library():
    code = "import sys; import treepurify.models.lightgbm; print('lightgbm' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
