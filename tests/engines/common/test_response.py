"""Effects on the response scale: of probabilities, of rates, of classes."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)

import treepurify as tp
from tests.reference.partial_dependence import moebius_terms
from treepurify.engines.common.functions import response_function
from treepurify.errors import InvalidInputError
from treepurify.links import Link


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    return X, X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture(scope="module")
def boosted(rows):
    X, y = rows
    model = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0)
    return model.fit(X, np.digitize(y, [-0.5, 0.5]))


ENGINES = {
    "partial dependence": lambda f, X: tp.partial_dependence_anova(f, X, progress=False),
    "ale": lambda f, X: tp.ale_anova(f, X, progress=False),
    "hooker": lambda f, X: tp.hooker_anova(f, X, progress=False),
    "categorical": lambda f, X: tp.categorical_anova(f, X.round(), bins=3, progress=False),
    "legendre": lambda f, X: tp.legendre_anova(f, X, degree=3, progress=False),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_adds_up_to_the_probability(engine, rows, boosted):
    X, _ = rows
    d = ENGINES[engine](response_function(boosted), X)
    at = X.round() if engine == "categorical" else X
    np.testing.assert_allclose(d.predict(at), boosted.predict_proba(at), atol=1e-10)
    assert d.predict(at, scale="response") == pytest.approx(d.predict(at))
    if engine not in ("categorical",):
        assert d.output_names == tp.parse_model(boosted).output_names


def test_wrong_guesses_say_where_to_go(rows, boosted):
    X, _ = rows
    response = response_function(boosted)
    assert len(repr(response)) < 120
    assert "3 features -> 3 outputs" in repr(response)
    for f in (response, boosted.predict_proba):
        with pytest.raises(
            tp.errors.UnsupportedModelError,
            match=r"explain it by its predictions: tp\.hooker_anova",
        ):
            tp.purify(f, X, weights="empirical")
    d = tp.purify(boosted, X, weights="empirical")
    with pytest.raises(InvalidInputError, match="effects add up on the margin scale only"):
        d.contributions(X, scale="response")
    forest = RandomForestClassifier(n_estimators=3, max_depth=2, random_state=0)
    d = tp.purify(forest.fit(X, X[:, 0] > 0), X, weights="empirical")
    table = d.contributions(X, scale="response")
    np.testing.assert_allclose(table.sum(axis=1), 1.0 if d.n_outputs > 1 else d.predict(X))


def test_terms_are_those_of_the_probability(rows, boosted):
    X, _ = rows
    d = tp.partial_dependence_anova(
        response_function(boosted), X[:60], order=2, background_size=60, progress=False
    )
    truth = moebius_terms(boosted.predict_proba, X[:5], X[:60], 2)
    for subset in d:
        np.testing.assert_allclose(d[subset].on_rows(X[:5]), truth[subset], atol=1e-10)
    values = d.shapley_values(X[:5])
    np.testing.assert_allclose(values.total(), boosted.predict_proba(X[:5]), atol=1e-10)


def test_trees_are_read_where_probabilities_are_sums(rows):
    X, y = rows
    forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y > 0)
    by_response = tp.partial_dependence_anova(response_function(forest), X, progress=False)
    by_model = tp.partial_dependence_anova(forest, X, progress=False)
    assert by_response.diagnostics["exact"]
    assert by_response.certificate == by_model.certificate
    assert by_response.certificate.margin_error is not None
    for subset in by_model:
        values = by_response[subset].on_rows(X)
        np.testing.assert_array_equal(values, by_model[subset].on_rows(X))


def test_hooker_keeps_the_cuts_of_the_model(rows):
    X, y = rows
    model = HistGradientBoostingRegressor(
        loss="poisson", max_iter=20, max_depth=1, random_state=0
    ).fit(X, y - y.min())
    d = tp.hooker_anova(response_function(model), X, progress=False)
    own = tp.purify(model, X, weights="empirical", progress=False)
    assert np.array_equal(d["x2"].axes[0].cuts, own["x2"].axes[0].cuts)
    np.testing.assert_allclose(d.predict(X), model.predict(X), rtol=1e-10)


def test_grouping_and_h_statistics_take_responses(rows, boosted):
    X, _ = rows
    f = response_function(boosted)
    h = tp.h_statistics(f, X[:40], progress=False)
    assert h.overall().shape[0] == 3
    sets = tp.shapley_sets(f, X[:40], X[:2], progress=False)
    np.testing.assert_allclose(sets.total(), boosted.predict_proba(X[:2]), atol=1e-8)


def test_a_response_is_saved_with_its_model(rows, boosted, tmp_path):
    X, _ = rows
    d = tp.ale_anova(response_function(boosted), X, progress=False)
    d.save(tmp_path / "response.tpz")
    loaded = tp.load(tmp_path / "response.tpz")
    np.testing.assert_allclose(loaded.predict(X), boosted.predict_proba(X), atol=1e-10)


def test_responses_that_are_not_known_are_refused(boosted):
    parsed = replace(tp.parse_model(boosted), link=Link("unknown"))
    with pytest.raises(InvalidInputError, match="not known"):
        response_function(parsed)


def test_an_attribute_of_the_users_own_turns_no_check_off(rows):
    X, y = rows
    model = HistGradientBoostingRegressor(max_iter=2, random_state=0).fit(X, y)
    model.trained_model = "a name of the user's own"
    assert (
        tp.purify(model, X, weights="empirical", progress=False).certificate.margin_error
        is not None
    )
