"""None, NaN and pandas' NA in columns of labels, which some encoders distinguish."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesRegressor, VotingRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.models.pipelines.cases import UNKNOWN, dense_one_hot, filled, ordinal, xgb
from tests.models.pipelines.test_category_encoders import NAMES, encoders
from treepurify.errors import InvalidInputError

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
def test_each_kind_is_read_as_the_pipeline_reads_it(name, trained):
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
        for kinds in [(), *((kind,) for kind in KINDS), ("None", "NaN")]:
            values = ["red", "blue", *(KINDS[kind] for kind in kinds), UNKNOWN][
                : 2 + len(kinds) + 1
            ]
            rows = pd.DataFrame({"color": pd.Series(values, dtype=object), "age": 0.1})
            try:
                own = pipeline.predict(rows)
            except (TypeError, ValueError):
                continue  # there is no prediction to compare with
            try:
                composed = ensemble.margin(rows)[:, 0]
            except InvalidInputError:
                # What the training did not have may be read as no label at all.
                assert not set(kinds) <= set(trained)
                continue
            np.testing.assert_allclose(composed, own, rtol=1e-6, err_msg=str(values))
            compared += 1
    assert compared or "error" in name


def test_a_kind_that_is_read_as_no_label_is_refused():
    X, y = labels_with([])
    filled_none = filled(ordinal(), strategy="most_frequent", missing_values=None)
    both = FeatureUnion([("filled", filled_none), ("dummies", dense_one_hot())])
    step = ColumnTransformer([("both", both, ["color"])])
    pipeline = make_pipeline(step, ExtraTreesRegressor(9, random_state=0)).fit(X, y)
    ensemble = tp.parse_model(pipeline, X=X)
    rows = X.iloc[:3].copy()
    np.testing.assert_allclose(ensemble.margin(rows)[:, 0], pipeline.predict(rows))
    rows.loc[0, "color"] = None
    with pytest.raises(InvalidInputError, match=r"'color' contains None.*fillna\('missing'\)"):
        ensemble.margin(rows)


def test_kinds_of_pipelines_that_are_averaged():
    X, y = labels_with(["None"], 60)
    inside = make_pipeline(
        ColumnTransformer([("c", dense_one_hot(), ["color"])]), DecisionTreeRegressor()
    )
    votes = VotingRegressor([("whole", inside), ("same", inside)]).fit(X, y)
    rows = pd.DataFrame({"color": pd.Series(["red", None, np.nan, UNKNOWN], dtype=object)})
    rows["age"] = 0.0
    composed = tp.parse_model(votes, X=X).margin(rows)[:, 0]
    np.testing.assert_allclose(composed, votes.predict(rows), rtol=1e-12)
