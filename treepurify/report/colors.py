"""The colours that the figures and the page share, and what the style of the page calls them."""

from treepurify.plots import style

__all__ = ["PAGE_COLORS", "color_variables"]

# Colours that follow the page, which may be dark; those inside a heatmap stay.
PAGE_COLORS = {
    **{color: f"many-{i}" for i, color in enumerate(style.MANY)},
    style.INK: "ink",
    style.MUTED: "muted",
    style.FRAME: "frame",
    style.DATA: "data",
    style.EMPTY: "empty",
    style.HATCH: "hatch",
    style.AFTER: "after",
    style.BEFORE: "before",
    style.PAIR: "pair",
    style.HIGHER: "higher",
    style.UP: "up",
    style.DOWN: "down",
}


def color_variables() -> str:
    """Return the colours as variables of a style sheet, as they are on light ground."""
    lines = [f"  --{name}: {color};" for color, name in PAGE_COLORS.items()]
    return ":root {\n" + "\n".join(lines) + "\n}\n"
