"""The commands that compare, audit and report."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.analysis.comparison import compare
from treepurify.auditing import audit
from treepurify.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"a": rng.normal(size=300), "kind": pd.Categorical(rng.choice(["u", "v"], 300))}
    )
    y = X["a"] * (X["kind"] == "u") + X["a"] ** 2
    for name, n_trees in (("one", 20), ("two", 5)):
        model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=2, enable_categorical=True)
        model.fit(X, y).save_model(path / f"{name}.json")
    X.assign(price=y).to_csv(path / "data.csv", index=False)
    X.to_parquet(path / "features.parquet")
    return path


@pytest.fixture
def labelled(folder):
    needs_stored_labels(folder / "one.json")


def rows(folder):
    return pd.read_parquet(folder / "features.parquet")


@pytest.mark.usefixtures("labelled")
def test_compare_two_distributions(folder, tmp_path):
    out = tmp_path / "terms.csv"
    result = run(
        "compare", folder / "one.json", folder / "data.csv", "--target-column", "price", "--quiet",
        "--weights", "empirical", "--weights", "uniform", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    X = rows(folder)
    truth = compare(
        tp.purify(folder / "one.json", X), tp.purify(folder / "one.json", X, weights="uniform"), X
    )
    for line in truth.verdict():
        assert line in result.output
    table = pd.read_csv(out)
    assert list(table["term"]) == list(truth.terms["term"])
    assert table["distance"].to_numpy() == pytest.approx(truth.terms["distance"].to_numpy())


def test_compare_two_models(folder):
    result = run(
        "compare", folder / "one.json", folder / "features.parquet", "--quiet", "--top", 1,
        "--other-model", folder / "two.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Compared: one.json, with two.json, under the 300 given rows." in result.output
    wrong = run("compare", folder / "one.json", folder / "features.parquet", "--weights", "uniform")
    assert wrong.exit_code == 2
    assert "twice" in wrong.output


@pytest.mark.usefixtures("labelled")
def test_audit_writes_findings_and_report(folder, tmp_path):
    out = tmp_path / "audit"
    result = run(
        "audit", folder / "one.json", folder / "data.csv", "--target-column", "price",
        "--resamplings", 2, "--out", out, "--pictures", 1, "--examples", 3, "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    truth = audit(folder / "one.json", rows(folder), n_bootstrap=2, progress=False)
    assert truth.findings
    for line in truth.summary()[:4]:
        assert line in result.output
    table = pd.read_csv(out / "findings.csv")
    assert list(table["sentence"]) == [finding.sentence for finding in truth.findings]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Findings" in page
    assert "treepurify audit" in page
    assert '"rows":[[' in page


def test_report_of_a_saved_decomposition(folder, tmp_path):
    X = rows(folder)
    tp.purify(folder / "one.json", X).save(tmp_path / "d.tpz")
    tp.purify(folder / "one.json", X, weights="uniform").save(tmp_path / "u.tpz")
    out = tmp_path / "page.html"
    result = run(
        "report", tmp_path / "d.tpz", "--out", out, "--against", tmp_path / "u.tpz", "--pictures", 1
    )
    assert result.exit_code == 0, result.output
    assert '"purified, uniform"' in out.read_text(encoding="utf-8")
    broken = tmp_path / "broken.tpz"
    broken.write_text("no")
    refused = run("report", broken, "--out", out)
    assert refused.exit_code == 1
    assert "treepurify: " in refused.output


@pytest.mark.usefixtures("labelled")
def test_an_audit_needs_rows(folder, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("a,kind\n")
    result = run("audit", folder / "one.json", empty, "--quiet", "--out", tmp_path / "x")
    assert result.exit_code == 1
    assert "rows" in result.output
