"""Rows are ordered by the joint cells that they are in."""

import numpy as np
import pytest

from treepurify.engines.tree.projection import order_by_cells


@pytest.mark.parametrize("n_features", [0, 1, 3, 40])
def test_rows_are_ordered_by_their_place_along_all_features(n_features):
    rng = np.random.default_rng(n_features)
    codes = rng.integers(20, size=(max(n_features, 1), 5000)).astype(np.uint8)
    order = order_by_cells(codes, np.arange(n_features))
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    if n_features == 3:
        steps = np.abs(np.diff(codes[:, order].astype(int), axis=1)).mean()
        assert steps < 0.5 * np.abs(np.diff(codes.astype(int), axis=1)).mean()
