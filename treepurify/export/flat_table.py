"""The cells of the components as one flat table, for spreadsheets and other languages."""

from typing import TYPE_CHECKING, Any

from treepurify.arguments import check_result, check_whole
from treepurify.components import TensorComponent, for_display
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.frames import effect_rows, locate_each_cell
from treepurify.grids.grid import Subset

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["component_table", "effects_frame", "most_important_first"]


def effects_frame(
    d: Decomposition, *, most_rows: int | None = None
) -> tuple["pd.DataFrame", list[str]]:
    """Return all effects as one table, the most important first.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    most_rows : int, optional
        Largest number of rows. Effects that would make the table longer are left out.

    Returns
    -------
    table : DataFrame
        One row per cell and output: ``term``, ``output``, for each feature ``feature_1``,
        ``cell_1``, ``from_1``, ``to_1`` and so on (an interval contains x if
        ``from_1 <= x < to_1``), ``effect`` and ``effect_before`` on the margin scale, and ``mass``,
        the share of the data.
    left_out : list of str
        Names of the effects that are left out.

    Raises
    ------
    InvalidInputError
        If no effect is a table of cells.

    See Also
    --------
    Decomposition.to_frame : An effect as a table.
    treepurify.export.to_excel : The effects as a workbook.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from treepurify.export import effects_frame
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> table, _ = effects_frame(d)
    >>> table.loc[table["term"] == "x0", ["cell_1", "from_1", "to_1", "effect", "mass"]]
       cell_1  from_1  to_1  effect  mass
    0   < 0.5    -inf   0.5   -0.25   0.5
    1  >= 0.5     0.5   inf    0.25   0.5
    """
    import pandas as pd

    check_result("d", d, Decomposition)
    if most_rows is not None:
        check_whole("most_rows", most_rows, 0)
    tensors = d.tensor_components()
    frames, left_out, n_rows = [], [], 0
    for subset in most_important_first(d):
        size = tensors[subset].n_cells * d.n_outputs
        if most_rows is not None and n_rows + size > most_rows:
            left_out.append(d.term_name(subset))
            continue
        n_rows += size
        frames.append(component_table(d, subset, tensors[subset].stored()))
    if not frames:
        return pd.DataFrame(columns=["term", "output", "effect", "mass"]), left_out
    table = pd.concat(frames, ignore_index=True)
    last = ["effect", "effect_before", "mass"]
    return table[[*(name for name in table if name not in last), *last]], left_out


def most_important_first(d: Decomposition) -> list[Subset]:
    """Return the subsets of the components that are tables, the most important first.

    Raises
    ------
    InvalidInputError
        If there are components, and none of them is a table.
    """
    tensors = d.tensor_components()
    if not tensors and len(d) > 0:
        raise InvalidInputError(
            f"the effects of engine {d.engine!r} are not tables; use d.contributions(X)"
        )
    return sorted(tensors, key=d.ranking.places.__getitem__)


def component_table(d: Decomposition, subset: Subset, component: TensorComponent) -> "pd.DataFrame":
    """Return one row per cell and output of a component; see `effects_frame`."""
    component = for_display(component)
    columns: dict[str, Any] = {"term": d.term_name(subset), "output": None}
    located = zip(component.axes, locate_each_cell(component), strict=True)
    for position, (axis, cells) in enumerate(located, start=1):
        columns[f"feature_{position}"] = axis.name
        columns[f"cell_{position}"] = cells.labels
        columns[f"from_{position}"] = cells.lower
        columns[f"to_{position}"] = cells.upper
    return effect_rows(d, component, columns).rename(columns={"raw_effect": "effect_before"})
