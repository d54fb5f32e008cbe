"""An exported EBM is edited and merged by interpret's own functions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.cases import needs_stored_labels
from tests.export.test_ebm import (
    MODELS,
    classifier,
    decomposed,
    ebm_regressor,
    regressor,
    rows,
    several_classes,
)
from treepurify.export import to_ebm

glassbox = pytest.importorskip("interpret.glassbox")


@pytest.fixture(autouse=True)
def _quiet_interpret():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="interpret")
        warnings.filterwarnings("ignore", message=".*missing values.*", category=UserWarning)
        warnings.filterwarnings("ignore", message=".*training samples.*", category=UserWarning)
        yield


@pytest.fixture(scope="module", params=MODELS, ids=lambda make: make.__name__)
def exported(request):
    return decomposed(request.param)[1:]


def margins(ebm, X):
    """The margin of each row and output: intercept and terms."""
    scores = ebm.eval_terms(X)
    total = scores.sum(axis=1) + ebm.intercept_
    return total.reshape(len(X), -1)


def parts(d, X):
    """The components on each row, shape (n_rows, n_terms, n_outputs)."""
    table = d.contributions(X).to_numpy().reshape(len(X), d.n_outputs, -1)
    return table[:, :, 1:].transpose(0, 2, 1)


def test_scale(exported):
    X, d = exported
    ebm = to_ebm(d)
    first = next(iter(d))
    ebm.scale(ebm.term_names_[0], 0.25)
    expected = d.on_rows(X) - 0.75 * d[first].on_rows(X)
    np.testing.assert_allclose(margins(ebm, X), expected, atol=1e-12)


def test_remove_terms(exported):
    X, d = exported
    ebm = to_ebm(d)
    ebm.remove_terms([ebm.term_names_[-1]])
    np.testing.assert_allclose(
        margins(ebm, X), d.on_rows(X) - d[list(d)[-1]].on_rows(X), atol=1e-12
    )


def test_remove_features(exported):
    """Of the last column: of others, interpret 0.7.8 does not renumber the terms of any EBM."""
    X, d = exported
    ebm = to_ebm(d)
    ebm.remove_features(["count"])
    kept = [k for k, subset in enumerate(d) if 2 not in subset]
    expected = d.intercept + parts(d, X)[:, kept].sum(axis=1)
    np.testing.assert_allclose(margins(ebm, X.drop(columns="count")), expected, atol=1e-12)
    assert len(ebm.unique_val_counts_) == len(ebm.histogram_weights_) == 2
    assert ebm.feature_bounds_.shape == (2, 2)


def test_sweep(exported):
    X, d = exported
    ebm = to_ebm(d)
    with_count = [k for k, subset in enumerate(d) if 2 in subset]
    for k in with_count:
        ebm.scale(k, 0.0)
    ebm.sweep()
    assert len(ebm.term_names_) == len(d) - len(with_count)
    kept = [k for k, subset in enumerate(d) if 2 not in subset]
    expected = d.intercept + parts(d, X)[:, kept].sum(axis=1)
    np.testing.assert_allclose(margins(ebm, X), expected, atol=1e-12)


def test_monotonize(exported):
    X, d = exported
    position = list(d).index((2,))
    ebm = to_ebm(d)
    if d.n_outputs > 1:
        with pytest.raises(ValueError, match="multiclass"):
            ebm.monotonize(position)
        return
    ebm.monotonize(position, increasing=True)
    curve = ebm.term_scores_[position][1:-1]
    assert np.all(np.diff(curve) >= 0)
    others = margins(ebm, X)[:, 0] - ebm.eval_terms(X)[:, position]
    expected = d.on_rows(X)[:, 0] - d[2].on_rows(X)[:, 0]
    np.testing.assert_allclose(others, expected, atol=1e-12)


def test_merge_with_itself(exported):
    from interpret.glassbox import merge_ebms

    X, d = exported
    merged = merge_ebms([to_ebm(d), to_ebm(d)])
    difference = margins(merged, X) - d.on_rows(X)
    # The margins of several classes are known up to a number that all of them share.
    np.testing.assert_allclose(difference - difference.mean(axis=1, keepdims=True), 0, atol=1e-10)
    if d.n_outputs == 1:
        np.testing.assert_allclose(difference, 0, atol=1e-10)
        np.testing.assert_allclose(merged.predict_with_uncertainty(X)[:, 1], 0, atol=1e-7)


@pytest.mark.parametrize("train", [regressor, classifier, ebm_regressor])
def test_merging_two_models_averages_them(train):
    from interpret.glassbox import merge_ebms

    X, y = rows(missing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = train(X, y), train(X, y + 0.2 * X["count"].to_numpy())
    needs_stored_labels(first)
    a, b = (tp.purify(model, X, weights="empirical", progress=False) for model in (first, second))
    merged = merge_ebms([to_ebm(a), to_ebm(b)])
    expected = (a.on_rows(X) + b.on_rows(X)) / 2
    np.testing.assert_allclose(margins(merged, X), expected, atol=1e-10)
    spread = np.abs(a.on_rows(X) - b.on_rows(X))[:, 0] / 2
    np.testing.assert_allclose(merged.predict_with_uncertainty(X)[:, 1], spread, atol=1e-10)


def test_what_is_known_of_the_training_data(exported):
    X, d = exported
    ebm = to_ebm(d)
    for scores, deviations in zip(ebm.term_scores_, ebm.standard_deviations_, strict=True):
        assert scores.shape == deviations.shape
        assert not deviations.any()
    counts = X["kind"].value_counts()
    in_bins = dict(zip("xyz", ebm.histogram_weights_[1][1:-1], strict=True))
    assert in_bins == pytest.approx(dict(counts))
    assert ebm.histogram_weights_[1][0] == pytest.approx(X["kind"].isna().sum())
    assert ebm.histogram_weights_[0][0] == pytest.approx(X["real"].isna().sum())
    assert ebm.histogram_weights_[0][1:-1].sum() == pytest.approx(X["real"].notna().sum())
    assert ebm.unique_val_counts_[1] == 3
    assert ebm.unique_val_counts_[2] <= 5
    if not hasattr(ebm, "classes_"):
        response = d.predict(X, scale="response")
        assert (ebm.min_target_, ebm.max_target_) == pytest.approx((response.min(), response.max()))


def test_a_remainder_of_rounding_size_is_none():
    rng = np.random.default_rng(0)
    three = rng.normal(size=(3, 4, 1)) + rng.normal(size=(1, 4, 2)) + rng.normal(size=(3, 1, 2))
    d = tp.purify_tensors({(0, 1, 2): three}, order=2, progress=False)
    cells = np.array([*np.ndindex(3, 4, 2)])
    assert 0.0 < np.abs(d.remainder.on_rows(cells)).max() < 1e-14
    ebm = to_ebm(d)
    assert max(map(len, ebm.term_features_)) == 2
    margin = tp.parse_model(ebm).margin(cells)
    np.testing.assert_allclose(margin[:, 0], three.ravel(), atol=1e-14)


@pytest.mark.parametrize("resolution", ["union", "term"])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_terms_of_three_features_go_back(kind, resolution):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    X["kind"] = rng.choice(list("uvw"), 400)
    y = np.sign(X["a"] * X["b"] * X["c"]) + (X["kind"] == "u") * X["d"]
    terms = [("a", "b", "c"), ("a", "b"), ("d", "kind", "a")]
    options = {"interactions": terms, "outer_bags": 1, "max_rounds": 40, "max_bins": 12}
    options |= {"max_interaction_bins": 5, "n_jobs": 1, "random_state": 0}
    if kind == "classes":
        model = glassbox.ExplainableBoostingClassifier(**options).fit(
            X, np.digitize(y, [-0.5, 0.5])
        )
    else:
        model = glassbox.ExplainableBoostingRegressor(**options).fit(X, y)
    quiet = {"progress": False, "missing_cells": "always", "resolution": resolution}
    d = tp.purify(model, X, order=3, **{"weights": "empirical", **quiet})
    ebm = to_ebm(d)
    assert max(map(len, ebm.term_features_)) == 3
    odd = X.assign(a=X["a"].where(X["b"] > -1), kind=X["kind"].where(X["d"] > -1, "new"))
    for table in (X, odd):
        margin = ebm.predict(table) if kind == "regression" else ebm.decision_function(table)
        np.testing.assert_allclose(margin.reshape(400, -1), d.on_rows(table), atol=1e-12)
    with pytest.raises(tp.errors.UnsupportedModelError, match="larger order") as error:
        to_ebm(tp.purify(model, X, order=2, **{"weights": "empirical", **quiet}))
    assert "max_depth" not in str(error.value)


def test_a_remainder_is_dropped_where_asked():
    X, y = rows(missing=False)
    values = np.column_stack([X["real"], X["count"], X["real"] + X["count"]])
    deep = GradientBoostingRegressor(n_estimators=5, max_depth=3, random_state=0)
    d = tp.purify(
        deep.fit(values, values[:, 0] * values[:, 1] * values[:, 2] + y),
        values,
        weights="empirical",
        order=1,
    )
    with pytest.raises(
        tp.errors.UnsupportedModelError, match=r'predictions change by .*remainder="drop"'
    ):
        to_ebm(d)
    with pytest.warns(tp.errors.RemainderWarning, match="leaves out the remainder") as caught:
        ebm = to_ebm(d, remainder="drop")
    rest = d.remainder.on_rows(values)[:, 0]
    np.testing.assert_allclose(ebm.predict(values) + rest, d.predict(values), atol=1e-12)
    lost, whole = np.sqrt(np.mean(rest**2)), np.std(d.predict(values))
    assert f"predictions change by {lost:.4g} " in str(caught[0].message)
    assert f"{lost / whole:.1%} of their standard deviation" in str(caught[0].message)
    with pytest.raises(tp.errors.InvalidInputError, match="remainder must be"):
        to_ebm(d, remainder="keep")


@pytest.mark.parametrize("train", [regressor, classifier, several_classes])
def test_error_bars_are_those_of_the_trained_models(train):
    X, y = rows()
    rng = np.random.default_rng(3)
    picks = [rng.integers(0, len(X), len(X)) for _ in range(4)]
    models = [train(X.iloc[pick], y[pick]) for pick in picks]
    needs_stored_labels(models[0])
    d = tp.purify(models, X, weights="empirical", missing_cells="always", progress=False)
    ebm = to_ebm(d)
    by_hand = np.array([parsed_margin(model, X) for model in models])
    np.testing.assert_allclose(margins(ebm, X), by_hand.mean(axis=0), atol=1e-6)
    for subset, scores, deviations, bags in zip(
        d, ebm.term_scores_, ebm.standard_deviations_, ebm.bagged_scores_, strict=True
    ):
        assert len(bags) == 4
        np.testing.assert_allclose(bags.mean(axis=0), scores, atol=1e-12)
        largest = d.spread.standard_deviation(subset).max() * np.sqrt(3 / 4)
        np.testing.assert_allclose(deviations.max(), largest, rtol=1e-12)
    if d.n_outputs == 1:
        uncertainty = ebm.predict_with_uncertainty(X)
        np.testing.assert_allclose(uncertainty[:, 1], by_hand[..., 0].std(axis=0), atol=1e-6)
    ebm.explain_global()
    ebm.scale(0, 0.5)


def test_merging_keeps_the_model_that_the_refits_are_of():
    """interpret merges bags: their mean has to be the model that was exported."""
    from interpret.glassbox import merge_ebms

    X, y = rows()
    shipped = regressor(X, y)
    needs_stored_labels(shipped)
    rng = np.random.default_rng(3)
    picks = [rng.integers(0, len(X), len(X)) for _ in range(3)]
    models = [regressor(X.iloc[pick], y[pick]) for pick in picks]
    d = tp.purify(
        shipped,
        X,
        refits=models,
        weights="empirical",
        missing_cells="always",
        progress=False,
    )
    for exported in (d, d.without(*[subset for subset in d if len(subset) == 2])):
        ebm = to_ebm(exported)
        expected = exported.predict(X)
        np.testing.assert_allclose(ebm.predict(X), expected, atol=1e-10)
        np.testing.assert_allclose(merge_ebms([ebm, ebm]).predict(X), expected, atol=1e-10)
    # The trainings on the cells of the model that is shipped, which average those of each.
    of_trainings = d.spread.intercepts[:, 0] + sum(
        table.on_rows(X) for table in d.spread.stacked.values()
    )
    deviation = to_ebm(d).predict_with_uncertainty(X)[:, 1]
    np.testing.assert_allclose(deviation, of_trainings.std(axis=1), atol=1e-6)
    by_hand = np.array([parsed_margin(model, X) for model in models])[..., 0]
    assert 0.8 < deviation.mean() / by_hand.std(axis=0).mean() < 1.2


def parsed_margin(model, X):
    return tp.parse_model(model).margin(X)
