"""The commands: each reads a model and rows, calls the function of that name, and prints or writes.

Options are passed on as they are: the functions check them, and `_Commands` prints what they
refuse as one line.
"""

import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperGroup

from treepurify import __version__
from treepurify.arguments import check_choice
from treepurify.auditing.audit import audit as audit_model
from treepurify.cli.printing import in_options, note, print_facts, print_table
from treepurify.cli.reading import Rows, is_saved, read_rows
from treepurify.comparing.compare import compare as compare_decompositions
from treepurify.decomposition import Decomposition
from treepurify.demo import DATASETS, load_demo_data, train_demo_model
from treepurify.effects.accumulate import model_cuts
from treepurify.engines.ale.anova import ale_anova
from treepurify.engines.categorical import categorical_anova
from treepurify.engines.hooker.anova import hooker_anova
from treepurify.engines.legendre import legendre_anova
from treepurify.engines.partial_dependence.anova import partial_dependence_anova
from treepurify.engines.tree.purify import purify as purify_model
from treepurify.errors import InvalidInputError, TreepurifyError
from treepurify.export.ebm import to_ebm
from treepurify.export.relativities import to_relativities
from treepurify.export.sql import to_sql
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.families import known_files
from treepurify.models.parse import Model, parse_model
from treepurify.report.about import read_about
from treepurify.report.comparison import write_comparison
from treepurify.report.html import write_html
from treepurify.report.validation import write_validation
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec
from treepurify.storage import load, write_atomically
from treepurify.summary import text_summary
from treepurify.terms import in_digits

_MOST_NAMES = 12
# Rows of the table of effects: 5 MB of text, which people open.
_MOST_CELLS = 50_000
_ENGINES: dict[str, Callable[..., Decomposition]] = {
    "tree": purify_model,
    "partial-dependence": partial_dependence_anova,
    "ale": ale_anova,
    "hooker": hooker_anova,
    "legendre": legendre_anova,
    "categorical": categorical_anova,
}

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=known_files())]
_DATA = typer.Argument(
    help="CSV or Parquet file with the rows that represent the distribution, usually the training "
    'data; a folder of Parquet files, or a pattern in quotes such as "rows/*.parquet".'
)
DataArgument = Annotated[Path, _DATA]
OptionalDataArgument = Annotated[Path | None, _DATA]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        help="Distribution under which effects are purified, such as auto (the default), "
        "empirical, independent, uniform or laplace."
    ),
]
OrderOption = Annotated[int, typer.Option(help="Largest number of features in an effect.")]
TargetOption = Annotated[
    str | None, typer.Option("--target-column", help="The target column; not a feature.")
]
PositiveOption = Annotated[
    str | None,
    typer.Option(help="The target value that counts as 1, if the two values are not 0 and 1."),
]
IgnoredOption = Annotated[
    list[str] | None,
    typer.Option("--drop-column", help="Another column that is not a feature; can be repeated."),
]
WeightOption = Annotated[
    str | None, typer.Option("--sample-weight-column", help="Column with row weights.")
]
FolderOption = Annotated[Path | None, typer.Option(help="Folder for the files.")]
TopOption = Annotated[int, typer.Option(min=1, help="Number of effects or findings to print.")]
PicturesOption = Annotated[
    int, typer.Option(help="Number of main effects, and of pairs, to draw in the report.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]


class _Commands(TyperGroup):
    """Print warnings and errors that are raised on purpose as one line each."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: note(
                f"warning: {' '.join(str(message).split())}", color=typer.colors.YELLOW
            )
            try:
                return super().invoke(ctx)
            except BrokenPipeError:
                raise  # whoever reads the output has had enough: typer ends in silence
            except (TreepurifyError, OSError) as error:
                command = self.commands[ctx.invoked_subcommand]
                options = {name for parameter in command.params for name in parameter.opts}
                note(in_options(str(error), options), color=typer.colors.RED)
                raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treepurify {__version__}")
        raise typer.Exit


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
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")] = "bike",
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("treepurify-demo"),
    top: TopOption = 12,
    pictures: PicturesOption = 6,
    quiet: QuietOption = False,
) -> None:
    """Train a model with default settings on real data, purify it, and write a report.

    bike comes with treepurify; diabetes, breast_cancer and wine come with scikit-learn.
    """
    data = load_demo_data(dataset)
    note(f"training on {data.name}", quiet=quiet)
    trained = train_demo_model(data)
    d = purify_model(trained.model, data.X, progress=not quiet)
    verified = d.verify(trained.model, data.X)
    folder = _made(out)
    page = write_html(d, folder / "report.html", top=pictures, command=_typed(), progress=not quiet)
    score = "R squared" if data.task == "regression" else "accuracy"
    print_facts(
        [
            ("data", repr(data)),
            ("model", trained.description),
            ("on new rows", f"{score} {trained.score:.3f}, by cross-validation in five folds"),
            ("check", repr(verified)),
        ]
    )
    typer.echo()
    typer.echo(text_summary(d, top))
    typer.echo(f"\nReport: {page.resolve()}")


@app.command(epilog="Example:\n\ntreepurify info model.json")
def info(model: ModelArgument) -> None:
    """Show what is in a model file: trees, features, outputs and link."""
    parsed = parse_model(model)
    print_facts(_model_facts(parsed))
    typer.echo()
    features = [
        _feature_row(spec, cuts)
        for spec, cuts in zip(parsed.features, model_cuts(parsed), strict=True)
    ]
    print_table(["feature", "kind", "values", "intervals or categories"], features, left=3)


def _model_facts(model: Model) -> list[tuple[str, str]]:
    """Return facts about a model as names and values."""
    source = model.source
    version = "" if source.version == "unknown" else f" {source.version}"
    if isinstance(model, TreeEnsemble):
        size = f"{model.n_trees}, of depth up to {model.depth}, {model.n_leaves} leaves"
    else:
        pairs = sum(len(term.features) > 1 for term in model.terms)
        size = f"{len(model.terms)}, {pairs} of them of two or more features"
    outputs = ", ".join(model.output_names[:_MOST_NAMES])
    more = ", ..." if model.n_outputs > _MOST_NAMES else ""
    return [
        ("model", f"{source.library}{version}, {source.kind}"),
        ("trees" if isinstance(model, TreeEnsemble) else "tables", size),
        ("features", str(model.n_features)),
        ("outputs", f"{model.n_outputs}: {outputs}{more}" if model.n_outputs > 1 else "1"),
        ("link", model.link.name),
        ("base margin", ", ".join(f"{value:.6g}" for value in model.base[:_MOST_NAMES])),
        *(("note", text) for text in source.notes),
    ]


def _feature_row(
    spec: FeatureSpec, cuts: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> list[str]:
    """Return name, kind, values and number of cells of a feature."""
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


@app.command(
    epilog="Examples:\n\n"
    "treepurify purify model.json data.parquet --target-column price\n\n"
    "treepurify purify model.txt data.csv --weights laplace --out results\n\n"
    'treepurify purify model.txt "rows/*.parquet" --target-column price\n\n'
    "treepurify purify model.json data.csv --engine ale\n\n"
    "Exit codes: 0 done, 1 refused (the reason is on standard error), 2 wrong usage."
)
def purify(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    model: ModelArgument,
    data: OptionalDataArgument = None,
    weights: WeightsOption = None,
    order: OrderOption = 2,
    engine: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(_ENGINES)}: purified effects are those of tree; the others answer "
            "another question, or check the effects."
        ),
    ] = "tree",
    method: Annotated[
        str | None,
        typer.Option(help="How the engine tree computes effects, such as exact or mass-moving."),
    ] = None,
    target: TargetOption = None,
    ignored: IgnoredOption = None,
    weight: WeightOption = None,
    out: FolderOption = None,
    top: TopOption = 20,
    pictures: PicturesOption = 6,
    quiet: QuietOption = False,
) -> None:
    """Purify a model: print its effects, and write a report, the decomposition and a table.

    DATA is not needed for an EBM, or with --weights uniform. The folder is MODEL-purified unless
    --out names another.
    """
    check_choice("engine", engine, _ENGINES)
    rows = read_rows(model, data, target, ignored, weight)
    given = _given(_ENGINES[engine], weights=weights, method=method)
    d = _ENGINES[engine](
        model, rows.X, order=order, sample_weight=rows.weight, progress=not quiet, **given
    )
    folder = _made(out or Path(f"{model.stem}-purified"))
    files = [folder / "report.html", folder / "decomposition.tpz"]
    d.save(files[1])
    # Polynomials have no table; a constant model has an empty one.
    if d.tensor_components() or not d.components:
        table = d.to_frame()
        left_out: list[str] = []
        if d.tensor_components():
            leading = [name for name in map(d.term_name, d.ranking.order) if name]
            counts = table["term"].value_counts()
            cells = counts[[name for name in leading if name in counts]].cumsum()
            left_out = cells.index[cells > _MOST_CELLS].tolist()
            table = table[~table["term"].isin(left_out)]
        files.append(_write_csv(table, folder / "effects.csv"))
        if left_out:
            note(f"effects.csv omits {len(left_out)} effects, to stay readable", quiet=quiet)
    write_html(
        d, files[0], top=pictures, command=_typed(), files=_files(model, data), progress=not quiet
    )
    typer.echo(text_summary(d, top))
    _print_files(files)


@app.command(
    epilog="Examples:\n\n"
    "treepurify compare model.json data.parquet --weights empirical --weights uniform\n\n"
    "treepurify compare model.json data.csv --other-model new.json --target-column price\n\n"
    "treepurify compare model.json 2024.csv --other-data 2025.csv --report compared.html\n\n"
    "treepurify compare champion.tpz challenger.tpz"
)
def compare(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    model: Annotated[
        Path, typer.Argument(help=f"{known_files()}; or a .tpz file that purify wrote.")
    ],
    data: OptionalDataArgument = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(help="A distribution; pass the option twice to compare two."),
    ] = None,
    other_model: Annotated[
        Path | None, typer.Option(help="A second model of the same columns, or a .tpz file.")
    ] = None,
    other_data: Annotated[
        Path | None,
        typer.Option(
            help="Rows of another period or place, which represent the distribution of the second "
            "decomposition. Both are compared on the rows of DATA."
        ),
    ] = None,
    order: OrderOption = 2,
    target: TargetOption = None,
    ignored: IgnoredOption = None,
    weight: WeightOption = None,
    out: Annotated[Path | None, typer.Option(help="CSV file for the whole table.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file for a report with pictures of both.")
    ] = None,
    top: TopOption = 15,
    quiet: QuietOption = False,
) -> None:
    """Compare two models, or one model under two data sets or distributions.

    Two .tpz files with the same intervals need no DATA.
    """
    if data is not None and is_saved(data) and other_model is None:
        data, other_model = None, data
    chosen = weights or ["auto", *["uniform"] * (other_model is None and other_data is None)]
    first = (model, data, chosen[0])
    second = (other_model or model, other_data or data, chosen[-1])
    saved = [is_saved(model), is_saved(second[0])]
    if first == second or len(chosen) > 2 or (saved[0] and other_model is None):
        raise typer.BadParameter(
            "this compares two sides: pass --other-model, or for a model --other-data, or "
            "--weights twice"
        )
    if (any(saved) and other_data is not None) or (all(saved) and weights):
        raise typer.BadParameter(
            "a .tpz file is already purified: leave out --other-data and --weights"
        )
    rows = read_rows(model, data, target, ignored, weight)
    others = (
        rows if other_data is None else read_rows(second[0], other_data, target, ignored, weight)
    )
    options = {
        "order": order,
        # One file may have missing values where the other has none.
        "missing_cells": "auto" if other_data is None else "always",
        "progress": not quiet,
    }
    a, b = _side(first, rows, options), _side(second, others, options)
    names = _names(first, second)
    on_rows: dict[str, Any] = {"sample_weight": rows.weight, "progress": not quiet}
    compared = compare_decompositions(a, b, rows.X, names=names, **on_rows)
    if out is not None:
        _write_csv(compared.terms, out)
    if report is not None:
        write_comparison(
            dict(zip(names, (a, b), strict=True)),
            report,
            X=rows.X,
            command=_typed(),
            files=_files(model, data, other_model, other_data),
            **on_rows,
        )
    typer.echo(f"{compared}\n")
    shown = compared.to_frame().head(top).drop(columns=["features", "correlation"])
    shown = shown.loc[:, ~shown.columns.str.startswith("rank in ")]
    cells = [
        [cell if isinstance(cell, str) else in_digits(cell) for cell in row]
        for row in shown.itertuples(index=False, name=None)
    ]
    print_table(list(map(str, shown)), cells, left=2 if a.n_outputs > 1 else 1)
    _print_files([path for path in (out, report) if path is not None])


_Side = tuple[Path, Path | None, str]


def _side(side: _Side, rows: Rows, options: dict[str, Any]) -> Decomposition:
    """Return the decomposition of one side, or the one that is saved."""
    model, _, weights = side
    if is_saved(model):
        return load(model)
    weight = None if weights == "uniform" else rows.weight
    return purify_model(model, rows.X, weights=weights, sample_weight=weight, **options)


def _names(first: _Side, second: _Side) -> tuple[str, str]:
    """Return what the sides are called: by the files, or the distributions, that differ."""
    different = [both for both in zip(first, second, strict=True) if both[0] != both[1]]
    short = [[getattr(part, "name", str(part)) for part in both] for both in different]
    parts = [
        both if names[0] == names[1] else names
        for both, names in zip(different, short, strict=True)
    ]
    a, b = (", ".join(str(both[k]) for both in parts) for k in (0, 1))
    return a, b


@app.command(
    epilog="Examples:\n\n"
    "treepurify audit model.json data.csv --target-column price --out audit\n\n"
    "treepurify audit model.json data.csv --target-column price --held-out test.csv"
)
def audit(  # noqa: PLR0913, PLR0917 - one argument per option of the command line
    model: ModelArgument,
    data: DataArgument,
    target: TargetOption = None,
    ignored: IgnoredOption = None,
    weight: WeightOption = None,
    resamplings: Annotated[int, typer.Option(help="How many times to resample the rows.")] = 5,
    threshold: Annotated[
        float,
        typer.Option(help="Smallest share of the variance of the prediction that is reported."),
    ] = 0.01,
    held_out: Annotated[
        Path | None,
        typer.Option(
            help="File of rows the model was not trained on, target included; the audit reports "
            "effects that do not reduce the loss on these rows."
        ),
    ] = None,
    positive: PositiveOption = None,
    out: FolderOption = None,
    top: TopOption = 12,
    pictures: PicturesOption = 6,
    quiet: QuietOption = False,
) -> None:
    """Audit a model: find effects that mislead or rest on little data, and write a report.

    The folder is MODEL-audit unless --out names another.
    """
    if held_out is None and positive is not None:
        raise InvalidInputError("--positive belongs to --held-out, which was not passed")
    if held_out is not None and target is None:
        raise InvalidInputError("--held-out needs the target: pass --target-column")
    rows = read_rows(model, data, target, ignored, weight)
    new = (
        Rows()
        if held_out is None
        else read_rows(model, held_out, target, ignored, weight, positive=positive)
    )
    audited = audit_model(
        model,
        rows.X,
        sample_weight=rows.weight,
        n_bootstrap=resamplings,
        threshold=threshold,
        held_out=None if held_out is None else new.held_out,
        progress=not quiet,
    )
    folder = _made(out or Path(f"{model.stem}-audit"))
    table = _write_csv(audited.to_frame(), folder / "findings.csv")
    page = write_html(
        audited.decomposition,
        folder / "report.html",
        top=pictures,
        command=_typed(),
        files=_files(model, data, held_out),
        audit=audited,
        progress=not quiet,
    )
    typer.echo("\n".join(audited.summary(top)))
    _print_files([page, table])


@app.command(
    epilog="Examples:\n\n"
    "treepurify report results/decomposition.tpz --out report.html\n\n"
    "treepurify report model.txt test.csv --target-column default --about about.yaml "
    "--later 2025.csv --out validation.html"
)
def report(
    model: Annotated[
        Path,
        typer.Argument(
            help="A .tpz file that purify wrote; for a validation, preferably the model itself: "
            f"{known_files()}."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="For the report of a validation: file of rows, preferably ones that the model "
            "was not trained on."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    about: Annotated[
        Path | None,
        typer.Option(help="YAML file with purpose, limits, directions, groups and threshold."),
    ] = None,
    refit: Annotated[
        list[Path] | None,
        typer.Option(help="File of a model trained again like MODEL; at least twice."),
    ] = None,
    later: Annotated[
        Path | None, typer.Option(help="File with the rows of a later period, same columns.")
    ] = None,
    target: TargetOption = None,
    positive: PositiveOption = None,
    ignored: IgnoredOption = None,
    weight: WeightOption = None,
    pictures: PicturesOption = 6,
    quiet: QuietOption = False,
) -> None:
    """Write the report of a saved decomposition; with DATA, that of the validation of a model."""
    if data is None:
        if about or refit or later or positive:
            raise typer.BadParameter("the report of a validation needs rows: name a DATA file")
        write_html(
            load(model), out, top=pictures, command=_typed(), files=[model], progress=not quiet
        )
    else:
        columns = (target, ignored, weight)
        groups = [group.name for group in read_about(about).groups]
        rows, after = (
            Rows()
            if file is None
            else read_rows(model, file, *columns, positive=positive, groups=groups)
            for file in (data, later)
        )
        write_validation(
            load(model) if is_saved(model) else model,
            rows.X,
            out,
            y=rows.y,
            about=about,
            refits=refit,
            after=None if later is None else (after.X, after.y),
            sample_weight=rows.weight,
            progress=not quiet,
        )
    _print_files([out])


@app.command(
    epilog="Examples:\n\n"
    "treepurify export results/decomposition.tpz --to sql --keep id\n\n"
    "treepurify export results/decomposition.tpz --to ebm --out ebm.json"
)
def export(
    decomposition: Annotated[Path, typer.Argument(help="A .tpz file that purify wrote.")],
    to: Annotated[str, typer.Option(help="What to write: sql, ebm or relativities.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file; by default the name of DECOMPOSITION with .sql, .json (EBM) or .csv "
            "(relativities)."
        ),
    ] = None,
    remainder: Annotated[
        str | None,
        typer.Option(help="drop leaves it out, and reports how much predictions change."),
    ] = None,
    scale: Annotated[str | None, typer.Option(help="SQL: margin, or response.")] = None,
    table: Annotated[str | None, typer.Option(help="SQL: the table that is read.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="SQL: another column to return, such as a key; can be repeated."),
    ] = None,
) -> None:
    """Write a decomposition as a SQL query, an EBM, or tables of factors."""
    check_choice("to", to, _EXPORTS)
    make, read, suffix = _EXPORTS[to]
    given = _given(make, remainder=remainder, scale=scale, table=table, keep=keep)
    target = out or decomposition.with_suffix(suffix)
    write_atomically(target, read(make(load(decomposition), **given)).encode("utf-8"))
    _print_files([target])


def _ebm_text(ebm: Any) -> str:
    text = StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="JSON formats are in beta")
        ebm.to_json(text)
    return text.getvalue()


# What makes each of them, what its text is, and the ending of its file.
_EXPORTS: dict[str, tuple[Callable[..., Any], Callable[[Any], str], str]] = {
    "sql": (to_sql, lambda query: f"{query};\n", ".sql"),
    "ebm": (to_ebm, _ebm_text, ".json"),
    "relativities": (to_relativities, lambda made: made.to_csv(index=False), ".csv"),
}


def _given(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Return the options that were given, all of which the function must take."""
    given = {name: value for name, value in options.items() if value is not None}
    if wrong := [f"--{name}" for name in given if name not in signature(function).parameters]:
        raise typer.BadParameter(f"{function.__name__} does not take {', '.join(wrong)}")
    return given


def _typed() -> str:
    """Return the command as it was typed, for reports."""
    return shlex.join(["treepurify", *sys.argv[1:]])


def _files(*paths: Path | None) -> list[Path]:
    """Return the files, each once, without the folders and patterns."""
    return list(dict.fromkeys(path for path in paths if path is not None and path.is_file()))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_csv(frame: Any, path: Path) -> Path:
    """Write a table, whole or not at all."""
    write_atomically(path, frame.to_csv(index=False).encode("utf-8"))
    return path


def _print_files(files: Sequence[Path]) -> None:
    for file in files:
        typer.echo(str(file))
