"""A report holds the effects of every engine, also of those that are no tables of cells."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium, unpacked
from treepurify.report import write_html
from treepurify.report.payload import make_payload

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")

QUIET = {"progress": False}
SMOOTH = {"sampled", "ale", "ale of a model", "legendre", "all orders of a function"}


def rows():
    rng = np.random.default_rng(0)
    colours = rng.choice(["red", "green", "blue"], p=[0.6, 0.3, 0.1], size=200)
    return pd.DataFrame(
        {
            "a": rng.normal(size=200),
            "b": rng.exponential(size=200),
            "c": pd.Categorical(colours, categories=["blue", "none", "green", "red"]),
            "flag": rng.choice([0.0, 1.0, 3.5], size=200),
        }
    )


def f(frame):
    a, b, flag = (frame[name].to_numpy() for name in ("a", "b", "flag"))
    return a * np.minimum(b, 2) + a * (frame["c"] == "red").to_numpy() + np.sin(a) + flag * b


@pytest.fixture(scope="module")
def decompositions():
    frame = rows()
    numbers = frame[["a", "b", "flag"]]
    coded = (frame[["a", "b"]] > 0.5).assign(c=frame["c"])
    model = GradientBoostingRegressor(n_estimators=10, max_depth=3, random_state=0)
    model.fit(numbers, f(frame))
    background = {"background_size": 15, **QUIET}
    return {
        "purify": tp.purify(model, numbers, weights="empirical", **QUIET),
        "ale": tp.ale_anova(f, frame, bins=5, **QUIET),
        "ale of a model": tp.ale_anova(model, numbers, bins=5, **QUIET),
        "hooker": tp.hooker_anova(f, frame, bins=5, **QUIET),
        "exact": tp.partial_dependence_anova(model, numbers, order=2, **QUIET),
        "all orders": tp.partial_dependence_anova(model, numbers, order=None, **QUIET),
        "sampled": tp.partial_dependence_anova(f, frame, order=2, **background),
        "all orders of a function": tp.partial_dependence_anova(f, frame, order=3, **background),
        "categorical": tp.categorical_anova(f(frame), coded, order=2),
        "legendre": tp.legendre_anova(f, frame, degree=3, selection="all", **QUIET),
    }


ENGINES = (
    "purify", "ale", "ale of a model", "hooker", "exact", "all orders", "sampled",
    "all orders of a function", "categorical", "legendre",
)  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_report_holds_each_effect(decompositions, engine, tmp_path):
    d = decompositions[engine]
    page = write_html(d, tmp_path / "report.html", top=2).read_text(encoding="utf-8")
    packed = json.loads(re.search(r'id="payload">(.*?)</script>', page, re.S).group(1))
    drawn = [d.term_name(s) for s in d if len(s) <= 2]
    assert sorted(term["name"] for term in packed["terms"]) == sorted(drawn)
    table = page.split('id="effects"', 1)[1]
    for subset in d:
        assert f'<th scope="row">{d.term_name(subset).replace("&", "&amp;")}</th>' in table
    figures = page.count("<figure>")
    # Effects of less than half a percent of the variance are not drawn.
    assert figures >= 1 + min(2, len([s for s in d if len(s) == 1])) + 1
    captions = " ".join(re.findall(r"<figcaption>(.*?)</figcaption>", page, re.S))
    is_said = "its values at the midpoints of" in captions
    assert is_said == (engine in SMOOTH)
    assert {term["smooth"] for term in packed["terms"]} == {engine in SMOOTH}


def test_the_page_has_the_values_of_curves(decompositions):
    d = decompositions["legendre"]
    document = json.loads(make_payload(d).text)
    (term,) = [term for term in document["terms"] if term["name"] == "a"]
    axis = document["axes"][term["axes"][0]]
    values = unpacked(term["curves"][0], (axis["cells"], 1))[:, 0]
    middles = np.convolve(axis["edges"], [0.5, 0.5], mode="valid")
    frame = rows().iloc[np.zeros(len(middles), dtype=int)].assign(a=middles)
    truth = d["a"].on_rows(frame)[:, 0]
    np.testing.assert_allclose(values, truth, atol=np.abs(truth).max() / 16000)
    # An effect's own share leaves the remainder out.
    total = sum(values[0] for values in d.covariances.values())
    assert term["share"] == pytest.approx(d.covariances[0,][0] / total, rel=1e-5)


@needs_chromium
@pytest.mark.parametrize("engine", ["legendre", "ale"])
def test_curves_in_the_browser(decompositions, engine, tmp_path):
    d, frame = decompositions[engine], rows()
    page = write_html(d, tmp_path / "report.html", top=1, X=frame.iloc[:3])
    result = in_browser(
        page,
        """
        const place = document.getElementById("main-explorer");
        const select = place.querySelector("select");
        const options = [...select.options].map((option) => option.textContent);
        choose(select, options.findIndex((name) => name.startsWith("a ")));
        result.path = place.querySelector("path").getAttribute("d");
        result.said = text("#main-explorer .readout");
        const pairs = document.getElementById("pair-explorer");
        pairs.querySelectorAll("fieldset")[1].querySelectorAll("input")[1].click();
        result.lines = pairs.querySelectorAll("path.line").length;
        const row = document.querySelector("#prediction-explorer select");
        result.rows = [1, 2, 3].map((i) => {
          choose(row, i);
          return text("#prediction-explorer .readout");
        });
        """,
        tmp_path,
    )
    assert "L" in result["path"]
    assert "H" not in result["path"]
    assert "a curve through the middles of" in result["said"]
    assert result["lines"] >= 2
    said = [
        float(own.split("this row ")[1].rstrip(".").replace("\u2212", "-"))
        for own in result["rows"]
    ]
    # Examples come with their remainder, so that it is the function itself.
    np.testing.assert_allclose(said, f(frame.iloc[:3]), rtol=1e-3)
