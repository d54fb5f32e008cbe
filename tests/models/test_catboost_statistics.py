"""CatBoost's statistics of categories, at its defaults and of every kind, against CatBoost."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models import catboost as reader
from treepurify.models.catboost_combinations import with_raw_columns
from treepurify.models.parse import parse_model, raw_margin, read_model
from treepurify.rows.category_hash import category_hash

catboost = pytest.importorskip("catboost")

SETTINGS = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
# Below 200 iterations CatBoost combines nothing by default.
COMBINED = {"max_ctr_complexity": 4, "learning_rate": 0.2}
KINDS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "Counter")
# Those of training on a GPU, which keep the same numbers.
SAME_TABLES = {"BinarizedTargetMeanValue": "FloatTargetMeanValue", "Counter": "FeatureFreq"}
CATEGORICAL = ["city", "plan", "code"]


def table(n_rows, seed=0, n_cities=30):
    """Rows; with more cities than those of the training, some are unknown."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "city": rng.choice([f"city {i}" for i in range(n_cities)], n_rows),
            "age": rng.normal(40, 10, n_rows).round(),
            "plan": rng.choice(["a", "b", "été"], n_rows),
            "code": rng.integers(-3, 9, n_rows),
            "income": rng.gamma(2, 3, n_rows),
        }
    )
    X.loc[::17, "income"] = np.nan
    X.loc[3::29, "age"] = np.nan
    return X


def target(X):
    of_city = X["city"].str.removeprefix("city ").astype(int) % 7 > 3
    return (of_city ^ (X["age"] > 40)).astype(int) + (X["plan"] == "a") * (X["code"] > 4)


def critical_rows(ensemble, n_rows):
    """Rows with unknown categories, and numbers on the borders that combinations test."""
    X = table(n_rows, seed=1, n_cities=36)
    rng = np.random.default_rng(2)
    X["plan"] = rng.choice(["a", "b", "été", "new"], n_rows)
    borders = {"age": [40.0], "income": [3.0]}
    for spec in ensemble.features:
        if spec.derivation is not None:
            coded = spec.derivation.steps.combinations[spec.derivation.position]
            for column, border in coded.combination.above:
                borders[spec.derivation.steps.takes[column]].append(border)
    for name, values in borders.items():
        at = rng.random(n_rows) < 0.5
        ends = np.float32(rng.choice([*values, np.inf, -np.inf], at.sum()))
        with np.errstate(over="ignore"):
            above = np.nextafter(ends, np.float32(np.inf))
        ends = np.where(rng.random(at.sum()) < 0.5, ends, above)
        X.loc[at, name] = ends.astype(float)
    return X


def assert_equal_margin(ensemble, model, X):
    expected = reader.raw_margin(model, X)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(ensemble.margin(X), expected, rtol=0, atol=3e-14 * scale)


@pytest.fixture(scope="module")
def default():
    X = table(2500)
    y = (target(X) > 0) ^ (np.random.default_rng(0).random(len(X)) < 0.1)
    model = catboost.CatBoostClassifier(**SETTINGS, iterations=40, **COMBINED)
    return model.fit(X, y.astype(int), cat_features=CATEGORICAL), X


def test_default_classifier_on_many_rows(default):
    model, _ = default
    ensemble = parse_model(model)
    combined = [spec for spec in ensemble.features if spec.derivation is not None]
    assert len(combined) > 10
    assert any(len(spec.made_from) > 1 for spec in combined)
    rows = critical_rows(ensemble, 100_000)
    assert_equal_margin(ensemble, model, rows)


def test_one_column_of_each_combination(default, tmp_path):
    model, X = default
    model.save_model(str(tmp_path / "model.json"), format="json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    combinations = [str(ctr["elements"]) for ctr in document["features_info"]["ctrs"]]
    several = [text for text in combinations if text.count("combination_element") > 1]
    ensemble = parse_model(model)
    derived = [spec for spec in ensemble.features if spec.derivation is not None]
    assert len(derived) == len(set(several)) < len(several)
    codes = ensemble.columns(X.assign(city="unknown")).values
    for spec, own in zip(ensemble.features, codes, strict=True):
        if spec.derivation is None:
            continue
        coded = spec.derivation.steps.combinations[spec.derivation.position]
        assert len(set(spec.categories)) == spec.n_codes == coded.n_codes
        for k, statistic in enumerate(coded.statistics):
            assert coded.low[coded.unseen, k] <= statistic.unseen <= coded.high[coded.unseen, k]
            for border in statistic.borders:
                sides = statistic.goes_right(coded.low[:, k], border)
                np.testing.assert_array_equal(sides, statistic.goes_right(coded.high[:, k], border))
        if "city" in spec.made_from and spec.name.startswith("city"):
            assert set(own) == {coded.unseen}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["RMSE", "MultiClass"])
def test_every_kind_of_statistic(kind, loss, tmp_path):
    X = table(400)
    settings = {"iterations": 15, "loss_function": loss, "nan_mode": "Max", "one_hot_max_size": 3}
    every = {"simple_ctr": [kind], "combinations_ctr": [kind], **COMBINED}
    model = catboost.CatBoost({**SETTINGS, **settings, **every})
    model.fit(X, target(X), cat_features=CATEGORICAL)
    ensemble = parse_model(model)
    rows = critical_rows(ensemble, 3000)
    assert any(spec.derivation for spec in ensemble.features)
    assert_equal_margin(ensemble, model, rows)
    if kind in SAME_TABLES:
        path = tmp_path / "model.json"
        model.save_model(str(path), format="json")
        text = path.read_text(encoding="utf-8")
        start = text.index('"model_info"')
        renamed = text[:start].replace(kind, SAME_TABLES[kind]) + text[start:]
        path.write_text(renamed, encoding="utf-8")
        assert renamed != text
        ensemble = parse_model(path)
        if ensemble.source.unasked:  # CatBoost takes sums with fractions in its JSON for zero
            assert "fractional" in ensemble.source.unasked
        else:
            asked = reader.file_margin(path, rows)
            np.testing.assert_allclose(ensemble.margin(rows), asked, rtol=1e-12)


@pytest.mark.parametrize("grow_policy", ["Depthwise", "Lossguide"])
def test_other_shapes_of_trees(grow_policy):
    X = table(800)
    model = catboost.CatBoostRegressor(
        **SETTINGS, iterations=20, grow_policy=grow_policy, **COMBINED
    )
    model.fit(X, target(X) + X["age"].fillna(0) / 50, cat_features=CATEGORICAL)
    ensemble = parse_model(model)
    assert_equal_margin(ensemble, model, critical_rows(ensemble, 3000))


@pytest.mark.parametrize("extension", ["cbm", "json"])
def test_files(default, extension, tmp_path):
    model, _ = default
    path = tmp_path / f"model.{extension}"
    model.save_model(str(path), format=extension)
    ensemble = parse_model(path)
    rows = critical_rows(ensemble, 2000)
    assert_equal_margin(ensemble, model, rows)
    np.testing.assert_allclose(reader.file_margin(path, rows), ensemble.margin(rows), rtol=1e-12)
    assert ensemble.fingerprint() == parse_model(model).fingerprint()


def test_one_statistic_of_one_column_parts_its_labels():
    """A tree of one split, whose categories are counted by hand."""
    X = pd.DataFrame({"city": np.repeat(["a", "b", "c", "d"], 20)})
    y = np.concatenate([np.arange(20) < count for count in (2, 18, 4, 16)])
    model = catboost.CatBoostClassifier(**SETTINGS, iterations=1, depth=1, one_hot_max_size=2)
    model.fit(X, y.astype(int), cat_features=["city"])
    ensemble = read_model(model, X)
    (spec,) = ensemble.features
    assert sorted(spec.categories) == ["a", "b", "c", "d"]
    assert spec.label_hashes == tuple(map(category_hash, spec.categories))
    margin = ensemble.margin(pd.DataFrame({"city": ["a", "c", "b", "d"]})).ravel()
    assert margin[0] == margin[1] < margin[2] == margin[3]


def test_behind_transformers():
    X = table(1200)
    steps = ColumnTransformer(
        [("n", SimpleImputer(), ["age", "income"]), ("c", "passthrough", CATEGORICAL)],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = catboost.CatBoostClassifier(
        **SETTINGS, iterations=25, cat_features=CATEGORICAL, **COMBINED
    )
    pipeline = make_pipeline(steps, model).fit(X, target(X) > 0)
    ensemble = parse_model(pipeline, X=X)
    assert any(spec.derivation for spec in ensemble.features)
    rows = table(3000, seed=3, n_cities=36)
    np.testing.assert_allclose(ensemble.margin(rows), raw_margin(pipeline, rows), rtol=1e-12)
    with pytest.raises(UnsupportedModelError, match="combinations of columns"):
        parse_model(pipeline, columns="raw")


def test_effects_and_files_of_them(tmp_path):
    X = table(400)
    model = catboost.CatBoostClassifier(**SETTINGS, iterations=12, depth=3, **COMBINED)
    model.fit(X, target(X) > 0, cat_features=CATEGORICAL)
    d = tp.purify(model, X, weights="empirical")
    assert any(spec.made_from for spec in d.inputs.features)
    assert d.certificate.margin_error == 0
    np.testing.assert_allclose(d.predict(X), reader.raw_margin(model, X).ravel(), atol=1e-9)
    d.save(tmp_path / "effects.tp")
    loaded = tp.load(tmp_path / "effects.tp")
    with pytest.raises(InvalidInputError, match="by a pipeline or by CatBoost"):
        loaded.predict(X)
    made = parse_model(model).columns(X)
    np.testing.assert_array_equal(loaded.predict(made), d.predict(X))
    derived = [spec for spec in d.inputs.features if spec.derivation is not None]
    codes = dict(zip(d.feature_names, made.values, strict=True))
    whole = X.assign(**{spec.name: codes[spec.name].astype(int) for spec in derived})
    np.testing.assert_array_equal(loaded.predict(whole), d.predict(X))
    for spec in derived:
        whole[spec.name] = np.array(spec.categories)[whole[spec.name]]
    np.testing.assert_array_equal(loaded.predict(whole), d.predict(X))


def test_models_of_arrays_are_named_after_their_raw_columns():
    X = table(400).fillna({"income": 0.0, "age": 0.0})
    model = catboost.CatBoostClassifier(**SETTINGS, iterations=12, depth=3, **COMBINED)
    model.fit(X.to_numpy(dtype=object), target(X) > 0, cat_features=[0, 2, 3])
    expected = reader.raw_margin(model, X.to_numpy(dtype=object))
    assert parse_model(model).feature_names[-1].startswith("x")
    names = list(X.columns)
    for rows, given in ((X.to_numpy(dtype=object), names), (X, None), (X, names)):
        named = read_model(model, rows, given)
        assert set(named.feature_names) - set(names) == {
            spec.name for spec in named.features if spec.derivation is not None
        }
        assert all(set(spec.made_from) <= set(names) for spec in named.features)
        assert not any("x0" in name for name in named.feature_names)
        np.testing.assert_array_equal(named.margin(rows), expected)
        np.testing.assert_array_equal(named.margin(X[names[::-1]]), expected)
    with pytest.raises(InvalidInputError, match="must be 5 different names"):
        read_model(model, X, names[1:])


def test_combinations_of_joined_models_stay_their_own():
    X = table(600)
    options = {**SETTINGS, "iterations": 8, "depth": 3, **COMBINED}
    models = []
    for shift in (0, 3):
        y = target(X) + (X["income"].fillna(0) > 3 + shift) * (X["plan"] == "a")
        model = catboost.CatBoostRegressor(**options, one_hot_max_size=4 + shift)
        models.append(model.fit(X[X["age"] > 30 + shift], y[X["age"] > 30 + shift], CATEGORICAL))
    parsed = [parse_model(model) for model in models]
    features = tuple(spec for each in parsed for spec in each.features if spec.derivation)
    renamed = with_raw_columns(features, lambda spec: replace(spec, name=spec.name.upper()))
    for before, after in zip(features, renamed, strict=True):
        assert before.derivation.position == after.derivation.position
        assert before.derivation.steps.combinations is after.derivation.steps.combinations
        assert after.made_from == tuple(map(str.upper, before.made_from))


def test_texts_are_refused():
    X = pd.DataFrame({"words": ["good fine", "bad poor"] * 50, "size": np.arange(100.0)})
    model = catboost.CatBoostClassifier(**SETTINGS, iterations=5)
    model.fit(X, np.arange(100) % 2, text_features=["words"])
    with pytest.raises(UnsupportedModelError, match="as numbers before training"):
        parse_model(model)


def test_damaged_tables(default, tmp_path):
    model, _ = default
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    document = json.loads(path.read_text(encoding="utf-8"))
    name, good = next(iter(document["ctr_data"].items()))
    for change in (
        {"hash_stride": 7},
        {"hash_map": [*good["hash_map"], *good["hash_map"]]},
        {"hash_map": [str(part) for part in good["hash_map"]][:-1]},
    ):
        damaged = {**document, "ctr_data": {**document["ctr_data"], name: {**good, **change}}}
        with pytest.raises(UnsupportedModelError, match="damaged"):
            reader.parse_document(damaged)
    with pytest.raises(UnsupportedModelError, match="damaged"):
        reader.parse_document({**document, "ctr_data": {}})


def test_labels_that_no_row_has_are_shown_as_one(tmp_path):
    X = table(2000)
    model = catboost.CatBoostClassifier(iterations=20, cat_features=CATEGORICAL, **SETTINGS)
    model.fit(X, target(X) > 0).save_model(tmp_path / "model.cbm")
    few = X[X["city"].isin([f"city {i}" for i in range(10)])]
    d = tp.purify(tmp_path / "model.cbm", few, weights="independent")
    effect = d["city"]
    rows = d.to_frame("city")
    named = sorted(few["city"].unique())
    assert sorted(rows["city"]) == sorted([*named, "20 other categories"])
    assert effect.mass.shape == (30,)
    labels = effect.axes[0].labels()
    of_named = rows.set_index("city").loc[named, ["effect", "mass"]].to_numpy()
    places = [labels.index(name) for name in named]
    exact = np.column_stack([effect.values[places, 0], effect.mass[places]])
    np.testing.assert_array_equal(of_named, exact)
    others = np.delete(effect.values[:, 0], places)
    merged = rows.set_index("city").loc["20 other categories"]
    np.testing.assert_allclose([merged["effect"], merged["mass"]], [others.mean(), 0], atol=1e-14)

    loaded = tp.load(d.save(tmp_path / "d.tpd") or tmp_path / "d.tpd")
    pd.testing.assert_frame_equal(loaded.to_frame("city"), rows)
    pair = next(key for key in d.components if len(key) == 2 and d.feature_names[key[0]] == "city")
    cells = d[pair].mass.size
    assert len(d.to_frame(pair)) == cells * 11 // 30
    assert not d.to_frame()["cell"].str.startswith("#").any()

    figure = tp.plots.main_effect(loaded, "city")
    assert {each.get_text() for each in figure.get_yticklabels()} == {*named, "20 more"}


def test_means_of_labels_that_no_row_has_are_weighted():
    X = table(1500)
    model = catboost.CatBoostClassifier(iterations=20, cat_features=CATEGORICAL, **SETTINGS)
    model.fit(X, target(X) > 0)
    few = X[X["city"].isin(["city 1", "city 2"])]
    d = tp.purify(model, few, weights="uniform")
    effect = d["city"]
    others = list(effect.axes[0].unnamed)
    merged = d.to_frame("city").set_index("city").loc["28 other categories"]
    mass = effect.mass[others]
    assert merged["mass"] == pytest.approx(mass.sum())
    assert merged["effect"] == pytest.approx(mass @ effect.values[others, 0] / mass.sum())
