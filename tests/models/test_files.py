"""Model files are recognised by content, and bad ones are named."""

import json
import pickle
import sys

import numpy as np
import pytest

from treepurify.engines.tree.purify import purify
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.files import parse_file
from treepurify.models.parse import parse_model, raw_margin

N_ROWS = 120


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    return X, X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture(scope="module")
def xgboost_model(data):
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(*data)


@pytest.mark.parametrize("name", ["model.json", "model.ubj"])
def test_xgboost_round_trip(tmp_path, data, xgboost_model, name):
    path = tmp_path / name
    xgboost_model.save_model(path)
    for argument in (path, str(path)):
        ensemble = parse_model(argument)
        np.testing.assert_array_equal(
            ensemble.margin(data[0])[:, 0], xgboost_model.predict(data[0])
        )


@pytest.mark.parametrize("suffix", [".model", ".bin", ".txt", ""])
def test_the_content_decides(tmp_path, data, xgboost_model, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(xgboost_model.get_booster().save_raw("ubj"))
    expected = parse_model(xgboost_model).margin(data[0])
    np.testing.assert_array_equal(parse_file(path).margin(data[0]), expected)


@pytest.mark.parametrize("raw_format", ["json", "ubj"])
@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99])
def test_xgboost_cut_short(tmp_path, xgboost_model, raw_format, kept):
    content = xgboost_model.get_booster().save_raw(raw_format)
    path = tmp_path / f"model.{raw_format}"
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InvalidInputError, match=r"model\.(json|ubj).*(cut short|damaged)"):
        parse_file(path)


def test_unsupported_models_name_the_file(tmp_path, data):
    xgboost = pytest.importorskip("xgboost")
    linear = xgboost.XGBRegressor(booster="gblinear", updater="coord_descent", n_jobs=1)
    path = tmp_path / "linear.json"
    # New versions warn that this booster will go.
    with xgboost.config_context(verbosity=0):
        linear.fit(*data).save_model(path)
    with pytest.raises(UnsupportedModelError, match=r"linear\.json.*gblinear"):
        parse_file(path)


def test_lightgbm_round_trip(tmp_path, data):
    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("treepurify.models.lightgbm")
    parameters = {"num_leaves": 5, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(parameters, lightgbm.Dataset(data[0], data[1]), 4)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    margin = parse_file(path).margin(data[0])
    np.testing.assert_array_equal(margin[:, 0], booster.predict(data[0], raw_score=True))
    path.write_text(path.read_text()[: path.stat().st_size // 2])
    with pytest.raises((InvalidInputError, UnsupportedModelError), match=r"model\.txt"):
        parse_file(path)


@pytest.mark.parametrize("file_format", ["json", "cbm"])
def test_catboost_round_trip(tmp_path, data, file_format):
    catboost = pytest.importorskip("catboost")
    pytest.importorskip("treepurify.models.catboost")
    model = catboost.CatBoostRegressor(
        iterations=4, depth=3, verbose=False, allow_writing_files=False, thread_count=1
    ).fit(*data)
    path = tmp_path / f"model.{file_format}"
    model.save_model(str(path), format=file_format)
    margin = parse_file(path).margin(data[0])
    np.testing.assert_allclose(margin[:, 0], model.predict(data[0]), rtol=1e-12, atol=1e-12)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises((InvalidInputError, UnsupportedModelError), match=f"model.{file_format}"):
        parse_file(path)


def test_ebm_round_trip(tmp_path, data):
    glassbox = pytest.importorskip("interpret.glassbox")
    pytest.importorskip("treepurify.models.ebm")
    model = glassbox.ExplainableBoostingRegressor(
        interactions=1, max_rounds=10, outer_bags=1, n_jobs=1
    ).fit(*data)
    path = tmp_path / "ebm.json"
    with pytest.warns(UserWarning, match="JSON"):
        model.to_json(str(path))
    margin = parse_file(path).margin(data[0])
    np.testing.assert_allclose(margin[:, 0], model.predict(data[0]), rtol=1e-12)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InvalidInputError, match=r"absent\.json.*does not exist"):
        parse_file(tmp_path / "absent.json")
    with pytest.raises(InvalidInputError, match="folder"):
        parse_file(tmp_path)


def test_pickles_are_not_opened(tmp_path):
    bomb = pickle.dumps(pytest.fail)
    for name in ("model.pkl", "model.pickle", "model.joblib", "model.json"):
        path = tmp_path / name
        path.write_bytes(bomb)
        with pytest.raises(
            UnsupportedModelError, match=r"load it yourself.*save\(.effects\.tpz.\)"
        ):
            parse_file(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"", "empty"),
        ("a.json", b" \n", "empty"),
        ("a.json", b"[1, 2]", "supported format"),
        ("a.json", b"{}", "no keys"),
        ("a.json", json.dumps({"weights": [1]}).encode(), "'weights'"),
        ("a.json", b'{"learner": {', "cut short"),
        ("a.json", b'{"learner": 3}', "learner"),
        ("a.txt", b"some text", "supported format"),
        ("a.csv", bytes(range(128, 256)), "supported format"),
        ("a.tpz", b"PK\x03\x04", "saved decomposition"),
        ("a.model", b"\x00\x00\x00\x3f\x1c\x00\x00\x00\xff\xff", "old binary format"),
        ("a.ubj", b"{L\x00\x00", "cut short"),
        ("a.ubj", b"{L" + b"\xff" * 20, "cut short"),
        ("a.ubj", b"{i\x01ai\x02}", "learner"),
    ],
)
def test_files_of_no_known_format(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message) as caught:
        parse_file(path)
    assert name in str(caught.value)


def written_by(library, data, folder):
    """A model file and the raw predictions of the model that wrote it."""
    X, y = data
    if library.startswith("xgboost"):
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.train({"max_depth": 2, "nthread": 1}, xgboost.DMatrix(X, y), 5)
        path = folder / f"model.{library.rpartition(' ')[2]}"
        model.save_model(path)
        return path, model.predict(xgboost.DMatrix(X), output_margin=True)
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        parameters = {"num_leaves": 3, "verbose": -1, "num_threads": 1}
        model = lightgbm.train(parameters, lightgbm.Dataset(X, y), 5)
        model.save_model(folder / "model.txt")
        return folder / "model.txt", model.predict(X, raw_score=True)
    if library.startswith("catboost"):
        catboost = pytest.importorskip("catboost")
        options = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
        model = catboost.CatBoostRegressor(iterations=5, depth=2, **options).fit(X, y)
        path = folder / f"model.{library.rpartition(' ')[2]}"
        model.save_model(str(path), format=path.suffix[1:])
        return path, model.predict(X)
    glassbox = pytest.importorskip("interpret.glassbox")
    model = glassbox.ExplainableBoostingRegressor(max_rounds=9, outer_bags=1, n_jobs=1).fit(X, y)
    with pytest.warns(UserWarning, match="JSON"):
        model.to_json(str(folder / "model.json"))
    return folder / "model.json", model.predict(X)


LIBRARIES = [
    "xgboost json",
    "xgboost ubj",
    "lightgbm",
    "catboost json",
    "catboost cbm",
    "interpret",
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_is_compared_with_its_library(tmp_path, data, library):
    path, expected = written_by(library, data, tmp_path)
    unusual = path.rename(tmp_path / "model.unknown")
    for file in (unusual, str(unusual)):
        margin = raw_margin(file, data[0])
        np.testing.assert_allclose(margin[:, 0], expected, rtol=1e-14, atol=1e-14)
    d = purify(unusual, data[0], weights="empirical", progress=False)
    assert d.certificate.margin_error <= 1e-6
    assert d.verify(unusual, data[0]).source == "raw prediction of the library"


@pytest.mark.parametrize("library", [name for name in LIBRARIES if name != "catboost cbm"])
def test_a_file_without_its_library(tmp_path, monkeypatch, data, library):
    path, expected = written_by(library, data, tmp_path)
    monkeypatch.setitem(sys.modules, library.split()[0], None)
    assert raw_margin(path, data[0]) is None
    d = purify(path, data[0], weights="empirical", progress=False)
    assert d.certificate.margin_error is None
    np.testing.assert_allclose(d.predict(data[0]), expected, rtol=1e-5, atol=1e-5)
    assert d.verify(path, data[0]).source == "parsed model"


def test_a_file_of_a_newer_version_is_not_compared(tmp_path, data, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    path, _ = written_by("xgboost ubj", data, tmp_path)
    assert raw_margin(path, data[0]) is not None
    monkeypatch.setattr(xgboost, "__version__", "1.7.6")
    assert raw_margin(path, data[0]) is None
    assert raw_margin(path, data[0], parse_file(path)) is None


def test_a_file_that_its_library_cannot_read(tmp_path, data):
    path, _ = written_by("interpret", data, tmp_path)
    document = json.loads(path.read_text())
    del document["ebm"]["outputs"][0]["min_target"]
    path.write_text(json.dumps(document))
    assert raw_margin(path, data[0]) is None
    assert (
        purify(path, data[0], weights="empirical", progress=False).certificate.margin_error is None
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"learner": {}, "learner": {}}', "'learner' more than once"),
        ('{"ebm": {"a": [{"b": 1, "c": 2, "b": 1}]}}', "'b' more than once"),
        ('{"learner": ' + "[" * 100_000, "nested too deeply"),
        ('{"learner": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"learner": ' + "7" * 50_000 + "}", "digits"),
    ],
)
def test_json_that_readers_do_not_agree_on(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=message):
        parse_file(path)


def test_a_crash_of_catboost_does_not_end_the_process(tmp_path, data, monkeypatch):
    path, _ = written_by("catboost cbm", data, tmp_path)
    monkeypatch.setattr("treepurify.models.library_child._START", "import os; os.abort()")
    with pytest.raises(InvalidInputError, match=r"catboost crashes on .*model\.cbm"):
        parse_file(path)


def test_a_crash_during_the_comparison_is_told(tmp_path, data, monkeypatch):
    path, expected = written_by("catboost json", data, tmp_path)
    monkeypatch.setattr("treepurify.models.library_child._START", "import os; os.abort()")
    d = purify(path, data[0], weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(data[0]), expected, rtol=1e-12)
    assert d.certificate.margin_error is None
    assert "not compared with its library: catboost crashes" in d.certificate.note
    assert d.verify(path, data[0]).source == "parsed model"


@pytest.mark.parametrize("library", ["catboost json", "catboost cbm"])
def test_catboost_loads_no_file_in_this_process(tmp_path, data, monkeypatch, library):
    catboost = pytest.importorskip("catboost")
    path, _ = written_by(library, data, tmp_path)
    monkeypatch.setattr(catboost.CatBoost, "load_model", lambda *_, **__: pytest.fail("loaded"))
    assert (
        purify(path, data[0], weights="empirical", progress=False).certificate.margin_error <= 1e-9
    )


def test_dumps_for_people_are_told_from_model_files(tmp_path):
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    booster = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y).booster_
    (tmp_path / "lightgbm.json").write_text(json.dumps(booster.dump_model()))
    advice = r"LightGBM's dump_model\(\).*save_model\(\"model\.txt\"\)"
    with pytest.raises(InvalidInputError, match=advice):
        parse_model(tmp_path / "lightgbm.json")
    with pytest.raises(UnsupportedModelError, match=advice):
        parse_model(booster.dump_model())
    trees = xgboost.XGBRegressor(n_estimators=2).fit(X, y).get_booster()
    for form in ("json", "text"):
        trees.dump_model(tmp_path / f"xgboost.{form}", dump_format=form)
        with pytest.raises(InvalidInputError, match=r"XGBoost's dump_model\(\).*model\.ubj"):
            parse_model(tmp_path / f"xgboost.{form}")
