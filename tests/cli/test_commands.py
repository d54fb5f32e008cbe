"""The command line: what it prints, what it writes, how it refuses."""

import json
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.cli.app import app
from treepurify.cli.data import read_data
from treepurify.cli.options import Weights
from treepurify.demo import model as demo_model
from treepurify.storage import load
from treepurify.weights import _BY_NAME


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="treepurify")


def test_every_weighting_that_has_a_name_is_an_option():
    assert [weights.value for weights in Weights] == list(_BY_NAME)


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
def test_purify_writes_what_python_computes(folder, truth, data, tmp_path):
    out = tmp_path / "new" / "results"
    result = run("purify", folder / "model.json", folder / data, *OPTIONS, "--out", out)
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
    assert f"--target-column price --sample-weight-column weight --out {out} --quiet" in page
    assert "The effects add up to the model (" in words_of(result)
    for sentence in truth.certificate.details()[:2]:
        assert sentence.split(" within ")[0] in page


@pytest.mark.usefixtures("labelled")
def test_purify_prints_the_largest_effects(folder, truth, tmp_path):
    arguments = ("purify", folder / "model.json", folder / "data.csv", *OPTIONS)
    result = run(*arguments, "--out", tmp_path, "--top", 2)
    assert result.exit_code == 0
    row = truth.importance().iloc[0]
    assert f"{100 * row['variance_share']:.2f}%" in result.output
    assert f"... and {len(truth) - 2} more" in result.output
    assert "Certificate" in result.output


@pytest.mark.usefixtures("labelled")
def test_purify_of_a_deep_model_says_what_is_fitted(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 6, (400, 4)), columns=list("abcd"))
    y = X.a * X.b * X.c + X.d
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=4).fit(X, y)
    model.save_model(tmp_path / "model.json")
    X.to_csv(tmp_path / "data.csv", index=False)
    result = run(
        "purify", tmp_path / "model.json", tmp_path / "data.csv", "--out", tmp_path / "o",
        "--weights", "empirical",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    d = load(tmp_path / "o" / "decomposition.tpz")
    left = 100 * d.covariances[()][0] / sum(d.covariances.values())[0]
    assert left > 0.01
    words = words_of(result)
    assert "distribution empirical scale the prediction itself method projection" in words
    assert "effects of up to 2 features, fitted tree by tree" in words
    assert f"not shown {left:.1f}% of the model's variance, by covariance" in words
    assert "remainder" in words
    # No column without a figure.
    assert "before" not in words
    with pytest.raises(KeyError, match="effects of more than 2 features are together"):
        d["a", "b", "c"]


@pytest.mark.usefixtures("labelled")
def test_purify_formats(folder, truth, tmp_path):
    arguments = ("purify", folder / "model.json", folder / "data.csv", *OPTIONS, "--out", tmp_path)
    summary = json.loads(run(*arguments, "--format", "json").stdout)
    assert summary["certificate"]["additivity_cells"] < 1e-12
    assert summary["importance"][0]["term"] == truth.importance()["term"][0]
    assert summary["intercept"]["margin"] == pytest.approx(truth.intercept[0])
    header = run(*arguments, "--format", "csv").stdout.splitlines()[0]
    assert header == ",".join(truth.importance().columns)


def test_purify_options(folder, tmp_path):
    result = run(
        "purify", folder / "model.json", "--weights", "uniform", "--order", 1, "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    d = load(tmp_path / "decomposition.tpz")
    assert d.measure.startswith("uniform")
    assert {len(subset) for subset in d} == {1}
    assert d.remainder is not None
    assert "remainder" in result.output
    assert "writing" in result.output


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
        (("features.csv", "--sample-weight-column", "kind"), "weights in column 'kind' are not"),
        (("model.json",), "data files are .csv, .tsv"),
        ((), "name a DATA file"),
    ],
)
def test_purify_refuses_with_a_reason(folder, words, message):
    arguments = [folder / word if "." in word else word for word in words]
    result = run("purify", folder / "model.json", *arguments)
    assert result.exit_code == 1
    assert message in words_of(result)
    assert "Traceback" not in result.output


def test_wrong_usage(folder):
    assert run("purify", folder / "no.json").exit_code == 2
    assert run("purify", folder / "model.json", folder / "no.csv").exit_code == 2
    assert run("purify", folder / "model.json", "--weights", "equal").exit_code == 2
    assert run("demo", "--dataset", "iris").exit_code == 2
    lonely = run("purify", folder / "model.json", "--target-column", "price")
    assert lonely.exit_code == 2
    assert "need a DATA file" in words_of(lonely)


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
    read = read_data(tmp_path / "data.csv", parsed)
    np.testing.assert_allclose(parsed.margin(read.X)[:, 0], model.predict(X, raw_score=True))


@pytest.mark.usefixtures("labelled")
def test_info(folder):
    result = run("info", folder / "model.json")
    assert result.exit_code == 0
    words = words_of(result)
    assert "trees 20, of depth up to 2" in words
    assert "link identity" in words
    assert "of 2 features" in words
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
    monkeypatch.setattr(demo_model, "find_spec", lambda _: None)
    result = run("demo", "--out", tmp_path, "--top", 3, "--pictures", 1, "--quiet")
    assert result.exit_code == 0, result.output
    words = words_of(result)
    assert "scikit-learn" in words
    assert "On all 17379 training rows" in words
    # It ends with the sentences of the report.
    end = words[words.index("On all 17379") :]
    assert "hour and workingday interact" in end
    assert str(tmp_path / "report.html") in result.output.replace("\n", "")
    command = f"treepurify demo --out {tmp_path} --top 3 --pictures 1 --quiet"
    assert command in (tmp_path / "report.html").read_text(encoding="utf-8")


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
    for words in (("--help",), ("demo", "--help"), ("info", "-h"), ("purify", "--help")):
        result = run(*words)
        assert result.exit_code == 0
        assert "Example" in result.output


def test_as_a_program(folder):
    def program(*words):
        command = [sys.executable, "-m", "treepurify", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    done = program("info", str(folder / "model.json"), "--quiet")
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
    monkeypatch.setattr("treepurify.cli.data.DEFAULT_BUDGET", 1000)

    def read_whole(path):
        raise AssertionError(f"{path} is read whole")

    monkeypatch.setattr("treepurify.cli.data._read_parquet", read_whole)
    table = pd.read_parquet(folder / "data.parquet")
    data, out = tmp_path / "large.parquet", tmp_path / "results"
    table.to_parquet(data)
    result = run("purify", folder / "model.json", data, *OPTIONS, "--out", out)
    assert result.exit_code == 0, result.output
    d = load(out / "decomposition.tpz")
    for subset, component in truth.components.items():
        np.testing.assert_allclose(d.components[subset].values, component.values, atol=1e-12)
    few = ("--resamplings", 2, "--examples", 3, "--pictures", 1, "--out", out)
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
