"""The figure of gaps and drift: a mean margin built up from another, effect by effect."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole, read_output
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.labels import (
    margin_label,
    number_words,
    signed_words,
)
from treepurify.plots.style import (
    DOWN,
    FRAME,
    MUTED,
    UP,
    axes_or_new,
    name_below,
    number_ticks,
    style_axes,
    write_next_to,
)
from treepurify.typing import Array
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.mean_differences import COVERAGE, MeanDifferences

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mean_difference"]


def mean_difference(
    found: GroupGap | Drift, *, output: int | str = 0, top: int = 10, ax: "Axes | None" = None
) -> "Axes":
    """Draw the difference between the mean margins of two groups of rows, effect by effect.

    From the mean of the first group at the top to the mean of the second group at the bottom, each
    bar adds the difference between the means of one effect, the largest first. Effects that raise
    the mean are red, those that lower it blue. Lines are the bootstrap intervals of each effect.

    Parameters
    ----------
    found : GroupGap or Drift
        The result of `treepurify.group_gap` or `treepurify.drift`.
    output : int or str
        The output, by position or name.
    top : int
        Number of effects; all others are one more bar, without an interval.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is no such output, or `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    group_gap : Difference of predictions between two groups.
    drift : Change between two data sets.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> gap = tp.group_gap(d, X, ["a", "a", "b", "b"], progress=False)
    >>> [text.get_text() for text in tp.plots.mean_difference(gap).get_yticklabels()]
    ['mean of a', 'x0', 'x1', 'x0 & x1', 'mean of b']
    """
    if not isinstance(found, Drift):
        check_result("found", found, GroupGap, "treepurify.group_gap or treepurify.drift")
    check_whole("top", top, 1)
    differences = found.differences
    d = differences.decomposition
    position = read_output(output, d.output_names)
    names, values, ends = _largest(differences, position, top)
    start, end = (float(mean) for mean in differences.totals[:, position])
    reached = start + np.cumsum(values)
    starts = reached - values
    places = np.arange(1, len(values) + 1)
    ax = axes_or_new(ax, 5.6, 0.3 * (len(values) + 2) + 1.1)
    colors = [UP if value >= 0 else DOWN for value in values]
    ax.barh(places, values, left=starts, height=0.66, color=colors, zorder=2)
    ax.hlines(places, *(starts + ends), color="black", linewidth=1.1, zorder=3)
    joints = np.append(start, reached)
    ax.vlines(joints, np.arange(len(joints)), np.arange(len(joints)) + 1, color=FRAME, linewidth=1)
    ax.plot([start, end], [0, len(values) + 1], "o", markersize=5, color=MUTED, zorder=3)
    style_axes(ax)
    tips = np.fmax(np.maximum(starts, reached), starts + ends[1])
    # Digits that all bars share, so that small ones look small.
    decimals = 2 - int(np.floor(np.log10(np.abs(values).max()))) if np.any(values) else 0
    for place, tip, value in zip(places.tolist(), tips.tolist(), values, strict=True):
        write_next_to(ax, signed_words(round(float(value), decimals)), (tip, place))
    for place, mean in ((0, start), (len(values) + 1, end)):
        write_next_to(ax, number_words(mean, 4), (mean, place), 6)
    first, second = (f"mean of {name}" for name in differences.names)
    name_rows(ax, [first, *names, second])
    ax.set_ylim(len(values) + 1.6, -0.6)
    all_ends = np.concatenate([joints, starts + ends[0], tips])
    low, high = float(np.nanmin(all_ends)), float(np.nanmax(all_ends))
    reach = (high - low) or 1.0
    ax.set_xlim(low - 0.04 * reach, high + 0.16 * reach)
    number_ticks(ax.xaxis, 5)
    name_below(ax, f"{margin_label(d, position)} (lines: {COVERAGE:.0%} intervals)")
    return ax


def _largest(differences: MeanDifferences, output: int, top: int) -> tuple[list[str], Array, Array]:
    """Return names and differences of the largest effects and of the rest, with interval ends."""
    found = differences.effects
    order = differences.largest(output)
    shown, rest = order[:top], order[top:]
    names = [differences.term_name(place) for place in shown]
    values = found.value[shown, output]
    ends = np.stack([found.low[shown, output], found.high[shown, output]])
    if rest:
        names.append(f"{len(rest)} more")
        values = np.append(values, found.value[rest, output].sum())
        ends = np.column_stack([ends, [np.nan, np.nan]])
    return names, values, ends
