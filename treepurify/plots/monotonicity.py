"""The figure of the effect that breaks monotonicity, with the step where it does."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_result, read_output
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.drawing import middle_values
from treepurify.grids.grid import Subset
from treepurify.plots.labels import number_words, shorten
from treepurify.plots.main_effects import main_effect
from treepurify.plots.pair_lines import pair_lines
from treepurify.plots.style import INK, axes_or_new, legend_above
from treepurify.plots.terms import find_tensor
from treepurify.terms import read_features
from treepurify.validation.monotonicity_result import Monotonicity, MonotonicityCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WRONG = "#d55e00"


def monotonicity(
    found: Monotonicity,
    d: Decomposition,
    feature: str | int | None = None,
    *,
    output: int | str = 0,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect that contributes most to the worst violation of monotonicity.

    This is the main effect of the feature or, drawn as lines, one of its interactions. The step is
    shaded, and a dashed line shows the sum of the main effect and the interaction for the row at
    which the step was found. ``check.by_effect(d)`` lists the contribution of every effect to the
    step. Effects are on the margin scale.

    Parameters
    ----------
    found : Monotonicity
        The result of `treepurify.check_monotonicity`.
    d : Decomposition
        A decomposition of the same model; its main effects and pairs can be drawn.
    feature : str or int, optional
        The feature, by name or position; by default the one with the largest wrong step.
    output : int or str
        The output, by position or name.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If no wrong step was found, or the decomposition has no cell for one of its values.
    UnknownComponentError
        If the feature was not checked.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    check_monotonicity : Proof or counter-example of monotonicity.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, [0.0, 2.0, 1.0, 1.0])
    >>> found = tp.check_monotonicity(model, X, {"x0": "increasing"})
    >>> ax = tp.plots.monotonicity(found, tp.purify(model, X))
    >>> " ".join(ax.get_legend().get_title().get_text().split())
    'worst step: \N{MINUS SIGN}1 in all, \N{MINUS SIGN}1 from x0 & x1'
    """
    check_result("found", found, Monotonicity, "treepurify.check_monotonicity")
    check_result("d", d, Decomposition)
    k = read_output(output, found.output_names)
    check = _chosen(found, feature, k)
    parts = check.by_effect(d)
    subset = _breaking(d, check, parts.index.tolist())
    name = d.term_name(subset)
    (j,) = read_features(check.feature, d.feature_names)
    key = (j, *(i for i in subset if i != j))
    ax = axes_or_new(ax)
    if len(key) == 1:
        main_effect(d, j, output=k, before=False, scale="value", ax=ax)
    else:
        pair_lines(d, (key[0], key[1]), output=k, scale="value", ax=ax)
    axis = find_tensor(d, j, 1).axes[0]
    if not axis.is_categorical and check.worst is not None:
        # Rows beyond the data would make the axis wider.
        limits = ax.get_xlim()
        rows = check.worst.row, check.worst.neighbour
        ends = np.clip([float(row[check.feature]) for row in rows], *limits)
        ax.axvspan(*ends, color=_WRONG, alpha=0.25, linewidth=0, label="worst step", zorder=0)
        ax.axvline(ends.mean(), color=_WRONG, linewidth=0.8, zorder=0)
        if len(key) == 2:
            _draw_row(ax, d, check, (j, key[1]), k)
        ax.set_xlim(limits)
    total, own = (number_words(size, 3) for size in (parts.sum(), parts.get(name, 0.0)))
    legend_above(ax, 2, f"worst step: {total} in all, {own} from {shorten(name, 30)}")
    return ax


def _chosen(found: Monotonicity, feature: str | int | None, output: int) -> MonotonicityCheck:
    """Return the check of a feature, or that with the largest wrong step."""
    name = found.output_names[output]
    if feature is not None:
        return found.check(feature, output)
    wrong = [check for check in found.checks if check.worst is not None and check.output == name]
    if not wrong:
        raise InvalidInputError(
            "no wrong step was found, so there is nothing to draw: " + " ".join(found.summary())
        )
    return max(wrong, key=lambda check: check.worst.size if check.worst else 0.0)


def _breaking(d: Decomposition, check: MonotonicityCheck, names: list[str]) -> Subset:
    """Return the main effect or pair that goes against the direction most.

    Effects of more features have no figure; where they alone break it, the main effect is shown.
    """
    (j,) = read_features(check.feature, d.feature_names)
    drawn = {d.term_name(s): s for s in d.tensor_components() if j in s and len(s) <= 2}
    return next((drawn[name] for name in names if name in drawn), (j,))


def _draw_row(
    ax: "Axes", d: Decomposition, check: MonotonicityCheck, pair: Subset, output: int
) -> None:
    """Draw the main effect and the pair with the partner as in the row of the worst step."""
    if check.worst is None:
        return
    axis = find_tensor(d, pair[0], 1).axes[0]
    points = middle_values(axis)[: axis.n_regular]
    frame = check.worst.to_frame().iloc[[0] * len(points)].reset_index(drop=True)
    frame[check.feature] = points
    table: Any = d.contributions(frame)
    if d.n_outputs > 1:
        table = table.xs(d.output_names[output], axis=1, level="output")
    names = [d.term_name(subset) for subset in (pair[:1], tuple(sorted(pair)))]
    partner = d.feature_names[pair[1]]
    value = check.worst.row[partner]
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    ax.plot(
        points,
        table[[name for name in names if name in table]].sum(axis=1),
        drawstyle="steps-mid",
        color=INK,
        linewidth=1.2,
        linestyle=(0, (4, 1.5)),
        label=f"{shorten(partner, 20)} {shorten(shown, 22)} (row)",
    )
