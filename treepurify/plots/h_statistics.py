"""The figure of H-statistics: bars of how much of an effect is interaction."""

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_result, check_whole, read_output
from treepurify.errors import InvalidInputError
from treepurify.plots.labels import numbers_alike
from treepurify.plots.style import (
    DATA,
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
from treepurify.terms import term_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from treepurify.interactions.h_statistics import HStatistics

Of = Literal["features", "pairs", "triples"]
Show = Literal["h_squared", "h", "strength", "purified_share"]

_NAME_COLUMNS = ("feature", "first", "second", "third")
_WORDS = {
    "h_squared": "H², share of interaction",
    "h": "H, root of the share of interaction",
    "strength": "root mean square of the interaction",
    "purified_share": "share of interaction, if features were independent",
}


def h_statistics(
    statistics: "HStatistics",
    *,
    of: Of = "pairs",
    show: Show = "h_squared",
    output: int | str = 0,
    top: int = 15,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw H-statistics as bars, the largest first.

    H-statistics are ratios without a unit. A ratio means little if its denominator is small, so
    bars with an unstable ratio (above 1, or with a denominator below 1% of the variance of the
    model) are grey. The `top` interactions are chosen by strength, so such ratios do not displace
    important ones.

    Parameters
    ----------
    statistics : HStatistics
        From ``tp.h_statistics``.
    of : {"pairs", "features", "triples"}
        Interactions of pairs, of each feature with all others, or of triples.
    show : {"h_squared", "h", "strength", "purified_share"}
        The column of the table to draw. ``"strength"`` is on the scale of the model, the others
        have no unit.
    output : int or str
        The output, by position or name.
    top : int
        Largest number of bars.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is no such output, `of`, `show` or `top` is invalid, or the requested statistic was
        not computed.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    h_statistics : Interaction strength from partial dependence.
    treepurify.plots.network : The leading interactions as a graph.

    References
    ----------
    Friedman and Popescu 2008, "Predictive learning via rule ensembles", equations 44 to 46.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 3))
    >>> statistics = tp.h_statistics(
    ...     lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], X, progress=False
    ... )
    >>> ax = tp.plots.h_statistics(statistics, top=1)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['x0 & x1']
    """
    from treepurify.interactions.h_statistics import HStatistics

    check_result("statistics", statistics, HStatistics, "treepurify.h_statistics")
    check_choice("of", of, get_args(Of))
    check_choice("show", show, get_args(Show))
    check_whole("top", top, 1)
    table = _table(statistics, of, output).head(top)
    if table.empty:
        raise InvalidInputError(f"these statistics have no {of}: request them from tp.h_statistics")
    if table[show].isna().all():
        raise InvalidInputError(f"{show!r} was not computed in these statistics")
    table = table.sort_values(show, ascending=False, kind="stable")
    columns = [name for name in _NAME_COLUMNS if name in table]
    names = [term_name(map(str, row)) for row in table[columns].itertuples(index=False)]
    values = table[show].to_numpy(dtype=np.float64)
    unstable = table["unstable"].to_numpy(dtype=bool) & (show in ("h_squared", "h"))
    ax = axes_or_new(ax, SIZE[0], row_height(len(names)))
    places = np.arange(len(names))
    for chosen, color, label in ((~unstable, PAIR, "stable"), (unstable, DATA, "unstable ratio")):
        if chosen.any():
            ax.barh(places[chosen], values[chosen], height=0.7, color=color, label=label)
    for place, (value, words) in enumerate(zip(values, numbers_alike(values), strict=True)):
        said = "unknown" if np.isnan(value) else words
        write_next_to(ax, said, (float(np.nan_to_num(value)), float(place)))
    style_axes(ax)
    name_rows(ax, names)
    ax.set_xlim(0.0, 1.16 * float(np.nanmax(values, initial=0.0)) or 1.0)
    number_ticks(ax.xaxis)
    name_below(ax, _WORDS[show])
    if unstable.any():
        legend_above(ax, 2)
    return ax


def _table(statistics: "HStatistics", of: Of, output: int | str) -> "pd.DataFrame":
    """Return the rows of one output, the largest strength first."""
    tables = {
        "features": statistics.features,
        "pairs": statistics.pairs,
        "triples": statistics.triples,
    }
    names = statistics.output_names
    position = read_output(output, names)
    table = tables[of]()
    if "output" not in table:
        return table
    return table[table["output"] == names[position]]
