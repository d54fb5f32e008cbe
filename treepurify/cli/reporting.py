"""The command that writes reports: of effects, or of the validation of a model."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.cli.console import note, refusals
from treepurify.cli.data import is_saved, table_reader
from treepurify.cli.grouped_rows import GroupedRows, read_grouped_rows
from treepurify.cli.held_out import PositiveOption
from treepurify.cli.options import (
    DropOption,
    PicturesOption,
    QuietOption,
    ScaleOption,
    SeedOption,
    TargetOption,
    WeightColumnOption,
    command_line,
    existing_rows,
    read_scale_options,
)
from treepurify.errors import InvalidInputError
from treepurify.models.families import known_files
from treepurify.report.about import read_about
from treepurify.report.html import write_html
from treepurify.report.numbers import number_paths, write_numbers
from treepurify.report.validation_page import write_validation
from treepurify.storage import load

__all__ = ["report"]


class Template(StrEnum):
    """What a report is for."""

    EFFECTS = "effects"
    VALIDATION = "validation"


# The options of one template, which the other does not take.
_OF_TEMPLATE = {
    Template.EFFECTS: {"against"},
    Template.VALIDATION: {
        "data", "about", "decomposition", "refit", "group_column", "later", "target_column",
        "positive", "drop_column", "sample_weight_column", "examples", "seed",
    },
}  # fmt: skip


ReportedArgument = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        help="A .tpz file that purify wrote; for a validation, preferably the model itself: "
        f"{known_files()}.",
    ),
]
AgainstOption = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="A .tpz file of the same model under another distribution, which readers can switch "
        "to; can be repeated.",
    ),
]
RowsOption = Annotated[
    Path | None,
    typer.Option(
        callback=existing_rows,
        help="Validation: CSV or Parquet file with rows, preferably ones that the model was not "
        "trained on.",
    ),
]
AboutOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Validation: YAML file with purpose, data, limits, directions, groups and threshold.",
    ),
]
DecompositionOption = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Validation: a .tpz file that purify wrote for MODEL."
    ),
]
RefitOption = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Validation: file of a model trained again like MODEL; use the option at least twice.",
    ),
]
LaterOption = Annotated[
    Path | None,
    typer.Option(
        callback=existing_rows,
        help="Validation: file with the rows of a later period, in the same columns.",
    ),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Validation: a column that defines two groups; it need not be a feature. Can be "
        "repeated."
    ),
]


def report(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ReportedArgument,
    out: Annotated[Path, typer.Option(dir_okay=False, help="The HTML file to write.")] = Path(
        "report.html"
    ),
    template: Annotated[
        Template,
        typer.Option(help="Kind of report: the effects, or the validation of a model."),
    ] = Template.EFFECTS,
    against: AgainstOption = None,
    data: RowsOption = None,
    about: AboutOption = None,
    decomposition: DecompositionOption = None,
    refit: RefitOption = None,
    group_column: GroupOption = None,
    later: LaterOption = None,
    target_column: TargetOption = None,
    positive: PositiveOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    examples: Annotated[
        int,
        typer.Option(min=0, help="Validation report: number of example rows listed with reasons."),
    ] = 6,
    seed: SeedOption = 0,
    numbers: Annotated[
        bool,
        typer.Option(
            help="Write the numbers, too: one JSON file and two CSV files next to the report."
        ),
    ] = False,
    pictures: PicturesOption = 6,
    scale: ScaleOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write the report of a saved decomposition, or of the validation of a model."""
    _check_options(context, template)
    page: dict[str, Any] = {
        "top": pictures,
        "command": command_line(context),
        "scale": read_scale_options(scale),
        "progress": not quiet,
    }
    with refusals(context):
        note(f"writing {out}", quiet=quiet)
        if template is Template.EFFECTS:
            d, others = load(model), [load(path) for path in against or []]
            files = [model, *(against or [])]
            write_html(d, out, files=files, measures=others, **page)
            written = write_numbers(d, out) if numbers else []
        else:
            if data is None:
                raise InvalidInputError("a validation needs rows: pass --data")
            groups = [*(group_column or []), *(one.name for one in read_about(about).groups)]
            read = partial(
                read_grouped_rows,
                table_reader(model),
                groups=groups,
                target=target_column,
                positive=positive,
                dropped=drop_column or [],
                weight=sample_weight_column,
                in_batches="a validation reads rows in memory: pass one file, or use "
                "treepurify.report.write_validation in Python for several",
            )
            rows, after = read(data), GroupedRows() if later is None else read(later)
            given = [model, data, about, later, decomposition, *(refit or [])]
            write_validation(
                load(model) if is_saved(model) else model,
                rows.X,
                out,
                y=rows.y,
                about=about,
                decomposition=None if decomposition is None else load(decomposition),
                refits=refit,
                groups=rows.groups,
                X_after=after.X,
                y_after=after.y,
                n_examples=examples,
                sample_weight=rows.weight,
                weight_after=after.weight,
                numbers=numbers,
                files=[path for path in given if path is not None],
                seed=seed,
                **page,
            )
            written = number_paths(out) if numbers else []
    for path in (out, *written):
        typer.echo(str(path))


def _check_options(context: typer.Context, template: Template) -> None:
    """Refuse options that the template would ignore."""
    other = Template.EFFECTS if template is Template.VALIDATION else Template.VALIDATION
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in _OF_TEMPLATE[other] and source and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} applies to --template {other.value}")
