"""The figure of a simplification: how the held-out loss rises as effects are left out."""

from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_flag, check_result
from treepurify.evidence.losses import loss_words
from treepurify.evidence.simplification import Simplification
from treepurify.plots.style import (
    AFTER,
    BEFORE,
    DATA,
    UP,
    axes_or_new,
    legend_above,
    number_ticks,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Losses this many times as far above the tolerance are left out of the figure.
_MOST_TIMES = 8


def simplification(
    simple: Simplification, *, whole: bool = False, ax: "Axes | None" = None
) -> "Axes":
    """Draw the held-out loss against the number of effects, and mark the chosen step.

    Parameters
    ----------
    simple : Simplification
        The result of `treepurify.simplify`.
    whole : bool
        Whether to draw the whole path down to the intercept, rather than only the part in which the
        loss is close to that of the model.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    simplify : The fewest effects that the held-out loss allows.
    treepurify.plots.worth : Figure of the worth of effects.

    Notes
    -----
    The band is one standard error, over rows, of the difference from the loss of the model. The
    rows are the same at every step, so this difference is more precise than the loss itself. Losses
    are in the units of the loss.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> ax = tp.plots.simplification(tp.simplify(d, X, [0, 0, 0, 1]))
    >>> ax.get_xlabel()
    'number of effects'
    """
    check_result("simple", simple, Simplification, "treepurify.simplify")
    check_flag("whole", whole)
    table = simple.to_frame()
    limit = simple.model_loss + simple.tolerance * abs(simple.model_loss)
    if not whole:
        near = max(limit - simple.model_loss, table["loss"].max() * 1e-3)
        table = table[table["loss"] <= simple.model_loss + _MOST_TIMES * near]
    ax = axes_or_new(ax)
    error = np.nan_to_num(table["rise_error"].to_numpy() * abs(simple.model_loss))
    counts, losses = table["n_effects"].to_numpy(), table["loss"].to_numpy()
    if error.any():
        ax.fill_between(
            counts,
            losses - error,
            losses + error,
            color=BEFORE,
            alpha=0.25,
            linewidth=0,
            label="± one standard error of the increase over the model",
        )
    ax.plot(counts, losses, color=AFTER, marker="o", markersize=3.5, label="held-out loss")
    ax.axhline(limit, color=DATA, linewidth=1.0, linestyle="--", label="tolerance")
    taken = simple.steps[simple.chosen]
    ax.plot(
        [len(taken.kept)],
        [taken.loss],
        marker="D",
        markersize=7,
        linestyle="none",
        color=UP,
        label=f"chosen: {len(taken.kept)} effects",
    )
    style_axes(ax)
    ax.set_xlabel("number of effects")
    ax.set_ylabel(loss_words(simple.loss))
    number_ticks(ax.xaxis, "counts")
    number_ticks(ax.yaxis)
    legend_above(ax, 2)
    return ax
