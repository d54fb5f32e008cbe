"""The explorers draw whole numbers as slots and skewed features not to scale."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium
from treepurify.grids.axis import FeatureAxis
from treepurify.plots import main_effect
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.report import write_comparison, write_html
from treepurify.report.page_tables import merged_axis
from treepurify.report.payload import make_payload

TICKS = """
const place = document.getElementById("main-explorer");
const svg = () => place.querySelector("svg");
const open = (start) => {
  const box = place.querySelector("select");
  choose(box, [...box.options].findIndex((own) => own.textContent.startsWith(start + " (")));
};
const below = () => [...svg().querySelectorAll("text[text-anchor=middle]")];
const marks = () => below().filter((own) => !own.classList.contains("name"));
const ticks = () => marks().map((own) => own.textContent);
const names = () => [...svg().querySelectorAll("text.name")].map((own) => own.textContent);
const hover = (part) => {
  const box = svg().getBoundingClientRect();
  const [left, right] = [box.left + 52, box.right - 8];
  const clientX = left + part * (right - left), clientY = box.top + 50;
  svg().dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
  return text("#main-explorer .readout");
};
"""


def rows():
    rng = np.random.default_rng(0)
    n = 900
    gain = np.where(rng.random(n) < 0.92, 0.0, np.round(10 ** rng.uniform(2, 5, n), 1))
    return pd.DataFrame(
        {
            "month": rng.integers(1, 13, n).astype(float),
            "work": rng.integers(0, 2, n).astype(float),
            "dose": rng.choice([0.5, 0.75], n),
            "gain": gain,
            "age": rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def d():
    X = rows()
    season = np.sin(X["month"]) + np.log1p(X["gain"]) % 2
    y = season * (1 + X["work"]) + 2 * X["dose"] + np.tanh(X["age"])
    model = xgboost.XGBRegressor(n_estimators=120, max_depth=2, n_jobs=1)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


def packed_axes(d):
    document = json.loads(make_payload(d).text)
    mains = [term for term in document["terms"] if len(term["features"]) == 1]
    return {term["name"]: document["axes"][term["axes"][0]] for term in mains}


def finest_ticks(axis):
    return [text for _, text in axis["ticks"][-1]]


def test_whole_numbers_have_slots(d):
    axes = packed_axes(d)
    month, work = axes["month"], axes["work"]
    assert finest_ticks(month) == [str(value) for value in range(1, 13)]
    assert finest_ticks(work) == ["0", "1"]
    assert work["edges"] == [-0.5, 0.5, 1.5]
    # Every month has a cut on both sides, so each has a slot of its own.
    np.testing.assert_array_equal(month["edges"], np.arange(1, 14) - 0.5)
    assert finest_ticks(axes["dose"]) == ["0.5", "0.75"]
    assert len(finest_ticks(axes["age"])) < 10


def test_skewed_features_have_equal_cells(d):
    axes = packed_axes(d)
    gain, own = axes["gain"], d["gain"].axes[0]
    np.testing.assert_array_equal(gain["places"], np.arange(own.n_regular + 1))
    np.testing.assert_array_equal(gain["edges"][1:-1], own.cuts)
    assert gain["edges"][0] == 0.0
    assert gain["labels"] == own.labels()
    assert not any("places" in axis for name, axis in axes.items() if name != "gain")


def test_curves_keep_their_scale():
    X = rows()[["gain", "age"]]
    curves = tp.ale_anova(lambda X: np.log1p(np.asarray(X)[:, 0]), X, order=1)
    for axis in json.loads(make_payload(curves).text)["axes"]:
        assert "places" not in axis
        # From the smallest value to the largest, without slots around whole numbers.
        values = X.iloc[:, axis["feature"]]
        assert axis["edges"][0] == values.min()
        assert axis["edges"][-1] == values.max()


@needs_chromium
def test_ticks_and_hover_texts(d, tmp_path):
    page = write_html(d, tmp_path / "axes.html", top=1)
    result = in_browser(
        page,
        TICKS
        + """
        for (const name of ["month", "work", "dose", "age"]) { open(name); result[name] = ticks(); }
        result.scale = names();
        open("gain");
        result.gain = ticks();
        result.words = names();
        const cells = report.data.axes.find((axis) => axis.places).regular;
        result.said = [0, 1, cells - 1].map((cell) => hover((cell + 0.5) / cells));
        """,
        tmp_path,
    )
    assert result["month"] == [str(month) for month in range(1, 13)]
    assert (result["work"], result["dose"]) == (["0", "1"], ["0.5", "0.75"])
    assert result["scale"] == ["age"]
    assert result["words"] == ["gain", "not to scale: equally wide intervals"]
    own = d["gain"].axes[0]
    edges = np.array([0.0, *own.cuts, own.bounds[1]])
    shown = np.array([float(text) for text in result["gain"]])
    assert np.all(np.min(np.abs(shown[:, None] / np.maximum(edges, 1e-9) - 1), axis=1)[1:] < 5e-3)
    assert (shown[0], shown[-1]) == (0.0, pytest.approx(edges[-1], rel=5e-3))
    labels = own.labels()
    for said, cell in zip(result["said"], [0, 1, -1], strict=True):
        assert said.startswith(f"gain {labels[cell]} (")


@needs_chromium
def test_missing_values_have_their_place(tmp_path):
    X = rows()[["age", "gain", "work"]]
    X.loc[::7, :] = np.nan
    y = X["age"].fillna(3) + np.log1p(X["gain"].fillna(0)) + X["work"].fillna(5)
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, n_jobs=1).fit(X, y)
    page = write_html(
        tp.purify(model, X, weights="empirical", progress=False), tmp_path / "missing.html", top=1
    )
    result = in_browser(
        page,
        TICKS
        + """
        const overlaps = () => {
          const boxes = marks().map((own) => own.getBoundingClientRect());
          boxes.sort((a, b) => a.left - b.left);
          return boxes.filter((box, i) => i > 0 && box.left < boxes[i - 1].right).length;
        };
        for (const name of ["age", "gain"]) {
          open(name);
          result[name] = [ticks().at(-1), overlaps()];
        }
        open("work");
        const bars = [...svg().querySelectorAll("rect.mass")].map((own) => own.getBBox());
        result.areas = bars.map((own) => own.width * own.height);
        """,
        tmp_path,
        500,
    )
    assert result["age"] == result["gain"] == ["missing", 0]
    areas = np.array(result["areas"])
    truth = X["work"].value_counts(normalize=True, dropna=False)[[0.0, 1.0, np.nan]]
    np.testing.assert_allclose(areas / areas.sum(), truth, atol=5e-3)


def test_merged_cells_of_a_skewed_feature_are_even():
    # Three orders of magnitude, and all data in the first.
    axis = FeatureAxis("gain", np.logspace(0, 3, 199), bounds=(0.0, 2000.0))
    mass = np.where(np.arange(200) < 60, 1 / 60, 0.0)
    coarse = merged_axis(axis, mass, 50)
    # Half of fifty intervals go to two hundred equal cells.
    assert np.diff([*coarse.first, 200]).max() <= 200 / 25
    assert coarse.axis.n_regular <= 50


@pytest.fixture(scope="module")
def skewed():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.lognormal(9, 1.2, 600), "age": rng.normal(size=600)})
    X["region"] = pd.Categorical(rng.choice(["north", "south"], 600))
    y = np.log(X["income"]) * (1 + (X["age"] > 0)) + (X["region"] == "south")
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=2, n_jobs=1, enable_categorical=True)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False), X, model


@needs_chromium
def test_a_logarithmic_scale_is_that_of_the_figures_and_of_the_explorer(skewed, tmp_path):
    d, _, _ = skewed
    page = tmp_path / "page.html"
    write_html(d, page, top=2, scale={"income": "log"})
    plain = write_html(d, tmp_path / "plain.html", top=2)
    # Decades as far from each other as they are on the axis of the explorer.
    actions = TICKS + 'open("income");\nresult.ticks = ticks();\n'
    actions += "result.at = marks().map((own) => own.getBoundingClientRect().x"
    actions += " + own.getBoundingClientRect().width / 2);"
    found = in_browser(page, actions, tmp_path)
    values = [float(text.replace("\u2009", "").replace("k", "e3")) for text in found["ticks"]]
    assert len(values) >= 3
    slope = np.diff(found["at"]) / np.diff(np.log(values))
    # The last label is moved so that it does not leave the picture.
    np.testing.assert_allclose(slope[:-1], slope[0], rtol=0.03)
    assert page.read_text() != plain.read_text()


@needs_chromium
def test_points_of_a_curve_lie_at_the_logarithms_of_their_values(tmp_path):
    X = pd.DataFrame({"income": np.linspace(1, 1000, 400), "age": np.linspace(0, 1, 400)})
    curves = tp.ale_anova(lambda X: np.log(np.asarray(X)[:, 0]), X, order=1, progress=False)
    page = write_html(curves, tmp_path / "page.html", top=1, scale={"income": "log"})
    actions = TICKS + 'open("income");\nresult.path = [...svg().querySelectorAll("path")]'
    actions += '.map((own) => own.getAttribute("d"));'
    path = max(in_browser(page, actions, tmp_path)["path"], key=len)
    points = np.array([point.split() for point in path[1:].split("L")], dtype=float)
    (edges,) = (
        np.array(axis["edges"])
        for axis in json.loads(make_payload(curves).text)["axes"]
        if axis["feature"] == 0
    )
    logarithms = np.log((edges[1:] + edges[:-1]) / 2)
    line = np.polyval(np.polyfit(logarithms, points[:, 0], 1), logarithms)
    np.testing.assert_allclose(points[:, 0], line, atol=0.1)


def test_the_explorer_has_the_range_of_the_figures_and_all_values(skewed):
    d, X, _ = skewed
    axis, age = (packed_axes(d)[name] for name in ("income", "age"))
    limits = main_effect(d, "income").get_xlim()
    assert (axis["central"]["edges"][0], axis["central"]["edges"][-1]) == limits
    assert limits[1] < X["income"].max() == pytest.approx(axis["edges"][-1])
    assert len(axis["central"]["edges"]) == len(axis["edges"])
    assert "of data, up to" in axis["central"]["notes"][-1]
    assert axis["notes"] == []
    assert "central" not in age


@needs_chromium
def test_a_switch_shows_all_values(skewed, tmp_path):
    page = write_html(skewed[0], tmp_path / "page.html", top=2)
    actions = (
        TICKS
        + """
open("income");
const number = (text) => Number(text.replace(/[^\\d.k]/g, "").replace("k", "e3"));
const last = () => Math.max(...ticks().map(number));
result.central = last();
const inputs = [...document.querySelectorAll("#main-explorer input")];
inputs.at(-1).click();
result.all = last();
"""
    )
    found = in_browser(page, actions, tmp_path)
    assert found["all"] > 1.5 * found["central"]


@pytest.mark.parametrize("word", ["rank", "log"])
def test_every_figure_of_a_report_has_the_scale_that_was_asked(skewed, tmp_path, monkeypatch, word):
    d, X, model = skewed
    asked = []

    def kept(axis, *args, **options):
        asked.append((axis.name, options.get("scale", "value")))
        return lay_out_axis(axis, *args, **options)

    for module in ("main_effects", "merged_cells", "overlays"):
        monkeypatch.setattr(f"treepurify.plots.{module}.lay_out_axis", kept)
    monkeypatch.setattr("treepurify.report.payload.lay_out_axis", kept)
    audit = tp.audit(model, X, n_bootstrap=2, threshold=0.001, progress=False)
    write_html(audit.decomposition, tmp_path / "page.html", scale={"income": word}, audit=audit)
    assert asked
    write_comparison(
        {"one": d, "other": d.as_trained()}, tmp_path / "both.html", scale={"income": word}
    )
    of_income = {scale for name, scale in asked if name == "income"}
    of_others = {scale for name, scale in asked if name != "income"}
    assert of_income == {word}
    # Pairs that stand side by side share what "auto" comes to for the first of them.
    assert of_others == {"auto", "value"}


def test_scales_that_do_not_suit_are_refused(skewed, tmp_path):
    d, _, _ = skewed
    for scale, words in (
        ({"age": "log"}, "needs values above zero, but the values of 'age'"),
        ("log", "needs values above zero, but the values of 'age'"),
        ({"wages": "log"}, "scale names 'wages', which is not a feature; features are income, age"),
        ({"income": "square"}, "scale of 'income' must be"),
        (["log"], "one word for all features"),
    ):
        with pytest.raises(tp.errors.InvalidInputError, match=words):
            write_html(d, tmp_path / "page.html", scale=scale)
    assert not list(tmp_path.iterdir())
