"""Times, ratios and R² that pages quote are those of the stored tables."""

import csv
import re
import statistics
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
FULL = (DOCS / "developers_measured.md").read_text(encoding="utf-8")
ALL_STORED = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("developers_*.md"))

NUMBER = r"\d+(?: \d{3})*(?:\.\d+)?"
SECONDS = {"microseconds": 1e-6, "ms": 1e-3, "s": 1.0, "seconds": 1.0, "h": 3600.0}
AMOUNT = re.compile(
    rf"(?<![\w.])(?:({NUMBER}) (?:to|and) )?({NUMBER}) (microseconds|ms|s|seconds|h|GB|%)(?!\w)"
)
RATIO = re.compile(rf"({NUMBER}) times (?:as (?:fast|long)|slower|the distance)")
R_SQUARED = re.compile(r"R²[^|.]*?(0\.\d+)(?:[^|.]*? and (0\.\d+))?")


def amounts(text):
    """Return the times, in seconds, the memory and the percentages of a text."""
    found = set()
    for first, last, unit in AMOUNT.findall(text):
        for number in (first, last):
            if number:
                value = float(number.replace(" ", "")) * SECONDS.get(unit, 1.0)
                found.add((round(value, 9), "s" if unit in SECONDS else unit))
    return found


def bare_numbers(text):
    """Return all numbers of a text, whatever they count."""
    return {number.replace(" ", "") for number in re.findall(NUMBER, text)}


def missing_numbers(quoted, stored):
    """Return the measured numbers of a text that the stored one does not contain."""
    ratios = {number for found in R_SQUARED.findall(quoted) for number in found if number}
    ratios |= set(RATIO.findall(quoted))
    return (amounts(quoted) - amounts(stored)) | (ratios - bare_numbers(stored))


def answers():
    """Return the answers of the page, each with the scripts that measured it."""
    page = (DOCS / "measured.md").read_text(encoding="utf-8")
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    return [(text, re.findall(r"`(\w+\.py)`", scripts)) for _, text, scripts in lines[1:]]


@pytest.mark.parametrize(("text", "scripts"), answers())
def test_the_summary_quotes_the_section_of_its_script(text, scripts):
    sections = [part for part in FULL.split("\n## ") if any(name in part for name in scripts)]
    assert sections
    assert missing_numbers(text, "\n".join(sections)) == set()


def test_every_answer_has_a_number():
    assert len(answers()) == 8
    assert all(re.search(r"\d", text) for text, _ in answers())


def test_a_wrong_number_would_be_found():
    assert missing_numbers("It takes 0.3 to 0.5 s.", "300 ms, 0.4 s") == {(0.5, "s")}
    assert missing_numbers("R² is 0.98 and 0.97, 12 times as fast", "0.98, 12") == {"0.97"}
    assert missing_numbers("3.9 h, 1.4 GB and 59%", "3.9 h | 1.4 GB | 59%") == set()


# The summary is compared with the section of each script; the other two are printed by theirs.
APART = {"measured.md", "real_models.md", "deep_models.md"}
PAGES = sorted({page.name for page in DOCS.glob("*.md")} - APART)


@pytest.mark.parametrize(
    "page", [*(page for page in PAGES if not page.startswith("developers")), "../README.md"]
)
def test_pages_quote_times_and_ratios_that_are_stored(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    times = {found for found in amounts(prose) if found[1] == "s"} - amounts(ALL_STORED)
    assert not times, f"{page} quotes seconds that no page of measurements has: {times}"
    ratios = set(re.findall(rf"({NUMBER}) times (?:as fast|slower)", prose))
    assert ratios <= bare_numbers(ALL_STORED)


def stored_lines(name):
    with (DOCS / "measured" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_stored_tables_have_the_lines_that_the_page_counts():
    counted = re.findall(r"\[Table of (\d+) lines\]\(measured/(\w+\.csv)\)", FULL)
    assert {name: int(n) for n, name in counted} == {
        path.name: len(stored_lines(path.name)) for path in (DOCS / "measured").glob("*.csv")
    }


def test_the_gain_of_smoothing_is_that_of_its_table():
    lines = stored_lines("populations.csv")
    ratios = [float(line["auto"]) / float(line["empirical"]) for line in lines]
    quoted = next(text for text, scripts in answers() if "measures.py" in scripts)
    share = f"{statistics.median(ratios):.2f} times as large in the median of {len(lines)} settings"
    assert share in quoted
    assert max(ratios) <= 1.0
