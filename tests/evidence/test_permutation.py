"""Permutation importance against all pairs of rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120)})
    X["b"] += X["a"]
    X["kind"] = pd.Categorical(rng.choice(["fir", "oak", "elm"], 120))
    X["idle"] = 1.0
    X.loc[::9, "a"] = np.nan
    y = X["a"].fillna(1.0) * X["b"] + (X["kind"] == "oak") + rng.normal(size=120)
    model = HistGradientBoostingRegressor(
        max_iter=20, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5
    ).fit(X, y)
    return tp.purify(model, X, weights="empirical", progress=False), X, y.to_numpy()


def over_all_pairs(predict, X, y, name, loss, weights):
    """The definition: every row with the value of every row, itself included."""
    total = 0.0
    for k in range(len(X)):
        changed = X.copy()
        changed[name] = pd.Series([X[name].iloc[k]] * len(X), index=X.index, dtype=X[name].dtype)
        total += weights[k] * (weights @ loss(y, predict(changed)))
    return total - weights @ loss(y, predict(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_over_all_pairs_of_rows(world, weighted):
    d, X, y = world
    weights = np.random.default_rng(1).uniform(size=120) if weighted else np.ones(120)
    found = tp.permutation_importance(
        d, X, y, sample_weight=weights if weighted else None, progress=False
    ).set_index("feature")
    assert found["exact"].all()
    assert (found["standard_error"] == 0).all()
    for name in X:
        expected = over_all_pairs(
            d.predict, X, y, name, lambda y, p: (y - p) ** 2, weights / weights.sum()
        )
        assert found["importance"][name] == pytest.approx(expected, abs=1e-10)
    assert found["importance"]["idle"] == 0
    assert found["importance"].is_monotonic_decreasing


def test_other_losses_are_exact_where_they_are_means():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(100, 3)), columns=list("abc"))
    y = (X["a"] * X["b"] > 0).astype(int).to_numpy()
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)

    def log_loss(y, margin):
        return np.log1p(np.exp(-np.where(y, margin, -margin)))

    found = tp.permutation_importance(d, X, y, progress=False).set_index("feature")
    for name in X:
        expected = over_all_pairs(d.predict, X, y, name, log_loss, np.full(100, 0.01))
        assert found["importance"][name] == pytest.approx(expected, abs=1e-10)
    drawn = tp.permutation_importance(d, X, y, loss="auc", progress=False)
    assert not drawn["exact"].any()
    with pytest.raises(InvalidInputError, match="'auc' is not a mean over rows"):
        tp.permutation_importance(d, X, y, loss="auc", exact=True, progress=False)


def of_margin(model, X):
    return tp.purify(model, X, weights="empirical", order=1, progress=False)


def of_response(model, X):
    f = tp.response_function(model)
    return tp.partial_dependence_anova(f, X, order=1, progress=False)


@pytest.mark.parametrize(
    ("decompose", "loss", "of_one"),
    [
        (of_margin, "log_loss", lambda y, m: np.log1p(np.exp(-np.where(y, m, -m)))),
        (of_response, "squared_error", lambda y, p: (y - p) ** 2),
    ],
)
def test_deep_trees_are_exact_however_many_values_a_feature_has(decompose, loss, of_one):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc"))
    y = (X["a"] * X["b"] + X["c"] > 0).astype(int).to_numpy()
    model = GradientBoostingClassifier(n_estimators=20, max_depth=7, random_state=0).fit(X, y)
    d = decompose(model, X)
    found = tp.permutation_importance(d, X, y, loss=loss, progress=False).set_index("feature")
    assert found["exact"].all()
    for name in X:
        expected = over_all_pairs(d.predict, X, y, name, of_one, np.full(150, 1 / 150))
        assert found["importance"][name] == pytest.approx(expected, rel=1e-9)


def test_shuffling_agrees_within_its_error(world):
    d, X, y = world
    exact = tp.permutation_importance(d, X, y, progress=False).set_index("feature")
    drawn = tp.permutation_importance(d, X, y, exact=False, n_repeats=200, progress=False)
    drawn = drawn.set_index("feature").loc[exact.index]
    moved = exact.index != "idle"
    assert not drawn["exact"][moved].any()
    apart = (drawn["importance"] - exact["importance"]).abs()[moved]
    assert (apart < 4 * drawn["standard_error"][moved]).all()
    assert (drawn["standard_error"][moved] > 0).all()


def test_shares_of_variance(world):
    d, X, y = world
    found = tp.permutation_importance(d, X, y, progress=False).set_index("feature")
    sizes = {s: c.variance[0] for s, c in d.components.items()}
    whole = sum(sizes.values())
    for j, name in enumerate(d.feature_names):
        own = {s: size for s, size in sizes.items() if j in s}
        assert found["total_share"][name] == pytest.approx(sum(own.values()) / whole)
        split = sum(size / len(s) for s, size in own.items())
        assert found["variance_share"][name] == pytest.approx(split / whole)
    assert found["variance_share"].sum() == pytest.approx(1.0)


def test_what_cannot_be_used_is_refused(world):
    d, X, y = world
    for option, match in (
        ({"n_repeats": 1}, "n_repeats must be a whole number of at least 2"),
        ({"exact": "yes"}, "exact must be"),
        ({"seed": -1}, "seed must be"),
        ({"loss": "nothing"}, "loss must be"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            tp.permutation_importance(d, X, y, **option)
