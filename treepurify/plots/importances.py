"""The figure of what matters: bars of the size of each effect."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.curves import BAND_WORDS
from treepurify.plots.labels import scale_words, with_minus
from treepurify.plots.style import (
    DATA,
    HIGHER,
    MAIN,
    MUTED,
    PAIR,
    SIZE,
    axes_or_new,
    legend_above,
    name_below,
    name_rows,
    number_ticks,
    row_height,
    style_axes,
    write_next_to,
)
from treepurify.ranking import Line
from treepurify.spread import LEVEL
from treepurify.terms import same_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CANCELLING = ("effects that cancel, together", MUTED)
_REST = ("the rest", DATA)
_KINDS = {1: ("main effect", MAIN), 2: ("pair", PAIR), 3: ("three or more features", HIGHER)}
# How far bars of effects are from the full colour where a bar above them has their sum.
_PALE = 0.5
# What a note below the bars takes, in rows.
_ROWS_OF_NOTE = 2


def importance(
    d: Decomposition,
    *,
    order: int | None = None,
    top: int = 15,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the sizes of the largest effects as bars.

    The size is the standard deviation of an effect, in the units of the prediction; next to it is
    the share of the variance of the model, by covariance. Effects that largely cancel are pale bars
    below a bar for their sum. A note below the bars names main effects that must be read together.

    If several trainings were purified, the whiskers are prediction intervals of 90% for the size of
    the effect in one more training (`Spread.size_interval`). The bar shows the size of the mean
    over the trainings, which contains less noise than a single training.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    order : int, optional
        Number of features of the effects, such as 2 for pairs; by default all.
    top : int
        Number of effects.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `order` or `top` is less than one, or there are fewer features than `order`.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    Decomposition.importance : The table of all effects, with the same numbers.
    treepurify.plots.summary : Figures of the leading effects.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.importance(d)
    >>> sorted(text.get_text() for text in ax.get_yticklabels())
    ['x0', 'x0 & x1', 'x1']
    """
    check_result("d", d, Decomposition)
    check_whole("top", top, 1)
    if order is not None:
        check_whole("order", order, 1, max(len(d.feature_names), 1))
    lines = _drawn(d, order, top)
    ax = axes_or_new(ax, *importance_size(d, top, order))
    kinds = [_kind(line) for line in lines]
    known = [*_KINDS.values(), _CANCELLING, _REST]
    for kind, color in sorted(set(kinds), key=known.index):
        places = [i for i, each in enumerate(kinds) if each == (kind, color)]
        places.sort(key=lambda i: lines[i].is_member)  # the legend has the first one's colour
        sizes = [lines[i].size for i in places]
        drawn = ax.barh(places, sizes, height=0.72, color=color, label=kind)
        for i, patch in zip(places, drawn, strict=True):
            patch.set_alpha(_PALE if lines[i].is_member else None)
    ends = _whiskers(d, lines)
    if ends:
        lower, upper = np.array([*ends.values()]).T
        ax.hlines([*ends], lower, upper, color="black", linewidth=1.1, label=BAND_WORDS)
    has_shares = not any(np.isnan(line.share) for line in lines)
    write = same_digits([line.size for line in lines])
    for i, line in enumerate(lines):
        share = with_minus(f" ({line.share:z.0%})") if has_shares else ""
        _, end = ends.get(i, (0.0, 0.0))
        write_next_to(ax, f"{write(line.size)}{share}", (max(line.size, end), i), 4)
    style_axes(ax)
    name_rows(ax, [line.name(d.term_name).removesuffix(" together") for line in lines])
    reached = [*(line.size for line in lines), *(upper for _, upper in ends.values())]
    ax.set_xlim(0.0, 1.25 * (max(reached, default=0.0) or 1.0))
    number_ticks(ax.xaxis)
    outputs = f" over {d.n_outputs} outputs" if d.n_outputs > 1 else ""
    words = f"size: standard deviation, {scale_words(d.link)}{outputs}"
    words += " (share by covariance)" * has_shares
    more = sum(order in (None, len(subset)) for subset in d.components)
    more -= sum(bool(line.subset) for line in lines)
    words += f"; {more} more not drawn" if more else ""
    name_below(ax, words, "".join(_claims(d, lines)[:1]))
    if ends or len(set(kinds)) > 1:
        legend_above(ax, 3)
    return ax


def importance_size(
    d: Decomposition, top: int = 15, order: int | None = None
) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure."""
    lines = _drawn(d, order, top)
    note = _ROWS_OF_NOTE * bool(_claims(d, lines))
    return SIZE[0], row_height(len(lines) + note)


def _drawn(d: Decomposition, order: int | None, top: int) -> list[Line]:
    """Return the lines from top to bottom; a remainder of unknown variance has none."""
    sizes = {subset: line.size for subset, line in d.ranking.by_effect.items()}

    def is_wanted(subset: Subset) -> bool:
        return order in (None, len(subset)) and not np.isnan(sizes[subset])

    return d.ranking.leading(top, is_wanted)


def _kind(line: Line) -> tuple[str, str]:
    """Return what a bar is of, and its colour."""
    if line.is_sum:
        return _CANCELLING
    return _KINDS[min(len(line.subset), 3)] if line.subset else _REST


def _claims(d: Decomposition, lines: list[Line]) -> list[str]:
    """Return what holds of the leading collinear effects without a bar for their sum."""
    shown = {line.subset for line in lines}
    apart = [group for group in d.ranking.collinear if group.reason != "cancel"]
    return [group.claim for group in apart if not shown.isdisjoint(group.members)]


def _whiskers(d: Decomposition, lines: list[Line]) -> dict[int, tuple[float, float]]:
    """Return the interval of the size of each line in one more training, by its place."""
    if d.spread is None:
        return {}
    intervals = {}
    for i, line in enumerate(lines):
        if line.subset and line.subset in d.spread.stacked:
            lower, upper = d.spread.size_interval(line.subset, LEVEL, together=True)
            intervals[i] = float(lower[0]), float(upper[0])
    return intervals
