"""What a certificate may call exact, and how errors reach components."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import treepurify as tp
from tests.reference.masses import blocks
from tests.reference.rational import purify


def linked_blocks(link: float) -> np.ndarray:
    """Two blocks of a pair that one cell of little mass holds together."""
    mass = blocks([(2, 3), (3, 2)])
    mass[0, 4] = link
    return mass


@pytest.fixture(scope="module")
def certificate():
    return tp.purify_tensors({(0, 1): [[0.0, 1.0], [2.0, 5.0]]}, progress=False).certificate


@pytest.mark.parametrize(
    "change",
    [
        {"solver_error": 2e-8},
        {"solver_error": np.nan},
        {"conditional_mean": np.nan},
        {"additivity": np.nan},
        {"additivity": np.inf},
    ],
)
def test_no_error_and_no_missing_number_passes_as_exact(certificate, change):
    assert certificate.is_exact
    assert not replace(certificate, **change).is_exact


def test_the_error_of_every_component_is_reported():
    d = tp.purify_tensors({(0, 1, 2): np.arange(8.0).reshape(2, 2, 2)}, progress=False)
    errors = {tuple(own["features"]): own["error"] for own in d.diagnostics["errors"]}
    assert set(errors) == {(), *d.components}
    assert d.certificate.solver_error == max(errors.values()) / d.certificate.scale
    assert 0 < d.certificate.solver_error < 1e-12
    assert "Numerical error of any effect, where there is data: about" in str(d.certificate)


@pytest.mark.parametrize("link", [2.0**-10, 2.0**-30, 2.0**-44, 2.0**-60])
def test_a_weak_link_is_right_or_said_not_to_be(link):
    mass = linked_blocks(link)
    values = np.random.default_rng(0).normal(size=(*mass.shape, 1))
    d = tp.purify_tensors({(0, 1): values[..., 0]}, mass, progress=False)
    truth = purify({(0, 1): values}, mass, np.zeros(1))
    wrong = max(
        abs(Fraction(float(d[subset].values[cell][0])) - entry[0])
        for subset in d.components
        for cell, entry in truth[subset].items()
    )
    assert wrong <= d.certificate.solver_error * d.certificate.scale
    assert d.certificate.is_exact == (link > 1e-8)
    if d.certificate.is_exact:
        assert wrong <= 1e-14


def test_a_link_below_rounding_is_called_undetermined_and_not_exact():
    mass = linked_blocks(2.0**-60)
    d = tp.purify_tensors({(0, 1): np.eye(5)}, mass, progress=False)
    assert d.certificate.unidentified == 1
    assert d.certificate.solver_error > 0.1
    assert not d.certificate.is_exact
    # What a pair moves wrongly is wrong in its main effects.
    assert min(own["error"] for own in d.diagnostics["errors"]) > 0.1
