"""The command that sets two decompositions side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.cross_check import (
    cross_check,
    read_engines,
    refuse_failed,
    what_rows_determine,
)
from treepurify.cli.data import DataFile, is_saved, read_rows, table_reader
from treepurify.cli.options import (
    MANY_FILES,
    DropOption,
    EnginesOption,
    PicturesOption,
    QuietOption,
    ScaleOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
    Weights,
    command_line,
    existing_rows,
    read_scale_options,
)
from treepurify.cli.tables import TableFormatOption, TableOutOption, output_kind, put_table
from treepurify.comparing.compare import compare as compare_decompositions
from treepurify.comparing.comparison import Comparison
from treepurify.decomposition import Decomposition
from treepurify.engines.tree.purify import purify as purify_model
from treepurify.errors import InvalidInputError
from treepurify.models.families import known_files
from treepurify.models.parse import parse_model
from treepurify.plots.labels import shorten_all
from treepurify.report.comparison_page import write_comparison
from treepurify.storage import load

__all__ = ["compare"]

# Of the name of a side at the head of a column.
_MOST_LETTERS = 20

FirstArgument = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        metavar="MODEL",
        help=f"{known_files()}; or a .tpz file that purify wrote.",
    ),
]
RowsArgument = Annotated[
    Path | None,
    typer.Argument(
        callback=existing_rows,
        help="CSV or Parquet file with the rows that represent the distribution and on which "
        f"effects are compared. {MANY_FILES} To compare two .tpz files with the same intervals, "
        "name the second file here instead.",
    ),
]


@dataclass(frozen=True)
class _Columns:
    """The columns of data files that are no features."""

    target: str | None
    dropped: list[str] | None
    weight: str | None


@dataclass(frozen=True)
class _Side:
    """What is decomposed: a model under rows and a distribution, or what is decomposed already."""

    model: Path
    data: Path | None
    weights: Weights
    order: int
    has_other_data: bool

    def rows(self, columns: _Columns) -> DataFile:
        """Return the rows; none where there is no file of them."""
        if self.data is None:
            return DataFile()
        return read_rows(
            table_reader(self.model), self.data, columns.target, columns.dropped, columns.weight
        )

    def decompose(self, rows: DataFile, *, progress: bool) -> Decomposition:
        """Return the decomposition."""
        if is_saved(self.model):
            return load(self.model)
        # The file is passed on, not what was parsed from it, so that its library is asked, too.
        return purify_model(
            self.model,
            rows.X,
            weights=self.weights.value,
            order=self.order,
            sample_weight=None if self.weights is Weights.UNIFORM else rows.sample_weight,
            # One file may have missing values where the other has none.
            missing_cells="always" if self.has_other_data else "auto",
            progress=progress,
        )


def compare(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: FirstArgument,
    data: RowsArgument = None,
    weights: Annotated[
        list[Weights] | None,
        typer.Option(help="A distribution; pass the option twice to compare two."),
    ] = None,
    other_model: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A second model of the same columns, or a .tpz file."
        ),
    ] = None,
    other_data: Annotated[
        Path | None,
        typer.Option(
            callback=existing_rows,
            help="Rows of another period or place, which represent the distribution of the second "
            "decomposition. Both are compared on the rows of DATA.",
        ),
    ] = None,
    engines: EnginesOption = None,
    order: Annotated[int, typer.Option(min=1, help="Largest number of features in an effect.")] = 2,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: TableOutOption = None,
    table_format: TableFormatOption = None,
    report: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="HTML file for a report with pictures of both."),
    ] = None,
    pictures: PicturesOption = 6,
    scale: ScaleOption = None,
    top: TopOption = 15,
    quiet: QuietOption = False,
) -> None:
    """Compare two models, or one model under two data sets, distributions or engines."""
    if data is not None and is_saved(data) and other_model is None:
        data, other_model = None, data
    kind = output_kind(out, table_format)
    is_one = other_model is not None or engines is not None or other_data is not None
    # The categorical engine takes the rows as they are.
    usual = Weights.AUTO if engines is None else Weights.EMPIRICAL
    measures = _measures(weights, usual, is_one=is_one)
    _check_sides(model, data, other_model, other_data, weights)
    if engines is not None and (
        other_model is not None or other_data is not None or measures[0] is not usual
    ):
        raise typer.BadParameter(
            "--engines compares two engines on one model and the rows of DATA: leave out "
            "--other-model, --other-data and --weights"
        )
    wanted = [] if engines is None else read_engines(engines)
    columns = _Columns(target_column, drop_column, sample_weight_column)
    has_other = other_data is not None
    first = _Side(model, data, measures[0], order, has_other)
    second = _Side(other_model or model, other_data or data, measures[1], order, has_other)
    with refusals(context):
        rows = first.rows(columns)
        if wanted:
            names = [f"the {engine} engine" for engine in wanted]
            parsed = parse_model(model)
            a, b = cross_check(model, parsed, rows, wanted, order=order, progress=not quiet)
            refuse_failed(names, (a, b))
        else:
            names = _names(first, second, measures)
            other_rows = rows if not has_other else second.rows(columns)
            a = first.decompose(rows, progress=not quiet)
            b = second.decompose(other_rows, progress=not quiet)
        compared = _compared(a, b, rows, names, quiet=quiet)
        if report is not None:
            note(f"writing {report}", quiet=quiet)
            files = (first.model, first.data, second.model, second.data)
            write_comparison(
                dict(zip(names, (a, b), strict=True)),
                report,
                X=rows.X,
                sample_weight=rows.sample_weight,
                top=pictures,
                command=command_line(context),
                files=list(dict.fromkeys(file for file in files if file and file.is_file())),
                progress=not quiet,
                scale=read_scale_options(scale),
            )
        if put_table(compared.terms, out, kind):
            return
    more = what_rows_determine((a, b), compared) if wanted else []
    _print_comparison(compared, more, top, [path for path in (out, report) if path is not None])


def _check_sides(
    model: Path,
    data: Path | None,
    other_model: Path | None,
    other_data: Path | None,
    weights: list[Weights] | None,
) -> None:
    """Refuse options that mean nothing for a decomposition that is made already."""
    saved = is_saved(model), is_saved(other_model or model)
    if data is None and not all(saved):
        raise typer.BadParameter("purifying a model needs rows: name a DATA file")
    if saved[0] and other_model is None:
        raise typer.BadParameter("a .tpz file is compared with a second one: pass --other-model")
    if any(saved) and other_data is not None:
        raise typer.BadParameter("--other-data applies to models; a .tpz file is already purified")
    if all(saved) and weights:
        raise typer.BadParameter("--weights applies to models; .tpz files are already purified")


def _names(first: _Side, second: _Side, measures: tuple[Weights, Weights]) -> list[str]:
    """Return what the sides are called: by the files, or by the distributions."""
    both = (first, second)
    models = [side.model.name for side in both]
    files = ["" if side.data is None else side.data.name for side in both]
    if models[0] != models[1] and first.data != second.data:
        return [f"{model}, {file}" for model, file in zip(models, files, strict=True)]
    for paths, short in (
        ([side.model for side in both], models),
        ([side.data for side in both], files),
    ):
        if paths[0] != paths[1]:
            return short if short[0] != short[1] else [str(path) for path in paths]
    names = [str(measure) for measure in measures]
    return names if names[0] != names[1] else ["the first", "the second"]


def _measures(
    weights: list[Weights] | None, usual: Weights, *, is_one: bool
) -> tuple[Weights, Weights]:
    """Return the distribution of each side; one for both where something else is compared."""
    chosen = weights or [usual, *([] if is_one else [Weights.UNIFORM])]
    if len(chosen) != (1 if is_one else 2):
        raise typer.BadParameter(
            f"expected --weights {'once' if is_one else 'twice'}, got {len(chosen)}"
        )
    return chosen[0], chosen[-1]


def _compared(
    a: Decomposition, b: Decomposition, rows: DataFile, names: list[str], *, quiet: bool
) -> Comparison:
    try:
        return compare_decompositions(
            a, b, rows.X, sample_weight=rows.sample_weight, names=names, progress=not quiet
        )
    except InvalidInputError as error:
        if rows.X is not None:
            raise
        raise InvalidInputError(f"{error}. On the command line, name a DATA file") from error


def _print_comparison(compared: Comparison, more: list[str], top: int, files: list[Path]) -> None:
    for line in [*compared.verdict(), *more]:
        typer.echo(line)
    typer.echo()
    several = compared.first.n_outputs > 1
    _print_terms(compared.terms.head(top).to_dict("records"), compared.names, several=several)
    for path in files:
        typer.echo(str(path))


def _print_terms(records: list[dict[Any, Any]], sides: tuple[str, str], *, several: bool) -> None:
    names = ["effect", *(["output"] if several else []), "difference", "relative difference"]
    names += ["correlation", "sign differs"]
    names += [f"size ({name})" for name in shorten_all(sides, _MOST_LETTERS)]
    rows = [
        [
            record["term"],
            *([record["output"]] if several else []),
            f"{record['distance']:.4g}",
            f"{record['relative_distance']:.1%}",
            f"{record['correlation']:.3f}".replace("nan", ""),
            f"{record['sign_changes']:.1%}",
            f"{record['deviation_first']:.4g}",
            f"{record['deviation_second']:.4g}",
        ]
        for record in records
    ]
    print_table(names, rows, left=2 if several else 1)
