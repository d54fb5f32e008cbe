"""A decomposition with a log link as factors, as pricing engines load them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import check_result
from treepurify.components import for_display
from treepurify.decomposition import Decomposition
from treepurify.errors import UnsupportedModelError
from treepurify.export.left_out import OnRemainder, check_tables, leave_out_remainder
from treepurify.frames import locate_each_cell
from treepurify.rows.row_weights import heaviest

if TYPE_CHECKING:
    import pandas as pd


def to_relativities(d: Decomposition, *, remainder: OnRemainder = "refuse") -> "pd.DataFrame":
    """Return a decomposition with a log link as a table of factors.

    The response of the model is the exponential of a sum of effects, so it is the product of a base
    and one factor of each effect, as in the rating plan of a generalised linear model with a log
    link (Goldburd, Khare & Tevet 2016). Of each single feature, the level with the most mass has
    factor one. A pair contains only the interaction, so its factors multiply those of its two
    features.

    Parameters
    ----------
    d : Decomposition
        A decomposition of one output with a log link (Poisson, Gamma, Tweedie) whose effects are
        tables of cells.
    remainder : {"refuse", "drop"}
        What to do with a remainder (effects above the order of the decomposition), which is not a
        table: raise an error, or leave it out with a `RemainderWarning` that states its size.

    Returns
    -------
    DataFrame
        One row per cell, the base first. Columns are ``term``; for each feature of the term
        ``cell_1`` (the interval or category in words), ``from_1`` and ``to_1`` (an interval
        contains x if ``from_1 <= x < to_1``; NaN for categories and missing values), ``cell_2`` and
        so on; ``factor``; and ``mass``, the share of the data: of the exposure, if that was passed
        to `purify` as ``sample_weight``.

    Raises
    ------
    InvalidInputError
        If an effect is not a table of cells.
    UnsupportedModelError
        If the link is not the log, there are several outputs, or there is a remainder that is
        not to be dropped.

    See Also
    --------
    Decomposition.to_frame : The effects as a table.

    Notes
    -----
    An offset (``base_margin`` of XGBoost, ``init_score`` of LightGBM) is not part of a model. If a
    model was trained with the log of the exposure as offset, the factors give the frequency per
    unit of exposure, to be multiplied by the exposure.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from treepurify.export import to_relativities
    >>> X = np.repeat([[0.0], [1.0]], [60, 40], axis=0)
    >>> y = np.where(X[:, 0] > 0, 3.0, 1.5)
    >>> model = HistGradientBoostingRegressor(loss="poisson", max_iter=300).fit(X, y)
    >>> to_relativities(tp.purify(model, X))[["term", "cell_1", "factor", "mass"]].round(3)
       term  cell_1  factor  mass
    0  base     NaN     1.5   1.0
    1    x0  <= 0.5     1.0   0.6
    2    x0   > 0.5     2.0   0.4
    """
    import pandas as pd

    check_result("d", d, Decomposition)
    if d.link.name != "log" or d.n_outputs != 1 or d.link.before is not None:
        raise UnsupportedModelError(
            f"factors need one output with a log link, and this decomposition has {d.n_outputs} "
            f"output{'' if d.n_outputs == 1 else 's'} with the link {d.link.name!r}: "
            "d.to_frame() has the effects on the margin scale"
        )
    leave_out_remainder(d, remainder, "a table of factors")
    check_tables(d, "a table of factors")
    log_base, frames = d.link.scale * float(d.intercept[0]), []
    for subset, component in d.tensor_components().items():
        shown = for_display(component)
        logs = d.link.scale * shown.values[..., 0]
        if len(subset) == 1:
            level = logs[heaviest(shown.mass)]
            log_base, logs = log_base + float(level), logs - level
        columns: dict[str, Any] = {"term": d.term_name(subset)}
        for k, cells in enumerate(locate_each_cell(shown, exact=True), start=1):
            columns |= {f"cell_{k}": cells.labels, f"from_{k}": cells.lower, f"to_{k}": cells.upper}
        columns |= {"factor": np.exp(logs).ravel(), "mass": shown.mass.ravel()}
        frames.append(pd.DataFrame(columns))
    base = pd.DataFrame({"term": ["base"], "factor": [np.exp(log_base)], "mass": [1.0]})
    table = pd.concat([base, *frames], ignore_index=True)
    return table[[*table.columns.difference(["factor", "mass"], sort=False), "factor", "mass"]]
