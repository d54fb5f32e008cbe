"""Which numbers keep their shared values when rows are smoothed."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.weights.latent_rows import latent_rows
from treepurify.weights.smoothing import (
    BANDWIDTHS,
    gains_of_values,
    has_telling_values,
    smoothings,
)

NAMES = "amount", "age", "noise", "status"


def rows(n_rows: int, seed: int = 0) -> np.ndarray:
    """Amounts that each belong to one status mostly, ages whose chance of it rises, and noise."""
    rng = np.random.default_rng(seed)
    amounts = np.sort(rng.choice(100_000, 60, replace=False)).astype(float)
    of_amount = rng.integers(0, 3, 60)
    which = rng.integers(0, 60, n_rows)
    status = np.where(rng.random(n_rows) < 0.8, of_amount[which], rng.integers(0, 3, n_rows))
    age = np.round(40 + 8 * status + 10 * rng.normal(size=n_rows))
    noise = np.round(20 * rng.normal(size=n_rows))
    return np.column_stack([amounts[which], age, noise, status.astype(float)])


def latent(X: np.ndarray, weights: np.ndarray | None = None):
    features = tuple(FeatureSpec(name) for name in NAMES)
    return latent_rows(read_columns(X, features), weights, 1 << 30)


@pytest.mark.parametrize("seed", range(5))
def test_values_stay_where_they_tell_more_than_their_neighbours(seed):
    found = latent(rows(1500, seed))
    assert found.scored == (0, 1, 2)
    assert has_telling_values(found).tolist() == [True, False, False]


def test_neither_order_nor_the_scale_of_weights_matters():
    X = rows(1500)
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    expected = has_telling_values(latent(X, weights)).tolist()
    assert expected == [True, False, False]
    order = np.random.default_rng(2).permutation(len(X))
    assert has_telling_values(latent(X[order], 8 * weights[order])).tolist() == expected


def test_lone_values_of_rows_of_weight_zero_change_nothing():
    X, others = rows(1500), rows(3000, seed=1)
    others[:, 0] += np.random.default_rng(0).uniform(size=len(others))
    weights = np.repeat([1.0, 0.0], [len(X), len(others)])
    found = has_telling_values(latent(np.concatenate([X, others]), weights))
    assert found.tolist() == [True, False, False]


def test_few_rows_lone_levels_and_lone_values_tell_nothing():
    assert not has_telling_values(latent(rows(25))).any()
    X = rows(1500)
    X[0, 3] = 7.0
    assert has_telling_values(latent(X)).tolist() == [True, False, False]
    X[:, 0] += np.random.default_rng(0).uniform(size=len(X))
    assert not has_telling_values(latent(X)).any()


def test_gain_is_that_of_leaving_each_row_out():
    rng = np.random.default_rng(3)
    n_rows, cells = 90, 32
    value, level = rng.integers(0, 9, n_rows), rng.integers(0, 3, n_rows)
    level[value < 3] = value[value < 3]
    counts = np.zeros((9, 3))
    np.add.at(counts, (value, level), 1)
    middle = counts.sum(axis=1).cumsum() - counts.sum(axis=1) / 2
    cell = np.floor(middle / n_rows * cells).astype(int)[value]
    gains = np.full((len(BANDWIDTHS), n_rows), -np.inf)
    for row in range(n_rows):
        others = np.arange(n_rows) != row
        margin = np.mean(level[others] == level[row])
        same = others & (value == value[row])
        exact = (np.sum(level[same] == level[row]) + 4 * margin) / (same.sum() + 4)
        for k, matrix in enumerate(smoothings()):
            near = matrix[cell[row], cell[others]]
            share = near[level[others] == level[row]].sum() / near.sum()
            gains[k, row] = np.log(exact) - np.log(share) if share > 1e-12 else np.inf
    least = gains[np.argmin(gains.mean(axis=1))]
    np.testing.assert_allclose(gains_of_values(counts)[value, level], least, atol=1e-12)


def test_the_measure_says_which_values_it_keeps():
    X = rows(1500)
    y = X[:, 0] / 1e4 * (X[:, 3] > 0) + 0.05 * X[:, 1] + 0.1 * X[:, NAMES.index("noise")]
    model = GradientBoostingRegressor(max_depth=3, n_estimators=50).fit(X, y)
    facts = tp.purify(model, X, weights="auto", feature_names=list(NAMES)).diagnostics["measure"]
    assert facts["picked"] == "smoothed"
    assert list(facts["kept_values_of"]) == ["amount"]
    assert facts["bandwidths"]["amount"] == 0
    assert facts["bandwidths"]["noise"] > 0
