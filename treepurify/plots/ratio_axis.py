"""A second axis next to effects and their sums: ratios, or the response."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.links import Link
from treepurify.plots.feature_axes import log_ticks
from treepurify.plots.labels import number_words
from treepurify.plots.style import (
    FRAME,
    INK,
    LABEL_SIZE,
    MUTED,
    ROUND_STEPS,
    SMALL_SIZE,
    import_matplotlib,
    is_panel,
)
from treepurify.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What an effect is after the inverse of the logarithm, and what a sum of all of them is.
_OF_EFFECTS = {"logit": "odds ratio", "log": "factor on the prediction"}
_OF_SUMS = {"logit": "odds", "log": "prediction (geometric mean)"}
_FEW_TICKS, _MOST_TICKS = 3, 4
# The exponential of more is not of use to anyone.
_LARGEST = 80.0
# In points, about what the axis takes above other axes.
RATIO_HEIGHT = 30.0
# Links by which the response of one output follows from its own margin, strictly increasing.
_PROBABILITIES = ("logit", "cloglog", "sigmoid")
_AMOUNTS = ("log", "log1p", "softplus", "sqrt")
_CHANCES = np.array([0.0001, 0.001, 0.01, 0.05, *np.arange(1, 10) / 10, 0.95, 0.99, 0.999, 0.9999])
_LEAST_DISTANCE = 0.12
_POINTS = 200_001


def has_ratio_axis(ax: "Axes", link: Link) -> bool:
    """Return whether effects are logarithms of something, and there is space to show of what."""
    return not is_panel(ax) and link.name in _OF_EFFECTS and link.before is None


def add_ratio_axis(
    ax: "Axes", link: Link, *, which: Literal["x", "y"] = "y", of_sums: bool = False
) -> None:
    """Show along the other side of the axes what the exponential of the effects is.

    The odds ratio and the factor of a single effect are exact; its change of a probability would
    depend on all other effects. `of_sums` where sums of all effects are drawn, not single ones.
    """
    low, high = sorted(ax.get_ylim() if which == "y" else ax.get_xlim())
    scale = link.scale if link.name == "logit" else 1.0
    if not max(abs(scale * low), abs(scale * high)) < _LARGEST:
        return
    ratios = _round_ratios(float(np.exp(scale * low)), float(np.exp(scale * high)))
    words = (_OF_SUMS if of_sums else _OF_EFFECTS)[link.name]
    _add_axis(ax, which, np.log(ratios) / scale, ratios, words)


def _add_axis(ax: "Axes", which: Literal["x", "y"], places: Array, values: Any, words: str) -> None:
    """Add an axis at the right or above with values at places of the axis opposite."""
    second = ax.secondary_yaxis("right") if which == "y" else ax.secondary_xaxis("top")
    second.set_ticks([*places], [number_words(value, 4) for value in values])
    second.tick_params(colors=MUTED, labelcolor=INK, labelsize=SMALL_SIZE, length=3, width=0.8)
    for spine in second.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
    name = second.set_ylabel if which == "y" else second.set_xlabel
    name(words, color=INK, size=LABEL_SIZE)


def _round_ratios(lower: float, upper: float) -> list[float]:
    """Return round numbers between two: as on a logarithmic axis where these are far apart."""
    ticks: Any = log_ticks(lower, upper, _MOST_TICKS)
    if len(ticks) < _FEW_TICKS:
        locator = import_matplotlib("ticker").MaxNLocator(_MOST_TICKS, steps=ROUND_STEPS)
        ticks = locator.tick_values(lower, upper)
    return [float(tick) for tick in ticks if lower <= tick <= upper and tick > 0]


def add_response_axis(ax: "Axes", d: Decomposition, output: int) -> None:
    """Write the response above the margins of the x axis, where it follows from them alone."""
    if d.link.name not in (*_PROBABILITIES, *_AMOUNTS):
        return
    low, high = ax.get_xlim()
    margins = np.linspace(low, high, _POINTS)
    known = d.link.inverse(margins)
    responses = _round_responses(d.link, float(known[0]), float(known[-1]))
    places = np.interp(responses, known, margins)
    kept: list[int] = []
    # None too close to another, the roundest first.
    roundness = [len(f"{response:.6g}".rstrip("0")) for response in responses]
    for k in sorted(range(len(places)), key=lambda k: (roundness[k], abs(k - len(places) / 2))):
        if all(abs(places[k] - places[other]) >= _LEAST_DISTANCE * (high - low) for other in kept):
            kept.append(k)
    if len(kept) > 1:
        _add_axis(ax, "x", places[sorted(kept)], responses[sorted(kept)], _response(d, output))


def response_words(d: Decomposition, output: int, margin: float) -> str:
    """Return the response in brackets, empty where it does not follow from this margin alone."""
    if d.link.name not in (*_PROBABILITIES, *_AMOUNTS):
        return ""
    response = float(d.link.inverse(np.array([margin]))[0])
    return f" ({_response(d, output)}: {number_words(response, 3)})"


def _response(d: Decomposition, output: int) -> str:
    name = d.output_names[output]
    if d.link.name not in _PROBABILITIES:
        return "prediction"
    if name in ("margin", "prediction"):
        return "probability"
    return f"probability of {name if name.startswith('class ') else f'class {name}'}"


def _round_responses(link: Link, least: float, most: float) -> Array:
    """Return round responses between two."""
    found = _CHANCES
    if link.name in _AMOUNTS:
        found = import_matplotlib("ticker").MaxNLocator(8).tick_values(least, most)
        # On a curve the small ones lie far apart, and the large ones close together.
        powers = max(abs(least), abs(most)) * 10.0 ** -np.arange(4)
        digits = 10.0 ** np.floor(np.log10(np.maximum(powers, 1e-300)))
        found = np.union1d(found, np.outer(digits, (1, 2, 5)).ravel())
    return np.asarray(found[(found > least) & (found < most)])
