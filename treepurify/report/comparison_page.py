"""Write decompositions side by side as one self-contained HTML page, with its figures."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_result, check_whole, read_path
from treepurify.comparing.compare import compare
from treepurify.comparing.comparison import Comparison, comparison_sentences
from treepurify.components import TensorComponent, is_drawable
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_layout import Scale
from treepurify.plots.comparisons import comparison
from treepurify.plots.labels import number_words, scale_sentence, with_class_names, with_minus
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.overlays import overlay
from treepurify.plots.pairs import PAIR_SIZE, color_limit, draw_pair
from treepurify.plots.terms import find_tensor
from treepurify.progress import progress_report
from treepurify.report.common_axes import (
    can_be_joined,
    common_scale,
    on_common_axes,
)
from treepurify.report.making import hash_files, making_facts, model_words, page_facts
from treepurify.report.parts import (
    command_block,
    facts_list,
    page_text,
    plain_table,
    section,
    verdict_parts,
    written_sections,
)
from treepurify.report.pictures import Picture, new_axes
from treepurify.report.scales import Scales, read_scales
from treepurify.storage import write_atomically
from treepurify.terms import listed_names
from treepurify.verdict import Verdict, explained_words, verdict

__all__ = ["write_comparison"]

# The number of curves that a reader can distinguish in one plot.
_MOST = 7
_MOST_TABLE_ROWS = 300
_MOST_PLACES = 20
# Of the largest difference: effects that differ less are in the table, and have no picture.
_LEAST_DRAWN = 0.1
_INTRODUCTION = (
    "Main effects and interactions, side by side. Each is shifted to mean zero under one common "
    "distribution; the difference of two effects is the root mean square of the difference of "
    "their values. A difference is not an error: every decomposition adds up to its own model."
)

_Named = Mapping[str, Decomposition]

_MOST_BARS = 15


def write_comparison(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
    path: str | Path,
    *,
    X: Any = None,
    sample_weight: npt.ArrayLike | str | None = None,
    top: int = 6,
    command: str | None = None,
    files: Sequence[str | Path] = (),
    scale: Scale | Mapping[str, Scale] = "auto",
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
    scale : str or mapping of str to str
        As in `write_html`: one scale for all features, or a mapping from names of features.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Path

    Raises
    ------
    InvalidInputError
        If there are fewer than two decompositions or more than seven, they have different features
        or outputs, `X` is required but not passed, the folder does not exist, or `scale` cannot be
        used.
    MissingDependencyError
        If matplotlib is not installed.

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
    scales = read_scales(scale, a.feature_names)
    compared = [
        compare(a, b, X, sample_weight=sample_weight, names=(first, name), progress=progress)
        for name, b in others
    ]
    parts: dict[str, Callable[[], str]] = {
        "what is compared": lambda: section(
            "overview", "What is compared", _overview(named, compared[0].mass)
        ),
        "what differs": lambda: section("changes", "What differs", *_changes(compared)),
        "effects": lambda: _effects(compared),
        "main effects": lambda: _mains(named, _drawn(compared, 1, top), scales),
        "pairs": lambda: _pairs(named, _drawn(compared, 2, top), scales),
        "certificates": lambda: section("certificates", "Certificates", *_certificates(named)),
        "origin": lambda: section(
            "making", "How each was made", *_making(named, hashed, command), command_block(command)
        ),
    }
    sections = written_sections(parts, progress_report(progress))
    title = f"Compared: {listed_names(list(named))}"
    write_atomically(target, page_text(title, _INTRODUCTION, sections).encode("utf-8"))
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


def _overview(named: _Named, mass: str) -> str:
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
    rows = [[what, *(say(d) for d in named.values())] for what, say in facts.items()]
    table = plain_table("What is compared", ["", *named], rows)
    first = next(iter(named))
    words = f"All are compared with {first}, averaged over {mass}."
    return f'<div class="words">{table}</div>\n<p>{escape(words)}</p>'


def _changes(compared: Sequence[Comparison]) -> list[str]:
    parts = []
    for i, each in enumerate(compared):
        if len(compared) > 1:
            parts.append(f"<h3>{escape(each.names[1])}</h3>")
        said = comparison_sentences(each, lambda value, form: with_minus(format(value, form)))
        lines = "\n".join(f"<li>{escape(line)}</li>" for line in said[1:])
        parts.append(f"<ul>\n{lines}\n</ul>")
        if len(each.terms):
            parts.append(_change_picture(each, f"change-{i}"))
        if len(each.places):
            parts.append(_places(each))
    return parts


def _change_picture(compared: Comparison, prefix: str) -> str:
    """Return the size of the effects in both, and their distance, as a ``<figure>``."""
    rows = min(len(compared.terms), _MOST_BARS)
    ax = new_axes((5.8, max(0.3 * rows + 1.2, 1.9)))
    comparison(compared, top=_MOST_BARS, ax=ax)
    words = "Dots show the two sizes of each effect, bars the difference; numbers below."
    caption = f"Effects that differ most between {compared.names[0]} and {compared.names[1]}."
    return Picture(ax, prefix, escape(caption), words).html()


def _places(compared: Comparison) -> str:
    several = compared.first.n_outputs > 1
    head = [
        "Regions where the sign of a main effect differs",
        *["Output"] * several,
        "Share of the distribution",
    ]
    rows = [
        [
            row["where"],
            *[row["output"]] * several,
            f"{row['mass']:.1%}",
            number_words(row["first"], 3),
            number_words(row["second"], 3),
        ]
        for row in compared.places.head(_MOST_PLACES).to_dict("records")
    ]
    label = f"Regions where signs differ between {compared.names[0]} and {compared.names[1]}"
    table = plain_table(label, [*head, *compared.names], rows)
    left_out = len(compared.places) - len(rows)
    return table + (f"<p>{left_out} smaller regions are not listed.</p>" if left_out > 0 else "")


def _effects(compared: Sequence[Comparison]) -> str:
    """Return every effect with its size in each, and how far the others are from the first."""
    tables = [_by_term(each) for each in compared]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    if not keys:
        return ""
    farthest = {key: max(t[key]["distance"] for t in tables if key in t) for key in keys}
    keys.sort(key=lambda key: -farthest[key])
    several = compared[0].first.n_outputs > 1
    head = ["Effect", *["Output"] * several, f"Size in {compared[0].names[0]}"]
    for each in compared:
        name = each.names[1]
        head += [f"Size in {name}", f"{name}: difference", "relative difference", "sign differs"]
        head += ["in spreads"] * ("distance_in_spreads" in each.terms)
    rows = [
        _effect_row(key, tables, [each.terms for each in compared], several=several)
        for key in keys[:_MOST_TABLE_ROWS]
    ]
    left_out = len(keys) - len(rows)
    notes = (
        "Sizes are standard deviations of effects; a difference is a root mean square, and a "
        "relative difference is its share of the larger of the two sizes. A sign differs where "
        "both effects are larger than 2% of the standard deviation of the prediction of "
        f"{compared[0].names[0]}."
    )
    if any("distance_in_spreads" in each.terms for each in compared):
        notes += (
            " In spreads: the difference divided by the spread between trainings of both sides."
        )
    if left_out > 0:
        notes += f" {left_out} effects that differ less are not listed."
    table = plain_table("Effects side by side", head, rows, is_html=True)
    return section("effects", "Effects side by side", table, f"<p>{escape(notes)}</p>")


def _by_term(compared: Comparison) -> dict[tuple[str, str], dict[Any, Any]]:
    return {(row["term"], row["output"]): row for row in compared.terms.to_dict("records")}


def _effect_row(
    key: tuple[str, str],
    tables: Sequence[dict[tuple[str, str], dict[Any, Any]]],
    frames: Sequence[Any],
    *,
    several: bool,
) -> list[str]:
    known = next(table[key] for table in tables if key in table)
    cells = [key[0], *[f"<td>{escape(key[1])}</td>"] * several]
    cells.append(_cell(known["deviation_first"]))
    for table, frame in zip(tables, frames, strict=True):
        row = table.get(key)
        has_spreads = "distance_in_spreads" in frame
        if row is None:
            cells += ["<td></td>"] * (4 + has_spreads)
            continue
        share = f"{min(row['relative_distance'], 1.0):.1%}"
        bar = f'<span class="bar" aria-hidden="true"><i style="width: {share}"></i></span>'
        cells += [
            _cell(row["deviation_second"]),
            _cell(row["distance"]),
            f'<td class="share">{row["relative_distance"]:.0%}{bar}</td>',
            f"<td>{row['sign_changes']:.1%}</td>",
        ]
        cells += [_cell(row.get("distance_in_spreads", np.nan))] * has_spreads
    return cells


def _cell(value: float) -> str:
    return f"<td>{'' if np.isnan(value) else number_words(value, 3)}</td>"


class _Changed(NamedTuple):
    """An effect that differs, with the output on which it differs most."""

    names: tuple[str, ...]
    term: str
    output: int
    distance: float


def _drawn(compared: Sequence[Comparison], order: int, top: int) -> list[_Changed]:
    """Return the effects of an order that differ most in any comparison, each once."""
    found: dict[tuple[str, ...], _Changed] = {}
    for changed in sorted(
        (each for one in compared for each in _changed_most(one, order)),
        key=lambda each: -each.distance,
    ):
        found.setdefault(changed.names, changed)
    drawn = list(found.values())[:top]
    least = _LEAST_DRAWN * max((float(one.terms["distance"].max()) for one in compared), default=0)
    return [changed for changed in drawn if changed.distance >= least]


def _changed_most(compared: Comparison, order: int) -> list[_Changed]:
    """Return the effects of an order, the one that differs most first, each once."""
    first = compared.first
    found: dict[str, _Changed] = {}
    for subset, row in zip(compared.subsets, compared.terms.to_dict("records"), strict=True):
        if len(subset) == order:
            names = tuple(first.feature_names[j] for j in subset)
            output = first.output_names.index(row["output"])
            changed = _Changed(names, row["term"], output, float(row["distance"]))
            found.setdefault(row["term"], changed)
    return list(found.values())


def _mains(named: _Named, drawn: Sequence[_Changed], scales: Scales) -> str:
    figures = [figure for changed in drawn if (figure := _main_picture(named, changed, scales))]
    if not figures:
        return ""
    words = "The main effects that differ most, each shifted to mean zero."
    if any(d.spread is not None for d in named.values()):
        words += " Bands show where one more training would lie."
    body = "\n".join(figures)
    return section(
        "mains", "Main effects", f"<p>{words}</p>", f'<div class="figures">\n{body}\n</div>'
    )


def _main_picture(
    decompositions: Mapping[str, Decomposition], changed: _Changed, scales: Scales
) -> str:
    """Return a main effect as all that have it show it; empty where it cannot be drawn."""
    (name,) = changed.names
    having = {called: d for called, d in decompositions.items() if _is_drawn(d, changed.names)}
    if not having or len({_is_categorical(d, name) for d in having.values()}) > 1:
        return ""
    size = main_effect_size(find_tensor(next(iter(having.values())), name, 1))
    ax = new_axes((size[0] + 0.6, size[1]))
    overlay(having, name, output=changed.output, scale=scales.of(name), ax=ax)
    without = [called for called in decompositions if called not in having]
    note = f" {' and '.join(without)} {'have' if len(without) > 1 else 'has'} no such effect."
    caption = f"<b>{escape(changed.term)}</b>: {changed.distance:.3g} apart (root mean square)."
    words = f"Main effect of {changed.term} in {', '.join(having)}, overlaid."
    prefix = f"main-{next(iter(having.values())).feature_names.index(name)}"
    return Picture(ax, prefix, caption + (escape(note) if without else ""), words).html()


def _is_categorical(d: Decomposition, name: str) -> bool:
    return bool(find_tensor(d, name, 1).axes[0].is_categorical)


def _pairs(named: _Named, drawn: Sequence[_Changed], scales: Scales) -> str:
    rows = [row for changed in drawn if (row := _pair_row(named, changed, scales))]
    if not rows:
        return ""
    words = "The pairs that differ most. Heatmaps of one pair share their axes and colour scale."
    return section("pairs", "Pairs", f"<p>{words}</p>", *rows)


def _pair_row(
    decompositions: Mapping[str, Decomposition], changed: _Changed, scales: Scales
) -> str:
    """Return a pair in each decomposition, under one colour scale, as ``<figure>`` elements."""
    having = {called: d for called, d in decompositions.items() if _is_drawn(d, changed.names)}
    tables = [find_tensor(d, changed.names, 2) for d in having.values()]
    limit = max(
        (color_limit(t.values[..., changed.output], t.mass, t.axes) for t in tables),
        default=0.0,
    )
    drawn = [*having.values()]
    across, up = changed.names
    asked = (scales.of(across), scales.of(up))
    scale: tuple[Scale, Scale] = asked
    if can_be_joined(drawn, changed.names, tables):
        drawn = on_common_axes(drawn, tables)
        first = find_tensor(drawn[0], changed.names, 2)
        scale = (common_scale(first, across, asked[0]), common_scale(first, up, asked[1]))
    pictures = []
    for i, (called, d) in enumerate(zip(having, drawn, strict=True)):
        ax = new_axes(PAIR_SIZE)
        key: Any = changed.names
        options: dict[str, Any] = {"limit": limit or None, "scale": scale, "by_name": True}
        draw_pair(d, key, output=changed.output, **options, ax=ax)
        positions = [d.feature_names.index(name) for name in changed.names]
        caption = f"<b>{escape(changed.term)}</b>, {escape(called)}. Hatched: no data."
        words = f"Heatmap of the pair {changed.term} in {called}."
        prefix = "-".join(["pair", str(i), *map(str, positions)])
        pictures.append(Picture(ax, prefix, caption, words).html())
    without = [called for called in decompositions if called not in having]
    note = f"<p>{escape(changed.term)} is not an effect of {escape(' and '.join(without))}.</p>"
    body = "\n".join(pictures)
    return f'<div class="figures">\n{body}\n</div>{note if without else ""}' if pictures else ""


def _is_drawn(d: Decomposition, names: tuple[str, ...]) -> bool:
    component = d.components.get(tuple(sorted(d.feature_names.index(name) for name in names)))
    if component is None:
        return False
    return isinstance(component, TensorComponent) or is_drawable(component)


def _certificates(named: _Named) -> list[str]:
    parts = []
    for name, d in named.items():
        parts.append(f"<h3>{escape(name)}</h3>")
        nothing = Verdict("part", ("This engine makes no certificate.",))
        found = verdict(d)
        figures = [] if d.certificate is None else d.certificate.details()
        parts += verdict_parts(found if found.lines else nothing, figures)
    return parts


def _making(named: _Named, hashed: Sequence[tuple[str, str]], command: str | None) -> list[str]:
    parts = []
    for name, d in named.items():
        parts += [
            f"<h3>{escape(name)}</h3>",
            facts_list(making_facts(d, with_call=command is None)),
        ]
    return [*parts, "<h3>This page</h3>", facts_list(page_facts(list(named.values()), hashed))]
