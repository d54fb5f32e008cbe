"""Gradient boosting of scikit-survival against its own predictions."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.parse import raw_margin

ensembles = pytest.importorskip("sksurv.ensemble")


@pytest.fixture
def rows():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))


@pytest.fixture
def events(rows):
    from sksurv.util import Surv

    rng = np.random.default_rng(1)
    time = np.exp(rows.a + rows.b * (rows.c > 0)) + rng.random(len(rows)) + 1.0
    return Surv.from_arrays(rng.random(len(rows)) < 0.7, time)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "squared"},
        {"loss": "ipcwls", "subsample": 0.5},
        {"dropout_rate": 0.3},
        {"dropout_rate": 0.3, "loss": "squared", "learning_rate": 0.7},
    ],
    ids=["cox", "squared", "weighted", "dropout", "dropout, squared"],
)
def test_predictions(options, rows, events):
    model = ensembles.GradientBoostingSurvivalAnalysis(n_estimators=12, random_state=0, **options)
    model.fit(rows, events)
    ensemble = tp.parse_model(model)
    cuts = [np.unique(ensemble.cut[ensemble.feature == j]) for j in range(3)]
    rng = np.random.default_rng(2)
    beside = pd.DataFrame(
        {
            name: rng.choice(
                np.concatenate([c, np.nextafter(c, np.inf), np.nextafter(c, -np.inf)]), 2000
            )
            for name, c in zip("abc", cuts, strict=True)
        }
    )
    margin = ensemble.margin(beside)
    np.testing.assert_allclose(
        ensemble.link.inverse(margin)[:, 0], model.predict(beside), rtol=1e-12
    )
    np.testing.assert_allclose(raw_margin(model, beside[["c", "a", "b"]]), margin, atol=1e-12)
    assert np.ptp(margin) > 0.1


def test_effects(rows, events):
    model = ensembles.GradientBoostingSurvivalAnalysis(n_estimators=8).fit(rows, events)
    d = tp.purify(model, rows, weights="empirical")
    assert d.feature_names == ("a", "b", "c")
    assert d.certificate.is_accurate
    assert d.verify(model, rows).relative_difference < 1e-12


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RandomSurvivalForest", "curves over time"),
        ("ComponentwiseGradientBoostingSurvivalAnalysis", "linear model"),
    ],
)
def test_what_is_refused(name, reason, rows, events):
    model = getattr(ensembles, name)(n_estimators=3).fit(rows, events)
    with pytest.raises(UnsupportedModelError, match=f"{reason}.*GradientBoostingSurvivalAnalysis"):
        tp.parse_model(model)


def test_other_starts_are_refused(rows, events):
    model = ensembles.GradientBoostingSurvivalAnalysis(n_estimators=2).fit(rows, events)
    model.init_ = "the mean"
    with pytest.raises(UnsupportedModelError, match="starts from another model"):
        tp.parse_model(model)


def test_must_be_fitted():
    with pytest.raises(InvalidInputError, match=r"call fit\(\)"):
        tp.parse_model(ensembles.GradientBoostingSurvivalAnalysis())
