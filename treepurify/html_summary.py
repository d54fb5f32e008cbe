"""What notebooks show of a result: its sentences, and its numbers as tables."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from treepurify.terms import in_digits

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 20


def html_summary(lines: Iterable[str], *tables: "pd.DataFrame", with_index: bool = False) -> str:
    """Return sentences and the first rows of tables as HTML.

    Parameters
    ----------
    lines : iterable of str
        Sentences, one paragraph each.
    *tables : DataFrame
        Tables; those that are long end with how many rows there are.
    with_index : bool
        Whether the labels of rows are shown.

    Returns
    -------
    str
        HTML, in which nothing of the result is markup.

    Examples
    --------
    >>> html_summary(["a < b"])
    '<p>a &lt; b</p>'
    """
    parts = [f"<p>{escape(line)}</p>" for line in lines]
    for table in tables:
        parts.append(
            table.head(_MOST_ROWS).to_html(
                index=with_index, border=0, na_rep="", float_format=in_digits
            )
        )
        if len(table) > _MOST_ROWS:
            parts.append(f"<p>... and {len(table) - _MOST_ROWS} more rows</p>")
    return "".join(parts)
