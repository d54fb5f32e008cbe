"""Where along a feature something holds: runs of intervals, or categories, in words."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis

__all__ = ["cells_in_words", "runs_of_cells"]

_MOST_CATEGORIES = 6


def runs_of_cells(axis: FeatureAxis, chosen: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return the chosen cells in runs that stand next to each other.

    All chosen categories form one run; a special cell forms one of its own.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    chosen : ndarray of bool, shape (n_cells,)
        The cells.

    Examples
    --------
    >>> axis = FeatureAxis("age", np.array([30.0, 50.0, 70.0]), has_missing=True)
    >>> runs_of_cells(axis, np.array([True, True, False, True, True]))
    [[0, 1], [3], [4]]
    """
    cells = [int(cell) for cell in np.flatnonzero(chosen)]
    if axis.is_categorical:
        return [cells] if cells else []
    runs: list[list[int]] = []
    for cell in cells:
        if runs and cell == runs[-1][-1] + 1 and cell < axis.n_regular:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return runs


def cells_in_words(axis: FeatureAxis, cells: Sequence[int]) -> str:
    """Return where cells of one run lie.

    Examples
    --------
    >>> axis = FeatureAxis("age", np.array([30.0, 50.0, 70.0]), has_missing=True)
    >>> cells_in_words(axis, [1, 2]), cells_in_words(axis, [0]), cells_in_words(axis, [4])
    ('age in [30, 70)', 'age < 30', 'age missing')
    """
    labels = axis.labels()
    if axis.is_categorical:
        names = ", ".join(labels[cell] for cell in cells[:_MOST_CATEGORIES])
        more = len(cells) - _MOST_CATEGORIES
        return f"{axis.name} = {names}" + (f" and {more} more" if more > 0 else "")
    if cells[0] >= axis.n_regular or len(axis.cuts if axis.cuts is not None else ()) == 0:
        return f"{axis.name} {labels[cells[0]]}"
    lower = labels[cells[0]].partition(",")[0].removeprefix("[").removeprefix(">= ")
    upper = labels[cells[-1]].partition(", ")[2].removesuffix(")")
    is_first, is_last = cells[0] == 0, cells[-1] == axis.n_regular - 1
    if is_first and is_last:
        return f"{axis.name} anywhere"
    if is_first:
        return f"{axis.name} < {upper}" if len(cells) > 1 else f"{axis.name} {labels[0]}"
    if is_last:
        return f"{axis.name} >= {lower}"
    return f"{axis.name} in [{lower}, {upper})"
