"""The figure of what matters: bars of the share of each component."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.plots.curves import BAND_WORDS
from treepurify.plots.labels import with_minus
from treepurify.plots.style import (
    DATA,
    FRAME,
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
from treepurify.ranking import Ranking, SortBy
from treepurify.spread import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["importance", "importance_size"]

_CANCELLING = ("effects that cancel, together", MUTED)
_REST = ("the rest", DATA)
_KINDS = {1: ("main effect", MAIN), 2: ("pair", PAIR), 3: ("three or more features", HIGHER)}
# How far bars of effects are from the full colour where a bar above them holds their sum.
_PALE = 0.5
# What a note below the bars takes, in rows.
_ROWS_OF_NOTE = 2


def importance(
    d: Decomposition,
    *,
    top: int = 15,
    sort_by: SortBy | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the shares of the most important effects as bars.

    A note below the bars names main effects that must be read together.

    If several trainings were purified, the whiskers are prediction intervals of 90% for the
    variance of the effect in one more training, divided by the same sum
    (`Spread.variance_interval`). The bar shows the variance of the mean over the trainings, which
    contains less noise than a single training. There are no whiskers with covariances.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    top : int
        Number of effects. One more bar shows all others.
    sort_by : {"covariance", "variance"}, optional
        ``"covariance"`` is the share of the variance of the model, ``Cov(f_S, f) / Var f``. It
        includes the covariance with effects of dependent features, may be negative, and is ranked
        by absolute value. Effects that largely cancel are pale bars below a bar for their sum.
        ``"variance"`` is the share of the sum of the variances of all effects. By default
        covariances, if the distribution determines them and no whiskers are drawn (whiskers refer
        to variances).
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` is less than one, `sort_by` is unknown, or the distribution does not determine
        covariances.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    Decomposition.importance : The table of all effects.
    treepurify.plots.summary : Figures of the leading effects.

    Notes
    -----
    The shares are ``variance_share`` and ``covariance_share`` of `Decomposition.importance`. For
    several outputs variances and covariances are added up over the outputs first.

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
    whiskers = _whiskers(d)
    if sort_by is None and whiskers:
        sort_by = "variance"
    ranking = d.ranking if sort_by is None else d.rank(sort_by)
    bars = _bars(d, ranking, top)
    names, shares = [bar.name for bar in bars], [bar.share for bar in bars]
    whiskers = whiskers if ranking.sort_by == "variance" else {}
    ax = axes_or_new(ax, *importance_size(d, top))
    kinds = [bar.kind for bar in bars]
    known = [*_KINDS.values(), _CANCELLING, _REST]
    for kind, color in sorted(set(kinds), key=known.index):
        places = [i for i, each in enumerate(kinds) if each == (kind, color)]
        drawn = ax.barh(places, [shares[i] for i in places], height=0.72, color=color, label=kind)
        for i, patch in zip(places, drawn, strict=True):
            patch.set_alpha(_PALE if bars[i].is_member else None)
    ends = {i: whiskers[name] for i, name in enumerate(names) if name in whiskers}
    if ends:
        lower, upper = np.array([*ends.values()]).T
        ax.hlines([*ends], lower, upper, color="black", linewidth=1.1, label=BAND_WORDS)
    for i, share in enumerate(shares):
        words = with_minus(f"{share:.1%}") if abs(share) >= 0.0005 else "< 0.1%"
        # Of negative shares on the other side of zero: on their own side the names are near.
        end = max(share, ends[i][1]) if i in ends else max(share, 0.0)
        write_next_to(ax, words, (end, i), 4)
    style_axes(ax)
    name_rows(ax, names)
    reached = [0.0, *shares, *(upper for _, upper in ends.values())]
    lowest, highest = min(reached), max(reached) or 1.0
    ax.set_xlim(lowest and lowest - 0.04 * (highest - lowest), highest + 0.14 * (highest - lowest))
    if lowest < 0:
        ax.axvline(0.0, color=FRAME, linewidth=0.8)
    number_ticks(ax.xaxis, "shares")
    name_below(ax, f"share of {ranking.of_what}", "".join(_claims(ranking, bars)[:1]))
    if ends or len({kind for kind in kinds if kind[0] != "the rest"}) > 1:
        legend_above(ax, 3)
    return ax


def importance_size(d: Decomposition, top: int = 15) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure."""
    bars = _bars(d, d.ranking, top)
    note = _ROWS_OF_NOTE * bool(_claims(d.ranking, bars))
    return SIZE[0], row_height(len(bars) + note)


class _Bar(NamedTuple):
    """One bar, its kind and the colour of it, whether a bar above holds its sum, and its effect."""

    name: str
    share: float
    kind: tuple[str, str]
    is_member: bool = False
    subset: Subset = ()


def _bars(d: Decomposition, ranking: Ranking, top: int) -> list[_Bar]:
    """Return the bars from top to bottom; a remainder of unknown variance has none."""
    shares = _known_shares(d, ranking)
    order = [subset for subset in ranking.order if subset in shares]
    shown = order if len(order) - top <= 1 else order[: ranking.n_shown(order, top)]
    bars = []
    for subset in shown:
        group = ranking.first_members.get(subset)
        if group is not None:
            bars.append(_Bar(group.name, ranking.share(group), _CANCELLING))
        kind = _KINDS[min(len(subset), 3)] if subset else _REST
        name = d.term_name(subset) if subset else "remainder"
        bars.append(_Bar(name, shares[subset], kind, subset in ranking.group_names, subset))
    if len(shown) < len(order):
        left = order[len(shown) :]
        bars.append(_Bar(f"{len(left)} more", sum(shares[subset] for subset in left), _REST))
    return bars


def _claims(ranking: Ranking, bars: list[_Bar]) -> list[str]:
    """Return what holds of the leading collinear effects without a bar for their sum."""
    shown = {bar.subset for bar in bars}
    apart = [group for group in ranking.collinear if group.reason != "cancel"]
    return [group.claim for group in apart if not shown.isdisjoint(group.members)]


def _known_shares(d: Decomposition, ranking: Ranking) -> dict[Subset, float]:
    """Return the shares; without the remainder where its variance is not known."""
    if not np.isnan([*ranking.shares.values()]).any():
        return dict(ranking.shares)
    sizes = {subset: float(np.sum(c.variance)) for subset, c in d.components.items()}
    whole = sum(sizes.values()) or 1.0
    return {subset: size / whole for subset, size in sizes.items()}


def _whiskers(d: Decomposition) -> dict[str, tuple[float, float]]:
    """Return the interval of the share of each effect in one more training, by its name."""
    if d.spread is None:
        return {}
    sizes = [float(np.sum(component.variance)) for component in d.components.values()]
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        sizes.append(float(np.sum(d.remainder.variance)))
    total = sum(sizes) or 1.0
    intervals = {}
    for subset in d.spread.stacked:
        lower, upper = d.spread.variance_interval(subset, LEVEL, together=True)
        intervals[d.term_name(subset)] = float(lower[0]) / total, float(upper[0]) / total
    return intervals
