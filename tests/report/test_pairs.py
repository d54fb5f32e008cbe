"""Pairs with many cells are merged for the page, and what is left out is said."""

import json

import numpy as np
import pytest
import xgboost

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium, unpacked
from treepurify.report import page_tables, write_html
from treepurify.report.interactive import main_words
from treepurify.report.page_tables import merged_axis
from treepurify.report.payload import make_payload


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(4000, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 1] * X[:, 2]
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=6, n_jobs=1).fit(X, y)
    return tp.purify(model, X, weights="empirical", progress=False), X


def test_all_pairs_are_there_with_cells_that_a_page_can_hold(large):
    d, _ = large
    assert all(d.components[s].n_cells > 40_000 for s in d if len(s) == 2)
    payload = make_payload(d)
    document = json.loads(payload.text)
    pairs = [term for term in document["terms"] if len(term["features"]) == 2]
    assert len(pairs) == payload.n_merged == sum(len(s) == 2 for s in d)
    assert payload.pairs_left_out == ()
    for term in pairs:
        own = d.components[tuple(term["features"])]
        assert term["merged"] == [axis.n_regular for axis in own.axes]
        assert all(document["axes"][i]["regular"] <= 32 for i in term["axes"])


def test_merged_cells_have_the_mean_over_the_rows(large):
    d, X = large
    document = json.loads(make_payload(d).text)
    (term,) = [term for term in document["terms"] if term["features"] == [0, 1]]
    first, second = (document["axes"][i] for i in term["axes"])
    shape = (first["cells"], second["cells"])
    values = unpacked(term["curves"][0], (*shape, 1))[..., 0]
    mass = unpacked(term["mass"], (*shape, 1))[..., 0]
    cells = tuple(
        np.searchsorted(axis["cuts"], X[:, j], side="right")
        for j, axis in enumerate((first, second))
    )
    count, total = np.zeros(shape), np.zeros(shape)
    np.add.at(count, cells, 1)
    np.add.at(total, cells, d[0, 1].on_rows(X)[:, 0])
    held = count > 0
    np.testing.assert_array_equal(mass > 0, held)
    np.testing.assert_allclose(mass, count / len(X), atol=mass.max() / 30000)
    means = total[held] / count[held]
    np.testing.assert_allclose(values[held], means, atol=np.abs(values).max() / 30000)


def test_the_cells_of_a_merged_axis_are_runs_of_its_cells(large):
    axis = large[0][0, 1].axes[0]
    mass = np.ones(axis.n_cells) / axis.n_cells
    coarse = merged_axis(axis, mass, 20)
    assert coarse.axis.n_regular <= 20
    np.testing.assert_array_equal(coarse.axis.cuts, axis.cuts[coarse.first[1:] - 1])
    np.testing.assert_array_equal(
        axis.cells_in(coarse.axis)[coarse.first], range(coarse.axis.n_cells)
    )
    assert merged_axis(axis, mass, 1000).axis is axis


def test_what_is_left_out_is_said_in_its_section(large, tmp_path, monkeypatch):
    d, _ = large
    monkeypatch.setattr(page_tables, "_MOST_CELLS_PER_PAIR", 0)
    page = write_html(d, tmp_path / "d.html", top=1).read_text(encoding="utf-8")
    section = page[page.index('id="pairs"') : page.index('id="prediction"')]
    n_pairs = sum(len(s) == 2 for s in d)
    assert f"<p>{n_pairs} pairs are not in the explorer" in section
    assert "x0 &amp; x1" in section
    # With nothing in the explorer the figures stay.
    assert '<div class="pictures">' in section
    assert "<svg" in section


def test_the_explorer_has_the_cells_and_colours_of_the_figure(large):
    d, _ = large
    document = json.loads(make_payload(d).text)
    term = next(term for term in document["terms"] if term["features"] == [0, 1])
    first, second = (document["axes"][i] for i in term["axes"])
    mesh = next(
        each
        for each in tp.plots.pair(d, ("x0", "x1")).collections
        if hasattr(each, "get_coordinates")
    )
    corners, drawn = mesh.get_coordinates(), mesh.get_array()
    values, mass = (
        unpacked(table, (first["cells"], second["cells"], 1))[..., 0]
        for table in (term["curves"][0], term["mass"])
    )
    for axis, edges in ((first, corners[0, :, 0]), (second, corners[:, 0, 1])):
        np.testing.assert_allclose(axis["central"]["edges"], edges)
        assert np.count_nonzero(np.diff(edges)) <= 30
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), mass.T == 0)
    difference = (drawn - values.T)[mass.T > 0]
    assert np.abs(difference).max() < 1e-3 * np.abs(values).max()
    low, high = term["curves"][0]["ends"][0]
    assert max(-low, high) == pytest.approx(mesh.norm.vmax, rel=1e-4)


def test_where_effects_are_the_model_their_sums_stay_exact():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    model = xgboost.XGBRegressor(n_estimators=90, max_depth=2, n_jobs=1)
    d = tp.purify(model.fit(X, X[:, 0] * X[:, 1]), X, weights="empirical", progress=False)
    payload = make_payload(d, X=X[:9])
    document = json.loads(payload.text)
    assert payload.n_merged > 0
    assert not payload.has_means
    assert document["examples"]["exact"] == {}
    total = np.full(9, d.intercept[0])
    for term in document["terms"]:
        table = term.get("whole", term)
        axes = [document["axes"][i] for i in table["axes"]]
        values = unpacked(table["curves"][0], (*(axis["cells"] for axis in axes), 1))[..., 0]
        total += values[
            tuple(
                np.searchsorted(axis["cuts"], X[:9, axis["feature"]], side="right") for axis in axes
            )
        ]
    np.testing.assert_allclose(total, model.predict(X[:9]), atol=1e-3 * np.ptp(total))
    # Without space for them, the sums are those of the means in merged cells.
    small = make_payload(d, X=X[:9], table_bytes=30_000)
    assert small.has_means
    assert len(json.loads(small.text)["examples"]["exact"]) > 0


@needs_chromium
def test_heat_maps_say_what_they_show(large, tmp_path):
    d, _ = large
    page = write_html(d, tmp_path / "d.html", top=1)
    result = in_browser(
        page,
        """
        const place = document.getElementById("pair-explorer");
        const select = place.querySelector("select");
        const options = [...select.options].map((option) => option.textContent);
        choose(select, options.findIndex((name) => name.startsWith("x0 & x1 ")));
        result.said = text("#pair-explorer .readout");
        const lines = all("fieldset", place).find((own) => own.textContent.startsWith("Lines"));
        result.shown = [getComputedStyle(lines).display];
        place.querySelectorAll("fieldset")[1].querySelectorAll("input")[1].click();
        result.shown.push(getComputedStyle(lines).display);
        result.numbers = [-1.5e-7, -0.25].map((value) => report.number(value));
        """,
        tmp_path,
    )
    term = next(t for t in json.loads(make_payload(d).text)["terms"] if t["name"] == "x0 & x1")
    numbers = [f"{value:.3g}".replace("-", "\u2212") for value in term["curves"][0]["ends"][0]]
    assert f"from {numbers[0]} to {numbers[1]}" in result["said"]
    assert "cells were merged to" in result["said"]
    assert result["shown"][0] == "none"
    assert result["shown"][1] != "none"
    assert result["numbers"] == ["\u22121.5e\u22127", "\u22120.25"]


def test_main_effects_of_many_cells_are_merged_where_together_they_are_too_large(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = np.sin(3 * X).sum(axis=1)
    model = xgboost.XGBRegressor(n_estimators=1500, max_depth=1, n_jobs=1).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    whole = make_payload(d)
    assert (whole.n_mains, whole.n_merged_mains) == (8, 0)
    monkeypatch.setattr("treepurify.report.payload.MOST_MAIN_BYTES", 40_000)
    small = make_payload(d, X=X[:20])
    assert small.n_mains == small.n_all_mains == 8
    assert small.n_merged_mains > 0
    assert "neighbouring cells are merged" in main_words(small)
    assert len(make_payload(d).text) < 0.7 * len(whole.text)
    document = json.loads(small.text)
    for position, term in enumerate(document["terms"]):
        own = d.components[tuple(term["features"])]
        axis = document["axes"][term["axes"][0]]
        values = unpacked(term["curves"][0], (axis["cells"], 1))[:, 0]
        cells = np.searchsorted(axis["cuts"], X[:, term["features"][0]], side="right")
        means = np.bincount(cells, own.on_rows(X)[:, 0]) / np.bincount(cells)
        np.testing.assert_allclose(values, means, atol=np.abs(values).max() / 30000)
        # The examples keep the numbers of the model.
        if term["merged"]:
            exact = unpacked(document["examples"]["exact"][str(position)], (20, 1))
            np.testing.assert_allclose(exact, own.on_rows(X[:20]), atol=1e-4)
    monkeypatch.setattr("treepurify.report.payload.MOST_MAIN_BYTES", 12_000)
    tiny = make_payload(d)
    assert 0 < tiny.n_mains < 8
    assert f"The {8 - tiny.n_mains} smallest effects are not included." in main_words(tiny)


def test_wide_rows_are_fewer_examples(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 400))
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(X, X[:, 0])
    d = tp.purify(model, X, weights="empirical", progress=False)
    page = write_html(d, tmp_path / "wide.html", X=X).read_text(encoding="utf-8")
    payload = json.loads(page.split('id="payload">')[1].split("</script>")[0])
    assert len(payload["rows"]) == 50
