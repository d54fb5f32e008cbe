"""Values of groups under each value function, groups of the user, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from tests.shapley.truth import interventional_game, shapley_by_definition
from treepurify.grouping.counted_function import as_function
from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.sets import Sampling, read_groups
from treepurify.grouping.value_functions import gaussian_value, reference_value


def normal_rows(n_rows, seed=0):
    """Two blocks of dependent features, 0-2 and 3-4, and one alone."""
    rng = np.random.default_rng(seed)
    mixing = np.zeros((6, 6))
    mixing[:3, :3] = [[1, 0, 0], [0.8, 0.6, 0], [0.5, 0.5, 0.7]]
    mixing[3:5, 3:5] = [[1, 0], [-0.7, 0.7]]
    mixing[5, 5] = 1
    return rng.normal(size=(n_rows, 6)) @ mixing.T + np.arange(6.0)


def test_marginal_values_are_means_over_rows():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=4, n_categorical=1, n_trees=6, n_outputs=2)
    X = np.column_stack([rng.normal(size=(60, 3)), rng.integers(0, 3, size=60)])
    game = interventional_game(lambda X: ensemble.margin(X, precision="float64"), X[:5], X)
    found = shapley_sets(ensemble, X, X[:5], groups=[(0, 2), (1,)], progress=False)
    assert found.groups == ((0, 2), (1,), (3,))
    for number, group in enumerate(found.groups):
        np.testing.assert_allclose(found.values[:, number], game(group) - game(()), atol=1e-12)
    np.testing.assert_allclose(found.total(), ensemble.margin(X[:5]), atol=1e-12)


@pytest.mark.parametrize("vector_leaves", [False, True])
def test_trees_are_averaged_over_mixed_rows_as_a_function_would_be(vector_leaves):
    rng = np.random.default_rng(1)
    ensemble = random_ensemble(
        rng,
        n_features=5,
        n_categorical=2,
        n_trees=12,
        depth=5,
        n_outputs=2,
        vector_leaves=vector_leaves,
    )
    X = np.column_stack([rng.normal(size=(90, 3)), rng.integers(0, 3, size=(90, 2))])
    X[rng.random(X.shape) < 0.15] = np.nan
    function = as_function(ensemble, X)
    fast = reference_value(function, X[:70])
    called = reference_value(as_function(function, X), X[:70])
    for group in [(0,), (1, 3), (0, 2, 4), (4, 0, 1, 3), (0, 1, 2, 3, 4)]:
        np.testing.assert_allclose(fast(X[60:], group), called(X[60:], group), atol=1e-12)


def test_groups_that_add_up_have_their_shapley_value():
    """Proposition 2.2, under the marginal value."""
    X = np.random.default_rng(0).normal(size=(80, 5))

    def f(X):
        return X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * X[:, 4] ** 2

    found = shapley_sets(f, X, X[:6], progress=False)
    assert found.groups == ((0, 1), (2,), (3, 4))
    game = interventional_game(f, X[:6], X)

    def of_groups(coalition):
        return game(tuple(j for k in coalition for j in found.groups[k]))

    expected = shapley_by_definition(of_groups, 3).T
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-12)


def test_gaussian_conditionals_by_regression():
    """Means and covariances given some features, against least squares on many rows."""
    X = normal_rows(200_000)
    function = as_function(lambda X: X[:, 0], X)
    value = gaussian_value(function, X, 2000, np.random.default_rng(0))
    assert value.blocks == ((0, 1, 2), (3, 4), (5,))
    rows = X[:3]
    drawn = value.conditional_rows(rows, (1, 4))
    for target in (0, 2, 3, 5):
        design = np.column_stack([np.ones(len(X)), X[:, [1, 4]]])
        coefficients, squares, *_ = np.linalg.lstsq(design, X[:, target], rcond=None)
        expected = np.column_stack([np.ones(3), rows[:, [1, 4]]]) @ coefficients
        np.testing.assert_allclose(drawn[:, :, target].mean(axis=1), expected, atol=0.02)
        deviation = np.sqrt(squares[0] / len(X))
        np.testing.assert_allclose(drawn[:, :, target].std(axis=1), deviation, rtol=0.08)
    np.testing.assert_array_equal(
        drawn[:, :, [1, 4]], np.broadcast_to(rows[:, None, [1, 4]], (3, 2000, 2))
    )


def test_conditional_grouping_joins_dependent_features():
    X = normal_rows(3000)

    def f(X):
        return X.sum(axis=1) + X[:, 5] ** 2

    found = shapley_sets(f, X, X[:10], value="conditional", progress=False)
    assert found.groups == ((0, 1, 2), (3, 4), (5,))
    assert np.abs(found.remainder).max() < 1e-8
    marginal = shapley_sets(f, X, progress=False)
    assert len(marginal.groups) == 6
    # The mean of a linear function has no sampling error.
    centred = X[:10, :3] - X[:, :3].mean(axis=0)
    np.testing.assert_allclose(found.values[:, 0, 0], centred.sum(axis=1), atol=1e-8)


def test_a_copied_feature_is_grouped_with_its_original():
    """Example 1 of the paper: the covariance is singular."""
    X = np.random.default_rng(0).normal(size=(1000, 3))
    X[:, 2] = X[:, 1]

    def f(X):
        return X[:, 0] + X[:, 2]

    found = shapley_sets(f, X, X[:5], value="conditional", progress=False)
    assert found.groups == ((0,), (1, 2))
    expected = np.stack([X[:5, 0] - X[:, 0].mean(), X[:5, 2] - X[:, 2].mean()], axis=1)
    np.testing.assert_allclose(found.values[:, :, 0], expected, atol=1e-9)


def test_trees_under_conditional_values_join_both_kinds_of_interaction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    from sklearn.ensemble import GradientBoostingRegressor

    y = X[:, 0] + 4 * (X[:, 2] > 0.3) * (X[:, 3] > 0.2)
    model = GradientBoostingRegressor(max_depth=2, n_estimators=30, random_state=0).fit(X, y)
    found = shapley_sets(model, X, value="conditional", progress=False)
    assert found.groups == ((0, 1), (2, 3))


@pytest.mark.parametrize("n_rows", [100, 800])
def test_noise_of_conditional_values_joins_no_features(n_rows):
    """Features join where they interact or depend on each other, and nowhere else."""
    X = np.random.default_rng(n_rows).normal(size=(n_rows, 4))

    def additive(X):
        return X[:, 0] + np.sin(X[:, 1]) + X[:, 2] ** 2 - np.abs(X[:, 3])

    def interacting(X):
        return additive(X) + X[:, 1] * X[:, 3]

    options = {"value": "conditional", "progress": False}
    assert shapley_sets(additive, X, **options).groups == ((0,), (1,), (2,), (3,))
    assert shapley_sets(interacting, X, **options).groups == ((0,), (1, 3), (2,))
    dependent = X.copy()
    dependent[:, 2] = 0.9 * X[:, 0] + 0.4 * X[:, 2]
    assert shapley_sets(additive, dependent, **options).groups == ((0, 2), (1,), (3,))


def test_names_and_tables():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("abc"))
    found = shapley_sets(
        lambda X: X["a"] * X["c"] + X["b"], X, X[:4], groups=[["a", "c"]], progress=False
    )
    assert found.group_names == ("a & c", "b")
    frame = found.to_frame()
    assert list(frame.columns) == ["base", "a & c", "b", "remainder"]
    expected = (X["a"] * X["c"] + X["b"])[:4]
    np.testing.assert_allclose(frame.sum(axis=1), expected, atol=1e-12)
    table = found.by_feature()
    np.testing.assert_array_equal(table[:, 0], table[:, 2])
    assert "a & c | b" in repr(found)


def test_an_object_with_predict_that_no_parser_knows():
    from sklearn.linear_model import LinearRegression

    X = np.random.default_rng(0).normal(size=(60, 3))
    model = LinearRegression().fit(X, X @ [1.0, 2.0, 3.0])
    found = shapley_sets(model, X, X[:3], progress=False)
    assert found.groups == ((0,), (1,), (2,))
    np.testing.assert_allclose(found.values[:, :, 0], (X[:3] - X.mean(0)) * [1, 2, 3], atol=1e-9)


def test_one_feature_and_a_constant():
    X = np.random.default_rng(0).normal(size=(20, 1))
    found = shapley_sets(lambda X: X[:, 0] ** 2, X, X[:2], progress=False)
    assert found.groups == ((0,),)
    assert np.abs(found.remainder).max() < 1e-15
    flat = shapley_sets(lambda X: np.ones(len(X)), np.ones((5, 3)), progress=False)
    assert len(flat.groups) == 3
    ensemble = random_ensemble(np.random.default_rng(0), n_features=2, depth=0)
    for method in ("index", "recursive"):
        found = shapley_sets(ensemble, np.zeros((4, 2)), method=method, progress=False)
        assert len(found.groups) == 2


def test_five_hundred_features():
    weights = np.random.default_rng(0).normal(size=500)

    def f(X):
        return X @ weights + X[:, 3] * X[:, 499] + X[:, 100] * X[:, 200] * X[:, 300]

    X = np.random.default_rng(1).normal(size=(200, 500))
    found = shapley_sets(f, X, sampling=Sampling(probes=20), tolerance=1e-9, progress=False)
    assert len(found.groups) == 497
    assert (3, 499) in found.groups
    assert (100, 200, 300) in found.groups


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value": "shapley"}, 'value must be "marginal", "mean"'),
        ({"method": "magic"}, 'method must be "auto", "recursive"'),
        ({"tolerance": -1}, "tolerance must be"),
        ({"tolerance": np.nan}, "tolerance must be"),
        ({"tolerance": "tight"}, "tolerance must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 0.5}, "seed must be"),
        ({"value": "baseline"}, "baseline goes with"),
        ({"baseline": [0, 0, 0]}, "baseline goes with"),
        ({"value": "baseline", "baseline": np.zeros((2, 3))}, "one row"),
        ({"groups": [(0, 1), (1, 2)]}, "in one group only"),
        ({"groups": [(0, 7)]}, "no feature at position"),
        ({"groups": [("x9",)]}, "no feature 'x9'"),
    ],
)
def test_bad_options(options, message):
    X = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises(tp.errors.InvalidInputError, match=message):
        shapley_sets(lambda X: X[:, 0], X, progress=False, **options)


def test_bad_functions_and_rows():
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(tp.errors.InvalidInputError, match="one value"):
        shapley_sets(lambda X: 1.0, X, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="not finite"):
        shapley_sets(lambda X: X[:, 0] * np.nan, X, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="return one number"):
        shapley_sets(lambda X: X[:, 0].astype(str), X, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="no rows"):
        shapley_sets(lambda X: X[:, 0], X[:0], progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="must be finite"):
        shapley_sets(lambda X: X[:, 0], X * np.nan, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="must contain only numbers"):
        shapley_sets(lambda X: X[:, 0], np.array([["a", "b"]]), progress=False)
    with pytest.raises(
        tp.errors.InvalidInputError, match="has 2 features, but the data have 3 columns"
    ):
        shapley_sets(lambda X: X[:, 0], X, np.zeros((2, 3)), progress=False)
    with pytest.raises(tp.errors.UnsupportedModelError, match=r"is not supported\. Trained models"):
        shapley_sets(3, X, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="no rows were explained"):
        shapley_sets(lambda X: X[:, 0], X, progress=False).to_frame()
    rng = np.random.default_rng(0)
    with_gaps = random_ensemble(rng, n_features=2)
    X[0, 0] = np.nan
    with pytest.raises(tp.errors.InvalidInputError, match="numbers without missing values"):
        shapley_sets(with_gaps, X, value="mean", progress=False)
    for bad in ({"probes": 0}, {"draws": 1.5}):
        with pytest.raises(tp.errors.InvalidInputError, match="Sampling"):
            Sampling(**bad)


def test_groups_by_name_and_alone():
    assert read_groups(["b", ("a", 2)], ("a", "b", "c", "d")) == ((0, 2), (1,), (3,))


def test_groups_can_be_pickled():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = GradientBoostingRegressor(max_depth=2, n_estimators=5, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1])
    for own in (model, model.predict):
        sets = tp.shapley_sets(own, X, X[:4])
        again = pickle.loads(pickle.dumps(sets))
        assert again.groups == sets.groups
        np.testing.assert_array_equal(again.values, sets.values)
