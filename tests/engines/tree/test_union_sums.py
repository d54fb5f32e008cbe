"""Differences on the union grid, summed up to values."""

import numpy as np
import pytest

from treepurify.engines.tree.union_sums import integrate


@pytest.mark.parametrize("shape", [(7,), (5, 6), (130, 90), (40, 31, 53), (3, 90, 70)])
def test_values_are_sums_of_differences_along_all_axes_of_cells(shape):
    total = np.random.default_rng(0).normal(size=(*shape, 2))
    expected = total.copy()
    for axis in range(len(shape)):
        expected = np.cumsum(expected, axis=axis)
    integrate(total)
    np.testing.assert_array_equal(total, expected)
