"""Pipelines that mix raw columns, or are not known: in the columns of their last step."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")


class Ratio(BaseEstimator, TransformerMixin):
    """Learns nothing, and adds a column."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X.assign(ratio=X["price"] / X["area"])


class Drop(Ratio):
    """Returns fewer columns than it needs."""

    def transform(self, X):
        return X.drop(columns=["price"])


class DateParts(Ratio):
    """Month and weekday of a date."""

    def transform(self, X):
        return pd.DataFrame({"month": X["day"].dt.month, "weekday": X["day"].dt.day_of_week})


class Clip(Ratio):
    """Learns quantiles."""

    def fit(self, X, y=None):
        self.limits_ = np.nanquantile(np.asarray(X), [0.05, 0.95], axis=0)
        return self

    def transform(self, X):
        return np.clip(np.asarray(X), *self.limits_)


class Centre(Ratio):
    """Depends on the rows that come together."""

    def transform(self, X):
        return X - X.mean()


class NystroemOf(Ratio):
    """Holds a function, and a table that refers to itself."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y=None):
        self.rows_ = {"first": X[:3], "labels": np.array(["a", None], dtype=object)}
        self.rows_["self"] = self.rows_
        return self

    def transform(self, X):
        return self.function(X @ self.rows_["first"].T)


def wave_of(values):
    return np.sin(values) + values


def forest():
    return RandomForestRegressor(5, max_depth=6, random_state=0)


def boosted():
    return xgboost.XGBRegressor(n_estimators=15)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 400
    X = pd.DataFrame(
        {
            "price": rng.lognormal(size=n),
            "area": rng.uniform(1, 5, n),
            "rooms": rng.integers(1, 6, n),
            "age": rng.normal(40, 10, n),
            "color": rng.choice(["red", "green", "blue"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "text": rng.choice(["red car fast", "old red van", "blue bike", "fast bike"], n),
        }
    )
    X.loc[::40, "age"] = np.nan
    month = X["day"].dt.month
    return X, X["price"] / X["area"] + (X["color"] == "red") * X["age"].fillna(40) / 10 + month


NUMBERS = ["price", "area", "age"]
FILLED = [*NUMBERS[:2]]
ONE_HOT = ("c", OneHotEncoder(), ["color"])
COLORS = ("color_blue", "color_green", "color_red")


def split(*parts):
    return ColumnTransformer([*parts])


PIPELINES = {
    "PCA": (lambda: make_pipeline(PCA(2), forest()), FILLED, ("pca0", "pca1")),
    "nearest neighbours": (
        lambda: make_pipeline(KNNImputer(), forest()),
        NUMBERS,
        tuple(f"{name} (transformed)" for name in NUMBERS),
    ),
    "own class": (
        lambda: make_pipeline(Ratio(), lightgbm.LGBMRegressor(n_estimators=9, verbose=-1)),
        FILLED,
        ("price (transformed)", "area (transformed)", "ratio"),
    ),
    "own class that drops": (
        lambda: make_pipeline(Drop(), forest()),
        ["price", "area", "rooms"],
        ("area (transformed)", "rooms (transformed)"),
    ),
    "own class that learns": (
        lambda: make_pipeline(split(("clip", Clip(), ["age"]), ONE_HOT), boosted()),
        ["age", "color"],
        ("age (transformed)", *COLORS),
    ),
    "dates": (
        lambda: make_pipeline(split(("date", DateParts(), ["day"]), ONE_HOT), boosted()),
        ["day", "color"],
        ("date 1", "date 2", *COLORS),
    ),
    "lambda": (
        lambda: make_pipeline(
            split(("sine", FunctionTransformer(lambda v: np.sin(v) + v), ["age"]), ONE_HOT),
            boosted(),
        ),
        ["age", "color"],
        ("age (transformed)", *COLORS),
    ),
    "texts, sparse": (
        lambda: make_pipeline(
            split(("t", TfidfVectorizer(), "text"), ("n", "passthrough", ["price"])), boosted()
        ),
        ["text", "price"],
        ("price", *(f"t__{word}" for word in ["bike", "blue", "car", "fast", "old", "red", "van"])),
    ),
    "clusters": (
        lambda: make_pipeline(
            FeatureUnion([("k", KMeans(2, n_init=1, random_state=0)), ("s", StandardScaler())]),
            forest(),
        ),
        FILLED,
        ("k__kmeans0", "k__kmeans1", "s__price", "s__area"),
    ),
    "polynomials": (
        lambda: make_pipeline(PolynomialFeatures(2, include_bias=False), forest()),
        FILLED,
        (
            *(f"{name} (transformed)" for name in FILLED),
            "price^2",
            "price area",
            "area^2",
        ),
    ),
    "splines": (
        lambda: make_pipeline(SplineTransformer(n_knots=3), forest()),
        ["area"],
        tuple(f"area_sp_{k}" for k in range(5)),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_effects_from_raw_rows_add_up_to_the_pipeline(name, data):
    make, columns, features = PIPELINES[name]
    X, y = data
    X = X[columns]
    pipeline = make().fit(X, y)
    d = tp.purify(pipeline, X, weights="empirical", progress=False)
    used = {name for name in features if name in d.feature_names}
    assert set(d.feature_names) == used
    assert len(used) >= len(features) - 2  # a tree need not test every column
    np.testing.assert_allclose(d.predict(X), pipeline.predict(X), rtol=1e-5)
    new = X.sample(50, replace=True, random_state=1)
    np.testing.assert_allclose(d.predict(new), pipeline.predict(new), rtol=1e-5)
    assert d.verify(pipeline, X).relative_difference < 1e-6


def test_effects_are_those_of_the_transformed_columns(data):
    X, y = data
    X = X[FILLED]
    pipeline = make_pipeline(PCA(2), forest()).fit(X, y)
    raw = tp.purify(pipeline, X, progress=False)
    transformed = tp.purify(pipeline, X, columns="transformed", progress=False)
    for subset, component in transformed.components.items():
        np.testing.assert_allclose(raw.components[subset].values, component.values, atol=1e-12)
    assert [spec.made_from for spec in raw.inputs.features] == [("price", "area")] * 2
    assert "so the features are the columns that its last step takes" in repr(raw)


def test_the_columns_of_the_last_step_stand_in_its_order_and_say_so(data):
    X, y = data
    step = split(
        ("r", Ratio(), ["price", "area"]),
        ONE_HOT,
        ("age", SimpleImputer(), ["age"]),
        ("n", "passthrough", ["rooms"]),
    )
    pipeline = make_pipeline(step, boosted()).fit(X[[*NUMBERS, "color", "rooms"]], y)
    parsed = tp.parse_model(pipeline)
    names, made_from = parsed.feature_names, [spec.made_from for spec in parsed.features]
    assert names[-2:] == ("age (transformed)", "rooms")
    assert made_from[-2:] == [("age",), ()]
    assert [made for name, made in zip(names, made_from, strict=True) if name in COLORS] == [
        ("color",)
    ] * (len(names) - 2 - made_from.count(("price", "area")))
    (note,) = parsed.source.notes
    assert "the columns that the last step of the pipeline takes, since" in note
    assert "step 'columntransformer', transformer 'r' (Ratio)" in note
    with pytest.raises(UnsupportedModelError, match="the source of each of its columns"):
        tp.parse_model(pipeline, "raw")


def test_kinds_of_rows(data, tmp_path):
    X, y = data
    X = X[FILLED]
    pipeline = make_pipeline(PCA(2), forest()).fit(X, y)
    expected = pipeline.predict(X)
    table = tp.purify(pipeline, X, weights="empirical", progress=False)
    path = tmp_path / "rows.parquet"
    X.assign(note="not a column of the model").to_parquet(path)
    streamed = tp.purify(pipeline, path, weights="empirical", progress=False)
    for subset, component in table.components.items():
        np.testing.assert_allclose(streamed.components[subset].values, component.values, atol=1e-12)
    pa = pytest.importorskip("pyarrow")
    shuffled = X[["area", "price"]]
    for rows in (shuffled, pa.Table.from_pandas(X), X.iloc[::-1].iloc[::-1]):
        np.testing.assert_allclose(table.predict(rows), expected)
    np.testing.assert_allclose(table.predict(X.iloc[0].to_dict()), expected[:1])
    np.testing.assert_allclose(table.predict(X.iloc[0]), expected[:1])
    of_arrays = make_pipeline(PCA(2), forest()).fit(X.to_numpy(), y)
    by_position = tp.purify(of_arrays, X.to_numpy(), weights="empirical", progress=False)
    np.testing.assert_allclose(by_position.predict(X.to_numpy()), expected)
    np.testing.assert_allclose(by_position.predict(X), expected)


def test_what_reads_the_model_reads_derived_columns(data):
    X, y = data
    X = X[FILLED]
    high = (y > y.median()).to_numpy()
    model = RandomForestClassifier(5, max_depth=2, random_state=0)
    pipeline = make_pipeline(PCA(2), model).fit(X, high)
    d = tp.purify(pipeline, X, progress=False)
    np.testing.assert_allclose(np.ravel(d.predict(X)), pipeline.predict_proba(X)[:, -1])
    assert tp.audit(pipeline, X, progress=False) is not None
    assert tp.effect_worth(d, X, high).to_frame().shape[0] >= 2


def test_engines_for_functions_explain_raw_columns(data):
    X, y = data
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), forest())
    pipeline.fit(X[FILLED], y)
    values = tp.interventional_shapley_values(pipeline, X[FILLED][:3], X[FILLED][:20])
    assert values.feature_names == ("price", "area")
    expected = pipeline.predict(X[FILLED][:3]) - pipeline.predict(X[FILLED][:20]).mean()
    np.testing.assert_allclose(np.squeeze(values.values).sum(axis=1), expected, rtol=1e-9)


def test_a_saved_decomposition_asks_for_derived_columns(data, tmp_path):
    X, y = data
    X = X[FILLED]
    pipeline = make_pipeline(PCA(2), forest()).fit(X, y)
    tp.purify(pipeline, X, progress=False).save(tmp_path / "effects.tp")
    loaded = tp.load(tmp_path / "effects.tp")
    with pytest.raises(InvalidInputError, match="'pca0' from 'price', 'area'"):
        loaded.predict(X)
    made = pd.DataFrame(pipeline[:-1].transform(X), columns=["pca0", "pca1"])
    np.testing.assert_allclose(loaded.predict(made), pipeline.predict(X))
    np.testing.assert_allclose(loaded.predict(pd.concat([X, made], axis=1)), pipeline.predict(X))


def test_steps_that_depend_on_other_rows_are_refused(data):
    X, y = data
    X = X[FILLED]
    pipeline = make_pipeline(Centre(), forest()).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"step 'centre' \(Centre\).*other rows"):
        tp.purify(pipeline, X)


class DropCheap(Ratio):
    """Leaves out rows."""

    def transform(self, X):
        return X[X["price"] > 1.0]


class Late(Ratio):
    """Fails on few rows."""

    def transform(self, X):
        if len(X) < 40:
            raise RuntimeError("a window of 40 rows")
        return X


def test_steps_that_are_no_function_of_single_rows(data):
    X, y = data
    X = X[FILLED]
    trees = forest().fit(X, y)
    dropping = make_pipeline(DropCheap(), trees)
    with pytest.raises(UnsupportedModelError, match=r"\(DropCheap\).*it drops"):
        tp.parse_model(dropping, X=X)
    with pytest.raises(InvalidInputError, match=r"do not accept these rows: a window of 40 rows"):
        tp.parse_model(make_pipeline(Late(), trees), X=X)


def test_rows_that_the_steps_do_not_take(data):
    X, y = data
    pipeline = make_pipeline(PCA(2), forest()).fit(X[FILLED], y)
    parsed = tp.parse_model(pipeline)
    with pytest.raises(InvalidInputError, match="missing: 'area'"):
        parsed.margin(X[["price"]])
    with pytest.raises(InvalidInputError, match="do not accept these rows"):
        parsed.margin(X[FILLED].assign(area="large"))
    with pytest.raises(InvalidInputError, match="takes 2 columns, but the data have 3"):
        parsed.margin(np.ones((4, 3)))


def test_votes_of_pipelines_with_equal_and_with_different_steps(data):
    X, y = data
    X = X[NUMBERS].fillna({"age": 40.0})
    split_ratio = split(("r", Ratio(), FILLED), ("age", StandardScaler(), ["age"]))
    # A stump tests one column only: the two pipelines have different ones.
    stump = DecisionTreeRegressor(max_depth=1)
    members = [(str(k), make_pipeline(split_ratio, m)) for k, m in enumerate((forest(), stump))]
    vote = VotingRegressor(members).fit(X, y)
    d = tp.purify(vote, X, weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(X), vote.predict(X))
    shuffled = X.sample(50, random_state=1)[["age", "area", "price"]]
    np.testing.assert_allclose(d.predict(shuffled), vote.predict(shuffled[NUMBERS]))
    other = VotingRegressor([(name, make_pipeline(PCA(1), forest())) for name in "ab"]).fit(X, y)
    other.estimators_[1].fit(X * [1.0, 100.0, 1.0], y)
    with pytest.raises(UnsupportedModelError, match="fitted to different rows"):
        tp.parse_model(other)


def test_texts_alone(data):
    X, y = data
    pipeline = make_pipeline(TfidfVectorizer(), forest()).fit(X["text"], y)
    d = tp.purify(pipeline, X[["text"]], weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(X[["text"]]), pipeline.predict(X["text"]))
    assert d.feature_names[0] == "bike"


def test_boosting_machines_behind_scalers(data):
    glassbox = pytest.importorskip("interpret.glassbox")
    X, y = data
    step = split(("s", StandardScaler(), FILLED), ("n", "passthrough", ["age"]))
    machine = glassbox.ExplainableBoostingRegressor(max_rounds=10, outer_bags=2, n_jobs=1)
    X = X.fillna({"age": 40.0})
    pipeline = make_pipeline(step, machine).fit(X[NUMBERS], y)
    d = tp.purify(pipeline, X[NUMBERS], weights="empirical", progress=False)
    assert d.feature_names == ("s__price", "s__area", "age")
    np.testing.assert_allclose(d.predict(X[NUMBERS]), pipeline.predict(X[NUMBERS]), rtol=1e-9)
    chosen = make_pipeline(split(("n", "passthrough", ["age", "price"])), machine)
    chosen.fit(X[NUMBERS], y)
    d = tp.purify(chosen, X[NUMBERS], weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(X[NUMBERS]), chosen.predict(X[NUMBERS]), rtol=1e-9)


def test_refits_of_one_fit_of_the_steps(data):
    X, y = data
    parts = [("r", Ratio(), FILLED), ONE_HOT, ("age", StandardScaler(), ["age"])]
    X = X[[*NUMBERS, "color"]].fillna({"age": 40.0})
    steps = split(*parts).fit(X)
    samples = [X.sample(frac=0.5, random_state=k).index for k in range(3)]
    models = [make_pipeline(steps, forest().fit(steps.transform(X.loc[k]), y[k])) for k in samples]
    for given, refits in ((models, None), (models[0], models[1:])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            d = tp.purify(given, X, refits=refits, weights="empirical", progress=False)
        own = [model.predict(X) for model in models]
        expected = np.mean(own, axis=0) if refits is None else own[0]
        np.testing.assert_allclose(d.predict(X), expected)
    with pytest.raises(UnsupportedModelError, match=r"'pca0' is computed by steps.*different rows"):
        tp.purify([make_pipeline(PCA(1), forest()).fit(X.loc[k, FILLED], y[k]) for k in samples], X)


def test_fitted_steps_of_one_kind_are_compared_by_what_they_have_learned(data):
    X, y = data

    def recipe(step, rows):
        pipeline = make_pipeline(StandardScaler(), step, forest()).fit(X.loc[rows, FILLED], y[rows])
        return tp.parse_model(pipeline).features[0].derivation

    for step in (PCA(1), KMeans(2, n_init=1, random_state=0), NystroemOf(np.sin)):
        assert recipe(clone(step), X.index) == recipe(clone(step), X.index)
        assert recipe(clone(step), X.index) != recipe(clone(step), X.index[:200])
    assert recipe(NystroemOf(np.sin), X.index) != recipe(NystroemOf(np.cos), X.index)
