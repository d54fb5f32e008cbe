"""What categorical_anova reads, and what it says of what it cannot read."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPRegressor

from tests.engines.categorical.test_anova import quiet
from treepurify.errors import InvalidInputError


def mixed_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": pd.Categorical(
                rng.choice(["S", "M", "L"], n), categories=["S", "M", "L", "XL"]
            ),
            "count": rng.integers(0, 4, n),
            "price": rng.normal(size=n),
            "flag": rng.random(n) < 0.5,
        }
    )


def formula(table):
    return table["price"] * (table["colour"] == "red") + table["count"] + (table["size"] == "M")


def test_a_data_frame_of_mixed_columns():
    table = mixed_table()
    d = quiet(formula, table, order=2, bins=8)
    assert d.feature_names == tuple(table.columns)
    assert d["size"].axes[0].labels() == ["S", "M", "L"]
    assert len(d["price"].axes[0].cuts) == 7
    np.testing.assert_allclose(d.predict(table), formula(table), atol=1e-10)
    shuffled = table.sample(frac=1, random_state=0)[table.columns[::-1]]
    np.testing.assert_allclose(d.predict(shuffled), formula(shuffled), atol=1e-10)
    # Within a bin of prices the function varies: that part is left to the remainder.
    assert d.remainder.variance[0] > 1e-3
    assert d.diagnostics["fit"]["f"]["r_squared"] < 1


def test_strings_in_an_array():
    rng = np.random.default_rng(1)
    X = rng.choice(["u", "v", "w"], size=(100, 2))
    d = quiet(lambda x: np.char.add(x[:, 0], x[:, 1]) == "uv", X, order=1)
    np.testing.assert_allclose(d.predict(X), (X[:, 0] == "u") & (X[:, 1] == "v"), atol=1e-12)


def test_missing_values_are_a_level():
    X = pd.DataFrame({"a": ["u", None, "v", "u", None, "v"], "b": [0, 1, 1, 1, 0, np.nan]})
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    d = quiet(values, X)
    assert d["a"].axes[0].labels() == ["u", "v", "missing"]
    np.testing.assert_allclose(d.predict(X), values)


def test_a_model_without_trees_is_asked_to_predict():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, size=(200, 3)).astype(float)
    model = MLPRegressor(hidden_layer_sizes=(8,), tol=1e9, n_iter_no_change=2, random_state=0)
    model.fit(X, X.sum(axis=1))
    d = quiet(model, X)
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-12)
    assert d.diagnostics["function"] == "predict"


def test_values_alone_are_known_at_observed_rows_only():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]])
    d = quiet([1.0, 2.0, 4.0, 9.0, 1.0], X, order=1)
    np.testing.assert_allclose(d.predict(X), [1.0, 2.0, 4.0, 9.0, 1.0])
    with pytest.raises(InvalidInputError, match="not observed"):
        d.predict([[2, 1]])


def test_levels_without_rows_have_no_effect_and_unknown_ones_are_refused():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    d = quiet(lambda x: x[:, 0] + x[:, 1], X)
    with pytest.raises(InvalidInputError, match="unknown"):
        d.predict([[5, 0]])


def test_tables_of_the_decomposition_work():
    table = mixed_table()
    d = quiet(formula, table, order=2, rank=40)
    importance = d.importance(details=True)
    assert importance["share"].sum() == pytest.approx(1.0)
    assert d.orthogonality()["inner_product"].abs().max() < 1e-12
    # Global importance in l1 norm (equation 22).
    own = d["colour"].on_rows(table)[:, 0]
    assert d["colour"].mean_absolute[0] == pytest.approx(np.abs(own).mean())
    assert len(d.to_frame("colour")) == 3
    assert "price" in repr(d)


def test_neighbours_and_ranking_limit_the_search():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, size=(200, 4))
    X[:, 3] = rng.random(200) < 0.05
    values = rng.normal(size=200)
    d = quiet(values, X, neighbours={0: [1], 1: [2], 2: [0]})
    larger = {s for s in d.components if len(s) > 1}
    assert larger == {(0, 1), (0, 2), (1, 2), (0, 1, 2)}
    first = quiet(values, X, ranking="variance", rank=4)
    assert set(first.components) == {(0,), (1,), (2,)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank must be"),
        ({"order": 0}, "order must be"),
        ({"bins": 1}, "bins must be"),
        ({"ranking": "size"}, "ranking must be"),
        (
            {"neighbours": {0: [9]}},
            "a neighbour of feature 0 must be a whole number from 0 to 1, got 9",
        ),
        ({"sample_weight": [1.0]}, "one number per row"),
        ({"sample_weight": [-1.0, 1.0, 1.0]}, "not negative"),
        ({"feature_names": ["a"]}, "different names"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidInputError, match=message):
        quiet([1.0, 2.0, 3.0], [[0, 0], [0, 1], [1, 0]], **options)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        ([1.0, 2.0], "one value per row"),
        ([1.0, np.nan, 2.0], "NaN or infinite"),
        (lambda x: np.array(["a", "b", "c"]), "predict_proba"),
    ],
)
def test_functions_are_checked(f, message):
    with pytest.raises(InvalidInputError, match=message):
        quiet(f, [[0, 0], [0, 1], [1, 0]])


def test_rows_without_weight_are_left_out():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    a = quiet([1.0, 2.0, 4.0, 7.0], X, sample_weight=[1, 1, 1, 0])
    b = quiet([1.0, 2.0, 4.0], X[:3])
    np.testing.assert_allclose(a[0].values, b[0].values, atol=1e-14)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (np.array([-1, 1, 0, 1], np.int8), ["-1", "0", "1"]),
        (np.array([7, 7, 2, 250], np.uint8), ["2", "7", "250"]),
        (np.array([0, 3, 0, 1], np.uint8), ["0", "1", "3"]),
        (np.array([True, False, True, True]), ["False", "True"]),
        (np.array([5, -(10**9), 5, 10**9]), ["-1000000000", "5", "1000000000"]),
        (np.array([0.5, 2.0, -1.0, 0.5]), ["-1", "0.5", "2"]),
        (np.array([1.0, np.nan, 3.0, 1.0]), ["1", "3", "missing"]),
        (pd.array([2, None, 1, 2], dtype="Int64"), ["1", "2", "missing"]),
    ],
)
def test_numbers_of_every_type_are_levels(column, labels):
    table = pd.DataFrame({"a": column})
    values = np.array([1.0, 2.0, 3.0, 4.0])
    d = quiet(values, table)
    assert d["a"].axes[0].labels() == labels
    means = pd.Series(values).groupby([str(v) for v in column]).transform("mean")
    fitted = d.intercept[0] + d["a"].on_rows(table)[:, 0]
    np.testing.assert_allclose(fitted, means.to_numpy(), atol=1e-12)
