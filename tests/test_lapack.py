"""LAPACK through its pointers, beside NumPy."""

import numpy as np
import pytest

from treepurify._kernels.lapack import factor_in_place, subtract_gram, whiten
from treepurify.engines.tree.arrowhead import _routines

PRECISIONS = [(np.float32, 1e-4), (np.float64, 1e-12)]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_factors_are_those_of_numpy(dtype, tolerance):
    square = np.random.default_rng(0).normal(size=(30, 30))
    matrix = square @ square.T + np.eye(30)
    factor = np.triu(matrix).astype(dtype)
    assert factor_in_place(_routines(dtype is np.float32), factor)
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
    routines = _routines(dtype is np.float32)
    below = np.tril(reduced, -1)
    whiten(routines, wide[:, :9], whitened)
    np.testing.assert_allclose(whitened, np.linalg.solve(factor.T, rows), atol=tolerance)
    subtract_gram(routines, whitened, reduced)
    expected = np.triu(matrix - whitened.T @ whitened)
    np.testing.assert_allclose(np.triu(reduced), expected, atol=tolerance)
    np.testing.assert_array_equal(np.tril(reduced, -1), below)


def test_what_is_not_positive_definite_is_told():
    assert not factor_in_place(_routines(False), np.array([[1.0, 2.0], [0.0, 1.0]]))
