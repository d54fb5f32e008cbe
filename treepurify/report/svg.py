"""Figures as SVG inside an HTML page, in the fonts and colours of the page."""

import re
from base64 import b64decode, b64encode
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

import numpy as np

from treepurify.plots.style import import_matplotlib
from treepurify.report.parts import PAGE_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["inline_svg", "new_axes"]

# Pixels per inch of what is stored as pixels: fewer where there are too many cells to see each.
_RESOLUTION, _COARSE_RESOLUTION = 200, 120
_MANY_CELLS = 40_000
# As many as one byte can number.
_MOST_COLORS = 256


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
