"""A parsed model is compared with its library wherever it meets rows, and once for a table."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treepurify as tp
from treepurify.engines.common.functions import response_function
from treepurify.errors import ModelMismatchError
from treepurify.models.parse import read_model

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 3)), columns=["a", "b", "c"])
Y = (X["a"] * X["b"] + (X["c"] > 0)).to_numpy()

# Default calls of all that takes a model and rows.
CALLS = {
    "purify": tp.purify,
    "parse_model": lambda m, X: tp.parse_model(m, X=X),
    "margin": lambda m, X: tp.parse_model(m).margin(X),
    "response_function": lambda m, X: response_function(m)(X),
    "an engine of a response": lambda m, X: tp.hooker_anova(response_function(m), X),
    "what was parsed": lambda m, X: tp.purify(tp.parse_model(m), X),
    "several trainings": lambda m, X: tp.purify([m, copy.deepcopy(m)], X),
    "batches": lambda m, X: tp.purify(m, lambda: iter([X[:60], X[60:]])),
    "hooker_anova": tp.hooker_anova,
    "ale_anova": tp.ale_anova,
    "partial_dependence_anova": tp.partial_dependence_anova,
    "legendre_anova": tp.legendre_anova,
    "categorical_anova": tp.categorical_anova,
    "h_statistics": tp.h_statistics,
    "interaction_indices": tp.interaction_indices,
    "interventional_shapley_values": tp.interventional_shapley_values,
    "shapley_sets": lambda m, X: tp.shapley_sets(m, X[:30]),
    "feature_profile": lambda m, X: tp.feature_profile(m, X, "a"),
    "reason_codes": lambda m, X: tp.reason_codes(m, X[:5], reference=X),
    "check_monotonicity": lambda m, X: tp.check_monotonicity(m, X, {"a": "increasing"}),
    "audit": tp.audit,
}


def _sklearn():
    return GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, Y)


def _xgboost():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=5, n_jobs=1).fit(X, Y)


LIBRARIES = {"sklearn": _sklearn, "xgboost": _xgboost}


def _counted(monkeypatch, library, shift=0.0):
    """Let a library predict something else; the rows of each question to it are written down."""
    module, asked = f"treepurify.models.{library}.raw_margin", []
    known = pytest.importorskip(f"treepurify.models.{library}").raw_margin

    def margin(model, rows):
        asked.append(len(rows))
        return known(model, rows) + shift

    monkeypatch.setattr(module, margin)
    return asked


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_call_compares_the_model_with_its_library(library, call, monkeypatch):
    model = LIBRARIES[library]()
    _counted(monkeypatch, library, shift=0.5)
    with pytest.raises(ModelMismatchError, match="differs from the library"):
        CALLS[call](model, X)


@pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")
@pytest.mark.parametrize("call", CALLS)
def test_no_call_asks_the_library_twice_for_one_table(call, monkeypatch):
    model = _sklearn()
    asked = _counted(monkeypatch, "sklearn")
    CALLS[call](model, X)
    # Rows to explain are a table of their own, and so is each training.
    tables = {"reason_codes": 2, "several trainings": 2, "shapley_sets": 1}
    assert len(asked) == tables.get(call, 1)


def test_rows_to_explain_are_compared_too(monkeypatch):
    """A model that reads only the second table in another way than its library is noticed."""
    model = _sklearn()
    known = pytest.importorskip("treepurify.models.sklearn").raw_margin
    monkeypatch.setattr(
        "treepurify.models.sklearn.raw_margin", lambda m, rows: known(m, rows) + (len(rows) < 100)
    )
    for call in (
        tp.interventional_shapley_values,
        lambda m, some, X: tp.reason_codes(m, some, reference=X),
    ):
        with pytest.raises(ModelMismatchError):
            call(model, X[:50], X)


def test_a_parsed_model_remembers_its_library_until_it_is_stored_or_edited():
    parsed = tp.parse_model(_sklearn())
    check = read_model(parsed, X).check
    assert check.error < 1e-12
    assert not check.note
    for other in (
        pickle.loads(pickle.dumps(parsed)),
        copy.copy(parsed),
        parsed.of_features((0, 1, 2)),
    ):
        check = read_model(other, X).check
        assert check.error is None
        assert "no library" in check.note


def test_a_model_that_is_trained_again_leaves_what_was_parsed_before_alone():
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, Y)
    before, expected = tp.parse_model(model), model.predict(X)
    model.fit(X, -Y)
    check = read_model(before, X).check
    assert check.error is None
    assert "trained again" in check.note
    np.testing.assert_allclose(tp.purify(before, X).predict(X), expected)


def test_a_library_without_names_gets_columns_in_its_own_order():
    """Of a model without names the first table gives them, and others are matched by name."""
    model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X.to_numpy(), Y)
    turned = X[["c", "b", "a"]]
    expected = tp.interventional_shapley_values(model, X[:9], X).values
    found = tp.interventional_shapley_values(model, turned[:9], X).values
    np.testing.assert_array_equal(found, expected)
    check = read_model(read_model(model, X), turned).check
    assert check.error < 1e-12


def test_columns_to_ignore_are_kept_from_the_library():
    parsed = tp.parse_model(_sklearn(), ignore=["key"])
    assert read_model(parsed, X.assign(key=1.0)).check.error < 1e-12


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("as_array", [True, False])
def test_the_library_gets_numbers_in_the_byte_order_of_the_machine(library, as_array):
    """XGBoost reads others as if they were in its own."""
    model = LIBRARIES[library]()
    other = pd.DataFrame({name: X[name].to_numpy().astype(">f8") for name in X})
    rows = other.to_numpy().astype(">f8") if as_array else other
    d = tp.purify(model, rows)
    np.testing.assert_allclose(d.predict(rows), model.predict(X), atol=1e-6)
    assert d.verify(model, rows).relative_difference < 1e-5


@pytest.mark.parametrize("columns", ["raw", "transformed"])
def test_the_steps_of_a_pipeline_are_compared_in_the_columns_that_they_take(columns, monkeypatch):
    pipeline = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5)).fit(X, Y)
    assert tp.purify(pipeline, X, columns=columns).certificate.margin_error < 1e-12
    parsed = tp.parse_model(pipeline, columns, X)
    rows = X if columns == "raw" else pipeline[0].transform(X)
    assert read_model(parsed, rows).check.error < 1e-12
    _counted(monkeypatch, "sklearn", shift=0.5)
    with pytest.raises(ModelMismatchError):
        tp.purify(pipeline, X, columns=columns)
