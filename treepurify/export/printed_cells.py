"""The cells of tables as people look them up: on scorecards and in rating tables."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.components import TensorComponent
from treepurify.frames import locate_each_cell
from treepurify.terms import term_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["merge_equal_neighbours", "printed_cells", "two_way_table"]


def merge_equal_neighbours(component: TensorComponent) -> TensorComponent:
    """Return a table of one number in which neighbouring intervals of one value are one.

    Tables of two features and of categories stay as they are.
    """
    axis = component.axes[0]
    if len(component.axes) > 1 or axis.cuts is None:
        return component
    values = component.values[: axis.n_regular, 0]
    starts = np.flatnonzero(np.diff(values)) + 1
    first = np.concatenate([[0], starts, np.arange(axis.n_regular, axis.n_cells)]).astype(np.intp)
    return replace(
        component,
        axes=(replace(axis, cuts=axis.cuts[starts - 1]),),
        values=component.values[first],
        mass=np.add.reduceat(component.mass, first),
        raw=None,
    )


def printed_cells(component: TensorComponent, value: str) -> dict[str, Any]:
    """Return the columns of a table of one or two features, one entry per cell.

    Parameters
    ----------
    component : TensorComponent
        The table, of one output.
    value : str
        What its numbers are called.

    Returns
    -------
    dict of str to array
        ``characteristic``, ``attribute`` (the ends of intervals exact), `value`, ``share``, and
        ``from`` and ``to``, for a pair ``from_2`` and ``to_2``, too; NaN where a cell is no
        interval.
    """
    located = locate_each_cell(component, exact=True)
    words = zip(*(cells.labels for cells in located), strict=True)
    ends = {
        f"{name}{position}": numbers
        for position, cells in zip(("", "_2"), located, strict=False)
        for name, numbers in (("from", cells.lower), ("to", cells.upper))
    }
    return {
        "characteristic": term_name(axis.name for axis in component.axes),
        "attribute": [term_name(each) for each in words],
        value: component.values.ravel(),
        "share": component.mass.ravel(),
        **ends,
    }


def two_way_table(component: TensorComponent) -> "pd.DataFrame":
    """Return the numbers of a pair, the first feature down and the second across."""
    import pandas as pd

    first, second = component.axes
    table = pd.DataFrame(np.asarray(component.values[..., 0]), columns=second.labels(exact=True))
    table.insert(
        0, f"{first.name} \\ {second.name}", first.labels(exact=True), allow_duplicates=True
    )
    return table
