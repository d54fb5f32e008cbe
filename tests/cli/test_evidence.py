"""The commands that look at held-out rows."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treepurify as tp
from treepurify.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(800, 3)).round(2), columns=["a", "b", "c"])
    y = X["a"] + X["a"] * X["b"] + rng.normal(size=800)
    table = X.assign(price=y, bought=np.where(y > 0, "yes", "no"))
    table[:400].to_csv(path / "train.csv", index=False)
    table[400:].to_csv(path / "test.csv", index=False)
    options = {"n_estimators": 20, "max_depth": 2}
    regressor = xgboost.XGBRegressor(**options).fit(X[:400], y[:400])
    regressor.save_model(path / "price.json")
    classifier = xgboost.XGBClassifier(**options).fit(X[:400], (y[:400] > 0).astype(int))
    classifier.save_model(path / "bought.json")
    return path


def read(folder, name):
    table = pd.read_csv(folder / f"{name}.csv")
    return table[["a", "b", "c"]], table["price"], (table["bought"] == "yes").astype(float)


def test_worth_prints_what_python_returns(folder, tmp_path):
    out = tmp_path / "worth.csv"
    result = run(
        "worth", folder / "price.json", folder / "train.csv", folder / "test.csv",
        "--target-column", "price", "--drop-column", "bought", "--quiet", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    d = tp.purify(folder / "price.json", read(folder, "train")[0], missing_cells="always")
    truth = tp.effect_worth(d, *read(folder, "test")[:2]).to_frame()
    table = pd.read_csv(out)
    assert list(table["term"]) == list(truth["term"])
    np.testing.assert_allclose(table["worth"], truth["worth"])
    assert f"{truth['worth'].iloc[0]:.4g}" in result.output


def test_folders_of_parquet(folder, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("treepurify.evidence.held_out.HELD_OUT_ROWS", 200)
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
        table = pd.read_csv(folder / f"{name}.csv")
        for part in range(4):
            own = table[100 * part : 100 * part + 100]
            own.to_parquet(tmp_path / name / f"{part}.parquet")
    files = (folder / "bought.json", tmp_path / "train", tmp_path / "test" / "*.parquet")
    words = ("--target-column", "bought", "--drop-column", "price", "--positive", "yes", "--quiet")
    result = run("worth", *files, *words, "--out", tmp_path / "worth.csv")
    assert result.exit_code == 0, result.output
    assert "a sample of 200 of the 400 rows" in result.output
    d = tp.purify(folder / "bought.json", read(folder, "train")[0], missing_cells="always")
    X, _, y = read(folder, "test")
    truth = tp.effect_worth(d, X, y).to_frame().set_index("term")
    found = pd.read_csv(tmp_path / "worth.csv").set_index("term").loc[truth.index]
    np.testing.assert_allclose(found["variance"], truth["variance"], rtol=1e-9)
    error = np.hypot(found["standard_error"], truth["standard_error"])
    assert np.all(np.abs(found["worth"] - truth["worth"]) < 5 * error)
    result = run("simplify", *files, *words, "--out", tmp_path / "simple", "--pictures", 0)
    assert result.exit_code == 0, result.output
    assert "a sample of 200 of the 400 rows" in result.output
    words = (*words, "--held-out", files[2], "--resamplings", 0, "--pictures", 0)
    result = run("audit", *files[:2], *words, "--out", tmp_path / "audit")
    assert result.exit_code == 0, result.output
    assert "Held out: The rows are a sample of 200 of the 400 rows" in result.output
    page = (tmp_path / "audit" / "report.html").read_text(encoding="utf-8")
    assert "sample of 200 of the 400 rows" in page
    refused = run("worth", *files[:2], tmp_path / "no" / "*.parquet", *words[:7])
    assert refused.exit_code == 1


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_simplify_writes_both_tables_in_one_format(folder, tmp_path, kind):
    result = run(
        "simplify", folder / "bought.json", folder / "train.csv", folder / "test.csv",
        "--target-column", "bought", "--drop-column", "price", "--positive", "yes",
        "--tolerance", "100", "--quiet", "--out", tmp_path, "--pictures", 0, "--format", kind,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    # Nothing is left of the model: the tables are there, and that of effects is empty.
    read_table = {"parquet": pd.read_parquet, "json": pd.read_json}[kind]
    assert read_table(tmp_path / f"path.{kind}")["is_chosen"].sum() == 1
    assert len(read_table(tmp_path / f"effects.{kind}")) == 0


def test_simplify_writes_what_is_left(folder, tmp_path):
    out = tmp_path / "simple"
    result = run(
        "simplify", folder / "bought.json", folder / "train.csv", folder / "test.csv",
        "--target-column", "bought", "--drop-column", "price", "--positive", "yes",
        "--tolerance", "0.05", "--quiet", "--out", out, "--pictures", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    X, _, y = read(folder, "test")
    d = tp.purify(folder / "bought.json", read(folder, "train")[0], missing_cells="always")
    simple = tp.simplify(d, X, y, tolerance=0.05)
    assert simple.summary()[0] in result.output
    loaded = tp.load(out / "decomposition.tpz")
    np.testing.assert_allclose(loaded.predict(X), simple.decomposition.predict(X))
    path = pd.read_csv(out / "path.csv")
    np.testing.assert_allclose(path["loss"], simple.to_frame()["loss"])
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--positive", "perhaps"], "no row of"),
        ([], "y must contain 0 and 1"),
        (["--positive", "yes", "--loss", "poisson"], "a model whose predictions are positive"),
        (["--positive", "yes", "--level", "0.9"], "--level belongs to --loss quantile"),
    ],
)
def test_what_cannot_be_used_is_refused(folder, more, message):
    result = run(
        "worth", folder / "bought.json", folder / "train.csv", folder / "test.csv",
        "--target-column", "bought", "--drop-column", "price", "--quiet", *more,
    )  # fmt: skip
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_rows_without_a_target_are_not_taken_for_negatives(folder, tmp_path):
    table = pd.read_csv(folder / "test.csv")
    table.loc[:9, "bought"] = None
    table.to_csv(tmp_path / "gaps.csv", index=False)
    result = run(
        "worth", folder / "bought.json", folder / "train.csv", tmp_path / "gaps.csv", "--quiet",
        "--target-column", "bought", "--drop-column", "price", "--positive", "yes",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "10 rows of" in " ".join(result.output.split())


def test_a_quantile_has_a_level(folder):
    result = run(
        "worth", folder / "price.json", folder / "train.csv", folder / "test.csv", "--quiet",
        "--target-column", "price", "--drop-column", "bought", "--loss", "quantile", "--level", 0.9,
        "--absorb", "none",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "quantile 0.9" in result.output
