"""Products of matrices through the pointer of BLAS, beside NumPy."""

import numpy as np

from treepurify._kernels.gram import gram_routine, subtract_gram


def test_products_are_subtracted_from_an_upper_triangle():
    rng = np.random.default_rng(2)
    rows, matrix = rng.normal(size=(9, 5)), rng.normal(size=(5, 5))
    reduced = matrix.copy()
    subtract_gram(gram_routine(), rows, reduced)
    expected = np.triu(matrix - rows.T @ rows) + np.tril(matrix, -1)
    np.testing.assert_allclose(reduced, expected, atol=1e-12)


def test_rows_may_be_parts_of_longer_ones():
    rng = np.random.default_rng(3)
    wide, long = rng.normal(size=(9, 12)), rng.normal(size=(5, 11))
    rows, matrix, behind = wide[:, :5].copy(), long[:, :5].copy(), long[:, 5:].copy()
    subtract_gram(gram_routine(), wide[:, :5], long[:, :5])
    expected = np.triu(matrix - rows.T @ rows) + np.tril(matrix, -1)
    np.testing.assert_allclose(long[:, :5], expected, atol=1e-12)
    np.testing.assert_array_equal(long[:, 5:], behind)
