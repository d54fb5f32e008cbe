"""LAPACK through its pointers, beside NumPy."""

import numpy as np
import pytest

from treepurify._kernels.lapack import (
    factor_by_pivots,
    factor_in_place,
    substitute,
    subtract_gram,
)
from treepurify.engines.tree.least_norm import lapack_routines


def test_factors_are_those_of_numpy():
    square = np.random.default_rng(0).normal(size=(30, 30))
    matrix = square @ square.T + np.eye(30)
    factor = np.triu(matrix)
    assert factor_in_place(lapack_routines(), factor)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, atol=1e-12)


def test_products_are_subtracted_from_an_upper_triangle():
    rng = np.random.default_rng(2)
    rows, matrix = rng.normal(size=(9, 5)), rng.normal(size=(5, 5))
    reduced = matrix.copy()
    subtract_gram(lapack_routines(), rows, reduced)
    expected = np.triu(matrix - rows.T @ rows) + np.tril(matrix, -1)
    np.testing.assert_allclose(reduced, expected, atol=1e-12)


def test_what_is_not_positive_definite_is_told():
    assert not factor_in_place(lapack_routines(), np.array([[1.0, 2.0], [0.0, 1.0]]))


@pytest.mark.parametrize("rank", [1, 17, 30])
def test_rows_are_factored_by_the_size_of_their_pivots(rank):
    half = np.random.default_rng(1).normal(size=(30, rank))
    matrix = half @ half.T
    # Only the upper triangle is read, inside a longer array.
    wide = np.full((30, 33), np.nan)
    wide[np.triu_indices(30)] = matrix[np.triu_indices(30)]
    order = np.empty(30, dtype=np.int32)
    least = 1e-10 * matrix.diagonal().max()
    assert factor_by_pivots(lapack_routines(), wide[:, :30], least, order) == rank
    taken = order[:rank] - 1
    factor = np.triu(wide[:rank, :rank])
    np.testing.assert_allclose(factor.T @ factor, matrix[np.ix_(taken, taken)], atol=1e-12)
    np.testing.assert_array_equal(np.sort(order), np.arange(1, 31))
    assert taken[0] == np.argmax(matrix.diagonal())
    assert np.all(np.diff(factor.diagonal()) <= 0)


@pytest.mark.parametrize("is_upper", [False, True])
def test_sides_are_solved_inside_longer_arrays(is_upper):
    rng = np.random.default_rng(3)
    wide = rng.normal(size=(9, 12))
    factor = np.triu(wide[:, :9]) + 9 * np.eye(9)
    wide[:, :9] = factor + np.tril(wide[:, :9], -1)
    long = rng.normal(size=(4, 15))
    sides, others = long[:, 2:11].copy(), long[:, 11:].copy()
    substitute(lapack_routines(), wide[:, :9], np.bool_(is_upper), long[:, 2:11])
    expected = np.linalg.solve(factor if is_upper else factor.T, sides.T).T
    np.testing.assert_allclose(long[:, 2:11], expected, atol=1e-13)
    np.testing.assert_array_equal(long[:, 11:], others)
