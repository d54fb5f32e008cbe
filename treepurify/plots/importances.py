"""The figure of what matters: bars of the variance of each component."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from treepurify.arguments import check_choice, check_result, check_whole
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.axis_ticks import name_rows
from treepurify.plots.bands import band_words, check_level
from treepurify.plots.labels import with_minus
from treepurify.plots.style import (
    DATA,
    FRAME,
    HIGHER,
    MAIN,
    PAIR,
    axes_or_new,
    legend_above,
    number_ticks,
    style_axes,
    write_next_to,
)
from treepurify.spread import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["importance", "importance_size"]

_LABELS = {
    "variance": "share of the components' variance",
    "covariance": "share of the model's variance, by covariance",
}
_KINDS = {1: ("main effect", MAIN), 2: ("pair", PAIR), 3: ("three or more features", HIGHER)}


def importance(
    d: Decomposition,
    *,
    top: int = 15,
    by: Literal["variance", "covariance"] = "variance",
    level: float | None = LEVEL,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of the most important components as bars.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    top : int
        Number of bars. What is left is one more bar.
    by : {"variance", "covariance"}
        The share of the sum of the components' own variances; or the share of the variance of
        the model, ``Cov(f_S, f) / Var f``, which also counts what components of dependent
        features have in common. The latter may be negative, and is ranked by its size.
    level : float, optional
        Where several trainings were purified: the rate of the whiskers between which the variance
        of the effect would lie in one more of them, over the same sum
        (`Spread.variance_interval`). The bar is the variance of the mean of the trainings, in
        which noise is smaller than in each. None for no whiskers; covariances have none.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` is less than one, `by` is unknown, `level` does not lie between 0 and 1, or the
        measure gives no covariances.
    MissingDependencyError
        If matplotlib is not installed.

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
    check_choice("by", by, _LABELS)
    check_level(level)
    sizes = _sizes(d) if by == "variance" else _covariances(d)
    names, orders, shares = _shares(d, sizes)
    whiskers = _whiskers(d, sizes, level) if by == "variance" else {}
    rest = len(names) - top
    if rest > 1:
        names = [*names[:top], f"{rest} more"]
        orders, shares = [*orders[:top], 0], [*shares[:top], sum(shares[top:])]
    ax = axes_or_new(ax, *importance_size(d, top))
    kinds = [_KINDS[min(order, 3)] if order else ("the rest", DATA) for order in orders]
    for kind, color in dict.fromkeys(kinds):
        places = [i for i, each in enumerate(kinds) if each == (kind, color)]
        ax.barh(places, [shares[i] for i in places], height=0.72, color=color, label=kind)
    ends = {i: whiskers[name] for i, name in enumerate(names) if name in whiskers}
    if ends:
        lower, upper = np.array([*ends.values()]).T
        words = band_words(level or LEVEL)
        ax.hlines([*ends], lower, upper, color="black", linewidth=1.1, label=words)
    for i, share in enumerate(shares):
        words = with_minus(f"{share:.1%}") if abs(share) >= 0.0005 else "< 0.1%"
        end = max(share, ends[i][1]) if i in ends else share
        write_next_to(ax, words, (end, i), 4 if share >= 0 else -4)
    style_axes(ax)
    name_rows(ax, names)
    drawn = [0.0, *shares, *(upper for _, upper in ends.values())]
    lowest, highest = min(drawn), max(drawn) or 1.0
    ax.set_xlim(lowest and lowest - 0.16 * (highest - lowest), highest + 0.14 * (highest - lowest))
    if lowest < 0:
        ax.axvline(0.0, color=FRAME, linewidth=0.8)
    number_ticks(ax.xaxis, 5, of="shares")
    ax.set_xlabel(_LABELS[by], loc="right")
    if ends or len({kind for kind in kinds if kind[0] != "the rest"}) > 1:
        legend_above(ax, 3 if len(set(kinds)) + bool(ends) <= 3 else 2, side="right")
    return ax


def importance_size(d: Decomposition, top: int = 15) -> tuple[float, float]:
    """Return the width and height in inches that suit the figure."""
    n_bars = min(len(d) + (d.remainder is not None), top + 1)
    return 4.6, max(0.23 * n_bars + 0.8, 1.6)


def _sizes(d: Decomposition) -> dict[Subset, float]:
    """Return the variance of each component; of the remainder, where it is known, for ()."""
    sizes = {subset: float(np.sum(c.variance)) for subset, c in d.components.items()}
    if d.remainder is not None and not np.any(np.isnan(d.remainder.variance)):
        sizes[()] = float(np.sum(d.remainder.variance))
    return sizes


def _whiskers(
    d: Decomposition, sizes: dict[Subset, float], level: float | None
) -> dict[str, tuple[float, float]]:
    """Return the interval of the share of each effect in one more training, by its name."""
    if level is None or d.spread is None:
        return {}
    total = sum(sizes.values()) or 1.0
    intervals = {}
    for subset in d.spread.stacked:
        lower, upper = d.spread.variance_interval(subset, level, together=True)
        intervals[d.term_name(subset)] = float(lower[0]) / total, float(upper[0]) / total
    return intervals


def _covariances(d: Decomposition) -> dict[Subset, float]:
    """Return the covariance of each component, and of the remainder for (), with the model."""
    wanted = [*d.components, *([()] if d.remainder is not None else [])]
    known = d.covariances or {}
    if not all(subset in known for subset in wanted):
        raise InvalidInputError(
            'this measure gives no covariances with the model; use by="variance"'
        )
    return {subset: float(np.sum(known[subset])) for subset in wanted}


def _shares(
    d: Decomposition, sizes: dict[Subset, float]
) -> tuple[list[str], list[int], list[float]]:
    """Return names, orders (0 for the remainder) and shares, the largest first."""
    order = sorted(sizes, key=lambda subset: -abs(sizes[subset]))
    total = sum(sizes.values()) or 1.0
    return (
        [d.term_name(subset) if subset else "remainder" for subset in order],
        [len(subset) for subset in order],
        [sizes[subset] / total for subset in order],
    )
