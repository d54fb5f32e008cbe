"""Quantiles of rows in batches are exact, however few distinct values may be kept."""

import numpy as np
import pytest

import treepurify as tp
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import row_quantiles
from treepurify.rows.source_reader import source_reader
from treepurify.rows.sources import as_source
from treepurify.rows.value_order import order_values

LEVELS = np.linspace(0, 1, 21)


def silent(what, done, total):
    del what, done, total


def columns_of(rng, n_rows):
    """Values of many sizes and signs, with ties, zeros of both signs, and gaps."""
    wild = rng.normal(size=n_rows) * 10.0 ** rng.integers(-300, 300, n_rows)
    return np.column_stack(
        [
            rng.normal(size=n_rows),
            np.where(rng.random(n_rows) < 0.1, np.nan, wild),
            rng.integers(-3, 3, n_rows) * rng.choice([-0.0, 1.0], n_rows),
            np.where(rng.random(n_rows) < 0.05, np.inf, 1 + 1e-13 * rng.normal(size=n_rows)),
            np.full(n_rows, 7.0),
        ]
    )


def stream_of(table, size, weight=None):
    features = [FeatureSpec(f"x{j}") for j in range(5)]
    source = as_source(lambda: (table[i : i + size] for i in range(0, len(table), size)))
    return RowStream(
        source, source_reader(source, features, range(5), match_names=True, weight=weight)
    )


@pytest.mark.parametrize("budget", [1 << 30, 12_000_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_order_statistics_are_exact(budget, weighted):
    import pandas as pd

    rng = np.random.default_rng(0)
    values = columns_of(rng, 20_000)
    weights = rng.integers(0, 4, len(values)).astype(float) if weighted else None
    table = pd.DataFrame(values, columns=[f"x{j}" for j in range(5)])
    if weighted:
        table["w"] = weights
    for size in (777, 20_000):
        order = order_values(
            stream_of(table, size, "w" if weighted else None), range(5), budget, silent
        )
        assert (order.distinct(0) is None) == (budget < 1 << 30)
        found = order.at({j: order.total(j) * LEVELS for j in range(5)}, silent)
        for j in range(5):
            kept = np.isfinite(values[:, j])
            if weighted:
                kept &= weights > 0
            own = None if weights is None else weights[kept]
            expected = row_quantiles(values[kept, j], own, LEVELS)
            np.testing.assert_array_equal(found[j], expected)
            assert order.total(j) == (kept.sum() if own is None else own.sum())
    distinct, mass = order.distinct(2)
    np.testing.assert_array_equal(distinct, np.unique(values[:, 2]))
    assert mass.sum() == order.total(2)


def test_too_small_a_budget_is_refused():
    with pytest.raises(tp.errors.MemoryBudgetError, match="the sorted values of 5 features"):
        order_values(stream_of(np.zeros((3, 5)), 2), range(5), 10_000, silent)


@pytest.mark.libraries
def test_states_of_partitions_merge():
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    values = columns_of(np.random.default_rng(1), 8000)
    table = pd.DataFrame(values, columns=[f"x{j}" for j in range(5)])
    source = as_source(frames.from_pandas(table, npartitions=5))
    features = [FeatureSpec(name) for name in table]
    stream = RowStream(source, source_reader(source, features, range(5), match_names=True))
    order = order_values(stream, range(5), 11_000_000, silent)
    assert order.distinct(0) is None
    found = order.at({0: order.total(0) * LEVELS}, silent)
    np.testing.assert_array_equal(found[0], row_quantiles(values[:, 0], None, LEVELS))
