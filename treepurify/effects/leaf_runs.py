"""The cells that reach each leaf, as runs along the features that its path tests."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.leaf_boxes import add_runs
from treepurify.grids.grid import Grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Indices, Integers, Mask

__all__ = ["leaf_runs"]


class _Splits(NamedTuple):
    """The nodes of all trees, and the first interval that goes right at each numeric one."""

    parent: npt.NDArray[np.int32]
    feature: npt.NDArray[np.int32]
    left: npt.NDArray[np.int32]
    first_right: Integers
    missing_left: Mask
    category_ptr: npt.NDArray[Any]
    category_left: Mask


class _Cells(NamedTuple):
    """The cells of each feature: where they begin and end, how many, intervals, the missing one."""

    bounds: Integers
    size: Integers
    regular: Integers
    missing: Integers


class _Box(NamedTuple):
    """Work space for the cells that reach one leaf."""

    marked: Mask
    low: Integers
    high: Integers
    has_missing: Mask
    n_reached: Integers
    path: Integers


def leaf_runs(
    ensemble: TreeEnsemble, grid: Grid, leaves: Indices, keep_every_test: bool
) -> tuple[Any, ...]:
    """Return each leaf's box as runs of cells along the features that restrict it.

    With `keep_every_test`, features that restrict it in no cell are kept, and leaves that no cell
    reaches have their features too, some of them without a run.

    Returns
    -------
    entry_ptr : (n_leaves + 1,)
        The entries of leaf i are ``entry_ptr[i]:entry_ptr[i + 1]``, one per feature.
    entry_feature : (n_entries,)
        Features, increasing within a leaf.
    run_ptr : (n_entries + 1,)
        The runs of an entry.
    run_start, run_stop : (n_runs,)
        Half-open runs of cells.
    reachable : (n_leaves,)
        False where no cell reaches the leaf.
    """
    splits, cells = _splits(ensemble, grid), _cells(grid)
    box = _work_space(cells)
    entry_ptr = np.zeros(len(leaves) + 1, dtype=np.int64)
    reachable = np.ones(len(leaves), dtype=np.bool_)

    def find(write: bool, entry_feature: Any, runs: tuple[Any, ...]) -> int:
        n_runs = add_runs(
            leaves,
            splits,
            cells,
            box,
            keep_every_test,
            write,
            reachable,
            entry_ptr,
            entry_feature,
            runs,
        )
        return int(n_runs)

    none = np.zeros(0, dtype=np.int32)
    n_runs = find(False, none, (np.zeros(1, dtype=np.int64), none, none))
    entry_feature = np.zeros(entry_ptr[-1], dtype=np.int32)
    run_ptr = np.zeros(entry_ptr[-1] + 1, dtype=np.int64)
    run_start, run_stop = np.zeros((2, n_runs), dtype=np.int32)
    find(True, entry_feature, (run_ptr, run_start, run_stop))
    return entry_ptr, entry_feature, run_ptr, run_start, run_stop, reachable


def _splits(ensemble: TreeEnsemble, grid: Grid) -> _Splits:
    return _Splits(
        ensemble.parents(),
        ensemble.feature,
        ensemble.left,
        _first_cell_right(ensemble, grid),
        ensemble.missing_left,
        ensemble.category_ptr,
        ensemble.category_left,
    )


def _cells(grid: Grid) -> _Cells:
    size = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    missing = [-1 if axis.missing_cell is None else axis.missing_cell for axis in grid.axes]
    return _Cells(
        np.concatenate([[0], np.cumsum(size)]),
        size,
        np.array([axis.n_regular for axis in grid.axes], dtype=np.int64),
        np.array(missing, dtype=np.int64),
    )


def _work_space(cells: _Cells) -> _Box:
    n_axes = len(cells.size)
    return _Box(
        np.zeros(int(cells.size.sum()), dtype=np.bool_),
        np.zeros(n_axes, dtype=np.int64),
        np.zeros(n_axes, dtype=np.int64),
        np.zeros(n_axes, dtype=np.bool_),
        np.zeros(n_axes, dtype=np.int64),
        np.zeros(n_axes + 1, dtype=np.int64),
    )


def _first_cell_right(ensemble: TreeEnsemble, grid: Grid) -> Integers:
    """Return, for each numeric node, the first interval that goes right."""
    first = np.zeros(len(ensemble.feature), dtype=np.int64)
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0)
    order = np.argsort(ensemble.feature[numeric], kind="stable")
    nodes = np.flatnonzero(numeric)[order]
    bounds = np.searchsorted(ensemble.feature[nodes], np.arange(grid.n_features + 1))
    for j, axis in enumerate(grid.axes):
        tests = nodes[bounds[j] : bounds[j + 1]]
        if axis.cuts is not None and len(tests):
            first[tests] = np.searchsorted(axis.cuts, ensemble.cut[tests], side="right")
    return first
