"""Partial dependence of functions against its definition, and what the calls must check."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVR

from tests.reference.ensembles import random_ensemble
from tests.reference.partial_dependence import moebius_terms
from treepurify.engines.partial_dependence.anova import partial_dependence_anova
from treepurify.errors import InvalidInputError, MemoryBudgetError, UnsupportedModelError


def product(rows):
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(150, 3)) + rng.normal(size=(150, 1))


def test_terms_of_a_function_over_its_whole_background(rows):
    weights = np.random.default_rng(1).random(150)
    d = partial_dependence_anova(product, rows, sample_weight=weights, order=None)
    truth = moebius_terms(product, rows[:8], rows, None, weights)
    np.testing.assert_allclose(d.intercept, truth[()][0], rtol=1e-12)
    for subset in d:
        np.testing.assert_allclose(d[subset].on_rows(rows[:8]), truth[subset], atol=1e-12)
    np.testing.assert_allclose(d.predict(rows), product(rows), atol=1e-12)
    errors = d.diagnostics["standard_error"]
    assert all(error["largest"] == 0 for error in errors.values())
    assert d.remainder is None


def test_a_tree_called_as_a_function_agrees_with_the_exact_terms(rows):
    ensemble = random_ensemble(np.random.default_rng(2), n_trees=9, depth=4, n_outputs=2)
    exact = partial_dependence_anova(ensemble, rows)
    called = partial_dependence_anova(ensemble.margin, rows)
    assert called.n_outputs == 2
    for subset in exact:
        np.testing.assert_allclose(
            called[subset].on_rows(rows[:20]), exact[subset].on_rows(rows[:20]), atol=1e-12
        )
    np.testing.assert_allclose(called.on_rows(rows), ensemble.margin(rows), atol=1e-12)
    np.testing.assert_allclose(
        called[0, 1, 2].on_rows(rows[:9]), exact[0, 1, 2].on_rows(rows[:9]), atol=1e-12
    )
    points = np.sort(np.random.default_rng(1).choice(150, size=100, replace=False))
    values = exact[0, 1].on_rows(rows[points])
    np.testing.assert_allclose(called[0, 1].variance, values.var(axis=0), rtol=1e-9)


def test_standard_errors_cover_the_whole_background():
    """The error of the mean over a sample, against the terms over all rows, in many draws."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(600, 3)) + rng.normal(size=(600, 1))
    truth = moebius_terms(product, rows[:40], rows, 2)
    squares, errors = [], []
    for seed in range(40):
        d = partial_dependence_anova(product, rows, background_size=60, seed=seed)
        own = d[0, 1].on_rows(rows[:40])
        squares.append(np.mean((own - truth[0, 1]) ** 2))
        errors.append(d.diagnostics["standard_error"]["x0 & x1"]["root_mean_square"] ** 2)
    assert 0.6 < np.mean(errors) / np.mean(squares) < 1.6
    assert "60 of 600 background rows" in d.measure
    again = partial_dependence_anova(product, rows, background_size=60, seed=39)
    np.testing.assert_array_equal(again[0, 1].on_rows(rows), d[0, 1].on_rows(rows))


def test_a_table_reaches_the_function_as_it_was_given():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, 5, size=60),
            "town": rng.choice(["Ulm", "Bonn", "Jena"], size=60),
            "size": pd.Categorical(rng.choice(["s", "m"], size=60), categories=["s", "m", "l"]),
            "open": rng.random(60) < 0.5,
            "price": np.where(rng.random(60) < 0.1, np.nan, rng.normal(size=60)),
        }
    )
    dtypes = dict(frame.dtypes)

    def score(table):
        assert dict(table.dtypes) == dtypes
        town = table["town"].map({"Ulm": 1.0, "Bonn": -1.0, "Jena": 0.5})
        size = (table["size"] == "m").astype(float)
        effect = town * table["count"] + size * table["open"] + table["price"].fillna(3.0) ** 2
        return effect.to_numpy()

    d = partial_dependence_anova(score, frame)
    np.testing.assert_allclose(d.predict(frame), score(frame), atol=1e-12)
    effect = d["town"].on_rows(frame).ravel()
    town = frame["town"].map({"Ulm": 1.0, "Bonn": -1.0, "Jena": 0.5})
    mean = (frame["count"] * town).mean()
    np.testing.assert_allclose(effect, frame["count"].mean() * town - mean, atol=1e-12)
    shuffled = frame[["price", "open", "size", "town", "count"]]
    np.testing.assert_allclose(d.predict(shuffled), score(frame), atol=1e-12)


def test_models_that_are_not_trees_are_called(rows):
    linear = LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])
    d = partial_dependence_anova(linear, rows)
    for j, slope in enumerate([1.0, 2.0, 3.0]):
        centred = slope * (rows[:, j] - rows[:, j].mean())
        np.testing.assert_allclose(d[j].on_rows(rows)[:, 0], centred, atol=1e-12)
    assert np.max(d[0, 1].variance) < 1e-24
    machine = SVR().fit(rows, product(rows))
    d = partial_dependence_anova(machine, rows, order=1, background_size=30)
    np.testing.assert_allclose(d.predict(rows), machine.predict(rows), atol=1e-12)


def test_chosen_interactions(rows):
    d = partial_dependence_anova(product, rows, interactions=[("x0", "x1")])
    assert set(d) == {(0,), (1,), (2,), (0, 1)}
    np.testing.assert_allclose(d.predict(rows), product(rows), atol=1e-12)
    with pytest.raises(InvalidInputError, match="'y'"):
        partial_dependence_anova(product, rows, interactions=[("x0", "y")])
    with pytest.raises(InvalidInputError, match="two or more"):
        partial_dependence_anova(product, rows, interactions=["x0"])


def test_chosen_interactions_inside_others(rows):
    d = partial_dependence_anova(product, rows, order=3, interactions=[(0, 1, 2), (1, 2)])
    assert set(d) == {(0,), (1,), (2,), (1, 2), (0, 1, 2)}
    truth = moebius_terms(product, rows[:8], rows, None)
    for subset in d:
        np.testing.assert_allclose(d[subset].on_rows(rows[:8]), truth[subset], atol=1e-12)
    np.testing.assert_allclose(d.predict(rows), product(rows), atol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: np.full(len(X), np.nan), "NaN or infinite"),
        (
            lambda X: np.where(X[:, 0] > X[:, 1] + 2, np.inf, 0.0),
            "combine features of different rows",
        ),
        (lambda X: np.zeros(3), "one value"),
        (lambda X: np.zeros((len(X), 2, 2)), "one value"),
        (lambda X: ["yes"] * len(X), "must return one number"),
        (lambda X: X[:, 0] - X[:, 0].mean() + np.arange(len(X)), "gives different values"),
    ],
)
def test_functions_that_return_nonsense(function, message):
    rows = np.random.default_rng(0).normal(size=(80, 2))
    rows[:, 0] = np.minimum(rows[:, 0], rows[:, 1] + 2)
    with pytest.raises(InvalidInputError, match=message):
        partial_dependence_anova(function, rows)


def test_a_function_with_noise_is_detected(rows):
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInputError, match="fix its seed"):
        partial_dependence_anova(lambda X: X[:, 0] + 0.1 * rng.normal(size=len(X)), rows)


def test_other_bad_input(rows):
    with pytest.raises(InvalidInputError, match="predict_proba"):
        partial_dependence_anova(LogisticRegression().fit(rows, rows[:, 0] > 0), rows)
    with pytest.raises(UnsupportedModelError):
        partial_dependence_anova(3.0, rows)
    with pytest.raises(InvalidInputError, match="columns"):
        partial_dependence_anova(product, rows, background=rows[:, :2])
    with pytest.raises(InvalidInputError, match="no rows"):
        partial_dependence_anova(product, rows, background=rows[:0])
    for wrong in (1, 2.5, "a"):
        with pytest.raises(
            InvalidInputError, match="background_size must be a whole number of at least 2"
        ):
            partial_dependence_anova(product, rows, background_size=wrong)
    for wrong in (-1, 0.5, "a"):
        with pytest.raises(InvalidInputError, match="seed must be a whole number of at least 0"):
            partial_dependence_anova(product, rows, seed=wrong)
    with pytest.raises(InvalidInputError, match="sample_weight must have one number per row"):
        partial_dependence_anova(product, rows, sample_weight=["one"] * 150)
    with pytest.raises(InvalidInputError, match=r"interactions=3: only purify accepts a number"):
        partial_dependence_anova(product, rows, interactions=3)
    with pytest.raises(MemoryBudgetError):
        partial_dependence_anova(product, rows, memory_budget=1000)
    weights = np.zeros(150)
    weights[0] = 1.0
    single = partial_dependence_anova(product, rows, background_size=2, sample_weight=weights)
    np.testing.assert_allclose(single.intercept, product(rows[:1]))
    one = partial_dependence_anova(product, rows[:1], order=None)
    np.testing.assert_allclose(one.predict(rows), product(rows), atol=1e-12)


@pytest.mark.parametrize("sparse_background", [False, True])
def test_sparse_rows_are_those_rows(rows, sparse_background):
    sparse = csr_array(rows)
    found = (
        partial_dependence_anova(product, rows, background=sparse)
        if sparse_background
        else partial_dependence_anova(product, sparse)
    )
    expected = partial_dependence_anova(product, rows)
    np.testing.assert_array_equal(found.predict(rows), expected.predict(rows))


@pytest.mark.parametrize("order", [1, 3])
def test_shares_of_the_variance_at_the_points_sum_to_one(rows, order):
    d = partial_dependence_anova(
        lambda X: X[:, 0] * X[:, 1] + X[:, 2] ** 2, rows, order=order, progress=False
    )
    table = d.importance()
    assert not table.drop(index=table.index[table["effect"] == "remainder"]).isna().any().any()
    assert table["share"].sum() == pytest.approx(1.0)
    assert (order == 1) == (d.remainder is not None and d.remainder.variance[0] > 1e-12)


def test_all_terms_together_average_each_subset_once():
    """Each term alone is made of its parts: of 7 features 3^7 averages instead of 2^7."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 7))
    batches = 0

    def f(rows):
        nonlocal batches
        batches += 1
        return np.sin(np.asarray(rows).sum(axis=1))

    d = partial_dependence_anova(f, X, order=None, progress=False)
    each = sum(component.on_rows(X[:2]) for component in d.components.values())
    batches = 0
    total = d.shapley_values(X[:2]).total()
    assert batches == 2**7 - 1
    np.testing.assert_allclose(total, d.intercept + each, atol=1e-12)
    np.testing.assert_allclose(total[:, 0], f(X[:2]), atol=1e-12)
