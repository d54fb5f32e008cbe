"""The figures of a report, with their captions and their descriptions in words."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from treepurify.components import Component, TensorComponent, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.plots import importance, main_effect, pair, together
from treepurify.plots.importances import importance_size
from treepurify.plots.labels import number_words, with_minus
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.pairs import PAIR_SIZE, color_limit
from treepurify.plots.terms import raw_effect
from treepurify.plots.together import TOGETHER_SIZE
from treepurify.ranking import EffectGroup
from treepurify.report.effects_table import TermRow, share_of
from treepurify.report.scales import Scales
from treepurify.report.svg import inline_svg, new_axes
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Picture",
    "band_picture",
    "importance_picture",
    "main_effect_picture",
    "most_important",
    "pair_pictures",
    "together_picture",
]


@dataclass(frozen=True)
class Picture:
    """A figure with its caption and a description in words.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes of the figure.
    prefix : str
        Start of every id in it, which must be unique in the page.
    caption, alternative : str
        The caption, and what the figure shows for those who do not see it.
    """

    ax: "Axes"
    prefix: str
    caption: str
    alternative: str

    def html(self) -> str:
        """Return it as a ``<figure>``."""
        figure = self.ax.get_figure(root=True)
        svg = inline_svg(figure, self.prefix, self.alternative) if figure is not None else ""
        return f"<figure>\n{svg}\n<figcaption>{self.caption}</figcaption>\n</figure>"


def most_important(rows: list[TermRow], d: Decomposition, order: int, top: int) -> list[TermRow]:
    """Return the `top` effects of an order, each with the output on which it is largest."""
    first: dict[str, TermRow] = {}
    for row in rows:
        drawable = row.subset is not None and _has_figure(d.components[row.subset])
        # Of an unknown variance nothing says that there is nothing to see.
        if row.order == order and drawable and row.deviation != 0:
            first.setdefault(row.name, row)
    return list(first.values())[:top]


def _has_figure(component: Component) -> bool:
    return isinstance(component, TensorComponent) or is_drawable(component)


def importance_picture(d: Decomposition, top: int) -> str:
    """Return the bars of importance as a ``<figure>``."""
    ax = new_axes(importance_size(d, top))
    importance(d, top=top, ax=ax)
    alternative = "Bars of the share of variance of each effect; the table below has the numbers."
    together = "" if d.n_outputs == 1 else ", all outputs taken together"
    caption = f"Share of {d.ranking.of_what}{together}."
    if d.n_outputs > 1:
        caption += " The table has the share of each effect within its output."
    return Picture(ax, "importance", caption, alternative).html()


def main_effect_picture(d: Decomposition, row: TermRow, scales: Scales) -> str:
    """Return a main effect before and after purification as a ``<figure>``."""
    component = tabulate(d.components[row.subset or ()], d.inputs)
    if component is None:
        return ""
    ax = new_axes(main_effect_size(component))
    scale = scales.of(d.feature_names[component.features[0]])
    main_effect(d, component.features[0], output=row.output, scale=scale, ax=ax)
    raw = raw_effect(d, component)
    words = f"Main effect of {row.name}: {_range(component.values[..., row.output])}"
    if raw is not None:
        words += f"; before purification {_range(raw[..., row.output])}"
    return Picture(
        ax,
        f"main-{component.features[0]}",
        _caption(d, row) + _cells_in_words(d, component),
        f"{words}.",
    ).html()


def band_picture(d: Decomposition, row: TermRow, scales: Scales) -> str:
    """Return a main effect with the band of several trainings as a ``<figure>``."""
    (feature,) = row.subset or ()
    component = tabulate(d.components[feature,], d.inputs)
    if component is None or d.spread is None:
        return ""
    ax = new_axes(main_effect_size(component))
    scale = scales.of(d.feature_names[feature])
    main_effect(d, feature, output=row.output, before=False, scale=scale, ax=ax)
    lower, upper = (bound[..., row.output] for bound in d.spread.band(feature))
    words = f"Main effect of {row.name} with its band, which is {_range(upper - lower)} wide."
    return Picture(ax, f"band-{feature}", _caption(d, row), words).html()


def pair_pictures(d: Decomposition, row: TermRow, scales: Scales) -> str:
    """Return a pair after and, where known, before purification as ``<figure>`` elements."""
    component = tabulate(d.components[row.subset or ()], d.inputs)
    if component is None:
        return ""
    raw = raw_effect(d, component)
    key = _left_to_right(component)
    along = scales.of(d.feature_names[key[0]]), scales.of(d.feature_names[key[1]])
    pictures = []
    for table, before in ((component.values, False), (raw, True)):
        if table is None:
            continue
        ax = new_axes(PAIR_SIZE)
        pair(d, key, output=row.output, before=before, scale=along, ax=ax)
        state = "before purification" if before else "purified"
        words = f"Heatmap of the pair {row.name}, {state}: {_range(table[..., row.output])}."
        scale = _scale_in_words(table[..., row.output], component.mass)
        caption = f"{_caption(d, row)} {scale} Hatched: no data.{_cells_in_words(d, component)}"
        if before:
            caption = f"The same pair as the model carries it, main effects mixed in. {scale}"
        prefix = "-".join(["pair", *map(str, key), "before" if before else "after"])
        pictures.append(Picture(ax, prefix, caption, words).html())
    return "\n".join(pictures)


def together_picture(d: Decomposition, group: EffectGroup) -> str:
    """Return effects that cancel, and their sum, as a ``<figure>``."""
    spreads = [np.sum(d.components[subset].variance) for subset in group.members]
    output = int(np.argmax(np.sum([d.components[s].variance for s in group.members], axis=0)))
    ax = new_axes(TOGETHER_SIZE)
    together(d, *group.members, output=output, ax=ax)
    words = (
        f"The effects of {', '.join(group.names)} on rows, with standard deviations "
        f"{', '.join(f'{np.sqrt(value):.3g}' for value in spreads)}, and their sum, with "
        f"{np.sqrt(group.variance):.3g}."
    )
    prefix = "-".join(["together", *(str(j) for subset in group.members for j in subset)])
    caption = f"<b>{escape(group.name)}</b>: each effect on its own, and what they add together."
    return Picture(ax, prefix, caption, words).html()


def _left_to_right(component: TensorComponent) -> tuple[int, int]:
    first, second = component.features
    names = [axis.name.lower() for axis in component.axes]
    # A map has its north at the top.
    is_map = names[0].startswith("lat") and names[1].startswith("lo")
    return (second, first) if is_map else (first, second)


def _caption(d: Decomposition, row: TermRow) -> str:
    of_what = "of the sum of variances"
    if not np.isnan(row.covariance_share):
        of_what = "of the model's variance, by covariance"
    if d.n_outputs == 1:
        return f"<b>{escape(row.name)}</b>{_share_in_words(share_of(row), of_what)}."
    output = escape(d.output_names[row.output])
    words = _share_in_words(share_of(row), f"{of_what}, on this output")
    return f"<b>{escape(row.name)}</b>, {output}{words}."


def _share_in_words(share: float, of_what: str) -> str:
    return "" if np.isnan(share) else f": {with_minus(f'{share:.1%}')} {of_what}"


def _scale_in_words(values: Array, mass: Array) -> str:
    """Return the range of what has data, and where the colours end if that is before it."""
    shown = values[mass > 0] if np.any(mass > 0) else values
    limit = color_limit(values, mass)
    low, high, end = (number_words(value, 3) for value in (shown.min(), shown.max(), limit))
    ends = f"; colours end at \u00b1{end}" if np.abs(shown).max() > limit else ""
    return f"From {low} to {high}{ends}."


def _cells_in_words(d: Decomposition, table: TensorComponent) -> str:
    """Return where an effect that is not a table was evaluated; nothing for levels alone."""
    numeric = [axis.n_regular for axis in table.axes if not axis.is_categorical]
    if isinstance(d.components[table.features], TensorComponent) or not numeric:
        return ""
    cells = " by ".join(map(str, numeric))
    return f" No table of cells: drawn by its values at the middles of {cells} cells."


def _range(values: Array) -> str:
    return f"from {values.min():.4g} to {values.max():.4g}"
