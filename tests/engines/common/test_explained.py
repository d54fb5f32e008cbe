"""How much of a function its components explain, against sums over all rows."""

import numpy as np
import pytest

from treepurify.engines.common.explained import measure_explained


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [2, 50, 1003])
def test_shares_and_covariances_are_sums_over_all_rows(n_rows, n_outputs):
    rng = np.random.default_rng(0)
    values, shares = rng.normal(size=(n_rows, n_outputs)), rng.dirichlet(np.ones(n_rows))
    given = values.copy()
    intercept = rng.normal(size=n_outputs)
    parts = {subset: rng.normal(size=values.shape) for subset in [(1,), (0, 1), (0, 2, 3)]}
    found = measure_explained(values, shares, intercept, parts.items())
    rest = values - intercept - sum(parts.values())
    assert list(found.covariances) == [*parts, ()]
    centred = values - shares @ values
    for subset, part in {**parts, (): rest}.items():
        expected = shares @ (centred * part)
        np.testing.assert_allclose(found.covariances[subset], expected, rtol=1e-11, atol=1e-13)
    variance = shares @ rest**2 - (shares @ rest) ** 2
    np.testing.assert_allclose(found.rest_variance, variance, rtol=1e-11)
    left = shares @ rest**2 / (shares @ centred**2)
    np.testing.assert_allclose(found.share, 1.0 - left, rtol=1e-11)
    np.testing.assert_allclose(found.rest, rest, atol=1e-12)
    np.testing.assert_array_equal(values, given)
