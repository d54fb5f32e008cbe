"""The command that explains rows against a reference population."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import treepurify as tp
from treepurify.cli.app import app
from treepurify.cli.explaining import read_texts
from treepurify.errors import InvalidInputError


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    xgboost = pytest.importorskip("xgboost")
    path = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)).round(2), columns=["late", "defaults", "age"])
    y = X["late"] + X["late"] * X["defaults"] - X["age"] + rng.normal(size=400)
    table = X.assign(loss=y, id=[f"case {i}" for i in range(400)])
    table[:20].to_csv(path / "rejected.csv", index=False)
    table[20:].to_csv(path / "approved.csv", index=False)
    xgboost.XGBRegressor(n_estimators=20, max_depth=2).fit(X, y).save_model(path / "model.json")
    (path / "texts.csv").write_text(
        "feature,group,high,low\n"
        'late,payment history,"Late, or defaulted",\n'
        "defaults,payment history,,\n"
        "age,,Young,Old\n"
    )
    return path


def command(folder, *words):
    return run(
        "explain", folder / "model.json", folder / "rejected.csv", "--reference",
        folder / "approved.csv", "--target-column", "loss", "--id-column", "id", "--quiet", *words,
    )  # fmt: skip


@pytest.fixture(scope="module")
def expected(folder):
    def read(name):
        return pd.read_csv(folder / f"{name}.csv").set_index("id").drop(columns="loss")

    return tp.reason_codes(
        folder / "model.json", read("rejected"), reference=read("approved"), top=2,
        groups={"payment history": ["late", "defaults"]},
        texts={"payment history": {"high": "Late, or defaulted"}, "age": {"high": "Young"}},
        progress=False,
    )  # fmt: skip


def test_the_file_holds_what_python_returns(folder, expected, tmp_path):
    out = tmp_path / "reasons.csv"
    result = command(folder, "--texts", folder / "texts.csv", "--top", 2, "--out", out)
    assert result.exit_code == 0, result.output
    found, truth = pd.read_csv(out), expected.table()
    assert found[["row", "reason", "text"]].equals(truth[["row", "reason", "text"]].astype(str))
    np.testing.assert_allclose(found["contribution"], truth["contribution"])
    assert "20 rows, compared with" in result.output
    assert "Late, or defaulted" in result.output


def test_json_and_csv_on_standard_output(folder, expected, tmp_path):
    words = ("--texts", folder / "texts.csv", "--top", 2, "--format")
    printed = json.loads(command(folder, *words, "json").output)
    assert printed == json.loads(expected.to_json())
    out = tmp_path / "reasons.json"
    assert command(folder, *words, "json", "--out", out).exit_code == 0
    assert json.loads(out.read_text(encoding="utf-8")) == printed
    assert command(folder, *words, "csv").output.startswith("row,rank,reason,text")


def test_refusals(folder):
    result = command(folder, "--output", "other")
    assert result.exit_code == 1
    assert "no output" in result.output
    result = command(folder, "--adverse", "up")
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name,group\na,b\n", "must have the column feature"),
        ("feature,text\na,b\n", "its columns are feature, text"),
        ("feature,high\na,b\na,c\n", "names 'a' twice"),
        ("feature,high\n,b\n", "a line without a feature"),
        ("feature,group,high\na,g,b\nc,g,d\n", "two texts for 'g'"),
        ("feature,high\na,b, c\n", "in quotes"),
        ("", "must have the column feature"),
    ],
)
def test_texts_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "texts.csv"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=words):
        read_texts(path)
