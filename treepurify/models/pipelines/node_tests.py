"""The tests of a tree's nodes, as the cells of one raw column that they send left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.limits import check_category_tables
from treepurify.models.pipelines.axes import RawAxis, Uses
from treepurify.models.pipelines.columns import IN_TRANSFORMED_COLUMNS
from treepurify.typing import Array, Indices, Integers, Mask

__all__ = ["NodeTests", "node_tests"]

_MOST_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class NodeTests:
    """Every different test of the nodes.

    Parameters
    ----------
    node_test : ndarray of int64, shape (n_nodes,)
        Test of each node; -1 at leaves.
    feature : ndarray of int64, shape (n_tests,)
        The raw column.
    missing_left : ndarray of bool, shape (n_tests,)
        Whether missing values go left.
    first_left : ndarray of bool, shape (n_tests,)
        Whether the first cell of numbers goes left.
    switch_ptr : ndarray of int64, shape (n_tests + 1,)
        Where the switches of each test begin.
    switches : ndarray of int64
        Cells of numbers that go to the other side than the cell before.
    table_ptr : ndarray of int64, shape (n_tests,)
        Where the table of each test of labels begins; -1 for numbers.
    table : ndarray of bool
        Whether each code goes left; the entry after the last code is that of unseen labels.
    """

    node_test: Integers
    feature: Integers
    missing_left: Mask
    first_left: Mask
    switch_ptr: Integers
    switches: Integers
    table_ptr: Integers
    table: Mask

    @property
    def arrays(self) -> tuple[Integers, Mask, Integers, Mask, Integers, Integers, Mask]:
        """All that describes the tests, in the order that the kernel takes."""
        return (
            self.feature,
            self.missing_left,
            self.switch_ptr,
            self.first_left,
            self.switches,
            self.table_ptr,
            self.table,
        )


@dataclass(frozen=True, eq=False)
class _ColumnTests:
    """The tests of one transformed column."""

    nodes: Indices
    number: Indices
    missing_left: Mask
    first_left: Mask
    n_switches: Integers
    switches: Integers
    table: Mask


def node_tests(
    ensemble: TreeEnsemble, uses: Uses, axes: Sequence[RawAxis], read: dict[int, Array]
) -> NodeTests:
    """Return the tests of all nodes on the cells of raw columns.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model on the transformed columns.
    uses : dict of int to Column
        The transformed columns that trees test, by position.
    axes : sequence of RawAxis
        The cells of each raw column.
    read : dict of int to ndarray
        What the model reads in each used column, for each cell of its raw column.

    Returns
    -------
    NodeTests
    """
    order = np.argsort(ensemble.feature, kind="stable")
    ends = np.searchsorted(ensemble.feature[order], np.arange(-1, ensemble.n_features), "right")
    node_test = np.full(len(ensemble.feature), -1, dtype=np.int64)
    parts = []
    features = []
    table_ptr = []
    n_tests = n_entries = 0
    for t, column in uses.items():
        axis = axes[column.raw[0]]
        part = _column_tests(ensemble, order[ends[t] : ends[t + 1]], axis, read[t])
        n_mine = len(part.missing_left)
        node_test[part.nodes] = n_tests + part.number
        width = axis.spec.n_codes + 1
        table_ptr.append(
            n_entries + width * np.arange(n_mine)
            if axis.spec.is_categorical
            else np.full(n_mine, -1)
        )
        n_tests += n_mine
        n_entries += len(part.table)
        check_category_tables(n_entries)
        features.append(np.full(n_mine, column.raw[0]))
        parts.append(part)
    n_switches = _joined([part.n_switches for part in parts], np.int64)
    return NodeTests(
        node_test=node_test,
        feature=_joined(features, np.int64),
        missing_left=_joined([part.missing_left for part in parts], np.bool_),
        first_left=_joined([part.first_left for part in parts], np.bool_),
        switch_ptr=np.concatenate([[0], np.cumsum(n_switches)]).astype(np.int64),
        switches=_joined([part.switches for part in parts], np.int64),
        table_ptr=_joined(table_ptr, np.int64),
        table=_joined([part.table for part in parts], np.bool_),
    )


def _joined(parts: list, dtype: type) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype=dtype)


def _column_tests(
    ensemble: TreeEnsemble, nodes: Indices, axis: RawAxis, values: Array
) -> _ColumnTests:
    missing_left = ensemble.missing_left[nodes]
    is_table = bool(ensemble.category_ptr[nodes[0]] >= 0)
    keys = ensemble.category_ptr[nodes] if is_table else ensemble.cut[nodes].view(np.int64)
    pairs = np.stack([keys, missing_left.astype(np.int64)], axis=1)
    kept, number = np.unique(pairs, axis=0, return_inverse=True)
    different = kept[:, 1] != 0
    ask = (
        _AskTable(ensemble, kept[:, 0], different)
        if is_table
        else _AskCut(kept[:, 0].copy().view(np.float64), different)
    )
    number = number.ravel()
    is_missing_left = ask.sides(values[-1:])[:, 0]
    inner = values[:-1]
    if axis.spec.is_categorical:
        table = ask.sides(inner)
        none = np.zeros(len(kept), dtype=np.int64)
        return _ColumnTests(
            nodes, number, is_missing_left, table[:, 0], none, none[:0], table.ravel()
        )
    first, counts, switches = ask.switches(inner)
    no_table = np.zeros(0, dtype=np.bool_)
    return _ColumnTests(nodes, number, is_missing_left, first, counts, switches, no_table)


@dataclass(frozen=True, eq=False)
class _AskCut:
    """Numeric tests: one cut each, and the side of missing values."""

    cut: Array
    missing_left: Mask

    def sides(self, values: Array) -> Mask:
        """Return whether each value goes left, shape (n_tests, n_values)."""
        _check_size(len(self.cut), len(values))
        missing = np.isnan(values)
        return np.where(missing, self.missing_left[:, None], values < self.cut[:, None])

    def switches(self, values: Array) -> tuple[Mask, Integers, Integers]:
        """Return whether the first value goes left, and where sides change."""
        n_values = len(values)
        if not np.any(np.isnan(values)) and n_values:
            steps = values[1:] >= values[:-1]
            if np.all(steps):
                where = np.searchsorted(values, self.cut, side="left")
                inside = (where > 0) & (where < n_values)
                return where > 0, inside.astype(np.int64), where[inside].astype(np.int64)
            if np.all(values[1:] <= values[:-1]):
                where = n_values - np.searchsorted(values[::-1], self.cut, side="left")
                inside = (where > 0) & (where < n_values)
                return where <= 0, inside.astype(np.int64), where[inside].astype(np.int64)
        return _switches(self.sides(values))


@dataclass(frozen=True, eq=False)
class _AskTable:
    """Tests of codes: the offset of the table of each, and the side of missing values."""

    ensemble: TreeEnsemble
    offset: Integers
    missing_left: Mask

    def sides(self, values: Array) -> Mask:
        """Return whether each code goes left, shape (n_tests, n_values)."""
        _check_size(len(self.offset), len(values))
        missing = np.isnan(values)
        codes = np.where(missing, 0.0, values).astype(np.int64)
        left = self.ensemble.category_left[self.offset[:, None] + codes]
        return np.where(missing, self.missing_left[:, None], left)

    def switches(self, values: Array) -> tuple[Mask, Integers, Integers]:
        """Return whether the first value goes left, and where sides change."""
        return _switches(self.sides(values))


def _switches(sides: Mask) -> tuple[Mask, Integers, Integers]:
    changes = sides[:, 1:] != sides[:, :-1]
    return sides[:, 0], changes.sum(axis=1).astype(np.int64), np.nonzero(changes)[1] + 1


def _check_size(n_tests: int, n_values: int) -> None:
    check_budget(
        4 * n_tests * n_values,
        _MOST_BYTES,
        f"{n_tests} tests on {n_values} values of a raw column",
        IN_TRANSFORMED_COLUMNS,
    )
