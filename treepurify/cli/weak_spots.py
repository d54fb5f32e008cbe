"""The command weak-spots: where a model loses more than elsewhere on held-out rows."""

from typing import Any

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.evidence import (
    HeldOutArgument,
    LevelOption,
    LossAsked,
    LossOption,
    TargetNeeded,
    decompose,
    read_loss_options,
)
from treepurify.cli.held_out import PositiveOption, TargetColumns
from treepurify.cli.inspection import read_held_out
from treepurify.cli.options import (
    DropOption,
    FigureOption,
    ModelArgument,
    QuietOption,
    SeedOption,
    TopOption,
    WeightColumnOption,
    Weights,
)
from treepurify.cli.tables import TableFormatOption, TableOutOption, output_kind, put_table
from treepurify.digits import in_digits
from treepurify.models.parse import parse_model
from treepurify.validation.weak_spots import WeakSpots
from treepurify.validation.weak_spots import weak_spots as find_weak_spots

__all__ = ["weak_spots"]


def weak_spots(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: HeldOutArgument,
    target_column: TargetNeeded,
    order: int = typer.Option(2, min=1, max=2, help="Largest number of features in a slice."),
    spots: int = typer.Option(10, min=1, help="Largest number of slices to test."),
    min_share: float = typer.Option(0.02, help="Smallest share of the rows in a slice."),
    loss: LossAsked = LossOption.AUTO,
    level: LevelOption = None,
    positive: PositiveOption = None,
    seed: SeedOption = 0,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    figure: FigureOption = None,
    top: TopOption = 10,
    quiet: QuietOption = False,
) -> None:
    """Find groups of held-out rows on which the loss of the model is higher than on all rows."""
    kind = output_kind(out, table_format)
    with refusals(context):
        columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
        note(f"reading {data}", quiet=quiet)
        observed = read_held_out(parse_model(model), data, columns, quiet=quiet)
        # The cells are those of the model, whatever the distribution.
        d = decompose(model, observed.X, observed.weights, Weights.EMPIRICAL, quiet=quiet)
        found = find_weak_spots(
            d,
            observed.X,
            observed.y,
            order=order,
            n_spots=spots,
            min_share=min_share,
            loss=read_loss_options(loss, level),
            sample_weight=observed.weights,
            seed=seed,
            progress=not quiet,
        )
        if figure is not None:
            from treepurify.plots.weak_spots import weak_spots as draw_weak_spots

            drawn: Any = draw_weak_spots(found, top=top).figure
            drawn.savefig(figure, dpi=150)
        if put_table(found.to_frame(), out, kind):
            return
    _print_spots(found, top)
    for line in (observed.words, *(str(path) for path in (out, figure) if path is not None)):
        if line:
            typer.echo(line)


def _print_spots(found: WeakSpots, top: int) -> None:
    for line in found.summary(0):
        typer.echo(line)
    typer.echo()
    rows = [
        [
            row["slice"],
            "*" if row["is_confirmed"] else "",
            f"{row['share']:.1%}",
            *(in_digits(row[name]) for name in ("loss", "excess", "low", "high")),
        ]
        for row in found.to_frame().head(top).to_dict("records")
    ]
    print_table(["slice", "confirmed", "rows", "loss", "excess", "from", "to"], rows)
