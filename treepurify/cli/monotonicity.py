"""The command monotonicity: whether the margin rises or falls with features."""

from typing import Annotated, Any

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.data import read_rows
from treepurify.cli.options import (
    DataArgument,
    DropOption,
    ModelArgument,
    QuietOption,
    TargetOption,
    WeightColumnOption,
)
from treepurify.cli.tables import (
    TableFormatOption,
    TableOutOption,
    output_kind,
    put_table,
)
from treepurify.models.parse import parse_model
from treepurify.validation.monotonicity import check_monotonicity
from treepurify.validation.monotonicity_result import Monotonicity

__all__ = ["monotonicity"]

_VIOLATED = 3


def monotonicity(
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    increasing: Annotated[
        list[str] | None,
        typer.Option(help="Feature along which the margin must not fall; can be repeated."),
    ] = None,
    decreasing: Annotated[
        list[str] | None,
        typer.Option(help="Feature along which the margin must not rise; can be repeated."),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE=A,B,C",
            help="Categories from the smallest margin to the largest; can be repeated.",
        ),
    ] = None,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    quiet: QuietOption = False,
) -> None:
    """Prove that the margin rises or falls with features, or show where it does not.

    Without --increasing, --decreasing and --order, the constraints in the model file are checked.
    """
    kind = output_kind(out, table_format)
    directions = _read_directions(increasing, decreasing, order)
    with refusals(context):
        note(f"reading {model}", quiet=quiet)
        rows = read_rows(parse_model(model), data, target_column, drop_column, sample_weight_column)
        found = check_monotonicity(
            model,
            rows.X,
            directions,
            sample_weight=rows.sample_weight,
            progress=not quiet,
        )
        is_printed = put_table(found.to_frame(), out, kind)
    if not is_printed:
        _print(found)
        if out is not None:
            typer.echo(str(out))
    if any(check.verdict.startswith("violated") for check in found.checks):
        raise typer.Exit(_VIOLATED)


def _read_directions(
    increasing: list[str] | None, decreasing: list[str] | None, order: list[str] | None
) -> dict[str | int, Any] | None:
    """Return the directions of the options; None where there are none."""
    named: list[tuple[str, Any]] = [(name, "increasing") for name in increasing or []]
    named += [(name, "decreasing") for name in decreasing or []]
    for text in order or []:
        feature, _, categories = text.partition("=")
        if not categories:
            raise typer.BadParameter(f"--order takes FEATURE=A,B,C, such as size=s,m,l; got {text}")
        named.append((feature, [category.strip() for category in categories.split(",")]))
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        raise typer.BadParameter("--increasing, --decreasing and --order name a feature twice")
    return dict(named) or None


def _print(found: Monotonicity) -> None:
    several = len(found.output_names) > 1
    print_table(
        ["feature", *["output"] * several, "direction", "verdict", "worst step", "bound", "rows"],
        [
            [
                check.feature,
                *[check.output] * several,
                check.direction,
                check.verdict,
                f"{check.worst.size:.3g}" if check.worst else "",
                f"{check.bound:.3g}",
                f"{100 * check.row_share:.3g}%",
            ]
            for check in found.checks
        ],
        left=3 + several,
    )
    typer.echo()
    for line in found.summary():
        typer.echo(line)
