"""A second axis of effects on a logarithmic scale: the odds ratio, or the factor."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.links import Link
from treepurify.plots.axis_ticks import log_ticks
from treepurify.plots.fitting import letters_along, lines_along
from treepurify.plots.labels import number_words
from treepurify.plots.library import LABEL_SIZE, SMALL_SIZE, import_matplotlib, text_size
from treepurify.plots.style import FRAME, INK, MUTED, ROUND_STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RATIO_HEIGHT", "add_ratio_axis", "has_ratio_axis"]

# What an effect is after the inverse of the logarithm, and what a sum of all of them is.
_OF_EFFECTS = {"logit": "odds ratio", "log": "factor on the prediction"}
_OF_SUMS = {"logit": "odds", "log": "prediction (geometric mean)"}
# Axes of fewer letters or lines have no space for it.
_NARROW, _LOW = 30, 9
_FEW_TICKS, _MOST_TICKS = 3, 5
# The exponential of more is not of use to anyone.
_LARGEST = 80.0
# In points, about what the axis takes above other axes.
RATIO_HEIGHT = 30.0


def has_ratio_axis(ax: "Axes", link: Link) -> bool:
    """Return whether effects are logarithms of something, and there is space to show of what."""
    is_wide = letters_along(ax, "x") >= _NARROW and lines_along(ax) >= _LOW
    return is_wide and link.name in _OF_EFFECTS and link.before is None


def add_ratio_axis(
    ax: "Axes",
    link: Link,
    *,
    which: Literal["x", "y"] = "y",
    of_sums: bool = False,
) -> None:
    """Show along the other side of the axes what the exponential of the effects is.

    The odds ratio and the factor of a single effect are exact; its change of a probability would
    depend on all other effects.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes, with their final limits.
    link : Link
        The link, with `has_ratio_axis`.
    which : {"x", "y"}
        The axis of the effects.
    of_sums : bool
        Whether sums of all effects are drawn, not single ones.
    """
    low, high = sorted(ax.get_ylim() if which == "y" else ax.get_xlim())
    scale = link.scale if link.name == "logit" else 1.0
    if not max(abs(scale * low), abs(scale * high)) < _LARGEST:
        return
    ratios = _round_ratios(float(np.exp(scale * low)), float(np.exp(scale * high)))
    second = ax.secondary_yaxis("right") if which == "y" else ax.secondary_xaxis("top")
    second.set_ticks([np.log(each) / scale for each in ratios], [*map(number_words, ratios)])
    size = text_size(f"{which}tick.labelsize", SMALL_SIZE)
    second.tick_params(colors=MUTED, labelcolor=INK, labelsize=size, length=3, width=0.8)
    for spine in second.spines.values():
        spine.set(color=FRAME, linewidth=0.8)
    words = (_OF_SUMS if of_sums else _OF_EFFECTS)[link.name]
    name = second.set_ylabel if which == "y" else second.set_xlabel
    name(words, color=INK, size=text_size("axes.labelsize", LABEL_SIZE))


def _round_ratios(lower: float, upper: float) -> list[float]:
    """Return round numbers between two: as on a logarithmic axis where these are far apart."""
    ticks = log_ticks(lower, upper, _MOST_TICKS)
    if len(ticks) < _FEW_TICKS:
        locator = import_matplotlib("ticker").MaxNLocator(_MOST_TICKS, steps=[*ROUND_STEPS, 10])
        ticks = locator.tick_values(lower, upper)
    return [float(tick) for tick in ticks if lower <= tick <= upper and tick > 0]
