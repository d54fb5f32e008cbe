"""The command that audits a model, and how commands read held-out rows."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from treepurify.auditing.audit import audit as audit_model
from treepurify.budget import DEFAULT_BUDGET
from treepurify.cli.console import note, refusals
from treepurify.cli.data import TableReader, open_in_batches, read_rows
from treepurify.cli.held_out import PositiveOption, TargetColumns
from treepurify.cli.options import (
    HELD_OUT_SAMPLE,
    DataArgument,
    DropOption,
    ExamplesOption,
    ModelArgument,
    OutOption,
    PicturesOption,
    QuietOption,
    ScaleOption,
    SeedOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
    command_line,
    existing_rows,
    read_scale_options,
)
from treepurify.cli.tables import FolderFormatOption, TableFormat
from treepurify.errors import InvalidInputError
from treepurify.evidence.held_out import HeldOutSample, sample_held_out
from treepurify.export.tables import write_table
from treepurify.models.parse import parse_model
from treepurify.progress import progress_report
from treepurify.report.html import write_html

__all__ = ["audit", "read_held_out"]


def audit(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: DataArgument,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    resamplings: Annotated[
        int, typer.Option(min=0, help="How many times to resample the rows.")
    ] = 10,
    seed: SeedOption = 0,
    threshold: Annotated[
        float,
        typer.Option(help="Smallest share of the variance of the prediction that is reported."),
    ] = 0.01,
    held_out: Annotated[
        Path | None,
        typer.Option(
            callback=existing_rows,
            help="CSV or Parquet file with rows the model was not trained on, target included; "
            "the audit reports effects that do not reduce the loss on these rows. "
            f"{HELD_OUT_SAMPLE}",
        ),
    ] = None,
    positive: PositiveOption = None,
    out: OutOption = None,
    table_format: FolderFormatOption = TableFormat.CSV,
    top: TopOption = 12,
    pictures: PicturesOption = 6,
    scale: ScaleOption = None,
    examples: ExamplesOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Audit a model: find effects that mislead or rest on little data, and write a report."""
    folder = out or Path(f"{model.stem}-audit")
    with refusals(context):
        parsed = parse_model(model)
        rows = read_rows(parsed, data, target_column, drop_column, sample_weight_column)
        observed = None
        if held_out is not None:
            if target_column is None:
                raise InvalidInputError("--held-out needs the target: pass --target-column")
            columns = TargetColumns(target_column, positive, drop_column, sample_weight_column)
            observed = read_held_out(parsed, held_out, columns, quiet=quiet)
        elif positive is not None:
            raise InvalidInputError("--positive belongs to --held-out, which was not passed")
        scales = read_scale_options(scale)
        audited = audit_model(
            model,
            rows.X,
            sample_weight=rows.sample_weight,
            n_bootstrap=resamplings,
            seed=seed,
            threshold=threshold,
            held_out=(observed.X, observed.y, observed.weights) if observed else None,
            progress=not quiet,
        )
        if audited.worth and observed and observed.words:
            notes = (observed.words, *audited.worth.notes)
            audited = replace(audited, worth=replace(audited.worth, notes=notes))
        note(f"writing {folder}", quiet=quiet)
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / f"findings.{table_format.value}"
        write_table(audited.to_frame(), table, table_format.value)
        page = write_html(
            audited.decomposition,
            folder / "report.html",
            top=pictures,
            command=command_line(context),
            files=[path for path in (model, data, held_out) if path and path.is_file()],
            audit=audited,
            scale=scales,
            progress=not quiet,
            X=rows.first(examples, parsed) if examples else None,
        )
    for line in audited.summary(top):
        typer.echo(line)
    if observed and observed.words:
        typer.echo(f"Held out: {observed.words}")
    typer.echo(f"\n{page}\n{table}")


def read_held_out(
    model: TableReader, path: Path, columns: TargetColumns, *, quiet: bool
) -> HeldOutSample:
    """Return rows that the model was not trained on; of rows in batches a sample."""
    source = open_in_batches(path, columns.dropped or [], columns.weight)
    if source is None:
        rows = read_rows(model, path, columns.target, columns.dropped, columns.weight)
        return HeldOutSample(rows.X, columns.observations(rows.apart, path), rows.sample_weight, "")
    sample = sample_held_out(
        model.features,
        source,
        columns.target,
        columns.weight,
        DEFAULT_BUDGET,
        progress_report(not quiet),
        match_names=model.has_feature_names,
    )
    return replace(sample, y=columns.observations({columns.target: sample.y}, path))
