"""The commands that show interactions, and how the command purify computes effects."""

import json

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
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interactions")
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 4)), columns=list("abcd"))
    y = X["a"] + 2 * np.sign(X["b"] * X["c"])
    model = xgboost.XGBRegressor(n_estimators=30, max_depth=2, n_jobs=1).fit(X, y)
    model.save_model(folder / "model.json")
    X.assign(y=y).to_csv(folder / "data.csv", index=False)
    X = pd.read_csv(folder / "data.csv").drop(columns="y")
    return folder / "model.json", folder / "data.csv", X


def test_h_statistics_are_those_of_the_library(files, tmp_path):
    model, data, X = files
    found = tp.h_statistics(model, X, order=3, progress=False)
    for size, expected in ((1, found.features()), (2, found.pairs()), (3, found.sets(3))):
        out = tmp_path / f"{size}.parquet"
        result = run(
            "h-statistics", model, data, "--target-column", "y", "--size", size, "--out", out, "-q",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        pd.testing.assert_frame_equal(pd.read_parquet(out), expected, check_exact=False)
    printed = run("h-statistics", model, data, "--target-column", "y", "--top", 1, "-q").output
    first = found.pairs().iloc[0]
    assert {first["first"], first["second"]} == {"b", "c"}
    assert f"{first['h_squared']:.4g}" in printed


def test_h_statistics_under_uniform_features(files):
    model, data, X = files
    words = ("h-statistics", model, data, "--target-column", "y", "--format", "json", "-q")
    shown = json.loads(run(*words, "--weights", "uniform").output)
    expected = tp.h_statistics(model, X, weights="uniform", progress=False).pairs()
    shares = [line["purified_share"] for line in shown]
    assert shares == pytest.approx(list(expected["purified_share"]))
    assert shares != [line["purified_share"] for line in json.loads(run(*words).output)]


def test_groups_are_those_of_the_library(files):
    model, data, X = files
    result = run("groups", model, data, "--target-column", "y", "-q")
    assert result.exit_code == 0, result.output
    expected = tp.shapley_sets(model, X, progress=False).group_names
    assert result.output.splitlines() == list(expected)
    assert "d" in expected
    assert len(expected) < 4
    alone = run("groups", model, data, "--target-column", "y", "--tolerance", 1, "-q")
    assert alone.output.splitlines() == list("abcd")


def test_purify_by_the_algorithm_of_the_paper(files, tmp_path):
    model, data, X = files
    result = run(
        "purify", model, data, "--target-column", "y", "--weights", "empirical",
        "--method", "mass-moving", "--pictures", 0, "--out", tmp_path, "-q",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    d = tp.load(tmp_path / "decomposition.tpz")
    assert d.diagnostics["method"] == "mass-moving"
    exact = tp.purify(model, X, weights="empirical", method="exact", progress=False)
    np.testing.assert_allclose(d["b", "c"].on_rows(X), exact["b", "c"].on_rows(X), atol=1e-6)


@pytest.mark.parametrize(
    ("engine", "by_library", "given"),
    [
        ("partial-dependence", tp.partial_dependence_anova, {}),
        ("ale", tp.ale_anova, {"bins": 5}),
        ("hooker", tp.hooker_anova, {"weights": "laplace"}),
        ("legendre", tp.legendre_anova, {"order": 1, "degree": 4}),
        ("categorical", tp.categorical_anova, {"order": 1, "weights": "independent"}),
    ],
)
def test_purify_by_an_engine_for_functions(files, engine, by_library, given, tmp_path):
    model, data, X = files
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    result = run(
        "purify", model, data, "--target-column", "y", "--engine", engine, *options,
        "--pictures", 0, "--out", tmp_path, "-q",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    d = tp.load(tmp_path / "decomposition.tpz")
    expected = by_library(model, X, **{"order": 2} | given, progress=False)
    assert d.engine == expected.engine
    assert d.engine in result.output
    assert d.contributions(X).to_numpy() == pytest.approx(expected.contributions(X).to_numpy())
    booster = xgboost.Booster(model_file=model)
    margin = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert d.predict(X).ravel() == pytest.approx(margin, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "ale", "--weights", "uniform"), "--weights applies to the engines"),
        (("--engine", "hooker", "--method", "exact"), "--method belongs to --engine tree"),
        (("--engine", "hooker", "--degree", 4), "--degree belongs to --engine legendre"),
        (("--engine", "legendre", "--bins", 4), "--bins belongs to --engine ale"),
    ],
)
def test_options_that_an_engine_does_not_have_are_refused(files, words, message):
    model, data, _ = files
    result = run("purify", model, data, "--target-column", "y", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    alone = run("purify", model, *words[:2])
    assert alone.exit_code == 2
    assert "needs a DATA file" in " ".join(alone.output.replace("│", " ").split())


def test_a_method_that_does_not_fit_is_refused_with_the_reason(files, tmp_path):
    model, data, _ = files
    result = run(
        "purify", model, data, "--target-column", "y", "--weights", "uniform",
        "--method", "coarse", "--out", tmp_path, "-q",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "coarse" in result.output
