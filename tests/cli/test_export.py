"""The command that writes a saved decomposition for other programs."""

import json
import pickle
import sqlite3
from contextlib import closing

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from interpret.glassbox import ExplainableBoostingRegressor
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor
from typer.testing import CliRunner

import treepurify as tp
from treepurify.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    for name, depth in (("pairs", 2), ("deep", 3)):
        model = GradientBoostingClassifier(max_depth=depth, n_estimators=10, random_state=0)
        model.fit(X, X["a"] * X["b"] + X["c"] > 0)
        tp.purify(model, X, progress=False).save(folder / f"{name}.tpz")
    return folder, X


@pytest.mark.filterwarnings("ignore:JSON formats are in beta")
@pytest.mark.parametrize("name", ["XGBoost", "LightGBM", "CatBoost", "EBM", "pickle"])
def test_a_model_file_in_the_place_of_a_decomposition(name, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=list("ab"))
    path = tmp_path / "model.json"
    if name == "XGBoost":
        xgboost.XGBRegressor(n_estimators=2).fit(X, X["a"]).save_model(path)
    elif name == "LightGBM":
        model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, X["a"])
        model.booster_.save_model(path)
    elif name == "CatBoost":
        model = catboost.CatBoostRegressor(2, verbose=0, allow_writing_files=False)
        model.fit(X, X["a"]).save_model(path, format="json")
    elif name == "EBM":
        ExplainableBoostingRegressor(max_rounds=5, n_jobs=1).fit(X, X["a"]).to_json(str(path))
    else:
        path.write_bytes(pickle.dumps({"model": 1}))
    advice = "run purify first" if name != "pickle" else "is a pickle"
    with pytest.raises(tp.errors.SavedFileError, match=f"not a saved decomposition.*{advice}"):
        tp.load(path)
    for words in (
        ("export", path, "--to", "sql", "--out", tmp_path / "page.html"),
        ("report", path, "--out", tmp_path / "page.html"),
    ):
        refused = run(*words)
        assert refused.exit_code != 0
        assert advice in " ".join(refused.output.split())
        assert not (tmp_path / "page.html").exists()


def test_sql(saved, tmp_path):
    folder, X = saved
    out = tmp_path / "query.sql"
    done = run(
        "export", folder / "pairs.tpz", "--to", "sql", "--table", "people",
        "--keep", "id", "--scale", "response", "--out", out,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert str(out) in done.stdout
    with closing(sqlite3.connect(":memory:")) as connection:
        X.rename_axis("id").to_sql("people", connection)
        found = pd.read_sql(out.read_text(), connection).sort_values("id")
    expected = tp.load(folder / "pairs.tpz").predict(X, scale="response")
    np.testing.assert_allclose(found["response"], expected, atol=1e-12)


def test_ebm(saved, tmp_path):
    pytest.importorskip("interpret")
    folder, X = saved
    done = run("export", folder / "pairs.tpz", "--to", "ebm", "--out", tmp_path / "ebm.json")
    assert done.exit_code == 0, done.output
    expected = tp.load(folder / "pairs.tpz").on_rows(X)
    found = tp.parse_model(tmp_path / "ebm.json").margin(X)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_an_ebm_of_a_model_file_keeps_its_class_labels(tmp_path):
    catboost = pytest.importorskip("catboost")
    pytest.importorskip("interpret")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=list("ab"))
    y = np.where(X["a"] > 0, "größer", "no")
    model = catboost.CatBoostClassifier(iterations=5, depth=2, verbose=0, thread_count=1).fit(X, y)
    model.save_model(str(tmp_path / "model.json"), format="json")
    X.to_csv(tmp_path / "rows.csv", index=False)
    paths = {name: tmp_path / name for name in ("model.json", "rows.csv", "out", "ebm.json")}
    done = run("purify", paths["model.json"], paths["rows.csv"], "--out", paths["out"])
    assert done.exit_code == 0, done.output
    done = run(
        "export", paths["out"] / "decomposition.tpz", "--to", "ebm", "--out", paths["ebm.json"]
    )
    assert done.exit_code == 0, done.output
    (output,) = json.loads(paths["ebm.json"].read_text())["ebm"]["outputs"]
    assert output["classes"] == ["größer", "no"]


def test_the_file_beside_the_decomposition(saved, tmp_path):
    folder, _ = saved
    copy = tmp_path / "d.tpz"
    copy.write_bytes((folder / "pairs.tpz").read_bytes())
    assert run("export", copy, "--to", "sql").exit_code == 0
    assert (tmp_path / "d.sql").read_text().endswith("FROM margins;\n")


@pytest.mark.filterwarnings("default::treepurify.errors.RemainderWarning")
@pytest.mark.parametrize("to", ["sql", "ebm"])
def test_a_remainder_is_refused_or_dropped(saved, tmp_path, to):
    pytest.importorskip("interpret")
    folder, _ = saved
    out = tmp_path / "out"
    done = run("export", folder / "deep.tpz", "--to", to, "--out", out)
    assert done.exit_code == 1
    assert "predictions change by" in done.output
    assert "--remainder drop" in done.output
    assert not out.exists()
    done = run("export", folder / "deep.tpz", "--to", to, "--out", out, "--remainder", "drop")
    assert done.exit_code == 0, done.output
    assert "warning" in done.output
    assert "predictions change by" in done.output
    assert out.exists()


def test_options_of_another_target(saved):
    folder, _ = saved
    done = run("export", folder / "pairs.tpz", "--to", "ebm", "--table", "people")
    assert done.exit_code == 2
    assert "to_ebm does not take --table" in " ".join(done.output.split())
    done = run("export", folder / "pairs.tpz", "--to", "sqll")
    assert done.exit_code == 1
    assert 'did you mean "sql"' in done.output


def test_relativities(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    y = rng.poisson(np.exp(0.5 * X["a"] + (X["a"] > 0) * (X["b"] > 0)))
    model = HistGradientBoostingRegressor(loss="poisson", max_depth=2, max_iter=20).fit(X, y)
    d = tp.purify(model, X, progress=False)
    d.save(tmp_path / "d.tpz")
    done = run("export", tmp_path / "d.tpz", "--to", "relativities")
    assert done.exit_code == 0, done.output
    read = pd.read_csv(tmp_path / "d.csv")
    np.testing.assert_array_equal(read["factor"], tp.export.to_relativities(d)["factor"])
