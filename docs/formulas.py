"""Formulas as MathML, which browsers draw by themselves: pages need no script and no network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

# The sign for "without" that the converter takes is in few fonts.
WITHOUT, IN_MOST_FONTS = "&#x029F5;", "&#x02216;"


def mathml(formula: str, display: str) -> str:
    """Return a formula as MathML, within a line or as a block."""
    return convert(formula, display=display).replace(WITHOUT, IN_MOST_FONTS)


def visit_math(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_displaymath(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer, and select it."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
