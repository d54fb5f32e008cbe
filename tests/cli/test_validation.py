"""The commands gap, drift and weak-spots print what Python returns."""

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treepurify as tp
from tests.validation.cases import rows
from treepurify.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli")
    X, group, y = rows(400)
    table = X.assign(sex=group, paid=np.where(y, "yes", "no"))
    table.to_csv(path / "rows.csv", index=False)
    table.assign(a=table["a"] + 0.5).to_csv(path / "later.csv", index=False)
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1).fit(X, y)
    model.save_model(path / "model.json")
    return path


def read(folder, name):
    table = pd.read_csv(folder / name)
    return table[list("abcd")], table["sex"], (table["paid"] == "yes").astype(float)


def decomposed(folder):
    X = read(folder, "rows.csv")[0]
    return tp.purify(folder / "model.json", X, missing_cells="always", progress=False)


def test_gap(folder, tmp_path):
    pytest.importorskip("matplotlib")
    result = run(
        "gap", folder / "model.json", folder / "rows.csv", "--group-column", "sex",
        "--target-column", "paid", "--positive", "yes", "--threshold", 0.5,
        "--out", tmp_path / "gap.csv", "--figure", tmp_path / "gap.png", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    X, group, y = read(folder, "rows.csv")
    d = decomposed(folder)
    truth = tp.group_gap(d, X, group, y, threshold=0.5, progress=False)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "gap.csv"), truth.to_frame())
    assert all(line in result.output for line in truth.summary())
    assert (tmp_path / "gap.png").stat().st_size > 1000
    cut = run(
        "gap", folder / "model.json", folder / "rows.csv", "--group-column", "a", "--cut", 0,
        "--drop-column", "paid", "--drop-column", "sex", "--quiet",
    )  # fmt: skip
    assert cut.exit_code == 0, cut.output
    assert "below 0" in cut.output


@pytest.mark.parametrize("has_target", [True, False])
def test_drift(folder, tmp_path, has_target):
    words = ("--target-column", "paid", "--positive", "yes") if has_target else (
        "--drop-column", "paid",
    )  # fmt: skip
    result = run(
        "drift", folder / "model.json", folder / "rows.csv", folder / "later.csv", *words,
        "--drop-column", "sex", "--out", tmp_path / "drift.csv", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (X, _, y), (later, _, y_later) = (read(folder, name) for name in ("rows.csv", "later.csv"))
    observed = (y, y_later) if has_target else (None, None)
    names = ("rows.csv", "later.csv")
    truth = tp.drift(decomposed(folder), X, later, *observed, names=names, progress=False)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "drift.csv"), truth.to_frame())
    assert all(line in result.output for line in truth.summary())


def test_weak_spots(folder, tmp_path):
    pytest.importorskip("matplotlib")
    result = run(
        "weak-spots", folder / "model.json", folder / "rows.csv", "--target-column", "paid",
        "--positive", "yes", "--drop-column", "sex", "--min-share", 0.3, "--spots", 3,
        "--out", tmp_path / "spots.csv", "--figure", tmp_path / "spots.png", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    X, _, y = read(folder, "rows.csv")
    options = {"min_share": 0.3, "n_spots": 3, "progress": False}
    truth = tp.weak_spots(decomposed(folder), X, y, **options)
    assert len(truth.spots) > 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "spots.csv"), truth.to_frame())
    assert all(line in result.output for line in truth.summary(0))
    assert truth.spots[0].words() in result.output
    assert (tmp_path / "spots.png").stat().st_size > 1000
