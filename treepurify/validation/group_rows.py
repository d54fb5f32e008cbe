"""Two groups of rows, told by one column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_number, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.evidence.held_out import ObservedRows
from treepurify.progress import ProgressReport
from treepurify.rows.labelled_rows import as_statistic
from treepurify.rows.reduction import RowStream
from treepurify.typing import Indices

__all__ = ["TwoGroups", "find_groups"]

_MOST_NAMED = 12


@dataclass(frozen=True)
class TwoGroups:
    """Which rows are in the first group and which in the second, by the first observed column.

    Parameters
    ----------
    names : tuple of str
        Labels of both groups, or what they are called where a number divides them.
    cut : float, optional
        Rows below it are the first group, all others the second; labels divide without it.
    """

    names: tuple[str, str]
    cut: float | None = None

    def codes(self, observed: tuple[npt.NDArray[Any], ...], n_rows: int) -> Indices:
        """Return 0 for rows of the first group, 1 for the second, -1 for others, (n_rows,)."""
        values = observed[0]
        if self.cut is None:
            codes, labels = _numbered(values)
            place = [self.names.index(one) if one in self.names else -1 for one in labels]
            return np.array([*place, -1], dtype=np.intp)[codes]
        numbers = read_numbers("group", values, "contain one number per row if cut is given")
        return np.where(np.isnan(numbers), -1, numbers >= self.cut).astype(np.intp).reshape(n_rows)


def find_groups(
    stream: RowStream,
    from_group: Any,
    to_group: Any,
    cut: float | None,
    report: ProgressReport,
) -> TwoGroups:
    """Return the two groups that a caller names, or that the only two labels are.

    Parameters
    ----------
    stream : RowStream
        The rows, as `ObservedRows` whose first column tells the groups.
    from_group, to_group : object, optional
        Labels of the first and the second group.
    cut : float, optional
        A number that divides the column instead of labels.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If there are no such groups, or not exactly two and none is named.
    """
    if cut is not None:
        check_number("cut", cut)
        if from_group is not None or to_group is not None:
            raise InvalidInputError("pass either cut, or from_group and to_group")
        return TwoGroups((f"below {cut:g}", f"{cut:g} and above"), float(cut))
    named = None if from_group is None or to_group is None else (str(from_group), str(to_group))
    counts: dict[str, int] = stream.reduce(as_statistic(_Labels()), "reading groups", report)
    labels = sorted(counts)
    listed = ", ".join(f"{label} ({counts[label]} rows)" for label in labels[:_MOST_NAMED])
    listed += " ..." if len(labels) > _MOST_NAMED else ""
    if named is None:
        named = _the_only_two(labels, from_group, to_group, listed)
    absent = [name for name in named if name not in counts]
    if absent or named[0] == named[1]:
        raise InvalidInputError(
            f"from_group and to_group must be two labels of the group; got {named[0]!r} and "
            f"{named[1]!r}, the labels are {listed}"
        )
    return TwoGroups(named)


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


@dataclass(frozen=True)
class _Labels:
    """The statistic of how many rows have each label."""

    def zero(self) -> dict[str, int]:
        """Return no labels."""
        return {}

    def add(self, state: dict[str, int], rows: ObservedRows) -> dict[str, int]:
        """Return the labels with those of a batch."""
        codes, labels = _numbered(rows.observed[0])
        counts = np.bincount(codes[codes >= 0], minlength=len(labels))
        return self.merge(state, dict(zip(labels, counts.tolist(), strict=True)))

    def merge(self, state: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        """Return the labels of both."""
        names = {**state, **other}
        return {name: state.get(name, 0) + other.get(name, 0) for name in names}


def _numbered(values: npt.NDArray[Any]) -> tuple[Indices, list[str]]:
    """Return the number of each label, -1 where it is missing, and the labels as text."""
    import pandas as pd

    if values.ndim != 1:
        raise InvalidInputError(
            f"group must contain one label per row, got an array of shape {values.shape}"
        )
    codes, labels = pd.factorize(values)
    return np.asarray(codes, dtype=np.intp), [str(label) for label in labels]
