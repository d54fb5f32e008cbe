"""Every kind of finding, on every kind of model, is printed, listed, drawn and reported."""

import warnings
from dataclasses import replace
from typing import get_args

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from sklearn.ensemble import RandomForestRegressor

import treepurify as tp
from tests.report.pages import Page
from treepurify.auditing.findings import FindingKind

glassbox = pytest.importorskip("interpret.glassbox")
lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

N_ROWS = 300
rng = np.random.default_rng(0)
base = rng.integers(0, 6, N_ROWS).astype(float)
# Two features that determine each other, two that interact, and noise.
X = pd.DataFrame(
    {"a": base, "b": 2 * base + 1, "c": rng.normal(size=N_ROWS), "d": rng.normal(size=N_ROWS)}
)
y = (X["a"] + X["c"] * X["d"] + 0.1 * rng.normal(size=N_ROWS)).to_numpy()
classes = np.digitize(y, np.quantile(y, [0.33, 0.66]))
noise = rng.permutation(y)


def booster(**options):
    options = {"n_estimators": 20, "max_depth": 2, "random_state": 0, "n_jobs": 1} | options
    return xgboost.XGBRegressor(**options)


def ga2m():
    """No pair of `a` and `b`, whose main effects the rows do not tell apart."""
    constraints = [["a"], ["b"], ["c", "d"]]
    return booster(interaction_constraints=constraints, colsample_bytree=0.5).fit(X, y)


def multiclass():
    options = {"n_estimators": 5, "max_depth": 2, "verbose": -1, "n_jobs": 1}
    return lightgbm.LGBMClassifier(**options).fit(X, classes)


def ebm():
    options = {"interactions": 2, "outer_bags": 2, "max_rounds": 40, "n_jobs": 1}
    return glassbox.ExplainableBoostingRegressor(**options).fit(X, y)


def forest():
    """Trees of more leaves than are projected one by one: each draw of rows has its own cells."""
    # A generator of its own: the size of the trees must not depend on what drew before.
    own = np.random.default_rng(4)
    many = pd.concat([X + 0.01 * own.normal(size=X.shape) for _ in range(4)])
    return RandomForestRegressor(3, random_state=0).fit(many, np.tile(y, 4))


def moved():
    """Trained where `a` and `b` are independent, so that their effects cancel on the rows here."""
    elsewhere = X.assign(b=np.random.default_rng(5).permutation(X["b"]))
    c, d = elsewhere["c"] > 0, elsewhere["d"] > 0
    steps = 4.0 * c + 1.0 * (c == d)
    return booster(max_depth=3).fit(elsewhere, 2 * elsewhere["a"] - elsewhere["b"] + steps)


def trainings():
    return tp.refit(booster().fit(X, y), X, y, n=3, progress=False)


MODELS = {
    "pairs": lambda: booster().fit(X, y),
    "GA2M": ga2m,
    "steps": lambda: booster().fit(X, 1.0 * (X["c"] > 0) + (X["d"] > 0)),
    "deep": lambda: booster(max_depth=4, n_estimators=5).fit(X, y),
    "classes": multiclass,
    "EBM": ebm,
    "moved": moved,
    "forest": forest,
    "trainings": trainings,
}


@pytest.fixture(scope="module")
def models():
    return {name: train() for name, train in MODELS.items()}


@pytest.fixture(scope="module")
def audits(models):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="interpret")
        return {
            name: tp.audit(
                model,
                X,
                weights="empirical",
                n_bootstrap=2,
                held_out=(X, rng.permutation(classes if name == "classes" else y)),
                progress=False,
            )
            for name, model in models.items()
        }


def test_the_models_have_every_kind_of_finding(audits):
    found = {finding.kind for each in audits.values() for finding in each.findings}
    assert found == set(get_args(FindingKind)) - {"identifier"}
    without_pair = [f for f in audits["GA2M"].findings if f.kind == "collinear effects"]
    assert {(0,), (1,)} in [set(f.effects) for f in without_pair]
    assert (0, 1) not in audits["GA2M"].decomposition.components


@pytest.mark.parametrize("name", MODELS)
def test_every_finding_is_printed_listed_drawn_and_reported(audits, name, tmp_path):
    audited = audits[name]
    d = audited.decomposition
    assert repr(audited).count("[") >= min(len(audited.findings), 12)
    table = audited.to_frame()
    assert len(table) == len(audited.findings) > 0
    table.to_csv(tmp_path / "findings.csv")
    terms = {d.term_name(subset) for subset in d.components}
    assert {term for listed in table["term"] for term in listed.split(", ")} <= terms
    kinds = {(finding.kind, len(finding.effects[0])): finding for finding in audited.findings}
    one_each = replace(audited, findings=tuple(kinds.values()))
    for finding in one_each.findings:
        drawn = tp.plots.finding(audited, finding)
        assert drawn.get_title(loc="right").startswith(finding.kind)
        plt.close(drawn.figure)
    page = tp.report.write_html(d, tmp_path / "a.html", audit=one_each)
    assert len(Page(page)["Findings"].pictures) >= min(len(kinds), 12)


def test_main_effects_that_share_are_drawn_together(audits, tmp_path):
    audited = audits["GA2M"]
    d = audited.decomposition
    (what,) = [f for f in audited.findings if set(f.effects) == {(0,), (1,)}]
    words = {text.get_text() for text in tp.plots.finding(audited, what).findobj(Text)}
    assert {"a", "b"} <= words
    page = Page(tp.report.write_html(d, tmp_path / "a.html", audit=audited, progress=False))
    assert page["Findings"].pictures.count(what.sentence) == 1
    assert "a, b" in set(audited.to_frame().query("kind == 'collinear effects'")["term"])


def test_the_command_audits_a_ga2m(tmp_path):
    typer_testing = pytest.importorskip("typer.testing")
    from treepurify.cli.app import app

    ga2m().save_model(tmp_path / "m.json")
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    words = ["audit", tmp_path / "m.json", tmp_path / "rows.csv", "--target-column", "y"]
    words += ["--resamplings", 2, "--out", tmp_path / "out"]
    result = typer_testing.CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "collinear effects" in (tmp_path / "out" / "findings.csv").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "report.html").exists()


def test_a_measure_that_takes_too_much_memory_is_left_out_and_named(audits):
    audited = audits["forest"]
    left_out = audited.measures_left_out
    assert list(left_out) == ["laplace"]
    assert "memory budget" in left_out["laplace"]
    assert "distribution laplace (its tables take more than the memory budget" in repr(audited)


def test_instability_of_a_forest_compares_the_same_values(models, audits):
    """Each draw has cells of its own: the change is measured on those of all rows."""
    audited = audits["forest"]
    d = audited.decomposition
    assert d.diagnostics["method"] == "coarse"
    assert set(audited.spread) == set(d.components)
    generator = np.random.default_rng(0)
    axis = d["c"].axes[0]
    middles = (np.append(axis.bounds[0], axis.cuts) + np.append(axis.cuts, axis.bounds[1])) / 2
    points = pd.DataFrame({name: np.full(len(middles), X[name].iloc[0]) for name in X})
    points["c"] = middles
    squares = np.zeros(len(middles))
    for _ in range(2):
        drawn = generator.multinomial(N_ROWS, np.full(N_ROWS, 1 / N_ROWS)).astype(float)
        again = tp.purify(
            models["forest"], X, weights="empirical", order=2, sample_weight=drawn, progress=False
        )
        change = again["c"].on_rows(d.inputs.columns(points))[:, 0] - d["c"].values[:, 0]
        squares += (change - d["c"].mass @ change) ** 2 / 2
    np.testing.assert_allclose(audited.spread[2,][:, 0] ** 2, squares, atol=1e-10)
