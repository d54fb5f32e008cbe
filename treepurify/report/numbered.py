"""Sections whose numbers stand in the page and in its file of numbers: one source for both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.plots.labels import number_words
from treepurify.report.parts import plain_table, section

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NumberTable", "NumberedSection", "records"]

_ROWS_AT_ONCE = 12
_MOST_ROWS = 200
_DIGITS = 4
# Numbers of up to this share of the largest one in their table are rounding, and shown as zero.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class NumberTable:
    """A table of a result, as the page shows it and as the file of numbers has it.

    Parameters
    ----------
    name : str
        Name of the table, unique in its section.
    frame : DataFrame
        All rows and columns; the file of numbers has all of them.
    headings : mapping of str to str
        The columns that the page shows, in this order, by their headings. Those that the frame
        lacks are left out; without any, the section shows the table in another form.
    shares : frozenset of str
        Columns of shares, which the page shows in percent.
    """

    name: str
    frame: "pd.DataFrame"
    headings: Mapping[str, str] = field(default_factory=dict)
    shares: frozenset[str] = frozenset()

    def html(self) -> str:
        """Return the table, all but its first rows folded away."""
        columns = [column for column in self.headings if column in self.frame]
        if not columns:
            return ""
        head = [self.headings[column] for column in columns]
        shown = self.frame[columns].head(_MOST_ROWS)
        numbers = shown.select_dtypes("number").to_numpy(dtype=np.float64)
        least = _ROUNDING * float(np.abs(np.nan_to_num(numbers)).max(initial=0.0))
        rows = [
            [self._words(str(column), value, least) for column, value in row.items()]
            for row in shown.to_dict("records")
        ]
        is_text = [shown[column].dtype == object for column in columns]
        texts = [place for place, is_own in enumerate(is_text) if is_own]
        label = f"Table: {self.name}"
        parts = [plain_table(label, head, rows[:_ROWS_AT_ONCE], texts=texts)]
        rest = rows[_ROWS_AT_ONCE:]
        if rest:
            table = plain_table(f"{label}, more rows", head, rest, texts=texts)
            parts.append(f"<details><summary>{len(rest)} more rows</summary>\n{table}\n</details>")
        left_out = len(self.frame) - len(rows)
        parts.append(f"<p>{left_out} further rows are not listed.</p>" if left_out else "")
        return "\n".join(part for part in parts if part)

    def _words(self, column: str, value: Any, least: float) -> str:
        if isinstance(value, bool):
            return "yes" if value else ""
        if not isinstance(value, float):
            return str(value)
        if np.isnan(value):
            return ""
        value = value if abs(value) > least else 0.0
        is_share = column in self.shares
        words = number_words(100 * value if is_share else value, _DIGITS)
        return f"{words}%" if is_share else words


@dataclass(frozen=True, eq=False)
class NumberedSection:
    """A section of a page, and its numbers.

    Parameters
    ----------
    identifier, heading : str
        Name of the section, unique in the page, and its heading.
    sentences : tuple of str
        What was found.
    tables : tuple of NumberTable
        The numbers.
    pictures : tuple of str
        Figures, as HTML.
    form : str
        The whole section as HTML, where the page has a form of its own for it; empty where it is
        made of sentences, figures and tables.
    is_filled : bool
        Whether there was what it needs; if not, its sentence says what to pass.
    """

    identifier: str
    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[NumberTable, ...] = ()
    pictures: tuple[str, ...] = ()
    form: str = ""
    is_filled: bool = True

    def html(self) -> str:
        """Return the section of the page."""
        if self.form:
            return self.form
        figures = "\n".join(picture for picture in self.pictures if picture)
        return section(
            self.identifier,
            self.heading,
            *(f"<p>{escape(sentence)}</p>" for sentence in self.sentences),
            f'<div class="figures">\n{figures}\n</div>' if figures else "",
            *(table.html() for table in self.tables),
        )

    def document(self) -> dict[str, Any]:
        """Return what the file of numbers has: heading, sentences, and all rows of all tables."""
        return {
            "heading": self.heading,
            "sentences": list(self.sentences),
            "tables": {table.name: records(table.frame) for table in self.tables},
        }


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return rows as plain values, with null for numbers that are not known or not finite."""
    return [
        {str(name): _plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value
