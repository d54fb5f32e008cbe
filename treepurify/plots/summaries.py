"""The figure of a whole model: its leading effects side by side on one page."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.components import TensorComponent, is_drawable
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.labels import effect_label, shorten_all, with_minus
from treepurify.plots.main_effects import draw_main_effect
from treepurify.plots.pairs import draw_pair, lay_out_pair
from treepurify.plots.style import INK, LABEL_SIZE, MUTED, SMALL_SIZE, import_matplotlib
from treepurify.plots.terms import find_tensor, output_position
from treepurify.terms import same_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# In inches, the height with three rows.
_WIDTH, _ROW_HEIGHT = 9.0, 8.0 / 3
# Letters of the titles of panels in one row, and categories of a panel.
_LETTERS_OF_TITLES, _MOST_CATEGORIES = 90, 6
# Of the usual size of texts.
_FONT_PART = 0.8
_MOST_COLUMNS = 4


def summary(
    d: Decomposition,
    *,
    order: int | None = None,
    top: int = 9,
    columns: int = 3,
    output: int | str = 0,
) -> "Figure":
    """Draw the leading effects of a model in one figure, each in a panel.

    Main effects are curves or bars, with the distribution of the data next to them; pairs are
    heatmaps. Each panel has a suitable scale, on the margin scale of the model, and a title with
    the size and the share of the effect over all outputs, as `Decomposition.importance` has them.
    Of a feature with many categories, the six most frequent are drawn. Save the figure with
    ``savefig("model.pdf")``.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    order : int, optional
        Only main effects (1) or pairs (2); by default both.
    top : int
        Number of effects, the largest first; more if effects that cancel would otherwise be
        separated. Effects of three or more features cannot be drawn and are skipped.
    columns : int
        Number of panels in a row, at most 4.
    output : int or str
        The output, by position or name.

    Returns
    -------
    matplotlib Figure
        A new figure, with one panel per effect in ``figure.axes``.

    Raises
    ------
    InvalidInputError
        If there is no effect of one or two features, or an argument is invalid.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    treepurify.plots.importance : Sizes of the largest effects.
    treepurify.plots.main_effect : Figure of one main effect.
    treepurify.plots.pair : An interaction as a heatmap.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> [ax.get_title(loc="left") for ax in tp.plots.summary(d).axes]
    ['x0: 0.250 (33%)', 'x1: 0.250 (33%)', 'x0 & x1: 0.250 (33%)']
    """
    check_result("d", d, Decomposition)
    check_whole("top", top, 1)
    check_whole("columns", columns, 1, _MOST_COLUMNS)
    if order is not None:
        check_whole("order", order, 1, 2)
    position = output_position(d, output)
    shown = _leading_effects(d, top, (1, 2) if order is None else (order,))
    if not shown:
        raise InvalidInputError("this decomposition has no effect of one or two features to draw")
    columns = min(columns, len(shown))
    n_rows = -(-len(shown) // columns)
    pyplot = import_matplotlib("pyplot")
    # Outside of the settings below: the first figure of a notebook switches drawing on, for good.
    figure: Figure = pyplot.figure(figsize=(_WIDTH, _ROW_HEIGHT * n_rows), layout="constrained")
    names = shorten_all(map(d.term_name, shown), _LETTERS_OF_TITLES // columns - 12)
    numbers = _size_words(d, shown)
    with pyplot.rc_context({"font.size": _FONT_PART * pyplot.rcParams["font.size"]}):
        label = effect_label(d, position)
        figure.suptitle(f"{label[0].upper()}{label[1:]}", color=INK)
        words = "Size (standard deviation)"
        if not np.isnan(d.ranking.by_effect[shown[0]].share):
            words += " and share of the variance (by covariance)"
        words += " of each effect. Each panel has its own scale."
        figure.supxlabel(words, color=MUTED, size=SMALL_SIZE)
        for place, (subset, name) in enumerate(zip(shown, names, strict=True)):
            ax = figure.add_subplot(n_rows, columns, place + 1)
            if len(subset) == 1:
                table = find_tensor(d, subset[0], 1)
                most = _MOST_CATEGORIES
                draw_main_effect(ax, d, table, position, before=False, most=most)
                # One title says for all panels what the numbers are.
                (ax.set_xlabel if table.axes[0].is_categorical else ax.set_ylabel)("")
            else:
                key = (subset[0], subset[1])
                draw_pair(lay_out_pair(d, key, position, most=_MOST_CATEGORIES), ax)
                # The scale of the colours is the last of the axes next to a map.
                ax.child_axes[-1].set_ylabel("")
            ax.set_title("")
            ax.set_title(f"{name}: {numbers[subset]}", loc="left", color=INK, size=LABEL_SIZE)
    return figure


def _size_words(d: Decomposition, shown: Sequence[Subset]) -> dict[Subset, str]:
    """Return sizes and shares of effects."""
    lines = {subset: d.ranking.by_effect[subset] for subset in shown}
    write = same_digits([line.size for line in lines.values()])
    return {
        subset: write(line.size)
        + ("" if np.isnan(line.share) else with_minus(f" ({line.share:z.0%})"))
        for subset, line in lines.items()
    }


def _leading_effects(d: Decomposition, top: int, orders: Collection[int]) -> list[Subset]:
    """Return the largest effects that have a figure: `top`, and the rest of a group."""

    def is_drawn(subset: Subset) -> bool:
        part = d.components.get(subset)
        is_shown = isinstance(part, TensorComponent) or (part is not None and is_drawable(part))
        return len(subset) in orders and is_shown

    return [line.subset for line in d.ranking.leading(top, is_drawn) if line.subset]
