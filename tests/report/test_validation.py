"""The report of a validation: its sections, and its file of facts."""

import re

import lightgbm
import numpy as np
import pytest

import treepurify as tp
from tests.cli.credit import ABOUT, FEATURES, applications
from tests.report.pages import Page, number
from treepurify.errors import InvalidInputError
from treepurify.report import write_html, write_validation
from treepurify.report.about import read_about


@pytest.fixture(scope="module")
def rows():
    train, test = applications(500, 0), applications(400, 1)
    return train, test, applications(300, 2, shift=0.3)


@pytest.fixture(scope="module")
def models(rows):
    X, y = rows[0][FEATURES[:5]], rows[0]["default"]
    return [
        lightgbm.LGBMClassifier(
            n_estimators=20, num_leaves=5, monotone_constraints=[-1, 0, 1, 0, 0], verbose=-1,
            n_jobs=1, bagging_fraction=0.7, bagging_freq=1, seed=seed,
        ).fit(X, y)
        for seed in range(3)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def written(rows, models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("validation")
    (folder / "about.yaml").write_text(ABOUT, encoding="utf-8")
    _, test, later = rows
    columns = [*FEATURES[:5], "sex"]
    return write_validation(
        models[0], test[columns], folder / "v.html", y=test["default"],
        about=folder / "about.yaml", refits=models[1:],
        after=(later[FEATURES[:5]], later["default"]), progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(written):
    return Page(written)


def test_the_page_has_all_sections_and_stands_alone(page):
    assert page.titles == [
        "Purpose and data",
        "Implementation check",
        "Certificate",
        "What the model does",
        "Effects",
        "More main effects",
        "More pairs",
        "Monotonicity",
        "Several trainings",
        "Worth on held-out rows",
        "Weak spots",
        "Gaps between groups",
        "Drift",
        "Examples with reasons",
        "Limits",
        "Model and method",
        "How it was made",
    ]
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    assert "Not filled" not in page.text
    assert "Loans to companies." in page["Limits"].text


def column(page, title, heading):
    """Return a column of the tables of a section that have it, as numbers."""
    tables = [table for table in page[title].tables if heading in table[0]]
    return [number(row[table[0].index(heading)]) for table in tables for row in table[1:]]


def test_numbers_are_those_of_the_library(page, rows, models):
    _, test, later = rows
    X, y = test[FEATURES[:5]], test["default"]
    d = tp.purify(models[0], X, refits=models[1:], missing_cells="always", progress=False)
    assert "On 400 rows" in page["Implementation check"].text
    old, female = test["age"] >= 30, test["sex"] == "female"
    gaps = sum(d.predict(X[one]).mean() - d.predict(X[~one]).mean() for one in (old, female))
    assert sum(column(page, "Gaps between groups", "Difference")) == pytest.approx(gaps, abs=1e-3)
    moved = d.predict(later[FEATURES[:5]]).mean() - d.predict(X).mean()
    assert sum(column(page, "Drift", "Difference")) == pytest.approx(moved, abs=1e-3)
    probability = models[0].predict_proba(X)[:, 1]
    reasons = "Examples with reasons"
    head, *sums = next(table for table in page[reasons].tables if "Margin" in table[0])
    for cells in sums:
        row, margin = (number(cells[head.index(name)]) for name in ("Row", "Margin"))
        assert probability[int(row)] >= 0.2
        odds = probability[int(row)] / (1 - probability[int(row)])
        assert margin == pytest.approx(np.log(odds), rel=1e-3)
    worth = tp.effect_worth(d, X, y, progress=False).to_frame()["worth"].tolist()
    shown = column(page, "Worth on held-out rows", "Worth")
    np.testing.assert_allclose(sorted(shown), sorted(worth)[-len(shown) :], rtol=1e-3, atol=1e-6)


def test_sections_without_what_they_need_say_what_to_pass(rows, models, tmp_path):
    X = rows[1][FEATURES[:5]]
    d = tp.purify(models[0], X, progress=False)
    text = write_validation(d, X, tmp_path / "v.html", progress=False).read_text(encoding="utf-8")
    assert text.count("Not filled.") == 8
    for advice in ("about=", "the model itself", "refits=", "Pass y", "groups", "after="):
        assert advice in text
    listed = re.search(r"Not examined, because its input was not passed: ([^<]*)\.", text)
    assert len(listed[1].split(", ")) == 8


def test_rows_in_batches_fill_the_page(rows, models, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    columns = [*FEATURES[:5], "sex", "default"]
    rows[1][columns].to_parquet(tmp_path / "rows.parquet")
    about = {"groups": ["sex"], "threshold": 0.2}
    of_file, of_table = (
        Page(
            write_validation(
                models[0].booster_, X, tmp_path / "v.html", y=y, about=about, progress=False
            )
        )
        for X, y in (
            (tmp_path / "rows.parquet", "default"),
            (rows[1][columns[:-1]], rows[1]["default"]),
        )
    )
    for title in ("Gaps between groups", "Examples with reasons", "Worth on held-out rows"):
        assert of_file.rows(title) == of_table.rows(title)
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", 300)
    page = write_validation(
        models[0].booster_, tmp_path / "rows.parquet", tmp_path / "v.html", y="default",
        about=about, progress=False,
    )  # fmt: skip
    assert f"The rows are a sample of 300 of {len(rows[1])} rows." in Page(page)["Limits"].text


def test_results_have_sections_in_every_report(rows, models, tmp_path):
    X = rows[1][FEATURES[:5]]
    d = tp.purify(models[0], X, missing_cells="always", progress=False)
    results = [
        tp.check_monotonicity(models[0], X, {"age": "increasing"}, progress=False),
        tp.group_gap(d, X, rows[1]["sex"], progress=False),
        tp.reason_codes(d, X[:3], reference=X, progress=False),
    ]
    page = Page(write_html(d, tmp_path / "d.html", top=0, results=results, progress=False))
    for title in ("Monotonicity", "Gap between groups: female and male", "Examples with reasons"):
        assert page[title].tables


def test_facts_are_read_from_a_file_or_a_mapping(tmp_path):
    text = "purpose: Loans\ngroups:\n  age: {cut: 40}\nthreshold: 0.2\n"
    (tmp_path / "about.yaml").write_text(text, encoding="utf-8")
    mapping = {"purpose": "Loans", "groups": {"age": {"cut": 40}}, "threshold": 0.2}
    for given in (tmp_path / "about.yaml", mapping):
        about = read_about(given)
        assert (about.purpose, about.threshold) == ("Loans", 0.2)
        assert (about.groups[0].name, about.groups[0].cut) == ("age", 40.0)
    with pytest.raises(InvalidInputError, match=r"must be a file in \.yaml or \.yml"):
        read_about(tmp_path / "about.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("purpos: Loans", "did you mean 'purpose'"),
        ("purpose: 3", "must be text"),
        ("directions: {age: up}", '"increasing" or "decreasing" or a list'),
        ("groups: {age: {cuts: 3}}", "did you mean 'cut'"),
        ("groups: {sex: {from: male}}", "two different labels as from and to"),
        ("groups: {sex: {from: male, to: male}}", "two different labels as from and to"),
        ("threshold: high", "finite number"),
        ("adverse: upper", '"high" or "low"'),
        ("purpose: !!python/object/apply:os.getcwd []", "cannot be read"),
        ("a: &a [1]\nb: *a", r"references \(\*name\) are not read"),
        ("- purpose", "must map keys to values"),
        ("purpose: [", "cannot be read"),
        ("? [a]\n: b", "cannot be read"),
    ],
)
def test_facts_that_cannot_be_used_are_refused(tmp_path, text, message):
    (tmp_path / "about.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=message):
        read_about(tmp_path / "about.yaml")


def test_columns_of_groups_that_are_not_there_are_named(rows, models, tmp_path):
    X = rows[1][FEATURES[:5]]
    with pytest.raises(InvalidInputError, match="the column 'sex', which X does not have"):
        write_validation(
            models[0], X, tmp_path / "v.html", about={"groups": ["sex"]}, progress=False
        )
