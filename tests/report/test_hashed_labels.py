"""Categories of which a CatBoost file has hashes alone are one entry of menus and tables."""

import json

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium
from treepurify.report import write_html, write_numbers
from treepurify.report.payload import make_payload

catboost = pytest.importorskip("catboost")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"city": rng.choice([f"city {k}" for k in range(9)], 900)})
    X["age"] = rng.integers(20, 60, 900)
    return X


@pytest.fixture(scope="module")
def d(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.cbm"
    number = rows["city"].str[-1].astype(int)
    catboost.CatBoostRegressor(
        iterations=60, depth=2, one_hot_max_size=20, verbose=0, allow_writing_files=False,
        cat_features=["city"], random_seed=0,
    ).fit(rows, number**2 * (1.0 + (rows["age"] > 40))).save_model(path)  # fmt: skip
    few = rows[~rows["city"].isin(["city 2", "city 5", "city 8"])]
    return tp.purify(path, few, weights="independent", missing_cells="always", progress=False)


def test_menus_have_one_entry_for_all_without_a_label(d, rows):
    payload = make_payload(d, X=rows.head(20))
    packed = json.loads(payload.text)
    axes = [axis for axis in packed["axes"] if axis["feature"] == 0]
    (axis,) = axes  # of the main effect and the pair alike
    assert "#" not in "".join(axis["labels"])
    assert axis["labels"][6:] == ["3 other categories", "other", "missing"]
    assert payload.has_means
    codes = d.inputs.columns(rows.head(20)).values[0].astype(int)
    shown = [axis["labels"][axis["codes"][code]] for code in codes]
    hashed = rows["city"].head(20).isin(["city 2", "city 5", "city 8"])
    assert shown == rows["city"].head(20).mask(hashed, "3 other categories").tolist()
    # What these rows have exactly is known of each effect of the city.
    assert len(packed["examples"]["exact"]) == sum(0 in subset for subset in d.components)


def test_tables_have_one_row_for_all_without_a_label(d, tmp_path):
    write_numbers(d, tmp_path / "page.html")
    cells = pd.read_csv(tmp_path / "page_cells.csv")
    own = cells[cells["effect"] == "city"].set_index("cell_1")
    assert not cells["cell_1"].str.startswith("#").any()
    expected = d.to_frame("city").set_index("city")
    assert "3 other categories" in own.index
    labels = [*expected.index]
    np.testing.assert_allclose(own.loc[labels, "value"], expected["effect"], atol=1e-14)


@needs_chromium
def test_the_page_adds_up_examples_and_choices(d, rows, tmp_path):
    path = tmp_path / "page.html"
    write_html(d, path, X=rows.head(20))
    result = in_browser(
        path,
        """
        const box = document.getElementById("value-0");
        const row = document.querySelector("#prediction-explorer select");
        result.examples = [];
        for (let i = 1; i <= 20; i++) {
          choose(row, i);
          result.examples.push(text("#prediction-explorer .readout"));
        }
        result.options = all("option", box).map((option) => option.textContent);
        const hashed = result.options.indexOf("3 other categories");
        choose(box, hashed);
        result.chosen = Number(box.value) === hashed;
        result.said = text("#prediction-explorer .readout");
        """,
        tmp_path,
    )
    predictions = [
        float(line.split("this row ")[1].rstrip(".").replace("\u2212", "-"))
        for line in result["examples"]
    ]
    np.testing.assert_allclose(predictions, d.predict(rows.head(20)), rtol=1e-3, atol=1e-3)
    assert result["options"][6] == "3 other categories"
    assert result["chosen"]
    assert "count as 0" not in result["said"]
