"""A validator's day from the command line alone: three models of applications for credit."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import treepurify as tp
from tests.cli.credit import FEATURES, write_files
from treepurify.cli.app import app

# What is in the files and is no feature.
APART = ("--target-column", "default", "--drop-column", "sex")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for library in ("lightgbm", "xgboost", "interpret", "matplotlib", "yaml"):
        pytest.importorskip(library)
    path = tmp_path_factory.mktemp("day")
    write_files(path, n_rows=400, n_trees=20)
    return path


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def _run(*words, code=0):
        words = [str(word) for word in words]
        result = CliRunner().invoke(app, [*words, "--quiet"], prog_name="treepurify")
        assert result.exit_code == code, result.output
        return result.output

    return _run


@pytest.mark.parametrize("model", ["default.txt", "shallow.json", "ebm.json"])
def test_report_of_the_validation(run, folder, model):
    refits = ("--refit", "again.json", "--refit", "once_more.json")
    output = run(
        "report", model, "--template", "validation", "--data", "test.csv", "--about", "about.yaml",
        "--target-column", "default", "--later", "second_half.csv", "--pictures", 1, "--numbers",
        "--out", f"{model}.html", *(refits if model == "shallow.json" else ()),
    )  # fmt: skip
    assert output.split()[:2] == [f"{model}.html", f"{model}.json"]
    sections = json.loads((folder / f"{model}.json").read_text(encoding="utf-8"))["sections"]
    empty = {name for name, one in sections.items() if "Not filled" in " ".join(one["sentences"])}
    assert empty == ({"trainings"} if model != "shallow.json" else set())
    check = sections["implementation"]["tables"]["verification"][0]
    assert check["n_rows"] == 400
    assert check["relative_difference"] < 1e-6
    assert {one["feature"] for one in sections["monotonicity"]["tables"]["directions"]} == {
        *FEATURES[:5]
    }
    assert (folder / f"{model}.html").read_text(encoding="utf-8").count("SHA-256") > 4


@pytest.mark.parametrize("model", ["default.txt", "shallow.json", "ebm.json"])
def test_reasons_of_the_rejected(run, folder, model):
    run("explain", model, "test.csv", "--threshold", 0.2, *APART, "--out", "reasons.csv")
    reasons = pd.read_csv(folder / "reasons.csv")
    table = pd.read_csv(folder / "test.csv")
    d = tp.purify(folder / model, table[FEATURES].astype({"purpose": "category"}), progress=False)
    refused = d.predict(table[FEATURES].astype({"purpose": "category"}), scale="response") >= 0.2
    assert set(reasons["row"]) <= set(np.flatnonzero(refused))
    assert reasons["row"].nunique() > 0.9 * refused.sum()
    assert (reasons["contribution"] > 0).all()


def test_monotonicity_of_five_features(run):
    directions = (
        "--decreasing", "income", "--increasing", "debt", "--increasing", "late_payments",
        "--decreasing", "employment_years", "--decreasing", "age",
    )  # fmt: skip
    # The constraints prove four; nothing binds a default model.
    output = run("monotonicity", "shallow.json", "train.csv", *APART, *directions[:8])
    assert output.count("proved increasing") == output.count("proved decreasing") == 2
    assert " -0 " not in output
    output = run("monotonicity", "default.txt", "train.csv", *APART, *directions, code=3)
    assert "age is not decreasing" in output


def test_gaps_and_drift(run):
    decision = ("--target-column", "default", "--threshold", 0.2, "--adverse", "high")
    by_sex = run("gap", "shallow.json", "test.csv", "--group-column", "sex", *decision)
    assert "The mean margin is" in by_sex
    age = ("--group-column", "age", "--cut", 30, "--drop-column", "sex")
    assert "below 30" in run("gap", "shallow.json", "test.csv", *age, *decision)
    moved = run("drift", "shallow.json", "first_half.csv", "second_half.csv", *APART)
    assert "The log loss is" in moved


def test_factor_table(run, folder):
    table = pd.read_csv(folder / "train.csv")[["income", "debt", "age", "late_payments"]]
    table.to_csv(folder / "counts.csv", index=False)
    run("purify", "late.json", "counts.csv", "--target-column", "late_payments", "--out", "late")
    run("export", "late/decomposition.tpz", "--to", "relativities", "--out", "factors.csv")
    assert {"income", "debt", "age"} <= set(pd.read_csv(folder / "factors.csv")["term"])
    run("purify", "shallow.json", "train.csv", *APART, "--out", "shallow")
    refused = run("export", "shallow/decomposition.tpz", "--to", "relativities", code=1)
    assert "log link" in refused


def test_champion_against_challenger(run, folder):
    for challenger in ("default.txt", "ebm.json"):
        page = f"{challenger}.compared.html"
        output = run(
            "compare", "shallow.json", "test.csv", "--other-model", challenger, *APART,
            "--report", page, "--pictures", 1,
        )  # fmt: skip
        assert "The effect that differs most is" in output
        assert (folder / page).stat().st_size > 10_000


def test_options_of_the_other_template_are_refused(run):
    output = run("report", "shallow.json", "--about", "about.yaml", code=2)
    assert "applies to --template validation" in " ".join(output.split())
    run("report", "shallow.json", "--template", "validation", "--against", "ebm.json", code=2)
    output = run("report", "shallow.json", "--template", "validation", code=1)
    assert "pass --data" in output


def test_a_threshold_that_refuses_none_is_named(run):
    output = run("explain", "shallow.json", "test.csv", "--threshold", 1.5, *APART, code=1)
    assert "refuses none of the 400 rows" in output
    assert "--threshold" in run("explain", "shallow.json", "test.csv", *APART, code=2)
