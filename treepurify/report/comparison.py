"""Write decompositions side by side as one HTML page, with its figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.comparing.compare import compare
from treepurify.comparing.comparison import Comparison, comparison_sentences
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.comparisons import comparison
from treepurify.plots.labels import scale_sentence, with_class_names, with_minus
from treepurify.plots.overlays import overlay, overlay_size
from treepurify.plots.pairs import draw_pair, lay_out_pair, pair_size
from treepurify.plots.terms import find_tensor
from treepurify.progress import progress_report
from treepurify.report.effects import has_picture
from treepurify.report.figures import Figure, draw, figure_of
from treepurify.report.origin import (
    certificate_section,
    hash_files,
    making_facts,
    model_words,
    page_facts,
)
from treepurify.report.page import Section, Table, write_page
from treepurify.terms import listed_names
from treepurify.verdict import explained_words

# The number of curves that a reader can distinguish in one plot.
_MOST = 7
_MOST_BARS = 15
# Of the largest difference: effects that differ less are in the table, and have no picture.
_LEAST_DRAWN = 0.1
_INTRODUCTION = (
    "Main effects and interactions, side by side. Each is shifted to mean zero under one common "
    "distribution; the difference of two effects is the root mean square of the difference of "
    "their values. A difference is not an error: every decomposition adds up to its own model."
)

_Named = Mapping[str, Decomposition]


def write_comparison(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
    path: str | Path,
    *,
    X: Any = None,
    sample_weight: npt.ArrayLike | str | None = None,
    top: int = 6,
    command: str | None = None,
    files: Sequence[str | Path] = (),
    progress: bool = True,
) -> Path:
    """Write a report on the differences of two or more decompositions, as one HTML page.

    They can be of two models (champion and challenger), two periods of data, two distributions or
    two engines. All others are compared with the first. The page also states how each was made. It
    needs no network, no other file and no scripts, and can be printed as a document. Effects are on
    the margin scale.

    Parameters
    ----------
    decompositions : mapping of str to Decomposition, or sequence of Decomposition
        Two to seven decompositions with the same features and the same number of outputs, by name.
        In a sequence, they are named after their distributions, engines or models, if these differ.
    path : str or Path
        The file to write; an existing one is replaced.
    X : array_like, table of shape (n_rows, n_features), or rows in batches, optional
        Rows that represent the distribution used for the comparison. Required if the decompositions
        have different intervals, as those of two models do. See `treepurify.compare`.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative; for rows in batches, the name of the column of
        weights.
    top : int
        Number of main effects and of pairs to draw: those that differ most.
    command, files : optional
        As in `write_html`: the command or code that made them, and files whose SHA-256 hashes are
        printed.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInputError
        If there are fewer than two decompositions or more than seven, they have different features
        or outputs, `X` is required but not passed, or the folder does not exist.
    MissingDependencyError
        If matplotlib or Jinja2 is not installed.

    See Also
    --------
    treepurify.report.write_html : A report on one page.
    compare : Differences of two decompositions, effect by effect.

    Notes
    -----
    If a decomposition has a `spread`, main effects are drawn with a band for one more training. The
    table has at most 300 rows; the page states how many are left out.

    Examples
    --------
    >>> import numpy as np, tempfile, treepurify as tp
    >>> from pathlib import Path
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> both = {
    ...     f"{n} trees": tp.purify(GradientBoostingRegressor(n_estimators=n).fit(X, X[:, 0]), X)
    ...     for n in (5, 20)
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = tp.report.write_comparison(both, Path(folder) / "compared.html", X=X, top=1)
    ...     page.read_text(encoding="utf-8").count("<h2")
    6
    """
    target = read_path("path", path)
    named = {name: with_class_names(d) for name, d in _named(decompositions).items()}
    check_whole("top", top, 0)
    if command is not None and not isinstance(command, str):
        raise InvalidInputError(f"command must be text, got {brief(command)}")
    hashed = hash_files(files)
    (first, a), *others = named.items()
    compared = [
        compare(a, b, X, sample_weight=sample_weight, names=(first, name), progress=progress)
        for name, b in others
    ]
    makers: dict[str, Callable[[], Section | None]] = {
        "what is compared": partial(_overview, named, compared[0].mass),
        "what differs": partial(_changes, compared),
        "effects": partial(_effects, compared),
        "main effects": partial(_mains, named, _drawn(compared, 1, top)),
        "pairs": partial(_pairs, named, _drawn(compared, 2, top)),
        "certificates": partial(_certificates, named),
        "origin": partial(_making, named, hashed, command),
    }
    title = f"Compared: {listed_names(list(named))}"
    write_page(target, title, _INTRODUCTION, makers, progress_report(progress))
    return target


def _named(given: Any) -> dict[str, Decomposition]:
    """Return decompositions by name."""
    if not isinstance(given, Mapping | list | tuple):
        raise InvalidInputError(
            "decompositions must be a list of decompositions, or a dict of them by name; got "
            f"{brief(given)}"
        )
    listed = list(given.values()) if isinstance(given, Mapping) else list(given)
    for d in listed:
        check_result("each of decompositions", d, Decomposition)
    if not 2 <= len(listed) <= _MOST:
        raise InvalidInputError(
            f"expected 2 to {_MOST} decompositions to compare, got {len(listed)}"
        )
    names = list(given) if isinstance(given, Mapping) else _names(listed)
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError(f"names of decompositions must be text, got {brief(names)}")
    return dict(zip(names, listed, strict=True))


def _names(listed: Sequence[Decomposition]) -> list[str]:
    """Return the measures, engines or models where these differ, else numbers."""
    ways = (
        [d.measure for d in listed],
        [d.engine for d in listed],
        [model_words(d) for d in listed],
    )
    numbered = [f"number {i + 1}" for i in range(len(listed))]
    return next((names for names in ways if len(set(names)) == len(names) and all(names)), numbered)


def _overview(named: _Named, mass: str) -> Section:
    import pandas as pd

    facts: dict[str, Callable[[Decomposition], str]] = {
        "Model": model_words,
        "Distribution": lambda d: d.measure,
        "Scale of effects": scale_sentence,
        "Engine": lambda d: ", ".join(filter(None, [d.engine, d.origin.method])),
        "Explained": lambda d: explained_words(d) or "everything (no remainder)",
        "Rows": lambda d: f"{d.origin.n_rows:,}" if d.origin.n_rows else "none",
        "Effects": lambda d: str(len(d)),
        "Intercept": lambda d: ", ".join(with_minus(f"{v:.5g}") for v in d.intercept[:10]),
    }
    frame = pd.DataFrame(
        [[what, *(say(d) for d in named.values())] for what, say in facts.items()],
        columns=["", *named],
    )
    words = f"All are compared with {next(iter(named))}, averaged over {mass}."
    return Section(
        "What is compared", [words], [Table(frame, {name: name for name in ("", *named)})]
    )


def _changes(compared: Sequence[Comparison]) -> Section:
    parts = [_change(each) for each in compared]
    if len(parts) == 1:
        return Section("What differs", parts[0].text, parts[0].tables, parts[0].figures)
    return Section("What differs", parts=parts)


def _change(compared: Comparison) -> Section:
    """Return what differs between two: sentences, sizes as a figure, regions of other signs."""
    _, *said = comparison_sentences(compared, lambda value, form: with_minus(format(value, form)))
    figures, tables = [], []
    first, second = compared.names
    if len(compared.terms):
        ax = draw((5.8, max(0.3 * min(len(compared.terms), _MOST_BARS) + 1.2, 1.9)))
        comparison(compared, top=_MOST_BARS, ax=ax)
        caption = f"Effects that differ most between {first} and {second}."
        figures.append(figure_of(ax, caption, "Dots show both sizes, bars the difference."))
    if len(compared.places):
        headings = {
            "where": "Regions where the sign of a main effect differs",
            "output": "Output",
            "mass": "Share of the distribution",
            "first": first,
            "second": second,
        }
        if compared.first.n_outputs == 1:
            del headings["output"]
        tables.append(Table(compared.places, headings, percent=["mass"]))
    return Section(second, said, tables, figures)


def _effects(compared: Sequence[Comparison]) -> Section | None:
    """Return every effect with its size in each, and how far the others are from the first."""
    first = compared[0].names[0]
    frame, headings = None, {"term": "Effect", "output": "Output", "first": f"Size in {first}"}
    if compared[0].first.n_outputs == 1:
        del headings["output"]
    shares = []
    for number, each in enumerate(compared):
        name = each.names[1]
        columns = {
            "deviation_second": f"Size in {name}",
            "distance": f"{name}: difference",
            "relative_distance": "relative difference",
            "sign_changes": "sign differs",
            "distance_in_spreads": "in spreads",
        }
        own = each.terms.rename(columns={"deviation_first": "first"})
        own = own.rename(columns={column: f"{column}_{number}" for column in columns})
        headings |= {f"{column}_{number}": words for column, words in columns.items()}
        shares += [f"relative_distance_{number}", f"sign_changes_{number}"]
        kept = [column for column in own if column in headings or column == "output"]
        if frame is None:
            frame = own[kept]
        else:
            frame = frame.merge(own[kept].drop(columns="first"), how="outer", on=["term", "output"])
    if frame is None or not len(frame):
        return None
    distances = frame[[f"distance_{number}" for number in range(len(compared))]]
    order = np.argsort(-distances.max(axis=1).to_numpy(), kind="stable")
    notes = (
        "Sizes are standard deviations of effects; a difference is a root mean square, and a "
        "relative difference is its share of the larger of the two sizes. A sign differs where "
        f"both effects are larger than 2% of the standard deviation of the prediction of {first}."
    )
    if any(str(name).startswith("distance_in_spreads") for name in frame):
        notes += " In spreads: divided by the spread between trainings of both sides."
    table = Table(frame.iloc[order], headings, percent=shares, at_once=20)
    return Section("Effects side by side", [notes], [table])


class _Changed(NamedTuple):
    """An effect that differs, with the output on which it differs most."""

    names: tuple[str, ...]
    term: str
    output: int
    distance: float


def _drawn(compared: Sequence[Comparison], order: int, top: int) -> list[_Changed]:
    """Return the effects of an order that differ most in any comparison, each once."""
    every = []
    for each in compared:
        names = each.first.feature_names
        for subset, row in zip(each.subsets, each.terms.to_dict("records"), strict=True):
            if len(subset) == order:
                output = each.first.output_names.index(row["output"])
                key = tuple(names[j] for j in subset)
                every.append(_Changed(key, row["term"], output, float(row["distance"])))
    found: dict[tuple[str, ...], _Changed] = {}
    for changed in sorted(every, key=lambda each: -each.distance):
        found.setdefault(changed.names, changed)
    least = _LEAST_DRAWN * max((float(one.terms["distance"].max()) for one in compared), default=0)
    return [changed for changed in [*found.values()][:top] if changed.distance >= least]


def _mains(named: _Named, drawn: Sequence[_Changed]) -> Section | None:
    figures = [figure for changed in drawn if (figure := _overlay(named, changed)) is not None]
    words = "The main effects that differ most, each shifted to mean zero."
    if any(d.spread is not None for d in named.values()):
        words += " Bands show where one more training would lie."
    return Section("Main effects", [words], figures=figures) if figures else None


def _overlay(named: _Named, changed: _Changed) -> Figure | None:
    """Return a main effect as all that have it show it; None where it cannot be drawn."""
    (name,) = changed.names
    having = {called: d for called, d in named.items() if _is_drawn(d, changed.names)}
    tables = [find_tensor(d, name, 1) for d in having.values()]
    if len({table.axes[0].is_categorical for table in tables}) != 1:
        return None
    ax = draw(overlay_size(tables[0], len(tables)))
    overlay(having, name, output=changed.output, ax=ax)
    without = [called for called in named if called not in having]
    caption = f"{changed.term}: {changed.distance:.3g} apart (root mean square)."
    caption += f" Without it: {listed_names(without)}." if without else ""
    return figure_of(ax, caption, f"Main effect of {changed.term} in {', '.join(having)}.")


def _pairs(named: _Named, drawn: Sequence[_Changed]) -> Section | None:
    parts = [Section(each.term, figures=_side_by_side(named, each)) for each in drawn]
    parts = [part for part in parts if part.figures]
    words = "The pairs that differ most. Heatmaps of one pair share their colour scale."
    return Section("Pairs", [words], parts=parts) if parts else None


def _side_by_side(named: _Named, changed: _Changed) -> list[Figure]:
    """Return a pair in each decomposition that has it, under one colour scale."""
    having = {called: d for called, d in named.items() if _is_drawn(d, changed.names)}
    across, up = changed.names
    first = next(iter(having.values()), None)
    drawn = {
        called: lay_out_pair(d, (across, up), changed.output, like=first)
        for called, d in having.items()
    }
    limit = max((own.limit for own in drawn.values()), default=1.0)
    figures = []
    for called, own in drawn.items():
        ax = draw_pair(own, draw(pair_size(own.component)))
        ax.collections[0].set_clim(-limit, limit)
        caption = f"{changed.term}, {called}. Hatched: no data."
        figures.append(figure_of(ax, caption, f"Heatmap of {changed.term} in {called}."))
    return figures


def _is_drawn(d: Decomposition, names: tuple[str, ...]) -> bool:
    subset = tuple(sorted(d.feature_names.index(name) for name in names))
    return subset in d.components and has_picture(d, subset)


def _certificates(named: _Named) -> Section:
    parts = []
    for name, d in named.items():
        made = certificate_section(d)
        text = ["This engine makes no certificate."] if made is None else made.text
        inside = () if made is None else made.parts
        parts.append(
            Section(name, text, parts=inside, state="part" if made is None else made.state)
        )
    return Section("Certificates", parts=parts)


def _making(named: _Named, hashed: Sequence[tuple[str, str]], command: str | None) -> Section:
    parts = [
        Section(name, facts=making_facts(d, with_call=command is None)) for name, d in named.items()
    ]
    facts = page_facts(list(named.values()), hashed)
    return Section("How each was made", facts=facts, parts=parts, code=command or "")
