"""Variances of effects without the noise of few rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError


def scene(n_rows, seed):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    X = 0.7 * common + 0.7 * rng.normal(size=(n_rows, 4))
    return X, 2 * X[:, 0] + X[:, 1] * X[:, 2]


@pytest.fixture(scope="module")
def model():
    X, y = scene(2000, 0)
    return GradientBoostingRegressor(max_depth=2, n_estimators=60, random_state=0).fit(X, y)


def test_it_is_unbiased_for_the_squared_norm_of_the_mean_component(model):
    new = scene(5000, 99)[0]
    parts = [tp.purify(model, scene(200, seed)[0], weights="empirical") for seed in range(100, 160)]
    found = [
        tp.unbiased_importance(model, scene(600, seed)[0], repeats=1).set_index("term")
        for seed in range(2, 32)
    ]
    unbiased = pd.concat([table["unbiased_variance"] for table in found], axis=1)
    for subset in parts[0].components:
        values = np.stack([d[subset].on_rows(new).ravel() for d in parts])
        values -= values.mean(axis=1, keepdims=True)
        # The mean over sixty parts still has a sixtieth of their noise.
        noise = values.var(axis=0, ddof=1).mean()
        expected = np.mean(values.mean(axis=0) ** 2) - noise / len(parts)
        estimates = unbiased.loc[parts[0].term_name(subset)]
        error = estimates.std(ddof=1) / np.sqrt(len(estimates)) + 0.02 * expected
        assert abs(estimates.mean() - expected) < 4 * error


def test_sampling_variance_is_that_of_drawing_rows_again(model):
    tables = [scene(600, seed)[0] for seed in range(2, 22)]
    new = scene(3000, 99)[0]
    decomposed = [tp.purify(model, X, weights="empirical") for X in tables]
    spread = {}
    for subset in decomposed[0].components:
        values = np.stack([d[subset].on_rows(new).ravel() for d in decomposed])
        spread[decomposed[0].term_name(subset)] = values.var(axis=0, ddof=1).mean()
    found = [tp.unbiased_importance(model, X, repeats=1).set_index("term") for X in tables[:5]]
    estimated = pd.concat([table["sampling_variance"] for table in found], axis=1).mean(axis=1)
    total = sum(spread.values())
    # Thirds of the rows are noisier than their number says: empty cells weigh more there.
    assert 0.7 * total < estimated.sum() < 2.5 * total


def test_it_is_the_table_of_importance_with_two_columns(model):
    X, _ = scene(300, 5)
    table = tp.unbiased_importance(model, X, repeats=2, seed=3)
    plain = tp.purify(model, X, weights="empirical", missing_cells="always").importance()
    pd.testing.assert_frame_equal(table[plain.columns], plain)
    again = tp.unbiased_importance(model, X, repeats=2, seed=3)
    pd.testing.assert_frame_equal(table, again)
    other = tp.unbiased_importance(model, X, repeats=2, seed=4)
    assert (other["unbiased_variance"] != table["unbiased_variance"]).any()


def test_outputs_weights_remainder_and_missing_values():
    X, y = scene(400, 6)
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = np.digitize(y, [-1.0, 1.0])
    fitted = GradientBoostingClassifier(n_estimators=10, max_depth=3).fit(frame, labels)
    weights = np.random.default_rng(0).integers(0, 3, size=400)
    table = tp.unbiased_importance(fitted, frame, sample_weight=weights, repeats=1)
    assert len(table["output"].unique()) == 3
    is_rest = table["term"] == "remainder"
    assert is_rest.sum() == 3
    assert table.loc[is_rest, "unbiased_variance"].isna().all()
    assert np.isfinite(table.loc[~is_rest, ["unbiased_variance", "sampling_variance"]]).all(
        axis=None
    )
    smoothed = tp.unbiased_importance(fitted, frame, weights="auto", repeats=1)
    assert smoothed["sampling_variance"].sum() < table["sampling_variance"].sum()


def test_what_is_refused(model):
    with pytest.raises(InvalidInputError, match="needs 6 rows of positive weight; X has 5"):
        tp.unbiased_importance(model, scene(5, 0)[0])
    with pytest.raises(InvalidInputError, match="repeats must be a whole number"):
        tp.unbiased_importance(model, scene(50, 0)[0], repeats=0)
