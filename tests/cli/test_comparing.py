"""The command that compares: two data sets, two distributions, two models, two saved files."""

import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner
from xgboost import XGBRegressor

import treepurify as tp
from treepurify.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("comparing")
    rng = np.random.default_rng(0)
    periods = {}
    for year in ("2024", "2025"):
        X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "hours"])
        X["hours"] += 0.8 * X["age"] * (year == "2025")
        periods[year] = X
    periods["2025"].iloc[::7, 0] = np.nan
    X = periods["2024"]
    y = X["age"] * X["hours"] + X["age"]
    for year, rows in periods.items():
        rows.assign(price=0.0).to_csv(path / f"{year}.csv", index=False)
    for name, n_trees in (("one", 8), ("two", 4)):
        model = XGBRegressor(n_estimators=n_trees, max_depth=2, n_jobs=1).fit(X, y)
        model.save_model(path / f"{name}.json")
        tp.purify(model, X, progress=False).save(path / f"{name}.tpz")
    other = XGBRegressor(n_estimators=4, max_depth=2, n_jobs=1).fit(X.iloc[::2], y.iloc[::2])
    tp.purify(other, X, progress=False).save(path / "other.tpz")
    return path


def read(folder, year):
    return pd.read_csv(folder / f"{year}.csv").drop(columns="price")


def test_two_periods(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["treepurify", "compare", "one.json"])
    report = tmp_path / "compared.html"
    result = run(
        "compare", folder / "one.json", folder / "2024.csv", "--other-data", folder / "2025.csv",
        "--target-column", "price", "--report", report, "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    X = read(folder, "2024")
    a, b = (
        tp.purify(folder / "one.json", rows, missing_cells="always", progress=False)
        for rows in (X, read(folder, "2025"))
    )
    truth = tp.compare(a, b, X, names=["2024.csv", "2025.csv"])
    for line in truth.verdict():
        assert line in result.output
    page = report.read_text(encoding="utf-8")
    assert "2024.csv" in page
    assert "2025.csv: SHA-256" in page
    assert "treepurify compare" in page


def test_folders_and_patterns_of_parquet(folder, tmp_path):
    pytest.importorskip("pyarrow")
    for year in ("2024", "2025"):
        table = pd.read_csv(folder / f"{year}.csv").assign(weight=[1.0, 3.0] * 100)
        (tmp_path / year).mkdir()
        for part in range(4):
            own = table[50 * part : 50 * part + 50]
            own.to_parquet(tmp_path / year / f"{part}.parquet")
    report = tmp_path / "compared.html"
    result = run(
        "compare", folder / "one.json", tmp_path / "2024", "--other-data",
        tmp_path / "2025" / "*.parquet", "--target-column", "price", "--sample-weight-column",
        "weight", "--out", tmp_path / "terms.csv", "--report", report,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    weights = {"sample_weight": [1.0, 3.0] * 100}
    a, b = (
        tp.purify(
            folder / "one.json",
            read(folder, year),
            missing_cells="always",
            progress=False,
            **weights,
        )
        for year in ("2024", "2025")
    )
    truth = tp.compare(a, b, read(folder, "2024"), **weights)
    found = pd.read_csv(tmp_path / "terms.csv")
    pd.testing.assert_frame_equal(found, truth.terms, rtol=1e-9, atol=1e-12)
    assert "the 200 rows of" in report.read_text(encoding="utf-8")
    assert run("compare", folder / "one.json", tmp_path / "2023").exit_code == 1


@pytest.mark.parametrize("way", ["second in place of the data", "other model", "model and saved"])
def test_two_saved_files(folder, tmp_path, way):
    words = {
        "second in place of the data": [folder / "two.tpz", folder / "other.tpz"],
        "other model": [folder / "one.tpz", folder / "2024.csv", "--target-column", "price",
                        "--other-model", folder / "two.tpz"],
        "model and saved": [folder / "one.json", folder / "2024.csv", "--target-column", "price",
                            "--other-model", folder / "two.tpz"],
    }[way]  # fmt: skip
    result = run("compare", *words, "--quiet", "--out", tmp_path / "terms.csv")
    if way == "second in place of the data":
        assert result.exit_code == 1, result.output
        assert "name a DATA file" in result.output
        assert not (tmp_path / "terms.csv").exists()
        return
    assert result.exit_code == 0, result.output
    shown = pd.read_csv(tmp_path / "terms.csv")
    first, second = (tp.load(folder / f"{name}.tpz") for name in ("one", "two"))
    truth = tp.compare(first, second, read(folder, "2024")).terms
    assert list(shown["term"]) == list(truth["term"])
    np.testing.assert_allclose(shown["distance"], truth["distance"], rtol=1e-9)


def test_saved_files_with_the_same_cells_need_no_rows(folder, tmp_path):
    d = tp.load(folder / "one.tpz")
    d.without("age & hours").save(tmp_path / "edited.tpz")
    out = tmp_path / "terms.csv"
    result = run("compare", folder / "one.tpz", tmp_path / "edited.tpz", "--out", out)
    assert result.exit_code == 0, result.output
    table = pd.read_csv(out)
    assert table.loc[0, "term"] == "age & hours"
    assert table.loc[0, "distance"] == pytest.approx(np.sqrt(d["age", "hours"].variance[0]))


def test_two_distributions_and_two_models(folder):
    files = [folder / "one.json", folder / "2024.csv", "--target-column", "price", "--quiet"]
    X = read(folder, "2024")
    a, b, c = (
        tp.purify(folder / name, X, weights=weights, progress=False)
        for name, weights in (("one.json", "auto"), ("one.json", "uniform"), ("two.json", "auto"))
    )
    for words, names, other in (
        ([], ["auto", "uniform"], b),
        (["--other-model", folder / "two.json"], ["one.json", "two.json"], c),
    ):
        result = run("compare", *files, *words, "--top", 1)
        assert result.exit_code == 0, result.output
        truth = tp.compare(a, other, X, names=names)
        assert result.stdout.startswith(repr(truth))
        assert result.stdout.splitlines()[-1].startswith(truth.terms["term"][0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.tpz"], "compares two sides"),
        (["one.tpz", "2024.csv"], "compares two sides"),
        (["one.json", "2024.csv", "--weights", "uniform"], "compares two sides"),
        (["one.tpz", "two.tpz", "--other-data", "2025.csv"], "already purified"),
        (["one.tpz", "two.tpz", "--weights", "uniform"], "already purified"),
        (["one.json"], "name a DATA file"),
        (["one.json", "two.json"], "--other-model"),
    ],
)
def test_what_means_nothing_is_refused(folder, words, message):
    files = {"one.json", "two.json", "one.tpz", "two.tpz", "2024.csv", "2025.csv"}
    result = run("compare", *(folder / word if word in files else word for word in words))
    assert result.exit_code == (2 if message.endswith(("sides", "purified")) else 1), result.output
    assert message in " ".join(result.output.replace("\u2502", " ").split())


def test_a_forgotten_target_is_answered_with_its_option(folder):
    for command in ("compare", "audit", "purify"):
        result = run(command, folder / "one.json", folder / "2024.csv", "--quiet")
        assert result.exit_code == 1
        assert "name the target with --target-column" in result.output


def test_models_without_names_ask_for_the_target_too(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    XGBRegressor(n_estimators=2, n_jobs=1).fit(X, X[:, 0]).save_model(tmp_path / "m.json")
    pd.DataFrame(np.c_[X, X[:, 0]], columns=list("aby")).to_csv(tmp_path / "x.csv", index=False)
    result = run("purify", tmp_path / "m.json", tmp_path / "x.csv", "--quiet")
    assert result.exit_code == 1
    assert "--target-column" in result.output
