"""The commands that look at a model from several sides: compare, audit, report."""

from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.auditing.audit import audit as audit_model
from treepurify.cli.console import note, print_table, refusals
from treepurify.cli.cross_check import (
    cross_check,
    read_engines,
    refuse_failed,
    what_rows_determine,
)
from treepurify.cli.data import DataFile, read_data
from treepurify.cli.held_out import PositiveOption, TargetColumns
from treepurify.cli.options import (
    DataArgument,
    DropOption,
    EnginesOption,
    ExamplesOption,
    ModelArgument,
    OutOption,
    PicturesOption,
    QuietOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
    Weights,
    command_line,
)
from treepurify.comparing.compare import compare as compare_decompositions
from treepurify.engines.tree.purify import purify as purify_model
from treepurify.errors import InvalidInputError
from treepurify.models.parse import Model, parse_model
from treepurify.report.html import write_html
from treepurify.storage import load, write_atomically

__all__ = ["audit", "compare", "read_held_out", "read_rows", "report"]


def compare(
    model: ModelArgument,
    data: DataArgument,
    weights: Annotated[
        list[Weights] | None,
        typer.Option(help="A distribution; give two to compare them. May be repeated."),
    ] = None,
    other_model: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A second model of the same columns."),
    ] = None,
    engines: EnginesOption = None,
    order: Annotated[int, typer.Option(min=1, help="Largest number of features of an effect.")] = 2,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="CSV file for the table of effects.")
    ] = None,
    top: TopOption = 15,
    quiet: QuietOption = False,
) -> None:
    """Compare the effects of a model under two distributions, of two models, or of two engines."""
    measures = _measures(weights, is_one=other_model is not None or engines is not None)
    if engines is not None and (other_model is not None or measures[0] is not Weights.EMPIRICAL):
        raise typer.BadParameter(
            "--engines compares two engines on one model under the rows of DATA: leave out "
            "--other-model and --weights"
        )
    wanted = read_engines(engines) if engines is not None else []
    with refusals():
        parsed = parse_model(model)
        rows = read_rows(parsed, data, target_column, drop_column, sample_weight_column)
        if wanted:
            names = [f"the {engine} engine" for engine in wanted]
            a, b = cross_check(model, parsed, rows, wanted, order=order, progress=not quiet)
            refuse_failed(names, (a, b))
        else:
            names = [str(measure) for measure in measures]
            if other_model is not None:
                names = [model.name, other_model.name]
            # The file is passed on, not what was parsed from it, so that its library is asked, too.
            a, b = (
                purify_model(
                    each_model,
                    rows.X,
                    weights=measure.value,
                    order=order,
                    sample_weight=None if measure is Weights.UNIFORM else rows.sample_weight,
                    progress=not quiet,
                )
                for each_model, measure in zip((model, other_model or model), measures, strict=True)
            )
        compared = compare_decompositions(
            a, b, rows.X, sample_weight=rows.sample_weight, names=names
        )
        if out is not None:
            write_atomically(out, compared.terms.to_csv(index=False).encode("utf-8"))
    for line in [*compared.verdict(), *(what_rows_determine((a, b), compared) if wanted else [])]:
        typer.echo(line)
    typer.echo()
    _print_terms(compared.terms.head(top).to_dict("records"), several=a.n_outputs > 1)
    if out is not None:
        typer.echo(str(out))


def _measures(weights: list[Weights] | None, *, is_one: bool) -> tuple[Weights, Weights]:
    """Return the distribution of each side; one for both where something else is compared."""
    chosen = weights or [Weights.EMPIRICAL, *([] if is_one else [Weights.UNIFORM])]
    if len(chosen) != (1 if is_one else 2):
        raise typer.BadParameter(
            f"expected --weights {'once' if is_one else 'twice'}, got {len(chosen)}"
        )
    return chosen[0], chosen[-1]


def _print_terms(records: list[dict[Any, Any]], *, several: bool) -> None:
    names = ["effect", *(["output"] if several else []), "difference", "of its size"]
    names += ["correlation", "sign differs", "first", "second"]
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


def audit(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    resamplings: Annotated[
        int, typer.Option(min=0, help="Number of times the rows are resampled.")
    ] = 10,
    threshold: Annotated[
        float, typer.Option(help="Least share of the prediction's variance for a finding.")
    ] = 0.01,
    held_out: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="CSV or Parquet file with rows that the model was not trained on, and the target: "
            "interactions that carry variance and are worth nothing there are a finding.",
        ),
    ] = None,
    positive: PositiveOption = None,
    out: OutOption = None,
    top: TopOption = 12,
    pictures: PicturesOption = 6,
    examples: ExamplesOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Audit a model: find effects that mislead or rest on little data; write a report."""
    folder = out or Path(f"{model.stem}-audit")
    with refusals():
        parsed = parse_model(model)
        rows = read_rows(parsed, data, target_column, drop_column, sample_weight_column)
        observed = None
        if held_out is not None:
            if target_column is None:
                raise InvalidInputError("--held-out needs the target: pass --target-column")
            columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
            observed = read_held_out(parsed, held_out, columns)
        elif positive is not None:
            raise InvalidInputError("--positive belongs to --held-out, which was not passed")
        audited = audit_model(
            model,
            rows.X,
            sample_weight=rows.sample_weight,
            n_bootstrap=resamplings,
            threshold=threshold,
            held_out=observed,
            progress=not quiet,
        )
        note(f"writing {folder}", quiet=quiet)
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / "findings.csv"
        write_atomically(table, audited.to_frame().to_csv(index=False).encode("utf-8"))
        page = write_html(
            audited.decomposition,
            folder / "report.html",
            top=pictures,
            command=command_line(context),
            files=[model, data, *([held_out] if held_out else [])],
            audit=audited,
            X=rows.X.head(examples) if examples and rows.X is not None else None,
        )
    for line in audited.summary(top):
        typer.echo(line)
    typer.echo(f"\n{page}\n{table}")


def report(
    context: typer.Context,
    decomposition: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A .tpz file that purify wrote."),
    ],
    out: Annotated[Path, typer.Option(dir_okay=False, help="The HTML file to write.")] = Path(
        "report.html"
    ),
    against: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The same model under another distribution, to switch to; may be repeated.",
        ),
    ] = None,
    pictures: PicturesOption = 6,
) -> None:
    """Write the report of a decomposition that was saved."""
    with refusals():
        d = load(decomposition)
        others = [load(path) for path in against or []]
        page = write_html(
            d,
            out,
            top=pictures,
            command=command_line(context),
            files=[decomposition, *(against or [])],
            measures=others,
        )
    typer.echo(str(page))


def read_rows(
    model: Model,
    data: Path,
    target_column: str | None,
    drop_column: list[str] | None,
    sample_weight_column: str | None,
) -> DataFile:
    """Return the rows of a data file, without the columns that are no features."""
    apart = [*([target_column] if target_column else []), *(drop_column or [])]
    rows = read_data(data, model, dropped=apart, weight_column=sample_weight_column)
    if rows.X is None or len(rows.X) == 0:
        raise InvalidInputError(f"{str(data)!r} has no rows")
    return rows


def read_held_out(model: Model, path: Path, columns: TargetColumns) -> tuple[Any, Any, Any]:
    """Return the rows of a file that the model was not trained on, the target and the weights."""
    rows = read_rows(model, path, columns.target, columns.dropped, columns.weight)
    return rows.X, columns.observations(rows.apart, path), rows.sample_weight
