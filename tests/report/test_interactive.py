"""The interactive report in headless Chromium, and the numbers it is given."""

import base64
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify.auditing.audit import audit
from treepurify.report import write_html
from treepurify.report.payload import make_payload

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

DRIVER = """
<script>
window.problems = [];
window.addEventListener("error", (event) => problems.push(event.message));
</script>
"""
ACTIONS = """
<script>
const result = {};
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const text = (selector) => document.querySelector(selector).textContent;
const choose = (box, value) => { box.value = value; box.dispatchEvent(new Event("change")); };
try {
%s
} catch (error) { problems.push(String(error)); }
result.problems = problems;
const shown = Object.assign(document.createElement("pre"), { id: "result" });
shown.textContent = JSON.stringify(result);
document.body.replaceChildren(shown);
</script>
"""


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
    y = np.nan_to_num(X["age"]) * (X["kind"] == "b") + 0.3 * X["hours"]
    return X, y


@pytest.fixture(scope="module")
def model():
    X, y = rows()
    return xgboost.XGBRegressor(
        n_estimators=25, max_depth=2, enable_categorical=True, n_jobs=1
    ).fit(X, y)


@pytest.fixture
def labelled(model):
    needs_stored_labels(model)


@pytest.fixture(scope="module")
def audited(model):
    return audit(model, rows()[0], n_bootstrap=2, progress=False)


@pytest.fixture(scope="module")
def page(audited, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_html(audited.decomposition, path, audit=audited, X=rows()[0].iloc[:5])


def in_browser(page, actions, tmp_path, width=1000, more=()):
    """Run actions on the page opened from its file, and return what they gathered."""
    text = page.read_text(encoding="utf-8").replace("<head>", f"<head>{DRIVER}", 1)
    text = text.replace("</body>", (ACTIONS % actions) + "</body>")
    copy = tmp_path / "driven.html"
    copy.write_text(text, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", *more,
        "--enable-logging=stderr", "--dump-dom", copy.as_uri(),
    ]  # fmt: skip
    environment = os.environ | {"HOME": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=90, env=environment
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:]
    plain = found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    result = json.loads(plain)
    assert result["problems"] == []
    return result


@needs_chromium
def test_it_opens_and_its_table_sorts(page, audited, tmp_path):
    result = in_browser(
        page,
        """
        const effects = "section[aria-labelledby=effects]";
        const names = () => all(`${effects} tbody th`).map((cell) => cell.textContent);
        result.before = names();
        document.querySelector(`${effects} thead button`).click();
        result.sorted = names();
        document.querySelector(`${effects} thead button`).click();
        result.turned = names();
        result.state = document.querySelector(`${effects} thead th`).getAttribute("aria-sort");
        const filter = document.getElementById("filter");
        filter.value = "AGE"; filter.dispatchEvent(new Event("input"));
        result.shown = all(`${effects} tbody tr`).filter((row) => !row.hidden).length;
        result.hidden = all(".interactive").filter((own) => own.hidden).length;
        result.still = getComputedStyle(document.querySelector(".static")).display;
        """,
        tmp_path,
    )
    d = audited.decomposition
    assert result["before"] == list(d.importance()["term"])
    assert result["sorted"] == sorted(result["before"])
    assert result["turned"] == sorted(result["before"], reverse=True)
    assert result["state"] == "descending"
    assert result["shown"] == sum("age" in name for name in result["before"])
    assert (result["hidden"], result["still"]) == (0, "none")


@needs_chromium
@pytest.mark.usefixtures("labelled")
def test_effects_switch(page, tmp_path):
    result = in_browser(
        page,
        """
        const place = document.getElementById("main-explorer");
        const paths = () => place.querySelectorAll("path").length;
        const select = place.querySelector("select");
        const options = [...select.options].map((option) => option.textContent);
        choose(select, options.findIndex((name) => name.startsWith("age ")));
        result.two = paths();
        const boxes = place.querySelectorAll("input[type=checkbox]");
        result.boxes = boxes.length;
        boxes[3].click();
        result.three = paths();
        [0, 1, 3].forEach((i) => boxes[i].click());
        result.none = paths();
        boxes[0].click();
        choose(select, options.findIndex((name) => name.startsWith("kind ")));
        result.bars = place.querySelectorAll("rect[fill^=var]").length;
        result.labels = [...place.querySelectorAll("text")].map((own) => own.textContent);
        all("button.link").find((own) => own.textContent === "hours").click();
        result.opened = place.querySelector("svg").getAttribute("aria-label");
        """,
        tmp_path,
    )
    assert result["boxes"] == 5
    assert (result["two"], result["three"], result["none"]) == (2, 3, 0)
    assert result["bars"] >= 3
    assert "</script>" in result["labels"]
    assert result["opened"].startswith("hours, effect on the prediction from ")


@needs_chromium
def test_pairs_are_read_by_keyboard(page, audited, tmp_path):
    result = in_browser(
        page,
        """
        const place = document.getElementById("pair-explorer");
        const heat = () => place.querySelector(".heat");
        const press = (key) => heat().dispatchEvent(new KeyboardEvent("keydown", { key }));
        result.name = place.querySelector("select").selectedOptions[0].textContent;
        press("ArrowRight");
        result.first = text("#pair-explorer .readout");
        place.querySelectorAll("input[type=radio]")[1].click();
        press("ArrowLeft");
        result.second = text("#pair-explorer .readout");
        result.focusable = heat().tabIndex;
        """,
        tmp_path,
    )
    d = audited.decomposition
    name = result["name"].rsplit(" (", 1)[0]
    pair = d[tuple(name.split(" & "))]

    def said(text):
        return float(text.split("): ")[1].split(",")[0].replace("\u2212", "-"))

    assert said(result["first"]) == pytest.approx(pair.values[1, 0, 0], rel=6e-3, abs=1e-4)
    assert pair.axes[0].labels()[1] in result["first"]
    raw = pair.raw[..., 0] - np.sum(pair.mass * pair.raw[..., 0])
    assert said(result["second"]) == pytest.approx(raw[0, 0], rel=6e-3, abs=1e-4)
    assert "before purification" in result["second"]
    assert result["focusable"] == 0


def said_by_lines(text):
    """Return the number of each line in what the page says of a cell."""
    parts = text.replace("\u2212", "-").split(". ", 1)[1].split("; ")
    return [float(part.rsplit(": ", 1)[1].removesuffix(" (no data)")) for part in parts]


@needs_chromium
@pytest.mark.usefixtures("labelled")
def test_pairs_are_shown_as_lines(page, audited, tmp_path):
    result = in_browser(
        page,
        """
        const place = document.getElementById("pair-explorer");
        const select = place.querySelector("select");
        const options = [...select.options].map((option) => option.textContent);
        choose(select, options.findIndex((name) => name.startsWith("age & kind ")));
        const views = place.querySelectorAll("fieldset")[1].querySelectorAll("input");
        const press = (key) =>
          place.querySelector(".lines").dispatchEvent(new KeyboardEvent("keydown", { key }));
        result.words = text("#pair-explorer .readout");
        // The second category of the model is the first one by its main effect.
        for (const [view, presses] of [[1, 2], [2, 1]]) {
          views[view].click();
          const legend = [...place.querySelectorAll(".legend li")];
          for (let i = 0; i < presses; i++) press("ArrowRight");
          result[view] = {
            lines: place.querySelectorAll("path.line").length,
            legend: legend.map((own) => own.textContent),
            said: text("#pair-explorer .readout"),
          };
        }
        place.querySelectorAll("fieldset")[2].querySelectorAll("input")[1].click();
        press("ArrowRight");
        result.alone = text("#pair-explorer .readout");
        views[0].click();
        result.heat = place.querySelectorAll(".heat").length;
        """,
        tmp_path,
    )
    d = audited.decomposition
    pair = d["age", "kind"]
    effect = pair.values[..., 0] + d["age"].values[:, [0]] + d["kind"].values[:, 0]
    along, labels = result["1"], [axis.labels() for axis in pair.axes]
    assert along["lines"] == len(along["legend"]) == len(labels[1])
    assert along["legend"] == [f"kind {label}" for label in labels[1]]
    assert along["said"].startswith(f"age {labels[0][1]}. ")
    np.testing.assert_allclose(said_by_lines(along["said"]), effect[1], rtol=6e-3, atol=2e-4)
    other = result["2"]
    assert other["lines"] == 3
    assert other["said"].startswith(f"kind {labels[1][1]}. age ")
    # The cells of the 10%, 50% and 90% quantile of those that are not missing.
    mass = pair.mass.sum(axis=1)[: pair.axes[0].n_regular]
    cells = np.searchsorted(np.cumsum(mass), np.array([0.1, 0.5, 0.9]) * mass.sum())
    ages = [labels[0][cell].replace("-", "\N{MINUS SIGN}") for cell in cells]
    assert other["legend"] == [f"age {age}" for age in ages]
    turned = effect[cells, 1]
    np.testing.assert_allclose(said_by_lines(other["said"]), turned, rtol=6e-3, atol=2e-4)
    alone = pair.values[cells, 1, 0]
    np.testing.assert_allclose(said_by_lines(result["alone"]), alone, rtol=6e-3, atol=2e-4)
    assert result["heat"] == 1


@needs_chromium
@pytest.mark.usefixtures("labelled")
def test_predictions_are_those_of_the_model(page, audited, model, tmp_path):
    X = rows()[0].iloc[:5]
    result = in_browser(
        page,
        """
        const place = document.getElementById("prediction-explorer");
        const row = place.querySelector("select");
        result.examples = [];
        for (let i = 1; i <= 5; i++) {
          choose(row, i);
          result.examples.push(text("#prediction-explorer .readout"));
        }
        place.querySelectorAll("input[type=radio]")[1].click();
        result.shapley = place.querySelectorAll(".canvas rect").length;
        const chosen = all(".fields select", place).map((box) => box.selectedOptions[0]);
        result.values = chosen.map((option) => option.textContent);
        choose(place.querySelector("#value-2"), 0);
        result.changed = text("#prediction-explorer .readout");
        """,
        tmp_path,
    )
    predictions = [
        float(line.split("this row ")[1].rstrip(".").replace("\u2212", "-"))
        for line in result["examples"]
    ]
    np.testing.assert_allclose(predictions, model.predict(X), rtol=2e-3, atol=2e-3)
    assert result["shapley"] == 3
    assert result["values"][1] == str(X["kind"].iloc[4])
    assert result["changed"] != result["examples"][-1]


@needs_chromium
@pytest.mark.parametrize("width", [500, 1400])
def test_nothing_is_wider_than_the_window(page, width, tmp_path):
    result = in_browser(
        page,
        """
        result.page = document.documentElement.scrollWidth;
        result.window = window.innerWidth;
        """,
        tmp_path,
        width,
    )
    assert result["page"] <= result["window"]


@needs_chromium
def test_findings_open_their_effect(page, audited, tmp_path):
    result = in_browser(
        page,
        """
        result.items = document.querySelectorAll(".findings > li").length;
        result.links = document.querySelectorAll(".findings button.link").length;
        document.querySelector(".findings button.link").click();
        result.pictures = document.querySelectorAll(".findings svg").length;
        """,
        tmp_path,
    )
    assert result["items"] == len(audited.findings)
    assert result["links"] == len(audited.findings)
    assert result["pictures"] > 0


@needs_chromium
def test_several_outputs_in_the_browser(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] * X[:, 2] > 0.5)
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical")
    page = write_html(d, tmp_path / "classes.html", top=1)
    result = in_browser(
        page,
        """
        const place = document.getElementById("main-explorer");
        const [effect, output] = place.querySelectorAll("select");
        choose(output, 2);
        result.said = text("#main-explorer .readout");
        """,
        tmp_path,
    )
    first = max((s for s in d if len(s) == 1), key=lambda s: d.components[s].variance.sum())
    values = d.components[first].values[:, 2]
    low = float(result["said"].split("from ")[1].split(" to ")[0].replace("\u2212", "-"))
    assert low == pytest.approx(values.min(), rel=6e-3)
    assert "effect on the score of class 2" in result["said"]


def unpacked(packed, shape):
    whole = np.frombuffer(base64.b64decode(packed["data"]), dtype="<i2")
    return np.moveaxis(whole.reshape(shape[-1], *shape[:-1]) * packed["step"], 0, -1)


def test_payload_holds_the_tables(audited):
    d = audited.decomposition
    others = [compared.second for compared in audited.comparisons.values()]
    document = json.loads(make_payload(d, others, rows()[0].iloc[:3]).text)
    assert [term["name"] for term in document["terms"]][:3] == [d.term_name(s) for s in list(d)[:3]]
    for term in document["terms"]:
        component = d.components[tuple(term["features"])]
        values = unpacked(term["curves"][0], component.values.shape)
        step = np.abs(component.values).max() / 32000
        np.testing.assert_allclose(values, component.values, atol=1.01 * step)
        other = unpacked(term["curves"][3], component.values.shape)
        truth = others[1].components[component.features].values
        np.testing.assert_allclose(other, truth, atol=1.01 * np.abs(truth).max() / 32000)
        mass = unpacked(term["mass"], (*component.mass.shape, 1))[..., 0]
        np.testing.assert_array_equal(mass > 0, component.mass > 0)
    assert document["rows"][0][0] is None
    assert document["curves"][0] == "purified, smoothed rows"


def test_payload_leaves_out_the_least_important(audited):
    d = audited.decomposition
    payload = make_payload(d, table_bytes=0)
    assert set(payload.left_out) == {d.term_name(s) for s in d if len(s) == 2}
    pairs = sum(d.covariances[s][0] for s in d if len(s) == 2)
    total = sum(values[0] for values in d.covariances.values())
    assert payload.share_left_out == pytest.approx(pairs / total)
    assert make_payload(d).left_out == ()


def test_page_is_safe_and_small(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    assert page.stat().st_size < 6e6
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_rows_stay_out_unless_given(audited, tmp_path):
    page = write_html(audited.decomposition, tmp_path / "plain.html", top=1)
    assert '"rows":[]' in page.read_text(encoding="utf-8")
