"""The nearest values of a single feature at which its reason would be none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from treepurify.components import locate_cells
from treepurify.grids.axis import FeatureAxis
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Cells, Indices, Integers, Mask
from treepurify.validation.explained import PlayerTables

__all__ = ["Curve", "curve_by_trial", "curve_in_tables", "undoing_values"]

# Combinations of a row and a cell that are looked up, or explained, at a time.
_CELLS_OF_TABLES = 1 << 22
_CELLS_OF_TREES = 1 << 16


@dataclass(frozen=True, eq=False)
class Curve:
    """What a player gets where its only feature takes other values.

    Parameters
    ----------
    axis : FeatureAxis
        The cells of the feature in which the player's value is constant.
    cells : ndarray of int, shape (n_rows,)
        The cell of each row.
    along : callable
        Positions of rows -> the player's value in the cells, shape (n_positions, n_cells or more).
    at_once : int
        Number of combinations of a row and a cell that may be requested together.
    """

    axis: FeatureAxis
    cells: Cells
    along: Callable[[Integers], Array]
    at_once: int


def curve_in_tables(tables: PlayerTables, player: int, feature: int) -> Curve:
    """Return the values of a player from tables, where they stand."""
    return Curve(
        tables.axes[feature],
        tables.cells[feature],
        partial(tables.along, player, feature),
        _CELLS_OF_TABLES,
    )


def curve_by_trial(
    values: Callable[[Columns], Array], axis: FeatureAxis, columns: Columns, feature: int
) -> Curve:
    """Return the values of a player by explaining each row with each cell's value.

    Parameters
    ----------
    values : callable
        Columns -> the player's value, shape (n_rows,).
    axis : FeatureAxis
        The cells of the feature.
    columns : Columns
        The rows.
    feature : int
        The feature.
    """
    tried = _value_in_each_cell(axis)

    def along(rows: Integers) -> Array:
        changed = list(columns.take(np.repeat(rows, len(tried))).values)
        changed[feature] = np.tile(tried, len(rows))
        found = values(Columns(columns.features, tuple(changed), len(rows) * len(tried)))
        return found.reshape(len(rows), len(tried))

    return Curve(axis, locate_cells(columns, feature, axis), along, _CELLS_OF_TREES)


def _value_in_each_cell(axis: FeatureAxis) -> Array:
    """Return codes, or the lower end of each interval, which belongs to it."""
    if axis.cuts is None:
        return np.arange(axis.n_regular, dtype=np.float64)
    return np.concatenate([[-np.inf], axis.cuts])


class _Nearest(NamedTuple):
    """The run of cells next to each row's own on one side: ``start:stop``, empty where none is."""

    start: Indices
    stop: Indices


def undoing_values(
    curve: Curve, rows: Integers, sign: float, tolerance: float
) -> list[tuple[str, ...]]:
    """Return where a feature would have to be for its contribution not to be adverse.

    All other features stay as they are in the row. Values are exact: the contribution is constant
    in each cell of the model.

    Parameters
    ----------
    curve : Curve
        What the player gets in the cells of its only feature.
    rows : ndarray of int64, shape (n_rows,)
        Rows where the contribution is adverse.
    sign : float
        One where positive contributions are adverse, else minus one.
    tolerance : float
        Contributions up to this are not adverse.

    Returns
    -------
    list of tuple of str
        For each row the nearest interval below the row's value and the nearest one above it, both
        as wide as they go; of a feature with categories all of these. Empty where there is none,
        and where the value of a numeric feature is missing: no value is near.
    """
    axis = curve.axis
    size = max(curve.at_once // axis.n_cells, 1)
    found: list[tuple[str, ...]] = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        undone = sign * curve.along(some) <= tolerance
        if axis.is_categorical:
            found += _categories(axis, undone)
        else:
            found += _intervals(axis, undone, curve.cells[some])
    return found


def _categories(axis: FeatureAxis, undone: Array | Mask) -> list[tuple[str, ...]]:
    labels = np.array(axis.labels()[: axis.n_regular], dtype=object)
    return [tuple(labels[row]) for row in undone[:, : axis.n_regular]]


def _intervals(axis: FeatureAxis, undone: Mask, cells: Cells) -> list[tuple[str, ...]]:
    regular = undone[:, : axis.n_regular]
    is_present = cells < axis.n_regular
    own = np.where(is_present, cells, 0)
    above = _nearest_above(regular, own)
    # The nearest cells below are the nearest above in the reverse order.
    mirrored = _nearest_above(regular[:, ::-1], axis.n_regular - 1 - own)
    below = _Nearest(axis.n_regular - mirrored.stop, axis.n_regular - mirrored.start)
    label = lru_cache(partial(_label, axis))
    sides = [zip(side.start.tolist(), side.stop.tolist(), strict=True) for side in (below, above)]
    return [
        tuple(label(*run) for run in runs if run[0] < run[1]) if present else ()
        for *runs, present in zip(*sides, is_present.tolist(), strict=True)
    ]


def _nearest_above(undone: Mask, cells: Cells) -> _Nearest:
    n_rows, n_cells = undone.shape
    at = np.arange(n_rows)
    ends = np.full((n_rows, 1), n_cells)
    numbers = np.arange(n_cells)
    next_undone = np.hstack([_next(np.where(undone, numbers, n_cells)), ends])
    next_other = np.hstack([_next(np.where(undone, n_cells, numbers)), ends])
    start = next_undone[at, cells]
    return _Nearest(start, next_other[at, start])


def _next(numbers: Indices) -> Indices:
    """Return the smallest number at or after each place."""
    return np.asarray(np.minimum.accumulate(numbers[:, ::-1], axis=1)[:, ::-1])


def _label(axis: FeatureAxis, start: int, stop: int) -> str:
    """Return the interval from the start of one cell to the start of another."""
    cuts = np.empty(0) if axis.cuts is None else axis.cuts
    # The cut above a cell has the cell's own number: the first cell has none below it.
    ends = cuts[[cut for cut in (start - 1, stop - 1) if 0 <= cut < len(cuts)]]
    return FeatureAxis(axis.name, ends, axis.categories).labels(exact=True)[int(start > 0)]
