"""The cells of tables as people look them up: on scorecards and in rating tables."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.arguments import read_path
from treepurify.components import TensorComponent
from treepurify.errors import InvalidInputError
from treepurify.export.excel import sheet_names, workbook
from treepurify.frames import locate_each_cell
from treepurify.storage import write_atomically
from treepurify.terms import term_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Facts", "merge_equal_neighbours", "printed_cells", "write_printed_workbook"]

Facts = Sequence[tuple[str, str]]


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


def write_printed_workbook(
    title: str,
    table: "pd.DataFrame",
    pairs: Sequence[TensorComponent],
    facts: Facts,
    path: str | Path,
) -> None:
    """Write a sheet of all cells, one for each pair, and one of facts.

    Raises
    ------
    InvalidInputError
        If the name does not end in ``.xlsx``, or the folder does not exist.
    """
    import pandas as pd

    target = read_path("path", path)
    if target.suffix.lower() != ".xlsx":
        raise InvalidInputError(f"expected a file name ending in .xlsx, got {str(path)!r}")
    titles = [term_name(axis.name for axis in pair.axes) for pair in pairs]
    names = sheet_names(titles, taken=(title, "facts"))
    sheets = [
        (title, table),
        *zip(names, map(_two_way_table, pairs), strict=True),
        ("facts", pd.DataFrame(facts, columns=["fact", "value"])),
    ]
    write_atomically(target, workbook(sheets))


def _two_way_table(component: TensorComponent) -> "pd.DataFrame":
    """Return the numbers of a pair, the first feature down and the second across."""
    import pandas as pd

    first, second = component.axes
    table = pd.DataFrame(np.asarray(component.values[..., 0]), columns=second.labels(exact=True))
    table.insert(
        0, f"{first.name} \\ {second.name}", first.labels(exact=True), allow_duplicates=True
    )
    return table
