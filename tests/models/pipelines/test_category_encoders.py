"""Encoders of category_encoders that are maps of one column."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import treepurify as tp
from tests.models.pipelines.cases import (
    FAMILIES,
    check_composed,
    columns,
    filled,
    make_data,
    xgb,
)
from treepurify.errors import UnsupportedModelError

encoders = pytest.importorskip("category_encoders")

NAMES = [
    *("OrdinalEncoder", "OneHotEncoder", "TargetEncoder", "CatBoostEncoder", "LeaveOneOutEncoder"),
    *("CountEncoder", "BinaryEncoder", "BaseNEncoder", "GrayEncoder", "JamesSteinEncoder"),
    *("MEstimateEncoder", "QuantileEncoder", "HelmertEncoder", "SumEncoder"),
    *("BackwardDifferenceEncoder", "PolynomialEncoder"),
]


@pytest.mark.libraries
@pytest.mark.parametrize("whole", [False, True], ids=["split", "whole table"])
@pytest.mark.parametrize("name", NAMES)
def test_encoders(name, whole):
    X, y = make_data(missing=["color"])
    encoder = getattr(encoders, name)(cols=["color", "size"] if whole else None)
    step = encoder if whole else columns("passthrough", encoder)
    check_composed(make_pipeline(step, xgb()), X, y)


@pytest.mark.libraries
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "xgboost"])
@pytest.mark.parametrize("name", NAMES)
def test_encoders_before_other_trees(name, family):
    model, takes_missing = FAMILIES[family]
    # Some encoders pass missing labels on.
    X, y = make_data(300, missing=["color"] if takes_missing else [])
    step = columns(filled("passthrough"), getattr(encoders, name)())
    check_composed(make_pipeline(step, model()), X, y, missing=takes_missing)


@pytest.mark.filterwarnings("ignore::Warning:category_encoders")
@pytest.mark.filterwarnings("ignore:'future.no_silent")
def test_weight_of_evidence():
    from xgboost import XGBClassifier

    X, y = make_data()
    positive = (y > np.median(y)).astype(int)
    step = columns("passthrough", encoders.WOEEncoder())
    pipeline = make_pipeline(step, XGBClassifier(n_estimators=8)).fit(X, positive)
    ensemble = tp.parse_model(pipeline)
    probability = ensemble.link.inverse(ensemble.margin(X))[:, 0]
    np.testing.assert_allclose(probability, pipeline.predict_proba(X)[:, 1], atol=1e-6)


def test_hashed_columns_are_refused():
    X, y = make_data()
    step = columns("passthrough", encoders.HashingEncoder(n_components=4, max_process=1))
    pipeline = make_pipeline(step, xgb()).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="hashes several columns"):
        tp.parse_model(pipeline, "raw")
