"""What the commands print: tables on standard output, notes on standard error."""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treepurify.decomposition import Decomposition
from treepurify.digits import in_digits
from treepurify.errors import TreepurifyError
from treepurify.plots.labels import scale_sentence
from treepurify.ranking import EffectGroup, share_sums
from treepurify.report.effects_table import TermRow, share_of, term_rows
from treepurify.report.sentences import model_statements
from treepurify.verdict import measure_words, verdict

__all__ = [
    "in_options",
    "method_facts",
    "note",
    "print_certificate",
    "print_effects",
    "print_facts",
    "print_statements",
    "print_table",
    "refusals",
]

_BAR_WIDTH = 12
# name="value" or name=value, as messages advise arguments of Python.
_ARGUMENT = re.compile(r"""\b([a-z_]+)=(?:"([^"]*)"|'([^']*)'|([\w.]*\w))""")
# Advice of another form, by the parameter of a command that stands for it.
_ADVICE = {
    "drop_remainder": ('Pass remainder="drop"', "Pass --drop-remainder"),
    "positive": ("pass y == that class", "name that class with --positive"),
    "data": ("pass X", "name a DATA file"),
}


@contextmanager
def refusals(context: typer.Context) -> Iterator[None]:
    """Turn errors raised on purpose, and those of the file system, into exit code 1.

    The message goes to standard error, and so do warnings, one line each. `context` is that of the
    command that runs: advice names its options.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except (TreepurifyError, OSError) as error:
            typer.echo(f"treepurify: {in_options(str(error), context)}", err=True)
            raise typer.Exit(1) from error


def in_options(message: str, context: typer.Context) -> str:
    """Return a message whose advice names options of the command that runs, where it has them."""
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for name, (of_python, of_command) in _ADVICE.items():
        if name in parameters:
            message = message.replace(of_python, of_command)

    def option(found: re.Match[str]) -> str:
        parameter = parameters.get(found[1])
        if parameter is None or parameter.param_type_name != "option":
            return found[0]
        value = next(text for text in found.groups()[1:] if text is not None)
        return f"{parameter.opts[0]} {value}"

    return _ARGUMENT.sub(option, message)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    typer.echo(f"treepurify: warning: {message}", err=True)


def note(text: str, *, quiet: bool = False) -> None:
    """Write one line to standard error."""
    if not quiet:
        typer.echo(f"treepurify: {text}", err=True)


def print_facts(facts: list[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in facts:
        if value:
            grid.add_row(Text(name), Text(value))
    Console().print(grid)


def print_statements(d: Decomposition, most: int = 3) -> None:
    """Print what the model does, in a few sentences, as its report begins."""
    for statement in model_statements(d, most):
        Console().print(Text(statement.text))


def print_table(
    names: Sequence[str], rows: Sequence[Sequence[str | Text]], *, left: int = 1
) -> None:
    """Print a table whose first `left` columns are text.

    Names of features may look like rich's markup, so cells are printed as they are; a cell
    with a style is a `Text`.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    Console().print(table)


def method_facts(d: Decomposition) -> list[tuple[str, str]]:
    """Return the engine, the distribution and the scale of the effects, and the method."""
    facts = [("engine", d.engine), ("distribution", d.measure), ("scale", scale_sentence(d))]
    if not d.origin.explained:
        return [*facts, ("method", d.origin.method)]
    kept = max(map(len, d.components), default=0)
    how = "on coarse intervals" if d.origin.method == "coarse" else "tree by tree"
    text = f"projection: effects of up to {kept} features, fitted {how}, plus a remainder"
    return [*facts, ("method", text)]


def print_effects(d: Decomposition, top: int) -> None:
    """Print the `top` most important effects, with those that cancel below their sum."""
    rows = term_rows(d)
    if not rows:
        typer.echo("The model is constant: it has no effects.")
        return
    ranking = d.ranking
    has_share = not all(np.isnan(row.share) for row in rows)
    has_covariance = not all(np.isnan(row.covariance_share) for row in rows)
    has_before = not all(np.isnan(row.deviation_before) for row in rows)
    several = d.n_outputs > 1
    names = ["effect", *["output"] * several, *["", "covariance"] * has_covariance]
    names += [*[""] * (has_share > has_covariance), *["variance"] * has_share, "std. dev."]
    names += ["before"] * has_before
    largest = max((abs(share_of(row)) for row in rows if not np.isnan(share_of(row))), default=0.0)
    body: list[list[str | Text]] = []
    subsets = [row.subset or () for row in rows]
    n_shown = ranking.n_shown(subsets, top)
    above = ranking.groups_above(subsets[:n_shown])
    for row, group in zip(rows[:n_shown], above, strict=True):
        if group is not None:
            joint = _group_cells(d, group, largest)
            body.append([*joint, *[""] * (len(names) - len(joint))])
        indent = "  " * bool(row.group)
        cells: list[str | Text] = [f"{indent}{row.name}", *[d.output_names[row.output]] * several]
        cells += [_bar(row, largest), _percent(row.covariance_share)] * has_covariance
        cells += [_bar(row, largest)] * (has_share > has_covariance)
        cells += [_percent(row.share)] * has_share
        cells += [_number(row.deviation), *[_number(row.deviation_before)] * has_before]
        body.append(cells)
    print_table(names, body, left=1 + several + has_share)
    within = " within an output" if several else ""
    legend = _legend(has_share, has_covariance, has_before, within)
    Console().print(Text(legend, style="dim"))
    if left_out := rows[n_shown:]:
        # A sum over the shares of several outputs would mean nothing.
        typer.echo(f"... and {len(left_out)} more{'' if several else _their_share(left_out)}")
    sums = share_sums(ranking)
    said = ranking.sentences([row.subset or () for row in rows[:n_shown]], d.term_name)
    for sentence in [*([sums] if sums else []), *said]:
        typer.echo(sentence)


def _legend(has_share: bool, has_covariance: bool, has_before: bool, within: str) -> str:
    variance = f"share of the summed variance of the effects{within}"
    unknown = "" if has_share else ", unknown for some"
    parts = [f"variance: {variance}{unknown}"]
    parts += ["covariance: Cov(effect, model) / Var(model)"] * has_covariance
    parts += ["std. dev.: standard deviation of the effect"]
    return "; ".join([*parts, *["before: standard deviation before purification"] * has_before])


def _their_share(rows: list[TermRow]) -> str:
    share = sum(map(share_of, rows))
    return "" if np.isnan(share) else f" with {share:.2%} of the variance"


def _group_cells(d: Decomposition, group: EffectGroup, largest: float) -> list[str | Text]:
    """Return the name, the bar and the share of effects that cancel; outputs are added up."""
    bar = Text("█" * round(_BAR_WIDTH * min(abs(group.share) / largest, 1.0)), style="dim")
    output = ["all"] * (d.n_outputs > 1)
    deviation = _number(float(np.sqrt(group.variance)))
    return [group.joint_name, *output, bar, _percent(group.share), "", deviation]


def _bar(row: TermRow, largest: float) -> Text:
    share = abs(share_of(row))
    length = round(_BAR_WIDTH * share / largest) if largest > 0 and not np.isnan(share) else 0
    color = {1: "blue", 2: "dark_orange3"}.get(row.order, "green")
    return Text("█" * length, style=color)


def _percent(share: float) -> str:
    # Adding zero takes the sign off what is rounded to zero.
    return "" if np.isnan(share) else f"{share:z.2%}"


def _number(value: float) -> str:
    return "" if np.isnan(value) else in_digits(value)


def print_certificate(d: Decomposition, *more: str) -> None:
    """Print what must be known after `print_effects`, and the sentences of `more`, as a list."""
    sentences = [*verdict(d).lines, *filter(None, [measure_words(d)]), *more]
    console = Console()
    console.print("[bold]Certificate[/]" if sentences else "")
    for sentence in sentences:
        grid = Table.grid(padding=(0, 1))
        grid.add_row("-", Text(sentence))
        console.print(grid)
