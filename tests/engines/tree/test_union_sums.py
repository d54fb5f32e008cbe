"""Differences on the union grid, summed up to values."""

from types import SimpleNamespace

import numpy as np
import pytest

from treepurify.engines.tree.union_sums import integrate


@pytest.mark.parametrize("shape", [(7,), (5, 6), (130, 90), (40, 31, 53), (3, 90, 70)])
@pytest.mark.parametrize("categorical", [None, 0, 1])
def test_values_are_sums_of_differences_along_numeric_axes(shape, categorical):
    axes = [SimpleNamespace(is_categorical=j == categorical) for j in range(len(shape))]
    total = np.random.default_rng(0).normal(size=(*shape, 2))
    expected = total.copy()
    for axis in range(len(shape)):
        if axis != categorical:
            expected = np.cumsum(expected, axis=axis)
    integrate(total, tuple(range(len(shape))), SimpleNamespace(axes=axes))
    np.testing.assert_array_equal(total, expected)
