"""How much of a function its components explain, against sums over all rows."""

import numpy as np
import pytest

from treepurify.engines.common.explained import measure_explained, measure_explained_by_tables
from treepurify.grids.grid import EncodedRows


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 50, 1003])
def test_tables_explain_what_their_values_on_the_rows_explain(n_rows, n_outputs):
    rng = np.random.default_rng(0)
    sizes = (4, 300, 5, 2)
    codes = np.stack([rng.integers(0, size, n_rows) for size in sizes]).astype(np.uint16)
    subsets = [(1,), (0, 1), (2, 3), (0, 2, 3)]
    tables = {s: rng.normal(size=(*(sizes[j] for j in s), n_outputs)) for s in subsets}
    tables[0, 1] = np.asfortranarray(tables[0, 1])
    values, shares = rng.normal(size=(n_rows, n_outputs)), rng.dirichlet(np.ones(n_rows))
    given = values.copy()
    intercept = rng.normal(size=n_outputs)
    parts = [(s, table[tuple(codes[j] for j in s)]) for s, table in tables.items()]
    rows = dict.fromkeys((1, 2, 3), EncodedRows(codes, shares))
    wanted = measure_explained(values, rows[1].shares, intercept, parts)
    found = measure_explained_by_tables(values, intercept, tables, rows)
    assert list(found.covariances) == list(wanted.covariances)
    for subset, covariance in wanted.covariances.items():
        np.testing.assert_allclose(found.covariances[subset], covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.rest_variance, wanted.rest_variance, rtol=1e-12)
    np.testing.assert_allclose(found.share, wanted.share, rtol=1e-12)
    np.testing.assert_array_equal(values, given)


def test_the_number_of_threads_does_not_change_what_is_explained(monkeypatch):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 9, (2, 1000)).astype(np.uint8)
    tables = {(0,): rng.normal(size=(9, 1)), (0, 1): rng.normal(size=(9, 9, 1))}
    values, rows = rng.normal(size=(1000, 1)), dict.fromkeys((1, 2), EncodedRows(codes))
    found = []
    for n_threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", n_threads)
        found.append(measure_explained_by_tables(values, np.zeros(1), tables, rows))
    assert found[0].covariances == found[1].covariances
    assert found[0].share == found[1].share
