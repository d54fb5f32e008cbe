"""Inner products from few sums over rows equal those of the columns themselves."""

from functools import partial
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.cases import data_path
from treepurify.engines.legendre import (
    moments,
    product_gram,
    product_plan,
    product_sums,
    streamed_moments,
)
from treepurify.engines.legendre.axis_fitting import fit_axes
from treepurify.engines.legendre.densities import constant_densities, series_densities
from treepurify.engines.legendre.design import Basis, scaled_rows
from treepurify.engines.legendre.linearisation import functions_and_extras, product_coefficients
from treepurify.engines.legendre.moments import measure_moments
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.source_reader import RowBatch

pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

N_ROWS = 900


@pytest.fixture
def always(monkeypatch):
    """Take few sums wherever that is possible, however little is saved."""
    monkeypatch.setattr(product_plan, "_LEAST_COST", 0.0)
    monkeypatch.setattr(product_plan, "_BLOCK_COST", 0.0)
    monkeypatch.setattr(product_plan, "_SLOWER", 0.0)


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
    return Basis(axes, constant_densities(axes, [s for s in every if keep(s)]), degree)


@pytest.mark.parametrize("numbers", ["rank", "score", "tanh", "minmax"])
@pytest.mark.parametrize(("n_features", "degree"), [(2, 4), (3, 1), (3, 5), (4, 3), (6, 2), (6, 4)])
def test_moments_of_all_pairs(n_features, degree, numbers, always):
    axes, rows, values = question(n_features, numbers)
    basis = basis_of(axes, degree)
    plan = product_plan.product_plan(basis, N_ROWS, 2)
    assert (plan is None) == (n_features == 2)
    assert plan is None or moments._by_products(plan, rows, values) is not None
    check(basis, rows, values)


@pytest.mark.parametrize("seed", range(6))
def test_moments_of_some_pairs_with_or_without_main_effects(seed, always):
    """Pairs that are no columns help where two that are share a feature; main effects may lack."""
    axes, rows, values = question(6, ["rank", "score"][seed % 2], seed)
    rng = np.random.default_rng(seed)
    share = [0.2, 0.5, 0.8][seed % 3]
    basis = basis_of(axes, 3, lambda s: rng.uniform() < (0.7 if len(s) == 1 else share))
    assert product_plan.product_plan(basis, N_ROWS, 2) is not None
    check(basis, rows, values)


def test_few_rows_at_a_time_give_the_same(always, monkeypatch):
    axes, rows, values = question(5)
    basis = basis_of(axes, 3)
    monkeypatch.setattr("treepurify.engines.legendre.design._LEAST_ROWS", 64)
    monkeypatch.setattr("treepurify.engines.legendre.design._BLOCK_BYTES", 1)
    check(basis, rows, values)


def test_products_are_sums_of_few_functions():
    axes, rows, _ = question(4, "score")
    for j, axis in axes.items():
        for degree in (1, 2, 3, 7):
            functions, extras = functions_and_extras(axis, rows.coordinates[j], degree)
            expected = axis.functions(rows.coordinates[j], degree)
            np.testing.assert_allclose(functions, expected, atol=1e-14)
            table = np.column_stack([np.ones(N_ROWS), functions, extras])
            found = np.einsum("acm,nm->nac", product_coefficients(axis, degree), table)
            products = functions[:, :, None] * functions[:, None]
            np.testing.assert_allclose(found, products, atol=1e-13 * np.abs(products).max())


def test_what_cancels_is_centred_first(always):
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
        plan = product_plan.product_plan(basis, N_ROWS, 2)
        assert moments._by_products(plan, rows, X[:, :2]) is None
        check(basis, rows, X[:, :2], 1e-12)
        constant = basis.slices[2, 3]
        assert measure_moments(basis, rows, X[:, :2]).gram[constant, constant].max() < 1e-28


def test_densities_and_triples_are_summed_as_they_are(always):
    axes, rows, values = question(4, "tanh")
    assert product_plan.product_plan(basis_of(axes, 2, order=3), N_ROWS, 2) is None
    subsets = [s for size in (1, 2) for s in combinations(axes, size)]
    made = series_densities(axes, rows.coordinates, rows.weights, subsets, 0, 0.0)
    assert product_plan.product_plan(Basis(axes, made, 2), N_ROWS, 2) is None
    check(basis_of(axes, 2, order=3), rows, values)


def test_all_ways_are_taken_where_they_are_cheaper():
    axes = dict(enumerate(question(2)[0].values()))
    one = axes[0]
    many = basis_of(dict.fromkeys(range(8), one), 10)
    assert product_plan.product_plan(many, 20_000, 1) is not None
    few = basis_of(dict.fromkeys(range(40), one), 10, lambda s: len(s) == 1 or s[0] == s[1] - 20)
    assert product_plan.product_plan(few, 20_000, 1) is None
    assert product_plan.product_plan(basis_of({0: one, 1: one, 2: one}, 3), 20_000, 1) is None


class Polynomial(SimpleNamespace):
    """A function with an output that `Centre` can evaluate."""

    n_outputs = 1

    def __call__(self, columns):
        x = columns.values
        return (x[0] * x[1] + np.sin(x[2]))[:, None]


@pytest.mark.parametrize("is_pressed", [False, True])
def test_sums_of_a_stream_are_those_of_all_rows(is_pressed, always):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N_ROWS, 4)) + 0.7 * rng.normal(size=(N_ROWS, 1))
    if is_pressed:
        X[0] = 300.0
    specs = tuple(FeatureSpec(f"x{j}") for j in range(4))
    columns = Columns(specs, tuple(X.T), N_ROWS)
    weights = rng.uniform(size=N_ROWS)
    weights[3:6] = 0.0
    share = weights / weights.sum()
    axes, _ = fit_axes(columns, share, "minmax" if is_pressed else "rank", "rank")
    rows, f = scaled_rows(axes, columns, share), Polynomial()
    basis = basis_of(axes, 3)
    expected = moments._of_columns(basis, rows, f(columns))
    centre = streamed_moments.Centre(basis, f, expected.means + 0.01, expected.value_means + 0.1)
    passes = []

    def reduce(statistic, what, report):
        passes.append(type(statistic).__name__)
        states = []
        for start in range(0, N_ROWS, 250):
            stop = start + 250
            part = RowBatch(columns.part(start, stop), weights[start:stop], 0, start, "rows", {})
            states.append(statistic.add(statistic.zero(), part))
        total = states[0]
        for state in states[1:]:
            total = statistic.merge(total, state)
        return total

    stream = SimpleNamespace(reduce=reduce)
    found, sums = streamed_moments.stream_moments(stream, centre, lambda *_: None)
    assert passes == ["_PlannedMoments", "_ColumnMoments"][: 1 + is_pressed]
    assert sums.n_rows == N_ROWS - 3
    assert sums.weight == pytest.approx(weights.sum())
    deviation = np.sqrt(np.diag(expected.gram))
    for name, scale in (
        ("gram", np.outer(deviation, deviation)),
        ("means", deviation),
        ("covariances", deviation[:, None]),
        ("value_means", 1.0),
        ("value_squares", 1.0),
    ):
        both = getattr(found, name) / scale, getattr(expected, name) / scale
        np.testing.assert_allclose(*both, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("options", [{}, {"scaling": "tanh"}, {"scaling": "rank"}])
def test_the_same_columns_of_real_data_are_chosen(options, monkeypatch, always):
    table = pd.read_parquet(data_path("california_housing")).iloc[::6]
    X = table.iloc[:, :-1].astype(float)
    values = np.log1p(X.iloc[:, 0] * X.iloc[:, 2]) + np.sin(X.iloc[:, 6]) * X.iloc[:, 7] / 100
    fit = partial(tp.legendre_anova, values.to_numpy(), X, degree=6, progress=False, **options)
    d = fit()
    monkeypatch.setattr(moments, "product_plan", lambda *_: None)
    plain = fit()
    facts, expected = d.diagnostics["fit"]["f"], plain.diagnostics["fit"]["f"]
    assert (facts["terms"], facts["steps"]) == (expected["terms"], expected["steps"])
    assert list(d) == list(plain)
    scale = float(np.ptp(values))
    for subset, component in plain.components.items():
        found = d.components[subset]
        for own, other in zip(found.terms, component.terms, strict=True):
            np.testing.assert_array_equal(own.coefficients != 0, other.coefficients != 0)
        np.testing.assert_allclose(found.on_rows(X), component.on_rows(X), atol=1e-10 * scale)


def test_memory_that_is_not_set_is_not_computed_with(always, monkeypatch):
    """What was left there may be numbers that raise a warning about invalid values."""
    axes, rows, values = question(5)
    basis = basis_of(axes, 3)
    plan = product_plan.product_plan(basis, N_ROWS, 2)
    sums = product_sums.no_rows(plan)
    product_sums.add_rows(plan, sums, [(rows.coordinates, rows.weights, values)])
    # Any arithmetic with a signalling NaN is an invalid operation.
    signalling = np.array(0x7FF0000000000001, dtype=np.uint64)

    def used_before(shape):
        return np.full(shape, signalling).view(np.float64)

    monkeypatch.setattr(np, "empty", used_before)
    assert product_gram.central_moments(plan, sums) is not None
