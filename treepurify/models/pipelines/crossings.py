"""Find the float at which a function of one raw column crosses a threshold, by bisection."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.models.pipelines.columns import Column, RawProbe
from treepurify.typing import Array, Indices, Integers

__all__ = ["pull_back"]

# Libraries of mathematics round such functions as the cube root up where their neighbour is
# rounded down: this number of values on either side of a crossing are checked for crossing back.
_NEIGHBOURS = 16
# Numbers of all columns that a transformer is given at once there.
_NUMBERS_AT_A_TIME = 1 << 20


def pull_back(
    columns: Sequence[Column],
    thresholds: Sequence[Array],
    types: Sequence[np.dtype[Any]],
    fillers: Sequence[Any],
) -> list[Array]:
    """Return raw numbers at which columns cross thresholds, or change the piece they are on.

    Between two numbers of the result a column stays on one side of each of its thresholds.
    All thresholds of all columns are searched for together: a step asks each transformer once.

    Parameters
    ----------
    columns : sequence of Column
        Columns that are made from one raw column of numbers each.
    thresholds : sequence of ndarray of float64
        For each of them, numbers that part what it returns: ``x < threshold`` or not.
    types : sequence of dtype
        float32 or float64, for each raw column.
    fillers : sequence
        One harmless value for each raw column.

    Returns
    -------
    list of ndarray of float64
        For each column, sorted raw numbers.
    """
    evaluate = _Evaluator(columns, types, fillers)
    # Raw numbers themselves need no search.
    breaks = list(thresholds)
    made = [j for j, column in enumerate(columns) if column.stage is not None]
    if made:
        of_source = [columns[j].output.knots for j in made]
        knots = pull_back([columns[j].source for j in made], of_source, types, fillers)
        which, found = _search(evaluate, made, [thresholds[j] for j in made], knots)
        for j, own in zip(made, knots, strict=True):
            breaks[j] = np.append(own, found[which == j])
    return [np.unique(_least_number_from(own, evaluate.dtype(j))) for j, own in enumerate(breaks)]


class _Evaluator:
    """Values of columns at numbers of the raw column of each, by their ordinals."""

    def __init__(
        self, columns: Sequence[Column], types: Sequence[np.dtype[Any]], fillers: Sequence[Any]
    ) -> None:
        self._columns, self._types, self._fillers = columns, types, fillers
        self._raw = np.array([column.raw[0] for column in columns], dtype=np.intp)

    def dtype(self, j: int) -> np.dtype[Any]:
        """Return the type of the raw column of a column."""
        return np.dtype(self._types[self._columns[j].raw[0]])

    def table_size(self, which: Indices) -> int:
        """Return how many numbers are in the table of one number for each of `which`."""
        n_rows = np.bincount(self._raw[which])
        return int(np.count_nonzero(n_rows) * n_rows.max(initial=1))

    def numbers(self, which: Indices, ordinals: Integers) -> Array:
        """Return the raw numbers with ordinals of the given columns."""
        single = np.array([self.dtype(j) == np.float32 for j in range(len(self._columns))])[which]
        numbers = np.empty(len(which))
        numbers[single] = _from_ordinal(ordinals[single], np.dtype(np.float32))
        numbers[~single] = _from_ordinal(ordinals[~single], np.dtype(np.float64))
        return numbers

    def __call__(self, which: Indices, ordinals: Integers) -> Array:
        """Return the columns `which`, in order, at raw numbers of their own."""
        ends = np.searchsorted(which, np.arange(len(self._columns) + 1))
        n_rows: dict[int, int] = {}
        parts = []
        for j in np.flatnonzero(np.diff(ends)).tolist():
            # The numbers of columns that are made from one raw column follow one another.
            raw, part = self._columns[j].raw[0], slice(ends[j], ends[j + 1])
            start = n_rows.get(raw, 0)
            n_rows[raw] = start + part.stop - part.start
            parts.append((j, raw, part, slice(start, n_rows[raw])))
        most = max(n_rows.values(), default=0)
        table = {raw: np.ones(most, dtype=self._types[raw]) for raw in n_rows}
        for j, raw, part, rows in parts:
            table[raw][rows] = _from_ordinal(ordinals[part], self.dtype(j))
        probe = RawProbe(table, self._fillers, most)
        values = np.empty(len(which))
        for j, _, part, rows in parts:
            values[part] = np.asarray(probe.column(self._columns[j])[rows], dtype=np.float64)
        return values


def _search(
    evaluate: _Evaluator, made: list[int], thresholds: Sequence[Array], knots: Sequence[Array]
) -> tuple[Indices, Array]:
    """Return the columns that cross a threshold, each with the number at which it does."""
    pieces = [_pieces(own, evaluate.dtype(j)) for j, own in zip(made, knots, strict=True)]
    which = np.repeat(made, [len(first) for first, _ in pieces])
    first, last = (np.concatenate(ends) for ends in zip(*pieces, strict=True))
    at_first, at_last = evaluate(which, first), evaluate(which, last)
    parts = []
    for j, own in zip(made, thresholds, strict=True):
        mine = np.flatnonzero(which == j)
        crossed = (at_first[mine, None] >= own) != (at_last[mine, None] >= own)
        crossed &= ~(np.isnan(at_first) | np.isnan(at_last))[mine, None]
        piece, k = np.nonzero(crossed)
        parts.append((mine[piece], own[k]))
    piece, threshold = (np.concatenate(part) for part in zip(*parts, strict=True))
    rises = at_first[piece] < threshold
    which, first, last = which[piece], first[piece], last[piece]
    low, high = first, last
    while True:
        # The sum of two numbers of 64 bits would overflow.
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        if np.array_equal(middle, low):
            break
        is_beyond = (evaluate(which, middle) >= threshold) == rises
        high, low = np.where(is_beyond, middle, high), np.where(is_beyond, low, middle)
    steps = np.arange(-_NEIGHBOURS - 1, _NEIGHBOURS + 1)
    near = np.clip(high[:, None] + steps, first[:, None], last[:, None])
    is_beyond = np.empty(near.shape, dtype=np.bool_)
    at_a_time = max(_NUMBERS_AT_A_TIME // max(evaluate.table_size(which), 1), 1)
    for start in range(0, len(steps), at_a_time):
        some = near[:, start : start + at_a_time]
        values = evaluate(np.repeat(which, some.shape[1]), some.ravel()).reshape(some.shape)
        sides = (values >= threshold[:, None]) == rises[:, None]
        is_beyond[:, start : start + at_a_time] = sides
    searches, step = np.nonzero(is_beyond[:, 1:] != is_beyond[:, :-1])
    searched = which[searches]
    return searched, evaluate.numbers(searched, near[searches, step + 1])


def _pieces(knots: Array, dtype: np.dtype[Any]) -> tuple[Integers, Integers]:
    """Return the ordinals of the first and the last number of each piece."""
    largest = float(np.finfo(dtype).max)
    inner = _to_ordinal(knots[(knots > -largest) & (knots <= largest)], dtype)
    ends = _to_ordinal(np.array([-largest, largest]), dtype)
    return np.append(ends[0], inner), np.append(inner - 1, ends[1])


def _least_number_from(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return the least numbers of a type that are not below the given ones."""
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    below = rounded < values
    up = np.nextafter(rounded, np.array(np.inf, dtype=dtype))
    return np.where(below, up, rounded).astype(np.float64)


def _to_ordinal(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Integers:
    """Number floating-point numbers in their order; both zeros are 0."""
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = values.astype(dtype).view(integer).astype(np.int64)
    return np.where(bits >= 0, bits, np.iinfo(integer).min - bits)


def _from_ordinal(ordinals: Integers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = np.where(ordinals >= 0, ordinals, np.iinfo(integer).min - ordinals)
    return bits.astype(integer).view(dtype)
