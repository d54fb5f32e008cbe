"""A report of a deep model says what its effects leave out, and gives examples their remainder."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium, unpacked
from treepurify.origin import ModelFacts
from treepurify.report import write_html
from treepurify.report.payload import make_payload

N_EXAMPLES = 4


@pytest.fixture(scope="module")
def deep():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 4))
    y = 4 * X[:, 0] * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=5, n_jobs=1).fit(X, y)
    return tp.purify(model, X, weights="empirical", progress=False), model, X


def headline(page):
    return re.search(r'<p class="verdict (\w+)">(.*?)</p>', page).groups()


def test_the_headline_says_how_much_the_effects_explain(deep, tmp_path):
    d, model, X = deep
    page = write_html(d, tmp_path / "deep.html", top=1).read_text(encoding="utf-8")
    predicted = model.predict(X).astype(float)
    shown = d.intercept[0] + sum(c.on_rows(X)[:, 0] for c in d.components.values())
    explained = 1 - np.var(predicted - shown) / np.var(predicted)
    assert explained < 0.9
    state, words = headline(page)
    assert state == "part"
    said = float(re.search(r"explain ([\d.]+)%", words).group(1))
    assert said == pytest.approx(100 * explained, abs=0.06)
    assert "interactions of three or more features" in words


@pytest.mark.parametrize("weights", ["independent", "laplace", "uniform"])
def test_every_measure_says_it(deep, weights, tmp_path):
    _, model, X = deep
    d = tp.purify(model, X, weights=weights, order=2, progress=False)
    state, words = headline(write_html(d, tmp_path / "d.html", top=0).read_text(encoding="utf-8"))
    assert (state, "of the model" in words) == ("part", True)


def test_without_a_remainder_the_headline_is_as_before(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, X[:, 0] * X[:, 1]), X, weights="empirical", progress=False)
    page = write_html(d, tmp_path / "d.html", top=0).read_text(encoding="utf-8")
    assert headline(page)[0] == "good"
    assert "hold" not in headline(page)[1]
    assert "remainder" not in page[: page.index("<script")]


def test_an_unknown_share_is_not_green(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    d = tp.ale_anova(lambda X: X[:, 0] * X[:, 1] * X[:, 2], X, bins=4, progress=False)
    assert d.certificate is None
    state, words = headline(write_html(d, tmp_path / "d.html", top=0).read_text(encoding="utf-8"))
    assert (state, words.startswith("The effects explain")) == ("part", True)


def test_examples_have_what_the_model_says(deep):
    d, model, X = deep
    rows = X[:N_EXAMPLES]
    document = json.loads(make_payload(d, X=rows).text)
    examples = document["examples"]
    predicted = model.predict(rows).astype(float)
    np.testing.assert_allclose(np.ravel(examples["prediction"]), predicted, rtol=1e-5)
    values = {s: c.on_rows(rows)[:, 0] for s, c in d.components.items()}
    rest = predicted - d.intercept[0] - sum(values.values())
    np.testing.assert_allclose(np.ravel(examples["remainder"]), rest, atol=1e-5)
    # Of merged pairs the table says only the mean, so their own values come along.
    merged = [i for i, term in enumerate(document["terms"]) if term["merged"]]
    assert merged
    assert sorted(map(int, examples["exact"])) == merged
    for i in merged:
        truth = values[tuple(document["terms"][i]["features"])]
        found = unpacked(examples["exact"][str(i)], (N_EXAMPLES, 1))[:, 0]
        np.testing.assert_allclose(found, truth, atol=np.abs(truth).max() / 30000)


def test_what_the_page_leaves_out_is_a_part_of_the_examples(deep):
    d, _, X = deep
    document = json.loads(make_payload(d, X=X[:N_EXAMPLES], table_bytes=0).text)
    pairs = sum(c.on_rows(X[:N_EXAMPLES]) for s, c in d.components.items() if len(s) == 2)
    np.testing.assert_allclose(document["examples"]["missing"], pairs, atol=1e-12)
    assert document["missing"] == sum(len(s) == 2 for s in d)


def test_without_its_function_a_report_of_examples_can_be_written(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    d = tp.ale_anova(lambda X: X[:, 0] * X[:, 1] * X[:, 2], X, bins=4, progress=False)
    d.save(tmp_path / "d.tpz")
    document = json.loads(make_payload(tp.load(tmp_path / "d.tpz"), X=X[:2]).text)
    assert document["examples"]["prediction"] is None
    assert document["remainder"] is True


@needs_chromium
def test_one_prediction_in_the_browser(deep, tmp_path):
    d, model, X = deep
    page = write_html(d, tmp_path / "deep.html", top=1, X=X[:N_EXAMPLES])
    result = in_browser(
        page,
        """
        const place = document.getElementById("prediction-explorer");
        const row = place.querySelector("select");
        const said = () => text("#prediction-explorer .readout");
        result.first = Number(row.value);
        result.rows = [1, 2, 3, 4].map((i) => { choose(row, i); return said(); });
        const names = () => all("svg text", place).map((own) => own.textContent);
        result.names = names();
        const box = place.querySelector("#value-3");
        choose(box, box.value === "0" ? 1 : 0);
        result.changed = said();
        result.byHand = names();
        result.chosen = row.value;
        """,
        tmp_path,
    )
    said = [
        float(own.split("this row ")[1].rstrip(".").replace("\u2212", "-"))
        for own in result["rows"]
    ]
    np.testing.assert_allclose(said, model.predict(X[:N_EXAMPLES]), rtol=2e-3, atol=1e-4)
    assert 1 <= result["first"] <= N_EXAMPLES
    assert "remainder" in result["names"]
    assert "remainder" not in result["byHand"]
    assert "this row" not in result["changed"]
    assert "it leaves out the remainder, which needs the model itself" in result["changed"]
    assert "This is not the prediction, since" in result["changed"]
    assert result["chosen"] == "0"


def test_after_an_edit_the_remainder_is_not_said_to_hold_the_rest(deep, tmp_path):
    d, _, _ = deep
    edited = d.only("x0", "x1")
    assert edited.remainder is None
    page = write_html(edited, tmp_path / "edited.html", top=0).read_text(encoding="utf-8")
    for words in (str(edited), "\n".join(edited.certificate.details()), page):
        assert "before the edits" in words
        assert "remainder contains the rest" not in words
    assert "2 of 1 feature<" in page


def test_a_version_that_is_not_known_is_not_shown(deep, tmp_path):
    d, _, _ = deep
    model = ModelFacts("lightgbm", "unknown", trees=40)
    unknown = replace(d, origin=replace(d.origin, model=model))
    page = write_html(unknown, tmp_path / "d.html", top=0).read_text(encoding="utf-8")
    assert "<dd>lightgbm, 40 trees</dd>" in page
