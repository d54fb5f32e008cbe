"""LAPACK through its pointers, beside NumPy."""

import numpy as np

from treepurify.lapack import factor_in_place, solve_factored


def test_factors_and_solutions_are_those_of_numpy():
    square = np.random.default_rng(0).normal(size=(30, 30))
    matrix = square @ square.T + np.eye(30)
    factor = np.triu(matrix)
    assert factor_in_place(factor)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, atol=1e-12)
    sides = np.random.default_rng(1).normal(size=(30, 3))
    kept = sides.copy()
    np.testing.assert_allclose(solve_factored(factor, sides), np.linalg.solve(matrix, sides))
    np.testing.assert_array_equal(sides, kept)


def test_what_is_not_positive_definite_is_told():
    assert not factor_in_place(np.array([[1.0, 2.0], [0.0, 1.0]]))
