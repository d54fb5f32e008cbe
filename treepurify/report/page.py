"""Sections, and the page that is made of them: what all reports have in common.

A page needs no network and no other file. Templates lay sections out; the style and the script
stand next to them, and nothing else in the package writes HTML.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from treepurify.errors import MissingDependencyError
from treepurify.plots.labels import number_words
from treepurify.progress import ProgressReport
from treepurify.report.figures import Figure
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 300
_DIGITS = 4
# Numbers of up to this part of the largest in their column are rounding, and shown as zero.
_ROUNDING = 1e-9


class Row(NamedTuple):
    """One row of a table: its cells in words, and the length of its bar from 0 to 1."""

    cells: list[str]
    bar: float


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers, of which the page shows some columns.

    Parameters
    ----------
    frame : DataFrame
        The rows; the first column that is shown names each of them.
    headings : mapping of str to str
        The columns in this order, by their headings; those that the frame lacks are left out.
    percent : collection of str
        Columns of shares.
    bar : str, optional
        The column of shares that is drawn as a bar, too.
    at_once : int
        Rows that are seen before the table is unfolded.
    """

    frame: "pd.DataFrame"
    headings: Mapping[str, str]
    percent: Collection[str] = ()
    bar: str | None = None
    at_once: int = 12

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are shown."""
        return [column for column in self.headings if column in self.frame]

    @property
    def head(self) -> list[tuple[str, bool]]:
        """The headings, each with whether its column is text."""
        return [(self.headings[name], self.frame[name].dtype == object) for name in self.columns]

    @property
    def n_left_out(self) -> int:
        """Number of rows that the page does not hold."""
        return max(len(self.frame) - _MOST_ROWS, 0)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows in words."""
        shown = self.frame[self.columns].head(_MOST_ROWS)
        words = [self._words(name, shown[name].tolist()) for name in self.columns]
        bars = np.zeros(len(shown))
        if self.bar is not None:
            bars = np.clip(np.abs(np.nan_to_num(shown[self.bar].to_numpy(np.float64))), 0.0, 1.0)
        cells = map(list, zip(*words, strict=True))
        return [Row(*each) for each in zip(cells, bars.tolist(), strict=True)]

    def _words(self, name: str, values: list[Any]) -> list[str]:
        numbers = [abs(value) for value in values if isinstance(value, float)]
        least = _ROUNDING * max((each for each in numbers if not np.isnan(each)), default=0.0)
        return [_cell(value, least, is_share=name in self.percent) for value in values]


def _cell(value: Any, least: float, *, is_share: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if np.isnan(value):
        return ""
    value = value if abs(value) > least else 0.0
    return f"{number_words(100 * value, 3)}%" if is_share else number_words(value, _DIGITS)


@dataclass(frozen=True, eq=False)
class Section:
    """A section of a page, or a part of one.

    Parameters
    ----------
    title : str
        The heading.
    text : sequence of str
        Paragraphs.
    tables : sequence of Table
        Numbers.
    figures : sequence of Figure
        Pictures.
    facts : sequence of (str, str)
        Names and values; those without a value are left out.
    parts : sequence of Section
        What has headings of its own, below the rest.
    state : {"", "good", "part", "bad"}
        Colour of the text, where it is a verdict.
    is_folded : bool
        Whether a screen shows only the heading until it is opened.
    code : str
        A command, as it was typed.
    place : str
        Name of an element that the script of the page fills.
    is_filled : bool
        Whether there was what it needs; if not, its text says what to pass.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    facts: Sequence[tuple[str, str]] = ()
    parts: "Sequence[Section]" = ()
    state: Literal["", "good", "part", "bad"] = ""
    is_folded: bool = False
    code: str = ""
    place: str = ""
    is_filled: bool = True

    @property
    def figures_inside(self) -> list[Figure]:
        """All pictures of it and its parts, in the order of the page."""
        return [*self.figures, *(each for part in self.parts for each in part.figures_inside)]


def write_page(
    path: Path,
    title: str,
    lead: str,
    makers: Mapping[str, Callable[[], Section | None]],
    report: ProgressReport,
    data: Mapping[str, Any] | None = None,
) -> list[Section]:
    """Make the sections of a page and write it, whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    title, lead : str
        Its heading, and the line below it.
    makers : mapping of str to callable
        What makes each section, by its name in words; one that returns None is left out.
    report : callable
        Progress.
    data : mapping of str to object, optional
        What the script of the page reads to put a prediction together.

    Returns
    -------
    list of Section
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependencyError(
            'writing a report needs Jinja2: pip install "treepurify[report]"'
        ) from error
    sections = []
    for number, (name, make) in enumerate(makers.items(), start=1):
        report(f"writing the report, {name}: section", number, len(makers))
        made = make()
        if made is not None:
            sections.append(made)
    figures = [figure for section in sections for figure in section.figures_inside]
    read = {"figures": [figure.cells for figure in figures], **(data or {})}
    text = json.dumps(read, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    folder = resources.files(__package__)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda name: (folder / "templates" / name).read_text(encoding="utf-8")
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = figures.index
    page = environment.get_template("page.html.j2").render(
        title=title,
        lead=lead,
        sections=sections,
        style=(folder / "report.css").read_text(encoding="utf-8"),
        script=(folder / "report.js").read_text(encoding="utf-8"),
        data=text,
    )
    write_atomically(path, page.encode("utf-8"))
    return sections
