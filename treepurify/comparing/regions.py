"""Where along a feature something holds: runs of intervals, or categories, in words."""

from collections.abc import Sequence

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array, Mask

_MOST_CATEGORIES = 6


def runs_of_cells(axis: FeatureAxis, chosen: Mask, effect: Array) -> list[list[int]]:
    """Return the chosen cells in runs that stand next to each other and have one sign.

    All chosen categories of one sign form a run; a special cell forms one of its own.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    chosen : ndarray of bool, shape (n_cells,)
        The cells.
    effect : ndarray of float64, shape (n_cells,)
        What has a sign.

    Examples
    --------
    >>> axis = FeatureAxis("age", np.array([30.0, 50.0, 70.0]), has_missing=True)
    >>> effect = np.array([1.0, 2.0, -1.0, -3.0, -2.0])
    >>> runs_of_cells(axis, np.array([True, True, True, False, True]), effect)
    [[0, 1], [2], [4]]
    """
    is_above = effect > 0
    if axis.is_categorical:
        parts = (np.flatnonzero(chosen & is_above), np.flatnonzero(chosen & ~is_above))
        return [part.tolist() for part in parts if len(part)]
    runs: list[list[int]] = []
    for cell in np.flatnonzero(chosen).tolist():
        last = runs[-1][-1] if runs else -1
        follows = cell == last + 1 and cell < axis.n_regular
        if runs and follows and is_above[cell] == is_above[last]:
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

    LightGBM parts zero from positive numbers.

    >>> axis = FeatureAxis("visits", np.array([1.0000000180025095e-35, 2.5]))
    >>> cells_in_words(axis, [1, 2]), cells_in_words(axis, [1])
    ('visits > 0', 'visits in (0, 2.5)')

    Ordered categories have labels.

    >>> cells_in_words(FeatureAxis("size", np.array([0.5, 1.5]), ("S", "M", "L")), [1, 2])
    'size = M, L'
    """
    labels = axis.labels()
    if axis.has_labels:
        # The special cells are those of values that the model has not seen, and of missing ones.
        if axis.has_other:
            labels[axis.n_regular] = "any unseen category"
        names = ", ".join(labels[cell] for cell in cells[:_MOST_CATEGORIES])
        more = len(cells) - _MOST_CATEGORIES
        return f"{axis.name} = {names}" + (f" and {more} more" if more > 0 else "")
    if cells[0] >= axis.n_regular or len(axis.cuts if axis.cuts is not None else ()) == 0:
        return f"{axis.name} {labels[cells[0]]}"
    first, last = labels[cells[0]], labels[cells[-1]]
    is_first, is_last = cells[0] == 0, cells[-1] == axis.n_regular - 1
    if is_first and is_last:
        return f"{axis.name} anywhere"
    if len(cells) == 1 and (is_first or is_last):
        return f"{axis.name} {first}"
    # A cell of zero alone is labelled "0".
    lower = "[0" if first == "0" else first.partition(",")[0]
    upper = "0]" if last == "0" else last.rpartition(", ")[2]
    if is_first:
        return f"{axis.name} {'<=' if upper.endswith(']') else '<'} {upper[:-1]}"
    if is_last:
        return f"{axis.name} {'>' if lower.startswith('(') else '>='} {lower[1:]}"
    return f"{axis.name} = 0" if first == last == "0" else f"{axis.name} in {lower}, {upper}"
