"""The commands h-statistics and groups: how strongly features interact, and in which groups."""

from enum import StrEnum
from typing import Annotated

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.data import read_rows
from treepurify.cli.options import (
    DataArgument,
    DropOption,
    ModelArgument,
    QuietOption,
    SeedOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
)
from treepurify.cli.tables import TableFormatOption, TableOutOption, output_kind, put_table
from treepurify.grouping.partition import shapley_sets
from treepurify.interactions.h_statistics import h_statistics as compute_h_statistics
from treepurify.models.parse import parse_model

__all__ = ["groups", "h_statistics"]


class IndependentWeights(StrEnum):
    """Distributions of independent features."""

    INDEPENDENT = "independent"
    UNIFORM = "uniform"


def h_statistics(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    size: Annotated[
        int,
        typer.Option(
            min=1, help="Features per line: 1 for each feature with all others, 2 for pairs."
        ),
    ] = 2,
    weights: Annotated[
        IndependentWeights,
        typer.Option(help="Distribution for purified_share, under which features are independent."),
    ] = IndependentWeights.INDEPENDENT,
    seed: SeedOption = 0,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    top: TopOption = 20,
    quiet: QuietOption = False,
) -> None:
    """Show how much of a model is interaction: Friedman's H-statistics, exact for trees."""
    kind = output_kind(out, table_format)
    with refusals(context):
        note(f"reading {model}", quiet=quiet)
        rows = read_rows(parse_model(model), data, target_column, drop_column, sample_weight_column)
        found = compute_h_statistics(
            model,
            rows.X,
            order=max(size, 2),
            weights=weights.value,
            sample_weight=rows.sample_weight,
            seed=seed,
            progress=not quiet,
        )
        tables = {1: found.features, 2: found.pairs}
        frame = tables[size]() if size in tables else found.sets(size)
        if put_table(frame, out, kind):
            return
    typer.echo(found)
    typer.echo()
    header = [str(name) for name in frame]
    lines = [[_cell(cell) for cell in line] for line in frame.head(top).itertuples(index=False)]
    print_table(header, lines, left=size)
    if out is not None:
        typer.echo(out)


def groups(
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Largest share of the variance that counts as no interaction; 0.0125 by default.",
        ),
    ] = None,
    seed: SeedOption = 0,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find groups of features between which the model is additive: Shapley Sets."""
    with refusals(context):
        note(f"reading {model}", quiet=quiet)
        rows = read_rows(parse_model(model), data, target_column, drop_column, None)
        found = shapley_sets(
            model,
            rows.X,
            tolerance="auto" if tolerance is None else tolerance,
            seed=seed,
            progress=not quiet,
        )
    for name in found.group_names:
        typer.echo(name)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
