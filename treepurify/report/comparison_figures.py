"""The figures of a comparison: main effects over each other, pairs beside each other."""

from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

from treepurify.comparing.comparison import Comparison
from treepurify.components import TensorComponent, is_drawable
from treepurify.decomposition import Decomposition
from treepurify.plots.comparisons import comparison
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.overlays import overlay
from treepurify.plots.pairs import PAIR_SIZE, color_limit, pair
from treepurify.plots.terms import find_tensor
from treepurify.report.pictures import Picture
from treepurify.report.scales import Scales
from treepurify.report.svg import new_axes

__all__ = ["Changed", "change_picture", "changed_most", "main_picture", "pair_row"]

_MOST_BARS = 15


class Changed(NamedTuple):
    """An effect that differs, with the output on which it differs most."""

    names: tuple[str, ...]
    term: str
    output: int
    distance: float


def changed_most(compared: Comparison, order: int) -> list[Changed]:
    """Return the effects of an order, the one that differs most first, each once."""
    first = compared.first
    found: dict[str, Changed] = {}
    for subset, row in zip(compared.subsets, compared.terms.to_dict("records"), strict=True):
        if len(subset) == order:
            names = tuple(first.feature_names[j] for j in subset)
            output = first.output_names.index(row["output"])
            changed = Changed(names, row["term"], output, float(row["distance"]))
            found.setdefault(row["term"], changed)
    return list(found.values())


def change_picture(compared: Comparison, prefix: str) -> str:
    """Return the size of the effects in both, and their distance, as a ``<figure>``."""
    rows = min(len(compared.terms), _MOST_BARS)
    ax = new_axes((5.8, max(0.3 * rows + 1.2, 1.9)))
    comparison(compared, top=_MOST_BARS, ax=ax)
    words = "Dots of the size of each effect in both, bars of their difference; numbers below."
    caption = f"Effects that differ most between {compared.names[0]} and {compared.names[1]}."
    return Picture(ax, prefix, escape(caption), words).html()


def main_picture(
    decompositions: Mapping[str, Decomposition], changed: Changed, scales: Scales
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
    caption = f"<b>{escape(changed.term)}</b>: {changed.distance:.3g} apart in root mean square."
    words = f"Main effect of {changed.term} in {', '.join(having)}, over each other."
    prefix = f"main-{next(iter(having.values())).feature_names.index(name)}"
    return Picture(ax, prefix, caption + (escape(note) if without else ""), words).html()


def pair_row(decompositions: Mapping[str, Decomposition], changed: Changed, scales: Scales) -> str:
    """Return a pair in each decomposition, under one colour scale, as ``<figure>`` elements."""
    having = {called: d for called, d in decompositions.items() if _is_drawn(d, changed.names)}
    tables = [find_tensor(d, changed.names, 2) for d in having.values()]
    limit = max(
        (color_limit(table.values[..., changed.output], table.mass) for table in tables),
        default=0.0,
    )
    pictures = []
    for i, (called, d) in enumerate(having.items()):
        ax = new_axes(PAIR_SIZE)
        key: Any = changed.names
        scale = scales.of(key[0]), scales.of(key[1])
        # By name, so that categories stand in one order in all of them.
        pair(d, key, output=changed.output, limit=limit or None, sort="name", scale=scale, ax=ax)
        positions = [d.feature_names.index(name) for name in changed.names]
        caption = f"<b>{escape(changed.term)}</b>, {escape(called)}. Hatched: no data."
        words = f"Heatmap of the pair {changed.term} in {called}."
        prefix = "-".join(["pair", str(i), *map(str, positions)])
        pictures.append(Picture(ax, prefix, caption, words).html())
    without = [called for called in decompositions if called not in having]
    note = f"<p>{escape(changed.term)} is no effect of {escape(' and '.join(without))}.</p>"
    body = "\n".join(pictures)
    return f'<div class="figures">\n{body}\n</div>{note if without else ""}' if pictures else ""


def _is_drawn(d: Decomposition, names: tuple[str, ...]) -> bool:
    component = d.components.get(tuple(sorted(d.feature_names.index(name) for name in names)))
    if component is None:
        return False
    return isinstance(component, TensorComponent) or is_drawable(component)


def _is_categorical(d: Decomposition, name: str) -> bool:
    return bool(find_tensor(d, name, 1).axes[0].is_categorical)
