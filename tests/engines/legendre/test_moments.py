"""Inner products that are summed over rows equal those of the columns as they are defined."""

from itertools import combinations

import numpy as np
import pytest

from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import constant_densities
from treepurify.engines.legendre.design import LegendreBasis, scaled_rows
from treepurify.engines.legendre.moments import measure_moments
from treepurify.rows.columns import Columns, FeatureSpec

pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

N_ROWS = 900


def question(n_features, numbers="rank", seed=0):
    """Dependent features, the third one with gaps and the fourth with levels; weights, values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, n_features)) + 0.7 * rng.normal(size=(N_ROWS, 1))
    if n_features > 3:
        X[:, 3] = np.clip(np.round(X[:, 3]), -2, 2)
    if n_features > 2 and numbers in ("rank", "score"):
        X[::9, 2] = np.nan
    columns = Columns(tuple(FeatureSpec(f"x{j}") for j in range(n_features)), tuple(X.T), N_ROWS)
    weights = rng.dirichlet(np.ones(N_ROWS))
    weights[5:9] = 0.0
    weights /= weights.sum()
    scaling = {f"x{j}": numbers for j in range(n_features) if j != 3}
    axes, _ = fit_axes(columns, weights, scaling, "rank", with_gaps=True)
    values = rng.normal(size=(N_ROWS, 2)) + 3.0 + X[:, [0]]
    return axes, scaled_rows(axes, columns, weights), values


def dense(basis, rows, values):
    """The columns as they are defined, and their covariances."""
    columns = []
    for subset in basis.densities:
        product = np.ones((N_ROWS, 1))
        for j in subset:
            functions = basis.axes[j].functions(rows.coordinates[j], basis.degree)
            product = np.einsum("na,nb->nab", product, functions).reshape(N_ROWS, -1)
        columns.append(product)
    design = np.hstack(columns)
    centred = design - rows.weights @ design
    with_values = centred.T @ (rows.weights[:, None] * (values - rows.weights @ values))
    return rows.weights @ design, (rows.weights[:, None] * centred).T @ centred, with_values


def check(basis, rows, values, tolerance=1e-13):
    found = measure_moments(basis, rows, values)
    means, gram, with_values = dense(basis, rows, values)
    deviation = np.sqrt(np.diag(gram))
    scale = np.where(deviation > 1e-12, deviation, 1.0)
    np.testing.assert_allclose(found.means / scale, means / scale, atol=tolerance)
    np.testing.assert_allclose(
        found.gram / scale / scale[:, None], gram / scale / scale[:, None], atol=tolerance
    )
    np.testing.assert_allclose(
        found.covariances / scale[:, None], with_values / scale[:, None], atol=10 * tolerance
    )
    np.testing.assert_array_equal(found.gram, found.gram.T)


def basis_of(axes, degree, keep=lambda subset: True, order=2):
    every = (s for size in range(1, order + 1) for s in combinations(axes, size))
    return LegendreBasis(axes, constant_densities(axes, [s for s in every if keep(s)]), degree)


@pytest.mark.parametrize("numbers", ["rank", "score", "tanh", "minmax"])
@pytest.mark.parametrize(("n_features", "degree"), [(2, 4), (3, 1), (3, 5), (4, 3), (6, 2), (6, 4)])
def test_moments_of_all_pairs(n_features, degree, numbers):
    axes, rows, values = question(n_features, numbers)
    check(basis_of(axes, degree), rows, values)


@pytest.mark.parametrize("seed", range(6))
def test_moments_of_some_pairs_with_or_without_main_effects(seed):
    axes, rows, values = question(6, ["rank", "score"][seed % 2], seed)
    rng = np.random.default_rng(seed)
    share = [0.2, 0.5, 0.8][seed % 3]
    basis = basis_of(axes, 3, lambda s: rng.uniform() < (0.7 if len(s) == 1 else share))
    check(basis, rows, values)


def test_few_rows_at_a_time_give_the_same(monkeypatch):
    axes, rows, values = question(5)
    basis = basis_of(axes, 3)
    monkeypatch.setattr("treepurify.engines.legendre.design._LEAST_ROWS", 64)
    monkeypatch.setattr("treepurify.engines.legendre.design._BLOCK_BYTES", 1)
    check(basis, rows, values)


def test_what_cancels_is_centred_first():
    """Outliers press values together, and products of duplicates are constant."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ROWS, 4))
    X[0] = 300.0
    X[:, 2] = X[:, 3] = rng.integers(0, 2, N_ROWS)
    columns = Columns(tuple(FeatureSpec(f"x{j}") for j in range(4)), tuple(X.T), N_ROWS)
    weights = np.full(N_ROWS, 1.0 / N_ROWS)
    for scaling in ("minmax", "rank"):
        named = {"x0": scaling, "x1": scaling, "x2": "levels", "x3": "levels"}
        axes, _ = fit_axes(columns, weights, named, "rank", with_gaps=True)
        rows = scaled_rows(axes, columns, weights)
        basis = basis_of(axes, 4)
        check(basis, rows, X[:, :2], 1e-12)
        constant = basis.slices[2, 3]
        assert measure_moments(basis, rows, X[:, :2]).gram[constant, constant].max() < 1e-28


def test_moments_of_triples():
    axes, rows, values = question(4, "tanh")
    check(basis_of(axes, 2, order=3), rows, values)
