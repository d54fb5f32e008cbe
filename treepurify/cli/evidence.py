"""The commands that look at held-out rows: worth, simplify."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.data import read_rows
from treepurify.cli.held_out import PositiveOption, TargetColumns
from treepurify.cli.inspection import read_held_out
from treepurify.cli.options import (
    HELD_OUT_SAMPLE,
    DataArgument,
    DropOption,
    ModelArgument,
    OutOption,
    PicturesOption,
    QuietOption,
    ScaleOption,
    SeedOption,
    TopOption,
    WeightColumnOption,
    Weights,
    WeightsOption,
    command_line,
    existing_rows,
    read_scale_options,
)
from treepurify.cli.results import write_results
from treepurify.cli.tables import (
    FolderFormatOption,
    TableFormat,
    TableFormatOption,
    TableOutOption,
    output_kind,
    put_table,
)
from treepurify.decomposition import Absorb, Decomposition
from treepurify.digits import in_digits
from treepurify.engines.tree.purify import purify as purify_model
from treepurify.errors import InvalidInputError
from treepurify.evidence.effect_worth_table import EffectWorth
from treepurify.evidence.held_out import HeldOutSample
from treepurify.evidence.simplification import simplify as simplify_decomposition
from treepurify.evidence.worth import effect_worth
from treepurify.export.tables import write_table
from treepurify.models.parse import parse_model

__all__ = [
    "HeldOutArgument",
    "LevelOption",
    "LossAsked",
    "LossOption",
    "TargetNeeded",
    "decompose",
    "read_loss_options",
    "simplify",
    "worth",
]


class LossOption(StrEnum):
    """The losses."""

    AUTO = "auto"
    SQUARED_ERROR = "squared_error"
    LOG_LOSS = "log_loss"
    POISSON = "poisson"
    QUANTILE = "quantile"
    AUC = "auc"


class AbsorbOption(StrEnum):
    """Which effects take over parts of those that are left out."""

    AUTO = "auto"
    NONE = "none"
    MAIN = "main"
    ALL = "all"


HeldOutArgument = Annotated[
    Path,
    typer.Argument(
        callback=existing_rows,
        help="CSV or Parquet file with rows the model was not trained on, target included. "
        f"{HELD_OUT_SAMPLE}",
    ),
]
TargetNeeded = Annotated[str, typer.Option("--target-column", help="The target column.")]
LossAsked = Annotated[
    LossOption,
    typer.Option(
        "--loss",
        help="The loss; auto follows the model, auc is one minus the area under the ROC curve.",
    ),
]
LevelOption = Annotated[
    float | None,
    typer.Option("--level", help="Level of the quantile for --loss quantile; 0.5 by default."),
]
AbsorbAsked = Annotated[
    AbsorbOption,
    typer.Option("--absorb", help="Which of the remaining effects are adjusted to compensate."),
]


def read_loss_options(loss: LossOption, level: float | None) -> Any:
    """Return the loss as functions take it."""
    if loss is LossOption.QUANTILE:
        return ("quantile", 0.5 if level is None else level)
    if level is not None:
        raise InvalidInputError(f"--level belongs to --loss quantile, not {loss.value}")
    return loss.value


def _absorb(absorb: AbsorbOption) -> Any:
    chosen: dict[AbsorbOption, Absorb | str] = {
        AbsorbOption.NONE: False,
        AbsorbOption.ALL: True,
        AbsorbOption.MAIN: "main",
        AbsorbOption.AUTO: "auto",
    }
    return chosen[absorb]


def worth(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    held_out: HeldOutArgument,
    target_column: TargetNeeded,
    loss: LossAsked = LossOption.AUTO,
    level: LevelOption = None,
    positive: PositiveOption = None,
    absorb: AbsorbAsked = AbsorbOption.AUTO,
    seed: SeedOption = 0,
    weights: WeightsOption = Weights.AUTO,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    top: TopOption = 20,
    quiet: QuietOption = False,
) -> None:
    """Show what each effect is worth: how much the loss on held-out rows rises without it."""
    kind = output_kind(out, table_format)
    with refusals(context):
        columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
        d, observed = _read(model, data, held_out, columns, weights, quiet=quiet)
        result = effect_worth(
            d,
            observed.X,
            observed.y,
            loss=read_loss_options(loss, level),
            absorb=_absorb(absorb),
            sample_weight=observed.weights,
            seed=seed,
            progress=not quiet,
        )
        if observed.words:
            result = replace(result, notes=(observed.words, *result.notes))
        if put_table(result.to_frame(), out, kind):
            return
    typer.echo(result.summary(0)[0])
    typer.echo()
    _print_worth(result, top)
    for line in result.notes:
        typer.echo(line)
    if out is not None:
        typer.echo(str(out))


def simplify(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    held_out: HeldOutArgument,
    target_column: TargetNeeded,
    tolerance: Annotated[
        float,
        typer.Option(help="Largest accepted rise of the held-out loss, as a share of the loss."),
    ] = 0.01,
    loss: LossAsked = LossOption.AUTO,
    level: LevelOption = None,
    positive: PositiveOption = None,
    absorb: AbsorbAsked = AbsorbOption.AUTO,
    hierarchical: Annotated[
        bool, typer.Option(help="Keep a pair only together with both of its main effects.")
    ] = True,
    weights: WeightsOption = Weights.AUTO,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: OutOption = None,
    table_format: FolderFormatOption = TableFormat.CSV,
    pictures: PicturesOption = 6,
    scale: ScaleOption = None,
    quiet: QuietOption = False,
) -> None:
    """Leave out as many effects as the held-out loss allows, and write what remains."""
    folder = out or Path(f"{model.stem}-simplified")
    with refusals(context):
        columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
        d, observed = _read(model, data, held_out, columns, weights, quiet=quiet)
        simple = simplify_decomposition(
            d,
            observed.X,
            observed.y,
            loss=read_loss_options(loss, level),
            tolerance=tolerance,
            hierarchical=hierarchical,
            absorb=_absorb(absorb),
            sample_weight=observed.weights,
            progress=not quiet,
        )
        simple = replace(simple, sample=observed.words)
        note(f"writing {folder}", quiet=quiet)
        files, _ = write_results(
            simple.decomposition,
            folder,
            command=command_line(context),
            top=pictures,
            sources=[model, data, held_out],
            effects_format=table_format.value,
            progress=not quiet,
            scale=read_scale_options(scale),
        )
        path = folder / f"path.{table_format.value}"
        write_table(simple.to_frame(), path, table_format.value)
    for line in simple.summary():
        typer.echo(line)
    typer.echo()
    rows = [
        [
            f"{row['n_effects']}",
            f"{row['loss']:.6g}",
            f"{row['rise']:+.2%}",
            f"{row['rise_error']:.2%}".replace("nan%", ""),
            "*" if row["is_chosen"] else "",
            str(row["left_out"]),
        ]
        for row in simple.to_frame().to_dict("records")
    ]
    print_table(["effects", "loss", "rise", "std. error", "chosen", "left out"], rows, left=0)
    typer.echo()
    for file in [*files, path]:
        typer.echo(str(file))


def _read(
    model: Path,
    data: Path,
    held_out: Path,
    columns: TargetColumns,
    weights: Weights,
    *,
    quiet: bool,
) -> tuple[Decomposition, HeldOutSample]:
    """Return the effects of a model, and rows with observations and weights."""
    parsed = parse_model(model)
    note(f"reading {data} and {held_out}", quiet=quiet)
    rows = read_rows(parsed, data, columns.target, columns.dropped, columns.weight)
    observed = read_held_out(parsed, held_out, columns, quiet=quiet)
    d = decompose(model, rows.X, rows.sample_weight, weights, quiet=quiet)
    return d, observed


def decompose(
    model: Path, X: Any, sample_weight: Any, weights: Weights, *, quiet: bool
) -> Decomposition:
    """Return the effects of a model, for rows that may have missing values where `X` has none."""
    return purify_model(
        model,
        X,
        weights=weights.value,
        sample_weight=None if weights is Weights.UNIFORM else sample_weight,
        missing_cells="always",
        progress=not quiet,
    )


def _print_worth(result: EffectWorth, top: int) -> None:
    first, last, between = result.ends(top)
    more = [name for name in ("worth_absorbed", "shapley") if name in first]
    names = ["effect", "worth", "from", "to", "variance"]
    names += [{"worth_absorbed": "absorbed", "shapley": "Shapley"}[name] for name in more]
    numbers = ["worth", "low", "high"]
    largest, lowest = (
        [
            [
                row["term"],
                *(in_digits(row[name]) for name in numbers),
                f"{row['variance_share']:.2%}",
                *(in_digits(row[name]) for name in more),
            ]
            for row in part.to_dict("records")
        ]
        for part in (first, last)
    )
    print_table(names, [*largest, *[[f"... {between}"]] * bool(between), *lowest])
