"""
A paper's table next to ours
============================

What every ``paper_*.py`` prints, and what the pages of the documentation show: one table of a
paper, the same numbers as computed here, and the differences. `publish` prints a table, and
stores it as a small file with the date, the versions and the command that made it.
"""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from examples.reproduction_verdicts import agrees

# A number, a mean with its standard deviation, words, or nothing.
Cell = float | tuple[float, float] | str | None

VERSIONS = (
    "treepurify",
    "numpy",
    "scipy",
    "scikit-learn",
    "xgboost",
    "interpret-core",
    "gam-purification",
    "shap",
    "treehfd",
    "survset",
    "torch",
)


@dataclass(frozen=True)
class Entry:
    """One line of a paper's table, with what was computed here.

    Parameters
    ----------
    label : str
        What the line is about.
    paper : sequence
        What the paper prints, one cell per column; empty where it prints nothing.
    ours : mapping of str to sequence
        Name of a setting to what it gives, one cell per column.
    """

    label: str
    paper: Sequence[Cell]
    ours: Mapping[str, Sequence[Cell]]


@dataclass(frozen=True)
class Table:
    """A table of a paper next to ours.

    Parameters
    ----------
    name : str
        Name of its file.
    title : str
        Which table or figure of the paper it is, and what the numbers are.
    columns : sequence of str
        Names of the columns.
    entries : sequence of Entry
        The lines.
    digits : str
        How numbers are written, such as ``".3f"``.
    notes : sequence of str
        What a reader must know: sizes, seeds, what explains a difference.
    figure : str
        Name of the picture next to the file, if there is one.
    """

    name: str
    title: str
    columns: Sequence[str]
    entries: Sequence[Entry]
    digits: str = ".3f"
    notes: Sequence[str] = ()
    figure: str = ""


def mean_and_spread(values: Any) -> tuple[float, float]:
    """Return the mean and the standard deviation of values over seeds or rows."""
    return float(np.mean(values)), float(np.std(values))


def over_seeds(measured: Sequence[Sequence[float]]) -> tuple[Cell, ...]:
    """Return a cell per column: its mean and deviation over the seeds, or the value of the only."""
    if len(measured) == 1:
        return tuple(measured[0])
    return tuple(mean_and_spread(column) for column in zip(*measured, strict=True))


def lines(table: Table) -> list[list[str]]:
    """Return the lines of a table as text: label, whose numbers they are, and the cells.

    Below each setting is its difference from the paper's numbers, where both are numbers.
    """
    found = []
    for entry in table.entries:
        if entry.paper:
            found.append([entry.label, "paper", *(_text(c, table.digits) for c in entry.paper)])
        for setting, cells in entry.ours.items():
            found.append([entry.label, setting, *(_text(cell, table.digits) for cell in cells)])
            if entry.paper:
                differences = [
                    _difference(own, printed, table.digits)
                    for own, printed in zip(cells, entry.paper, strict=True)
                ]
                if any(differences):
                    found.append([entry.label, "difference", *differences])
    return found


def show(table: Table) -> None:
    """Print a table."""
    print(f"\n== {table.title} ==")
    rows = [["", "", *table.columns], *lines(table)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for number, row in enumerate(rows):
        same = number > 0 and rows[number - 1][0] == row[0]
        words = f"{'' if same else row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        cells = "  ".join(f"{c:>{w}}" for c, w in zip(row[2:], widths[2:], strict=True))
        print(f"  {words}  {cells}".rstrip())
    for note in table.notes:
        print(f"  {note}")
    sys.stdout.flush()


def publish(table: Table, folder: Path | None) -> None:
    """Print a table, and store it in a folder with its origin."""
    show(table)
    if folder is not None:
        store(table, folder)


def store(table: Table, folder: Path) -> Path:
    """Write a table to ``<name>.json``, with the date, the versions and the command."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.name}.json"
    content = {
        "title": table.title,
        "columns": list(table.columns),
        "lines": lines(table),
        "notes": list(table.notes),
        "figure": table.figure,
        "command": command(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def command() -> str:
    """Return the command that runs, without the folder that results go to."""
    arguments = list(sys.argv[1:])
    if "--store" in arguments:
        position = arguments.index("--store")
        del arguments[position : position + 2]
    return " ".join(["python", f"examples/{Path(sys.argv[0]).name}", *arguments])


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def origin(stored: Mapping[str, Any]) -> str:
    """Return the command, the date and the versions that made a stored table, as Markdown."""
    packages = ", ".join(f"{name} {number}" for name, number in stored["versions"].items())
    return f"*`{stored['command']}`, {stored['date']}; {packages}.*"


def as_markdown(stored: Mapping[str, Any], verdict: str = "", *, with_origin: bool = True) -> str:
    """Return a stored table as Markdown, below its verdict, picture and notes.

    Its origin is below it, unless `with_origin` is false.
    """
    header = ["", "", *stored["columns"]]
    text = [f"**{stored['title']}**", ""]
    if verdict:
        text += [f"*{verdict}*", ""]
    if stored["figure"]:
        # A bracket would end the words that stand for the figure.
        words = stored["title"].replace("[", "\\[").replace("]", "\\]")
        text += [f"![{words}](results/{stored['figure']})", ""]
    # First what a table shows, then its numbers, which may be many.
    for note in stored["notes"]:
        text += [note, ""]
    text += [_row(header), _row(["---"] * len(header))]
    before, printed = None, []
    for row in stored["lines"]:
        if row[1] == "paper":
            printed = row
        cells = _marked(row, printed, header) if row[1] == "difference" else row
        text.append(_row(["" if row[0] == before else row[0], *cells[1:]]))
        before = row[0]
    text.append("")
    if with_origin:
        text += [origin(stored), ""]
    return "\n".join(text)


def stored_cell(folder: Path, reference: str) -> str:
    """Return one cell of a stored table, for a sentence that quotes it.

    Parameters
    ----------
    folder : Path
        Where tables are stored.
    reference : str
        ``"table | label | setting | column"``.

    Raises
    ------
    LookupError
        If there is no such cell, or it is empty.
    """
    name, label, setting, column = (part.strip() for part in reference.split(" | "))
    stored = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    position = 2 + stored["columns"].index(column) if column in stored["columns"] else 0
    cells = [line[position] for line in stored["lines"] if line[:2] == [label, setting]]
    if not position or cells in ([], [""]):
        raise LookupError(f"no cell {reference!r}")
    return cells[0]


def _marked(row: Sequence[str], printed: Sequence[str], header: Sequence[str]) -> list[str]:
    """Return a line of differences, with those in bold that are small enough to agree."""
    cells = zip(row[2:], printed[2:], header[2:], strict=True)
    return [*row[:2], *(f"**{own}**" if own and agrees(own, *of) else own for own, *of in cells)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _text(cell: Cell, digits: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return f"{cell[0]:{digits}} ± {cell[1]:{digits}}"
    return f"{cell:{digits}}"


def _difference(own: Cell, printed: Cell, digits: str) -> str:
    first, second = (cell[0] if isinstance(cell, tuple) else cell for cell in (own, printed))
    if first is None or second is None or isinstance(first, str) or isinstance(second, str):
        return ""
    return f"{first - second:+{digits}}"
