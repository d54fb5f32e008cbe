"""The commands."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from treepurify.cli import (
    comparing,
    evidence,
    explaining,
    exporting,
    gap_and_drift,
    inspection,
    interactions,
    monotonicity,
    reporting,
    weak_spots,
)
from treepurify.cli.console import (
    method_facts,
    note,
    print_certificate,
    print_effects,
    print_facts,
    print_statements,
    print_table,
    refusals,
)
from treepurify.cli.data import DataFile, read_rows
from treepurify.cli.engines import (
    BinsOption,
    DegreeOption,
    Engine,
    EngineOption,
    MethodOption,
    check_engine,
    decompose_by,
)
from treepurify.cli.options import (
    ROWS_OF_DISTRIBUTION,
    DropOption,
    ModelArgument,
    PicturesOption,
    PurifyMethod,
    QuietOption,
    ScaleOption,
    TargetOption,
    TopOption,
    WeightColumnOption,
    Weights,
    WeightsOption,
    command_line,
    existing_rows,
    read_scale_options,
)
from treepurify.cli.results import summary_as_json, write_results
from treepurify.decomposition import Decomposition
from treepurify.demo import DATASETS, load_demo_data, train_demo_model
from treepurify.effects.accumulate import model_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.tree.purify import purify as purify_model
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model, parse_model
from treepurify.precompiling import warmup as compile_all
from treepurify.report.html import write_html
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec

__all__ = ["app"]

app = typer.Typer(
    name="treepurify",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_MOST_NAMES = 12


class Format(StrEnum):
    """How results are printed, or written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


# The formats that are files, not text.
_FILE_FORMATS = (Format.PARQUET,)

FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        help="How to print the result. parquet prints a table and writes the file of effects in "
        "that format; the other formats write that file as CSV.",
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from treepurify import __version__

        typer.echo(f"treepurify {__version__}")
        raise typer.Exit


def _known_dataset(name: str) -> str:
    if name not in DATASETS:
        raise typer.BadParameter(f"{name!r} must be one of {', '.join(DATASETS)}")
    return name


@app.callback(
    epilog="Examples:\n\n"
    "treepurify demo\n\n"
    "treepurify info model.json\n\n"
    "treepurify purify model.json data.csv --target-column price --out results\n\n"
    "treepurify audit model.json data.csv --target-column price"
)
def _treepurify(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Decompose a trained tree model into purified effects, with a certificate."""


@app.command(
    epilog="Examples:\n\ntreepurify demo\n\ntreepurify demo --dataset breast_cancer --out results"
)
def demo(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Option(help=f"One of {', '.join(DATASETS)}.", callback=_known_dataset)
    ] = "bike",
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the report.")] = Path(
        "treepurify-demo"
    ),
    weights: WeightsOption = Weights.AUTO,
    top: TopOption = 12,
    pictures: PicturesOption = 6,
    quiet: QuietOption = False,
) -> None:
    """Train a model with default settings on real data, purify it, and write a report.

    bike comes with treepurify; diabetes, breast_cancer and wine come with scikit-learn. The other
    data sets are read from the folder that TREEPURIFY_DATA names; without it, scikit-learn
    downloads the California housing data.
    """
    with refusals(context):
        data = load_demo_data(dataset)
        n_rows, n_features = data.X.shape
        note(f"training on {data.name} ({n_rows} rows, {n_features} features)", quiet=quiet)
        trained = train_demo_model(data)
        d = purify_model(trained.model, data.X, weights=weights.value, progress=not quiet)
        difference = d.verify(trained.model, data.X)
        note("drawing the report", quiet=quiet)
        out.mkdir(parents=True, exist_ok=True)
        report = write_html(
            d,
            out / "report.html",
            top=pictures,
            command=command_line(context),
            progress=not quiet,
        )
    score = "R squared" if data.task == "regression" else "accuracy"
    print_facts(
        [
            ("data", f"{data.name}: {n_rows} rows, {n_features} features; target: {data.target}"),
            ("model", trained.description),
            ("on new rows", f"{score} {trained.score:.3f}, by cross-validation in five folds"),
            *method_facts(d),
        ]
    )
    typer.echo()
    print_effects(d, top)
    typer.echo()
    print_certificate(
        d,
        f"On all {difference.n_rows} training rows the sum of the effects differs from the "
        f"{difference.source} by at most {difference.relative_difference:.1e} of the largest.",
    )
    typer.echo()
    print_statements(d)
    typer.echo(f"\nReport: {report.resolve()}")


@app.command(epilog="Example:\n\ntreepurify info model.json")
def info(context: typer.Context, model: ModelArgument, quiet: QuietOption = False) -> None:
    """Show what is in a model file: features, trees, effects, outputs and link."""
    with refusals(context):
        note(f"reading {model}", quiet=quiet)
        parsed = parse_model(model)
        facts, features = _model_facts(parsed), _feature_rows(parsed)
    print_facts(facts)
    typer.echo()
    print_table(["feature", "kind", "values", "intervals or categories"], features, left=3)


def _model_facts(model: Model) -> list[tuple[str, str]]:
    """Return facts about a model as names and values."""
    source = model.source
    version = "" if source.version == "unknown" else f" {source.version}"
    facts = [("model", f"{source.library}{version}, {source.kind}")]
    if isinstance(model, TreeEnsemble):
        size = f"{model.n_trees}, of depth up to {model.depth}, {model.n_leaves} leaves"
        facts.append(("trees", size))
    else:
        facts.append(("tables", str(len(model.terms))))
    facts.append(("effects", _orders(model)))
    facts.append(("features", str(model.n_features)))
    outputs = ", ".join(model.output_names[:_MOST_NAMES])
    outputs += ", ..." if model.n_outputs > _MOST_NAMES else ""
    facts.append(("outputs", f"{model.n_outputs}: {outputs}" if model.n_outputs > 1 else "1"))
    facts.append(("link", model.link.name))
    base = ", ".join(f"{value:.6g}" for value in model.base[:_MOST_NAMES])
    facts.append(("base margin", base))
    facts += [("note", text) for text in source.notes]
    return facts


def _feature_rows(model: Model) -> list[list[str]]:
    """Return name, kind, number of cells and the first of them for each feature."""
    return [
        _feature_row(spec, feature_cuts)
        for spec, feature_cuts in zip(model.features, model_cuts(model), strict=True)
    ]


def _feature_row(
    spec: FeatureSpec, cuts: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> list[str]:
    if cuts is None:
        named = spec.labels if spec.categories or spec.listed_codes else ()
        labels = ", ".join(map(str, named[: _MOST_NAMES // 2]))
        more = ", ..." if len(named) > _MOST_NAMES // 2 else ""
        return [spec.name, "categorical", labels + more or "codes only", f"{spec.n_codes}"]
    # LightGBM cuts at the next number beyond what it takes for zero.
    ends = [0.0 if abs(cut) < 2 * ZERO_THRESHOLD else cut for cut in (*cuts[:1], *cuts[-1:])]
    span = f"cuts from {ends[0]:.6g} to {ends[1]:.6g}" if ends else "not used"
    if len(cuts) == 1:
        span = f"one cut, at {ends[0]:.6g}"
    return [spec.name, "numeric", span, f"{len(cuts) + 1}"]


def _orders(model: Model) -> str:
    if isinstance(model, TreeEnsemble):
        grid, _ = make_grid(
            None, model.features, model_cuts(model), match_names=model.has_feature_names
        )
        sizes = [len(subset) for subset in leaf_boxes(model, grid).subsets if subset]
    else:
        sizes = [len(term.features) for term in model.terms]
    counts = [
        f"{sizes.count(size)} of {size} feature{'s' * (size > 1)}" for size in sorted(set(sizes))
    ]
    return ", ".join(counts) or "none: the model is constant"


@app.command(
    epilog="Examples:\n\n"
    "treepurify purify model.json data.parquet --target-column price\n\n"
    "treepurify purify model.txt data.csv --weights laplace --out results\n\n"
    'treepurify purify model.txt "rows/*.parquet" --target-column price\n\n'
    "treepurify purify ebm.json --format json --quiet\n\n"
    "treepurify purify model.json data.csv --engine ale\n\n"
    "Exit codes: 0 done, 1 refused (the reason is on standard error), 2 wrong usage."
)
def purify(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    context: typer.Context,
    model: ModelArgument,
    data: Annotated[
        Path | None,
        typer.Argument(
            callback=existing_rows,
            help=f"{ROWS_OF_DISTRIBUTION} Not needed for an EBM or with --weights uniform.",
        ),
    ] = None,
    weights: Annotated[
        Weights | None,
        typer.Option(
            help="Distribution to average over: by default auto for the engine tree, otherwise "
            "the rows as they are."
        ),
    ] = None,
    order: Annotated[
        int,
        typer.Option(
            min=1,
            help="Largest number of features in an effect; all larger effects form one remainder.",
        ),
    ] = 2,
    engine: EngineOption = Engine.TREE,
    method: MethodOption = PurifyMethod.AUTO,
    degree: DegreeOption = None,
    bins: BinsOption = None,
    target_column: TargetOption = None,
    drop_column: DropOption = None,
    sample_weight_column: WeightColumnOption = None,
    out: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for the files; MODEL-purified by default."),
    ] = None,
    output_format: FormatOption = Format.TABLE,
    top: TopOption = 20,
    pictures: PicturesOption = 6,
    scale: ScaleOption = None,
    quiet: QuietOption = False,
) -> None:
    """Purify a model: print its effects, and write a report, the decomposition and a table."""
    if data is None and (target_column or drop_column or sample_weight_column):
        raise typer.BadParameter(
            "--target-column, --drop-column and --sample-weight-column need a DATA file"
        )
    settings = {"degree": degree, "bins": bins}
    check_engine(engine, data, weights, method, settings)
    folder = out or Path(f"{model.stem}-purified")
    with refusals(context):
        note(f"reading {model}", quiet=quiet)
        parsed = parse_model(model)
        if data is None:
            _check_rows_are_not_needed(parsed, weights)
            rows = DataFile()
        else:
            note(f"reading {data}", quiet=quiet)
            rows = read_rows(parsed, data, target_column, drop_column, sample_weight_column)
        d = decompose_by(
            engine,
            model,
            rows,
            weights=weights,
            order=order,
            method=method,
            settings=settings,
            progress=not quiet,
        )
        note(f"writing {folder}", quiet=quiet)
        sources = [model, *([data] if data else [])]
        files, left_out = write_results(
            d,
            folder,
            command=command_line(context),
            top=pictures,
            sources=sources,
            effects_format=output_format.value if output_format in _FILE_FORMATS else "csv",
            progress=not quiet,
            scale=read_scale_options(scale),
        )
    if left_out:
        note(
            f"{files[-1].name} omits the tables of {len(left_out)} effects: with them it would be "
            "too long to open. --format parquet writes all of them",
            quiet=quiet,
        )
    if smooth := len(d.components) - len(d.tensor_components()):
        note(f"the table of effects omits {smooth} effects that are not tables", quiet=quiet)
    _print_result(d, files, output_format, top)


def _check_rows_are_not_needed(model: Model, weights: Weights | None) -> None:
    usual = (None, Weights.EMPIRICAL, Weights.AUTO)
    has_own_mass = isinstance(model, AdditiveTables) and weights in usual
    if weights is not Weights.UNIFORM and not has_own_mass:
        raise InvalidInputError(
            f"--weights {weights or Weights.AUTO} needs rows that represent the distribution: name "
            "a DATA file (usually the training data), or pass --weights uniform, which needs no "
            "rows"
        )


def _print_result(d: Decomposition, files: list[Path], output_format: Format, top: int) -> None:
    if output_format is Format.CSV:
        typer.echo(d.importance().to_csv(index=False), nl=False)
    elif output_format is Format.JSON:
        typer.echo(summary_as_json(d, files))
    else:
        print_facts(method_facts(d))
        typer.echo()
        print_effects(d, top)
        typer.echo()
        print_statements(d)
        typer.echo()
        print_certificate(d)
        typer.echo()
        for file in files:
            typer.echo(str(file))


app.command(
    epilog="Examples:\n\n"
    "treepurify explain model.json rejected.csv --reference approved.csv --texts texts.csv\n\n"
    "treepurify explain model.json rejected.csv --reference approved.csv --id-column id "
    "--out reasons.csv\n\n"
    "treepurify explain model.json applications.csv --threshold 0.2"
)(explaining.explain)
app.command(
    epilog="Examples:\n\n"
    "treepurify compare model.json data.parquet --weights empirical --weights uniform\n\n"
    "treepurify compare model.json data.csv --other-model new.json --target-column price\n\n"
    "treepurify compare model.json 2024.csv --other-data 2025.csv --report compared.html\n\n"
    "treepurify compare champion.tpz challenger.tpz --format csv\n\n"
    "treepurify compare model.json data.csv --engines tree,categorical --target-column price"
)(comparing.compare)
app.command(
    epilog="Example:\n\ntreepurify audit model.json data.csv --target-column price --out audit"
)(inspection.audit)
app.command(
    name="h-statistics",
    epilog="Example:\n\ntreepurify h-statistics model.json data.csv --target-column price --size 3",
)(interactions.h_statistics)
app.command(epilog="Example:\n\ntreepurify groups model.json data.csv --target-column price")(
    interactions.groups
)
app.command(
    epilog="Examples:\n\n"
    "treepurify monotonicity model.txt data.csv --target-column default\n\n"
    "treepurify monotonicity model.json data.csv --increasing income --decreasing age "
    '--order "grade=C,B,A"\n\n'
    "Exit codes: 0 no violation found, 1 refused, 2 wrong usage, 3 a direction is violated."
)(monotonicity.monotonicity)
app.command(
    epilog="Example:\n\ntreepurify worth model.json train.csv test.csv --target-column price"
)(evidence.worth)
app.command(
    epilog="Examples:\n\n"
    "treepurify simplify model.json train.csv test.csv --target-column price\n\n"
    "treepurify simplify model.txt train.csv test.csv --target-column bought --loss auc "
    "--tolerance 0.005 --out simple"
)(evidence.simplify)
app.command(
    epilog="Examples:\n\n"
    "treepurify gap model.json data.csv --group-column sex --target-column paid --threshold 0.5\n\n"
    "treepurify gap model.json data.csv --group-column age --cut 25 --figure gap.png"
)(gap_and_drift.gap)
app.command(
    epilog="Example:\n\ntreepurify drift model.json 2024.csv 2025.csv --target-column price"
)(gap_and_drift.drift)
app.command(
    epilog="Examples:\n\n"
    "treepurify report results/decomposition.tpz --out report.html\n\n"
    "treepurify report model.txt --template validation --data test.csv --target-column default "
    "--about about.yaml --later 2025.csv --out validation.html --numbers"
)(reporting.report)
app.command(epilog="Example:\n\ntreepurify weak-spots model.json test.csv --target-column price")(
    weak_spots.weak_spots
)
app.command(
    epilog="Examples:\n\n"
    "treepurify export results/decomposition.tpz --to sql --keep id\n\n"
    "treepurify export results/decomposition.tpz --to ebm --out ebm.json\n\n"
    "treepurify export results/decomposition.tpz --to relativities --out factors.csv"
)(exporting.export)


@app.command(epilog="Example:\n\ntreepurify warmup --quiet")
def warmup(context: typer.Context, quiet: QuietOption = False) -> None:
    """Compile what default calls need, so that first calls do not wait (for container images)."""
    with refusals(context):
        compile_all(progress=not quiet)
