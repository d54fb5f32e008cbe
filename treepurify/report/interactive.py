"""The places in a report that its script fills, and the list of findings."""

from collections.abc import Sequence
from html import escape

from treepurify.analysis.audit import Audit
from treepurify.components import Component, TensorComponent
from treepurify.plots.audits import finding
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.pairs import PAIR_SIZE
from treepurify.report.svg import inline_svg, new_axes

__all__ = ["explorer", "findings_list", "prediction_maker"]

_MAIN_SIZE = (4.6, 3.2)
_CELLS = "Within a cell the model says the same for every value."
_CURVES = (
    "Effects that are curves, without steps, are read at the middle of a narrow cell, so that the "
    "sum is close to the prediction but not equal to it."
)


def explorer(identifier: str, words: str) -> str:
    """Return the empty place of an explorer, hidden until the script fills it."""
    return (
        f'<div class="interactive" id="{identifier}" hidden>\n<p>{escape(words)}</p>\n'
        '<div class="controls"></div>\n<div class="canvas"></div>\n'
        '<p class="readout" role="status" aria-live="polite"></p>\n</div>'
    )


def prediction_maker(
    share_left_out: float, left_out: Sequence[str], *, has_curves: bool = False
) -> str:
    """Return the empty place where a row is put together and explained."""
    missing = ""
    if left_out:
        missing = (
            f" {len(left_out)} effects with {share_left_out:.2%} of the variance are left out here "
            "for their size."
        )
    words = (
        "Choose a value for each feature and see how the prediction comes about. "
        f"{_CURVES if has_curves else _CELLS}{missing}"
    )
    place = explorer("prediction-explorer", words)
    note = "<noscript><p>This part needs a browser that runs scripts.</p></noscript>"
    return f"{place}\n{note}"


def findings_list(audit: Audit, most: int, pictures: int) -> str:
    """Return the findings of an audit, the first ones with their pictures.

    Parameters
    ----------
    audit : Audit
        The audit.
    most : int
        Number of findings.
    pictures : int
        Number of pictures.
    """
    d = audit.decomposition
    intro = "".join(f"<p>{escape(line)}</p>" for line in _introduction(audit))
    if not audit.findings:
        return intro
    items = []
    for rank, found in enumerate(audit.findings[:most]):
        numbers = "".join(
            f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{value:.4g}</dd>"
            for name, value in {**found.numbers, "severity": found.severity}.items()
        )
        picture = ""
        if rank < pictures and len(found.subset) <= 2:
            ax = new_axes(_picture_size(d.components[found.subset]))
            finding(audit, found, ax=ax)
            figure = ax.get_figure(root=True)
            if figure is not None:
                picture = inline_svg(figure, f"finding-{rank}", found.sentence)
                picture = f"<figure>\n{picture}\n</figure>"
        items.append(
            f'<li data-term="{escape(d.term_name(found.subset))}">\n'
            f'<p><b class="kind">{escape(found.kind)}</b> {escape(found.sentence)}</p>\n'
            f"<details><summary>Numbers{' and picture' if picture else ''}</summary>\n"
            f"<dl>{numbers}</dl>\n{picture}\n</details>\n</li>"
        )
    more = len(audit.findings) - most
    rest = f"<p>{more} smaller findings are not listed.</p>" if more > 0 else ""
    return f'{intro}<ol class="findings">\n' + "\n".join(items) + f"\n</ol>{rest}"


def _introduction(audit: Audit) -> list[str]:
    lines = audit.summary(most=0)
    return [line for line in lines if not line.startswith("...")]


def _picture_size(component: Component) -> tuple[float, float]:
    if len(component.features) == 2:
        return PAIR_SIZE
    return main_effect_size(component) if isinstance(component, TensorComponent) else _MAIN_SIZE
