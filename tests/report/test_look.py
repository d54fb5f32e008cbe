"""Colours and words of a report: each colour is stated once, and each scale has its name."""

import json
import re
from importlib import resources

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium
from treepurify.plots import style
from treepurify.plots.labels import effect_label, margin_label, with_class_names
from treepurify.report import write_html
from treepurify.report.parts import PAGE_COLORS


def purified(model, n_classes=0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    signal = X[:, 0] * X[:, 1] + X[:, 2]
    edges = np.quantile(signal, np.arange(1, n_classes) / max(n_classes, 1))
    y = np.searchsorted(edges, signal) if n_classes else signal - 100
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    d = purified(GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0))
    return write_html(d, tmp_path_factory.mktemp("look") / "report.html", top=1)


def test_colours_of_the_page_are_those_of_the_figures(page):
    text = page.read_text(encoding="utf-8")
    expected = {"after": "#12355b", "before": "#848c96", "up": "#b2182b", "down": "#2166ac"}
    expected |= {"pair": "#8c6bb1", "higher": "#009e73", "many-0": style.MANY[0]}
    for name, color in expected.items():
        assert f"--{name}: {color};" in text
    sheet = resources.files("treepurify.report").joinpath("report.css").read_text(encoding="utf-8")
    assert not [color for color in PAGE_COLORS if color in sheet]


def test_every_colour_is_known_on_light_and_on_dark_ground(page):
    text = page.read_text(encoding="utf-8")
    light, dark = text.split("@media screen and (prefers-color-scheme: dark)", 1)
    dark = dark[: dark.index("* {")]
    for name in PAGE_COLORS.values():
        assert f"--{name}:" in light
        assert f"--{name}:" in dark, name
    defined = set(re.findall(r"--([\w-]+):", text))
    assert set(re.findall(r"var\(--([\w-]+)\)", text)) <= defined


def test_figures_follow_the_page(page):
    text = page.read_text(encoding="utf-8")
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.S))
    assert not [color for color in PAGE_COLORS if color in drawn]
    for name in ("after", "before", "pair"):
        assert f"var(--{name})" in drawn


def test_cells_of_heatmaps_have_no_seams(page):
    text = page.read_text(encoding="utf-8")
    maps = re.findall(r'<svg[^>]*aria-label="Heatmap.*?</svg>', text, re.S)
    assert maps
    assert all('shape-rendering="crispEdges"' in own for own in maps)


def test_negative_numbers_have_a_minus_sign(page):
    text = page.read_text(encoding="utf-8")
    intercept = re.search(r"<dt>Intercept</dt><dd>(.*?)</dd>", text).group(1)
    assert intercept.startswith("\N{MINUS SIGN}")


@needs_chromium
def test_a_prediction_is_told_by_colours_of_sign(page, tmp_path):
    result = in_browser(
        page,
        """
        const canvas = document.querySelector("#prediction-explorer .canvas");
        const fill = (own) => getComputedStyle(own).fill;
        const words = canvas.querySelector("svg").getAttribute("aria-label");
        result.signs = words.split(": ")[1].split(", ").map((own) => own.includes(" +"));
        result.fills = [...canvas.querySelectorAll("rect")].map(fill);
        """,
        tmp_path,
    )
    colors = {True: "rgb(178, 24, 43)", False: "rgb(33, 102, 172)"}
    assert set(result["signs"]) == {True, False}
    assert result["fills"] == [colors[sign] for sign in result["signs"]]


@pytest.mark.parametrize(
    ("model", "n_classes", "effect", "margin", "scale"),
    [
        (
            xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1),
            2,
            "effect on the log-odds",
            "log-odds",
            "log-odds; the logistic function",
        ),
        (
            GradientBoostingClassifier(n_estimators=3, max_depth=2),
            3,
            "effect on the score of class 2 before softmax",
            "score of class 2 before softmax",
            "scores before softmax",
        ),
        (
            RandomForestClassifier(n_estimators=3, max_depth=2, random_state=0),
            3,
            "effect on the probability of class 2",
            "probability of class 2",
            "the probability of each class",
        ),
        (
            DecisionTreeClassifier(max_depth=2),
            2,
            "effect on the probability of class 1",
            "probability of class 1",
            "the probability of class 1",
        ),
        (
            xgboost.XGBRegressor(n_estimators=3, objective="count:poisson", n_jobs=1),
            2,
            "effect on the log of the prediction",
            "log of the prediction",
            "logarithm of the prediction",
        ),
        (
            GradientBoostingRegressor(n_estimators=3, max_depth=2),
            0,
            "effect on the prediction",
            "prediction",
            "the prediction itself",
        ),
    ],
    ids=lambda case: type(case).__name__ if hasattr(case, "fit") else "",
)
def test_scales_have_their_names(model, n_classes, effect, margin, scale, tmp_path):
    d = purified(model, n_classes)
    named = with_class_names(d)
    assert effect_label(named, d.n_outputs - 1) == effect
    assert margin_label(named, d.n_outputs - 1) == margin
    text = write_html(d, tmp_path / "report.html", top=0).read_text(encoding="utf-8")
    assert f"<dt>Scale of effects</dt><dd>{scale}" in text
    assert f'"{effect}"' in text


def test_heatmaps_of_the_explorer_have_the_colours_of_the_figures(page):
    text = page.read_text(encoding="utf-8")
    listed = json.loads(re.search(r'id="payload">(.*?)</script>', text, re.S).group(1))["colors"]
    colors = np.frombuffer(bytes.fromhex(listed), np.uint8).reshape(-1, 3).astype(int)
    truth = mpl.colormaps[style.SIGNS](np.linspace(0, 1, len(colors)))[:, :3]
    # The colours of matplotlib are taken at one of 256 places.
    np.testing.assert_allclose(colors, 255 * truth, atol=2)


BROKEN_WORDS = """
const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
result.broken = [];
result.seen = 0;
while (texts.nextNode()) {
  const node = texts.currentNode;
  if (node.parentElement.closest("svg, pre, option, dd")) continue;
  for (const found of node.data.matchAll(/[A-Za-z0-9]+/g)) {
    const range = document.createRange();
    range.setStart(node, found.index);
    range.setEnd(node, found.index + found[0].length);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
    result.seen += found[0] === "delinquencies";
    if (lines.size > 1) result.broken.push(found[0]);
  }
}
result.reach = document.documentElement.scrollWidth - document.documentElement.clientWidth;
"""


@needs_chromium
def test_long_names_go_on_after_underscores_not_inside_words(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"number_of_previous_delinquencies_in_the_last_{k}_months" for k in (12, 24)]
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=names)
    y = X[names[0]] * X[names[1]] + X[names[0]]
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    page = write_html(d, tmp_path / "long.html", top=2, X=X[:3])
    found = in_browser(page, BROKEN_WORDS, tmp_path, width=500)
    assert found["seen"] > 20
    assert found["broken"] == []
    assert found["reach"] <= 0


def test_what_a_screen_hides_is_printed():
    style_sheet = resources.files("treepurify.report").joinpath("report.css").read_text("utf-8")
    screen, printed = style_sheet.rsplit("@media print {", 1)
    assert re.search(r"@media screen \{ \.scripted \.static \{ display: none; \} \}", screen)
    assert ".scroll, .scroll.tall { max-height: none; overflow: visible; }" in printed
    assert "details::details-content { content-visibility: visible" in printed


def test_how_it_was_made_is_printed_on_the_page_of_the_model(page):
    """Neither of the last two sections breaks, and no page begins between them."""
    style_sheet = resources.files("treepurify.report").joinpath("report.css").read_text("utf-8")
    printed = style_sheet.rsplit("@media print {", 1)[1]
    whole = '[aria-labelledby="overview"], [aria-labelledby="making"] > details > dl'
    assert f"{whole} {{ break-inside: avoid; }}" in printed
    assert '[aria-labelledby="making"] { break-before: avoid; }' in printed
    text = page.read_text(encoding="utf-8")
    last = re.findall(r'<section aria-labelledby="(\w+)">\n<details>', text)[-2:]
    assert last == ["overview", "making"]
