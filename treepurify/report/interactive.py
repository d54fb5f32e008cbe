"""The places in a report that its script fills, and the list of findings."""

from html import escape

from treepurify.auditing.ranked_findings import Audit
from treepurify.components import Component, TensorComponent
from treepurify.plots import audits
from treepurify.plots.main_effects import main_effect_size
from treepurify.plots.pairs import PAIR_SIZE
from treepurify.report.payload import Payload
from treepurify.report.scales import Scales
from treepurify.report.svg import inline_svg, new_axes

__all__ = ["explorer", "findings_list", "pair_words", "pairs_left_out", "prediction_maker"]

_MAIN_SIZE = (4.6, 3.2)
_CELLS = "Within a cell the prediction is the same for every value."
_CURVES = (
    "Effects that are curves, without steps, are read at the middle of a narrow cell, so that for "
    "values set by hand the sum is close to the prediction but not equal to it."
)
_MERGED = (
    "Effects with merged cells add the mean of these, so that for values set by hand the sum is "
    "close to the prediction but not equal to it."
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
    words = "Choose an effect, and which versions of it to lay over each other."
    if payload.n_merged_mains:
        words += (
            " The main effects have more cells than a page can hold: neighbouring cells are "
            "merged, and show their mean over the data."
        )
    left = payload.n_all_mains - payload.n_mains
    return words + (f" The {left} smallest are not here." if left else "")


def pair_words(payload: Payload) -> str:
    """Return what the explorer of pairs shows, and what it does not."""
    words = (
        "Choose a pair and a version of it. Point at a cell, or move with the arrow keys, to read "
        "it. Cells without data are hatched. Lines show the effect of one feature, main effect "
        "included, at several values of the other."
    )
    if payload.n_merged:
        which = "All pairs have" if payload.n_merged == payload.n_pairs else "Some pairs have"
        words += (
            f" {which} more cells than a page can hold: there neighbouring cells are merged, and "
            "show their mean over the data."
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
        f"{pairs} not in the explorer, because there is no room or there are no cells to draw, "
        f"with {payload.share_of_pairs_left_out:.2%} of the variance: {listed}."
    )


def prediction_maker(payload: Payload) -> str:
    """Return the empty place where a row is put together and explained."""
    words = f"Choose a value for each feature and see {_what_comes_about(payload)}. {_CELLS}"
    words += f" {_CURVES}" * payload.has_curves + f" {_MERGED}" * bool(
        payload.n_merged + payload.n_merged_mains
    )
    place = explorer("prediction-explorer", f"{words} {payload.start}")
    note = "<noscript><p>This part needs a browser that runs scripts.</p></noscript>"
    return f"{place}\n{note}"


def _what_comes_about(payload: Payload) -> str:
    missing = ["the remainder, which needs the model itself"] * payload.has_remainder
    if payload.left_out:
        effects = f"{len(payload.left_out)} effects" if len(payload.left_out) > 1 else "1 effect"
        missing.append(f"{effects} not on this page")
    if not missing:
        return "how the prediction is built up"
    words = (
        "what the shown effects add up to. For values set by hand this is not the prediction: it "
        f"is without {' and without '.join(missing)}"
    )
    return f"{words}. The example rows include what is missing" if payload.n_examples else words


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
        if rank < pictures and len(finding.subset) <= 2:
            ax = new_axes(_picture_size(d.components[finding.subset]))
            along = [scales.of(d.feature_names[j]) for j in finding.subset]
            scale = along[0] if len(along) == 1 else (along[0], along[1])
            audits.finding(audit, finding, scale=scale, ax=ax)
            figure = ax.get_figure(root=True)
            if figure is not None:
                picture = inline_svg(figure, f"finding-{rank}", finding.sentence)
                picture = f"<figure>\n{picture}\n</figure>"
        items.append(
            f'<li data-term="{escape(d.term_name(finding.subset))}">\n'
            f'<p><b class="kind">{escape(finding.kind)}</b> {escape(finding.sentence)}</p>\n'
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
