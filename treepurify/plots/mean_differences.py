"""Figures of gaps and drift: a mean margin built up from another, and what edits do to a gap."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole, read_output
from treepurify.errors import InvalidInputError
from treepurify.evidence.losses import loss_words
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.fitting import letters_along
from treepurify.plots.labels import (
    fold,
    margin_label,
    number_words,
    shorten,
    shorten_all,
    signed_words,
)
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DOWN,
    FRAME,
    INK,
    MUTED,
    SMALL_SIZE,
    UP,
    axes_or_new,
    legend_above,
    name_below,
    number_ticks,
    style_axes,
    write_next_to,
)
from treepurify.typing import Array
from treepurify.validation.drift import Drift
from treepurify.validation.group_gap import GroupGap
from treepurify.validation.mean_differences import MeanDifferences

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["gap_edits", "mean_difference"]

_WAYS = {"taken out": "effects removed", "absorbed": "removed, other effects adjusted"}
# Points closer than this part of the axes share one label.
_LEAST_DISTANCE = 0.1


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
    lines = f" (lines: {differences.coverage:.0%} intervals)" if differences.n_bootstrap else ""
    name_below(ax, margin_label(d, position) + lines)
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


def gap_edits(gap: GroupGap, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the gap between two groups against the loss, as effects are removed one by one.

    Parameters
    ----------
    gap : GroupGap
        The result of `treepurify.group_gap(..., n_edits=...)`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If no effects were removed.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    group_gap : Difference of predictions between two groups.
    treepurify.plots.mean_difference : Figure of a gap or a drift.

    Notes
    -----
    Gap (on the margin scale) and loss are computed on rows that were not used to choose the
    effects; thin lines are the intervals of the last point of each line, and
    ``gap.edits.to_frame()`` has those of all. A line that approaches a gap of zero without rising
    means a smaller gap at no cost. Numbers count the effects in the order in which they are
    removed, as listed in the legend.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y, group = X[:, 0], X[:, 0] > 0
    >>> d = tp.purify(DecisionTreeRegressor(max_depth=2).fit(X, y), X)
    >>> ax = tp.plots.gap_edits(tp.group_gap(d, X, group, y, n_edits=1, progress=False))
    >>> ax.get_xlabel()
    'mean prediction: True minus False'
    """
    check_result("gap", gap, GroupGap, "treepurify.group_gap")
    edits = gap.edits
    if edits is None or not edits.terms:
        raise InvalidInputError(
            "no effects were removed: pass n_edits to group_gap; if you did, no effect brings the "
            "gap closer to zero"
        )
    frame = edits.to_frame()
    ax = axes_or_new(ax, 5.6, 3.6)
    model = frame[frame["way"] == "model"]
    for way, color in (("taken out", AFTER), ("absorbed", BEFORE)):
        own = frame[frame["way"] == way]
        if own.empty:
            continue
        gaps, rises = (
            np.append(model[name], own[name]).astype(float) for name in ("gap", "loss_rise")
        )
        ax.plot(gaps, rises, "o-", color=color, markersize=4, label=_WAYS[way], zorder=3)
        last = own.iloc[-1]
        ax.hlines(last["loss_rise"], last["gap_low"], last["gap_high"], color=color, linewidth=0.7)
        ax.vlines(last["gap"], last["loss_low"], last["loss_high"], color=color, linewidth=0.7)
    ax.axvline(0.0, color=FRAME, linewidth=0.8)
    ax.axhline(0.0, color=FRAME, linewidth=0.8)
    style_axes(ax)
    number_ticks(ax.xaxis, 5)
    number_ticks(ax.yaxis, 5)
    ax.margins(x=0.1, y=0.1)
    first, second = (shorten(str(group), 22) for group in gap.groups)
    d = gap.differences.decomposition
    scale = margin_label(d, d.output_names.index(edits.output_name))
    letters = int(letters_along(ax, "x"))
    ax.set_xlabel(fold(f"mean {scale}: {second} minus {first}", letters))
    ax.set_ylabel(f"increase in {loss_words(edits.loss)}", color=INK)
    terms = [f"{n} {term}" for n, term in enumerate(shorten_all(edits.terms, 26), start=1)]
    legend_above(ax, 2, fold(f"in this order: {', '.join(terms)}", letters, len(terms)))
    _number_points(ax, model, frame[frame["way"] == "taken out"])
    return ax


def _number_points(ax: "Axes", model: "pd.DataFrame", removed: "pd.DataFrame") -> None:
    """Write next to each point how many effects are removed there; one label where they meet."""
    from matplotlib.patheffects import withStroke

    both = [frame[["gap", "loss_rise"]].to_numpy(dtype=float) for frame in (model, removed)]
    points = np.concatenate(both)
    ax.autoscale_view()
    places = ax.transAxes.inverted().transform(ax.transData.transform(points))
    runs = [[0]]
    for n in range(1, len(points)):
        is_near = np.hypot(*(places[n] - places[runs[-1][-1]])) < _LEAST_DISTANCE
        runs = [*runs[:-1], [*runs[-1], n]] if is_near else [*runs, [n]]
    for run in runs:
        words = ", ".join(str(n) if n else "model" for n in run)
        rightmost = run[int(np.argmax(points[run, 0]))]
        ax.annotate(
            words, points[rightmost], xytext=(5, 4), textcoords="offset points", color=INK,
            fontsize=SMALL_SIZE, path_effects=[withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip
