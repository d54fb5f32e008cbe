"""The pages of the reproductions: scripts run to their end, tables are stored and shown."""

import ast
import importlib
import json
import re
import sys
from inspect import ismodule

import pytest

import treepurify as tp
import treepurify.results
from examples import paper_timings, reproduction, reproduction_verdicts
from examples.data import REPOSITORY
from examples.reproduction import Entry, Table
from tests.cases import data_path

PAGES = REPOSITORY / "docs" / "reproductions"
RESULTS = PAGES / "results"
# What each script needs: packages, and data sets.
SCRIPTS = {
    "paper_categorical": (
        ("xgboost", "treehfd", "matplotlib"),
        (
            "car_evaluation",
            "nursery",
            "mushroom",
            "poker_hand_train",
            "connect4",
            "dota2_train",
            "dota2_test",
        ),
    ),
    "paper_chapter": ((), ()),
    "paper_continuous": (("xgboost", "interpret", "matplotlib", "shap"), ("pima_diabetes",)),
    "paper_timings": ((), ()),
    "paper_shapley_sets": (("xgboost", "shap", "matplotlib"), ("boston_housing",)),
    "paper_purification": (
        ("xgboost", "interpret", "matplotlib"),
        ("california_housing", "compas_two_years", "adult"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_script_runs_to_its_end(script, tmp_path, monkeypatch, capsys):
    packages, data = SCRIPTS[script]
    for name in packages:
        pytest.importorskip(name)
    for name in data:
        data_path(name)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--small", "--store", str(tmp_path)])
    importlib.import_module(f"examples.{script}").main()
    printed = capsys.readouterr().out
    assert "left out" not in printed
    stored = {path.name for path in tmp_path.iterdir()}
    shown = {path.name for path in RESULTS.glob(f"{script.removeprefix('paper_')}_*")}
    # A small run may leave data sets out.
    assert stored <= shown
    assert stored
    for path in tmp_path.glob("*.json"):
        small, full = (
            json.loads((folder / path.name).read_text()) for folder in (tmp_path, RESULTS)
        )
        assert small["title"] in printed
        assert not small["figure"] or (tmp_path / small["figure"]).stat().st_size > 1000
        assert small["command"] == f"python examples/{script}.py --small"
        # A small run may leave lines out; what the paper prints is the same.
        assert small["columns"] == full["columns"]
        papers = [[line for line in own["lines"] if line[1] == "paper"] for own in (small, full)]
        assert [line for line in papers[0] if line not in papers[1]] == [], path.name


def test_scripts_of_papers_import_public_names_only():
    spaces = {"treepurify": tp, "treepurify.results": treepurify.results} | {
        f"treepurify.{name}": space for name in tp.__all__ if ismodule(space := getattr(tp, name))
    }
    private = [
        f"{path.name}:{node.lineno} {node.module}.{alias.name}"
        for path in (REPOSITORY / "examples").glob("paper_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("treepurify")
        for alias in node.names
        if alias.name not in getattr(spaces.get(str(node.module)), "__all__", ())
    ]
    assert private == []


def test_every_stored_table_is_shown_once():
    shown = []
    for page in PAGES.glob("*.md"):
        shown += re.findall(r"```\{stored-table\} (\w+)", page.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(path.stem for path in RESULTS.glob("*.json"))


@pytest.mark.parametrize("table", paper_timings.all_times(), ids=lambda table: table.name)
def test_stored_times_are_those_of_the_other_tables(table):
    stored = json.loads((RESULTS / f"{table.name}.json").read_text(encoding="utf-8"))
    assert reproduction.lines(table) == stored["lines"]


def test_every_quoted_cell_is_there():
    pages = list((REPOSITORY / "docs").rglob("*.md"))
    quoted = [q for p in pages for q in re.findall(r"\{stored\}`([^`]+)`", p.read_text("utf-8"))]
    assert len(quoted) > 5
    for reference in quoted:
        float(reproduction.stored_cell(RESULTS, reference).split(" ± ")[0])
    for missing in ("chapter_orders | x | ours | y", "chapter_variance | x | ours | g1"):
        with pytest.raises(LookupError):
            reproduction.stored_cell(RESULTS, missing)


def test_every_picture_is_shown():
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    shown = {own["figure"] for own in stored} - {""}
    for page in PAGES.glob("*.md"):
        shown |= set(re.findall(r"!\[[^]]*\]\(results/([^)]+)\)", page.read_text(encoding="utf-8")))
    assert shown == {path.name for path in RESULTS.glob("*.png")}


def test_every_page_is_in_the_list():
    listed = (PAGES / "index.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", listed, flags=re.MULTILINE)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_stored_tables_say_where_they_come_from(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["command"].startswith("python examples/paper_")
    assert "--small" not in stored["command"]
    assert (REPOSITORY / stored["command"].split()[1]).exists()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", stored["date"])
    assert {"python", "treepurify", "numpy"} <= set(stored["versions"])
    assert all(len(line) == 2 + len(stored["columns"]) for line in stored["lines"])
    assert path.stat().st_size < 50_000


def test_differences_are_ours_less_the_papers(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["paper_x.py", "--store", "here", "--seeds", "3"])
    entry = Entry("a", (1.0, (2.0, 0.5), None, "yes"), {"ours": ((1.5, 0.1), 1.0, 3.0, "no")})
    table = Table("x", "Table 1", ("p", "q", "r", "s"), (entry,), ".1f", ("A note.",), "x.png")
    assert reproduction.lines(table) == [
        ["a", "paper", "1.0", "2.0 ± 0.5", "", "yes"],
        ["a", "ours", "1.5 ± 0.1", "1.0", "3.0", "no"],
        ["a", "difference", "+0.5", "-1.0", "", ""],
    ]
    stored = json.loads(reproduction.store(table, tmp_path).read_text(encoding="utf-8"))
    text = reproduction.as_markdown(stored, "Open: why.")
    assert text.startswith(
        "**Table 1**\n\n*Open: why.*\n\n![Table 1](results/x.png)\n\nA note.\n\n|"
    )
    assert "| a | paper | 1.0 | 2.0 ± 0.5 |  | yes |" in text
    assert "|  | difference | +0.5 | -1.0 |  |  |" in text
    assert "python examples/paper_x.py --seeds 3" in text


def test_differences_that_agree_are_bold_and_an_origin_can_be_left_out():
    lines = [
        ["a", "paper", "1.00", "1.00", "9"],
        ["a", "ours", "1.05", "2.00", "9"],
        ["a", "difference", "+0.05", "+1.00", "+0"],
    ]
    stored = {"title": "T", "columns": ["p", "q", "seconds"], "lines": lines, "notes": []}
    stored |= {"figure": "", "command": "python x.py", "date": "2026-01-01", "versions": {}}
    text = reproduction.as_markdown(stored)
    assert "|  | difference | **+0.05** | +1.00 | +0 |" in text
    assert reproduction.origin(stored) in text
    assert "python x.py" not in reproduction.as_markdown(stored, with_origin=False)


def test_numbers_that_come_out_are_counted():
    lines = [
        ["a", "paper", "1.00", "0.50 ± 0.20", "", "3", "100"],
        ["a", "first", "1.09", "0.75", "2", "9", "0"],
        ["a", "difference", "+0.09", "+0.25", "", "+6", "-100"],
        ["a", "second", "5.00", "0.68", "2", "9", "0"],
        ["a", "difference", "+4.00", "+0.18", "", "+6", "-100"],
        ["b", "paper", "0.00", "0.01", "", "", ""],
        ["b", "first", "0.004", "0.02", "", "", ""],
        ["b", "difference", "+0.004", "+0.01", "", "", ""],
    ]
    stored = {"columns": ["p", "q", "r", "s", "seconds"], "lines": lines}
    # Of a: a tenth, the deviation under the second setting, not the fourth. Of b: the last digit.
    assert reproduction_verdicts.counted(stored) == (3, 5)


def test_every_stored_table_has_a_verdict():
    assert set(reproduction_verdicts.VERDICTS) == {path.stem for path in RESULTS.glob("*.json")}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_verdicts_agree_with_the_numbers(path):
    verdict = reproduction_verdicts.VERDICTS[path.stem]
    right, total = reproduction_verdicts.counted(json.loads(path.read_text(encoding="utf-8")))
    assert verdict.reason or verdict.kind == "reproduced"
    if verdict.kind == "reproduced":
        assert right == total
        assert verdict.reason or total
