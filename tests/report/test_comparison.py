"""The page that sets decompositions side by side says what their comparison says."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.report.pages import Page, number
from treepurify.report import write_comparison


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
def page(two, tmp_path_factory):
    named, X = two
    path = tmp_path_factory.mktemp("compared") / "both.html"
    assert write_comparison(named, path, X=X, top=2, command="compare a <b>") == path
    return Page(path)


def test_page_stands_alone_and_names_its_parts(page):
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    assert page.titles == [
        "What is compared",
        "What differs",
        "Effects side by side",
        "Main effects",
        "Pairs",
        "Certificates",
        "How each was made",
    ]
    assert "compare a <b>" in page["How each was made"].text
    for title in ("Certificates", "How each was made"):
        assert page[title].headings == ["champion", "<new>"]


def test_table_and_sentences_are_those_of_the_comparison(two, page):
    named, X = two
    compared = tp.compare(*named.values(), X, names=tuple(named))
    for sentence in compared.verdict()[1:]:
        assert sentence.replace("-", "\N{MINUS SIGN}") in page.text.replace("-", "\N{MINUS SIGN}")
    rows = page.rows("Effects side by side")
    assert len(rows) == len(compared.terms)
    columns = ["deviation_first", "deviation_second", "distance", "relative_distance"]
    for cells, row in zip(rows, compared.terms.to_dict("records"), strict=True):
        assert cells[0] == row["term"]
        for cell, column in zip(cells[1:], [*columns, "sign_changes"], strict=True):
            assert number(cell) == pytest.approx(row[column], rel=6e-3, abs=1e-9), column


def test_effects_that_differ_most_are_drawn_in_each(two, page):
    named, X = two
    terms = tp.compare(*named.values(), X).terms
    large = terms["distance"] >= 0.1 * terms["distance"].max()
    mains = terms.loc[(terms["order"] == 1) & large, "term"][:2]
    assert page["Main effects"].pictures == [
        f"Main effect of {name} in champion, <new>." for name in mains
    ]
    pair = terms.loc[terms["order"] == 2, "term"].iloc[0]
    assert page["Pairs"].pictures[:2] == [
        f"Heatmap of {pair} in champion.",
        f"Heatmap of {pair} in <new>.",
    ]


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
    page = Page(path)
    assert page["What differs"].headings == ["<new>", "refits"]
    assert "All are compared with champion" in page.text
    assert "Bands show where one more training would lie." in page.text
    assert "in spreads" in page.text


def test_names_say_in_what_they_differ(two, tmp_path):
    named, X = two
    d = named["champion"]
    uniform = tp.purify(boosted(12)[0], X, weights="uniform", progress=False)
    page = Page(write_comparison([d, uniform], tmp_path / "c.html", top=0))
    assert page.title == f"Compared: {d.measure} and {uniform.measure}"
    same = Page(write_comparison([d, d], tmp_path / "c.html", top=0))
    assert same.title == "Compared: number 1 and number 2"
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
    page = Page(path)
    assert page["Effects side by side"].tables[0][0][1] == "Output"
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
