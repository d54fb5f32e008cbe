"""JSON and Excel hold the numbers of the decomposition."""

import json
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.export import effects_frame, json_schema, to_excel, to_json
from treepurify.export.excel import sheet_names


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "k": pd.Categorical(rng.choice(list("uv"), 200))})
    X.loc[::9, "x"] = np.nan
    y = X["x"].fillna(2.0) * (X["k"] == "u")
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    needs_stored_labels(model.fit(X, y))
    return tp.purify(model, X, weights="empirical", progress=False)


def test_json_holds_every_cell(d, tmp_path):
    path = tmp_path / "d.json"
    text = to_json(d, path)
    assert path.read_text(encoding="utf-8") == text
    document = json.loads(text)
    assert document["features"] == ["x", "k"]
    assert document["measure"] == "empirical"
    for packed, (subset, component) in zip(
        document["components"], d.components.items(), strict=True
    ):
        assert packed["features"] == [d.feature_names[j] for j in subset]
        np.testing.assert_array_equal(packed["values"], component.values)
        np.testing.assert_array_equal(packed["mass"], component.mass)
        for axis, own in zip(packed["axes"], component.axes, strict=True):
            assert axis["labels"] == own.labels()
            if own.cuts is not None:
                np.testing.assert_array_equal(axis["cuts"], own.cuts)


def test_excel_holds_every_cell(d, tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    assert to_excel(d, path) == []
    sheets = pd.read_excel(path, sheet_name=None)
    importance = sheets["importance"]
    assert list(sheets) == ["importance", *importance["sheet"], "facts"]
    for term, sheet in zip(importance["term"], importance["sheet"], strict=True):
        component = next(c for s, c in d.components.items() if d.term_name(s) == term)
        assert set(sheets[sheet]["term"]) == {term}
        np.testing.assert_allclose(sheets[sheet]["effect"], component.values.ravel(), rtol=1e-15)
    np.testing.assert_allclose(sheets["importance"]["variance"], d.importance()["variance"])
    assert sheets["facts"]["value"].iloc[0] == "empirical"


def test_excel_needs_its_suffix(d, tmp_path):
    with pytest.raises(tp.errors.InvalidInputError, match=r"ending in \.xlsx"):
        to_excel(d, tmp_path / "d.csv")


def test_without_openpyxl_the_error_says_what_to_install(d, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(tp.errors.MissingDependencyError, match=r"treepurify\[excel\]"):
        to_excel(d, tmp_path / "d.xlsx")


def labelled(labels):
    """A decomposition whose first feature has these labels, in any order."""
    X = pd.DataFrame({"k": labels * 2, "x\x07": [0] * len(labels) + [1] * len(labels)})
    return tp.categorical_anova(lambda X: X["k"].map(labels.index) * X["x\x07"], X, progress=False)


def test_excel_replaces_what_a_workbook_cannot_hold(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    to_excel(labelled(["a\x08b", "tab\tand\nline", "\x1f", "é 😀"]), path)
    sheets = pd.read_excel(path, sheet_name=None, keep_default_na=False)
    assert set(sheets["k"]["cell_1"]) == {"a\ufffdb", "tab\tand\nline", "\ufffd", "é 😀"}
    assert {"x\ufffd", "k & x\ufffd"} <= set(sheets["importance"]["term"])


def test_excel_keeps_labels_that_look_like_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    labels = ["=1+1", "#N/A", "plain"]
    to_excel(labelled(labels), tmp_path / "d.xlsx")
    cells = [
        cell
        for row in openpyxl.load_workbook(tmp_path / "d.xlsx")["k"].iter_rows()
        for cell in row
        if cell.value in labels
    ]
    assert {cell.value for cell in cells} == set(labels)
    assert {cell.data_type for cell in cells} == {"s"}


def test_excel_is_written_row_by_row(tmp_path):
    pytest.importorskip("openpyxl")
    rng = np.random.default_rng(0)
    d = tp.purify_tensors({(0, 1): rng.normal(size=(50, 60))}, progress=False)
    to_excel(d, tmp_path / "first.xlsx")
    tracemalloc.start()
    to_excel(d, tmp_path / "d.xlsx")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table, _ = effects_frame(d)
    # The table and its columns as numbers; cells that are kept take a kilobyte each.
    assert peak < 250 * table.size
    written = pd.read_excel(tmp_path / "d.xlsx", sheet_name="x0 & x1")
    expected = table.loc[table["term"] == "x0 & x1", "effect"]
    np.testing.assert_allclose(written["effect"], expected, rtol=1e-15)


def test_names_of_sheets():
    long = "a feature with a name of more than thirty-one letters"
    names = sheet_names([long, long, long.upper(), "[x]:*?/\\", "", "History", "'q'", "Facts"],
                        taken=["facts"])  # fmt: skip
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert 0 < len(name) <= 31
        assert not set(name) & set("[]:*?/\\")
        assert name.lower() not in ("history", "facts")
        assert not name.startswith("'")
        assert not name.endswith("'")


def test_excel_makes_one_sheet_at_a_time(tmp_path):
    """What is in memory does not grow with the number of tables."""
    pytest.importorskip("openpyxl")
    rng = np.random.default_rng(0)
    peaks = []
    for n_features in (2, 2, 6):
        pairs = [(j, j + 1) for j in range(n_features - 1)]
        tensors = {pair: rng.normal(size=(40, 40)) for pair in pairs}
        d = tp.purify_tensors(tensors, progress=False)
        tracemalloc.start()
        to_excel(d, tmp_path / "d.xlsx")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Five pairs in place of one; what remains of each is its part of the compressed file.
    assert peaks[2] < 2 * peaks[1]


def test_excel_names_what_a_sheet_cannot_hold(d, tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    largest = max(component.values.size for component in d.components.values())
    monkeypatch.setattr("treepurify.export.excel._MOST_ROWS", largest - 1)
    left_out = to_excel(d, tmp_path / "d.xlsx")
    sheets = pd.read_excel(tmp_path / "d.xlsx", sheet_name=None)
    written = set(sheets) - {"importance", "facts"}
    assert left_out
    assert written | set(left_out) == {d.term_name(subset) for subset in d}
    assert not written & set(left_out)


def test_a_failure_leaves_the_old_workbook(d, tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    path.write_bytes(b"old")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        to_excel(d, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_names_its_parts_in_the_docstring(d):
    document = json.loads(to_json(d))
    (component, *_) = document["components"]
    for name in (*document, *component, *component["axes"][0]):
        assert f"``{name}``" in to_json.__doc__


SCHEMA = Path(__file__).parents[2] / "docs" / "_static" / "decomposition.schema.json"


def wrong_with(value, schema, root, path="$"):
    """What a JSON document breaks of a schema, for the keywords that ours has."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
        "number": float | int,
    }  # fmt: skip
    known = {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum",
        "const", "description", "title", "$schema", "$defs",
    }  # fmt: skip
    assert set(schema) <= known
    listed = schema.get("type", [])
    listed = [listed] if isinstance(listed, str) else listed
    is_flag = isinstance(value, bool)
    fits = [isinstance(value, kinds[k]) and (k == "boolean") == is_flag for k in listed]
    wrong = [] if any(fits) or not listed else [f"{path} is no {listed}"]
    if "const" in schema and value != schema["const"]:
        wrong.append(f"{path} is not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{path} is none of {schema['enum']}")
    if "anyOf" in schema:
        ways = [wrong_with(value, way, root, path) for way in schema["anyOf"]]
        wrong += [] if [] in ways else min(ways, key=len)
    if isinstance(value, dict) and "properties" in schema:
        wrong += [f"{path} lacks {name}" for name in schema["required"] if name not in value]
        for name, inner in value.items():
            if name in schema["properties"]:
                wrong += wrong_with(inner, schema["properties"][name], root, f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                wrong.append(f"{path} has {name}")
    if isinstance(value, list) and "items" in schema:
        for k, inner in enumerate(value):
            wrong += wrong_with(inner, schema["items"], root, f"{path}[{k}]")
    return wrong


@pytest.mark.parametrize("kind", ["rows", "tensors", "categories", "infinite cuts"])
def test_documents_follow_the_schema(d, kind):
    schema = json_schema()
    made = {
        "rows": lambda: d,
        "tensors": lambda: tp.purify_tensors({(0, 1): np.eye(3)}, progress=False),
        "categories": lambda: labelled(["a", "b"]),
        "infinite cuts": lambda: with_infinite_cut(d),
    }
    document = json.loads(to_json(made[kind]()))
    assert wrong_with(document, schema, schema) == []


def with_infinite_cut(d):
    component = d["x"]
    cuts = np.append(component.axes[0].cuts[:-1], np.inf)
    axis = replace(component.axes[0], cuts=cuts)
    return replace(d, components={(0,): replace(component, axes=(axis,))})


def test_the_schema_refuses_what_does_not_belong(d):
    schema = json_schema()
    document = json.loads(to_json(d))
    first = document["components"][0]
    for change in (
        {"version": 2}, {"measure": None}, {"intercept": ["1"]}, {"more": 1},
        {"has_remainder": 1}, {"components": [{**first, "axes": [{"labels": []}]}]},
        {"components": [{**first, "values": [["a"]]}]},
    ):  # fmt: skip
        assert wrong_with({**document, **change}, schema, schema), change
    del document["outputs"]
    assert wrong_with(document, schema, schema) == ["$ lacks outputs"]


def test_the_published_schema_is_that_of_the_package():
    expected = json.dumps(json_schema(), indent=2) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == expected, "write json_schema() to docs/_static"


def test_margins_follow_from_the_document(d):
    """By the schema alone, without the package."""
    document = json.loads(to_json(d))
    rows = pd.DataFrame({"x": [-0.3, np.nan, 2.5, 0.1], "k": ["u", "v", None, "u"]})
    rows = rows[:2]
    expected = d.predict(rows.assign(k=pd.Categorical(rows["k"])))
    found = []
    for row in rows.to_dict("records"):
        total = document["intercept"][0]
        for component in document["components"]:
            entry = component["values"]
            for name, axis in zip(component["features"], component["axes"], strict=True):
                value = row[name]
                if pd.isna(value):
                    assert axis["has_missing"]
                    entry = entry[-1]
                elif "cuts" in axis:
                    entry = entry[sum(value >= float(cut) for cut in axis["cuts"])]
                else:
                    entry = entry[axis["categories"].index(value)]
            total += entry[0]
        found.append(total)
    np.testing.assert_allclose(found, expected, atol=1e-12)
