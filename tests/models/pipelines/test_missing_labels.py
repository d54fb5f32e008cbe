"""Missing values in columns of labels, of the kind that the encoders were trained with."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

import treepurify as tp
from tests.models.pipelines.cases import UNKNOWN, dense_one_hot, filled, ordinal, xgb
from tests.models.pipelines.test_category_encoders import NAMES, encoders

KINDS = {"None": None, "NaN": np.nan, "NA": pd.NA, "NaT": pd.NaT}
ENCODERS = {
    **{name: getattr(encoders, name) for name in NAMES},
    **{
        f"{name}, {handling}": lambda name=name, handling=handling: getattr(encoders, name)(
            handle_missing=handling
        )
        for name in ("OrdinalEncoder", "OneHotEncoder", "CatBoostEncoder", "LeaveOneOutEncoder")
        for handling in ("return_nan", "error" if name == "OrdinalEncoder" else "value")
    },
    "TargetEncoder, error": lambda: encoders.TargetEncoder(handle_unknown="error"),
    "CountEncoder, unknown": lambda: encoders.CountEncoder(handle_unknown=-1),
    "one-hot": dense_one_hot,
    "one-hot, error": lambda: OneHotEncoder(sparse_output=False),
    "ordinal": lambda: ordinal(encoded_missing_value=-2),
    "target": TargetEncoder,
    "filled": lambda: filled(dense_one_hot(), strategy="most_frequent"),
    "filled by a label": lambda: filled(ordinal(), strategy="constant", fill_value="missing"),
    "filled None": lambda: filled(ordinal(), strategy="most_frequent", missing_values=None),
}


def labels_with(kinds, n_rows=400):
    rng = np.random.default_rng(0)
    pool = np.array(["red", "green", "blue", *(KINDS[kind] for kind in kinds)], dtype=object)
    which = rng.integers(0, len(pool), n_rows)
    X = pd.DataFrame({"color": pd.Series(pool[which], dtype=object)})
    return X.assign(age=rng.normal(size=n_rows)), which * 2.0 + rng.normal(size=n_rows) * 0.1


@pytest.mark.parametrize("trained", [(), ("None",), ("NaN",), ("NA",)], ids="+".join)
@pytest.mark.parametrize("name", ENCODERS)
def test_missing_values_are_read_as_the_pipeline_reads_them(name, trained):
    X, y = labels_with(trained)
    split = ColumnTransformer([("color", ENCODERS[name](), ["color"])], remainder="passthrough")
    pipeline = make_pipeline(split, xgb())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipeline.fit(X, y)
        except (TypeError, ValueError):
            pytest.skip("the encoder refuses this kind of missing value in training")
        ensemble = tp.parse_model(pipeline, X=X)
        compared = 0
        for kinds in [(), trained]:
            values = ["red", "blue", *(KINDS[kind] for kind in kinds), UNKNOWN]
            rows = pd.DataFrame({"color": pd.Series(values, dtype=object), "age": 0.1})
            try:
                own = pipeline.predict(rows)
            except (TypeError, ValueError):
                continue  # there is no prediction to compare with
            composed = ensemble.margin(rows)[:, 0]
            np.testing.assert_allclose(composed, own, rtol=1e-6, err_msg=str(values))
            compared += 1
    assert compared or "error" in name
