"""The engine with the paper's settings finds what the paper's own pipeline finds."""

import numpy as np
import pandas as pd
import pytest

from tests.cases import data_path
from tests.reference.legendre_pipeline import legendre_pipeline
from treepurify.engines.legendre import TermSelection, legendre_anova

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

AS_PIPELINE = TermSelection(column_scale="density", max_steps=500)


def dependent_rows(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    correlation = np.full((n_features, n_features), 0.4) + 0.6 * np.eye(n_features)
    return rng.multivariate_normal(np.zeros(n_features), correlation, n_rows)


def function(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(9).normal(size=len(X))
    return np.exp(X[:, 0] / 2) + X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * noise


def engine(values: np.ndarray, X: np.ndarray, **options: object):
    return legendre_anova(
        values,
        X,
        density="legendre",
        scaling="tanh",
        selection=AS_PIPELINE,
        orthogonal=False,
        progress=False,
        **options,
    )


def component_values(d, X: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    columns = d.inputs.columns(X)
    return {subset: part.on_rows(columns)[:, 0] for subset, part in d.components.items()}


@pytest.mark.parametrize(
    "settings",
    [
        {"order": 2, "degree": 5, "density_degree": 4, "density_clip": 0.01},
        {"order": 2, "degree": 4, "density_degree": 6, "density_clip": 0.1},
        {"order": 1, "degree": 10, "density_degree": 4, "density_clip": 0.01},
        {"order": 3, "degree": 3, "density_degree": 2, "density_clip": 0.01},
    ],
)
@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_same_components_as_the_pipeline(settings):
    X = dependent_rows(3000, 4, seed=0)
    values = function(X)
    expected = legendre_pipeline(values, X, **settings)
    d = engine(values, X, **settings)
    own = component_values(d, X)
    assert set(own) == set(expected.components)
    assert d.diagnostics["fit"]["f"]["terms"] == len(expected.selected)
    for subset, component in expected.components.items():
        np.testing.assert_allclose(own[subset], component, atol=1e-8 * values.std(), rtol=1e-8)
    assert d.intercept[0] == pytest.approx(expected.intercept, abs=1e-10)
    fit = d.diagnostics["fit"]["f"]
    assert fit["r_squared"] == pytest.approx(expected.r_squared, abs=1e-10)
    assert fit["max_correlation"] == pytest.approx(expected.max_correlation, abs=1e-9)


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_the_path_ends_where_that_of_scikit_learn_ends():
    X = dependent_rows(3000, 4, seed=1)
    values = function(X)
    settings = {"order": 2, "degree": 5}
    expected = legendre_pipeline(values, X, max_iter=7, **settings)
    short = TermSelection(column_scale="density", max_steps=7)
    d = legendre_anova(
        values,
        X,
        density="legendre",
        scaling="tanh",
        selection=short,
        orthogonal=False,
        progress=False,
        **settings,
    )
    fit = d.diagnostics["fit"]["f"]
    assert fit["terms"] == len(expected.selected)
    assert fit["stopped_at_limit"]
    assert fit["r_squared"] == pytest.approx(expected.r_squared, abs=1e-10)


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_polynomials_that_are_not_normalised_select_other_columns():
    X = dependent_rows(3000, 4, seed=2)
    values = function(X)
    settings = {"order": 2, "degree": 8, "max_iter": 20}
    normalised = legendre_pipeline(values, X, **settings)
    plain = legendre_pipeline(values, X, normalised=False, **settings)
    assert {degrees for _, degrees in plain.selected} != {d for _, d in normalised.selected}
    mean_degree = [
        np.mean([sum(degrees) for _, degrees in fit.selected]) for fit in (plain, normalised)
    ]
    assert mean_degree[0] < mean_degree[1]


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_polynomials_that_are_not_normalised_select_as_scipys_do():
    X = dependent_rows(3000, 4, seed=2)
    values = function(X)
    expected = legendre_pipeline(values, X, order=2, degree=6, normalised=False)
    d = legendre_anova(
        values,
        X,
        order=2,
        degree=6,
        density="legendre",
        scaling="tanh",
        selection=TermSelection(column_scale="polynomial", max_steps=500),
        orthogonal=False,
        progress=False,
    )
    own = component_values(d, X)
    assert set(own) == set(expected.components)
    for subset, component in expected.components.items():
        np.testing.assert_allclose(own[subset], component, atol=1e-8 * values.std())


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_the_projection_keeps_the_sum_and_makes_components_orthogonal():
    X = dependent_rows(3000, 4, seed=3)
    values = function(X)
    expected = legendre_pipeline(values, X, degree=5)
    d = legendre_anova(
        values,
        X,
        degree=5,
        density="legendre",
        scaling="tanh",
        selection=AS_PIPELINE,
        progress=False,
    )
    own = component_values(d, X)
    total = expected.intercept + sum(expected.components.values())
    np.testing.assert_allclose(d.intercept[0] + sum(own.values()), total, atol=1e-8 * values.std())
    assert expected.max_correlation > 1e-3
    for subset, component in own.items():
        for j in subset if len(subset) == 2 else ():
            cosine = component @ own[j,] / np.linalg.norm(component) / np.linalg.norm(own[j,])
            assert abs(cosine) < 1e-8


@pytest.mark.filterwarnings("ignore::treepurify.errors.SupportWarning")
def test_california_housing_as_the_pipeline():
    table = pd.read_parquet(data_path("california_housing"))[::4]
    X = table.drop(columns="MedHouseVal").to_numpy()
    values = table["MedHouseVal"].to_numpy()
    settings = {"order": 2, "degree": 6}
    d = engine(values, X, **settings)
    expected = legendre_pipeline(values, X, **settings)
    own = component_values(d, X)
    assert set(own) == set(expected.components)
    for subset, component in expected.components.items():
        np.testing.assert_allclose(own[subset], component, atol=1e-6 * values.std())
