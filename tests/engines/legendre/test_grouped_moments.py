"""Inner products that are summed value by value equal those of the columns themselves."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest

from tests.engines.legendre.test_moments import N_ROWS, question
from treepurify.engines.legendre import moments
from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import (
    constant_densities,
    grid_density,
    series_densities,
)
from treepurify.engines.legendre.design import LegendreBasis, scaled_rows
from treepurify.engines.legendre.moments import grouped_moments
from treepurify.rows.columns import Columns, FeatureSpec


def basis_of(axes, rows, degree, order, density):
    subsets = [s for size in range(1, order + 1) for s in combinations(axes, size)]
    given = axes, rows.coordinates, rows.weights
    if density == "none":
        return LegendreBasis(axes, constant_densities(axes, subsets), degree)
    if density == "kernel":
        return LegendreBasis(axes, {s: grid_density(*given, s, 0.05) for s in subsets}, degree)
    return LegendreBasis(axes, series_densities(*given, subsets, 3, 0.05), degree)


def dense(basis, rows, values):
    """The columns as they are defined, and their covariances."""
    columns = []
    for subset, density in basis.densities.items():
        product = np.ones((len(rows.weights), 1))
        for j in subset:
            functions = basis.axes[j].functions(rows.coordinates[j], basis.degree)
            product = np.einsum("na,nb->nab", product, functions).reshape(len(product), -1)
        raw = np.maximum(density.raw(basis.axes, rows.coordinates), density.floor)
        columns.append(product / raw[:, None])
    design = np.hstack(columns)
    centred = design - rows.weights @ design
    with_values = centred.T @ (rows.weights[:, None] * (values - rows.weights @ values))
    return rows.weights @ design, (rows.weights[:, None] * centred).T @ centred, with_values


def check(found, basis, rows, values, tolerance=1e-13):
    means, gram, with_values = dense(basis, rows, values)
    deviation = np.sqrt(np.diag(gram))
    np.testing.assert_allclose(found.means / deviation, means / deviation, atol=tolerance)
    scaled = found.gram / deviation / deviation[:, None]
    np.testing.assert_allclose(scaled, gram / deviation / deviation[:, None], atol=tolerance)
    with_found = found.covariances / deviation[:, None]
    np.testing.assert_allclose(with_found, with_values / deviation[:, None], atol=10 * tolerance)
    np.testing.assert_array_equal(found.gram, found.gram.T)
    np.testing.assert_allclose(found.value_means, rows.weights @ values)


@pytest.mark.parametrize("features", [[3], [0], [3, 1], [2, 3, 0], [0, 1, 2, 3]])
@pytest.mark.parametrize(
    ("order", "density", "numbers"),
    [
        (2, "legendre", "tanh"),
        (2, "kernel", "minmax"),
        (3, "legendre", "tanh"),
        (3, "none", "score"),
    ],
)
def test_moments_value_by_value(features, order, density, numbers):
    """Also of features whose values all differ, where that saves nothing, and of missing values."""
    axes, rows, values = question(4, numbers)
    basis = basis_of(axes, rows, 3, order, density)
    found = grouped_moments(basis, rows, values, features)
    check(found, basis, rows, values)


def test_few_rows_and_few_values_at_a_time_give_the_same(monkeypatch):
    axes, rows, values = question(4, "tanh")
    basis = basis_of(axes, rows, 3, 2, "legendre")
    monkeypatch.setattr("treepurify.engines.legendre.design._LEAST_ROWS", 64)
    monkeypatch.setattr("treepurify.engines.legendre.design._BLOCK_BYTES", 1)
    monkeypatch.setattr(moments, "_MOST_GROUPS", 3)
    check(grouped_moments(basis, rows, values, [0, 3]), basis, rows, values)


def pressed_rows():
    """Numbers of few values, one of which an outlier presses together."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, size=(N_ROWS, 3)).astype(float)
    X[:, 1:] += rng.uniform(size=(N_ROWS, 2))
    X[0, 0] = 1e5
    columns = Columns(tuple(FeatureSpec(f"x{j}") for j in range(3)), tuple(X.T), N_ROWS)
    weights = np.full(N_ROWS, 1.0 / N_ROWS)
    axes, _ = fit_axes(columns, weights, "minmax", "rank")
    return axes, scaled_rows(axes, columns, weights), X[:, :1] * X[:, 1:2]


def test_features_of_few_values_are_grouped_where_that_is_cheaper(monkeypatch):
    axes, rows, _ = pressed_rows()
    basis = basis_of(axes, rows, 8, 3, "none")
    assert moments.features_to_group(basis, rows) == []
    monkeypatch.setattr(moments, "_LEAST_COST", 0.0)
    assert moments.features_to_group(basis, rows) == [0]


def test_what_cancels_is_centred_first(monkeypatch):
    axes, rows, values = pressed_rows()
    basis = basis_of(axes, rows, 2, 3, "none")
    monkeypatch.setattr(moments, "features_to_group", lambda *_: [1, 0])
    assert grouped_moments(basis, rows, values, [1, 0]) is None
    found = moments.measure_moments(basis, rows, values)
    # The dense covariances of pressed columns have few digits themselves.
    check(found, basis, rows, values, 1e-10)


def test_many_levels_take_little_memory_beside_the_result(monkeypatch):
    """Products of two functions of a level are as many as inner products of its columns."""
    n_levels = 300
    n_rows = 3 * n_levels
    X = np.arange(n_rows) % n_levels
    columns = Columns((FeatureSpec("x0"),), (X.astype(float),), n_rows)
    weights = np.full(n_rows, 1.0 / n_rows)
    axes, _ = fit_axes(columns, weights, "levels", "rank")
    rows, values = scaled_rows(axes, columns, weights), np.sin(X)[:, None]
    basis = basis_of(axes, rows, 1, 1, "none")
    monkeypatch.setattr(moments, "_LEAST_COST", 0.0)
    assert moments.features_to_group(basis, rows) == []
    monkeypatch.setattr(moments, "_BATCH_BYTES", 8 * n_levels**2)
    tracemalloc.start()
    try:
        found = grouped_moments(basis, rows, values, [0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check(found, basis, rows, values)
    assert peak < 10 * 8 * n_levels**2
