"""Everything a user can get wrong, and what the message says."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from treepurify.models.ensemble import TreeEnsemble

NAMES = ["age", "hours", "rooms"]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(200, 3)).round(1), columns=NAMES)


@pytest.fixture(scope="module")
def model(rows):
    y = rows.age * rows.hours + rows.rooms
    return GradientBoostingRegressor(max_depth=2, n_estimators=8, random_state=0).fit(rows, y)


def refused(message: str, error: type[Exception] = tp.errors.InvalidInputError):
    return pytest.raises(error, match=message)


def purify(model, X=None, **options):
    return tp.purify(model, X, progress=False, **{"weights": "empirical", **options})


# What is refused: a call of the model and its rows, the error, and what the message must name.
INPUT = tp.errors.InvalidInputError
REFUSED = [
    (lambda m, X: purify(m, X.drop(columns="hours")), INPUT, "missing: 'hours'"),
    (lambda m, X: purify(m, X.assign(id=1)), INPUT, "unexpected: 'id'"),
    (lambda m, X: purify(m, X.rename(columns={"age": "Age"})), INPUT,
     "missing: 'age'; unexpected: 'Age'"),
    (lambda m, X: purify(m, np.zeros((5, 2))), INPUT, "3 features, but the data have 2 columns"),
    (lambda m, X: purify(m, np.zeros((5, 4))), INPUT, "3 features, but the data have 4 columns"),
    (lambda m, X: purify(m, X.iloc[:0]), INPUT, "X has no rows; pass the rows that represent"),
    (lambda m, X: purify(m, np.empty((0, 3))), INPUT, "X has no rows"),
    (lambda m, X: purify(m, X.age.to_numpy()), INPUT, "got shape (200,)"),
    (lambda m, X: purify(m, X.age), INPUT, "rows and columns, got a single column"),
    (lambda m, X: purify(m, X.assign(hours=X.hours.astype(str).astype(object) + " h")), INPUT,
     "feature 'hours' is numeric in the model, but the column has the value"),
    (lambda m, X: tp.compare(purify(m, X), purify(m, X), X[:0]), INPUT, "rows on which to compare"),
    (lambda m, X: purify(m, X).verify(m, X[:0]), INPUT, "rows on which to compare"),
    *((lambda m, X, name=name: purify(m, weights=name), INPUT, f"'{name}' needs rows")
      for name in ("empirical", "laplace", "independent")),
    (lambda m, X: purify(m, X, sample_weight=np.ones(199)), INPUT, "(200), got shape (199,)"),
    (lambda m, X: purify(m, X, sample_weight=np.ones((200, 1))), INPUT, "got shape (200, 1)"),
    *((lambda m, X, value=value: purify(m, X, sample_weight=[value, *np.ones(199)]), INPUT,
       "sample_weight must be finite and not negative") for value in (-1.0, np.nan, np.inf)),
    (lambda m, X: purify(m, X, sample_weight=["heavy"] * 200), INPUT,
     "sample_weight must have one number per row, finite and not negative"),
    (lambda m, X: purify(m, X, sample_weight=np.zeros(200)), INPUT,
     "sample_weight is zero for every row; at least one must be positive"),
    (lambda m, X: purify(m, iter([X.assign(w=1.0)[:9], X]), sample_weight="w"), INPUT,
     "there is no column 'w'"),
    (lambda m, X: purify(m, iter([X[:2].assign(w=["one", "two"])]), sample_weight="w"), INPUT,
     "weights in column 'w' must have one number per row"),
    (lambda m, X: purify(m, iter([])), INPUT, "the iterator gave no rows"),
    *((lambda m, X, name=name: purify(m, X, weights=name), INPUT,
       "weights must be one of 'empirical', 'laplace', 'uniform', 'independent'")
      for name in ("emprical", "", 3, None, tp.weights.Empirical)),
    *((lambda m, X, order=order: purify(m, X, order=order), INPUT,
       f"order must be a whole number of at least 1, got {order!r}")
      for order in (0, -1, 1.5, "2", True)),
    (lambda m, X: tp.purify_tensors({(0,): [1.0, 2.0]}, order=0), INPUT, "order must be a whole"),
    *((lambda m, X, budget=budget: purify(m, X, memory_budget=budget), INPUT,
       "memory_budget must be a positive number of bytes, such as")
      for budget in (None, "1GB", 0, -1.0, float("nan"))),
    (lambda m, X: purify(m, X, method="fast"), INPUT, "or a CoarseProjection, got 'fast'"),
    # Before the model is read, let alone laid out.
    (lambda m, X: purify(object(), X, method="fast"), INPUT, "got 'fast'"),
    (lambda m, X: purify(m, X, resolution="fine"), INPUT, "resolution must be"),
    (lambda m, X: purify(m, X, missing_cells="never"), INPUT, "missing_cells must be"),
    (lambda m, X: purify(m, X).predict(X, scale="log"), INPUT, "scale must be"),
    (lambda m, X: purify("nothing.json", X), INPUT, "nothing.json"),
    (lambda m, X: tp.check_monotonicity(purify(m, X), X, {"age": "increasing"}), INPUT,
     "expected a trained model, got a result (Decomposition); pass the model"),
]  # fmt: skip


def test_refusals_name_the_argument_and_what_came(model, rows):
    wrong = []
    for call, error, words in REFUSED:
        try:
            call(model, rows)
        except error as refusal:
            if words not in str(refusal):
                wrong.append(f"{words!r} is not in {str(refusal)!r}")
        else:
            wrong.append(f"not refused: {words}")
    assert wrong == []


# Rows


def test_the_advice_on_columns_fits_what_is_wrong(model, rows):
    with refused("in any order: add 'hours'.$"):
        purify(model, rows.drop(columns="hours"))
    with refused(r"in any order: drop the others \(.*ignore=\[\.\.\.\]\)\.$"):
        purify(model, rows.assign(id=1))
    with refused("add 'age' or rename a column; drop the others"):
        purify(model, rows.rename(columns={"age": "Age"}))


def test_the_order_of_named_columns_does_not_matter(model, rows):
    plain, turned = (
        purify(model, rows, weights="empirical"),
        purify(model, rows[NAMES[::-1]], weights="empirical"),
    )
    np.testing.assert_array_equal(plain["age"].values, turned["age"].values)


def test_numbers_in_object_columns_are_read(model, rows):
    plain, objects = (
        purify(model, rows, weights="empirical"),
        purify(model, rows.astype(object), weights="empirical"),
    )
    np.testing.assert_array_equal(plain["age"].values, objects["age"].values)


def test_constant_columns_and_columns_of_nan(rows):
    flat = rows.assign(hours=3.0)
    booster = GradientBoostingRegressor(max_depth=2, n_estimators=5, random_state=0)
    booster.fit(flat, flat.age * flat.rooms)
    d = purify(booster, flat, weights="empirical")
    assert "hours" not in d
    assert d.verify(booster, flat).relative_difference <= 1e-12
    lightgbm = pytest.importorskip("lightgbm")
    empty = rows.assign(hours=np.nan)
    other = lightgbm.LGBMRegressor(n_estimators=5, max_depth=2, verbose=-1)
    other.fit(empty, empty.age * empty.rooms)
    d = purify(other, empty, weights="empirical")
    assert "hours" not in d
    assert d.verify(other, empty).relative_difference <= 1e-12


def test_new_missing_values_at_predict_time(model, rows):
    d = purify(model, rows, weights="empirical")
    later = rows.iloc[:3].copy()
    later.loc[1, "hours"] = np.nan
    for ask in (d.predict, d.evaluate, d.contributions, d["hours"].evaluate):
        with refused(
            "'hours' has missing values in 1 of 3 rows .* 1., but the rows of the dec"
        ) as e:
            ask(later)
        assert 'missing_cells="always"' in str(e.value)


# Weights


def test_rows_of_weight_zero(model, rows):
    weights = np.repeat([1.0, 0.0], 100)
    weighted, dropped = (
        purify(model, rows, weights="empirical", sample_weight=weights),
        purify(model, rows[:100], weights="empirical"),
    )
    for subset, component in dropped.components.items():
        other = weighted.components[subset].values
        np.testing.assert_allclose(other, component.values, atol=1e-12)


def test_weights_without_rows(rows):
    glassbox = pytest.importorskip("interpret.glassbox")
    ebm = glassbox.ExplainableBoostingRegressor(
        max_rounds=3, outer_bags=1, interactions=0, n_jobs=1
    )
    ebm.fit(rows, rows.age)
    assert "age" in purify(ebm)
    with refused("sample_weight is given without rows: pass X"):
        purify(ebm, sample_weight=np.ones(200))


def test_weights_that_would_be_ignored(model, rows):
    axes = [purify(model, rows, weights="empirical")[name].axes[0] for name in NAMES]
    table = tp.weights.JointTable(np.ones([axis.n_cells for axis in axes]))
    for weighting in ("uniform", tp.weights.Uniform("length"), table):
        purify(model, rows, weights=weighting)
        for X in (rows, None):
            with refused("sample_weight would be ignored.*Leave sample_weight out"):
                purify(model, X, weights=weighting, sample_weight=np.ones(200))
    with refused("sample_weight would be ignored, since weights='uniform'"):
        tp.interaction_indices(model, rows, weights="uniform", sample_weight=np.ones(200))


def test_a_batch_without_weight_counts_nothing(model, rows):
    first, second = rows[:100].assign(weight=1.0), rows[100:].assign(weight=0.0)
    alone, among = (
        purify(model, iter(batches), weights="empirical", sample_weight="weight")
        for batches in ([first], [first, second])
    )
    # Sums of weights by batch are those of the rows to rounding.
    np.testing.assert_allclose(
        alone["age", "rooms"].values, among["age", "rooms"].values, rtol=1e-12, atol=1e-15
    )
    with refused("sample_weight is zero for every row"):
        purify(model, iter([second]), weights="empirical", sample_weight="weight")


# Options


def test_what_is_nearly_an_option_is_asked_for(model, rows):
    with refused("got 'Emprical'; did you mean \"empirical\""):
        purify(model, rows, weights="Emprical")
    d = tp.purify(model, rows, progress=False)
    with refused('did you mean "auto", which smooths rows'):
        purify(model, rows, weights=d.measure)
    with refused('did you mean "smoothed"'):
        purify(model, rows, weights="smooth")
    with refused("got 'exakt'; did you mean \"exact\""):
        purify(model, rows, method="exakt")
    with refused("got 'respones'; did you mean \"response\""):
        d.predict(rows, scale="respones")
    with refused('outputs are margin; did you mean "margin"'):
        tp.plots.main_effect(d, "age", output="margins")
    with refused(r"got 'fine'$"):
        purify(model, rows, resolution="fine")


def test_names_of_features(rows):
    unnamed = DecisionTreeRegressor(max_depth=2).fit(rows.to_numpy(), rows.age)
    with refused("feature_names must be 3 different names, got 2"):
        purify(unnamed, rows.to_numpy(), weights="empirical", feature_names=["a", "b"])
    with refused("feature_names must be 3 different names"):
        purify(unnamed, rows.to_numpy(), weights="empirical", feature_names=["a", "b", "a"])
    assert purify(unnamed, rows, weights="empirical").feature_names == tuple(NAMES)
    d = purify(unnamed, rows.to_numpy(), weights="empirical", feature_names=["a", "b", "c"])
    assert d.feature_names == ("a", "b", "c")


# Models


def test_a_class_and_an_untrained_model(rows):
    with refused("got the class GradientBoostingRegressor; train an instance first"):
        purify(GradientBoostingRegressor, rows, weights="empirical")
    with pytest.raises(
        (tp.errors.InvalidInputError, tp.errors.UnsupportedModelError), match=r"train|fit"
    ):
        purify(DecisionTreeRegressor(), rows, weights="empirical")


def test_a_pipeline_that_mixes_columns_is_refused_with_the_ways_out(rows):
    pipeline = make_pipeline(PCA(2), RandomForestRegressor(n_estimators=2, max_depth=2))
    pipeline.fit(rows, rows.age)
    advice = r"step 'pca' \(PCA\).*columns=\"auto\".*legendre_anova"
    with refused(advice, tp.errors.UnsupportedModelError):
        purify(pipeline, rows, weights="empirical", columns="raw")
    transformed = pipeline[:-1].transform(rows)
    parsed = tp.parse_model(pipeline, columns="transformed")
    assert parsed.feature_names == ("pca0", "pca1")
    assert parsed.features[0].made_from == tuple(rows.columns)
    d = purify(parsed, transformed, weights="empirical")
    assert d.verify(pipeline[-1], transformed).relative_difference <= 1e-12


@pytest.mark.parametrize("other", [LinearRegression(), object(), lambda x: x, None, 3])
def test_other_objects(rows, other):
    with pytest.raises(
        tp.errors.UnsupportedModelError, match=r"is not supported|Supported:|linear"
    ):
        purify(other, rows, weights="empirical")


def test_boosters_without_trees(rows):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(rows, label=rows.age)
    booster = xgboost.train({"base_score": 0.75}, data, num_boost_round=0)
    d = purify(booster, rows, weights="empirical")
    assert len(d) == 0
    np.testing.assert_allclose(d.predict(rows), 0.75, rtol=1e-7)


def test_trees_of_one_leaf(rows):
    constant = np.full(len(rows), 2.5)
    tree = DecisionTreeRegressor().fit(rows, constant)
    boosted = GradientBoostingRegressor(n_estimators=3).fit(rows, constant)
    for model in (tree, boosted):
        d = purify(model, rows, weights="empirical")
        assert len(d) == 0
        np.testing.assert_allclose(d.predict(rows), 2.5)
        assert d.certificate.is_exact
        assert len(d.contributions(rows).columns) == 1


def test_verifying_another_model(rows):
    ensemble = random_ensemble(np.random.default_rng(0), n_features=3)
    d = purify(ensemble, rows.to_numpy(), weights="empirical")
    other = random_ensemble(np.random.default_rng(0), n_features=3, n_outputs=2)
    with refused(r"not the model that was decomposed: it has 2 outputs, .* has 1, \['y0'\]"):
        d.verify(other, rows.to_numpy())


# Size


def many_cuts(n_cuts: int) -> TreeEnsemble:
    """Depth-2 trees on two features, each with its own cuts."""
    base = random_ensemble(np.random.default_rng(0), n_features=2, n_trees=0)
    nan, start = np.nan, 7 * np.arange(n_cuts)[:, None]
    cut = np.arange(n_cuts)[:, None] + np.array([0.0, 0.5, nan, nan, 0.5, nan, nan])
    left = np.array([1, 2, -1, -1, 5, -1, -1])
    right = np.array([4, 3, -1, -1, 6, -1, -1])
    return replace(
        base,
        tree_ptr=7 * np.arange(n_cuts + 1),
        feature=np.tile(np.array([0, 1, -1, -1, 1, -1, -1], dtype=np.int32), n_cuts),
        cut=cut.ravel(),
        left=np.where(left < 0, -1, start + left).ravel().astype(np.int32),
        right=np.where(right < 0, -1, start + right).ravel().astype(np.int32),
        missing_left=np.zeros(7 * n_cuts, dtype=bool),
        category_ptr=np.full(7 * n_cuts, -1),
        value=np.tile(np.array([[0.0], [0], [1], [2], [0], [3], [4]]), (n_cuts, 1)),
        tree_output=np.zeros(n_cuts, dtype=np.int32),
    )


def test_axes_of_100_000_cells_are_refused_before_anything_is_allocated():
    import tracemalloc

    ensemble, X = many_cuts(100_000), np.zeros((10, 2))
    purify(many_cuts(3), X, weights="empirical")
    tracemalloc.start()
    with refused(
        r"x0 x x1, has 10000200001 cells.* would take 521.6 GiB", tp.errors.MemoryBudgetError
    ) as e:
        purify(ensemble, X, weights="empirical")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than the memory budget of 2 GiB" in str(e.value)
    assert "train with fewer bins or a smaller depth" in str(e.value)
    assert 'purify(model, X, method="coarse", order=2)' in str(e.value)
    assert isinstance(e.value, MemoryError)
    assert peak < 200 * 2**20


def test_counting_is_refused_before_anything_is_allocated():
    with refused("100001|10000200001|10000400004", tp.errors.MemoryBudgetError):
        purify(many_cuts(100_000), iter([np.zeros((10, 2))]), weights="empirical", method="exact")


def test_one_axis_of_100_000_cells_is_no_trouble():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 1))
    tree = DecisionTreeRegressor().fit(X, rng.normal(size=len(X)))
    d = purify(tree, X, weights="empirical")
    assert d[0].values.shape == (tree.get_n_leaves(), 1)
    assert d.verify(tree, X).relative_difference <= 1e-12


def test_labels_that_the_model_does_not_know_at_all_are_refused():
    rng = np.random.default_rng(0)
    town = pd.Series(rng.choice(["Ulm", "Jena"], 200), name="town")
    X = pd.DataFrame({"town": town.astype("category"), "age": rng.normal(size=200)})
    y = X["age"] * (town == "Ulm")
    model = HistGradientBoostingRegressor(max_iter=5, max_depth=2).fit(X, y)
    spelt_otherwise = X.assign(town=town.str.lower())
    engines = (
        tp.interaction_indices,
        tp.partial_dependence_anova,
        tp.h_statistics,
        tp.ale_anova,
        tp.hooker_anova,
        tp.interventional_shapley_values,
        tp.audit,
    )
    asked = [partial(engine, progress=False) for engine in engines]
    for ask in (purify, tp.shapley_sets, *asked):
        with refused("none of the values in .* feature 'town'.* the labels used in training"):
            ask(model, spelt_otherwise)
    one_known = spelt_otherwise.assign(town=["Ulm", *spelt_otherwise["town"][1:]])
    assert purify(model, one_known, weights="empirical").n_outputs == 1


# Tensors


@pytest.mark.parametrize(
    ("tensors", "options", "message"),
    [
        ({}, {}, "tensor"),
        ({("a", "b"): np.ones((2, 2))}, {}, "must be positions of features"),
        ({(0, 1): [1.0, 2.0]}, {}, "shape|axes|axis"),
        ({(0,): [1.0, np.nan]}, {}, "finite"),
        ({(0, 1): np.eye(2), (1,): [1.0, 2.0, 3.0]}, {}, "2 values in one table"),
        ({(0,): [1.0, 2.0]}, {"weights": [1.0, -1.0]}, "not negative"),
        ({(0,): [1.0, 2.0]}, {"weights": [0.0, 0.0]}, "sum to zero"),
        ({(0,): [1.0, 2.0]}, {"weights": [1.0, 2.0, 3.0]}, "shape"),
        ({(0,): [1.0, 2.0]}, {"weights": "empirical"}, "weights"),
        ({(-1,): [1.0, 2.0]}, {}, "-1|negative"),
        ({(0, 0): np.eye(2)}, {}, "0"),
    ],
)
def test_tensors(tensors, options, message):
    with refused(message):
        tp.purify_tensors(tensors, progress=False, **options)
