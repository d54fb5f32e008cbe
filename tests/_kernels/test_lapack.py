"""LAPACK through its pointers, beside NumPy."""

import numpy as np
import pytest

from treepurify._kernels.lapack import (
    factor_by_pivots,
    factor_in_place,
    substitute,
    subtract_gram,
    subtract_product,
    whiten,
)
from treepurify.engines.tree.arrowhead import routines_of

PRECISIONS = [(np.float32, 1e-4), (np.float64, 1e-12)]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_factors_are_those_of_numpy(dtype, tolerance):
    square = np.random.default_rng(0).normal(size=(30, 30))
    matrix = square @ square.T + np.eye(30)
    factor = np.triu(matrix).astype(dtype)
    assert factor_in_place(routines_of(dtype), factor)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_a_border_is_eliminated(dtype, tolerance):
    rng = np.random.default_rng(2)
    square = rng.normal(size=(9, 9))
    factor = np.linalg.cholesky(square @ square.T + np.eye(9)).T
    # Rows of a longer array, as those of the blocks are.
    wide = np.zeros((9, 12), dtype)
    wide[:, :9] = factor
    rows, matrix = rng.normal(size=(9, 5)), rng.normal(size=(5, 5))
    whitened, reduced = rows.astype(dtype), matrix.astype(dtype)
    routines = routines_of(dtype)
    below = np.tril(reduced, -1)
    whiten(routines, wide[:, :9], whitened)
    np.testing.assert_allclose(whitened, np.linalg.solve(factor.T, rows), atol=tolerance)
    subtract_gram(routines, whitened, reduced)
    expected = np.triu(matrix - whitened.T @ whitened)
    np.testing.assert_allclose(np.triu(reduced), expected, atol=tolerance)
    np.testing.assert_array_equal(np.tril(reduced, -1), below)


def test_what_is_not_positive_definite_is_told():
    assert not factor_in_place(routines_of(np.float64), np.array([[1.0, 2.0], [0.0, 1.0]]))


@pytest.mark.parametrize("rank", [1, 17, 30])
def test_rows_are_factored_by_the_size_of_their_pivots(rank):
    half = np.random.default_rng(1).normal(size=(30, rank))
    matrix = half @ half.T
    # Only the upper triangle is read, inside a longer array.
    wide = np.full((30, 33), np.nan)
    wide[np.triu_indices(30)] = matrix[np.triu_indices(30)]
    order = np.empty(30, dtype=np.int32)
    least = 1e-10 * matrix.diagonal().max()
    assert factor_by_pivots(routines_of(np.float64), wide[:, :30], least, order) == rank
    taken = order[:rank] - 1
    factor = np.triu(wide[:rank, :rank])
    np.testing.assert_allclose(factor.T @ factor, matrix[np.ix_(taken, taken)], atol=1e-12)
    np.testing.assert_array_equal(np.sort(order), np.arange(1, 31))
    assert taken[0] == np.argmax(matrix.diagonal())
    assert np.all(np.diff(factor.diagonal()) <= 0)


@pytest.mark.parametrize("is_upper", [False, True])
def test_sides_are_solved_and_products_subtracted_inside_longer_arrays(is_upper):
    rng = np.random.default_rng(3)
    routines = routines_of(np.float64)
    wide = rng.normal(size=(9, 12))
    factor = np.triu(wide[:, :9]) + 9 * np.eye(9)
    wide[:, :9] = factor + np.tril(wide[:, :9], -1)
    long = rng.normal(size=(4, 15))
    sides, others = long[:, 2:11].copy(), long[:, 11:].copy()
    substitute(routines, wide[:, :9], np.bool_(is_upper), long[:, 2:11])
    expected = np.linalg.solve(factor if is_upper else factor.T, sides.T).T
    np.testing.assert_allclose(long[:, 2:11], expected, atol=1e-13)
    np.testing.assert_array_equal(long[:, 11:], others)
    shape = (9, 6) if is_upper else (6, 9)
    matrix, to = rng.normal(size=shape), rng.normal(size=(4, 8))
    reduced = to.copy()
    subtract_product(routines, matrix, np.bool_(is_upper), sides, reduced[:, 1:7])
    to[:, 1:7] -= sides @ (matrix if is_upper else matrix.T)
    np.testing.assert_allclose(reduced, to, atol=1e-12)
