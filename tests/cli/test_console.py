"""What the commands print: names stay as they are, and what is unknown is no number."""

import json

import numpy as np
import pandas as pd
import pytest
import typer
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor
from typer.main import get_command
from typer.testing import CliRunner

import treepurify as tp
from treepurify.cli.app import app
from treepurify.cli.console import (
    in_options,
    method_facts,
    print_certificate,
    print_effects,
    print_facts,
    print_table,
)

# Rich would read these as a style, as the end of one, as an escape and as a picture.
NAMES = ["city[paris]", "a[/b]", "[bold]c\\", ":cat:"]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_printed_as_they_are(capsys, name):
    print_table(["feature", "cells"], [[name, "3"]])
    assert capsys.readouterr().out.splitlines()[1].split() == [name, "3"]
    print_facts([(name, name)])
    assert capsys.readouterr().out.split() == [name, name]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_effects_and_outputs_are_printed_as_they_are(capsys, name):
    d = tp.purify_tensors(
        {(0,): [[0.0, 1.0], [2.0, 5.0]]}, feature_names=[name], output_names=[name, "other"]
    )
    print_effects(d, 2)
    rows = capsys.readouterr().out.splitlines()[1:3]
    assert [row.split()[:2] for row in rows] == [[name, "other"], [name, name]]


@pytest.mark.parametrize("name", NAMES)
def test_sentences_are_printed_as_they_are(capsys, name):
    print_certificate(tp.purify_tensors({(0,): [0.0, 1.0]}), name)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["-", name]


def test_bars_have_the_colour_of_their_order(capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    d = tp.purify_tensors({(0,): [0.0, 4.0], (0, 1): [[2.0, 0.0], [0.0, 2.0]]})
    print_effects(d, 2)
    lines = capsys.readouterr().out.splitlines()[1:3]
    # Variances are 4 and 1. Blue, and number 166 of the 256 colours.
    assert f"\x1b[34m{'█' * 12}\x1b[" in lines[0]
    assert f"\x1b[38;5;166m{'█' * 3}" in lines[1]


def test_effects_of_unknown_share_are_ranked_without_it(capsys):
    """Without a joint distribution the remainder has no variance, and the sum has none."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 3)).astype(float)
    model = DecisionTreeRegressor(max_depth=3).fit(X, X.prod(axis=1) + X[:, 0])
    d = tp.purify(model, X, weights="laplace", order=2, method="exact", progress=False)
    print_effects(d, 2)
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert "nan" not in words.lower()
    assert "%" not in words
    assert "share of the summed variance of the effects, unknown for some" in words
    assert words.endswith(f"... and {len(d) - 1} more")
    first = d.importance().iloc[0]
    assert text.splitlines()[1].split()[-2] == f"{np.sqrt(first['variance']):.4g}"
    print_effects(d, len(d) + 1)
    assert capsys.readouterr().out.splitlines()[len(d) + 1].split() == ["remainder"]


def test_commands_print_the_names_of_a_model(tmp_path):
    """XGBoost itself takes no brackets, but files that other programs write have them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=50)})
    path = tmp_path / "model.json"
    xgboost.XGBRegressor(n_estimators=2, max_depth=1).fit(X, X["x"]).save_model(path)
    document = json.loads(path.read_text())
    document["learner"]["feature_names"] = ["a[/b]"]
    path.write_text(json.dumps(document))
    X.set_axis(["a[/b]"], axis=1).to_csv(tmp_path / "x.csv", index=False)
    for words in (["info", path], ["compare", path, tmp_path / "x.csv", "--quiet"]):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        assert "\na[/b] " in result.output


def test_scale_of_averaged_probabilities(capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    forest = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, X[:, 0] > 0)
    d = tp.purify(forest, X, progress=False)
    assert ("scale", "the probability of class True") in method_facts(d)
    three = forest.fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    d = tp.purify(three, X, progress=False)
    assert ("scale", "the probability of each class") in method_facts(d)
    print_effects(d, 2)
    words = " ".join(capsys.readouterr().out.split())
    assert "share of the summed variance of the effects within an output" in words
    assert "... and 7 more main effects" in words


def test_advice_names_the_options_of_the_command():
    commands = get_command(app).commands

    def said(command, message):
        return in_options(message, typer.Context(commands[command]))

    assert said("purify", 'pass order=2 or weights="independent"; or method="exact"; pass X') == (
        "pass --order 2 or --weights independent; or --method exact; name a DATA file"
    )
    assert said("export", 'Pass remainder="drop" to leave it out') == (
        "Pass --drop-remainder to leave it out"
    )
    assert said("demo", "pass order=2") == "pass order=2"


def test_labels_of_two_classes_are_asked_for_by_option(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2).fit(X, X["a"] > 0)
    model.save_model(tmp_path / "model.json")
    X.assign(target=np.where(X["a"] > 0, "yes", "no")).to_csv(tmp_path / "rows.csv", index=False)
    model, rows = str(tmp_path / "model.json"), str(tmp_path / "rows.csv")
    refused = CliRunner().invoke(app, ["worth", model, rows, rows, "--target-column", "target"])
    assert refused.exit_code == 1
    assert "name that class with --positive" in " ".join(refused.output.split())
