"""The report is a valid page that stands alone and says what the decomposition says."""

import re
from html import escape
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify.report import write_html
from treepurify.report.effects_table import term_rows
from treepurify.report.sentences import model_statements

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Page(HTMLParser):
    """Tags must nest; ids, references, headings and text are gathered."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.references, self.headings = [], [], [], []
        self.tags, self.text, self.pictures, self.rows = [], "", [], 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.rows += tag == "tr"
        if "id" in values:
            self.ids.append(values["id"])
        self.references += [values[name] for name in ("src", "href") if name in values]
        self.references += re.findall(r"url\(([^)]*)\)", " ".join(v or "" for v in values.values()))
        if tag == "svg":
            self.pictures.append(values)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append((self.open[-1], data))
        if not {"style", "script"} & set(self.open):
            self.text += data


def model_and_rows(n_features=3):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, n_features))).rename(columns=lambda j: f"<x{j}> & co")
    y = X.iloc[:, 0] * X.iloc[:, 1] + X.iloc[:, 2]
    return GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0).fit(X, y), X


@pytest.fixture(scope="module")
def d():
    return tp.purify(*model_and_rows())


@pytest.fixture(scope="module")
def written(d, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert write_html(d, path, command="treepurify purify a.json 'b & c.csv'") == path
    return path


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


def test_page_stands_alone(page, written):
    assert page.references
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    text = written.read_text(encoding="utf-8")
    # The name of SVG is no address that a browser would open.
    text = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|[^:]//[a-z]+\.|@import", text)
    assert "src=" not in text[text.index("<script") :]
    assert written.stat().st_size < 6e6


def test_ids_are_unique_and_references_lead_somewhere(page):
    assert len(set(page.ids)) == len(page.ids)
    assert {ref[1:] for ref in page.references if ref.startswith("#")} <= set(page.ids)


def test_headings_and_pictures_are_described(page, d):
    assert [level for level, _ in page.headings].count("h1") == 1
    names = [name for level, name in page.headings if level == "h2"]
    assert names == [
        "What the model does",
        "Effects",
        "Main effects",
        "Pairs",
        "One prediction",
        "Certificate",
        "Model and method",
        "How it was made",
    ]
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.pictures)
    labels = [picture["aria-label"] for picture in page.pictures]
    first = d["<x0> & co"].values
    expected = f"from {first.min():.4g} to {first.max():.4g}"
    assert any(label.startswith(f"Main effect of <x0> & co: {expected}") for label in labels)


def test_no_effect_is_drawn_twice_and_none_that_is_too_small(page, d):
    shares = d.ranking.shares
    large = {d.term_name(subset) for subset, share in shares.items() if abs(share) >= 0.005}
    labels = [picture["aria-label"] for picture in page.pictures]
    assert labels[0].startswith("Bars of the share")
    drawn = [re.match(r"(?:Main effect of|Heatmap of the pair) (.*?): ", own) for own in labels[1:]]
    assert sorted(own.group(1) for own in drawn) == sorted(large)


def test_page_begins_with_what_the_model_does(written, d):
    text = written.read_text(encoding="utf-8")
    first = text[text.index("<h2") : text.index('id="effects"')]
    statements = model_statements(d)
    assert len(statements) >= 3
    assert all(escape(statement.text) in first for statement in statements)
    assert first.count("<svg") == len(statements)
    for later in ("certificate", "overview", "making"):
        assert text.index('id="prediction"') < text.index(f'id="{later}"')


def test_progress_is_reported(d, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(
        "treepurify.report.html.progress_report", lambda show: lambda *what: told.append(what)
    )
    write_html(d, tmp_path / "report.html", top=0)
    named = [what for what, done, total in told if what.startswith("writing the report")]
    assert len(named) == len(set(named)) == told[-1][2]
    assert any(what == "packing effects" for what, *_ in told)


def test_page_says_what_the_certificate_says(page, d):
    for sentence in d.certificate.details():
        assert sentence in page.text
    for value in (d.certificate.additivity, d.certificate.conditional_mean):
        assert f"{value:.1e}" in page.text
    assert "300" in page.text
    assert "empirical" in page.text
    assert "scikit-learn" in page.text


def test_table_has_every_effect(page, d):
    assert page.rows == 1 + len(d)
    for row in d.importance().itertuples():
        assert row.term in page.text
        assert f"{100 * row.variance_share:.2f}%" in page.text


def test_versions_and_command(page):
    assert f"treepurify {tp.__version__}" in page.text
    assert f"numpy {np.__version__}" in page.text
    assert "treepurify purify a.json 'b & c.csv'" in page.text


def test_page_suits_dark_mode_and_phones(written):
    text = written.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    drawn = text[text.index("<svg") :]
    assert "#24292f" not in drawn, "ink in figures must follow the page"
    assert "var(--ink)" in drawn


def test_rows_compare_before_and_after(d):
    rows = {row.name: row for row in term_rows(d)}
    row = rows['"<x0> & co" & "<x1> & co"']
    component = d["<x0> & co", "<x1> & co"]
    raw = component.raw[..., 0]
    mean = np.sum(component.mass * raw)
    before = np.sqrt(np.sum(component.mass * (raw - mean) ** 2))
    assert row.deviation_before == pytest.approx(before)
    assert row.deviation == pytest.approx(np.sqrt(component.variance[0]))
    assert row.deviation < before


def test_drawing_leaves_pyplot_alone(d, tmp_path):
    before = plt.get_fignums(), dict(plt.rcParams)
    write_html(d, tmp_path / "report.html", top=1)
    assert (plt.get_fignums(), dict(plt.rcParams)) == before


def test_top_limits_the_pictures(d, tmp_path):
    text = write_html(d, tmp_path / "report.html", top=0).read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.pictures) == 1
    assert "Pairs" not in [name for _, name in page.headings]
    with pytest.raises(tp.errors.InvalidInputError, match="whole number of at least 0, got -1"):
        write_html(d, tmp_path / "report.html", top=-1)


def test_a_failure_leaves_the_old_report(d, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_html(d, path, top=0)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder(d, tmp_path):
    with pytest.raises(tp.errors.InvalidInputError, match="folder"):
        write_html(d, tmp_path / "no" / "report.html", top=0)


def test_several_outputs_without_rows(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = np.array(["low", "mid", "<b>"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, weights="uniform")
    page = Page(write_html(d, tmp_path / "report.html", top=2).read_text(encoding="utf-8"))
    assert "low" in page.text
    assert "<b>" in page.text
    assert "uniform" in page.text


def test_constant_model(tmp_path):
    X = np.zeros((5, 2))
    d = tp.purify(DecisionTreeRegressor().fit(X, np.ones(5)), X, weights="empirical")
    page = Page(write_html(d, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "The model is constant" in page.text
    assert page.pictures == []


def test_loaded_decomposition_gives_the_same_table(d, tmp_path):
    from treepurify.storage import load

    d.save(tmp_path / "d.tpz")
    again = load(tmp_path / "d.tpz")
    for own, other in zip(term_rows(d), term_rows(again), strict=True):
        assert own.name == other.name
        assert own.covariance_share == pytest.approx(other.covariance_share)
        assert own.deviation_before == pytest.approx(other.deviation_before)
