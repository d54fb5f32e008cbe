"""What commands print: results on standard output, notes and errors on standard error."""

import re
from collections.abc import Collection, Sequence

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treepurify.decomposition import Decomposition
from treepurify.terms import in_digits

__all__ = ["in_options", "note", "print_decomposition", "print_facts", "print_table"]

_BAR_WIDTH = 12
# name="value" or name=value, as messages advise arguments of Python.
_ARGUMENT = re.compile(r"""\b([a-z_]+)=(?:"([^"]*)"|'([^']*)'|([\w.]*\w))""")


def in_options(message: str, options: Collection[str]) -> str:
    """Return a message on one line, whose advice names options where the command has them."""

    def option(found: re.Match[str]) -> str:
        value = next(text for text in found.groups()[1:] if text is not None)
        return f"--{found[1]} {value}" if f"--{found[1]}" in options else found[0]

    line = _ARGUMENT.sub(option, " ".join(message.split()))
    for of_python, of_command in (
        ("pass X", "name a DATA file"),
        ("pass y == that class", "name that class with --positive"),
    ):
        line = line.replace(of_python, of_command)
    return line


def note(text: str, *, quiet: bool = False, color: str | None = None) -> None:
    """Write one line to standard error."""
    if not quiet:
        typer.secho(f"treepurify: {text}", err=True, fg=color)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(Text(name), Text(value))
    Console().print(grid)


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Print a table whose first `left` columns are text; cells are printed as they are."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(names):
        table.add_column(Text(name), justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def print_decomposition(d: Decomposition, top: int) -> None:
    """Print what ``print(d)`` does, and the `top` most important effects as a table with bars."""
    typer.echo(d)
    effects = d.importance()
    share = effects["covariance_share"].to_numpy()
    if np.isnan(share).all():  # not every distribution gives covariances
        share = effects["variance_share"].to_numpy()
    length = np.nan_to_num(np.abs(share))
    length = length / (length.max(initial=0.0) or 1.0)
    columns = {
        "effect": effects["term"],
        **({"output": effects["output"]} if d.n_outputs > 1 else {}),
        "": ["█" * round(_BAR_WIDTH * part) for part in length],
        "share": ["" if np.isnan(part) else f"{part:z.2%}" for part in share],
        "std. dev.": [
            "" if np.isnan(size) else in_digits(size) for size in np.sqrt(effects["variance"])
        ],
    }
    typer.echo()
    rows = zip(*columns.values(), strict=True)
    print_table(list(columns), list(rows)[:top], left=len(columns) - 2)
