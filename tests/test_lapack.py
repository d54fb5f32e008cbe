"""LAPACK through its pointers, beside NumPy."""

import numpy as np

from treepurify._kernels.lapack import factor_in_place, subtract_gram, whiten
from treepurify.engines.tree.arrowhead import _routines


def test_factors_are_those_of_numpy():
    square = np.random.default_rng(0).normal(size=(30, 30))
    matrix = square @ square.T + np.eye(30)
    factor = np.triu(matrix)
    assert factor_in_place(_routines(), factor)
    np.testing.assert_allclose(np.triu(factor), np.linalg.cholesky(matrix).T, atol=1e-12)


def test_a_border_is_eliminated():
    rng = np.random.default_rng(2)
    square = rng.normal(size=(9, 9))
    factor = np.linalg.cholesky(square @ square.T + np.eye(9)).T
    # Rows of a longer array, as those of the blocks are.
    wide = np.zeros((9, 12))
    wide[:, :9] = factor
    rows, matrix = rng.normal(size=(9, 5)), rng.normal(size=(5, 5))
    whitened, reduced = rows.copy(), matrix.copy()
    whiten(_routines(), wide[:, :9], whitened)
    np.testing.assert_allclose(whitened, np.linalg.solve(factor.T, rows))
    subtract_gram(_routines(), whitened, reduced)
    np.testing.assert_allclose(np.triu(reduced), np.triu(matrix - whitened.T @ whitened))
    np.testing.assert_array_equal(np.tril(reduced, -1), np.tril(matrix, -1))


def test_what_is_not_positive_definite_is_told():
    assert not factor_in_place(_routines(), np.array([[1.0, 2.0], [0.0, 1.0]]))
