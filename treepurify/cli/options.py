"""Arguments and options that several commands share, and the command as it was typed."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.models.families import known_files
from treepurify.rows.parquet_source import are_many_files

__all__ = [
    "HELD_OUT_SAMPLE",
    "MANY_FILES",
    "ROWS_OF_DISTRIBUTION",
    "DataArgument",
    "DropOption",
    "EnginesOption",
    "ExamplesOption",
    "FigureOption",
    "ModelArgument",
    "OutOption",
    "PicturesOption",
    "PurifyMethod",
    "QuietOption",
    "ScaleOption",
    "SeedOption",
    "TargetOption",
    "TopOption",
    "WeightColumnOption",
    "Weights",
    "WeightsOption",
    "command_line",
    "existing_rows",
    "read_scale_options",
]


class Weights(StrEnum):
    """The distribution of the features."""

    EMPIRICAL = "empirical"
    LAPLACE = "laplace"
    UNIFORM = "uniform"
    INDEPENDENT = "independent"
    SMOOTHED = "smoothed"
    AUTO = "auto"


class PurifyMethod(StrEnum):
    """How effects are computed."""

    AUTO = "auto"
    EXACT = "exact"
    CLOSED_FORM = "closed-form"
    PROJECTION = "projection"
    COARSE = "coarse"
    MASS_MOVING = "mass-moving"


ModelArgument = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        metavar="MODEL",
        help=known_files(),
    ),
]


def existing_rows(path: Path | None) -> Path | None:
    """Return the path of rows: a file, a folder of Parquet files, or a pattern of their names.

    Raises
    ------
    BadParameter
        If there is no such file or folder.
    """
    if path is not None and not path.exists() and not are_many_files(path):
        raise typer.BadParameter(f"there is no file {str(path)!r}")
    return path


MANY_FILES = (
    'A folder of Parquet files, a pattern in quotes such as "rows/*.parquet", or a Parquet file of '
    "more than 2 GiB in memory is read batch by batch."
)
HELD_OUT_SAMPLE = (
    "From a folder or pattern of Parquet files, or a file of more than 2 GiB in memory, a sample "
    "of 100 000 rows is read."
)
ROWS_OF_DISTRIBUTION = (
    "CSV or Parquet file with the rows that represent the distribution, usually the training "
    f"data. {MANY_FILES}"
)
DataArgument = Annotated[Path, typer.Argument(callback=existing_rows, help=ROWS_OF_DISTRIBUTION)]
WeightsOption = Annotated[
    Weights, typer.Option("--weights", help="Distribution under which effects are purified.")
]
TargetOption = Annotated[str | None, typer.Option(help="The target column; not a feature.")]
DropOption = Annotated[
    list[str] | None, typer.Option(help="Another column that is not a feature; can be repeated.")
]
FigureOption = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="File for the picture, such as gap.png or gap.svg."),
]
EnginesOption = Annotated[
    str | None,
    typer.Option(
        metavar="tree,categorical",
        help="Cross-check: decompose MODEL with two engines on the rows of DATA, and compare the "
        "effects. The categorical engine needs few intervals per feature, or --order 1.",
    ),
]
WeightColumnOption = Annotated[str | None, typer.Option(help="Column with row weights.")]
OutOption = Annotated[Path | None, typer.Option(file_okay=False, help="Folder for the files.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed for drawing rows at random.")]
TopOption = Annotated[int, typer.Option(min=1, help="Number of effects to print.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
PicturesOption = Annotated[
    int, typer.Option(min=0, help="Number of main effects, and of pairs, to draw in the report.")
]
ScaleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="FEATURE=SCALE",
        help="How wide the intervals of a feature are drawn in the report: FEATURE=log (for a "
        "skewed feature), =rank, =value or =auto; can be repeated.",
    ),
]
ExamplesOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=200,
        help="Number of rows of DATA to offer as examples in the report, which then contains "
        "their values.",
    ),
]


def read_scale_options(given: list[str] | None) -> dict[str, Any]:
    """Return the scale by feature, of options such as ``income=log``."""
    # A name may hold an equals sign, a scale does not.
    pairs = [text.rpartition("=") for text in given or []]
    for text, (feature, _, _) in zip(given or [], pairs, strict=True):
        if not feature:
            raise typer.BadParameter(f"--scale takes FEATURE=SCALE, such as income=log; got {text}")
    return {feature: scale for feature, _, scale in pairs}


def command_line(context: typer.Context) -> str:
    """Return the command with the parameters that were given, for the report."""
    words = ["treepurify", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0]] * (parameter.param_type_name == "option")
            words += [str(one)] * (one is not True)
    return shlex.join(words)
