"""The figures of a report as SVG, with their captions and their descriptions in words."""

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

import numpy as np

from treepurify.collinear import CollinearEffects
from treepurify.components import Component, TensorComponent, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.plots import importance, main_effect, pair, together
from treepurify.plots.importances import importance_size
from treepurify.plots.labels import with_minus
from treepurify.plots.limits import cells_that_count
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.pairs import PAIR_SIZE
from treepurify.plots.style import PlaceOf, import_matplotlib
from treepurify.plots.terms import raw_effect
from treepurify.plots.together import TOGETHER_SIZE
from treepurify.report.effects_table import TermRow, share_of
from treepurify.report.parts import PAGE_COLORS
from treepurify.report.scales import Scales
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Picture",
    "band_picture",
    "importance_picture",
    "inline_svg",
    "main_effect_picture",
    "most_important",
    "new_axes",
    "pair_picture",
    "together_picture",
]

# Pixels per inch of what is stored as pixels: fewer where there are too many cells to see each.
_RESOLUTION, _COARSE_RESOLUTION = 200, 120
_MANY_CELLS = 40_000
# In points, at the edges of a figure.
_MARGIN = 3.0
# As many as one byte can number.
_MOST_COLORS = 256


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


def most_important(
    rows: list[TermRow], d: Decomposition, order: int, top: int, least_share: float = 0.0
) -> list[TermRow]:
    """Return the `top` effects of an order, each with the output on which it is largest.

    Effects whose share is known to be below `least_share` are left out.
    """
    first: dict[str, TermRow] = {}
    for row in rows:
        drawable = row.subset is not None and _has_figure(d.components[row.subset])
        # Of an unknown variance nothing says that there is nothing to see.
        is_visible = row.deviation != 0 and not abs(share_of(row)) < least_share
        if row.order == order and drawable and is_visible:
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
    effects = component.values[..., row.output]
    counts = cells_that_count(effects, component.mass, component.axes)
    words = f"Main effect of {row.name}: {_range(effects[counts])}"
    if raw is not None:
        words += f"; before purification {_range(raw[..., row.output][counts])}"
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
    words = f"Main effect of {row.name} with its band; the width is {_range(upper - lower)}."
    return Picture(ax, f"band-{feature}", _caption(d, row), words).html()


def pair_picture(d: Decomposition, row: TermRow, scales: Scales) -> str:
    """Return a pair as a ``<figure>``."""
    component = tabulate(d.components[row.subset or ()], d.inputs)
    if component is None:
        return ""
    key = _left_to_right(component)
    along = scales.of(d.feature_names[key[0]]), scales.of(d.feature_names[key[1]])
    ax = new_axes(PAIR_SIZE)
    pair(d, key, output=row.output, scale=along, ax=ax)
    # The colours of merged cells, which have no table.
    found = re.findall(r"from \S+ to \S+", ax.get_title())
    words = f"Heatmap of the pair {row.name}: {''.join(found[-1:])}."
    caption = f"{_caption(d, row)} Hatched: no data.{_cells_in_words(d, component)}"
    return Picture(ax, "-".join(["pair", *map(str, key)]), caption, words).html()


def together_picture(d: Decomposition, group: CollinearEffects) -> str:
    """Return collinear effects, and their sum, as a ``<figure>``; empty without rows."""
    if d.grid_rows is None:
        return ""
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
    caption = f"<b>{escape(group.name)}</b>: each effect and their sum."
    return Picture(ax, prefix, caption, words).html()


def new_axes(size: tuple[float, float]) -> "Axes":
    """Return the axes of a figure of `size` inches that no window and no list of pyplot holds."""
    figure = import_matplotlib("figure").Figure(figsize=size, layout="constrained")
    made: Axes = figure.add_subplot()
    return made


def inline_svg(figure: "Figure", prefix: str, alternative: str) -> str:
    """Return a figure as an ``<svg>`` element.

    Parameters
    ----------
    figure : matplotlib Figure
        The figure.
    prefix : str
        Start of every id in it, which must be unique in the page.
    alternative : str
        What the figure shows, for those who do not see it.
    """
    buffer = StringIO()
    figure.set_dpi(_COARSE_RESOLUTION if _most_cells(figure) > _MANY_CELLS else _RESOLUTION)
    for patch in [figure.patch, *(ax.patch for ax in figure.axes)]:
        patch.set(facecolor="none", edgecolor="none")
    _fill(figure)
    # `savefig` draws everything twice, once to look for what stands out; the layout leaves nothing.
    canvas = import_matplotlib("backends.backend_svg").FigureCanvasSVG(figure)
    with import_matplotlib("style").context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        canvas.print_svg(buffer, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<defs>\s*<style.*?</defs>", "", text, flags=re.S)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r"data:image/png;base64,([^\"]*)", _with_palette, text)
    # Smoothed edges would let the ground shine through between the cells of a heatmap.
    text = re.sub(r'(<g id="\w*QuadMesh_\d+")', r'\1 shape-rendering="crispEdges"', text)
    box = re.search(r'viewBox="[^"]*"', text)
    opening = f'<svg {box.group() if box else ""} role="img" aria-label="{escape(alternative)}">'
    text = re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1)
    return _page_style(_own_ids(text, prefix)).strip()


def _fill(figure: "Figure") -> None:
    """Let the axes of a figure that has no others fill it with all that belongs to them.

    A layout engine of matplotlib does the same in twice the time: it measures again, since it does
    not know what grows with the axes, as a strip of a tenth of their width does, and labels do not.
    """
    (ax,) = figure.axes
    # The figures know by the engine how wide the axes will be; here nothing moves them any more.
    figure.set_layout_engine("none")
    ax.set_axes_locator(None)  # type: ignore[arg-type]
    needed = ax.get_tightbbox(for_layout_only=True)
    growing = [
        child.bbox for child in ax.child_axes if not isinstance(child.get_axes_locator(), PlaceOf)
    ]
    if needed is None:
        return
    union = import_matplotlib("transforms").Bbox.union([ax.bbox, *growing])
    margin = _MARGIN / 72.0 * figure.dpi
    ends = np.array([needed.min - union.min, needed.max - union.max])
    corners = np.array([ax.bbox.min, ax.bbox.max])
    size = corners[1] - corners[0]
    sides = np.array([union.min - corners[0], union.max - corners[1]]) / size
    whole = np.array([figure.bbox.width, figure.bbox.height])
    size = (whole - 2 * margin + ends[0] - ends[1]) / (1.0 + sides[1] - sides[0])
    start = margin - ends[0] - sides[0] * size
    ax.set_position((*(start / whole), *(size / whole)))


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


def _cells_in_words(d: Decomposition, table: TensorComponent) -> str:
    """Return where an effect that is not a table was evaluated; nothing for levels alone."""
    numeric = [axis.n_regular for axis in table.axes if not axis.is_categorical]
    if isinstance(d.components[table.features], TensorComponent) or not numeric:
        return ""
    cells = " by ".join(map(str, numeric))
    return (
        f" This effect is not a table; its values at the midpoints of {cells} intervals are drawn."
    )


def _range(values: Array) -> str:
    return f"from {values.min():.4g} to {values.max():.4g}"


def _most_cells(figure: "Figure") -> int:
    meshes = [mesh.get_array() for ax in figure.axes for mesh in ax.collections]
    return max((values.size for values in meshes if values is not None), default=0)


def _with_palette(match: re.Match[str]) -> str:
    """Store pixels by the number of their colour, without loss, where that is smaller."""
    from PIL import Image

    stored = b64decode(match.group(1))
    pixels = np.ascontiguousarray(Image.open(BytesIO(stored)).convert("RGBA"))
    colors, number = np.unique(pixels.view(np.uint32), return_inverse=True)
    if len(colors) <= _MOST_COLORS:
        parts = colors.view(np.uint8).reshape(-1, 4)
        image = Image.fromarray(number.reshape(pixels.shape[:2]).astype(np.uint8))
        image.putpalette(parts[:, :3].tobytes())
        buffer = BytesIO()
        image.save(buffer, "png", transparency=parts[:, 3].tobytes(), optimize=True)
        stored = min(stored, buffer.getvalue(), key=len)
    return f"data:image/png;base64,{b64encode(stored).decode('ascii')}"


def _own_ids(text: str, prefix: str) -> str:
    """Keep the ids that something refers to, and make them unique in the page."""
    used = set(re.findall(r'(?:url\(|href=")#([\w.-]+)', text))

    def rename(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match.group(1)}"' if match.group(1) in used else ""

    text = re.sub(r' id="([^"]*)"', rename, text)
    return re.sub(r'(url\(|href=")#', rf"\g<1>#{prefix}-", text)


def _page_style(text: str) -> str:
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    for color, name in PAGE_COLORS.items():
        text = text.replace(color, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", text)
