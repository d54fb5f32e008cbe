"""What residuals say against what was planted in them, and against dense fits."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.evidence.missed import _products


def additive_model(n_rows=400, seed=0):
    """A model of single features only, whose residuals hold an interaction."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(6000, 3)) * 1.0
    signal = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    y = signal + rng.normal(size=6000)
    model = GradientBoostingRegressor(max_depth=1, n_estimators=200, random_state=0)
    d = tp.purify(
        model.fit(X[:n_rows], y[:n_rows]), X[:n_rows], weights="empirical", progress=False
    )
    return d, X[n_rows:], y[n_rows:], signal[n_rows:]


def test_a_planted_interaction_is_what_was_missed():
    d, X, y, _ = additive_model()
    table = tp.missed_effects(d, X, y, progress=False).set_index("term")
    # The variance of x1 * x2 / 2 for independent features of variance 2.
    assert table.index[0] == "x1 & x2"
    assert table.loc["x1 & x2", "missed"] == pytest.approx(1.0, abs=0.1)
    assert table.loc["x1 & x2", "in_model"] == 0.0
    for term in ("x0 & x1", "x0 & x2"):
        assert abs(table.loc[term, "missed"]) < 0.02
    # Each main effect is missed by as much as it is off.
    off = d.predict(X) - X[:, 0]
    for j in range(3):
        by_cell = np.array([off[X[:, j] == value].mean() for value in range(-2, 3)])
        assert table.loc[f"x{j}", "missed"] == pytest.approx(by_cell.var(), abs=0.02)


def test_nothing_is_missed_on_average_where_there_is_nothing():
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 4, size=(600, 2)) * 1.0
        model = GradientBoostingRegressor(max_depth=1, n_estimators=20)
        d = tp.purify(model.fit(X, X.sum(axis=1)), X, weights="empirical", progress=False)
        y = d.predict(X) + rng.normal(size=600)
        table = tp.missed_effects(d, X, y, repeats=2, seed=seed, progress=False)
        found.append(table.set_index("term")["missed"].reindex(["x0"]).to_numpy())
    found = np.array(found)
    # Fitted and measured on the same rows it would be 3 / 600 each time.
    assert abs(found.mean()) < 0.002
    assert found.min() < 0


def test_a_step_is_the_dense_weighted_fit():
    rng = np.random.default_rng(0)
    residual, shares = rng.normal(size=(900, 1)), rng.uniform(0.2, 2, size=900)
    shares /= shares.sum()
    of_rows = np.column_stack([shares * residual[:, 0], shares, shares])
    parts = np.array_split(rng.permutation(900), 3)
    for cells in rng.integers(0, 12, size=(3, 900)):
        products = _products(cells, (3, 4), of_rows, parts)
        both = np.eye(12)[cells]
        mains = np.concatenate([np.eye(3)[cells // 4], np.eye(4)[cells % 4]], axis=1)
        fitted = []
        for part in parts:
            root = np.sqrt(shares[part])[:, None]
            of_cells, of_mains = (
                design @ np.linalg.lstsq(root * design[part], root * residual[part], rcond=None)[0]
                for design in (both, mains)
            )
            fitted.append((of_cells - of_mains)[:, 0])
        expected = [
            np.average((fitted[one] * fitted[other])[parts[third]], weights=shares[parts[third]])
            for one, other, third in ((0, 1, 2), (0, 2, 1), (1, 2, 0))
        ]
        np.testing.assert_allclose(products, expected, atol=1e-12)


def test_log_odds_are_missed_on_their_own_scale():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(20000, 2)) * 1.0
    margin = (X[:, 0] - 0.5) + (2 * X[:, 0] - 1) * (2 * X[:, 1] - 1) * 0.5
    y = (rng.uniform(size=20000) < 1 / (1 + np.exp(-margin))).astype(int)
    model = GradientBoostingClassifier(max_depth=1, n_estimators=100, random_state=0)
    d = tp.purify(model.fit(X[:5000], y[:5000]), X[:5000], weights="empirical", progress=False)
    table = tp.missed_effects(d, X[5000:], y[5000:], progress=False).set_index("term")
    # One step of Newton's method goes most of the way.
    assert table.loc["x0 & x1", "missed"] == pytest.approx(0.25, rel=0.2)


def test_what_cannot_be_used_is_refused():
    d, X, y, _ = additive_model()
    with pytest.raises(InvalidInputError, match="first two derivatives"):
        tp.missed_effects(d, X, y, loss="quantile", progress=False)
    with pytest.raises(InvalidInputError, match="needs 30 rows"):
        tp.missed_effects(d, X[:20], y[:20], progress=False)
