"""The demonstration's data and models."""

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from tests.cases import data_path
from treepurify import demo
from treepurify.demo import model


@pytest.mark.parametrize("name", ["bike", "diabetes", "breast_cancer", "wine"])
def test_bundled_data(name):
    data = demo.load_demo_data(name)
    assert len(data.X) == len(data.y) > 100
    assert (data.task == "regression") == (name in ("bike", "diabetes"))


def test_diabetes_has_units():
    X = demo.load_demo_data("diabetes").X
    assert X["age"].between(19, 79).all()


def test_bikes_are_those_of_the_source_in_other_units():
    source = pd.read_parquet(data_path("bike_sharing_hour"))
    data = demo.load_demo_data("bike")
    np.testing.assert_array_equal(data.y, source["cnt"])
    np.testing.assert_array_equal(data.X["hour"], source["hr"])
    np.testing.assert_allclose(data.X["temperature"], source["temp"] * 47 - 8, atol=0.05)
    np.testing.assert_allclose(data.X["feels_like"], source["atemp"] * 66 - 16, atol=0.05)
    np.testing.assert_allclose(data.X["windspeed"], source["windspeed"] * 67, atol=0.5)
    assert not {"casual", "registered", "cnt", "rentals"} & set(data.X)


@pytest.mark.parametrize("has_xgboost", [True, False])
def test_trained_model_has_the_defaults_and_learns(has_xgboost, monkeypatch):
    if not has_xgboost:
        monkeypatch.setattr(model, "find_spec", lambda _: None)
    data = demo.load_demo_data("bike")
    trained = demo.train_demo_model(data)
    assert ("XGBoost" in trained.description) == has_xgboost
    # The share explained on the rows of the training itself is higher.
    assert 0.9 < trained.score < trained.model.score(data.X, data.y)
    d = tp.purify(trained.model, data.X, progress=False)
    ranking = d.importance().set_index("effect")["share"]
    assert list(ranking.index[:2]) == ["hour", "hour & workingday"]
    assert abs(ranking["workingday"]) < 0.001


@pytest.mark.parametrize(("weights", "largest"), [("auto", 0.04), ("empirical", 0.0)])
def test_interactions_average_to_zero_over_the_rows_that_effects_refer_to(weights, largest):
    data = demo.load_demo_data("bike")
    model = xgboost.XGBRegressor(n_jobs=1).fit(data.X, data.y)
    d = tp.purify(model, data.X, weights=weights, progress=False)
    effect = d.contributions(data.X)["hour & workingday"]
    means = effect.groupby(data.X["hour"].to_numpy()).mean()
    assert np.abs(means).max() / effect.std() == pytest.approx(largest, abs=5e-3)
    assert d.certificate.conditional_mean < 1e-14


def test_training_is_repeatable():
    data = demo.load_demo_data("breast_cancer")
    first, second = demo.train_demo_model(data), demo.train_demo_model(data)
    np.testing.assert_array_equal(
        first.model.predict_proba(data.X), second.model.predict_proba(data.X)
    )


def test_an_unknown_data_set_is_refused_with_those_that_are_known():
    known = 'must be "bike", "diabetes", "breast_cancer" or "wine", got'
    with pytest.raises(tp.errors.InvalidInputError, match=known):
        demo.load_demo_data("iris")
