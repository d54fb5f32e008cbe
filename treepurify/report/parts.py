"""The pieces that every page is made of: colours, sections, lists, tables, and the page itself."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import TypeVar

from treepurify.plots import style
from treepurify.progress import ProgressReport
from treepurify.verdict import Verdict

__all__ = [
    "PAGE_COLORS",
    "command_block",
    "facts_list",
    "folded_section",
    "page_text",
    "plain_table",
    "section",
    "verdict_lines",
    "verdict_parts",
    "written_sections",
]

# Colours that follow the page, which may be dark; those inside a heatmap stay.
PAGE_COLORS = {
    **{color: f"many-{i}" for i, color in enumerate(style.MANY)},
    style.INK: "ink",
    style.MUTED: "muted",
    style.FRAME: "frame",
    style.DATA: "data",
    style.EMPTY: "empty",
    style.HATCH: "hatch",
    style.AFTER: "after",
    style.BEFORE: "before",
    style.PAIR: "pair",
    style.HIGHER: "higher",
    style.UP: "up",
    style.DOWN: "down",
}


# What is left as it is on a page, and the words that a narrow screen could not hold.
_FIXED, _LONG_WORD = r"<(svg|pre)\b.*?</\1>|<[^>]*>", r"\w{20,}"


def section(identifier: str, heading: str, *parts: str) -> str:
    """Return a section with its heading; `identifier` is unique in the page."""
    body = "\n".join(part for part in parts if part)
    return (
        f'<section aria-labelledby="{identifier}">\n<h2 id="{identifier}">{escape(heading)}</h2>\n'
        f"{body}\n</section>"
    )


def folded_section(identifier: str, heading: str, *parts: str) -> str:
    """Return a section of which a screen shows only the heading until it is opened."""
    body = "\n".join(part for part in parts if part)
    return (
        f'<section aria-labelledby="{identifier}">\n<details>\n<summary><h2 id="{identifier}">'
        f"{escape(heading)}</h2></summary>\n{body}\n</details>\n</section>"
    )


def verdict_parts(found: Verdict, figures: Sequence[str]) -> list[str]:
    """Return the lines of a verdict in its colour, and all figures, folded."""
    parts = [verdict_lines(found)]
    listed = "\n".join(f"<li>{escape(line)}</li>" for line in figures)
    if listed:
        parts.append(f"<details><summary>The numbers</summary>\n<ul>\n{listed}\n</ul></details>")
    return parts


def verdict_lines(found: Verdict) -> str:
    """Return the lines of a verdict in its colour; empty without any."""
    lines = "<br>".join(escape(line) for line in found.lines)
    return f'<p class="verdict {found.state}">{lines}</p>' if lines else ""


def facts_list(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a list; pairs without a value are left out."""
    lines = [f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value]
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


def command_block(command: str | None) -> str:
    """Return a command as it was typed; empty without one."""
    if command is None:
        return ""
    return f'<pre class="command"><code>{escape(command)}</code></pre>'


def plain_table(
    label: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    is_html: bool = False,
    texts: Collection[int] = (),
) -> str:
    """Return a table that scrolls sideways where it does not fit.

    Parameters
    ----------
    label : str
        What it holds, for those who do not see it.
    head : sequence of str
        Names of the columns.
    rows : iterable of sequence of str
        The cells; the first one of a row names it.
    is_html : bool
        Whether cells are written as they are, from the opening to the closing tag.
    texts : collection of int
        Positions of the columns of text, which are aligned on the left.
    """
    looks = [' class="text"' if place in texts else "" for place in range(len(head))]
    names = "".join(
        f'<th scope="col"{look}>{escape(name)}</th>' for look, name in zip(looks, head, strict=True)
    )
    lines = []
    for first, *rest in rows:
        cells = "".join(
            cell if is_html else f"<td{look}>{escape(cell)}</td>"
            for look, cell in zip(looks[1:], rest, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">\n'
        f"<table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


Written = TypeVar("Written")


def written_sections(
    sections: Mapping[str, Callable[[], Written]], report: ProgressReport
) -> list[Written]:
    """Return the sections of a page, and report which one is written.

    Parameters
    ----------
    sections : mapping of str to callable
        What writes each section, by its name in words, from top to bottom.
    report : callable
        Progress.
    """
    written: list[Written] = []
    for number, (name, write) in enumerate(sections.items(), start=1):
        report(f"writing the report, {name}: section", number, len(sections))
        written.append(write())
    return written


def page_text(
    title: str,
    introduction: str,
    sections: Iterable[str],
    payload: str = "",
    scripts: Sequence[str] = (),
) -> str:
    """Return a page that needs no network and no other file.

    Parameters
    ----------
    title : str
        The heading, and the name of the page.
    introduction : str
        The first paragraph.
    sections : iterable of str
        What `section` returned; empty ones are left out.
    payload : str
        A JSON document that the scripts read.
    scripts : sequence of str
        Names of script files of this package.
    """
    files = resources.files("treepurify.report")
    look = files.joinpath("report.css").read_text(encoding="utf-8")
    code = "\n".join(files.joinpath(name).read_text(encoding="utf-8") for name in scripts)
    body = _with_breaks("\n".join(part for part in sections if part))
    interactive = (
        f'<script type="application/json" id="payload">{payload}</script>\n'
        f"<script>\n{code}</script>\n"
        if scripts
        else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_color_variables()}{look}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="lead">{escape(introduction)}</p>
{body}
</main>
{interactive}</body>
</html>
"""


def _with_breaks(body: str) -> str:
    """Return a page on which long names may go on in a new line after an underscore.

    Else they would have to be broken inside words.
    """

    def broken(found: re.Match[str]) -> str:
        text = found.group()
        return text if text.startswith("<") else re.sub(r"_(?=\w)", "_<wbr>", text)

    return re.sub(f"{_FIXED}|{_LONG_WORD}", broken, body, flags=re.DOTALL)


def _color_variables() -> str:
    """Return the colours as variables of a style sheet, as they are on light ground."""
    lines = [f"  --{name}: {color};" for color, name in PAGE_COLORS.items()]
    return ":root {\n" + "\n".join(lines) + "\n}\n"
