"""Interventional Shapley values of trees, against brute force and against shap."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.cases import rows_beside_cuts
from tests.reference.ensembles import complete_ensemble, random_ensemble
from tests.shapley.truth import interventional_game, shapley_by_definition
from treepurify.engines.common.functions import response_function
from treepurify.shapley import twigs
from treepurify.shapley.few_rows import choose_walks
from treepurify.shapley.interventional import interventional_shapley_values


def brute_force(ensemble, rows, background, weights=None):
    game = interventional_game(
        lambda X: ensemble.margin(X, precision="float64"), rows, background, weights
    )
    return shapley_by_definition(game, ensemble.n_features).transpose(1, 0, 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("vector_leaves", [False, True])
def test_equal_to_the_definition(seed, vector_leaves):
    """Missing values, categories, contradictory paths, several outputs."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=5,
        n_categorical=2,
        n_trees=6,
        depth=6,
        n_outputs=2,
        vector_leaves=vector_leaves,
    )
    rows = rows_beside_cuts(ensemble, 6, seed=seed)
    background = rows_beside_cuts(ensemble, 40, seed=seed + 100)
    weights = rng.integers(0, 4, size=40).astype(float)
    weights[0] = 1.0
    found = interventional_shapley_values(
        ensemble, rows, background, sample_weight=weights, progress=False
    )
    np.testing.assert_allclose(
        found.values, brute_force(ensemble, rows, background, weights), atol=1e-12
    )
    np.testing.assert_allclose(
        found.total(), ensemble.margin(rows, precision="float64"), atol=1e-12
    )


@pytest.mark.parametrize("bits", [1, 3, 6, 12])
def test_the_size_of_twigs_does_not_matter(bits, monkeypatch):
    rng = np.random.default_rng(1)
    ensemble = random_ensemble(rng, n_features=6, n_categorical=1, n_trees=5, depth=7)
    rows = rows_beside_cuts(ensemble, 8)
    background = rows_beside_cuts(ensemble, 30, seed=9)
    expected = brute_force(ensemble, rows, background)
    monkeypatch.setattr(twigs, "_TWIG_BITS", bits)
    # Below five bits, paths are summed by pairs of patterns.
    monkeypatch.setattr("treepurify.shapley.few_rows.TABLE_BITS", max(bits, 4))
    found = interventional_shapley_values(ensemble, rows, background, progress=False)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


def test_long_paths_equal_pairs_of_rows():
    """Forty features in one comb: no table of patterns could be held."""
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    X = np.eye(40) + 0.01 * rng.normal(size=(40, 40))
    model = DecisionTreeRegressor(random_state=0).fit(X, 1.5 ** np.arange(40) / 1e4)
    ensemble = tp.parse_model(model)
    found = interventional_shapley_values(model, X[:5], X, progress=False)
    assert twigs.lay_out_twigs(ensemble).n_bits.max() > 12
    np.testing.assert_allclose(found.total()[:, 0], model.predict(X[:5]), atol=1e-12)
    # By symmetry of the game between two rows: sum over pairs of the values of each pair.
    pairs = [
        interventional_shapley_values(model, X[:5], X[[b]], progress=False).values
        for b in range(40)
    ]
    np.testing.assert_allclose(found.values, np.mean(pairs, axis=0), atol=1e-12)
    # Against one background row only the features that differ matter: a small game.
    row, other = X[:1].copy(), X[:1].copy()
    other[0, :8] = X[20, :8]
    own = interventional_shapley_values(model, row, other, progress=False).values[0, :8, 0]

    def value(coalition):
        mixed = other.copy()
        mixed[0, list(coalition)] = row[0, list(coalition)]
        return model.predict(mixed)

    np.testing.assert_allclose(own, shapley_by_definition(value, 8)[:, 0], atol=1e-12)


@pytest.mark.parametrize("walks", [False, True])
def test_both_ways_give_the_same(walks, monkeypatch):
    """A whole forest by each way: repeated features, missing values, several outputs."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X) @ rng.normal(size=(6, 3))).argmax(axis=1)
    model = RandomForestClassifier(5, max_depth=9, random_state=0).fit(X, y)
    monkeypatch.setattr(
        "treepurify.shapley.interventional.choose_walks",
        lambda _, layout, *__, **___: np.full(len(layout.roots), walks),
    )
    # Several blocks of the background, too.
    monkeypatch.setattr("treepurify.shapley.few_rows._BACKGROUND_A_BLOCK", 11)
    found = interventional_shapley_values(model, X[:4], X[50:80], progress=False)
    game = interventional_game(model.predict_proba, X[:4], X[50:80])
    expected = shapley_by_definition(game, 6).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("n_rows", "n_background", "walks"),
    [(1, 20, True), (20_000, 1000, False)],
)
def test_the_way_depends_on_the_number_of_rows(n_rows, n_background, walks):
    ensemble = complete_ensemble(np.random.default_rng(0), n_features=8, depth=6, n_trees=2)
    layout = twigs.lay_out_twigs(ensemble)
    assert np.all(choose_walks(ensemble, layout, n_rows, n_background) == walks)


def regression(n_rows=600, n_features=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] * (X[:, 4] > 0)
    return X, y


def models():
    X, y = regression()

    def xgboost():
        from xgboost import XGBRegressor

        return XGBRegressor(n_jobs=1, n_estimators=30, max_depth=4).fit(X, y)

    def lightgbm():
        from lightgbm import LGBMRegressor

        return LGBMRegressor(n_jobs=1, n_estimators=30, num_leaves=15, verbose=-1).fit(X, y)

    def hist():
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=15).fit(X, y)

    def catboost():
        from catboost import CatBoostRegressor

        settings = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
        return CatBoostRegressor(iterations=30, depth=4, **settings).fit(X, y)

    return {"xgboost": xgboost, "lightgbm": lightgbm, "hist": hist, "catboost": catboost}


@pytest.mark.parametrize("library", list(models()))
def test_equal_to_the_definition_by_the_librarys_own_predictions(library):
    if library != "hist":
        pytest.importorskip(library)
    X, _ = regression()
    model = models()[library]()
    background, rows = X[:200], X[200:203]
    game = interventional_game(model.predict, rows, background)
    expected = shapley_by_definition(game, 6).T
    found = interventional_shapley_values(model, rows, background, progress=False)
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_equal_to_shap(library):
    """Without HistGradientBoosting, for which shap 0.51 fails its own additivity check."""
    shap = pytest.importorskip("shap")
    pytest.importorskip(library)
    X, _ = regression()
    model = models()[library]()
    background, rows = X[:200], X[200:240]
    masker = shap.maskers.Independent(background, max_samples=200)
    explainer = shap.TreeExplainer(model, masker, feature_perturbation="interventional")
    expected = explainer.shap_values(rows)
    found = interventional_shapley_values(model, rows, background, progress=False)
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-6)
    assert found.base[0] == pytest.approx(np.mean(model.predict(background)), abs=1e-6)


def test_long_paths_keep_to_the_memory_budget(monkeypatch):
    rng = np.random.default_rng(2)
    ensemble = complete_ensemble(rng, n_features=16, depth=7, n_trees=1)
    rows, background = rng.normal(size=(20, 16)), rng.normal(size=(1500, 16))
    expected = interventional_shapley_values(ensemble, rows, background, progress=False)
    # Every leaf is a long path of its own: 128 times 1500 patterns of 8 bytes.
    monkeypatch.setattr(twigs, "_TWIG_BITS", 1)
    monkeypatch.setattr("treepurify.shapley.few_rows.TABLE_BITS", 4)
    budget = 3 << 18
    tracemalloc.start()
    found = interventional_shapley_values(
        ensemble, rows, background, memory_budget=budget, progress=False
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.1 * budget
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)


def test_lists_of_a_walk_must_fit():
    rng = np.random.default_rng(3)
    ensemble = complete_ensemble(rng, n_features=30, depth=8, n_trees=1)
    rows = rng.normal(size=(5, 30))
    with pytest.raises(tp.errors.MemoryBudgetError, match="5 rows with 5 background rows"):
        interventional_shapley_values(ensemble, rows, memory_budget=8 * 30 * 5 * 3 + 400)


def test_labels_and_the_callers_table():
    from xgboost import XGBRegressor

    X, y = regression()
    model = XGBRegressor(n_jobs=1, n_estimators=5, max_depth=3).fit(X, y)
    table = pd.DataFrame(X[:9], columns=list("abcdef"), index=range(10, 19))
    before = table.copy()
    found = interventional_shapley_values(model, table, progress=False)
    pd.testing.assert_frame_equal(table, before)
    frame = found.to_frame()
    assert list(frame.columns) == ["base", *"abcdef"]
    assert list(frame.index) == list(range(10, 19))
    np.testing.assert_allclose(frame.sum(axis=1), model.predict(X[:9]), atol=1e-5)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_functions_are_explained_by_all_coalitions(n_outputs):
    """Rows that share values with the background, rows of it, missing values, unused features."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, size=(30, 6)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    scale = rng.normal(size=(6, n_outputs))

    def f(rows):
        return np.sin(np.nan_to_num(rows, nan=-2.0) @ scale) ** 2

    rows, weights = np.vstack([X[:3], X[3:5] + 0.5]), rng.integers(0, 3, size=30)
    found = interventional_shapley_values(f, rows, X, sample_weight=weights, progress=False)
    game = interventional_game(f, rows, X, weights)
    expected = shapley_by_definition(game, 6).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    np.testing.assert_allclose(found.total(), f(rows), atol=1e-12)


def test_the_probability_of_a_boosted_model():
    from xgboost import XGBClassifier

    X, y = regression(n_rows=200)
    table = pd.DataFrame(X, columns=list("abcdef"))
    model = XGBClassifier(n_jobs=1, n_estimators=8, max_depth=3).fit(table, y > 0)
    response = response_function(model)
    found = interventional_shapley_values(response, table[:4], table[50:], progress=False)
    game = interventional_game(response, X[:4], X[50:])
    expected = shapley_by_definition(game, 6).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    np.testing.assert_allclose(found.total()[:, 0], model.predict_proba(table[:4])[:, 1], atol=1e-6)
    assert found.output_names == tp.parse_model(model).output_names


def test_too_many_coalitions_are_refused_before_the_work():
    def f(rows):
        assert len(rows) <= 64
        return rows.sum(axis=1)

    rng = np.random.default_rng(0)
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"in 17 features, whose 2\^17 coalitions"
    ):
        interventional_shapley_values(f, rng.normal(size=(3, 17)), progress=False)
    rows = rng.normal(size=(400, 14))
    with pytest.raises(tp.errors.InvalidInputError, match=r"2\.6e\+09 evaluations of the function"):
        interventional_shapley_values(f, rows, progress=False)
    with pytest.raises(tp.errors.MemoryBudgetError, match="Shapley values of 1 rows with 9"):
        interventional_shapley_values(f, rows[:1], rows[:9], memory_budget=1 << 20, progress=False)


@pytest.mark.filterwarnings("ignore:Missing values detected")
def test_an_ebm_of_many_features_equals_the_definition():
    """Twenty features differ: no coalitions of all of them could be gone through."""
    interpret = pytest.importorskip("interpret.glassbox")
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 20))
    X[rng.random(X.shape) < 0.05] = np.nan
    kept = np.nan_to_num(X)
    y = kept[:, 0] * kept[:, 1] + kept[:, 2] * kept[:, 3] + kept @ rng.normal(size=20)
    settings = {"max_bins": 8, "max_rounds": 20, "outer_bags": 1, "n_jobs": 1}
    pairs = [(0, 1), (2, 3), (1, 2)]
    model = interpret.ExplainableBoostingRegressor(interactions=pairs, **settings).fit(X, y)
    rows, background = X[:3], X[100:140]
    weights = rng.integers(0, 3, size=40).astype(float)
    found = interventional_shapley_values(
        model, rows, background, sample_weight=weights, progress=False
    )
    np.testing.assert_allclose(found.total()[:, 0], model.predict(rows), atol=1e-12)
    # Where rows share all but five values with the background, the definition has five players.
    rows = np.repeat(background[:1], 2, axis=0)
    rows[:, :5] = X[200:202, :5]
    one = background[:1]
    few = interventional_shapley_values(model, rows, one, progress=False)

    def predict(first_five):
        return model.predict(
            np.hstack([first_five, np.repeat(one[:, 5:], len(first_five), axis=0)])
        )

    game = interventional_game(predict, rows[:, :5], one[:, :5])
    expected = shapley_by_definition(game, 5).T
    np.testing.assert_allclose(few.values[:, :5, 0], expected, atol=1e-12)
    assert not few.values[:, 5:].any()
    # Values are means over the background.
    single = [
        interventional_shapley_values(model, X[:3], b[None], progress=False) for b in background
    ]
    mean = np.average([part.values for part in single], axis=0, weights=weights)
    np.testing.assert_allclose(found.values, mean, atol=1e-12)


def test_labels_that_only_the_explained_rows_have():
    background = pd.DataFrame({"town": ["Ulm", "Bonn"], "age": [1.0, 2.0]})
    row = pd.DataFrame({"town": ["Kiel"], "age": [3.0]})

    def f(table):
        return (table["town"] == "Kiel") * table["age"]

    with pytest.raises(tp.errors.InvalidInputError, match="a category dtype that lists all"):
        interventional_shapley_values(f, row, background, progress=False)
    towns = pd.CategoricalDtype(["Bonn", "Kiel", "Ulm"])
    tables = [table.astype({"town": towns}) for table in (row, background)]
    found = interventional_shapley_values(f, *tables, progress=False)
    # With the town alone the mean age, with both 3: (1.5 + 3) / 2 of the town.
    np.testing.assert_allclose(found.values[0, :, 0], [2.25, 0.75], atol=1e-12)


def test_bad_input():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=3)
    X = rng.normal(size=(4, 3))
    with pytest.raises(tp.errors.InvalidInputError, match="no rows"):
        interventional_shapley_values(ensemble, X, X[:0])
    for wrong in ([1.0, 2.0], [1, 1, 1, -1], [1, 1, 1, np.nan], [0, 0, 0, 0]):
        with pytest.raises(tp.errors.InvalidInputError, match="sample_weight"):
            interventional_shapley_values(ensemble, X, sample_weight=wrong)
    with pytest.raises(tp.errors.MemoryBudgetError, match="Shapley values of 4 rows"):
        interventional_shapley_values(ensemble, X, memory_budget=10)
    assert interventional_shapley_values(ensemble, X[:0], X).values.shape == (0, 3, 1)
    flat = random_ensemble(rng, n_features=3, depth=0)
    assert not interventional_shapley_values(flat, X, progress=False).values.any()
