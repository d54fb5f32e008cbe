"""The figure of a whole model: its leading effects side by side on one page."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.components import Component, TensorComponent, is_drawable
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.plots.labels import effect_label, shorten_all, with_minus
from treepurify.plots.library import LABEL_SIZE, SMALL_SIZE, import_matplotlib, text_size
from treepurify.plots.main_effects import main_effect
from treepurify.plots.pairs import draw_pair
from treepurify.plots.style import INK, MUTED
from treepurify.plots.terms import output_position
from treepurify.plots.titles import text_width
from treepurify.terms import same_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["summary"]

# In inches: as wide as the text of a page of A4 or Letter, and as high with four rows.
_WIDTH, _ROW_HEIGHT = 7.2, 2.3
# Letters of the titles of panels in one row, and the part of a panel's width that a title has.
_LONGEST_TITLES, _PART_OF_PANEL = range(72, 32, -8), 0.75
# Of the usual size of texts.
_FONT_PART = 0.75
_MOST_COLUMNS = 4


def summary(
    d: Decomposition,
    *,
    order: int | None = None,
    top: int = 9,
    columns: int = 3,
    output: int | str = 0,
) -> list["Axes"]:
    """Draw the leading effects of a model in one figure, each in a panel.

    Main effects are curves or bars, with the distribution of the data next to them; pairs are
    heatmaps. Each panel has a suitable scale, on the margin scale of the model, and a title with
    the size and the share of the effect over all outputs, as `Decomposition.importance` has them.
    The figure has the width of the text of a printed page; save it with
    ``ax[0].figure.savefig("model.pdf")``.

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
    list of matplotlib Axes
        The panels, of one new figure.

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
    >>> [ax.get_title(loc="left") for ax in tp.plots.summary(d)]
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
    panels: list[Axes] = []
    pyplot = import_matplotlib("pyplot")
    # Outside of the settings below: the first figure of a notebook switches drawing on, for good.
    figure = pyplot.figure(figsize=(_WIDTH, _ROW_HEIGHT * n_rows), layout="constrained")
    with pyplot.rc_context({"font.size": _FONT_PART * pyplot.rcParams["font.size"]}):
        label = effect_label(d, position)
        figure.suptitle(f"{label[0].upper()}{label[1:]}", color=INK)
        words = "Size (standard deviation)"
        if not np.isnan(d.ranking.by_effect[shown[0]].share):
            words += " and share of the variance, by covariance"
        words += " of each effect. Each panel has its own scale."
        figure.supxlabel(words, color=MUTED, size=text_size("axes.labelsize", SMALL_SIZE))
        size = text_size("axes.labelsize", LABEL_SIZE)
        titles = _panel_titles(d, shown, columns, size)
        for place, (subset, title) in enumerate(zip(shown, titles, strict=True)):
            ax = figure.add_subplot(n_rows, columns, place + 1)
            if len(subset) == 1:
                main_effect(d, subset[0], output=position, before=False, ax=ax)
                ax.set_title("")
            else:
                draw_pair(d, (subset[0], subset[1]), output=position, has_title=False, ax=ax)
            ax.set_title(title, loc="left", color=INK, size=size)
            _leave_out_name(ax, d.components[subset])
            panels.append(ax)
    return panels


def _panel_titles(
    d: Decomposition, shown: Sequence[Subset], columns: int, size: str | float
) -> list[str]:
    """Return names, sizes and shares of effects, shortened to the width of a panel."""
    names, lines = [d.term_name(s) for s in shown], [d.ranking.by_effect[s] for s in shown]
    write = same_digits([line.size for line in lines])
    numbers = [
        write(line.size) + ("" if np.isnan(line.share) else with_minus(f" ({line.share:z.0%})"))
        for line in lines
    ]
    points = _PART_OF_PANEL * 72.0 * _WIDTH / columns
    for letters in _LONGEST_TITLES:
        short = shorten_all(names, letters // columns)
        titles = [f"{name}: {size}" for name, size in zip(short, numbers, strict=True)]
        if max(text_width(title, size) for title in titles) <= points:
            break
    return titles


def _leave_out_name(ax: "Axes", component: Component) -> None:
    """Take away what the numbers of a panel are, which one title says for all."""
    if len(component.features) == 2:
        # The scale of the colours is the last of the axes next to a map.
        ax.child_axes[-1].set_ylabel("")
    elif isinstance(component, TensorComponent) and component.axes[0].is_categorical:
        ax.set_xlabel("")
    else:
        ax.set_ylabel("")


def _leading_effects(d: Decomposition, top: int, orders: Collection[int]) -> list[Subset]:
    """Return the largest effects that have a figure: `top`, and the rest of a group."""

    def is_drawn(subset: Subset) -> bool:
        part = d.components.get(subset)
        is_shown = isinstance(part, TensorComponent) or (part is not None and is_drawable(part))
        return len(subset) in orders and is_shown

    return [line.subset for line in d.ranking.leading(top, is_drawn) if line.subset]
