"""The closed form of categories under rows in batches is that under the same rows in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.engines.tree.streams import batches

QUIET = {"progress": False}


def rows():
    rng = np.random.default_rng(0)
    town = rng.choice(["Bonn", "Ulm", "Rome"], 700, p=[0.5, 0.3, 0.2])
    size = rng.integers(0, 4, 700) + 2 * (town == "Ulm")
    X = pd.DataFrame({"town": town, "size": size, "tax": rng.choice([0.5, 1.5, np.nan], 700)})
    X.loc[699, "town"] = "Oslo"  # only the last batch has it
    return X, rng.integers(0, 5, 700) / 4


def value(X):
    town, size, tax = (np.asarray(X[name]) for name in ("town", "size", "tax"))
    return (town == "Ulm") * size + np.nan_to_num(tax) ** 2


def assert_same(a, b):
    assert list(a) == list(b)
    largest = max(np.abs(component.values).max() for component in a.components.values())
    for subset, component in a.components.items():
        other = b.components[subset]
        # Levels come in the order of the labels, whichever row is first.
        assert [axis.labels() for axis in component.axes] == [axis.labels() for axis in other.axes]
        np.testing.assert_allclose(component.values, other.values, rtol=0, atol=1e-12 * largest)
        np.testing.assert_allclose(component.mass, other.mass, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            a.covariances[subset], b.covariances[subset], rtol=0, atol=1e-12 * largest**2
        )


@pytest.mark.parametrize("selection", ["auto", "greedy", "least-norm", "lars"])
@pytest.mark.parametrize("size", [40, 300])
@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_functions_of_labels(selection, size):
    X, weight = rows()
    options = {"selection": selection, "order": 2, **QUIET}
    whole = tp.categorical_anova(value, X, **options)
    streamed = tp.categorical_anova(value, batches(X, size), **options)
    assert_same(whole, streamed)
    assert streamed.origin.n_rows == 700
    assert streamed.diagnostics["stream"]["distinct_rows"] == len(X.drop_duplicates())
    whole = tp.categorical_anova(value, X, sample_weight=weight, **options)
    weighted = batches(X.assign(weight=weight), size)
    assert_same(whole, tp.categorical_anova(value, weighted, sample_weight="weight", **options))


def test_trees_and_arrays():
    X, _ = rows()
    numbers = np.column_stack([X["size"], np.nan_to_num(X["tax"])])
    model = DecisionTreeRegressor(max_depth=3).fit(numbers, value(X))
    whole = tp.categorical_anova(model, numbers, **QUIET)
    assert_same(whole, tp.categorical_anova(model, batches(numbers, 90), **QUIET))
    named = pd.DataFrame(numbers, columns=["size", "tax"])
    model.fit(named, value(X))
    streamed = tp.categorical_anova(model, batches(named.assign(other=1.0), 90), **QUIET)
    assert_same(whole, streamed)


@pytest.mark.libraries
def test_dask_frames():
    dd = pytest.importorskip("dask.dataframe")
    X, _ = rows()
    frame = dd.from_pandas(X, npartitions=4)
    streamed = tp.categorical_anova(value, frame, order=2, **QUIET)
    assert_same(tp.categorical_anova(value, X, order=2, **QUIET), streamed)


def test_too_many_distinct_rows_are_refused_while_they_are_read():
    def endless():
        for number in range(10_000):
            yield pd.DataFrame({"a": np.arange(1000) + 1000 * number})

    with pytest.raises(tp.errors.MemoryBudgetError, match="distinct rows"):
        tp.categorical_anova(lambda X: X["a"], endless, memory_budget=1 << 20, **QUIET)


def test_what_cannot_be_read_is_refused():
    X, _ = rows()
    with pytest.raises(tp.errors.InvalidInputError, match="pass the function itself"):
        tp.categorical_anova(value(X), batches(X, 50), **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="no column 'heavy'"):
        tp.categorical_anova(value, batches(X, 50), sample_weight="heavy", **QUIET)
    nothing = batches(X.assign(weight=0.0), 50)
    with pytest.raises(tp.errors.InvalidInputError, match="no rows of positive weight"):
        tp.categorical_anova(value, nothing, sample_weight="weight", **QUIET)


def test_an_iterator_of_arrays_is_read_once():
    X = np.random.default_rng(0).integers(0, 3, (60, 3))

    def f(X):
        return X[:, 0] * X[:, 1]

    d = tp.categorical_anova(f, iter([X[:40], X[40:]]), **QUIET)
    assert_same(d, tp.categorical_anova(f, X, **QUIET))


def test_batches_under_the_uniform_measure():
    X, weight = rows()
    options = {"weights": "uniform", "order": 2, **QUIET}
    whole = tp.categorical_anova(value, X, **options)
    assert_same(whole, tp.categorical_anova(value, batches(X, 90), **options))
    weighted = batches(X.assign(weight=weight), 90)
    with pytest.raises(tp.errors.InvalidInputError, match="would be ignored"):
        tp.categorical_anova(value, weighted, sample_weight="weight", **options)
