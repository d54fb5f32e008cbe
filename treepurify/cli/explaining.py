"""The command that says why rows lie above or below a reference population."""

import csv
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from treepurify.arguments import read_output
from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.data import DataFile, read_rows
from treepurify.cli.options import (
    DropOption,
    ModelArgument,
    QuietOption,
    TargetOption,
    WeightColumnOption,
    existing_rows,
)
from treepurify.cli.tables import TableFormatOption, TableOutOption, output_kind, put_table
from treepurify.errors import InvalidInputError
from treepurify.models.parse import Model, parse_model
from treepurify.rows.parquet_source import ParquetSource
from treepurify.typing import Mask
from treepurify.validation.approval_rates import Decision
from treepurify.validation.reason_codes import reason_codes
from treepurify.validation.reason_groups import DIRECTIONS
from treepurify.validation.reasons import ReasonCodes

__all__ = ["explain", "read_texts"]

_MOST_LINES = 12
_COLUMNS = ("feature", "group", *DIRECTIONS)


class AdverseOption(StrEnum):
    """Which margins are adverse."""

    HIGH = "high"
    LOW = "low"


ReferenceOption = Annotated[
    Path | None,
    typer.Option(
        callback=existing_rows,
        help="CSV or Parquet file with the reference population, such as approved applications; "
        "with --threshold, the accepted rows of DATA by default.",
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        help="Explain only the refused rows of DATA: those with a prediction (on the response "
        "scale) at or above this threshold, or below it with --adverse low."
    ),
]
TextsOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="CSV file with one line per feature: its name in the column feature, optionally its "
        "group, and the texts to print where the feature makes the prediction high or low.",
    ),
]


def explain(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: Annotated[
        Path,
        typer.Argument(callback=existing_rows, help="CSV or Parquet file with rows to explain."),
    ],
    reference: ReferenceOption = None,
    threshold: ThresholdOption = None,
    adverse: Annotated[
        AdverseOption, typer.Option(help="Which predictions are adverse: high or low.")
    ] = AdverseOption.HIGH,
    top: Annotated[int, typer.Option(min=1, help="Largest number of reasons per row.")] = 4,
    texts: TextsOption = None,
    output: Annotated[
        str | None, typer.Option(help="Name of the output to explain, if the model has several.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="Column that identifies the rows in both files; not a feature."),
    ] = None,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain predictions above or below a reference population by exact, ranked reasons."""
    kind = output_kind(out, table_format)
    if reference is None and threshold is None:
        raise typer.BadParameter(
            "pass --reference, or --threshold to explain the refused rows of DATA"
        )
    chosen: str | int = 0 if output is None else output
    with refusals(context):
        groups, said = ({}, {}) if texts is None else read_texts(texts)
        note(f"reading {model}, {data}{f' and {reference}' if reference else ''}", quiet=quiet)
        parsed = parse_model(model)
        dropped = [*(drop_column or []), *([id_column] if id_column else [])]
        weight_column = sample_weight_column if reference is None else None
        rows = read_rows(parsed, data, target_column, dropped, weight_column)
        population = rows
        if reference is not None:
            population = read_rows(parsed, reference, target_column, dropped, sample_weight_column)
        X = _labelled(rows, id_column)
        if threshold is not None:
            is_approved = _approved(parsed, rows, chosen, threshold, adverse, data)
            X = X[~is_approved]
            population = _rows_where(rows, is_approved) if reference is None else population
        found = reason_codes(
            model,
            X,
            reference=population.X,
            adverse=adverse.value,
            top=top,
            groups=groups,
            texts=said,
            output=chosen,
            sample_weight=population.sample_weight,
            progress=not quiet,
        )
        if kind == "json" and out is not None:
            found.to_json(out)
        elif kind == "json":
            typer.echo(found.to_json())
            return
        elif put_table(found.table(), out, kind):
            return
    for line in found.summary():
        typer.echo(line)
    typer.echo()
    _print_reasons(found)
    if out is not None:
        typer.echo(f"\n{out}")


def _labelled(rows: DataFile, id_column: str | None) -> Any:
    """Return the rows to explain with the labels of a column."""
    if id_column is None or rows.X is None:
        return rows.X
    if isinstance(rows.X, ParquetSource) or rows.apart is None:
        raise InvalidInputError("--id-column needs files that fit in memory")
    return rows.X.set_axis(rows.apart[id_column].to_numpy(), axis=0)


def _approved(
    model: Model,
    rows: DataFile,
    output: str | int,
    threshold: float,
    adverse: AdverseOption,
    data: Path,
) -> Mask:
    """Return which rows are approved; some must be and some must not."""
    if isinstance(rows.X, ParquetSource):
        raise InvalidInputError("--threshold needs files that fit in memory")
    position = read_output(output, model.output_names)
    rule = Decision(model.link, position, threshold, "response", adverse.value)
    is_approved = rule.is_approved(model.margin(rows.X))
    if is_approved.all() or not is_approved.any():
        which = "refuses none" if is_approved.all() else "refuses all"
        raise InvalidInputError(
            f"the threshold {rule.threshold:g} {which} of the {len(is_approved)} rows of "
            f"{str(data)!r}: pass another one"
        )
    return is_approved


def _rows_where(rows: DataFile, is_kept: Mask) -> DataFile:
    table: Any = rows.X
    weight = rows.sample_weight
    return DataFile(table[is_kept], None if weight is None else np.asarray(weight)[is_kept])


def _print_reasons(found: ReasonCodes) -> None:
    table = found.table()
    rows = [
        [
            str(line["row"]),
            str(line["text"]),
            str(line["value"]),
            f"{line['contribution']:+.4g}",
            "close" if line["is_close"] else "",
        ]
        for line in table.head(_MOST_LINES).to_dict("records")
    ]
    print_table(["row", "reason", "value", "adds", ""], rows, left=3)
    if len(table) > _MOST_LINES:
        typer.echo(f"... and {len(table) - _MOST_LINES} more")


def read_texts(path: Path) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """Read the groups of features and what is said of each reason from a CSV file.

    The file has a line for each feature, with its name under ``feature``; where wanted the name of
    its group under ``group``, and what is said under ``high`` and ``low``. Of a group, one line is
    enough for the texts.

    Returns
    -------
    groups : dict of str to list of str
        The features of each group.
    texts : dict of str to dict of str to str
        By group or feature, the texts under ``"high"`` and ``"low"``.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, has other columns, names a feature twice, or says two things of
        one group.
    """
    groups: dict[str, list[str]] = {}
    texts: dict[str, dict[str, str]] = {}
    known: set[str] = set()
    for line in _read_lines(path):
        feature = line["feature"]
        if not feature or feature in known:
            problem = f"names {feature!r} twice" if feature else "has a line without a feature"
            raise InvalidInputError(f"{str(path)!r} {problem}; it must have one line per feature")
        known.add(feature)
        name = line.get("group") or feature
        if line.get("group"):
            groups.setdefault(name, []).append(feature)
        for direction in DIRECTIONS:
            text = line.get(direction)
            if text and texts.setdefault(name, {}).setdefault(direction, text) != text:
                raise InvalidInputError(
                    f"{str(path)!r} has two texts for {name!r} under {direction!r}, "
                    f"{texts[name][direction]!r} and {text!r}: pass one text for each group"
                )
    return groups, texts


def _read_lines(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="")
            names = reader.fieldnames or []
            lines = [{name: text or "" for name, text in line.items()} for line in reader]
    except (UnicodeError, csv.Error) as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read as CSV: {error}") from error
    if "feature" not in names or not set(names) <= set(_COLUMNS):
        raise InvalidInputError(
            f"{str(path)!r} must have the column feature, and can have the columns "
            f"{', '.join(_COLUMNS[1:])}; its columns are {', '.join(names)}"
        )
    if any("" in line for line in lines):
        raise InvalidInputError(
            f"{str(path)!r} has lines with more entries than columns: put texts with a comma in "
            "quotes"
        )
    return lines
