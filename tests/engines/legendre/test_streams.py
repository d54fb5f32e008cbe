"""The continuous closed form over rows in batches is least squares over all of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.engines.tree.streams import batches
from treepurify.engines.legendre import anova
from treepurify.engines.legendre.design import scaled_rows
from treepurify.engines.legendre.least_squares import least_squares
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.orthogonal_split import split_orthogonally

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def smooth_model():
    """A model of dependent features, one of them with levels that few rows have."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "c"])
    X["b"] += X["a"] / 2
    X["d"] = rng.integers(0, 3, len(X)).astype(float)
    X.loc[7, "d"] = 5.0
    y = X["a"] * X["b"] + np.sin(X["c"]) + X["d"]
    model = GradientBoostingRegressor(n_estimators=60, max_depth=3, random_state=0).fit(X, y)
    return model, X


def in_memory(fit, X, model, weights):
    """The split of the same columns, fitted in memory."""
    parsed = tp.parse_model(model)
    columns = parsed.columns(X)
    rows = scaled_rows(fit.basis.axes, columns, weights / weights.sum())
    values = parsed.margin(columns, precision="float64")
    moments = measure_moments(fit.basis, rows, values)
    selected = [choice.columns for choice in fit.selected]
    coefficients = least_squares(fit.basis, rows, values, moments, selected)
    return moments, split_orthogonally(fit.basis, moments, coefficients.values)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_all_rows(smooth_model, weighted, monkeypatch):
    monkeypatch.setattr("treepurify.engines.legendre.anova.SAMPLED_ROWS", 700)
    model, X = smooth_model
    weight = np.ones(len(X))
    if weighted:
        weight = np.random.default_rng(1).integers(0, 3, len(X)) / 4
        weight[7] = 0.5
    fits = []
    assemble = anova.assemble
    monkeypatch.setattr(
        anova,
        "assemble",
        lambda problem, fit, *others: fits.append(fit) or assemble(problem, fit, *others),
    )
    options = {"degree": 4, "sample_weight": "w" if weighted else None, **QUIET}
    rows = X.assign(w=weight)
    d = tp.legendre_anova(model, batches(rows, 333), **options)
    again = tp.legendre_anova(model, batches(rows, 3000), **options)
    moments, split = in_memory(fits[0], X, model, weight)
    scale = np.abs(model.predict(X)).max()
    np.testing.assert_allclose(d.intercept, moments.value_means, atol=1e-12 * scale)
    assert split.keys() == d.components.keys() == again.components.keys()
    share = weight / weight.sum()
    for subset, component in d.components.items():
        for part, coefficients in split[subset].items():
            own = fits[0].split[subset][part]
            np.testing.assert_allclose(own, coefficients, rtol=0, atol=1e-12 * scale)
        values = component.on_rows(X)
        np.testing.assert_allclose(again[subset].on_rows(X), values, atol=1e-12 * scale)
        np.testing.assert_allclose(share @ values, 0, atol=1e-12 * scale)
        np.testing.assert_allclose(component.variance, share @ values**2, rtol=1e-9)
        for j in subset if len(subset) > 1 else ():
            inside = d.components[j,].on_rows(X) if (j,) in d.components else 0.0 * values
            np.testing.assert_allclose(share @ (values * inside), 0, atol=1e-11 * scale**2)
    assert 5.0 in d.components[3,].axes[3].levels
    rest = (model.predict(X) - share @ model.predict(X))[:, None] - sum(
        component.on_rows(X) for component in d.components.values()
    )
    np.testing.assert_allclose(d.remainder.variance, share @ rest**2, rtol=1e-8)
    expected = 1 - d.remainder.variance / (share @ (model.predict(X) - d.intercept) ** 2)
    np.testing.assert_allclose(d.certificate.fitted_share, expected, rtol=1e-9)
    assert f"a sample of 700 of {np.count_nonzero(weight)} rows" in d.certificate.note
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-10)


def test_few_rows_are_those_in_memory(smooth_model):
    model, X = smooth_model
    whole = tp.legendre_anova(model, X, degree=3, **QUIET)
    streamed_rows = tp.legendre_anova(model, batches(X, 500), degree=3, **QUIET)
    assert list(whole) == list(streamed_rows)
    for subset, component in whole.components.items():
        found = streamed_rows.components[subset].on_rows(X)
        np.testing.assert_allclose(found, component.on_rows(X), atol=1e-12)


@pytest.mark.libraries
def test_partitions_of_dask_and_files_are_saved(smooth_model, tmp_path, monkeypatch):
    frames = pytest.importorskip("dask.dataframe")
    monkeypatch.setattr("treepurify.engines.legendre.anova.SAMPLED_ROWS", 900)
    model, X = smooth_model
    d = tp.legendre_anova(model, frames.from_pandas(X, npartitions=3), degree=3, **QUIET)
    assert d.diagnostics["stream"]["sampled_rows"] == 900
    d.save(tmp_path / "d.tpz")
    np.testing.assert_array_equal(tp.load(tmp_path / "d.tpz").predict(X), d.predict(X))


def test_missing_values_that_only_later_rows_have_are_refused(smooth_model, monkeypatch):
    monkeypatch.setattr("treepurify.engines.legendre.anova.SAMPLED_ROWS", 100)
    model, X = smooth_model
    table = X.copy()
    table.loc[2999, "a"] = np.nan
    parsed = tp.parse_model(model)
    with pytest.raises(tp.errors.InvalidInputError, match="'a' has 1 missing or infinite"):
        tp.legendre_anova(parsed, batches(table, 600), degree=2, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match=r"several passes.*can be read only once"):
        tp.legendre_anova(parsed, iter([X]), **QUIET)


def test_columns_that_no_selected_one_needs_are_candidates_too(smooth_model, monkeypatch):
    _, X = smooth_model
    additive = GradientBoostingRegressor(n_estimators=60, max_depth=1, random_state=0)
    model = additive.fit(X, X["a"] * X["b"] + np.sin(X["c"]) + X["d"])
    whole = tp.legendre_anova(model, X, degree=4, **QUIET)
    monkeypatch.setattr("treepurify.engines.legendre.anova.SAMPLED_ROWS", 700)
    d = tp.legendre_anova(model, batches(X, 500), degree=4, **QUIET)
    expected = whole.diagnostics["fit"]["margin"]["candidates"]
    assert d.diagnostics["fit"]["margin"]["candidates"] == expected
    assert d.diagnostics["stream"]["sampled_rows"] == 700


def test_rows_of_no_weight_change_nothing(smooth_model):
    model, X = smooth_model
    weight = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    weight[7] = 1.0
    options = {"degree": 3, **QUIET}
    d = tp.legendre_anova(model, X, sample_weight=weight, **options)
    kept = weight > 0
    fewer = tp.legendre_anova(model, X[kept], sample_weight=weight[kept], **options)
    assert d.origin.n_rows == fewer.origin.n_rows == kept.sum()
    assert d.measure == fewer.measure
    assert d.certificate.conditional_mean == fewer.certificate.conditional_mean
    assert list(d) == list(fewer)
    for subset, component in d.components.items():
        np.testing.assert_allclose(fewer[subset].on_rows(X), component.on_rows(X), atol=1e-12)
    streamed = tp.legendre_anova(
        model, batches(X.assign(w=weight), 500), sample_weight="w", **options
    )
    assert streamed.measure == d.measure
    values = model.predict(X)
    alone = tp.legendre_anova(values, X, sample_weight=weight, **options)
    np.testing.assert_allclose(alone.predict(X), values, atol=1e-10)
