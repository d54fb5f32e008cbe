"""A second axis above a figure of margins: the response at the same places."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.links import Link
from treepurify.plots.labels import number_words
from treepurify.plots.style import (
    FRAME,
    INK,
    LABEL_SIZE,
    MUTED,
    SMALL_SIZE,
    import_matplotlib,
)
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["add_response_axis", "response_words"]

# Links by which the response of one output follows from its own margin, strictly increasing.
_PROBABILITIES = ("logit", "cloglog", "sigmoid")
_AMOUNTS = ("log", "log1p", "softplus", "sqrt")
_KNOWN = (*_PROBABILITIES, *_AMOUNTS)
_CHANCES = np.array([0.0001, 0.001, 0.01, 0.05, *np.arange(1, 10) / 10, 0.95, 0.99, 0.999, 0.9999])
_LEAST_DISTANCE = 0.07
_HALVINGS = 80


def add_response_axis(ax: "Axes", d: Decomposition, output: int) -> None:
    """Write the response above the margins of the x axis, where it follows from them alone.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes whose limits are set.
    d : Decomposition
        The decomposition.
    output : int
        Position of the output.
    """
    link = d.link
    if link.name not in _KNOWN:
        return
    low, high = ax.get_xlim()
    responses = _ticks(link, low, high)
    margins = _margins_of(link, responses, low, high)
    kept = _apart(margins, responses, high - low)
    if len(kept) < 2:
        return
    top = ax.secondary_xaxis("top")
    top.set_xticks(margins[kept], [number_words(responses[k], 4) for k in kept])
    top.spines["top"].set(color=FRAME, linewidth=0.8)
    top.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=3, width=0.8)
    top.set_xlabel(_words(d, output), loc="right", color=INK, size=LABEL_SIZE)


def response_words(d: Decomposition, output: int, margin: float) -> str:
    """Return the response in brackets, empty where it does not follow from this margin alone."""
    if d.link.name not in _KNOWN:
        return ""
    response = float(d.link.inverse(np.array([margin]))[0])
    return f" ({_words(d, output)}: {number_words(response, 3)})"


def _words(d: Decomposition, output: int) -> str:
    if d.link.name in _PROBABILITIES:
        name = d.output_names[output]
        if name in ("margin", "prediction"):
            return "probability"
        return f"probability of {name if name.startswith('class ') else f'class {name}'}"
    return "prediction"


def _ticks(link: Link, low: float, high: float) -> Array:
    """Return round responses between those of two margins."""
    least, most = link.inverse(np.array([low, high])).tolist()
    candidates = _CHANCES
    if link.name in _AMOUNTS:
        candidates = import_matplotlib("ticker").MaxNLocator(8).tick_values(least, most)
        # On a curve the small ones lie far apart, and the large ones close together.
        scale = max(abs(least), abs(most))
        powers = scale * 10.0 ** -np.arange(4)
        digits = 10.0 ** np.floor(np.log10(np.maximum(powers, 1e-300)))
        candidates = np.union1d(candidates, np.outer(digits, (1, 2, 5)).ravel())
    return np.asarray(candidates[(candidates > least) & (candidates < most)])


def _margins_of(link: Link, responses: Array, low: float, high: float) -> Array:
    """Return the margins with these responses, by bisection: the link knows one direction."""
    below, above = np.full(len(responses), low), np.full(len(responses), high)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        is_low = link.inverse(middle) < responses
        below, above = np.where(is_low, middle, below), np.where(is_low, above, middle)
    return np.asarray((below + above) / 2)


def _apart(margins: Array, responses: Array, width: float) -> list[int]:
    """Return which ticks to keep: none too close to another, the roundest first."""
    roundness = [len(f"{response:.6g}".rstrip("0")) for response in responses]
    kept: list[int] = []
    for k in sorted(range(len(margins)), key=lambda k: (roundness[k], abs(k - len(margins) / 2))):
        if all(abs(margins[k] - margins[other]) >= _LEAST_DISTANCE * width for other in kept):
            kept.append(k)
    return sorted(kept)
