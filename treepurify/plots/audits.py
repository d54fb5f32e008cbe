"""The picture of a finding of an audit."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_result, check_whole
from treepurify.auditing.findings import Finding
from treepurify.auditing.ranked_findings import Audit
from treepurify.components import TensorComponent
from treepurify.errors import InvalidInputError
from treepurify.plots.axis_layout import Scale
from treepurify.plots.curves import Band, draw_curve
from treepurify.plots.main_effects import draw_main_effect, main_effect_size
from treepurify.plots.overlays import overlay
from treepurify.plots.pairs import draw_pair, lay_out_pair
from treepurify.plots.style import BEFORE, MUTED, SMALL_SIZE, axes_or_new, legend_above
from treepurify.plots.terms import find_tensor
from treepurify.plots.together import together

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def finding(
    audit: Audit,
    what: int | Finding,
    *,
    scale: Scale | tuple[Scale, Scale] = "auto",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one finding of an audit.

    The figure depends on the kind of finding. For main effects: the effect before and after
    purification, with the contradicting region shaded; under both distributions; with its band over
    resampled rows; or with the values shaded at which it jumps, or whose few rows cause most of its
    variance. For pairs: the interaction as the model stores it; under the other distribution; with
    cells without data hatched; or the pair through which a feature acts. For effects that cancel or
    that belong to near copies: the effects and their sum.

    If a finding concerns several effects, the first is drawn, such as the larger of two that share
    a part. Effects are on the margin scale.

    Parameters
    ----------
    audit : Audit
        The audit.
    what : int or Finding
        One of the findings, or its rank, starting from 0.
    scale : {"auto", "value", "rank", "log"} or tuple of two of them
        Scale of numeric features, as in `main_effect` or, for a pair, as in `pair`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidInputError
        If there is no such finding, or it concerns more than two features.
    MissingDependencyError
        If matplotlib is not installed.

    See Also
    --------
    audit : Findings about a model, ranked by importance.
    treepurify.plots.main_effect : Figure of one main effect.
    treepurify.plots.pair : An interaction as a heatmap.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    >>> model = DecisionTreeRegressor().fit(X, X.prod(axis=1))
    >>> audit = tp.audit(model, X, n_bootstrap=2, progress=False)
    >>> ax = tp.plots.finding(audit, 0)
    >>> ax.get_title(loc="right") == audit.findings[0].kind
    True
    """
    check_result("audit", audit, Audit, "treepurify.audit")
    if not isinstance(what, Finding):
        if not audit.findings:
            raise InvalidInputError("this audit has no findings to draw")
        check_whole("what", what, 0, len(audit.findings) - 1)
        what = audit.findings[what]
    n_features = len(what.effects[0])
    if what.kind == "collinear effects":
        drawn = together(audit.decomposition, *what.effects, output=what.output, ax=ax)
    elif n_features > 2:
        raise InvalidInputError("findings about more than two features have no picture")
    else:
        drawn = (_draw_pair if n_features == 2 else _draw_main)(audit, what, scale, ax)
    # One of the two: the other is that of the audit itself.
    is_other = what.kind == "distribution" and n_features == 2
    words = what.kind + (f": under {what.measure}" if is_other else "")
    drawn.set_title("")
    drawn.set_title(words, fontsize=SMALL_SIZE, color=MUTED, loc="right")
    return drawn


def _draw_pair(audit: Audit, what: Finding, scale: Any, ax: "Axes | None") -> "Axes":
    d, before = audit.decomposition, what.kind == "spurious interaction"
    if what.kind == "distribution":
        d = audit.comparisons[what.measure].second
    key = (what.effects[0][0], what.effects[0][1])
    laid_out = lay_out_pair(d, key, what.output, before=before, scale=scale)
    return draw_pair(laid_out, ax, show_empty=what.kind == "extrapolation")


def _draw_main(audit: Audit, what: Finding, scale: Any, ax: "Axes | None") -> "Axes":
    d, effect = audit.decomposition, what.effects[0]
    if what.kind == "distribution":
        other = audit.comparisons[what.measure].second
        both = {d.measure: d, other.measure: other}
        return overlay(both, effect[0], output=what.output, scale=scale, ax=ax)
    before = what.kind not in {"instability", "training", "few rows", "jumps"}
    table = find_tensor(d, effect[0], 1)
    ax = axes_or_new(ax, *main_effect_size(table))
    layout = draw_main_effect(ax, d, table, what.output, before=before, scale=scale)
    if layout is None or not isinstance(d.components[effect], TensorComponent):
        return ax
    if what.kind == "instability" and effect in audit.spread:
        half = 2 * audit.spread[effect][:, what.output]
        values = table.values[:, what.output]
        words = "\u00b1 2 standard errors (rows resampled)"
        band = Band(values - half, values + half, words)
        look = {"color": BEFORE, "linewidth": 0, "label": "_effect"}
        draw_curve(ax, layout, values, band=band, look=look)
        legend_above(ax, 2)
    regular = np.array([cell for cell in what.cells if cell < layout.n_regular], dtype=np.intp)
    edges = layout.regular_edges
    for run in np.split(regular, np.flatnonzero(np.diff(regular) > 1) + 1) if len(regular) else ():
        ax.axvspan(edges[run[0]], edges[run[-1] + 1], color=BEFORE, alpha=0.12, zorder=0)
    return ax
