"""Means over slices against their definition on the whole table."""

import numpy as np
import pytest

from treepurify.purification.slices import SliceLayout, mass_slices, product_slices
from treepurify.purification.solution import conditional_means, move_out
from treepurify.weights.weighting import outer_product

SHAPES = [(3, 4), (2, 3, 4), (1, 5, 2), (2, 3, 2, 4)]


def by_definition(values, mass, layout, parts):
    rest = move_out(values, layout.split(parts))
    slice_mass = [mass.sum(axis=axis) for axis in range(mass.ndim)]
    means = [conditional_means(rest, mass, axis, own) for axis, own in enumerate(slice_mass)]
    return layout.join(means, values.shape[-1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_means_under_any_mass(shape, share):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(*shape, 2))
    mass = rng.random(shape) * (rng.random(shape) < share)
    mass.flat[0] += 0.1
    mass /= mass.sum()
    slices = mass_slices(values, mass)
    assert slices.weight.size == np.count_nonzero(mass)
    parts = rng.normal(size=(slices.layout.starts[-1], 2))
    expected = by_definition(values, mass, slices.layout, parts)
    np.testing.assert_allclose(slices.residual(parts), expected, atol=1e-14)
    spread = -by_definition(np.zeros_like(values), mass, slices.layout, parts)
    np.testing.assert_allclose(slices.image(parts), spread, atol=1e-14)
    sums = [mass.sum(axis=axis).ravel() for axis in range(len(shape))]
    np.testing.assert_allclose(slices.mass, np.concatenate(sums))


@pytest.mark.parametrize("shape", SHAPES)
def test_means_under_independent_features(shape):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(*shape, 3))
    margins = tuple(rng.dirichlet(np.ones(n)) for n in shape)
    slices = product_slices(values, margins)
    table = outer_product(margins)
    parts = rng.normal(size=(slices.layout.starts[-1], 3))
    expected = by_definition(values, table, slices.layout, parts)
    np.testing.assert_allclose(slices.residual(parts), expected, atol=1e-13)
    np.testing.assert_allclose(slices.mass, mass_slices(values, table).mass, atol=1e-15)
    np.testing.assert_allclose(slices.image(parts), mass_slices(values, table).image(parts))


def test_tables_and_rows_of_slices_turn_into_each_other():
    layout = SliceLayout((2, 3, 4))
    flat = np.arange(2.0 * layout.starts[-1]).reshape(-1, 2)
    tables = layout.split(flat)
    assert [table.shape for table in tables] == [(3, 4, 2), (2, 4, 2), (2, 3, 2)]
    np.testing.assert_array_equal(layout.join(list(tables), 2), flat)


@pytest.mark.parametrize("shape", SHAPES)
def test_slices_without_mass_can_be_left_out(shape):
    rng = np.random.default_rng(3)
    mass = rng.random(shape) * (rng.random(shape) < 0.2)
    mass.flat[0] += 0.1
    slices = mass_slices(rng.normal(size=(*shape, 2)), mass)
    filled = slices.mass > 0
    assert not filled.all()
    parts = np.where(filled[:, None], rng.normal(size=(len(filled), 2)), 0.0)
    rest = slices.filled_only()
    np.testing.assert_array_equal(rest.mass, slices.mass[filled])
    np.testing.assert_allclose(rest.residual(parts[filled]), slices.residual(parts)[filled])
    np.testing.assert_allclose(rest.image(parts[filled]), slices.image(parts)[filled])
