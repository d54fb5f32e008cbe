"""The commands gap and drift: mean predictions of two groups of rows, or of two files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.data import read_rows
from treepurify.cli.evidence import LossAsked, LossOption, decompose
from treepurify.cli.grouped_rows import read_grouped_rows
from treepurify.cli.held_out import PositiveOption, TargetColumns
from treepurify.cli.inspection import read_held_out
from treepurify.cli.options import (
    HELD_OUT_SAMPLE,
    DataArgument,
    DropOption,
    FigureOption,
    ModelArgument,
    QuietOption,
    SeedOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
    Weights,
    WeightsOption,
    existing_rows,
)
from treepurify.cli.tables import TableFormatOption, TableOutOption, output_kind, put_table
from treepurify.digits import in_digits
from treepurify.models.parse import parse_model
from treepurify.validation.drift import drift as measure_drift
from treepurify.validation.group_gap import group_gap

__all__ = ["drift", "gap"]


def gap(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    group_column: Annotated[
        str, typer.Option(help="The column that defines the groups; it need not be a feature.")
    ],
    from_group: Annotated[str | None, typer.Option(help="The first group.")] = None,
    to_group: Annotated[str | None, typer.Option(help="The second group.")] = None,
    cut: Annotated[
        float | None,
        typer.Option(
            help="Split a numeric column into two groups: below this value, and at or above it."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Threshold of approval, on the response scale.")
    ] = None,
    adverse: Annotated[
        str, typer.Option(help="Which side of the threshold is refused: low or high.")
    ] = "low",
    target_column: TargetOption = None,
    positive: PositiveOption = None,
    seed: SeedOption = 0,
    weights: WeightsOption = Weights.AUTO,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    figure: FigureOption = None,
    top: TopOption = 15,
    quiet: QuietOption = False,
) -> None:
    """Show which effects make the predictions of two groups of rows differ."""
    kind = output_kind(out, table_format)
    with refusals(context):
        parsed = parse_model(model)
        note(f"reading {data}", quiet=quiet)
        rows = read_grouped_rows(
            parsed,
            data,
            [group_column],
            target=target_column,
            positive=positive,
            dropped=drop_column or [],
            weight=sample_weight_column,
            in_batches="gap needs all rows in memory: pass one file; for several files, use "
            "treepurify.group_gap in Python",
        )
        d = decompose(model, rows.X, rows.weight, weights, quiet=quiet)
        found = group_gap(
            d,
            rows.X,
            rows.groups[group_column],
            # Else the target is named only so that it is no feature.
            rows.y if threshold is not None else None,
            from_group=from_group,
            to_group=to_group,
            cut=cut,
            threshold=threshold,
            adverse=adverse,  # type: ignore[arg-type] # group_gap refuses what is neither
            sample_weight=rows.weight,
            seed=seed,
            progress=not quiet,
        )
        if figure is not None:
            _draw(found, figure, top)
        if put_table(found.to_frame(), out, kind):
            return
    _print_result(found, top, [path for path in (out, figure) if path is not None])


def drift(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    before: DataArgument,
    after: Annotated[
        Path,
        typer.Argument(
            callback=existing_rows,
            help=f"CSV or Parquet file with the later rows. {HELD_OUT_SAMPLE}",
        ),
    ],
    target_column: TargetOption = None,
    positive: PositiveOption = None,
    loss: LossAsked = LossOption.AUTO,
    seed: SeedOption = 0,
    weights: WeightsOption = Weights.AUTO,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    figure: FigureOption = None,
    top: TopOption = 15,
    quiet: QuietOption = False,
) -> None:
    """Show which effects moved the predictions from one data set to a later one."""
    kind = output_kind(out, table_format)
    with refusals(context):
        parsed = parse_model(model)
        note(f"reading {before} and {after}", quiet=quiet)
        rows = read_rows(parsed, before, target_column, drop_column, sample_weight_column)
        d = decompose(model, rows.X, rows.sample_weight, weights, quiet=quiet)
        names = before.name, after.name
        options: Any = {"names": names, "loss": loss.value, "seed": seed, "progress": not quiet}
        if target_column is None:
            later = read_rows(parsed, after, None, drop_column, sample_weight_column)
            sides = ((rows.X, None, rows.sample_weight), (later.X, None, later.sample_weight))
        else:
            columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
            read = [read_held_out(parsed, path, columns, quiet=quiet) for path in (before, after)]
            sides = tuple((one.X, one.y, one.weights) for one in read)  # type: ignore[assignment]
        (X, y, weight), (X_after, y_after, weight_after) = sides
        found = measure_drift(
            d, X, X_after, y, y_after, weight_before=weight, weight_after=weight_after, **options
        )
        if figure is not None:
            _draw(found, figure, top)
        if put_table(found.to_frame(), out, kind):
            return
    _print_result(found, top, [path for path in (out, figure) if path is not None])


def _draw(found: Any, figure: Path, top: int) -> None:
    from treepurify.plots.mean_differences import mean_difference

    drawn: Any = mean_difference(found, top=top).figure
    drawn.savefig(figure, dpi=150)


def _print_result(found: Any, top: int, files: list[Path]) -> None:
    for line in found.summary():
        typer.echo(line)
    typer.echo()
    frame = found.to_frame().head(top)
    numbers = ["mean_first", "mean_second", "difference", "low", "high"]
    numbers += ["psi"] * ("psi" in frame)
    words = [name for name in ("term", "output") if name in frame]
    rows = [
        [*(str(row[name]) for name in words), *(in_digits(row[name]) for name in numbers)]
        for row in frame.to_dict("records")
    ]
    first, second = found.differences.names
    shown = {"term": "effect", "mean_first": first, "mean_second": second, "low": "from"}
    shown |= {"high": "to"}
    print_table([shown.get(name, name) for name in (*words, *numbers)], rows, left=len(words))
    for path in files:
        typer.echo(str(path))
