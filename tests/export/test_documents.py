"""JSON and Excel hold the numbers of the decomposition."""

import json
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify.export import effects_frame, to_excel, to_json


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "k": pd.Categorical(rng.choice(list("uv"), 200))})
    X.loc[::9, "x"] = np.nan
    y = X["x"].fillna(2.0) * (X["k"] == "u")
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, progress=False)


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
    assert set(sheets) == {"importance", "effects", "facts"}
    assert len(sheets["effects"]) == sum(c.values.size for c in d.components.values())
    np.testing.assert_allclose(sheets["importance"]["variance"], d.importance()["variance"])
    assert sheets["facts"]["value"].iloc[0] == "empirical"


def test_excel_needs_its_suffix(d, tmp_path):
    with pytest.raises(tp.InvalidInputError, match=r"ending in \.xlsx"):
        to_excel(d, tmp_path / "d.csv")


def test_without_openpyxl_the_error_says_what_to_install(d, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(tp.MissingDependencyError, match=r"treepurify\[excel\]"):
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
    effects = sheets["effects"]
    written = effects.loc[effects["term"] == "k", "cell_1"]
    assert set(written) == {"a\ufffdb", "tab\tand\nline", "\ufffd", "é 😀"}
    assert {"x\ufffd", "k & x\ufffd"} <= set(sheets["importance"]["term"])


def test_excel_keeps_labels_that_look_like_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    labels = ["=1+1", "#N/A", "plain"]
    to_excel(labelled(labels), tmp_path / "d.xlsx")
    cells = [
        cell
        for row in openpyxl.load_workbook(tmp_path / "d.xlsx")["effects"].iter_rows()
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
    written = pd.read_excel(tmp_path / "d.xlsx", sheet_name="effects")
    np.testing.assert_allclose(written["effect"], table["effect"], rtol=1e-15)


def test_excel_names_what_a_sheet_cannot_hold(d, tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    largest = max(component.values.size for component in d.components.values())
    monkeypatch.setattr("treepurify.export.excel._MOST_ROWS", largest)
    left_out = to_excel(d, tmp_path / "d.xlsx")
    written = set(pd.read_excel(tmp_path / "d.xlsx", sheet_name="effects")["term"])
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
