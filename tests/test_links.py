"""Inverse links against their formulas."""

import numpy as np
import pytest

from treepurify.errors import InvalidInputError
from treepurify.links import Link

MARGIN = np.array([[-800.0, -2.0], [-0.5, 0.0], [0.0, 0.3], [1.5, 1.0], [30.0, 2.0]])


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("identity", lambda m: m),
        ("log", np.exp),
        ("log1p", lambda m: np.exp(m) - 1),
        ("sqrt", lambda m: m * np.abs(m)),
        ("cloglog", lambda m: 1 - np.exp(-np.exp(m))),
        ("softplus", lambda m: np.log(1 + np.exp(m))),
        ("step", lambda m: (m > 0).astype(float)),
        ("mean-variance", lambda m: np.stack([m[:, 0], np.exp(m[:, 1]) ** 2], axis=1)),
    ],
)
def test_inverse(name, formula):
    np.testing.assert_allclose(Link(name).inverse(MARGIN), formula(MARGIN), atol=1e-12)


def test_softplus_of_large_margins():
    np.testing.assert_array_equal(Link("softplus").inverse(np.array([1e4])), [1e4])


def test_an_unknown_link_has_no_response():
    with pytest.raises(InvalidInputError, match="the model's own library for its prediction"):
        Link("unknown").inverse(MARGIN)
    with pytest.raises(InvalidInputError, match="unknown link 'probit'; expected one of identity"):
        Link("probit")
