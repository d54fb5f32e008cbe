"""The figure of a comparison: the size of each effect in both, and their distance."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.comparing.comparison import Comparison
from treepurify.plots.labels import shorten
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DATA,
    FRAME,
    INK,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def comparison(compared: Comparison, *, top: int = 15, ax: "Axes | None" = None) -> "Axes":
    """Draw the size of each effect in two decompositions, and the distance between the effects.

    Two dots show the size (standard deviation) of each effect in both decompositions. The grey bar
    is the root mean square difference between the two effects, which can be large even if the sizes
    agree. If at least one side has several trainings, a vertical line on the bar marks the
    difference expected from training alone. All are on the margin scale.

    Parameters
    ----------
    compared : Comparison
        The result of `treepurify.compare`.
    top : int
        Number of effects; those that differ most are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If `top` is less than one.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    compare : Differences of two decompositions, effect by effect.
    treepurify.plots.overlay : One main effect of several decompositions.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0, 0, 0, 1, 1])
    >>> compared = tp.compare(tp.purify(model, X), tp.purify(model, X, weights="uniform"))
    >>> ax = tp.plots.comparison(compared)
    >>> len(ax.get_yticklabels())
    3
    """
    check_result("compared", compared, Comparison, "treepurify.compare")
    check_whole("top", top, 1)
    rows = compared.terms.head(top)
    ax = axes_or_new(ax, SIZE[0], row_height(len(rows)))
    places = np.arange(len(rows))
    first, second = (rows[f"deviation_{which}"].to_numpy() for which in ("first", "second"))
    ax.barh(places, rows["distance"], height=0.6, color=DATA, alpha=0.5, label="difference")
    ax.hlines(places, first, second, color=FRAME, linewidth=1.5, zorder=2)
    for values, color, name, marker in (
        (first, BEFORE, compared.names[0], "o"),
        (second, AFTER, compared.names[1], "D"),
    ):
        # Where both agree, the first shows around the second.
        size = 9 if marker == "o" else 5
        ax.plot(
            values,
            places,
            linestyle="none",
            marker=marker,
            markersize=size,
            color=color,
            label=shorten(name, 30),
            zorder=3,
        )
    if "spread_first" in rows:
        noise = np.sqrt(np.nansum(rows[["spread_first", "spread_second"]] ** 2, axis=1))
        ax.plot(noise, places, "|", color=INK, markersize=10, label="spread of trainings", zorder=2)
    style_axes(ax)
    several = compared.first.n_outputs > 1
    names = [
        f"{row['term']} [{row['output']}]" if several else row["term"]
        for row in rows.to_dict("records")
    ]
    name_rows(ax, names)
    ax.set_xlim(left=0.0)
    number_ticks(ax.xaxis)
    name_below(ax, "root mean square of the effects and of their difference")
    for place, part in enumerate(rows["sign_changes"]):
        if part >= 0.01:
            largest = max(first[place], second[place], rows["distance"].iloc[place])
            write_next_to(ax, f"sign differs for {part:.0%}", (largest, place), 8)
    ax.margins(x=0.2)
    legend_above(ax, 4)
    return ax
