"""The command line: what it prints, what it writes, how it refuses."""

import json
import re
import shlex
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.main import get_command
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.cli.app import app
from treepurify.cli.printing import in_options, print_facts, print_table
from treepurify.cli.reading import read_rows
from treepurify.demo import model as demo_model
from treepurify.storage import load
from treepurify.summary import text_summary

# Rich would read these as a style, as the end of one, as an escape and as a picture.
NAMES = ["city[paris]", "a[/b]", "[bold]c\\", ":cat:"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


def words_of(result):
    """What was printed, on one line: tables wrap."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An XGBoost model with categories and missing values, and its data as CSV and Parquet."""
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    # "NA" is a category here, and "01" is not the number one.
    kind = rng.choice(["NA", "01", "1", "x y"], 300)
    size = np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300))
    X = pd.DataFrame({"kind": pd.Categorical(kind), "size": size, "n": rng.integers(0, 5, 300)})
    y = np.nan_to_num(size) * (kind == "NA") + (kind == "01") + 0.2 * X["n"]
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, enable_categorical=True)
    model.fit(X, y).save_model(path / "model.json")
    table = X.assign(price=y, weight=rng.integers(1, 4, 300))
    table.to_csv(path / "data.csv", index=False)
    table.to_parquet(path / "data.parquet")
    X.to_csv(path / "features.csv", index=False)
    return path


@pytest.fixture
def labelled(folder):
    needs_stored_labels(folder / "model.json")


OPTIONS = ("--target-column", "price", "--sample-weight-column", "weight", "--quiet")


@pytest.fixture(scope="module")
def truth(folder):
    table = pd.read_parquet(folder / "data.parquet")
    X = table[["kind", "size", "n"]]
    return tp.purify(folder / "model.json", X, sample_weight=table["weight"], progress=False)


@pytest.mark.usefixtures("labelled")
@pytest.mark.parametrize("data", ["data.csv", "data.parquet"])
def test_purify_writes_what_python_computes(folder, truth, data, tmp_path, monkeypatch):
    out = tmp_path / "new" / "results"
    words = ["purify", folder / "model.json", folder / data, *OPTIONS, "--out", out]
    monkeypatch.setattr(sys, "argv", ["/bin/treepurify", *map(str, words)])
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert {file.name for file in out.iterdir()} == {
        "report.html",
        "decomposition.tpz",
        "effects.csv",
    }
    d = load(out / "decomposition.tpz")
    assert list(d) == list(truth)
    for subset in d:
        np.testing.assert_allclose(d[subset].values, truth[subset].values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(d[subset].mass, truth[subset].mass, rtol=0, atol=1e-12)
    effects = pd.read_csv(out / "effects.csv", keep_default_na=False, na_values=[""])
    main = effects[effects["term"] == "kind"]
    labels = [str(label) for label in truth["kind"].axes[0].labels()]
    assert list(main["cell"]) == labels
    assert "NA" in labels
    np.testing.assert_allclose(main["effect"], truth["kind"].values[:, 0], atol=1e-12)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert shlex.join(["treepurify", *map(str, words)]) in page
    assert "Main effects " in words_of(result)
    for sentence in truth.certificate.details()[:2]:
        assert sentence.split(" within ")[0] in page


@pytest.mark.usefixtures("labelled")
def test_purify_prints_the_largest_effects(folder, truth, tmp_path):
    arguments = ("purify", folder / "model.json", folder / "data.csv", *OPTIONS)
    result = run(*arguments, "--out", tmp_path, "--top", 2)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{text_summary(truth, 2)}\n")
    assert "and 4 more" in result.stdout


def test_purify_options(folder, tmp_path):
    result = run(
        "purify", folder / "model.json", "--weights", "uniform", "--order", 1, "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    d = load(tmp_path / "decomposition.tpz")
    assert d.measure.startswith("uniform")
    assert {len(subset) for subset in d} == {1}
    assert d.remainder is not None
    assert re.search(r"Main effects \d+%; \d+% are", result.output)


@pytest.mark.usefixtures("labelled")
def test_other_engines_compute_what_their_functions_do(folder, tmp_path):
    words = ("purify", folder / "model.json", folder / "features.csv", "--quiet", "--out", tmp_path)
    result = run(*words, "--engine", "ale", "--order", 1)
    assert result.exit_code == 0, result.output
    table = pd.read_parquet(folder / "data.parquet")[["kind", "size", "n"]]
    truth = tp.ale_anova(folder / "model.json", table, order=1, progress=False)
    d = load(tmp_path / "decomposition.tpz")
    for subset, component in truth.components.items():
        np.testing.assert_allclose(d.components[subset].values, component.values, atol=1e-12)
    for refused, message in (
        (("--engine", "ale", "--weights", "uniform"), "ale_anova does not take --weights"),
        (("--engine", "hooker", "--method", "exact"), "hooker_anova does not take --method"),
        (("--engine", "alle"), 'did you mean "ale"'),
    ):
        result = run(*words, *refused)
        assert result.exit_code in (1, 2)
        assert message in words_of(result)


@pytest.mark.usefixtures("labelled")
def test_purify_drops_columns(folder, tmp_path):
    arguments = ("purify", folder / "model.json", folder / "data.csv", "--target-column", "price")
    refused = run(*arguments, "--out", tmp_path)
    assert refused.exit_code == 1
    assert "unexpected: 'weight'" in words_of(refused)
    assert "columns to leave out with --drop-column" in words_of(refused)
    assert list(tmp_path.iterdir()) == []
    assert run(*arguments, "--drop-column", "weight", "--out", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("data.csv", "--target-column", "cost"), "has no column 'cost'; its columns are kind"),
        (
            ("data.csv", "--target-column", "weight", "--sample-weight-column", "price"),
            "sample_weight",
        ),
        (("features.csv", "--weights", "empiricl"), 'did you mean "empirical"'),
        (("no.csv",), "there is no file"),
        (("model.json",), "data files are .csv, .tsv"),
        ((), "name a DATA file"),
    ],
)
def test_purify_refuses_with_a_reason(folder, words, message):
    arguments = [folder / word if "." in word else word for word in words]
    result = run("purify", folder / "model.json", *arguments, "--quiet")
    assert result.exit_code == 1
    assert message in words_of(result)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_wrong_usage(folder):
    assert run("purify").exit_code == 2
    assert run("purify", folder / "model.json", "--order", "two").exit_code == 2
    for words, message in (
        (("purify", folder / "no.json"), "does not exist"),
        (("demo", "--dataset", "iris"), 'must be "bike"'),
        (("purify", folder / "model.json", "--target-column", "price"), "name a DATA file"),
    ):
        refused = run(*words)
        assert refused.exit_code == 1
        assert message in words_of(refused)


def test_an_error_is_one_line_in_red(folder):
    refused = CliRunner().invoke(app, ["info", str(folder / "no.json")], color=True)
    (line,) = refused.stderr.splitlines()
    assert line.startswith("\x1b[31mtreepurify: ")
    assert in_options("use\n order=2", {"--order"}) == "use --order 2"


def test_advice_names_the_options_of_the_command():
    options = {"--order", "--weights", "--method"}
    said = in_options('pass order=2 or weights="independent"; or method="exact"; pass X', options)
    assert said == "pass --order 2 or --weights independent; or --method exact; name a DATA file"
    assert in_options("pass order=2", set()) == "pass order=2"


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_as_they_are(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "120")
    print_table(["feature", "cells"], [[name, "3"]])
    assert capsys.readouterr().out.splitlines()[1].split() == [name, "3"]
    print_facts([(name, name)])
    assert capsys.readouterr().out.split() == [name, name]


def test_commands_print_the_names_of_a_model(tmp_path):
    """XGBoost itself takes no brackets, but files that other programs write have them."""
    X = pd.DataFrame({"x": np.random.default_rng(0).normal(size=50)})
    path = tmp_path / "model.json"
    xgboost.XGBRegressor(n_estimators=2, max_depth=1).fit(X, X["x"]).save_model(path)
    document = json.loads(path.read_text())
    document["learner"]["feature_names"] = ["a[/b]"]
    path.write_text(json.dumps(document))
    X.set_axis(["a[/b]"], axis=1).to_csv(tmp_path / "x.csv", index=False)
    for words in (["info", path], ["compare", path, tmp_path / "x.csv", "--quiet"]):
        result = run(*words)
        assert result.exit_code == 0, result.output
        assert "\na[/b] " in result.output


@pytest.mark.usefixtures("labelled")
def test_damaged_files(folder, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_bytes((folder / "model.json").read_bytes()[:500])
    for command in ("info", "purify"):
        result = run(command, cut)
        assert result.exit_code == 1
        assert "cut short or damaged" in words_of(result)
    for name, content, message in (
        ("empty.csv", b"", "cannot be read as CSV"),
        ("binary.csv", b"kind,size,n\n\xff\xfe\x00,1,2\n", "cannot be read as CSV"),
        ("text.parquet", b"kind,size\n", "cannot be read as Parquet"),
        ("words.csv", b"kind,size,n\n01,big,1\n", "feature 'size' is numeric in the model"),
        (
            "other.csv",
            b"kind,size,n\nred,1,1\nblue,2,1\n",
            "none of the values in the column of",
        ),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        result = run("purify", folder / "model.json", path)
        assert result.exit_code == 1, result.output
        assert message in words_of(result)


def test_codes_are_asked_for_where_the_model_knows_no_labels(tmp_path):
    X = np.column_stack([np.arange(60) % 4, np.linspace(0, 1, 60)])
    data = xgboost.DMatrix(X, label=X[:, 0] % 2 + X[:, 1], feature_names=["k", "x"],
                           feature_types=["c", "q"], enable_categorical=True)  # fmt: skip
    booster = xgboost.train({"max_depth": 2, "max_cat_to_onehot": 9}, data, 5)
    booster.save_model(tmp_path / "model.ubj")
    table = pd.DataFrame(X, columns=["k", "x"])
    table.assign(k=table["k"].astype(int)).to_csv(tmp_path / "codes.csv", index=False)
    table.assign(k=np.array(list("abcd"))[np.arange(60) % 4]).to_csv(
        tmp_path / "text.csv", index=False
    )
    arguments = ("purify", tmp_path / "model.ubj")
    refused = run(*arguments, tmp_path / "text.csv", "--out", tmp_path)
    assert refused.exit_code == 1
    assert "has only its codes" in words_of(refused)
    assert run(*arguments, tmp_path / "codes.csv", "--out", tmp_path).exit_code == 0


def test_numbers_in_csv_are_labels(tmp_path):
    """LightGBM keeps the categories 10, 20, 30: in a file a number is one of these, no code."""
    rng = np.random.default_rng(0)
    k = rng.choice([10, 20, 30], 200)
    X = pd.DataFrame({"k": pd.Categorical(k), "x 1": rng.normal(size=200)})
    model = lightgbm.LGBMRegressor(n_estimators=10, max_depth=2, min_child_samples=5, verbose=-1)
    model.fit(X, (k == 20) + X["x 1"])
    model.booster_.save_model(tmp_path / "model.txt")
    X.to_csv(tmp_path / "data.csv", index=False)
    parsed = tp.parse_model(tmp_path / "model.txt")
    read = read_rows(tmp_path / "model.txt", tmp_path / "data.csv")
    np.testing.assert_allclose(parsed.margin(read.X)[:, 0], model.predict(X, raw_score=True))


@pytest.mark.usefixtures("labelled")
def test_info(folder):
    result = run("info", folder / "model.json")
    assert result.exit_code == 0
    words = words_of(result)
    assert "trees 20, of depth up to 2" in words
    assert "link identity" in words
    assert "kind categorical 01, 1, NA, x y 4" in words


def test_info_names_no_version_that_the_file_does_not_give(tmp_path):
    X = np.arange(80.0).reshape(40, 2)
    data = lightgbm.Dataset(X, X[:, 0])
    model = lightgbm.train({"verbose": -1, "min_data_in_leaf": 5}, data, num_boost_round=2)
    model.save_model(tmp_path / "model.txt")
    assert "model lightgbm, gbdt" in words_of(run("info", tmp_path / "model.txt"))


def test_info_reads_the_cut_beside_zero_as_zero(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, size=(400, 1)).astype(float)
    data = lightgbm.Dataset(X, np.where(X[:, 0] > 0, 1.0, 0.0) + (X[:, 0] > 2))
    model = lightgbm.train({"verbose": -1, "num_threads": 1}, data, num_boost_round=3)
    model.save_model(tmp_path / "model.txt")
    assert "cuts from 0 to 2.5" in words_of(run("info", tmp_path / "model.txt"))


def test_info_of_depth(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=4).fit(X, rng.integers(0, 3, 300))
    model.save_model(tmp_path / "model.json")
    depth = max(
        int(line.count("\t"))
        for tree in model.get_booster().get_dump()
        for line in tree.split("\n")
    )
    words = words_of(run("info", tmp_path / "model.json"))
    assert f"trees 9, of depth up to {depth}" in words
    assert "outputs 3: 0, 1, 2" in words
    assert "link softmax" in words


def test_demo(tmp_path, monkeypatch):
    """It ends with a table in the terminal and a report."""
    monkeypatch.setattr(demo_model, "find_spec", lambda _: None)
    result = run("demo", "--out", tmp_path, "--top", 3, "--pictures", 1, "--quiet")
    assert result.exit_code == 0, result.output
    words = words_of(result)
    assert "scikit-learn" in words
    assert "on 17379 rows" in words
    blocks = result.output.split("\n\n")
    lines = blocks[-2].splitlines()
    assert lines[1].split() == ["size", "share"]
    assert [line.startswith("...") for line in lines[2:6]] == [False] * 3 + [True]
    assert blocks[-1] == f"Report: {tmp_path / 'report.html'}\n"
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_demo_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("demo", "--dataset", "diabetes", "--out", tmp_path, "--quiet")
    assert result.exit_code == 1
    assert 'pip install "treepurify[plots]"' in words_of(result)


def test_unwritable_folder(folder, tmp_path):
    (tmp_path / "file").write_text("")
    result = run(
        "purify", folder / "model.json", "--weights", "uniform", "--out", tmp_path / "file" / "x"
    )
    assert result.exit_code == 1
    assert "Not a directory" in words_of(result)


def test_help_and_version():
    assert run("--version").output.strip() == f"treepurify {tp.__version__}"
    commands = get_command(app).commands
    assert list(commands) == ["demo", "info", "purify", "compare", "audit", "report", "export"]
    for words in (("--help",), ("info", "-h"), *((name, "--help") for name in commands)):
        result = run(*words)
        assert result.exit_code == 0
        assert "Example" in result.output


def test_commands_have_few_options():
    for name, command in get_command(app).commands.items():
        options = [one for one in command.params if one.param_type_name == "option"]
        assert len(options) <= 12, name


def test_as_a_program(folder):
    def program(*words):
        command = [sys.executable, "-m", "treepurify", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    done = program("info", str(folder / "model.json"))
    assert done.returncode == 0
    assert "xgboost" in done.stdout
    assert done.stderr == ""
    refused = program("purify", str(folder / "model.json"))
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.splitlines()[-1].startswith("treepurify: ")
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_its_packages_the_command_names_the_extra(name):
    blocked = f"import sys; sys.modules['{name}'] = None; from treepurify.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert 'pip install "treepurify[cli]"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_large_file_is_never_read_whole(folder, truth, tmp_path, monkeypatch):
    monkeypatch.setattr("treepurify.cli.reading.DEFAULT_BUDGET", 1000)

    def read_whole(path):
        raise AssertionError(f"{path} is read whole")

    monkeypatch.setattr("treepurify.cli.reading._read_parquet", read_whole)
    table = pd.read_parquet(folder / "data.parquet")
    data, out = tmp_path / "large.parquet", tmp_path / "results"
    table.to_parquet(data)
    result = run("purify", folder / "model.json", data, *OPTIONS, "--out", out)
    assert result.exit_code == 0, result.output
    d = load(out / "decomposition.tpz")
    for subset, component in truth.components.items():
        np.testing.assert_allclose(d.components[subset].values, component.values, atol=1e-12)
    few = ("--resamplings", 2, "--pictures", 1, "--out", out)
    result = run("audit", folder / "model.json", data, *OPTIONS, *few)
    assert result.exit_code == 0, result.output
    audited = tp.audit(
        folder / "model.json", data, n_bootstrap=2, sample_weight="weight", progress=False
    ).to_frame()
    found = pd.read_csv(out / "findings.csv")
    columns = ["kind", "term", *audited.select_dtypes("number").columns]
    pd.testing.assert_frame_equal(found[columns], audited[columns], check_dtype=False)


@pytest.mark.usefixtures("labelled")
@pytest.mark.parametrize("asked", ["", "part*.parquet"])
def test_purify_reads_many_files_in_batches(folder, truth, asked, tmp_path):
    table = pd.read_parquet(folder / "data.parquet")
    for number in range(3):
        part = table[number * 100 : number * 100 + 100]
        part.to_parquet(tmp_path / f"part{number}.parquet")
    out = tmp_path / "results"
    result = run("purify", folder / "model.json", tmp_path / asked, *OPTIONS, "--out", out)
    assert result.exit_code == 0, result.output
    d = load(out / "decomposition.tpz")
    assert d.diagnostics["stream"]["passes"] == 1
    for subset, component in truth.components.items():
        np.testing.assert_allclose(d.components[subset].values, component.values, atol=1e-12)
        np.testing.assert_allclose(d.covariances[subset], truth.covariances[subset], atol=1e-12)
    refused = run("purify", folder / "model.json", tmp_path / asked, "--target-column", "age")
    assert "has no column 'age'" in words_of(refused)
