"""EBMs: terms with bins of their own, with and without rows."""

import warnings

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.models.parse import parse_model

glassbox = pytest.importorskip("interpret.glassbox")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:interpret")


def make_rows(n_rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    u = rng.normal(size=n_rows)
    return pd.DataFrame(
        {
            "u": u,
            "v": np.round(u + 0.7 * rng.normal(size=n_rows), 1),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], n_rows),
        }
    )


def train(X: pd.DataFrame, interactions, **options):
    y = X.u * X.v + (X.town == "Ulm") * X.v + np.sin(3 * X.u)
    model = glassbox.ExplainableBoostingRegressor(
        interactions=interactions,
        max_rounds=60,
        outer_bags=2,
        n_jobs=1,
        random_state=0,
        max_bins=12,
        max_interaction_bins=5,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def pairs(rows):
    return train(rows, [(0, 1), (1, 2)])


def check_pure(d):
    scale = d.certificate.scale
    for component in d.components.values():
        for axis in range(component.mass.ndim):
            total = component.mass.sum(axis=axis)
            mean = (component.mass[..., None] * component.values).sum(axis=axis)
            assert np.abs(mean[total > 0] / total[total > 0][..., None]).max() <= 1e-12 * scale


@pytest.mark.parametrize("resolution", ["auto", "union", "term"])
@pytest.mark.parametrize("weights", ["empirical", "laplace", "uniform", "independent"])
def test_with_rows(rows, pairs, resolution, weights):
    d = tp.purify(pairs, rows, resolution=resolution, weights=weights, progress=False)
    assert d.verify(pairs, rows).relative_difference <= 1e-13
    assert d.diagnostics["resolution"] == ("union" if resolution == "union" else "term")
    assert ("on the finer bins" in d.certificate.note) == (resolution != "union")
    is_known = resolution == "union" or weights == "empirical"
    assert ("were not measured" in d.certificate.note) == (not is_known)
    assert {"u & v", "v & town", "u"} <= {d.term_name(s) for s in d}
    check_pure(d)


def test_union_is_orthogonal_to_all_functions_of_one_feature_on_the_rows(rows, pairs):
    d = tp.purify(pairs, rows, weights="empirical", resolution="union", progress=False)
    pair = d["u", "v"].on_rows(rows)[:, 0]
    for name in ("u", "v"):
        component = d[name]
        main = component.on_rows(rows)[:, 0]
        assert abs(np.mean(pair * main)) <= 1e-12 * d.certificate.scale**2
    assert d.certificate.cosine <= 1e-10
    assert d.importance().share.sum() == pytest.approx(1)


def test_term_resolution_keeps_the_bins_of_the_pair(rows, pairs):
    parsed = parse_model(pairs)
    term = next(term for term in parsed.terms if term.features == (0, 1))
    own = tp.purify(pairs, rows, weights="empirical", resolution="term", progress=False)["u", "v"]
    for axis, cuts in zip(own.axes, term.cuts, strict=True):
        np.testing.assert_array_equal(axis.cuts, cuts)
    finer = tp.purify(pairs, rows, weights="empirical", resolution="union", progress=False)[
        "u", "v"
    ]
    assert finer.values.size > own.values.size


def test_without_rows_the_bin_weights_are_the_measure(rows, pairs):
    d = tp.purify(pairs, progress=False)
    assert "bin weights" in d.measure
    assert d.diagnostics["resolution"] == "term"
    assert d.verify(pairs, rows).relative_difference <= 1e-13
    check_pure(d)
    # The weights count the training rows, so rows on the same bins give the same answer.
    again = tp.purify(
        pairs, rows, weights="empirical", resolution="term", missing_cells="always", progress=False
    )
    np.testing.assert_allclose(d.intercept, again.intercept, atol=1e-10)
    for subset, component in d.components.items():
        other = again.components[subset]
        np.testing.assert_allclose(component.mass, other.mass, atol=1e-12)
        np.testing.assert_allclose(component.values, other.values, atol=1e-9)


def test_what_without_rows_is_refused(pairs):
    with pytest.raises(
        tp.errors.InvalidInputError, match='resolution="union" needs the rows: pass X'
    ):
        tp.purify(pairs, resolution="union", progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="'laplace' needs rows"):
        tp.purify(pairs, weights="laplace", progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="sample_weight is given without rows"):
        tp.purify(pairs, sample_weight=[1.0], progress=False)


def test_terms_of_three_features(rows):
    model = train(rows, [(0, 1, 2)])
    d = tp.purify(model, rows, weights="empirical", order=None, progress=False)
    assert (0, 1, 2) in d.components
    assert d.verify(model, rows).relative_difference <= 1e-12
    check_pure(d)
    order = tp.purify(model, rows, weights="empirical", order=1, progress=False)
    assert order.remainder is not None
    assert order.verify(model, rows).relative_difference <= 1e-12


def test_classes(rows):
    y = np.digitize(rows.u + (rows.town == "Ulm"), [-0.5, 0.8])
    model = glassbox.ExplainableBoostingClassifier(
        interactions=0, max_rounds=40, outer_bags=2, n_jobs=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, y)
    d = tp.purify(model, rows, weights="empirical", progress=False)
    assert d.n_outputs == 3
    assert d.verify(model, rows).relative_difference <= 1e-13
    probability = d.predict(rows, scale="response")
    np.testing.assert_allclose(probability, model.predict_proba(rows), atol=1e-10)


def test_memory_budget_names_the_table_and_the_way_out(rows, pairs):
    with pytest.raises(tp.errors.MemoryBudgetError, match=r"u x v.* cells.*resolution=\"term\""):
        tp.purify(
            pairs,
            rows,
            weights="empirical",
            resolution="union",
            memory_budget=5_000,
            progress=False,
        )


def test_the_largest_cosine_with_finer_main_effects_is_measured(rows, pairs):
    d = tp.purify(pairs, rows, weights="empirical", progress=False)
    cosines = []
    for larger, main in (("u & v", "u"), ("u & v", "v"), ("v & town", "v")):
        one, other = d[larger].on_rows(rows)[:, 0], d[main].on_rows(rows)[:, 0]
        cosines.append(abs(one @ other) / np.linalg.norm(one) / np.linalg.norm(other))
    assert d.certificate.cosine == pytest.approx(max(cosines), rel=1e-6)
    assert max(cosines) > 1e-6
    assert f"the largest cosine is {max(cosines):.1e}" in str(d.certificate)
    streamed = tp.purify(
        pairs, lambda: iter(np.array_split(rows, 3)), weights="empirical", progress=False
    )
    assert streamed.certificate.cosine == pytest.approx(max(cosines), rel=1e-6)


def test_it_is_compared_with_trees_on_the_bins_of_main_effects(rows, pairs):
    own = tp.purify(pairs, rows, weights="empirical", progress=False)
    union = tp.purify(pairs, rows, weights="empirical", resolution="union", progress=False)
    compared = tp.compare(own, union, rows)
    assert compared.terms["distance"].max() < 1e-12 * own.certificate.scale * 1e3
    assert "purified again on the bins of its main effects" in compared.first.certificate.note
    assert tp.compare(own, own, rows).first is own


def test_an_audit_keeps_the_bins_of_each_term(rows, pairs, monkeypatch):
    d = tp.purify(pairs, rows, progress=False)
    monkeypatch.setattr("treepurify.comparing.compare.DEFAULT_BUDGET", 1)
    audit = tp.audit(pairs, rows, n_bootstrap=1, progress=False)
    for subset in d.components:
        assert audit.decomposition[subset].values.shape == d[subset].values.shape
    union = tp.purify(pairs, rows, resolution="union", progress=False)
    as_it_is = tp.compare(d, union, rows).first
    assert as_it_is["u", "v"] is d["u", "v"]
    assert "would not fit" in as_it_is.certificate.note
