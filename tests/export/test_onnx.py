"""The ONNX model gives what the decomposition gives, in onnxruntime."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.export.written import CASES, check_same
from treepurify.export import to_onnx

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@cache
def written(name):
    return CASES[name]()


def run(model, stored, kind=np.float64):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {}
    for expected in session.get_inputs():
        column = stored[expected.name]
        if expected.type == "tensor(string)":
            feeds[expected.name] = column.fillna("").to_numpy(dtype=object)[:, None]
        else:
            with np.errstate(over="ignore"):
                feeds[expected.name] = column.to_numpy(dtype=float, na_value=np.nan)[
                    :, None
                ].astype(kind)
    return session.run(None, feeds)[0]


@pytest.fixture(params=CASES)
def one(request):
    found = written(request.param)
    # Empty text stands for a missing category.
    filled = found.stored.replace("", None)
    return type(found)(found.d, found.X.replace("", None), filled)


def test_the_model_gives_the_margin(one):
    found = run(to_onnx(one.d), one.stored)
    assert found.dtype == np.float64
    check_same(found, one.margins, one.d)


def test_single_precision_is_the_same_as_rounded_rows(one):
    numbers = [c for c in one.X if pd.api.types.is_float_dtype(one.X[c])]
    with np.errstate(over="ignore"):
        rounded = one.X.astype(dict.fromkeys(numbers, np.float32))
    model = to_onnx(one.d, input_type="float32")
    check_same(run(model, one.stored, np.float32), one.d.on_rows(rounded), one.d)


@pytest.mark.parametrize("case", ["regressor", "classifier", "classes", "counts"])
def test_the_model_gives_the_response(case):
    one = written(f"xgboost_{case}")
    stored = one.stored.replace("", None)
    found = run(to_onnx(one.d, scale="response"), stored)
    expected = one.d.predict(one.X.replace("", None), scale="response").reshape(len(stored), -1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_what_has_no_cell_gives_nan():
    X = pd.DataFrame({"x": [0.0, 1.0]})
    d = tp.purify(DecisionTreeRegressor().fit(X, [0.0, 4.0]), X, weights="empirical")
    found = run(to_onnx(d), pd.DataFrame({"x": [0.0, np.nan, 1.0]}))
    np.testing.assert_array_equal(found[:, 0], [0.0, np.nan, 4.0])


def test_no_effects():
    X = pd.DataFrame({"x": [0.0, 1.0]})
    d = tp.purify(DecisionTreeRegressor().fit(X, [4.0, 4.0]), X, weights="empirical")
    with pytest.raises(tp.errors.UnsupportedModelError, match="no effects"):
        to_onnx(d)


def test_the_file_and_its_facts(tmp_path):
    import onnx

    one = written("xgboost_regressor")
    path = tmp_path / "model.onnx"
    model = to_onnx(one.d, path)
    read = onnx.load(path)
    assert read == model
    facts = {fact.key: fact.value for fact in read.metadata_props}
    assert facts["measure"] == "empirical"
    assert [given.name for given in read.graph.input] == list(one.d.feature_names)
    assert [given.name for given in read.graph.output] == ["margin"]


def test_a_remainder_is_refused_or_named_in_the_model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    model = DecisionTreeRegressor(max_depth=3).fit(X, X.prod(axis=1))
    d = tp.purify(model, X, weights="empirical", order=1, progress=False)
    with pytest.raises(tp.errors.UnsupportedModelError, match="an ONNX model cannot contain"):
        to_onnx(d)
    with pytest.warns(tp.errors.RemainderWarning, match="predictions change by"):
        model = to_onnx(d, remainder="drop")
    assert "without the remainder" in [fact.key for fact in model.metadata_props]
    np.testing.assert_allclose(
        run(model, X) + d.remainder.on_rows(X), d.on_rows(X), rtol=0, atol=1e-12
    )


def test_what_cannot_be_written():
    X = pd.DataFrame({"margin": [0.0, 1.0]})
    d = tp.purify(DecisionTreeRegressor().fit(X, [0.0, 4.0]), X, weights="empirical")
    with pytest.raises(tp.errors.InvalidInputError, match="the name of the output, 'margin'"):
        to_onnx(d)
    with pytest.raises(tp.errors.InvalidInputError, match="input_type must be"):
        to_onnx(d, input_type="float16")
    with pytest.raises(tp.errors.MemoryBudgetError, match="an ONNX model of"):
        to_onnx(written("xgboost_regressor").d, memory_budget=10)
