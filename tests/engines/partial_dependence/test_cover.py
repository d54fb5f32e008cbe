"""Path-dependent terms against walks down the trees, and against the libraries' own values."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from tests.reference.partial_dependence import subsets_of
from tests.reference.path_dependent import path_dependent_game, with_cover
from tests.shapley.truth import interaction_by_definition, shapley_by_definition
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.models.parse import parse_model


def rows_of(rng, n_rows, n_features, n_categorical=0, missing=0.1):
    rows = 1.2 * rng.normal(size=(n_rows, n_features))
    rows[:, n_features - n_categorical :] = rng.integers(0, 4, size=(n_rows, n_categorical))
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def by_cover(model, X, **options):
    return tp.partial_dependence_anova(model, X, background="cover", progress=False, **options)


@pytest.mark.parametrize("case", range(12))
def test_every_term_is_the_moebius_inverse_of_walks_down_the_trees(case):
    rng = np.random.default_rng(case)
    n_categorical = case % 3
    # Contradictory tests, leaves that only missing values reach and leaves without training
    # rows are frequent.
    ensemble = with_cover(
        random_ensemble(
            rng,
            n_features=4,
            n_categorical=n_categorical,
            depth=5,
            n_outputs=1 + case % 3,
            vector_leaves=case % 2 == 1,
        ),
        rng,
    )
    # Where no row has a missing value, tables have no cell for it: leaves are not reached.
    X = rows_of(rng, 8, 4, n_categorical, missing=0.2 * (case % 4 > 0))
    d = by_cover(ensemble, X, order=None)
    game = path_dependent_game(ensemble, X)
    known = {s: game(s) for s in subsets_of(range(4))}
    np.testing.assert_allclose(d.intercept, known[()][0], atol=1e-12)
    for subset in subsets_of(range(4)):
        truth = sum((-1) ** (len(subset) - len(t)) * known[t] for t in subsets_of(subset))
        if subset in d.components:
            np.testing.assert_allclose(d[subset].on_rows(X), truth, atol=1e-12, err_msg=subset)
        elif subset:
            np.testing.assert_allclose(truth, 0, atol=1e-12, err_msg=subset)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-12)


def test_shapley_values_and_interactions_are_those_of_the_game():
    rng = np.random.default_rng(0)
    ensemble = with_cover(random_ensemble(rng, n_features=4, depth=5, n_outputs=2), rng)
    X = rows_of(rng, 5, 4)
    d = by_cover(ensemble, X, order=None)
    game = path_dependent_game(ensemble, X)
    values = d.shapley_values(X)
    truth = shapley_by_definition(game, 4).transpose(1, 0, 2)
    np.testing.assert_allclose(values.values, truth, atol=1e-12)
    np.testing.assert_allclose(values.total(), ensemble.margin(X), atol=1e-12)
    found = d.shapley_interactions(X, index="SII", order=3)
    for subset in combinations(range(4), 3):
        truth = interaction_by_definition(game, 4, subset)
        got = found.values.get(subset, np.zeros_like(truth))
        np.testing.assert_allclose(got, truth, atol=1e-12)


def test_lower_orders_leave_the_rest_in_the_remainder():
    rng = np.random.default_rng(3)
    ensemble = with_cover(random_ensemble(rng, n_features=4, depth=5), rng)
    X = rows_of(rng, 60, 4)
    whole, pairs = by_cover(ensemble, X, order=None), by_cover(ensemble, X, order=2)
    for subset, component in pairs.components.items():
        np.testing.assert_allclose(
            component.on_rows(X), whole[subset].on_rows(X), atol=1e-13, err_msg=subset
        )
    np.testing.assert_allclose(pairs.on_rows(X), ensemble.margin(X), atol=1e-12)
    rest = sum(whole[s].on_rows(X) for s in whole if len(s) > 2)
    np.testing.assert_allclose(pairs.remainder.on_rows(X), rest, atol=1e-12)
    np.testing.assert_allclose(pairs.remainder.variance, rest.var(axis=0), rtol=1e-9)
    triple = next(s for s in whole if len(s) == 3)
    np.testing.assert_allclose(pairs[triple].on_rows(X), whole[triple].on_rows(X), atol=1e-13)
    assert "intercept_error" not in pairs.diagnostics
    # Covariances are those of the rows, over which terms do not have mean zero.
    centred = ensemble.margin(X) - ensemble.margin(X).mean(axis=0)
    for subset in pairs:
        truth = np.mean(pairs[subset].on_rows(X) * centred, axis=0)
        np.testing.assert_allclose(pairs.covariances[subset], truth, atol=1e-12)


def test_the_certificate_claims_additivity_only(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1])
    d = by_cover(model, X, order=None)
    certificate = d.certificate
    assert certificate.conditional_mean is certificate.cosine is None
    assert certificate.additivity < 1e-12
    assert certificate.is_exact
    assert "not orthogonal under any distribution" in str(certificate)
    assert "conditional means" not in repr(d)
    assert "extrapolation" not in d.diagnostics
    assert "nodes" in d.measure
    assert d.engine == "path-dependent"
    d.save(tmp_path / "cover.tpz")
    loaded = tp.load(tmp_path / "cover.tpz")
    assert loaded.certificate == certificate
    np.testing.assert_array_equal(loaded.on_rows(X), d.on_rows(X))
    again = pickle.loads(pickle.dumps(by_cover(model, X, order=1)))
    np.testing.assert_allclose(again.on_rows(X), d.on_rows(X), atol=1e-12)


def test_a_saved_model_keeps_its_cover(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    model = RandomForestRegressor(3, max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1])
    by_cover(model, X, order=1).save(tmp_path / "cover.tpz")
    kept = tp.load(tmp_path / "cover.tpz").remainder.function.model
    np.testing.assert_array_equal(kept.cover, parse_model(model).cover)


def test_path_dependent_terms_are_compared_with_purified_effects():
    rng = np.random.default_rng(5)
    X = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=500)
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, X[:, 0] + X[:, 1])
    table = tp.compare(
        by_cover(model, X, order=None), tp.purify(model, X, weights="empirical")
    ).terms
    assert set(table["term"]) >= {"x0", "x1"}
    assert np.all(np.isfinite(table["distance"]))
    assert table["distance"].max() > 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_counts_the_weights_of_its_training_rows(weighted):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 3))
    weight = rng.uniform(0.5, 2, size=200) if weighted else None
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    tree.fit(X, X[:, 0] * X[:, 1], sample_weight=weight)
    cover = parse_model(tree).cover
    leaves, counts = np.unique(tree.apply(X), return_inverse=True)
    np.testing.assert_allclose(cover[leaves], np.bincount(counts, weight))
    assert cover.sum() == pytest.approx(cover[leaves].sum())


def test_wrappers_and_pipelines_keep_the_cover():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] * X[:, 1]
    bagged = BaggingRegressor(DecisionTreeRegressor(max_depth=3), 4, random_state=0).fit(X, y)
    inside = [parse_model(tree) for tree in bagged.estimators_]
    whole = parse_model(bagged)
    np.testing.assert_array_equal(whole.cover, np.concatenate([e.cover for e in inside]))

    scaled = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=4, random_state=0))
    scaled.fit(X, y)
    raw = by_cover(scaled, X, order=None).shapley_values(X)
    inner = by_cover(scaled[-1], scaled[:-1].transform(X), order=None)
    found = inner.shapley_values(scaled[:-1].transform(X))
    np.testing.assert_allclose(raw.values, found.values, atol=1e-12)


def test_dummies_of_one_column_are_one_feature_of_the_path():
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"a": rng.choice(list("pqrst"), 300), "b": rng.choice(list("uvw"), 300)})
    y = (X["a"] == "q") * (X["b"] == "u") + 0.5 * (X["a"] == "s") + (X["b"] == "w")
    pipeline = make_pipeline(
        OneHotEncoder(sparse_output=False), DecisionTreeRegressor(max_depth=5, random_state=0)
    ).fit(X, y)
    inner, coded = pipeline[-1], pipeline[0].transform(X)
    # The game of the dummies, where those of a column are given together.
    game = path_dependent_game(parse_model(inner), coded[:20])
    groups = {0: range(5), 1: range(5, 8)}
    d = by_cover(pipeline, X, order=None)

    def value(given):
        return game(tuple(j for raw in given for j in groups[raw]))

    truth = shapley_by_definition(value, 2).transpose(1, 0, 2)
    np.testing.assert_allclose(d.shapley_values(X[:20]).values, truth, atol=1e-12)


def test_leaves_that_stand_in_several_places_have_no_cover():
    rng = np.random.default_rng(9)
    X = pd.DataFrame({"a": rng.uniform(0, 8, 300), "b": rng.normal(size=300)})
    bins = KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform")
    dummies = ColumnTransformer([("a", bins, ["a"])], remainder="passthrough")
    pipeline = make_pipeline(dummies, DecisionTreeRegressor(max_depth=3, random_state=0))
    pipeline.fit(X, 9 * (X["a"].between(2, 4)) + X["b"])
    with pytest.raises(InvalidInputError, match='columns="transformed"'):
        by_cover(pipeline, X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background": "covers"}, 'a table of rows or "cover"'),
        ({"background": "cover", "sample_weight": np.ones(50)}, "leave sample_weight out"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    tree = DecisionTreeRegressor(max_depth=2).fit(X, X[:, 0])
    with pytest.raises(InvalidInputError, match=message):
        tp.partial_dependence_anova(tree, X, **options)


def test_models_without_cover_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    ensemble = random_ensemble(rng, n_features=4)
    with pytest.raises(InvalidInputError, match="does not record how many training rows"):
        by_cover(ensemble, X)
    negative = replace(with_cover(ensemble, rng), cover=np.full(len(ensemble.feature), -1.0))
    with pytest.raises(InvalidInputError, match="negative or not finite"):
        by_cover(negative, X)
    with pytest.raises(InvalidInputError, match="got a function"):
        by_cover(lambda rows: rows[:, 0], X)
    with pytest.raises(MemoryBudgetError):
        by_cover(with_cover(ensemble, rng), X, order=None, memory_budget=100)


def test_tables_have_no_cover():
    glassbox = pytest.importorskip("interpret.glassbox")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    ebm = glassbox.ExplainableBoostingRegressor(outer_bags=1, max_rounds=5, interactions=0)
    with pytest.raises(InvalidInputError, match="needs a tree ensemble"):
        by_cover(ebm.fit(X, X[:, 0]), X)
