"""What commands print: results on standard output, notes and errors on standard error."""

import re
from collections.abc import Collection, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
