"""The values of columns in order, of rows that come in batches: exact quantiles in a few passes.

A pass counts the rows by the leading bits of a value, written as a whole number that grows with it,
and keeps the distinct values until they are too many. Where they are, the next pass looks only
into the groups that hold a wanted value, and divides them by further bits. So order statistics are
exact, whatever the batches and workers; a summary of one pass would be off by a share of the rows,
and by another share for other batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.row_weights import just_below
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array

__all__ = ["ValueOrder", "order_values"]

Keys = npt.NDArray[np.uint64]

_BITS = 64
_FIRST_BITS = 16
_SIGN = np.uint64(1 << 63)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
# New distinct values are joined once there are this many, or more than were joined before.
_WAITING = 1 << 17
# Keys and weights of distinct values, of those that wait, and of both in order.
_BYTES_A_VALUE = 96
_LEAST_VALUES = 256


def _keys_of(values: npt.NDArray[np.floating]) -> Keys:
    """Return finite numbers as whole numbers in the same order; zero has no sign."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, bits ^ _ONES, bits | _SIGN)


def _values_of(keys: Keys) -> Array:
    bits = np.where(keys & _SIGN, keys ^ _SIGN, keys ^ _ONES)
    return np.ascontiguousarray(bits).view(np.float64)


def _sums(place: npt.NDArray[np.intp], weights: Array, n_places: int) -> Array:
    return np.bincount(place, weights=weights, minlength=n_places).astype(np.float64)


@dataclass(eq=False)
class _DistinctKeys:
    """Distinct keys with the weight of the rows that have them, in order; None if too many."""

    keys: Keys | None = field(default_factory=lambda: np.empty(0, np.uint64))
    weights: Array = field(default_factory=lambda: np.empty(0))
    waiting: list[tuple[Keys, Array]] = field(default_factory=list)

    def add(self, keys: Keys, weights: Array, most: int) -> None:
        """Add rows."""
        if self.keys is None or not len(keys):
            return
        self.waiting.append((keys, weights))
        if sum(len(some) for some, _ in self.waiting) > max(_WAITING, len(self.keys)):
            self.join(most)

    def join(self, most: int) -> None:
        """Bring all that wait into order, and give up beyond `most` values."""
        if self.keys is None or not self.waiting:
            return
        every = np.concatenate([self.keys, *(keys for keys, _ in self.waiting)])
        counted = np.concatenate([self.weights, *(weights for _, weights in self.waiting)])
        keys, place = np.unique(every, return_inverse=True)
        self.waiting = []
        if len(keys) > most:
            self.keys, self.weights = None, np.empty(0)
            return
        self.keys = keys
        self.weights = _sums(place, counted, len(keys))

    def merge(self, other: "_DistinctKeys", most: int) -> None:
        """Add the rows of another."""
        if other.keys is None:
            self.keys, self.weights, self.waiting = None, np.empty(0), []
            return
        for keys, weights in [(other.keys, other.weights), *other.waiting]:
            self.add(keys, weights, most)


@dataclass(frozen=True, eq=False)
class _KeyGroups:
    """The groups of one feature that a pass looks into: keys that begin alike.

    Parameters
    ----------
    feature : int
        Position of the feature.
    starts : ndarray of uint64, shape (n_groups,)
        The leading bits of each, increasing.
    n_bits : int
        Number of leading bits.
    next_bits : int
        Number of bits by which the pass divides them.
    """

    feature: int
    starts: Keys
    n_bits: int
    next_bits: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of groups, and of parts of each."""
        return len(self.starts), 1 << self.next_bits

    def inside(self, keys: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return which keys lie in a group, and in which part of it, numbered through."""
        begin = keys >> np.uint64(_BITS - self.n_bits) if self.n_bits else np.zeros_like(keys)
        group = np.minimum(np.searchsorted(self.starts, begin), len(self.starts) - 1)
        kept = np.flatnonzero(self.starts[group] == begin)
        after = keys[kept] >> np.uint64(_BITS - self.n_bits - self.next_bits)
        part = after & np.uint64((1 << self.next_bits) - 1)
        return kept, group[kept] * (1 << self.next_bits) + part.astype(np.intp)


@dataclass(eq=False)
class _Pass:
    """What one pass knows of each feature: the weight in parts of groups, and distinct keys."""

    parts: list[Array]
    distinct: list[_DistinctKeys]


@dataclass(frozen=True, eq=False)
class _GroupCounts:
    """The statistic of one pass."""

    groups: tuple[_KeyGroups, ...]
    most: int

    def zero(self) -> _Pass:
        """Return no rows."""
        parts = [np.zeros(int(np.prod(groups.shape))) for groups in self.groups]
        return _Pass(parts, [_DistinctKeys() for _ in self.groups])

    def add(self, state: _Pass, rows: RowBatch) -> _Pass:
        """Return the counts with those of a batch."""
        for groups, parts, distinct in zip(self.groups, state.parts, state.distinct, strict=True):
            values = rows.columns.values[groups.feature]
            counted = np.isfinite(values)
            if rows.weights is not None:
                counted &= rows.weights > 0
            keys = _keys_of(values[counted])
            weights = np.ones(len(keys)) if rows.weights is None else rows.weights[counted]
            kept, part = groups.inside(keys)
            more = np.bincount(part, weights=weights[kept], minlength=len(parts))
            np.add(parts, more, out=parts)
            if distinct.keys is not None:
                own, place = np.unique(keys[kept], return_inverse=True)
                distinct.add(own, _sums(place, weights[kept], len(own)), self.most)
        return state

    def merge(self, state: _Pass, other: _Pass) -> _Pass:
        """Return the counts of both."""
        for parts, more in zip(state.parts, other.parts, strict=True):
            np.add(parts, more, out=parts)
        for distinct, more_distinct in zip(state.distinct, other.distinct, strict=True):
            distinct.merge(more_distinct, self.most)
        return state


@dataclass(frozen=True, eq=False)
class _Known:
    """The rows of one feature after the first pass; `keys` are None where they are too many."""

    groups: _KeyGroups
    parts: Array
    keys: Keys | None
    weights: Array

    @property
    def total(self) -> float:
        return float(self.weights.cumsum()[-1] if len(self.weights) else self.parts.sum())


@dataclass(frozen=True, eq=False)
class ValueOrder:
    """The finite values of the columns of a stream, in order.

    Parameters
    ----------
    stream : RowStream
        The rows.
    known : mapping of int to _Known
        What the first pass found of each feature.
    most : int
        Most distinct values of a feature that are kept.
    """

    stream: RowStream
    known: Mapping[int, _Known]
    most: int

    def total(self, feature: int) -> float:
        """Return the number, or the summed weight, of the rows with a finite value."""
        return self.known[feature].total

    def distinct(self, feature: int) -> tuple[Array, Array] | None:
        """Return the distinct values, increasing, and their weights; None if they are too many."""
        known = self.known[feature]
        return None if known.keys is None else (_values_of(known.keys), known.weights)

    def at(self, targets: Mapping[int, Array], report: ProgressReport) -> dict[int, Array]:
        """Return the first value of each feature at which the cumulative weight reaches a target.

        Parameters
        ----------
        targets : mapping of int to ndarray of float64, shape (n_targets,)
            Weights from zero to the total.
        report : callable
            Progress.

        Returns
        -------
        dict of int to ndarray of float64, shape (n_targets,)
            They are those of `row_quantiles`. Where the values were too many to be kept, the
            rows are read again, once or more.
        """
        found: dict[int, Array] = {}
        open_ones: dict[int, _WantedValues] = {}
        for j, wanted in targets.items():
            known = self.known[j]
            least = just_below(wanted, known.total)
            if known.keys is not None:
                found[j] = _values_of(_reached(known.keys, known.weights, least))
            else:
                whole = _WantedValues(
                    known.groups, least, np.zeros(len(wanted)), np.zeros(len(wanted))
                )
                open_ones[j] = whole.divided(known.parts, self.most)
        while open_ones:
            groups = tuple(search.groups for search in open_ones.values())
            counts = _GroupCounts(groups, self.most)
            state = self.stream.reduce(counts, "finding quantiles", report)
            for j, parts, distinct in zip(
                list(open_ones), state.parts, state.distinct, strict=True
            ):
                distinct.join(self.most)
                if distinct.keys is not None:
                    found[j] = open_ones.pop(j).ended(distinct.keys, distinct.weights)
                    continue
                search = open_ones[j].divided(parts, self.most)
                open_ones[j] = search
                if search.groups.n_bits == _BITS:
                    found[j] = _values_of(search.groups.starts[search.group])
                    del open_ones[j]
        return found


@dataclass(frozen=True, eq=False)
class _WantedValues:
    """Where wanted values lie: the group of each, and the weight of the rows before the group.

    Targets are those that sums must reach (see `just_below`).
    """

    groups: _KeyGroups
    targets: Array
    before: Array
    group: npt.NDArray[np.intp] | Array

    def divided(self, parts: Array, most: int) -> "_WantedValues":
        """Return the search in the parts of the groups."""
        own = self.groups
        table = parts.reshape(own.shape)
        chosen = np.empty(len(self.targets), dtype=np.uint64)
        before = np.empty(len(self.targets))
        for i, group in enumerate(np.asarray(self.group, dtype=np.intp).tolist()):
            used = np.flatnonzero(table[group])
            reached = self.before[i] + table[group][used].cumsum()
            place = min(int(np.searchsorted(reached, self.targets[i])), len(used) - 1)
            chosen[i] = (own.starts[group] << np.uint64(own.next_bits)) | np.uint64(used[place])
            before[i] = reached[place] - table[group][used[place]]
        starts, where = np.unique(chosen, return_inverse=True)
        n_bits = own.n_bits + own.next_bits
        # As many parts in all as there may be distinct values.
        fitting = max(int(np.log2(max(most // len(starts), 1))), 1)
        next_bits = min(fitting, _FIRST_BITS, _BITS - n_bits)
        groups = replace(own, starts=starts, n_bits=n_bits, next_bits=next_bits)
        return _WantedValues(groups, self.targets, before, where.reshape(-1))

    def ended(self, keys: Keys, weights: Array) -> Array:
        """Return the wanted values, among the distinct ones of the groups."""
        begin = keys >> np.uint64(_BITS - self.groups.n_bits)
        found = np.empty(len(self.targets), dtype=np.uint64)
        for i, start in enumerate(self.groups.starts[np.asarray(self.group, dtype=np.intp)]):
            inside = slice(*np.searchsorted(begin, [start, start + np.uint64(1)]))
            wanted = self.targets[i : i + 1] - self.before[i]
            found[i] = _reached(keys[inside], weights[inside], wanted)[0]
        return _values_of(found)


def _reached(keys: Keys, weights: Array, targets: Array) -> Keys:
    """Return the first keys at which the cumulative weight is at least as large as the targets."""
    place = np.searchsorted(weights.cumsum(), targets, side="left")
    return keys[np.minimum(place, len(keys) - 1)]


def order_values(
    stream: RowStream, features: Sequence[int], memory_budget: int, report: ProgressReport
) -> ValueOrder:
    """Return the finite values of some features of a stream in order, after one pass.

    Rows of weight zero count nowhere.

    Parameters
    ----------
    stream : RowStream
        The rows; they can be read again.
    features : sequence of int
        The features, whose columns are read.
    memory_budget : int
        Bytes that values and counts may take.
    report : callable
        Progress.

    Raises
    ------
    MemoryBudgetError
        If fewer than a few hundred values of each feature would fit.
    """
    n_features = max(len(features), 1)
    first = 16 * (1 << _FIRST_BITS)
    check_budget(
        2 * n_features * (first + _BYTES_A_VALUE * _LEAST_VALUES),
        memory_budget,
        f"the sorted values of {n_features} features",
        "Pass a table with fewer columns.",
    )
    most = int(memory_budget // (2 * n_features) - first) // _BYTES_A_VALUE
    whole = np.zeros(1, dtype=np.uint64)
    groups = tuple(_KeyGroups(j, whole, 0, _FIRST_BITS) for j in features)
    state = stream.reduce(_GroupCounts(groups, most), "ordering values", report)
    known = {}
    for own, parts, distinct in zip(groups, state.parts, state.distinct, strict=True):
        distinct.join(most)
        known[own.feature] = _Known(own, parts, distinct.keys, distinct.weights)
    return ValueOrder(stream, known, most)
