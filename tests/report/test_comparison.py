"""The page that sets decompositions side by side says what their comparison says."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.report.test_page import Page
from treepurify.plots.labels import number_words
from treepurify.report import write_comparison
from treepurify.report.common_axes import on_common_axes


def boosted(n_estimators, sign=1.0):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(250, 3)), columns=["<age>", "hours & co", "x"])
    y = sign * X["<age>"] * X["hours & co"] + X["x"] + sign * X["<age>"]
    model = GradientBoostingRegressor(n_estimators=n_estimators, max_depth=2, random_state=0)
    return model.fit(X, y), X


@pytest.fixture(scope="module")
def two():
    (champion, X), (challenger, _) = boosted(12), boosted(8, sign=-1.0)
    return {name: tp.purify(model, X, weights="empirical", progress=False)
            for name, model in (("champion", champion), ("<new>", challenger))}, X  # fmt: skip


@pytest.fixture(scope="module")
def text(two, tmp_path_factory):
    named, X = two
    path = tmp_path_factory.mktemp("compared") / "both.html"
    assert write_comparison(named, path, X=X, top=2, command="compare a <b>") == path
    return path.read_text(encoding="utf-8")


def test_page_stands_alone_and_names_its_parts(text):
    page = Page(text)
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    assert len(set(page.ids)) == len(page.ids)
    assert [name for level, name in page.headings if level == "h2"] == [
        "What is compared",
        "What differs",
        "Effects side by side",
        "Main effects",
        "Pairs",
        "Certificates",
        "How each was made",
    ]
    assert "<script" not in text
    assert all(picture["aria-label"] for picture in page.pictures)
    assert "compare a <b>" in page.text
    for name in ("champion", "<new>"):
        assert page.headings.count(("h3", name)) == 2


def test_table_and_sentences_are_those_of_the_comparison(two, text):
    named, X = two
    compared = tp.compare(*named.values(), X, names=tuple(named))
    page = Page(text)
    for sentence in compared.verdict()[1:]:
        assert sentence.replace("-", "\N{MINUS SIGN}") in page.text.replace("-", "\N{MINUS SIGN}")
    table = re.search(r'aria-label="Effects side by side".*?</table>', text, re.S).group()
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    assert len(rows) == len(compared.terms)
    for (_, cells), row in zip(rows, compared.terms.to_dict("records"), strict=True):
        shown = re.findall(r"<td[^>]*>([^<]*)<", cells)
        expected = (row["deviation_first"], row["deviation_second"], row["distance"])
        assert shown[:3] == [number_words(value, 3) for value in expected]
        assert shown[3] == f"{row['relative_distance']:.0%}"
        assert shown[4] == f"{row['sign_changes']:.1%}"


def test_effects_that_differ_most_are_drawn_in_each(two, text):
    named, X = two
    terms = tp.compare(*named.values(), X).terms
    labels = [picture["aria-label"] for picture in Page(text).pictures]
    large = terms["distance"] >= 0.1 * terms["distance"].max()
    mains = terms.loc[(terms["order"] == 1) & large, "term"][:2]
    assert [f"Main effect of {name} in champion, <new>, overlaid." for name in mains] == [
        label for label in labels if label.startswith("Main effect")
    ]
    pair = terms.loc[terms["order"] == 2, "term"].iloc[0]
    assert f"Heatmap of the pair {pair} in champion." in labels


def test_heatmaps_of_one_pair_have_the_same_axes(two):
    """Cells are split at the cuts of both; no value and no total mass changes."""
    named, X = two
    before = [*named.values()]
    pair = ("<age>", "hours & co")
    after = on_common_axes(before, [d[pair] for d in before])
    first, second = (d[pair] for d in after)
    assert len(first.axes[0].cuts) > max(len(d[pair].axes[0].cuts) for d in before)
    for one, other in zip(first.axes, second.axes, strict=True):
        np.testing.assert_array_equal(one.cuts, other.cuts)
        assert one.bounds == other.bounds
    for d, old in zip(after, before, strict=True):
        np.testing.assert_array_equal(d[pair].on_rows(X), old[pair].on_rows(X))
        assert d[pair].mass.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(d[pair].variance, old[pair].variance)


def test_a_shift_of_the_mean_is_part_of_the_verdict(two):
    named, X = two
    first = named["champion"]
    shifted = replace(first, intercept=first.intercept + 0.25)
    words = " ".join(tp.compare(first, shifted, X).verdict())
    assert "The intercepts differ by +0.25" in words
    assert "intercepts" not in " ".join(tp.compare(first, first, X).verdict())


def test_several_models_are_compared_with_the_first(two, tmp_path):
    named, X = two
    third = tp.purify([boosted(n)[0] for n in (5, 6, 7)], X, weights="empirical", progress=False)
    path = write_comparison({**named, "refits": third}, tmp_path / "c.html", X=X, top=1)
    page = Page(path.read_text(encoding="utf-8"))
    assert [name for level, name in page.headings if level == "h3"][:2] == ["<new>", "refits"]
    assert "All are compared with champion" in page.text
    assert "Bands show where one more training would lie." in page.text
    assert "in spreads" in page.text


def test_names_say_in_what_they_differ(two, tmp_path):
    named, X = two
    d = named["champion"]
    uniform = tp.purify(boosted(12)[0], X, weights="uniform", progress=False)
    page = Page(write_comparison([d, uniform], tmp_path / "c.html", top=0).read_text("utf-8"))
    assert ("h1", f"Compared: {d.measure} and {uniform.measure}") in page.headings
    same = Page(write_comparison([d, d], tmp_path / "c.html", top=0).read_text("utf-8"))
    assert ("h1", "Compared: number 1 and number 2") in same.headings
    assert "All effects are equal to rounding" in same.text


def test_outputs_have_columns_and_pictures_of_their_own(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = np.array(["low", "mid", "high"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    both = [
        tp.purify(
            GradientBoostingClassifier(n_estimators=n, max_depth=2).fit(X, y),
            X,
            weights="empirical",
            progress=False,
        )
        for n in (2, 5)
    ]  # fmt: skip
    path = write_comparison(both, tmp_path / "c.html", X=X, top=1)
    page = Page(path.read_text(encoding="utf-8"))
    assert "Output" in page.text
    assert "mid" in page.text


def test_what_cannot_be_compared_is_refused(two, tmp_path):
    named, _ = two
    a, b = named.values()
    for given, words in (
        ([a], "expected 2 to 7"),
        ([a] * 8, "expected 2 to 7"),
        ({1: a, 2: b}, "must be text"),
        (a, "list of decompositions"),
    ):
        with pytest.raises(tp.errors.InvalidInputError, match=words):
            write_comparison(given, tmp_path / "c.html")
    with pytest.raises(tp.errors.InvalidInputError, match="pass X"):
        write_comparison(named, tmp_path / "c.html")
    assert not list(tmp_path.iterdir())


def test_progress_names_the_part_that_is_written(two, tmp_path, monkeypatch):
    named, X = two
    told = []
    monkeypatch.setattr(
        "treepurify.report.comparison_page.progress_report",
        lambda show: lambda *what: told.append((*what, show)),
    )
    write_comparison(named, tmp_path / "both.html", X=X, top=0, progress=False)
    assert [what for what, *_ in told[:2]] == [
        "writing the report, what is compared: section",
        "writing the report, what differs: section",
    ]
    assert [numbers for _, *numbers in told] == [[i, 7, False] for i in range(1, 8)]
