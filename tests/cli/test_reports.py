"""The commands that audit and that write reports: what the functions find, in whole files."""

import pandas as pd
import pytest
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from tests.cli.credit import FEATURES, write_files
from treepurify.cli.app import app

# What is in the files and is no feature.
APART = ("--target-column", "default", "--drop-column", "sex")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for library in ("lightgbm", "xgboost", "interpret", "matplotlib", "yaml"):
        pytest.importorskip(library)
    path = tmp_path_factory.mktemp("reports")
    write_files(path, n_rows=400, n_trees=20)
    return path


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def _run(*words, code=0):
        words = [str(word) for word in words]
        result = CliRunner().invoke(app, [*words, "--quiet"], prog_name="treepurify")
        assert result.exit_code == code, result.output
        return " ".join(result.output.replace("│", " ").split()) if code else result.output

    return _run


def test_audit_finds_what_the_function_finds(run, folder):
    needs_stored_labels(folder / "shallow.json")
    words = ["audit", "shallow.json", "train.csv", *APART, "--held-out", "test.csv"]
    output = run(*words, "--resamplings", 2, "--threshold", 1e-4, "--pictures", 1, "--out", "found")
    train, test = (
        pd.read_csv(folder / name).astype({"purpose": "category"})
        for name in ("train.csv", "test.csv")
    )
    truth = tp.audit(
        "shallow.json", train[FEATURES], n_bootstrap=2, threshold=1e-4,
        held_out=(test[FEATURES], test["default"]), progress=False,
    )  # fmt: skip
    assert truth.findings
    assert output.startswith("\n".join(truth.summary(12)))
    table = pd.read_csv(folder / "found" / "findings.csv")
    assert list(table["sentence"]) == [finding.sentence for finding in truth.findings]
    page = (folder / "found" / "report.html").read_text(encoding="utf-8")
    assert "Findings" in page
    assert page.count("SHA-256") >= 3
    # The file is compared with its own library.
    assert truth.decomposition.certificate.margin_error < 2e-6


def test_labels_of_two_classes_are_asked_for_by_option(run, folder):
    table = pd.read_csv(folder / "test.csv")
    words = table["default"].map({0: "paid", 1: "late"})
    table.assign(default=words).to_csv(folder / "words.csv", index=False)
    audit = ["audit", "shallow.json", "words.csv", *APART, "--resamplings", 0, "--pictures", 0]
    audit += ["--held-out", "words.csv", "--out"]
    assert "name that class with --positive" in run(*audit, "words", code=1)
    assert "has 'lost' in column" in run(*audit, "words", "--positive", "lost", code=1)
    assert not (folder / "words").exists()
    by_words = run(*audit, "words", "--positive", "late")
    audit = [{"words.csv": "test.csv"}.get(word, word) for word in audit]
    assert by_words.splitlines()[:-2] == run(*audit, "numbers").splitlines()[:-2]


def test_an_audit_needs_rows_and_their_target(run, folder):
    (folder / "empty.csv").write_text(",".join(FEATURES))
    assert "has no rows" in run("audit", "shallow.json", "empty.csv", code=1)
    held_out = ["audit", "shallow.json", "test.csv", "--held-out", "test.csv"]
    assert "--target-column" in run(*held_out, code=1)
    positive = ["audit", "shallow.json", "test.csv", *APART, "--positive", "1"]
    assert "--held-out" in run(*positive, code=1)


def test_report_of_a_saved_decomposition(run, folder):
    train = pd.read_csv(folder / "train.csv").astype({"purpose": "category"})[FEATURES]
    tp.purify("shallow.json", train, progress=False).save(folder / "d.tpz")
    run("report", "d.tpz", "--out", "page.html", "--pictures", 1)
    assert "What the model does" in (folder / "page.html").read_text(encoding="utf-8")
    (folder / "broken.tpz").write_text("no")
    before = (folder / "page.html").read_bytes()
    assert "treepurify: " in run("report", "broken.tpz", "--out", "page.html", code=1)
    assert (folder / "page.html").read_bytes() == before


@pytest.mark.parametrize("model", ["default.txt", "shallow.json", "ebm.json"])
def test_report_of_the_validation(run, folder, model):
    refits = ("--refit", "again.json", "--refit", "once_more.json")
    output = run(
        "report", model, "test.csv", "--about", "about.yaml", "--target-column", "default",
        "--later", "second_half.csv", "--out", f"{model}.html",
        *(refits if model == "shallow.json" else ()),
    )  # fmt: skip
    assert output.split() == [f"{model}.html"]
    page = (folder / f"{model}.html").read_text(encoding="utf-8")
    assert page.count("SHA-256") == 2
    # Only further trainings are absent, and only where they are not given.
    assert page.count("Not filled") == (0 if model == "shallow.json" else 1)


def test_options_of_the_other_report_are_refused(run):
    assert "name a DATA file" in run("report", "shallow.json", "--about", "about.yaml", code=2)


def test_factor_table(run, folder):
    table = pd.read_csv(folder / "train.csv")[["income", "debt", "age", "late_payments"]]
    table.to_csv(folder / "counts.csv", index=False)
    run("purify", "late.json", "counts.csv", "--target-column", "late_payments", "--out", "late")
    result = CliRunner().invoke(app, ["export", "late/decomposition.tpz", "--to", "relativities"])
    assert result.output == "late/decomposition.csv\n"
    factors = pd.read_csv(folder / "late" / "decomposition.csv")
    assert {"income", "debt", "age"} <= set(factors["term"])


def test_champion_against_challenger(run, folder):
    for challenger in ("default.txt", "ebm.json"):
        page = f"{challenger}.compared.html"
        output = run(
            "compare", "shallow.json", "test.csv", "--other-model", challenger, *APART,
            "--report", page,
        )  # fmt: skip
        assert "The effect that differs most is" in output
        assert (folder / page).stat().st_size > 10_000
