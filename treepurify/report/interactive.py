"""The places in a report that its script fills, and the list of findings."""

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from treepurify.auditing.findings import FOLDED, TOGETHER, Finding
from treepurify.auditing.ranked_findings import Audit
from treepurify.components import Component, TensorComponent
from treepurify.plots import audits
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.pairs import PAIR_SIZE, color_limit, draw_pair
from treepurify.plots.style import MUTED, SMALL_SIZE
from treepurify.plots.terms import find_tensor
from treepurify.plots.together import TOGETHER_SIZE
from treepurify.report.common_axes import common_scale
from treepurify.report.payload import Payload
from treepurify.report.pictures import inline_svg, new_axes
from treepurify.report.scales import Scales

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["explorer", "findings_list", "pair_words", "pairs_left_out", "prediction_maker"]

_MAIN_SIZE = (4.6, 3.2)
_CELLS = "The prediction is the same for all values within an interval."
_CURVES = (
    "Smooth effects are read at the middle of a narrow interval, so for values set by hand the sum "
    "is close to the prediction but not equal to it."
)
_MERGED = (
    "Where intervals were merged, the sum uses their mean, so for values set by hand it is close "
    "to the prediction but not equal to it."
)
_MOST_NAMES = 10


def explorer(identifier: str, words: str) -> str:
    """Return the empty place of an explorer, hidden until the script fills it."""
    return (
        f'<div class="interactive" id="{identifier}" hidden>\n'
        f'<p class="screen">{escape(words)}</p>\n'
        '<div class="controls"></div>\n<div class="canvas"></div>\n'
        '<p class="readout" role="status" aria-live="polite"></p>\n</div>'
    )


def main_words(payload: Payload) -> str:
    """Return what the explorer of main effects shows, and what it does not."""
    words = "Choose an effect and the versions to overlay."
    if payload.n_merged_mains:
        words += (
            " The main effects have too many intervals for a page: neighbouring cells are merged "
            "and show their mean over the data."
        )
    left = payload.n_all_mains - payload.n_mains
    return words + (f" The {left} smallest effects are not included." if left else "")


def pair_words(payload: Payload) -> str:
    """Return what the explorer of pairs shows, and what it does not."""
    words = (
        "Choose a pair and a version of it. Point at a cell, or move with the arrow keys, to read "
        "it. Paler cells have fewer data; cells without data are hatched. Lines show the sum of "
        "the pair and both main effects along one feature, at several values of the other."
    )
    if payload.n_merged:
        words += (
            " Where there are very many cells, neighbouring cells are merged, as in the figures, "
            "and show the mean over their data."
        )
    return words


def pairs_left_out(payload: Payload) -> str:
    """Return which pairs are not in the explorer; empty where all are."""
    names = payload.pairs_left_out
    if not names:
        return ""
    more = len(names) - _MOST_NAMES
    listed = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    pairs = "1 pair is" if len(names) == 1 else f"{len(names)} pairs are"
    return (
        f"{pairs} not in the explorer ({payload.share_of_pairs_left_out:.2%} of the variance), "
        f"because the page is full or the effects are not tables: {listed}."
    )


def prediction_maker(payload: Payload) -> str:
    """Return the empty place where a row is put together and explained."""
    words = f"Choose a value for each feature and see {_what_comes_about(payload)}. {_CELLS}"
    words += f" {_CURVES}" * payload.has_curves + f" {_MERGED}" * payload.has_means
    place = explorer("prediction-explorer", f"{words} {payload.start}")
    note = "<noscript><p>This part needs a browser that runs scripts.</p></noscript>"
    return f"{place}\n{note}"


def _what_comes_about(payload: Payload) -> str:
    missing = []
    if payload.left_out:
        effects = f"{len(payload.left_out)} effects" if len(payload.left_out) > 1 else "1 effect"
        missing.append(f"{effects} not on this page")
    if payload.has_remainder:
        missing.append("the remainder, which needs the model itself")
    if not missing:
        return "how the prediction is built up"
    words = (
        "the sum of the effects shown. For values set by hand this is not the prediction, since "
        f"it leaves out {' and '.join(missing)}"
    )
    return f"{words}. For the example rows nothing is left out" if payload.n_examples else words


def findings_list(audit: Audit, most: int, pictures: int, scales: Scales) -> str:
    """Return the findings of an audit, the first ones with their pictures.

    Parameters
    ----------
    audit : Audit
        The audit.
    most : int
        Number of findings.
    pictures : int
        Number of pictures.
    scales : Scales
        The scale of each feature.
    """
    d = audit.decomposition
    intro = "".join(f"<p>{escape(line)}</p>" for line in _introduction(audit))
    if not audit.findings:
        return intro
    items = []
    for rank, finding in enumerate(audit.findings[:most]):
        numbers = "".join(
            f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{value:.4g}</dd>"
            for name, value in {**finding.numbers, "severity": finding.severity}.items()
        )
        picture = ""
        shown = finding.effects[0]
        if rank < pictures and (len(shown) <= 2 or finding.kind in TOGETHER):
            picture = _pictures(audit, finding, scales, f"finding-{rank}")
        items.append(
            f'<li data-term="{escape(d.term_name(shown))}">\n'
            f'<p><b class="kind">{escape(finding.kind)}</b> {escape(finding.sentence)}</p>\n'
            f"<p>{escape(finding.follows)} {escape(finding.to_do)}</p>\n"
            f"{picture}\n<details><summary>Numbers</summary>\n<dl>{numbers}</dl>\n</details>\n"
            "</li>"
        )
    more = len(audit.findings) - most
    rest = f"<p>{more} smaller findings are not listed.</p>" if more > 0 else ""
    return f'{intro}<ol class="findings">\n' + "\n".join(items) + f"\n</ol>{rest}"


def _pictures(audit: Audit, finding: Finding, scales: Scales, prefix: str) -> str:
    """Return the pictures of a finding.

    Two are of two effects that share a part or matter together, and of a pair that depends on the
    measure, under each. Of effects that are folded into one finding, the first is drawn.
    """
    d = audit.decomposition
    if finding.kind in TOGETHER:
        ax = new_axes(TOGETHER_SIZE)
        audits.finding(audit, finding, ax=ax)
        return _figure(ax, prefix, finding.sentence)
    if finding.kind != "distribution" or len(finding.subset) != 2:
        pictures = []
        drawn = finding.effects[:1] if finding.kind in FOLDED else finding.effects
        for number, effect in enumerate(drawn):
            ax = new_axes(_picture_size(d.components[effect]))
            along = [scales.of(d.feature_names[j]) for j in effect]
            scale = along[0] if len(along) == 1 else (along[0], along[1])
            audits.finding(audit, replace(finding, effects=(effect,)), scale=scale, ax=ax)
            pictures.append(_figure(ax, f"{prefix}-{number}", finding.sentence))
        return "\n".join(pictures)
    both = (d, audit.comparisons[finding.measure].second)
    name = d.term_name(finding.subset)
    key = (finding.subset[0], finding.subset[1])
    tables = [find_tensor(each, key, 2) for each in both]
    limit = max(color_limit(t.values[..., finding.output], t.mass, t.axes) for t in tables)
    names = [axis.name for axis in tables[0].axes]
    across, up = (common_scale(tables[0], each, scales.of(each)) for each in names)
    figures = []
    for number, each in enumerate(both):
        ax = new_axes(PAIR_SIZE)
        options: dict[str, Any] = {"scale": (across, up), "by_name": True, "has_title": False}
        draw_pair(each, key, output=finding.output, limit=limit, **options, ax=ax)
        ax.set_title(f"under {each.measure}", fontsize=SMALL_SIZE, color=MUTED, loc="right")
        figures.append(_figure(ax, f"{prefix}-{number}", f"{name} under {each.measure}."))
    return f'<div class="figures">\n{"".join(figures)}\n</div>'


def _figure(ax: "Axes", prefix: str, words: str) -> str:
    figure = ax.get_figure(root=True)
    return "" if figure is None else f"<figure>\n{inline_svg(figure, prefix, words)}\n</figure>"


def _introduction(audit: Audit) -> list[str]:
    lines = audit.summary(most=0)
    return [line for line in lines if not line.startswith("...")]


def _picture_size(component: Component) -> tuple[float, float]:
    if len(component.features) == 2:
        return PAIR_SIZE
    return main_effect_size(component) if isinstance(component, TensorComponent) else _MAIN_SIZE
