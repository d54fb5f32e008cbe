"""Differences along all axes, summed up to values."""

import numpy as np
import pytest

from treepurify.effects.accumulate import difference_tables


@pytest.mark.parametrize("sizes", [(7,), (5, 6), (130, 90, 4), (40, 1, 31, 53)])
def test_values_are_sums_of_differences_along_all_axes_of_cells(sizes):
    subsets = [(0,), (len(sizes) - 1,), (0, 1), (0, 2, 3), (1, 2, 3)]
    kept = [subset for subset in subsets if max(subset) < len(sizes)]
    tables = difference_tables([tuple(sizes[j] for j in subset) for subset in kept], 2)
    values = tables.values
    values[:] = np.random.default_rng(0).normal(size=len(values))
    expected = np.split(values.copy(), tables.offsets[1:-1])
    for subset, table, differences in zip(kept, tables.summed(), expected, strict=True):
        assert table.shape == (*(sizes[j] for j in subset), 2)
        values = differences.reshape(table.shape)
        for axis in range(len(subset)):
            values = np.cumsum(values, axis=axis)
        np.testing.assert_allclose(table, values, rtol=1e-13, atol=1e-12)
