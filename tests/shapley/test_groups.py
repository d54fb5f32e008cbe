"""Shapley values of groups of features that are made from the same raw columns."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treepurify as tp
from tests.shapley.truth import decomposition_game, shapley_by_definition
from treepurify.errors import InvalidInputError

# PCA of price and area, and of area and age: area connects all three.
PARTS = [("p", PCA(2), ["price", "area"]), ("q", PCA(1), ["area", "age"])]
OTHERS = [("c", OneHotEncoder(), ["color"]), ("n", "passthrough", ["rooms"])]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=["price", "area", "age", "rooms"])
    X["color"] = rng.choice(["red", "green", "blue"], len(X))
    y = X["price"] * X["area"] + X["rooms"] * (X["color"] == "red") + np.abs(X["age"] - X["area"])
    trees = GradientBoostingRegressor(max_depth=3, n_estimators=15, random_state=0)
    return make_pipeline(ColumnTransformer(PARTS + OTHERS), trees).fit(X, y), X


@pytest.mark.parametrize("weights", ["empirical", "independent"])
def test_groups_are_the_players_of_the_game(fitted, weights):
    model, X = fitted
    d = tp.purify(model, X, weights=weights, order=3)
    rows = X.head(20)
    found = d.shapley_values(rows, groups="raw")
    assert sorted(found.feature_names) == ["color", "price + area + age", "rooms"]
    made_from = {spec.name: spec.made_from or (spec.name,) for spec in d.inputs.features}
    members = [
        [name for name, raws in made_from.items() if set(raws) <= set(group.split(" + "))]
        for group in found.feature_names
    ]
    # Of the projection the features of the rest are not known.
    known = replace(d, remainder=None) if weights == "empirical" else d
    of_features = decomposition_game(known, rows)

    def game(players):
        chosen = [d.feature_names.index(n) for player in players for n in members[player]]
        return of_features(tuple(sorted(chosen)))

    expected = shapley_by_definition(game, 3).transpose(1, 0, 2)
    np.testing.assert_allclose(found.values, expected, atol=1e-12)
    np.testing.assert_allclose(found.total()[:, 0], model.predict(rows), atol=1e-9)
    together = found.feature_names.index("price + area + age")
    assert np.isnan(found.data[:, together]).all()
    rooms = found.feature_names.index("rooms")
    np.testing.assert_array_equal(found.data[:, rooms], rows["rooms"])


def test_the_rest_is_split_among_groups_or_left(fitted):
    model, X = fitted
    d = tp.purify(model, X, weights="empirical", order=2)
    found = d.shapley_values(X, groups="raw")
    alone = d.shapley_values(X)
    np.testing.assert_allclose(found.total(), alone.total(), atol=1e-12)


def test_without_derived_columns_each_feature_is_a_group():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    d = tp.purify(GradientBoostingRegressor(n_estimators=5).fit(X, X[:, 0] * X[:, 1]), X)
    grouped, alone = d.shapley_values(X, groups="raw"), d.shapley_values(X)
    assert grouped.feature_names == alone.feature_names
    np.testing.assert_array_equal(grouped.values, alone.values)
    np.testing.assert_array_equal(grouped.data, alone.data)


def test_unknown_groups_are_refused(fitted):
    model, X = fitted
    d = tp.purify(model, X)
    with pytest.raises(InvalidInputError, match="groups"):
        d.shapley_values(X, groups="colour")
