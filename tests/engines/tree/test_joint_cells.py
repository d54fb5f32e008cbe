"""Rows in the same cells are joined, whatever their number."""

import numpy as np
import pytest

from treepurify.engines.tree import joint_cells
from treepurify.engines.tree.joint_cells import join_cells, order_by_cells


@pytest.mark.parametrize("n_rows", [1, 511, 512, 513, 30_000])
@pytest.mark.parametrize("n_cells", [1, 2, 7, 250])
@pytest.mark.parametrize("way", ["table", "hash"])
def test_rows_are_joined_as_a_sort_joins_them(n_rows, n_cells, way, monkeypatch):
    for name in ("_CELLS_OF_A_ROW", "_FEW_CELLS", "_MOST_CELLS"):
        monkeypatch.setattr(joint_cells, name, 1 << 30 if way == "table" else 0)
    rng = np.random.default_rng(n_rows + n_cells)
    codes = rng.integers(n_cells, size=(5, n_rows)).astype(np.uint8)
    coarser = {4: np.arange(n_cells), 0: np.arange(n_cells) // 2, 2: np.arange(n_cells)[::-1]}
    weights = rng.exponential(size=n_rows)
    joined = join_cells(codes, coarser, weights)
    cells = np.stack([of[codes[j]] for j, of in coarser.items()], axis=1)
    _, first, position = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    assert joined.rows.tolist() == sorted(first.tolist())
    np.testing.assert_array_equal(joined.rows[joined.cell], first[position.reshape(-1)])
    np.testing.assert_allclose(joined.weights, np.bincount(joined.cell, weights), rtol=1e-12)


def test_keys_have_64_bits():
    rng = np.random.default_rng(0)
    codes = rng.integers(256, size=(9, 2000)).astype(np.uint8)
    # Rows that differ in the leading bits of their keys only.
    codes[:7] = 0
    cells = {j: np.arange(256) for j in range(8)}
    assert len(join_cells(codes, cells, np.ones(2000)).rows) == len(np.unique(codes[7]))
    assert join_cells(codes, cells | {8: np.arange(256)}, np.ones(2000)) is None


@pytest.mark.parametrize("n_features", [0, 1, 3, 40])
def test_rows_are_ordered_by_their_place_along_all_features(n_features):
    rng = np.random.default_rng(n_features)
    codes = rng.integers(20, size=(max(n_features, 1), 5000)).astype(np.uint8)
    order = order_by_cells(codes, np.arange(n_features))
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    if n_features == 3:
        steps = np.abs(np.diff(codes[:, order].astype(int), axis=1)).mean()
        assert steps < 0.5 * np.abs(np.diff(codes.astype(int), axis=1)).mean()
