"""The report of a validation: its sections, its file of facts, and the same numbers in JSON."""

import json
import re
from html.parser import HTMLParser

import lightgbm
import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.cli.credit import ABOUT, FEATURES, applications
from tests.report.test_page import Page
from treepurify.errors import InvalidInputError
from treepurify.report import write_html, write_numbers, write_validation
from treepurify.report.about import read_about


class Tables(HTMLParser):
    """The cells of each table, by the section that it stands in."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.section, self.in_cell = {}, "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "section":
            self.section = values["aria-labelledby"]
        elif values.get("role") == "region":
            label = values["aria-label"].removesuffix(", more rows")
            self.rows = self.found.setdefault((self.section, label), [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data


def number_of(cell):
    text = cell.replace("\N{MINUS SIGN}", "-")
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


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
        about=folder / "about.yaml", refits=models[1:], X_after=later[FEATURES[:5]],
        y_after=later["default"], n_examples=4, top=2, numbers=True, progress=False,
        files=[folder / "about.yaml"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def text(written):
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def document(written):
    return json.loads(written.with_suffix(".json").read_text(encoding="utf-8"))


def test_the_page_has_all_sections_and_stands_alone(text, rows):
    page = Page(text)
    names = [name for level, name in page.headings if level == "h2"]
    assert names == [
        "Purpose and data",
        "Implementation check",
        "Certificate",
        "What the model does",
        "Effects",
        "Main effects",
        "Pairs",
        "Monotonicity",
        "Several trainings",
        "Worth on held-out rows",
        "Weak spots",
        "Gap between groups: sex",
        "Gap between groups: age",
        "Drift",
        "Examples with reasons",
        "Limits",
        "Model and method",
        "Origin and hashes",
    ]
    assert len(set(page.ids)) == len(page.ids)
    assert {ref[1:] for ref in page.references if ref.startswith("#")} <= set(page.ids)
    assert all(ref.startswith(("#", "data:image/png;base64,")) for ref in page.references)
    assert "Not filled" not in page.text
    assert "about.yaml: SHA-256" in page.text
    assert "Loans to companies." in page.text
    # What the constraints of the model promise is proved, also where about names it.
    assert "income: proved decreasing" in page.text
    assert "late_payments: proved increasing" in page.text


def test_numbers_of_the_page_are_those_of_the_file(text, document):
    tables = Tables(text).found
    compared = set()
    for identifier, section in document["sections"].items():
        for name, lines in section["tables"].items():
            shown = tables.get((identifier, f"Table: {name}"))
            if shown is None:
                continue
            shown = [row for row in shown if row != shown[0]]
            assert len(shown) == len(lines)
            largest = max(
                [abs(v) for line in lines for v in line.values() if isinstance(v, float)],
                default=0.0,
            )
            for row, line in zip(shown, lines, strict=True):
                numbers = [v for v in line.values() if isinstance(v, int | float)]
                texts = {str(v) for v in line.values()}
                for cell in row:
                    if cell in {"", "yes"} | texts:
                        continue
                    value = number_of(cell)
                    near = np.isclose(value, numbers, rtol=1e-3, atol=1e-12 * largest)
                    assert near.any(), (identifier, name, cell, line)
            compared.add((identifier, name))
    assert compared == {
        ("monotonicity", "directions"),
        *((gap, name) for gap in ("gap-0", "gap-1") for name in ("effects", "rates")),
        *(("drift", name) for name in ("effects", "features")),
        *(("reasons", name) for name in ("reasons", "sums")),
        ("weak-spots", "slices"),
    }


def test_tables_of_another_form_have_the_numbers_of_the_file(text, document):
    tables = Tables(text).found
    worth = {line["term"]: line for line in document["sections"]["worth"]["tables"]["worth"]}
    shown = [row for key, rows in tables.items() if key[0] == "worth" for row in rows if row[1]]
    shown = [row for row in shown if row[0] in worth]
    assert len(shown) == len(worth)
    for row in shown:
        assert number_of(row[2]) == pytest.approx(worth[row[0]]["worth"], rel=1e-3)
        assert number_of(row[3]) == pytest.approx(worth[row[0]]["low"], rel=1e-3)
    effects = {line["term"]: line for line in document["effects"]}
    for row in tables["effects", "Table of effects"][1:]:
        share = effects[row[0]]["covariance_share"]
        assert number_of(row[2]) == pytest.approx(share, abs=5.1e-5)
    trainings = document["sections"]["trainings"]["tables"]["trainings"]
    upper = {line["term"]: np.sqrt(line["variance_upper"]) for line in trainings}
    for row in tables["trainings", "Table of trainings"][1:]:
        assert number_of(row[2].partition(" to ")[2]) == pytest.approx(upper[row[0]], rel=6e-3)


def test_sentences_of_the_file_stand_in_the_page(text, document):
    words = Page(text).text
    for identifier, section in document["sections"].items():
        for sentence in section["sentences"]:
            said = sentence.partition(": ")[2] if identifier == "purpose" else sentence
            assert said in words, identifier


def test_numbers_are_those_of_the_library(document, rows, models):
    _, test, later = rows
    X, y = test[FEATURES[:5]], test["default"]
    sections = document["sections"]
    d = tp.purify(models[0], X, refits=models[1:], missing_cells="always", progress=False)
    verification = sections["implementation"]["tables"]["verification"][0]
    assert verification["n_rows"] == 400
    assert verification["largest_difference"] < 1e-12
    difference = (
        d.predict(X[test["sex"] == "female"]).mean() - d.predict(X[test["sex"] == "male"]).mean()
    )
    parts = [line["difference"] for line in sections["gap-0"]["tables"]["effects"]]
    assert sum(parts) == pytest.approx(difference, abs=1e-12)
    moved = d.predict(later[FEATURES[:5]]).mean() - d.predict(X).mean()
    parts = [line["difference"] for line in sections["drift"]["tables"]["effects"]]
    assert sum(parts) == pytest.approx(moved, abs=1e-12)
    probability = models[0].predict_proba(X)[:, 1]
    approved = [np.mean(probability[test["sex"] == sex] < 0.2) for sex in ("male", "female")]
    rates = sections["gap-0"]["tables"]["rates"][0]
    assert [rates["first"], rates["second"]] == pytest.approx(approved)
    for line in sections["reasons"]["tables"]["sums"]:
        assert probability[line["row"]] >= 0.2
        whole = sum(line[part] for part in ("reasons", "other_adverse", "favourable", "remainder"))
        assert whole == pytest.approx(line["margin"] - line["reference_margin"], abs=1e-9)
        margin = np.log(probability[line["row"]] / (1 - probability[line["row"]]))
        assert line["margin"] == pytest.approx(margin, abs=1e-9)
    worth = tp.effect_worth(d, X, y, progress=False).to_frame().set_index("term")["worth"]
    for line in sections["worth"]["tables"]["worth"]:
        assert line["worth"] == pytest.approx(worth[line["term"]], abs=1e-12)


def test_sections_without_what_they_need_say_what_to_pass(rows, models, tmp_path):
    X = rows[1][FEATURES[:5]]
    d = tp.purify(models[0], X, progress=False)
    text = write_validation(
        d, X, tmp_path / "v.html", n_examples=0, top=0, progress=False
    ).read_text(encoding="utf-8")
    assert text.count("Not filled.") == 9
    for advice in (
        "about=",
        "the model itself",
        "refits=",
        "Pass y",
        "groups=",
        "X_after",
        "n_examples",
    ):
        assert advice in text
    listed = re.search(r"Not examined, because its input was not passed: ([^<]*)\.", text)
    assert len(listed[1].split(", ")) == 9


def test_rows_in_batches_are_a_stated_sample(rows, models, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", 300)
    columns = [*FEATURES[:5], "sex", "default"]
    rows[1][columns].to_parquet(tmp_path / "rows.parquet")
    page = write_validation(
        models[0].booster_, tmp_path / "rows.parquet", tmp_path / "v.html", y="default",
        about={"groups": ["sex"], "threshold": 0.2}, top=0, numbers=True, progress=False,
    )  # fmt: skip
    document = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert document["sections"]["gap-0"]["tables"]["rates"][0]["rate"] == "approval"
    assert document["sections"]["reasons"]["tables"]
    sample = f"The rows are a sample of 300 of {len(rows[1])} rows."
    assert sample in document["sections"]["limits"]["sentences"]


def test_results_have_sections_in_every_report(rows, models, tmp_path):
    X = rows[1][FEATURES[:5]]
    d = tp.purify(models[0], X, missing_cells="always", progress=False)
    results = [
        tp.check_monotonicity(models[0], X, {"age": "increasing"}, progress=False),
        tp.group_gap(d, X, rows[1]["sex"], progress=False),
        tp.reason_codes(d, X[:3], reference=X, progress=False),
    ]
    page = write_html(d, tmp_path / "d.html", top=0, results=results, progress=False)
    text = page.read_text(encoding="utf-8")
    for identifier in ("monotonicity-0", "gap-1", "reasons-2"):
        assert f'id="{identifier}"' in text
    write_numbers(d, page, results=results)
    sections = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["sections"]
    frame = results[1].to_frame()
    assert pd.DataFrame(sections["gap-1"]["tables"]["effects"])["term"].equals(frame["term"])
    with pytest.raises(InvalidInputError, match="each of results must be"):
        write_html(d, page, results=[d], progress=False)


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
        ("purpose: a\npurpose: b", "'purpose' occurs twice"),
        ("directions: {age: up}", '"increasing" or "decreasing" or a list'),
        ("groups: {age: {cuts: 3}}", "did you mean 'cut'"),
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
