"""Differences on the union grid, summed up to values."""

from types import SimpleNamespace

import numpy as np
import pytest

from treepurify.engines.tree.product_sums import UnionSums, number_sets, sets_of_numbers


@pytest.mark.parametrize("sizes", [(7,), (5, 6), (130, 90, 4), (40, 1, 31, 53)])
def test_values_are_sums_of_differences_along_all_axes_of_cells(sizes):
    axes = [SimpleNamespace(n_cells=size) for size in sizes]
    shape = lambda subset: tuple(sizes[j] for j in subset)
    grid = SimpleNamespace(axes=axes, n_features=len(sizes), shape=shape)
    features = np.array([[0, -1, -1], [len(sizes) - 1, -1, -1], [0, 1, -1], [0, 2, 3], [1, 2, 3]])
    kept = features[(features < len(sizes)).all(axis=1)]
    sets = np.unique(number_sets(grid, kept))
    sums = UnionSums.zeros(grid, sets, sets_of_numbers(grid, sets), 2)
    values = sums.tables.values
    values[:] = np.random.default_rng(0).normal(size=len(values))
    expected = np.split(values.copy(), sums.tables.offsets[1:-1])
    tables = sums.integrate()
    assert list(tables) == sums.subsets
    for (subset, table), differences in zip(tables.items(), expected, strict=True):
        assert table.shape == (*shape(subset), 2)
        values = differences.reshape(table.shape)
        for axis in range(len(subset)):
            values = np.cumsum(values, axis=axis)
        np.testing.assert_allclose(table, values, rtol=1e-13, atol=1e-12)
