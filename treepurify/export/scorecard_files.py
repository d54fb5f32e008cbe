"""A scorecard as a workbook and as a page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import read_path
from treepurify.components import TensorComponent
from treepurify.errors import InvalidInputError
from treepurify.export.excel import sheet_names, workbook
from treepurify.storage import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_page", "write_workbook"]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; margin: 0 0 1.6rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td.points, th.points { text-align: right; }
.wide { overflow-x: auto; }
@media print { table { break-inside: avoid; } }
"""


Facts = Sequence[tuple[str, str]]


def write_workbook(
    points: "pd.DataFrame", pairs: Sequence[TensorComponent], facts: Facts, path: str | Path
) -> None:
    """Write the sheets ``scorecard``, one for each pair, and ``facts``."""
    import pandas as pd

    target = read_path("path", path)
    if target.suffix.lower() != ".xlsx":
        raise InvalidInputError(f"expected a file name ending in .xlsx, got {str(path)!r}")
    titles = [" & ".join(axis.name for axis in pair.axes) for pair in pairs]
    names = sheet_names(titles, taken=("scorecard", "facts"))
    sheets = [
        ("scorecard", points),
        *zip(names, map(_two_ways, pairs), strict=True),
        ("facts", pd.DataFrame(facts, columns=["fact", "value"])),
    ]
    write_atomically(target, workbook(sheets))


def write_page(
    points: "pd.DataFrame",
    pairs: Sequence[TensorComponent],
    facts: Facts,
    path: str | Path | None,
) -> str:
    """Return the page, and write it where a file is named."""
    lines = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Scorecard</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><h1>Scorecard</h1><table>",
        *(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts),
        "</table>",
    ]
    of_pairs = {" & ".join(axis.name for axis in pair.axes) for pair in pairs}
    for name, table in points.groupby("characteristic", sort=False):
        if name not in of_pairs:
            lines.append(_one_way(str(name), table))
    lines += [_page_of_pair(pair) for pair in pairs]
    page = "\n".join([*lines, "</body></html>\n"])
    if path is not None:
        write_atomically(path, page.encode("utf-8", "replace"))
    return page


def _points(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _one_way(name: str, table: "pd.DataFrame") -> str:
    columns = (table[name].tolist() for name in ("attribute", "points", "share"))
    rows = [
        f"<tr><td>{escape(attribute)}</td><td class=points>{_points(points)}</td>"
        f"<td class=points>{100 * share:.1f} %</td></tr>"
        for attribute, points, share in zip(*columns, strict=True)
    ]
    return (
        f"<table><caption>{escape(name)}</caption><tr><th>attribute</th><th class=points>points"
        f"</th><th class=points>rows</th></tr>{''.join(rows)}</table>"
    )


def _page_of_pair(component: TensorComponent) -> str:
    first, second = component.axes
    heads = "".join(f"<th class=points>{escape(label)}</th>" for label in second.labels(exact=True))
    rows = [
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td class=points>{_points(value)}</td>" for value in values)
        + "</tr>"
        for label, values in zip(
            first.labels(exact=True), component.values[..., 0].tolist(), strict=True
        )
    ]
    caption = escape(f"{first.name} (down) and {second.name} (across)")
    return (
        f"<div class=wide><table><caption>{caption}</caption><tr><th></th>{heads}</tr>"
        f"{''.join(rows)}</table></div>"
    )


def _two_ways(component: TensorComponent) -> "pd.DataFrame":
    """Return the points of a pair, the first feature down and the second across."""
    import pandas as pd

    first, second = component.axes
    table = pd.DataFrame(np.asarray(component.values[..., 0]), columns=second.labels(exact=True))
    table.insert(
        0, f"{first.name} \\ {second.name}", first.labels(exact=True), allow_duplicates=True
    )
    return table
