"""The commands that compare, audit and report."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.auditing import audit as audit_module
from treepurify.auditing.audit import audit
from treepurify.cli import comparing, cross_check, engines
from treepurify.cli.app import app
from treepurify.comparing.compare import compare
from treepurify.errors import MemoryBudgetError


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
        tp.purify(folder / "one.json", X, weights="empirical"),
        tp.purify(folder / "one.json", X, weights="uniform"),
        X,
    )
    for line in truth.verdict():
        assert line in result.output
    table = pd.read_csv(out)
    assert list(table["term"]) == list(truth.terms["term"])
    assert table["distance"].to_numpy() == pytest.approx(truth.terms["distance"].to_numpy())


def test_a_second_model_in_the_place_of_the_data(folder):
    result = run("compare", folder / "one.json", folder / "two.json")
    assert result.exit_code == 1
    assert "data files are .csv" in result.output
    assert "--other-model" in result.output


def test_compare_two_models(folder):
    result = run(
        "compare", folder / "one.json", folder / "features.parquet", "--quiet", "--top", 1,
        "--other-model", folder / "two.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Comparing one.json with two.json, averaged over the 300 given rows." in result.output
    wrong = run("compare", folder / "one.json", folder / "features.parquet", "--weights", "uniform")
    assert wrong.exit_code == 2
    assert "twice" in wrong.output


def test_compare_two_engines(folder, tmp_path):
    """On rows in every cell of the grid the closed form and purification agree (issue of both)."""
    rng = np.random.default_rng(1)
    cells = pd.DataFrame(np.indices((4, 3, 3)).reshape(3, -1).T, columns=list("abc")).astype(float)
    X = cells.loc[np.repeat(cells.index, rng.integers(1, 9, len(cells)))].reset_index(drop=True)
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2)
    model.fit(X, X["a"] * X["b"] + X["c"]).save_model(tmp_path / "grid.json")
    X.to_csv(tmp_path / "grid.csv", index=False)
    out = tmp_path / "terms.csv"
    result = run(
        "compare", tmp_path / "grid.json", tmp_path / "grid.csv", "--quiet",
        "--engines", "tree,categorical", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Comparing the tree engine with the categorical engine" in result.output
    assert "All effects are equal to rounding" in result.output
    table = pd.read_csv(out)
    assert {"a", "b", "c", "a & b"} <= set(table["term"])
    assert table["deviation_first"].max() > 0.5
    assert table["distance"].max() < 1e-9 * table["deviation_first"].max()
    # Without some combinations the rows leave effects open, and the command says why they differ.
    copies = X.assign(b=X["a"] // 2)
    copies.to_csv(tmp_path / "copies.csv", index=False)
    sparse = run(
        "compare", tmp_path / "grid.json", tmp_path / "copies.csv", "--quiet",
        "--engines", "categorical,tree",
    )  # fmt: skip
    assert sparse.exit_code == 0, sparse.output
    assert "The rows do not determine every effect: the categorical engine took " in sparse.output
    assert "The rows determine" in sparse.output


def test_two_engines_where_the_rows_determine_nothing(tmp_path):
    """Cells of a model on continuous features, far more than the rows can tell apart."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(300, 5)) + rng.normal(size=(300, 1)), columns=list("abcde"))
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, n_jobs=1)
    model.fit(X, X["a"] * X["b"] + X["c"] ** 2).save_model(tmp_path / "open.json")
    X.to_csv(tmp_path / "open.csv", index=False)
    out = tmp_path / "terms.csv"
    result = run(
        "compare", tmp_path / "open.json", tmp_path / "open.csv", "--quiet",
        "--engines", "tree,categorical", "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "The rows determine none of the 15 effects uniquely" in result.output
    assert "agreement proves little" in result.output
    table = pd.read_csv(out)
    assert table["deviation_second"].max() < 1.5 * table["deviation_first"].max()


def test_effects_that_the_rows_determine_are_named(folder):
    result = run(
        "compare", folder / "one.json", folder / "features.parquet", "--quiet",
        "--engines", "tree,categorical",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "All effects are equal to rounding" in result.output


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"converged": False, "solver_error": 0.5}, "stopped at an error of 5.0e-01"),
        ({"conditional_mean": 0.1}, "up to 1.0e-01 of the largest effect"),
        ({"additivity_rows": 0.01}, "only within 1.0e-02"),
        ({"conditional_mean": np.nan}, "up to nan"),
    ],
)
def test_no_verdict_on_a_decomposition_that_failed(folder, tmp_path, monkeypatch, wrong, message):
    def failed(*given, **options):
        d = tp.categorical_anova(*given, **options)
        return replace(d, certificate=replace(d.certificate, **wrong))

    monkeypatch.setattr(cross_check, "categorical_anova", failed)
    result = run(
        "compare", folder / "two.json", folder / "features.parquet", "--quiet",
        "--engines", "tree,categorical", "--out", tmp_path / "terms.csv",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "no verdict: the categorical engine failed according to its certificate" in result.output
    assert message in result.output
    assert not (tmp_path / "terms.csv").exists()


def test_a_grid_too_large_for_least_norm_takes_the_first_functions(folder, monkeypatch):
    seen = []

    def first_only(*given, **options):
        seen.append(options.get("selection", "auto"))
        if seen[-1] == "least-norm":
            raise MemoryBudgetError("too many")
        return tp.categorical_anova(*given, **options)

    monkeypatch.setattr(cross_check, "categorical_anova", first_only)
    result = run(
        "compare", folder / "two.json", folder / "features.parquet", "--quiet",
        "--engines", "tree,categorical",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert seen == ["least-norm", "auto"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--engines", "tree"], 2, "two different engines"),
        (["--engines", "tree,tree"], 2, "two different engines"),
        (["--engines", "tree,ale"], 2, "tree, categorical"),
        (["--engines", "tree,categorical", "--weights", "uniform"], 2, "leave out"),
        (["--engines", "tree,categorical", "--other-model", "two.json"], 2, "leave out"),
    ],
)
def test_compare_two_engines_says_what_it_takes(folder, words, code, message):
    named = [folder / word if word == "two.json" else word for word in words]
    result = run("compare", folder / "one.json", folder / "features.parquet", "--quiet", *named)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.filterwarnings("ignore:JSON formats are in beta")
def test_tables_of_effects_have_no_second_engine(tmp_path):
    ebm = pytest.importorskip("interpret.glassbox").ExplainableBoostingRegressor(
        interactions=0, max_rounds=3, outer_bags=1, n_jobs=1
    )
    X = pd.DataFrame({"a": np.arange(60.0) % 5})
    document = ebm.fit(X, X["a"]).to_jsonable()
    (tmp_path / "ebm.json").write_text(json.dumps(document))
    X.to_csv(tmp_path / "x.csv", index=False)
    result = run(
        "compare", tmp_path / "ebm.json", tmp_path / "x.csv", "--engines", "tree,categorical"
    )
    assert result.exit_code == 1
    assert "EBM" in result.output


def test_a_grid_too_fine_for_the_closed_form_is_refused(folder, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise MemoryBudgetError("too many")

    monkeypatch.setattr(cross_check, "categorical_anova", refuse)
    result = run(
        "compare", folder / "two.json", folder / "features.parquet", "--quiet",
        "--engines", "tree,categorical",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "--order 1 or fewer rows" in result.output


@pytest.mark.parametrize("command", ["purify", "audit", "compare"])
def test_a_file_is_compared_with_its_own_library(folder, tmp_path, monkeypatch, command):
    """The certificate of a run on a file carries the difference to the library's prediction."""
    seen = []

    def keeping(original):
        def kept(*given, **options):
            seen.append(original(*given, **options))
            return seen[-1]

        return kept

    monkeypatch.setattr(comparing, "purify_model", keeping(comparing.purify_model))
    monkeypatch.setattr(audit_module, "purify", keeping(audit_module.purify))
    tree = engines.Engine.TREE
    monkeypatch.setitem(engines._CALLS, tree, keeping(engines._CALLS[tree]))
    more = {"purify": ["--out", tmp_path / "o"], "compare": []}
    more["audit"] = ["--resamplings", 0, "--pictures", 0, "--out", tmp_path / "o"]
    result = run(
        command, folder / "one.json", folder / "features.parquet", "--quiet", *more[command]
    )
    assert result.exit_code == 0, result.output
    errors = [d.certificate.margin_error for d in seen]
    assert errors[0] is not None
    assert errors[0] < 2e-6
    if command == "compare":
        assert len(errors) == 2
        assert errors[1] == errors[0]


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


def test_audit_of_held_out_rows_is_that_of_the_function(folder, tmp_path):
    needs_stored_labels(folder / "one.json")
    options = ["--resamplings", 0, "--quiet", "--pictures", 0, "--threshold", 1e-4]
    files = [folder / "one.json", folder / "data.csv"]
    held_out = ["--held-out", folder / "data.csv"]
    target = ["--target-column", "price"]
    result = run("audit", *files, *held_out, *target, *options, "--out", tmp_path / "audit")
    assert result.exit_code == 0, result.output
    X = rows(folder)
    prices = pd.read_csv(folder / "data.csv")["price"]
    truth = audit(files[0], X, n_bootstrap=0, threshold=1e-4, held_out=(X, prices), progress=False)
    table = pd.read_csv(tmp_path / "audit" / "findings.csv")
    assert list(table["sentence"]) == [finding.sentence for finding in truth.findings]
    result = run("audit", *files, *held_out, *options, "--out", tmp_path / "x")
    assert result.exit_code == 1
    assert "--target-column" in result.output
    result = run("audit", *files, *target, "--positive", "1", *options, "--out", tmp_path / "x")
    assert result.exit_code == 1
    assert "--held-out" in result.output


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
    feature = tp.load(tmp_path / "d.tpz").feature_names[0]
    for scale, words in (("rank", "FEATURE=SCALE"), (f"{feature}=square", "scale of")):
        refused = run("report", tmp_path / "d.tpz", "--out", tmp_path / "x", "--scale", scale)
        assert refused.exit_code != 0
        assert words in refused.output
    before = out.read_text(encoding="utf-8")
    result = run("report", tmp_path / "d.tpz", "--out", out, "--scale", f"{feature}=rank")
    assert result.exit_code == 0, result.output
    assert out.read_text(encoding="utf-8") != before
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
