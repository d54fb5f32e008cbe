"""Tables that commands write, or print for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treepurify.export.tables import KINDS, table_bytes, write_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FolderFormatOption",
    "TableFormat",
    "TableFormatOption",
    "TableOutOption",
    "output_kind",
    "put_table",
]


class TableFormat(StrEnum):
    """The kinds of files."""

    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"


TableOutOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="File for the whole table; the extension sets the format: .csv, .parquet or .json.",
    ),
]
TableFormatOption = Annotated[
    TableFormat | None,
    typer.Option(
        "--format",
        help="Format of the table. Without --out, csv and json go to standard output instead of "
        "the text.",
    ),
]
FolderFormatOption = Annotated[
    TableFormat, typer.Option("--format", help="Format of the tables in the folder.")
]


def output_kind(out: Path | None, wanted: TableFormat | None) -> str:
    """Return the format of a table: the given one, or that of the name of its file.

    Raises
    ------
    BadParameter
        If the two disagree, or a format that is not text has no file.
    """
    ending = "" if out is None else out.suffix.lower().removeprefix(".")
    if out is None:
        if wanted is TableFormat.PARQUET:
            raise typer.BadParameter(f"--format {wanted} needs a file: pass --out")
        return "" if wanted is None else wanted.value
    if wanted is not None and ending in KINDS and ending != wanted.value:
        raise typer.BadParameter(
            f"--format {wanted} needs a name that ends in .{wanted.value}: got --out {str(out)!r}"
        )
    return wanted.value if wanted is not None else ending if ending in KINDS else "csv"


def put_table(frame: "pd.DataFrame", out: Path | None, kind: str) -> bool:
    """Write a table to `out`, or print it where there is no file; return whether it was printed."""
    if out is not None:
        write_table(frame, out, kind)
    elif kind:
        typer.echo(table_bytes(frame, kind).decode("utf-8").rstrip("\n"))
    return out is None and bool(kind)
