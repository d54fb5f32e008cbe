"""Find where monotone transforms cross thresholds, by bisection over floating-point numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.models.pipelines.columns import Column, RawProbe
from treepurify.typing import Array, Integers, Mask

__all__ = ["pull_back"]

_SIGN = np.int64(-(2**63))
# Libraries of mathematics round such functions as the cube root up where their neighbour is
# rounded down: this number of values on either side of a crossing are checked for crossing back.
_NEIGHBOURS = 16
# Numbers of all columns that a transformer is given at once there.
_NUMBERS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class _Search:
    """Thresholds of one column, each with the two raw numbers between which it is crossed."""

    column: Column
    threshold: Array
    is_rising: Mask
    low: Integers
    high: Integers

    def is_beyond(self, values: Array) -> Mask:
        """Whether values of the column are on the side of the larger raw number."""
        return np.asarray((values >= self.threshold) == self.is_rising)


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
    knots = _raw_knots(columns, types, fillers)
    breaks = [
        # Numbers that are passed on as they are need no search.
        values if all(link.output.keeps_values for link in _links(column)) else np.zeros(0)
        for column, values in zip(columns, thresholds, strict=True)
    ]
    searched = [
        j
        for j, column in enumerate(columns)
        if len(thresholds[j]) and not all(link.output.keeps_values for link in _links(column))
    ]
    if searched:
        found = _search(
            [columns[j] for j in searched],
            [thresholds[j] for j in searched],
            [_pieces(knots[j], types[columns[j].raw[0]]) for j in searched],
            fillers,
        )
        for j, values in zip(searched, found, strict=True):
            breaks[j] = values
    return [
        np.unique(_least_number_from(np.concatenate([found, begun]), types[column.raw[0]]))
        for column, found, begun in zip(columns, breaks, knots, strict=True)
    ]


def _least_number_from(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return the least numbers of a type that are not below the given ones."""
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    below = rounded < values
    up = np.nextafter(rounded, np.array(np.inf, dtype=dtype))
    return np.where(below, up, rounded).astype(np.float64)


def _links(column: Column) -> list[Column]:
    links = []
    while column.stage is not None:
        links.append(column)
        column = column.source
    return links


def _raw_knots(
    columns: Sequence[Column], types: Sequence[np.dtype[Any]], fillers: Sequence[Any]
) -> list[Array]:
    """Return where the pieces of each column begin, as raw numbers."""
    made = [j for j, column in enumerate(columns) if column.stage is not None]
    knots = [np.zeros(0) for _ in columns]
    if made:
        sources = [columns[j].source for j in made]
        found = pull_back(sources, [columns[j].output.knots for j in made], types, fillers)
        for j, values in zip(made, found, strict=True):
            knots[j] = values
    return knots


def _pieces(knots: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return the first and the last number of each piece."""
    largest = float(np.finfo(dtype).max)
    inner = knots[(knots > -largest) & (knots <= largest)]
    first = np.concatenate([[-largest], inner])
    last = np.concatenate([_from_ordinal(_to_ordinal(inner, dtype) - 1, dtype), [largest]])
    return first.astype(dtype), last.astype(dtype)


def _search(
    columns: Sequence[Column],
    thresholds: Sequence[Array],
    pieces: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    fillers: Sequence[Any],
) -> list[Array]:
    starts = _evaluate(columns, [first for first, _ in pieces], fillers)
    ends = _evaluate(columns, [last for _, last in pieces], fillers)
    searches = [
        _crossings(column, values, first, last, start, end)
        for column, values, (first, last), start, end in zip(
            columns, thresholds, pieces, starts, ends, strict=True
        )
    ]
    types = [first.dtype for first, _ in pieces]
    low = [search.low for search in searches]
    high = [search.high for search in searches]
    while True:
        # The sum of two numbers of 64 bits would overflow.
        middle = [
            (below >> 1) + (above >> 1) + (below & above & 1)
            for below, above in zip(low, high, strict=True)
        ]
        if all(np.array_equal(m, below) for m, below in zip(middle, low, strict=True)):
            break
        rows = [_from_ordinal(m, dtype) for m, dtype in zip(middle, types, strict=True)]
        values = _evaluate(columns, rows, fillers)
        for j, search in enumerate(searches):
            is_beyond = search.is_beyond(values[j])
            high[j] = np.where(is_beyond, middle[j], high[j])
            low[j] = np.where(is_beyond, low[j], middle[j])
    return _near_crossings(searches, high, types, fillers)


def _near_crossings(
    searches: Sequence[_Search],
    crossings: Sequence[Integers],
    types: Sequence[np.dtype[Any]],
    fillers: Sequence[Any],
) -> list[Array]:
    """Return the numbers near each crossing that are on another side than the one before them."""
    steps = np.arange(-_NEIGHBOURS - 1, _NEIGHBOURS + 1)[:, None]
    rows = [
        _from_ordinal(np.clip(crossing + steps, search.low, search.high), dtype)
        for crossing, search, dtype in zip(crossings, searches, types, strict=True)
    ]
    columns = [search.column for search in searches]
    n_numbers = len(columns) * max(map(len, crossings))
    at_a_time = max(_NUMBERS_AT_A_TIME // max(n_numbers, 1), 1)
    is_beyond: list[list[Mask]] = [[] for _ in searches]
    for start in range(0, len(steps), at_a_time):
        some = [own[start : start + at_a_time] for own in rows]
        values = _evaluate(columns, [own.ravel() for own in some], fillers)
        for j, search in enumerate(searches):
            is_beyond[j].append(search.is_beyond(values[j].reshape(some[j].shape)))
    return [
        own[1:][np.diff(np.concatenate(sides), axis=0)].astype(np.float64)
        for own, sides in zip(rows, is_beyond, strict=True)
    ]


def _crossings(
    column: Column,
    thresholds: Array,
    first: npt.NDArray[Any],
    last: npt.NDArray[Any],
    start: Array,
    end: Array,
) -> _Search:
    """Keep the pairs of a piece and a threshold at which the ends lie on different sides."""
    threshold = thresholds[None, :]
    with np.errstate(invalid="ignore"):
        starts_above = start[:, None] >= threshold
        crossed = starts_above != (end[:, None] >= threshold)
    crossed &= ~(np.isnan(start) | np.isnan(end))[:, None]
    piece, which = np.nonzero(crossed)
    return _Search(
        column,
        thresholds[which],
        ~starts_above[piece, which],
        _to_ordinal(first[piece], first.dtype),
        _to_ordinal(last[piece], last.dtype),
    )


def _evaluate(
    columns: Sequence[Column], rows: Sequence[npt.NDArray[Any]], fillers: Sequence[Any]
) -> list[Array]:
    """Return each column at raw numbers of its own; columns of one raw column stand in a row."""
    length: dict[int, int] = {}
    dtype_of: dict[int, np.dtype[Any]] = {}
    place = []
    for column, values in zip(columns, rows, strict=True):
        raw = column.raw[0]
        start = length.get(raw, 0)
        place.append(slice(start, start + len(values)))
        length[raw] = start + len(values)
        dtype_of[raw] = values.dtype
    n_rows = max(length.values())
    if n_rows == 0:
        return [np.zeros(0) for _ in columns]
    table = {raw: np.ones(n_rows, dtype=dtype) for raw, dtype in dtype_of.items()}
    for column, values, rows_of in zip(columns, rows, place, strict=True):
        table[column.raw[0]][rows_of] = values
    probe = RawProbe(dict(table), fillers, n_rows)
    return [
        np.asarray(probe.column(column)[rows_of], dtype=np.float64)
        for column, rows_of in zip(columns, place, strict=True)
    ]


def _to_ordinal(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Integers:
    """Number floating-point numbers in their order; both zeros are 0."""
    if dtype == np.float32:
        bits = values.astype(np.float32).view(np.int32).astype(np.int64)
        return np.where(bits >= 0, bits, np.int64(-(2**31)) - bits)
    bits = values.astype(np.float64).view(np.int64)
    return np.where(bits >= 0, bits, _SIGN - bits)


def _from_ordinal(ordinals: Integers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype == np.float32:
        bits = np.where(ordinals >= 0, ordinals, np.int64(-(2**31)) - ordinals)
        return bits.astype(np.int32).view(np.float32)
    return np.where(ordinals >= 0, ordinals, _SIGN - ordinals).view(np.float64)
