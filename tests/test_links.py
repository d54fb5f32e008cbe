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
        ("ordered", lambda m: m[:, :1] + np.outer(np.log(1 + np.exp(m[:, 1])) + 1e-6, [0, 1])),
    ],
)
def test_inverse(name, formula):
    np.testing.assert_allclose(Link(name).inverse(MARGIN), formula(MARGIN), atol=1e-12)


def test_softplus_of_large_margins():
    np.testing.assert_array_equal(Link("softplus").inverse(np.array([1e4])), [1e4])


def test_ordered_outputs_add_up():
    margin = np.array([[3.0, -900.0, 0.0, 1e4]])
    expected = [[3.0, 3.0 + 1e-6, 3.0 + 2e-6 + np.log(2), 1e4 + 3.0 + 3e-6 + np.log(2)]]
    np.testing.assert_allclose(Link("ordered").inverse(margin), expected, rtol=1e-15)


def test_an_unknown_link_has_no_response():
    with pytest.raises(InvalidInputError, match="predict with the model's own library"):
        Link("unknown").inverse(MARGIN)
    with pytest.raises(InvalidInputError, match="unknown link 'probit'; expected one of identity"):
        Link("probit")


def test_calibrations_bend_a_score():
    margin = MARGIN[1:]
    score = 1 / (1 + np.exp(-margin))
    sigmoid = Link("sigmoid", -2.0, shift=0.3, before=Link("logit"))
    np.testing.assert_allclose(
        sigmoid.inverse(margin), 1 / (1 + np.exp(2 * score - 0.3)), rtol=1e-12
    )
    curve = Link("isotonic", knots=(0.0, 0.5, 1.0), values=(0.1, 0.1, 0.9))
    np.testing.assert_allclose(
        curve.inverse(np.array([-3.0, 0.2, 0.75, 1.0, 9.0])), [0.1, 0.1, 0.5, 0.9, 0.9], rtol=1e-15
    )


@pytest.mark.parametrize(
    ("knots", "values"),
    [
        ((), ()),
        ((0.0, 1.0), (0.5,)),
        ((1.0, 1.0), (0.0, 1.0)),
        ((0.0, 1.0), (1.0, 0.0)),
        ((0.0, np.nan), (0.0, 1.0)),
        ((0.0, 1.0), (0.0, np.inf)),
    ],
)
def test_an_isotonic_link_needs_a_rising_curve(knots, values):
    with pytest.raises(InvalidInputError, match="as many finite values as knots"):
        Link("isotonic", knots=knots, values=values)
