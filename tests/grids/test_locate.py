"""Cells of numeric columns against NumPy, wherever the columns stand in memory."""

import numpy as np
import pytest

from treepurify.grids import grid as grid_module
from treepurify.grids.grid import EncodedRows, encode_rows, make_grid
from treepurify.rows.columns import Columns, FeatureSpec

# Around the tile of 512 rows.
N_ROWS = [1, 2, 511, 512, 513, 16_384, 16_901]
# Around a group of cuts, and the number from which on they are searched.
N_CUTS = [0, 1, 4, 5, 48, 49, 100]


def rows(n_rows: int) -> np.ndarray:
    """Values on cuts, missing ones and infinite ones among them; two columns are sorted."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, len(N_CUTS)))
    X[rng.random(X.shape) < 0.3] = 0.0
    X[:, ::2][rng.random(X[:, ::2].shape) < 0.05] = np.nan
    X[rng.random(X.shape) < 0.02] = np.inf
    X[rng.random(X.shape) < 0.02] = -np.inf
    X[:, 1], X[:, 3] = np.sort(X[:, 1]), -np.sort(X[:, 3])
    return X


def cuts() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(np.unique([0.0, *rng.normal(size=size)])[:size] for size in N_CUTS)


def layouts(X: np.ndarray):
    """Yield the columns of X from tables of every kind."""
    wide = np.zeros((len(X), 2 * X.shape[1] + 3))
    wide[:, 1:-2:2] = X
    order = [3, 0, 5, 1, 6, 2, 4]
    mixed = np.ascontiguousarray(X[:, order])
    yield "by rows", [X[:, j] for j in range(X.shape[1])]
    yield "by columns", list(np.asfortranarray(X).T)
    yield "apart", [column.copy() for column in X.T]
    yield "every second", [wide[:, 2 * j + 1] for j in range(X.shape[1])]
    yield "in another order", [mixed[:, order.index(j)] for j in range(X.shape[1])]
    yield "backwards", list(X[::-1].copy()[::-1].T)
    yield "two tables", [(X if j % 2 else mixed[:, np.argsort(order)])[:, j] for j in range(7)]


def encoded(columns: list[np.ndarray], **options) -> tuple[EncodedRows, tuple]:
    features = tuple(FeatureSpec(f"x{j}") for j in range(len(columns)))
    table = Columns(features, tuple(columns), len(columns[0]))
    grid, found = make_grid(table, features, cuts(), match_names=True, **options)
    return found, grid.axes


@pytest.mark.parametrize("kernel_from", [0, grid_module._FEW_VALUES])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_rows", N_ROWS)
def test_cells_bounds_and_missing_values(monkeypatch, n_rows, dtype, kernel_from):
    monkeypatch.setattr(grid_module, "_FEW_VALUES", kernel_from)
    X = rows(n_rows).astype(dtype)
    for name, columns in layouts(X):
        found, axes = encoded([column.astype(dtype, copy=False) for column in columns])
        for j, (own, axis) in enumerate(zip(cuts(), axes, strict=True)):
            x = X[:, j].astype(np.float64)
            is_missing = np.isnan(x)
            expected = np.searchsorted(own, x, side="right")
            expected[is_missing] = len(own) + 1
            np.testing.assert_array_equal(found.codes[j], expected, err_msg=name)
            assert axis.has_missing == is_missing.any()
            finite = x[np.isfinite(x)]
            assert axis.bounds == ((finite.min(), finite.max()) if len(finite) else None)


@pytest.mark.parametrize("kernel_from", [0, grid_module._FEW_VALUES])
def test_columns_that_are_not_used_are_not_looked_at(monkeypatch, kernel_from):
    monkeypatch.setattr(grid_module, "_FEW_VALUES", kernel_from)
    X = rows(600)
    columns = [X[:, j] for j in range(X.shape[1])]
    every, _ = encoded(columns)
    found, axes = encoded(columns, used=(1, 4))
    for j, axis in enumerate(axes):
        if j in (1, 4):
            np.testing.assert_array_equal(found.codes[j], every.codes[j])
        else:
            assert not found.codes[j].any()
            assert axis.bounds is None
            assert not axis.has_missing


def test_no_rows():
    found, axes = encoded([np.zeros(0)] * len(N_CUTS))
    assert found.codes.shape == (len(N_CUTS), 0)
    assert all(axis.bounds is None for axis in axes)
    assert encode_rows(Columns((), (), 3), ())[0].codes.shape == (0, 3)
