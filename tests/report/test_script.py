"""The script of a page says what the decomposition says: its functions are run by Node."""

import json
import shutil
import subprocess
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from tests.cases import needs_stored_labels
from tests.report.pages import Page
from treepurify.report import write_html

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no Node on this machine")
SCRIPT = resources.files("treepurify.report") / "report.js"


def run(page, expression):
    """Return the value of an expression in which `logic` and the `data` of a page are known."""
    code = (
        f"const logic = require({json.dumps(str(SCRIPT))});"
        f"const data = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        f"console.log(JSON.stringify({expression}));"
    )
    done = subprocess.run(
        [NODE, "-e", code], input=json.dumps(page.data), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.normal(size=500),
            "kind": pd.Categorical(rng.choice(["</script>", "b", "c"], 500)),
            "hours": rng.integers(0, 9, 500).astype(float),
        }
    )
    X.loc[::9, "age"] = np.nan
    return X, np.nan_to_num(X["age"]) * (X["kind"] == "b") + 0.3 * X["hours"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    X, y = rows()
    model = xgboost.XGBRegressor(
        n_estimators=25, max_depth=2, enable_categorical=True, n_jobs=1
    ).fit(X, y)
    needs_stored_labels(model)
    d = tp.purify(model, X, weights="empirical", progress=False)
    path = tmp_path_factory.mktemp("page") / "page.html"
    return d, X, Page(write_html(d, path, X=X.head(30), progress=False))


def test_labels_cannot_end_the_script(made):
    *_, page = made
    assert "</script>" in page.data["features"][1]["labels"]
    assert page.source.count("</script>") == 2


def test_chosen_cells_add_up_to_the_prediction(made):
    d, X, page = made
    data = page.data
    sums = run(
        page,
        "data.examples.map((example) => data.intercept[0] + "
        "logic.added(data, example.cells, 0, null).reduce((sum, value) => sum + value, 0))",
    )
    np.testing.assert_allclose(sums, d.predict(X.head(30)), atol=1e-3)
    exact = run(
        page,
        "data.examples.map((example) => data.intercept[0] + "
        "logic.parts(data, example.cells, 0, example).reduce((sum, part) => sum + part.value, 0))",
    )
    np.testing.assert_allclose(exact, d.predict(X.head(30)), atol=1e-3)
    assert len(data["features"]) == 3


def test_parts_are_named_with_their_values(made):
    _, X, page = made
    names = run(page, "logic.parts(data, data.examples[1].cells, 0, data.examples[1])")
    hours = next(part["name"] for part in names if part["name"].startswith("hours ="))
    assert float(hours[8:]) == X["hours"].iloc[1]
    sizes = [abs(part["value"]) for part in names]
    assert sizes == sorted(sizes, reverse=True)


def test_a_cell_of_a_figure_is_read(made):
    d, _, page = made
    number = next(
        i
        for i, figure in enumerate(page.data["figures"])
        if figure and figure["names"] == ["hours"]
    )
    said = run(page, f"logic.said(data.figures[{number}], [0])")
    label = page.data["figures"][number]["along"][0]["labels"][0]
    value = d["hours"].values[d["hours"].axes[0].labels().index(label), 0]
    assert said.startswith(f"hours {label} (")
    assert f"{abs(value):.3g}" in said
    assert run(page, "logic.cellAt([[0, 0.5], [0.5, 1]], 0.7)") == 1
    assert run(page, "logic.cellAt([[0.2, 0.5]], 0.7)") == -1


def test_ticks_are_round_and_inside(made):
    *_, page = made
    for low, high in ((-1.3, 2.2), (0, 0), (1e-7, 3e-7), (-250, -20)):
        ticks = run(page, f"logic.ticks({low}, {high}, 4)")
        assert all(low <= tick <= high for tick in ticks)
        assert len(ticks) <= 6


def test_tables_sort_numbers_as_numbers(made):
    *_, page = made
    words = ["\N{MINUS SIGN}3", "10%", "9", "beta", ""]
    keys = run(page, f"{json.dumps(words)}.map(logic.key).sort(logic.inOrder)")
    assert keys == [-3, 9, 10, "", "beta"]


def test_categories_without_labels_are_one_choice(tmp_path):
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"city": rng.choice([f"city {k}" for k in range(9)], 900)})
    X["age"] = rng.integers(20, 60, 900)
    catboost.CatBoostRegressor(
        iterations=60, depth=2, one_hot_max_size=20, verbose=0, allow_writing_files=False,
        cat_features=["city"], random_seed=0,
    ).fit(X, X["city"].str[-1].astype(int) ** 2 * (1.0 + (X["age"] > 40))).save_model(
        tmp_path / "model.cbm"
    )  # fmt: skip
    few = X[~X["city"].isin(["city 2", "city 5", "city 8"])]
    d = tp.purify(
        tmp_path / "model.cbm", few, weights="independent", missing_cells="always", progress=False
    )
    page = Page(write_html(d, tmp_path / "page.html", X=X.head(20), progress=False))
    labels = page.data["features"][0]["labels"]
    assert labels[6:] == ["3 other categories", "other", "missing"]
    shown = [labels[example["cells"][0]] for example in page.data["examples"]]
    hashed = X["city"].head(20).isin(["city 2", "city 5", "city 8"])
    assert shown == X["city"].head(20).mask(hashed, "3 other categories").tolist()
    sums = run(
        page,
        "data.examples.map((example) => data.intercept[0] + "
        "logic.parts(data, example.cells, 0, example).reduce((sum, part) => sum + part.value, 0))",
    )
    np.testing.assert_allclose(sums, d.predict(X.head(20)), rtol=1e-3)
