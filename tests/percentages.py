"""Percentages in the prose of a page, and where each of them may come from."""

import ast
import contextlib
import io
import re
import sys
from collections.abc import Iterable

__all__ = ["CONSTANTS", "percentages_without_a_source", "quoted_percentages", "run_and_show"]

_RULE = "a rule of the code, not a result"
_LEVEL = "the level of an interval or of a band"
_MEASURED = "measured by the script that the page names"

# Percentages that no output of the page shows, with the reason.
CONSTANTS = {
    "README.md": {"0.1": "a bound; tests/test_demo.py checks it"},
    "docs/auditing.md": dict.fromkeys(["1", "2", "5", "30", "90"], _RULE),
    "docs/comparing.md": {"2": _RULE},
    "docs/continuous.md": {"99": "counted on the rows of California housing"},
    "docs/deep.md": {"0.5": _RULE},
    "docs/exporting.md": {"0.5": _RULE},
    "docs/getting_started.md": {
        "4": "tests/test_demo.py checks it",
        **dict.fromkeys(["0.5", "90"], _RULE),
    },
    "docs/index.md": {"0.1": "a bound; tests/test_demo.py checks it"},
    "docs/mathematics/notation.md": {"100": "a sum of shares"},
    "docs/partial_dependence.md": {"1": _RULE, **dict.fromkeys(["5", "32", "41"], _MEASURED)},
    "docs/reason_codes.md": {"1": _RULE},
    "docs/reproductions/categorical.md": {"80": "a setting of the paper"},
    "docs/reproductions/continuous.md": {"1": "a threshold of the paper"},
    "docs/uncertainty.md": {
        "1": _MEASURED,
        "21": _MEASURED,
        "31": _MEASURED,
        "63": "1 - 1/e",
        "90": _LEVEL,
    },
    "docs/validating.md": dict.fromkeys(["2.5", "5", "95"], _LEVEL),
    "docs/worth.md": dict.fromkeys(["0.2", "1"], "a bound"),
}

NUMBER = r"\d+(?: \d{3})*(?:\.\d+)?"
PERCENTAGE = re.compile(rf"(?<![\w.])(?:({NUMBER}) ?%? (?:to|and|or) )?({NUMBER}) ?%")
FRACTION = re.compile(r"(?<![\w.])\d?\.\d+(?:e[+-]?\d+)?(?![\w.])")


def quoted_percentages(text: str) -> set[str]:
    """Return the percentages in the prose of a page: not those of its code or its roles.

    Nor those of its tables where it names the script that measured them.
    """
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    if _has_measured_tables(prose):
        prose = "\n".join(line for line in prose.splitlines() if not line.startswith("|"))
    prose = re.sub(r"(\{\w+\})?`[^`]*`", "", prose)
    return {number for found in PERCENTAGE.findall(prose) for number in found if number}


def _has_measured_tables(text: str) -> bool:
    return re.search(r"benchmarks/\w+\.py", text) is not None


def shown_percentages(output: str) -> list[float]:
    """Return what an output shows in percent, and its fractions as percentages."""
    percent = [number for found in PERCENTAGE.findall(output) for number in found if number]
    fractions = [100 * float(number) for number in FRACTION.findall(output)]
    return [float(number.replace(" ", "")) for number in percent] + fractions


def is_shown(number: str, shown: Iterable[float]) -> bool:
    """Whether a percentage is one of the shown ones, rounded to its digits."""
    half_unit = 0.5 * 10.0 ** -len(number.partition(".")[2])
    quoted = float(number.replace(" ", ""))
    return any(abs(value - quoted) <= half_unit * (1 + 1e-9) for value in shown)


def percentages_without_a_source(page: str, text: str, output: str) -> set[str]:
    """Return the percentages of a page that its output does not show and no reason covers."""
    tables = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    shown = shown_percentages(output + tables * _has_measured_tables(text))
    unknown = {number for number in quoted_percentages(text) if not is_shown(number, shown)}
    return unknown - set(CONSTANTS.get(page, {}))


def run_and_show(cells: Iterable[str], page: str) -> str:
    """Run the code of a page; return what it prints, shows at the end of a cell, and draws."""
    names: dict[str, object] = {"__name__": page}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in cells:
            _run_cell(cell, page, names)
    return printed.getvalue() + _drawn_text()


def _run_cell(cell: str, page: str, names: dict[str, object]) -> None:
    """Run a cell; print its last expression as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, page, "exec"), names)
    if isinstance(last, ast.Expr):
        shown = eval(compile(ast.Expression(last.value), page, "eval"), names)
        if shown is not None:
            as_html = getattr(shown, "_repr_html_", None)
            sys.stdout.write(f"{shown!r}\n{as_html() if as_html else ''}\n")


def _drawn_text() -> str:
    """Return the text in the figures that are open."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is None:
        return ""
    from matplotlib.text import Text

    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    return "\n".join(text.get_text() for figure in figures for text in figure.findobj(Text))
