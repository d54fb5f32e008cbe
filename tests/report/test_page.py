"""The report is a valid page that stands alone and says what the decomposition says."""

import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.report.pages import Page, number
from treepurify.origin import ModelFacts
from treepurify.report import write_html
from treepurify.report.sentences import model_statements

QUIET = {"progress": False}
# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")


def model_and_rows(n_features=3):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, n_features))).rename(columns=lambda j: f"<x{j}> & co")
    y = X.iloc[:, 0] * X.iloc[:, 1] + X.iloc[:, 2]
    return GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0).fit(X, y), X


@pytest.fixture(scope="module")
def d():
    return tp.purify(*model_and_rows(), **QUIET)


@pytest.fixture(scope="module")
def page(d, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert write_html(d, path, command="treepurify purify a.json 'b & c.csv'", **QUIET) == path
    return Page(path)


@pytest.fixture(scope="module")
def deep():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 4))
    y = 4 * X[:, 0] * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=5, n_jobs=1).fit(X, y)
    return tp.purify(model, X, weights="empirical", **QUIET), model, X


def test_page_stands_alone(page):
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    assert len(set(page.ids)) == len(page.ids)
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", page.source)
    assert len(page.source) < 1_500_000


def test_ids_that_pictures_refer_to_are_theirs_alone(page):
    for svg in re.findall(r"<svg.*?</svg>", page.source, re.S):
        for used in set(re.findall(r"url\(#([^)]*)\)", svg)):
            assert svg.count(f'id="{used}"') == 1
            assert page.source.count(f'id="{used}"') == 1


def test_page_begins_with_what_the_model_does(d, page):
    assert page.titles[0] == "What the model does"
    told = page["What the model does"]
    for statement in model_statements(d, 7):
        assert statement.text in told.text
    assert len(told.pictures) >= len(told.headings) > 1
    assert told.headings[0] == model_statements(d)[1].title


def test_table_has_the_sizes_and_shares_of_the_ranking(d, page):
    frame = d.importance()
    rows = page.rows("Effects")
    assert [row[0].strip() for row in rows] == frame["effect"].tolist()
    for cells, row in zip(rows, frame.to_dict("records"), strict=True):
        assert number(cells[1]) == pytest.approx(row["size"], rel=1e-3)
        assert number(cells[2]) == pytest.approx(row["share"], rel=6e-3, abs=1e-5)
    before = {d.term_name(s): np.sqrt(c.variance[0]) for s, c in d.as_trained().components.items()}
    for cells in rows:
        assert number(cells[3]) == pytest.approx(before[cells[0].strip()], rel=1e-3, abs=1e-9)
    assert "e\N{MINUS SIGN}1" not in page["Effects"].text


def test_every_effect_is_drawn_once_and_none_that_is_too_small(d, page, tmp_path):
    labels = [label for section in page.sections.values() for label in section.pictures]
    named = [label.split(",")[0].rstrip(".") for label in labels if "effect of" in label]
    assert len(named) == len(set(named)) > 0
    small = Page(write_html(d, tmp_path / "s.html", top=1, **QUIET))
    assert sum(len(section.pictures) for section in small.sections.values()) < len(labels)


def test_cells_of_pictures_have_the_values_of_the_effects(d, page):
    known = {tuple(f["names"]): f for f in page.data["figures"] if f is not None}
    for subset, component in d.components.items():
        names = tuple(d.feature_names[j] for j in subset)
        if len(subset) != 1 or names not in known:
            continue
        figure = known[names]
        labels = component.axes[0].labels()
        for i, label in enumerate(figure["along"][0]["labels"]):
            cell = labels.index(label)
            purified = figure["versions"]["purified"][i]
            assert purified == pytest.approx(component.values[cell, 0], rel=1e-3, abs=1e-9)
            assert figure["mass"][i] == pytest.approx(component.mass[cell], rel=1e-3)
        ends = np.array(figure["along"][0]["ends"])
        assert np.all((ends >= -1e-3) & (ends <= 1 + 1e-3))
        np.testing.assert_allclose(ends[1:, 0], ends[:-1, 1], atol=1e-3)


def test_pairs_before_purification_can_be_switched_to(page):
    assert 'data-version="before purification" hidden' in page.source
    pair = next(f for f in page.data["figures"] if f is not None and len(f["names"]) == 2)
    assert set(pair["versions"]) == {"purified", "before purification"}


def test_certificate_and_origin_close_the_page(d, page):
    assert page.titles[-3:] == ["Certificate", "Model and method", "How it was made"]
    for line in d.certificate.details():
        assert line in page["Certificate"].text
    assert "treepurify purify a.json 'b & c.csv'" in page["How it was made"].text


def test_the_page_says_how_much_the_effects_explain(deep, tmp_path):
    d, *_ = deep
    section = Page(write_html(d, tmp_path / "deep.html", top=1, **QUIET))["What may mislead"]
    explained = 1 - d.ranking.shares[()]
    assert explained < 0.9
    assert set(section.states) == {"part"}
    said = float(re.search(r"explain ([\d.]+)%", section.text).group(1))
    assert said == pytest.approx(100 * explained, abs=0.006)
    assert "remainder" in Page(tmp_path / "deep.html")["Effects"].text


def test_examples_add_up_to_what_the_model_says(deep, tmp_path):
    d, model, X = deep
    page = Page(write_html(d, tmp_path / "deep.html", top=0, X=X[:4], **QUIET))
    predicted = model.predict(X[:4]).astype(float)
    for example, truth in zip(page.data["examples"], predicted, strict=True):
        assert example["prediction"] == pytest.approx([truth], rel=1e-4)
        parts = [effect[0] for effect in example["effects"]]
        whole = d.intercept[0] + sum(parts) + example["left_out"][0] + example["remainder"][0]
        assert whole == pytest.approx(truth, abs=1e-3)
    assert (
        "examples"
        not in write_html(d, tmp_path / "e.html", top=0, **QUIET)
        .read_text("utf-8")
        .partition('"examples":[]')[2]
        .partition("</script>")[0]
    )


def test_rows_stay_out_unless_given(d, page):
    assert page.data["examples"] == []


def test_a_version_that_is_not_known_is_not_shown(deep, tmp_path):
    d, _, _ = deep
    page = Page(write_html(d, tmp_path / "d.html", top=2, **QUIET))
    assert (
        "before purification" not in page.source.partition('id="data"')[2].partition("<script>")[0]
    )
    assert "Size before purification" not in page["Effects"].text


def rows_of_every_kind():
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


ENGINES = {
    "ale": lambda X: tp.ale_anova(f, X, bins=5, **QUIET),
    "hooker": lambda X: tp.hooker_anova(f, X, bins=5, **QUIET),
    "sampled": lambda X: tp.partial_dependence_anova(f, X, order=2, background_size=15, **QUIET),
    "categorical": lambda X: tp.categorical_anova(
        f(X), (X[["a", "b"]] > 0.5).assign(c=X["c"]), order=2
    ),
    "legendre": lambda X: tp.legendre_anova(f, X, degree=3, selection="all", **QUIET),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_report_holds_each_effect_of_every_engine(engine, tmp_path):
    d = ENGINES[engine](rows_of_every_kind())
    page = Page(write_html(d, tmp_path / "d.html", top=3, **QUIET))
    shown = [row[0].strip() for row in page.rows("Effects")]
    assert set(shown) >= {d.term_name(subset) for subset in d.components}
    assert {term["name"] for term in page.data["terms"]} <= set(shown)
    assert page.data["terms"]


def test_several_outputs(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.array(["low", "mid", "high"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    model = GradientBoostingClassifier(n_estimators=3, max_depth=2).fit(X, y)
    d = tp.purify(model, weights="uniform", **QUIET)
    page = Page(write_html(d, tmp_path / "d.html", **QUIET))
    assert page["Effects"].tables[0][0][1] == "Size (standard deviation, over 3 outputs)"
    for row, line in zip(page.rows("Effects"), d.ranking.lines, strict=True):
        assert number(row[1]) == pytest.approx(line.size, rel=1e-3)


def test_constant_model(tmp_path):
    X = np.zeros((4, 2))
    d = tp.purify(DecisionTreeRegressor().fit(X, np.ones(4)), X, **QUIET)
    page = Page(write_html(d, tmp_path / "d.html", **QUIET))
    assert "The model is constant" in page.text
    assert "One prediction" not in page.titles


def test_loaded_decomposition_gives_the_same_table(d, page, tmp_path):
    d.save(tmp_path / "d.tpz")
    loaded = Page(write_html(tp.load(tmp_path / "d.tpz"), tmp_path / "d.html", **QUIET))
    assert loaded.rows("Effects") == page.rows("Effects")


def test_without_its_function_a_report_of_examples_can_be_written(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    d = tp.ale_anova(lambda X: X[:, 0] * X[:, 1] * X[:, 2], X, bins=4, **QUIET)
    d.save(tmp_path / "d.tpz")
    page = Page(write_html(tp.load(tmp_path / "d.tpz"), tmp_path / "d.html", X=X[:2], **QUIET))
    assert page.data["examples"][0]["prediction"] is None
    assert page.data["is_whole"] is False


def test_a_failure_leaves_the_old_report(d, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("treepurify.report.html.certificate_section", lambda d: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_html(d, path, **QUIET)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_arguments_are_checked(d, tmp_path):
    with pytest.raises(tp.errors.InvalidInputError, match="folder"):
        write_html(d, tmp_path / "none" / "report.html", **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="each of results must be"):
        write_html(d, tmp_path / "d.html", results=[d], **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="which does not exist"):
        write_html(d, tmp_path / "d.html", files=[tmp_path / "none.txt"], **QUIET)
    with pytest.raises(tp.errors.InvalidInputError, match="audit"):
        write_html(d, tmp_path / "d.html", audit=d, **QUIET)
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_pyplot_alone(d, tmp_path):
    before = plt.get_fignums()
    write_html(d, tmp_path / "d.html", top=1, **QUIET)
    assert plt.get_fignums() == before


def test_progress_names_the_section(d, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(
        "treepurify.report.html.progress_report", lambda show: lambda *what: told.append(what)
    )
    write_html(d, tmp_path / "d.html", top=0)
    assert told[0] == ("writing the report, what the model does: section", 1, len(told))


def test_hyphens_of_names_stay_and_numbers_have_minus_signs(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["top-left", "x-ray"])
    model = GradientBoostingRegressor(n_estimators=9).fit(X, X["top-left"] * X["x-ray"])
    d = tp.purify(model, X, **QUIET)
    text = Page(write_html(d, tmp_path / "d.html", X=X.head(2), **QUIET)).source
    assert "top\N{MINUS SIGN}left" not in text
    assert "\N{MINUS SIGN}0." in text


def test_after_an_edit_the_call_is_said_to_be_older(d, tmp_path):
    page = Page(write_html(d.without("<x2> & co"), tmp_path / "d.html", top=0, **QUIET))
    assert "edited afterwards" in page["How it was made"].text


def test_an_unknown_kind_of_model_is_written(d, tmp_path):
    unknown = replace(d, origin=replace(d.origin, model=ModelFacts()))
    assert (
        "Purified effects" in Page(write_html(unknown, tmp_path / "d.html", top=0, **QUIET)).title
    )
