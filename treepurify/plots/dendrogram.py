"""The figure of groups: how features join as the threshold of interaction falls."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_number, check_whole
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.grouping.sets import ShapleySets
from treepurify.grouping.strengths import InteractionStrengths, Merge
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.fitting import label_letters, letters_along, lines_along
from treepurify.plots.labels import fold, percent_words, shorten_all
from treepurify.plots.style import (
    INK,
    MANY,
    MUTED,
    SMALL_SIZE,
    axes_or_new,
    import_matplotlib,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["dendrogram"]

# Interactions below one part in a million of the variance are not drawn.
_LEAST_STRENGTH = 1e-6
# More features that join nothing are counted, not drawn.
_MOST_ALONE = 5
# Over a longer range ticks at 1, 2 and 5 times a power of ten would touch each other.
_MOST_DECADES_FOR_FINE_TICKS = 2.5
# In a figure of its own: letters along it, and those of a name.
_LETTERS, _LONGEST_NAME = 76, 28
# Axes of fewer letters have a shorter name of the axis.
_NARROW = 36
# What is above and below the rows, in lines, and a tick with a gap, in letters.
_LINES_OF_REST, _LETTERS_OF_TICK = 2, 5
# Of a share in units of its second digit.
_ROUNDING = 1e-9


def dendrogram(
    groups: ShapleySets | InteractionStrengths,
    *,
    threshold: float | None = None,
    top: int = 30,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how features join into groups as the interaction threshold falls.

    The threshold falls from left to right. Two groups join when it reaches the strongest
    interaction between them, as a share of the variance of the function under independent features.
    The groups at `threshold` are coloured.

    Parameters
    ----------
    groups : ShapleySets or InteractionStrengths
        From ``tp.shapley_sets(..., method="index")``, or its ``strengths``.
    threshold : float, optional
        The threshold that defines the groups; by default that of the `ShapleySets`, or none.
    top : int
        Largest number of features, fewer if the axes are low; those that join first are drawn. If
        more than five features never join, they are left out.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If the groups were found by another method, so that no strengths are known, or `top`
        or `threshold` is out of range.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    shapley_sets : Groups of features that interact, and their values.
    treepurify.plots.network : The leading interactions as a graph.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 3))
    >>> groups = tp.shapley_sets(
    ...     lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], X, method="index", progress=False
    ... )
    >>> ax = tp.plots.dendrogram(groups)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['x0', 'x1', 'x2']
    """
    strengths, threshold = _strengths_and_threshold(groups, threshold)
    check_whole("top", top, 2)
    letters, most_letters = _LETTERS, _LONGEST_NAME
    if ax is not None:
        ax = axes_or_new(ax, 0.0, 0.0)
        letters, most_letters = int(letters_along(ax, "x")), label_letters(ax)
        rest = _LINES_OF_REST if letters > _NARROW else 2 * _LINES_OF_REST
        top = min(top, max(int(lines_along(ax)) - rest, 2))
    merges, order = _first_merges(strengths, top)
    colors = _group_colors(strengths, threshold, order)
    start, end = _limits([merge.strength for merge in merges], threshold)
    ax = axes_or_new(ax, 5.6, max(0.18 * len(order) + 1.1, 1.8))
    # Row, strength at which it came about and colour of each group that has not joined yet.
    nodes: dict[Subset, tuple[float, float, str]] = {
        (j,): (float(row), start, colors[j]) for row, j in enumerate(order)
    }
    for merge in merges:
        rows = []
        for part in (merge.first, merge.second):
            row, begin, color = nodes.pop(part)
            ax.plot([begin, merge.strength], [row, row], color=color, linewidth=1.6)
            rows.append(row)
        is_group = threshold is not None and merge.strength > threshold
        color = colors[merge.first[0]] if is_group else MUTED
        ax.plot([merge.strength] * 2, rows, color=color, linewidth=1.6)
        joined = tuple(sorted((*merge.first, *merge.second)))
        nodes[joined] = (sum(rows) / 2, merge.strength, color)
    for row, begin, color in nodes.values():
        ax.plot([begin, end], [row, row], color=color, linewidth=1.6)
    if threshold:
        ax.axvline(threshold, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
        words = fold(_groups_in_words(strengths, threshold), letters, 3)
        ax.set_title(words, fontsize=SMALL_SIZE, color=MUTED, loc="right")
    names = shorten_all([strengths.feature_names[j] for j in order], most_letters)
    _finish(ax, names, (start, end), letters)
    between = " between groups that join" if letters > _NARROW else ""
    words = fold(f"strongest interaction{between}, share of the variance", letters, 3)
    left = len(strengths.shares) - len(order)
    if left:
        below = f"join below {_percent_above(merges[-1].strength)}, or never" if merges else ""
        words += "\n" + fold(f"{left} more features {below or 'never join'}", letters, 3)
    ax.set_xlabel(words, loc="right")
    return ax


def _percent_above(share: float) -> str:
    """Return a share as a percentage of two digits, rounded up."""
    step = 10.0 ** (np.floor(np.log10(share)) - 1)
    return percent_words(step * np.ceil(share / step - _ROUNDING))


def _groups_in_words(strengths: InteractionStrengths, threshold: float) -> str:
    """Return how many groups there are at a threshold, and how many features stand alone."""
    groups = strengths.groups(threshold)
    joined = sum(len(group) > 1 for group in groups)
    alone = len(groups) - joined
    parts = [f"{joined} group{'s' * (joined != 1)}"] * bool(joined)
    parts += [f"{alone} single feature{'s' * (alone != 1)}"] * bool(alone)
    return f"joined above {percent_words(threshold)}: {', '.join(parts)}"


def _strengths_and_threshold(
    groups: ShapleySets | InteractionStrengths, threshold: float | None
) -> tuple[InteractionStrengths, float | None]:
    strengths = groups.strengths if isinstance(groups, ShapleySets) else groups
    if not isinstance(strengths, InteractionStrengths):
        raise InvalidInputError(
            "no strengths of interactions are known: pass the result of "
            'tp.shapley_sets(..., method="index")'
        )
    if threshold is None and isinstance(groups, ShapleySets):
        threshold = groups.tolerance
    if threshold is not None:
        check_number("threshold", threshold, least=0, most=1)
    return strengths, threshold


def _first_merges(strengths: InteractionStrengths, top: int) -> tuple[list[Merge], list[int]]:
    """Return the merges among the features that join first, and those from top to bottom."""
    shown: list[Merge] = []
    leaves: dict[Subset, Subset] = {}
    for merge in strengths.merges():
        new = sum(len(part) == 1 for part in (merge.first, merge.second))
        if merge.strength < _LEAST_STRENGTH or sum(map(len, leaves.values())) + new > top:
            break
        shown.append(merge)
        parts = [leaves.pop(part, part) for part in (merge.first, merge.second)]
        # What joins a larger group comes below it, so that few lines are long.
        larger, smaller = sorted(parts, key=len, reverse=True)
        leaves[tuple(sorted((*merge.first, *merge.second)))] = larger + smaller
    order = [j for group in sorted(leaves.values(), key=len, reverse=True) for j in group]
    alone = [j for j in range(len(strengths.shares)) if j not in set(order)]
    if order and len(alone) > _MOST_ALONE:
        return shown, order
    return shown, order + alone[: top - len(order)]


def _group_colors(
    strengths: InteractionStrengths, threshold: float | None, order: list[int]
) -> dict[int, str]:
    """Return the colour of each feature: that of its group, or grey where it is alone."""
    colors = dict.fromkeys(order, MUTED)
    if threshold is None:
        return colors
    of_feature = {j: group for group in strengths.groups(threshold) for j in group}
    several = dict.fromkeys(of_feature[j] for j in order if len(of_feature[j]) > 1)
    named = {group: MANY[k % len(MANY)] for k, group in enumerate(several)}
    return {j: named.get(of_feature[j], MUTED) for j in order}


def _limits(strengths: list[float], threshold: float | None) -> tuple[float, float]:
    """Return where the axis starts, on the left and large, and where it ends."""
    strengths = strengths + ([threshold] if threshold else [])
    if not strengths:
        return 1.0, 0.001
    return min(1.6 * max(strengths), 1.1), 0.6 * min(strengths)


def _finish(ax: "Axes", names: list[str], limits: tuple[float, float], letters: int) -> None:
    style_axes(ax)
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    decades = np.log10(limits[0] / limits[1])
    most = max((letters - max(map(len, names), default=0)) // _LETTERS_OF_TICK, 2)
    steps = (1, 2, 5) if decades <= _MOST_DECADES_FOR_FINE_TICKS and 3 * decades < most else (1,)
    ticker = import_matplotlib("ticker")
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=steps, numticks=min(most, 12)))
    ax.xaxis.set_major_formatter(percent_words)
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    name_rows(ax, names)
