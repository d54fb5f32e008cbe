"""Effects of a low order are the nearest sum, whatever the route, the engine and the library."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from catboost import CatBoostRegressor
from interpret.glassbox import ExplainableBoostingRegressor
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treepurify as tp
from tests.engines.tree.streams import batches
from tests.reference.nearest_sum import nearest_sum
from treepurify.engines.tree import nearest_sum as fitting
from treepurify.engines.tree.second_fit import source_rows


def categories(n_rows=2500, n_features=4, seed=0):
    """Dependent columns of four categories, and a target of three features at a time."""
    rng = np.random.default_rng(seed)
    correlation = np.full((n_features, n_features), 0.6) + 0.4 * np.eye(n_features)
    z = rng.normal(size=(n_rows, n_features)) @ np.linalg.cholesky(correlation).T
    codes = np.digitize(z, [-0.7, 0.0, 0.7])
    y = codes[:, 0] * codes[:, 1] - codes[:, 2] * (codes[:, 3] > 1) * (codes[:, 0] > 0)
    return codes, y + 0.1 * rng.normal(size=n_rows)


def boards():
    """All final boards of noughts and crosses, and whether crosses have won."""
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    found = {}

    def won(board, player):
        return any(all(board[i] == player for i in line) for line in lines)

    def play(board, player):
        if won(board, 1) or won(board, 2) or 0 not in board:
            found[tuple(board)] = won(board, 1)
            return
        for i in range(9):
            if board[i] == 0:
                board[i] = player
                play(board, 3 - player)
                board[i] = 0

    play([0] * 9, 1)
    known = sorted(found)
    return np.array(known), np.array([found[board] for board in known], dtype=int)


def frame(codes):
    names = list("abcdefghi")[: codes.shape[1]]
    return pd.DataFrame(codes, columns=names).astype("category")


def explained(d, X):
    """What effects and the intercept are on rows."""
    return d.intercept + sum(part.on_rows(X) for part in d.components.values())


LIBRARIES = {
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=40, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=30, enable_categorical=True, n_jobs=1),
    "histogram boosting": lambda: HistGradientBoostingRegressor(
        max_iter=30, categorical_features="from_dtype"
    ),
    "catboost": lambda: CatBoostRegressor(
        iterations=30, cat_features=list("abcd"), one_hot_max_size=10, verbose=0
    ),
    "forest": lambda: RandomForestRegressor(10, max_depth=7, random_state=0),
}


def trained(library, codes, y):
    """A deep model, and its rows in the form that the library takes."""
    X = frame(codes)
    if library == "forest":
        X = X.astype(int)
    elif library == "catboost":
        X = X.astype(int).astype(str)
    return LIBRARIES[library]().fit(X, y), X


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("library", LIBRARIES)
def test_engines_agree_with_dense_least_squares(library, order):
    codes, y = categories()
    model, X = trained(library, codes, y)
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    options = {"order": order, "sample_weight": weights, "progress": False}
    d = tp.purify(model, X, weights="empirical", **options)
    margin = tp.parse_model(model, X=X).margin(X, precision="float64")
    spread = margin.std()
    expected = nearest_sum(codes, margin, order, weights)
    assert np.abs(explained(d, X) - expected).max() <= 1e-6 * spread
    assert d.certificate.unidentified == 0
    for other in (
        tp.categorical_anova(model, X, **options),
        tp.hooker_anova(model, X, weights="empirical", **options),
    ):
        assert set(other.components) == set(d.components)
        for subset, part in other.components.items():
            difference = part.on_rows(X) - d.components[subset].on_rows(X)
            assert np.abs(difference).max() <= 1e-6 * spread
    left, mean = margin - explained(d, X), np.average(margin[:, 0], weights=weights)
    share = 1 - weights @ left**2 / (weights @ (margin - mean) ** 2)
    np.testing.assert_allclose(d.certificate.fitted_share, share, atol=1e-9)
    np.testing.assert_allclose(d.predict(X), margin[:, 0], atol=1e-9)


def test_classes_missing_values_and_unseen_levels():
    codes, y = categories(3000)
    X = frame(codes)
    X.loc[X.index[::7], "b"] = None
    y = np.digitize(y, [0.0, 3.0])
    model = lightgbm.LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1).fit(X, y)
    rows = X.copy()
    rows["c"] = rows["c"].cat.add_categories([9])
    rows.loc[rows.index[::11], "c"] = 9
    d = tp.purify(model, rows, weights="empirical", progress=False)
    assert d.diagnostics["method"] == "joint"
    numbers = np.column_stack([rows[name].cat.codes for name in rows])
    margin = model.predict(rows, raw_score=True)
    expected = nearest_sum(numbers, margin, 2)
    np.testing.assert_allclose(explained(d, rows), expected, atol=1e-6 * margin.std())


def test_what_rows_leave_open_is_counted_and_named():
    """Boards: 163 functions of up to two squares, of which 162 are different on the boards."""
    codes, won = boards()
    X = frame(codes)
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(X, won)
    d = tp.purify(model, X, weights="empirical", progress=False)
    margin = model.predict(X, raw_score=True)[:, None]
    assert d.diagnostics["projection"]["unknowns"] == 163
    assert 0.9 < d.diagnostics["projection"]["held_out_r_squared"] < d.certificate.fitted_share[0]
    assert d.certificate.unidentified == 1
    np.testing.assert_allclose(
        explained(d, X), nearest_sum(codes, margin, 2), atol=1e-6 * margin.std()
    )
    other = tp.categorical_anova(model, X, order=2, progress=False)
    named = set(d.certificate.unidentified_terms)
    for subset, part in other.components.items():
        difference = np.abs(part.on_rows(X) - d.components[subset].on_rows(X)).max()
        assert difference <= 1e-6 * margin.std() or d.term_name(subset) in named


@pytest.mark.parametrize("kind", ["stumps of two", "ebm"])
def test_main_effects_alone_take_what_pairs_share_with_others(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1)) + 0.5 * rng.normal(size=(4000, 3))
    X = np.round(1.5 * X) / 1.5
    y = X[:, 0] * X[:, 1] + X[:, 2]
    model = {
        "stumps of two": GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0),
        "ebm": ExplainableBoostingRegressor(interactions=2, outer_bags=1, max_rounds=200, n_jobs=1),
    }[kind].fit(X, y)
    d = tp.purify(model, X, weights="empirical", order=1, progress=False)
    cells = [np.searchsorted(d[j].axes[0].cuts, X[:, j], side="right") for j in range(3)]
    margin = model.predict(X)[:, None]
    expected = nearest_sum(np.column_stack(cells), margin, 1)
    np.testing.assert_allclose(explained(d, X), expected, atol=1e-6 * margin.std())
    of_pairs = tp.purify(model, X, weights="empirical", progress=False)
    assert any(
        np.abs(d.components[s].on_rows(X) - of_pairs.components[s].on_rows(X)).max()
        > 0.01 * margin.std()
        for s in d.components
    )


def test_exact_is_the_same_function_and_the_remainder_no_sum_of_tables():
    codes, y = categories(600)
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(frame(codes), y)
    X = frame(codes[:300])
    d = tp.purify(model, X, weights="empirical", method="exact", progress=False)
    margin = model.predict(X)[:, None]
    np.testing.assert_allclose(
        explained(d, X), nearest_sum(codes[:300], margin, 2), atol=1e-6 * margin.std()
    )
    with pytest.raises(tp.errors.UnknownComponentError, match=r"together in d\.remainder"):
        d["a", "b", "c"]
    whole = tp.purify(model, X, weights="empirical", method="exact", order=None, progress=False)
    assert whole.remainder is None
    assert max(map(len, whole.components)) > 2


@pytest.mark.parametrize("weights", ["laplace", "uniform"])
def test_a_mixture_is_fitted_on_all_combinations_of_cells(weights):
    codes, y = categories(800)
    X = frame(codes)
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights=weights, progress=False)
    every = np.array(np.meshgrid(*[np.arange(4)] * 4, indexing="ij")).reshape(4, -1).T
    mass = np.full(256, 1 / 256)
    if weights == "laplace":
        numbers = np.ravel_multi_index(codes.T, (4,) * 4)
        mass = (mass + np.bincount(numbers, minlength=256) / len(X)) / 2
    rows = frame(every)
    margin = model.predict(rows)[:, None]
    expected = nearest_sum(every, margin, 2, mass)
    np.testing.assert_allclose(explained(d, rows), expected, atol=1e-6 * margin.std())


def test_interactions_choose_what_is_reported_only():
    codes, y = categories(1500)
    X = frame(codes)
    model = lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    few = tp.purify(model, X, weights="empirical", interactions=[("a", "b")], progress=False)
    assert len(few) == 5
    for subset in few.components:
        np.testing.assert_array_equal(few.components[subset].values, d.components[subset].values)
    np.testing.assert_allclose(few.predict(X), d.predict(X), atol=1e-9)


@pytest.fixture(scope="module")
def half_of_boards():
    """A booster that reads the squares as numbers, on half of the boards, and the other half."""
    codes, won = boards()
    order = np.random.default_rng(0).permutation(len(codes))
    X, y = codes[order].astype(float), won[order]
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(X[:479], y[:479])
    return model, X[:479], X[479:]


def r_squared(d, model, X):
    margin = model.predict(X, raw_score=True)
    return 1 - np.mean((margin - explained(d, X)[:, 0]) ** 2) / margin.var()


def test_what_single_trees_leave_is_fitted_where_it_helps_on_new_rows(half_of_boards, monkeypatch):
    model, X, new = half_of_boards
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert d.diagnostics["method"] == "projection"
    monkeypatch.setattr(fitting, "fit_residual", lambda *_: (0.0, {}))
    without = tp.purify(model, X, weights="empirical", progress=False)
    assert r_squared(d, model, new) > r_squared(without, model, new) + 0.2
    assert d.certificate.fitted_share[0] > without.certificate.fitted_share[0] + 0.15
    assert d.certificate.cosine < 1e-9


def test_rows_twice_and_in_another_order_change_nothing(half_of_boards):
    model, X, _ = half_of_boards
    X = X[:300]
    options = {"weights": "empirical", "progress": False}
    d = tp.purify(model, X, **options)
    assert d.diagnostics["projection"]["fitted_again"] > 0
    for rows in (X[::-1], np.repeat(X, 2, axis=0)):
        other = tp.purify(model, rows, **options)
        for subset, part in d.components.items():
            np.testing.assert_allclose(other[subset].values, part.values, atol=1e-7)


def test_nothing_is_added_where_nothing_is_left():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5))
    X[:, 1] += X[:, 0]
    model = lightgbm.LGBMRegressor(n_estimators=50, verbose=-1, n_jobs=1)
    model.fit(X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]))
    d = tp.purify(model, X, progress=False)
    assert "fitted_again" not in d.diagnostics["projection"]
    assert d.certificate.missed < 0.01


def test_copies_of_a_row_are_in_one_fold(half_of_boards):
    _, X, _ = half_of_boards
    columns = tp.parse_model(half_of_boards[0]).columns(np.repeat(X, 2, axis=0))
    given = source_rows(columns, None, None, range(9))
    np.testing.assert_array_equal(given.number[::2], given.number[1::2])
    assert given.effective == 2 * given.telling == 2 * len(X)
    shares = np.bincount(given.fold[::2]) / len(X)
    np.testing.assert_allclose(shares, 0.2, atol=0.01)


def test_copies_of_a_sampled_row_are_in_one_fold(half_of_boards):
    """Rows in batches are those of a table: equal rows are one, and so are their copies."""
    model, X, _ = half_of_boards
    X = pd.DataFrame(np.repeat(X[:240], 2, axis=0), columns=[f"Column_{j}" for j in range(9)])
    options = {"weights": tp.weights.Smoothed(0.05, 0.005, 2000), "progress": False}
    d = tp.purify(model, X, **options)
    other = tp.purify(model, batches(X, 100), **options)
    assert d.certificate.missed > 0
    assert other.certificate.missed == pytest.approx(d.certificate.missed)
    for subset, part in d.components.items():
        np.testing.assert_allclose(other[subset].values, part.values, atol=1e-7)


@pytest.mark.parametrize("codes_as", ["categories", "numbers"])
def test_trainings_are_fitted_in_the_same_way(codes_as, half_of_boards):
    _, X, _ = half_of_boards
    if codes_as == "categories":
        codes, y = categories(2500)
        X = frame(codes)
    else:
        y = (X[:, 0] == X[:, 4]) & (X[:, 4] == X[:, 8]) | (X[:, 2] == X[:, 4])
    models = [
        lightgbm.LGBMRegressor(
            n_estimators=30,
            verbose=-1,
            n_jobs=1,
            subsample_freq=1,
            subsample=0.8,
            random_state=seed,
        ).fit(X, y)
        for seed in range(3)
    ]
    d = tp.purify(models, X, weights="empirical", progress=False)
    assert d.spread is not None
    for subset, part in d.components.items():
        mean = d.spread.stacked[subset].values.mean(axis=-1, keepdims=True)
        np.testing.assert_allclose(mean, part.values, atol=1e-8)


def test_words_do_not_call_a_loss_of_fit_an_interaction(half_of_boards):
    codes, won = boards()
    X = frame(codes)
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(X, won)
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert "; 3% are interactions of three or more features." in repr(d)
    model, few, _ = half_of_boards
    again = tp.purify(model, few, weights="empirical", progress=False)
    assert "could still be pairs" in repr(again)
    assert again.certificate.missed > 0
