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
from treepurify.errors import InvalidInputError
from treepurify.export.ebm import to_ebm
from treepurify.export.left_out import OnRemainder
from treepurify.export.onnx import to_onnx
from treepurify.export.relativities import to_relativities
from treepurify.export.scorecard import Scorecard, to_scorecard
from treepurify.export.sql import to_sql
from treepurify.storage import load, write_atomically

__all__ = ["export"]


class Target(StrEnum):
    """What is written."""

    SQL = "sql"
    ONNX = "onnx"
    EBM = "ebm"
    SCORECARD = "scorecard"
    RELATIVITIES = "relativities"


class SqlDialect(StrEnum):
    """Where a query runs."""

    DUCKDB = "duckdb"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


class ExportScale(StrEnum):
    """What a query or an ONNX model gives."""

    MARGIN = "margin"
    RESPONSE = "response"


class Odds(StrEnum):
    """Which way points rise."""

    FOR = "for"
    AGAINST = "against"


_SUFFIX = {
    Target.SQL: ".sql",
    Target.ONNX: ".onnx",
    Target.EBM: ".json",
    Target.SCORECARD: ".html",
    Target.RELATIVITIES: ".csv",
}
_OF_TARGETS = {
    "dialect": (Target.SQL,),
    "table": (Target.SQL,),
    "keep": (Target.SQL,),
    "scale": (Target.SQL, Target.ONNX),
    "base_points": (Target.SCORECARD,),
    "base_odds": (Target.SCORECARD,),
    "points_to_double": (Target.SCORECARD,),
    "odds": (Target.SCORECARD,),
    "fold": (Target.RELATIVITIES,),
    "decimals": (Target.RELATIVITIES,),
}


def export(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
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
            help="The file; by default the name of DECOMPOSITION with .sql, .onnx, .json (EBM), "
            ".html (scorecard) or .csv (relativities). A name ending in .xlsx writes either of "
            "the last two as a workbook.",
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
        typer.Option(help="The margin, or the response after the inverse link (SQL, ONNX)."),
    ] = ExportScale.MARGIN,
    dialect: Annotated[
        SqlDialect, typer.Option(help="Database for the query.")
    ] = SqlDialect.DUCKDB,
    table: Annotated[str, typer.Option(help="Table that the query reads.")] = "data",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Another column to return, such as a key; can be repeated."),
    ] = None,
    base_points: Annotated[float, typer.Option(help="Points of a scorecard at --base-odds.")] = 600,
    base_odds: Annotated[float, typer.Option(help="Odds at --base-points; 50 means 50 to 1.")] = 50,
    points_to_double: Annotated[
        float, typer.Option(help="Number of points that doubles the odds of a scorecard.")
    ] = 20,
    odds: Annotated[
        Odds,
        typer.Option(help="Whether points rise with the odds for or against the second class."),
    ] = Odds.FOR,
    fold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A & B",
            help="Pair whose factors also include both main effects; can be repeated.",
        ),
    ] = None,
    decimals: Annotated[
        int | None, typer.Option(min=0, help="Decimals of factors; all digits by default.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Write a decomposition as a SQL query, an ONNX model, an EBM, a scorecard or factor tables."""
    _check_options(context, to)
    target = out or decomposition.with_suffix(_SUFFIX[to])
    remainder: OnRemainder = "drop" if drop_remainder else "refuse"
    with refusals(context):
        d = load(decomposition)
        note(f"writing {target}", quiet=quiet)
        if to is Target.SQL:
            query = to_sql(
                d, table=table, dialect=dialect.value, keep=keep or (), scale=scale.value,
                remainder=remainder,
            )  # fmt: skip
            write_atomically(target, f"{query};\n".encode())
        elif to is Target.ONNX:
            to_onnx(d, target, scale=scale.value, remainder=remainder)
        elif to is Target.EBM:
            write_atomically(target, _ebm_document(d, remainder))
        elif to is Target.RELATIVITIES:
            tables = to_relativities(d, fold=fold or (), decimals=decimals, remainder=remainder)
            write = tables.to_excel if target.suffix.lower() == ".xlsx" else tables.to_csv
            write(target)
        else:
            card = to_scorecard(
                d, base_points=base_points, base_odds=base_odds,
                points_to_double=points_to_double, odds=odds.value, remainder=remainder,
            )  # fmt: skip
            note(str(card.rounding), quiet=quiet)
            _write_card(card, target)
    typer.echo(str(target))


def _write_card(card: Scorecard, target: Path) -> None:
    if target.suffix.lower() == ".xlsx":
        card.to_excel(target)
    elif target.suffix.lower() in (".html", ".htm"):
        card.to_html(target)
    else:
        raise InvalidInputError(f"a scorecard is written as .html or .xlsx, got {str(target)!r}")


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
