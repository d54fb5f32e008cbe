"""The command that writes a saved decomposition for other programs."""

import warnings
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated

import typer

from treepurify.cli.console import note, refusals
from treepurify.cli.options import QuietOption
from treepurify.decomposition import Decomposition
from treepurify.export.ebm import to_ebm
from treepurify.export.left_out import OnRemainder
from treepurify.export.relativities import to_relativities
from treepurify.export.sql import to_sql
from treepurify.storage import load, write_atomically

__all__ = ["export"]


class Target(StrEnum):
    """What is written."""

    SQL = "sql"
    EBM = "ebm"
    RELATIVITIES = "relativities"


class ExportScale(StrEnum):
    """What a query gives."""

    MARGIN = "margin"
    RESPONSE = "response"


_SUFFIX = {
    Target.SQL: ".sql",
    Target.EBM: ".json",
    Target.RELATIVITIES: ".csv",
}
_OF_TARGETS = {
    "table": (Target.SQL,),
    "keep": (Target.SQL,),
    "scale": (Target.SQL,),
}


def export(
    context: typer.Context,
    decomposition: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A .tpz file that purify wrote."),
    ],
    to: Annotated[Target, typer.Option(help="What to write.")],
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="The file; by default the name of DECOMPOSITION with .sql, .json (EBM) or .csv "
            "(relativities).",
        ),
    ] = None,
    drop_remainder: Annotated[
        bool,
        typer.Option(
            "--drop-remainder",
            help="Leave out the remainder, and report how much predictions change.",
        ),
    ] = False,
    scale: Annotated[
        ExportScale,
        typer.Option(help="The margin, or the response after the inverse link (SQL)."),
    ] = ExportScale.MARGIN,
    table: Annotated[str, typer.Option(help="Table that the query reads.")] = "data",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Another column to return, such as a key; can be repeated."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write a decomposition as a SQL query, an EBM or a table of factors."""
    _check_options(context, to)
    target = out or decomposition.with_suffix(_SUFFIX[to])
    remainder: OnRemainder = "drop" if drop_remainder else "refuse"
    with refusals(context):
        d = load(decomposition)
        note(f"writing {target}", quiet=quiet)
        if to is Target.SQL:
            query = to_sql(d, table=table, keep=keep or (), scale=scale.value, remainder=remainder)
            write_atomically(target, f"{query};\n".encode())
        elif to is Target.EBM:
            write_atomically(target, _ebm_document(d, remainder))
        else:
            factors = to_relativities(d, remainder=remainder).to_csv(index=False)
            write_atomically(target, factors.encode())
    typer.echo(str(target))


def _check_options(context: typer.Context, to: Target) -> None:
    """Refuse options of another target."""
    for name, targets in _OF_TARGETS.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and to not in targets:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"{option} belongs to --to {' or '.join(targets)}, not {to}")


def _ebm_document(d: Decomposition, remainder: OnRemainder) -> bytes:
    text = StringIO()
    ebm = to_ebm(d, remainder=remainder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="JSON formats are in beta")
        ebm.to_json(text)
    return text.getvalue().encode("utf-8")
