"""Two groups of rows, told by one column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_number, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.typing import Indices

__all__ = ["find_groups"]

_MOST_NAMED = 12


def find_groups(
    group: Any, n_rows: int, from_group: Any, to_group: Any, cut: float | None
) -> tuple[tuple[str, str], Indices]:
    """Return the names of two groups of rows, and which rows are in them.

    They are those that a caller names, or that the only two labels are.

    Parameters
    ----------
    group : array_like of shape (n_rows,)
        The labels, or numbers that are divided.
    n_rows : int
        Number of rows.
    from_group, to_group : object, optional
        Labels of the first and the second group.
    cut : float, optional
        A number that divides the column instead of labels: rows below it are the first group.

    Returns
    -------
    tuple of str
        The names.
    ndarray of intp, shape (n_rows,)
        0 for rows of the first group, 1 for the second, -1 for others.

    Raises
    ------
    InvalidInputError
        If there are no such groups, or not exactly two and none is named.
    """
    import pandas as pd

    values = _read_column(group, n_rows)
    if cut is not None:
        check_number("cut", cut)
        if from_group is not None or to_group is not None:
            raise InvalidInputError("pass either cut, or from_group and to_group")
        numbers = read_numbers("group", values, "contain one number per row if cut is given")
        codes = np.where(np.isnan(numbers), -1, numbers >= cut).astype(np.intp)
        return (f"below {cut:g}", f"{cut:g} and above"), codes
    codes, found = pd.factorize(values)
    counts = np.bincount(codes[codes >= 0], minlength=len(found)).tolist()
    labels = [str(label) for label in found]
    named_counts = sorted(zip(labels, counts, strict=True))
    listed = ", ".join(f"{label} ({n} rows)" for label, n in named_counts[:_MOST_NAMED])
    listed += " ..." if len(labels) > _MOST_NAMED else ""
    if from_group is None or to_group is None:
        named = _the_only_two(sorted(labels), from_group, to_group, listed)
    else:
        named = (str(from_group), str(to_group))
    if named[0] == named[1] or not set(named) <= set(labels):
        raise InvalidInputError(
            f"from_group and to_group must be two labels of the group; got {named[0]!r} and "
            f"{named[1]!r}, the labels are {listed}"
        )
    place = [named.index(label) if label in named else -1 for label in labels]
    return named, np.array([*place, -1], dtype=np.intp)[codes]


def _the_only_two(
    labels: Sequence[str], from_group: Any, to_group: Any, listed: str
) -> tuple[str, str]:
    if len(labels) != 2:
        raise InvalidInputError(
            f"group has {len(labels)} labels, {listed or 'none'}: name two as from_group and "
            "to_group, or pass cut for a column of numbers"
        )
    first, second = labels
    if str(from_group) == second or str(to_group) == first:
        first, second = second, first
    given = [str(one) for one in (from_group, to_group) if one is not None]
    if given and given[0] not in labels:
        raise InvalidInputError(f"no group {brief(given[0])}; the labels are {listed}")
    return first, second


def _read_column(group: Any, n_rows: int) -> npt.NDArray[Any]:
    try:
        values = np.asarray(group)
    except ValueError:  # lists of several lengths
        values = np.empty(0)
    if values.shape != (n_rows,):
        raise InvalidInputError(
            f"group must contain one value per row of X ({n_rows}), or be the name of a column; "
            f"got {brief(group)}"
        )
    return values
