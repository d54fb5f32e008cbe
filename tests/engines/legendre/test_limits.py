"""Rows, functions and options at the edge of what a continuous decomposition can hold."""

import re

import numpy as np
import pytest

import treepurify as tp
from treepurify.engines.legendre.design import count_columns
from treepurify.engines.legendre.scaling import LevelAxis

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

QUIET = {"progress": False}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(300, 3))


def test_too_few_rows_names_what_fits(X):
    y = X[:, 0] * X[:, 1] + X[:, 2]
    with pytest.raises(tp.errors.InvalidInputError, match="more rows than columns") as caught:
        tp.legendre_anova(y, X, degree=12, order=3, **QUIET)
    found = re.findall(r"order=(\d), degree=(\d+)", str(caught.value))
    assert found == [("3", "5"), ("2", "9"), ("1", "12")]
    for order, degree in ((3, 5), (2, 9)):
        d = tp.legendre_anova(y, X, degree=degree, order=order, **QUIET)
        assert max(len(subset) for subset in d) <= order
        with pytest.raises(tp.errors.InvalidInputError, match="more rows than columns"):
            tp.legendre_anova(y, X, degree=degree + 1, order=order, **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="Even main effects of degree 1"):
        tp.legendre_anova(y[:3], X[:3], degree=2, scaling="rank", **QUIET)


@pytest.mark.parametrize(("n_rows", "n_features"), [(400, 10), (400, 30), (60, 20), (12, 5)])
def test_few_rows_lower_the_default_degree(n_rows, n_features):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=n_rows)
    d = tp.legendre_anova(y, X, scaling="rank", **QUIET)
    degree, n_columns = d.diagnostics["degree"], d.diagnostics["fit"]["f"]["candidates"]
    assert f"at most {degree} instead of 10" in d.certificate.note
    n_kept = n_columns - d.diagnostics["fit"]["f"]["screened_out"]
    assert n_kept <= n_rows / 2
    # A degree more would have too many columns, or too many of main effects alone.
    n_more = (degree + 1) * n_features
    if degree > 1:
        n_more += n_features * (n_features - 1) // 2 * (degree + 1) ** 2
    assert n_more > n_rows / 2
    if n_rows == 400:
        assert (2,) in d
        assert (0, 1) in d


def test_enough_rows_have_the_usual_degree(X):
    d = tp.legendre_anova(X[:, 0], X[:, :2], **QUIET)
    assert d.diagnostics["degree"] == 10
    assert "instead of" not in d.certificate.note


def test_columns_are_counted_without_listing_subsets():
    sizes = (2, 3, 5, 1)
    axes = {j: LevelAxis(j, f"x{j}", np.arange(size + 1.0), 0) for j, size in enumerate(sizes)}
    assert count_columns(axes, 1, 9) == 11
    assert count_columns(axes, 2, 9) == 11 + 6 + 10 + 2 + 15 + 3 + 5
    assert count_columns(axes, 3, 9) == 11 + 41 + 30 + 6 + 10 + 15


def test_too_many_subsets_are_refused_before_they_are_listed():
    rng = np.random.default_rng(1)
    with pytest.raises(tp.errors.MemoryBudgetError):
        tp.legendre_anova(rng.normal(size=20), rng.normal(size=(20, 500)), order=3, **QUIET)


@pytest.mark.parametrize("value", [1.0, 1e15, -3e-9, 0.1])
@pytest.mark.parametrize("selection", ["bic", "all"])
def test_a_constant_function_has_no_effects(X, value, selection):
    d = tp.legendre_anova(np.full(len(X), value), X, degree=12, selection=selection, **QUIET)
    assert list(d) == []
    assert d.diagnostics["fit"]["f"]["r_squared"] == 1.0
    np.testing.assert_allclose(d.on_rows(X), value, rtol=1e-14)


def test_a_constant_output_beside_another_keeps_its_r2(X):
    values = np.stack([X[:, 0] ** 2, np.full(len(X), 0.3)], axis=1)
    d = tp.legendre_anova(values, X, degree=4, **QUIET)
    fit = d.diagnostics["fit"]
    assert fit["output 1"]["r_squared"] == 1.0
    assert fit["output 1"]["terms"] == 0
    alone = tp.legendre_anova(values[:, 0], X, degree=4, **QUIET)
    np.testing.assert_allclose(d["x0"].on_rows(X)[:, [0]], alone["x0"].on_rows(X), atol=1e-13)


def test_constant_features_leave_an_intercept(X):
    d = tp.legendre_anova(X[:, 0], np.ones((len(X), 2)), **QUIET)
    assert list(d) == []
    assert d.diagnostics["constant_features"] == ["x0", "x1"]
    np.testing.assert_allclose(d.intercept, X[:, 0].mean())
    one_row = tp.legendre_anova(X[:1, 0], X[:1], **QUIET)
    np.testing.assert_allclose(one_row.on_rows(X[:1]), X[:1, :1])


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_numbers_whose_powers_overflow_are_refused(X, scale):
    with pytest.raises(tp.errors.InvalidInputError, match="Rescale the feature"):
        tp.legendre_anova(X[:, 0], X * scale, degree=3, **QUIET)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("order", True),
        ("order", 2.0),
        ("scaling", 3),
        ("scaling", None),
        ("density_clip", "a"),
        ("density_degree", 2.5),
    ],
)
def test_options_of_another_type_are_named(X, option, value):
    with pytest.raises(tp.errors.InvalidInputError, match=option):
        tp.legendre_anova(X[:, 0], X, **{option: value}, **QUIET)


def test_a_function_without_outputs_is_refused(X):
    with pytest.raises(tp.errors.InvalidInputError, match="one value per row"):
        tp.legendre_anova(np.zeros((len(X), 0)), X, **QUIET)


@pytest.mark.parametrize("options", [{}, {"density": "kernel"}, {"order": 3, "degree": 3}])
def test_the_order_of_rows_does_not_matter(X, options):
    rng = np.random.default_rng(2)
    y, weights = X[:, 0] * X[:, 1] + np.sin(X[:, 2]), rng.random(len(X))
    places = rng.permutation(len(X))
    settings = {"degree": 5, **options, **QUIET}
    first = tp.legendre_anova(y, X, sample_weight=weights, **settings)
    second = tp.legendre_anova(y[places], X[places], sample_weight=weights[places], **settings)
    assert list(first) == list(second)
    for subset, component in first.components.items():
        other = second.components[subset].on_rows(X)
        np.testing.assert_allclose(component.on_rows(X), other, atol=1e-11)
