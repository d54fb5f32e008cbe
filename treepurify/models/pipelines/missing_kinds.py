"""Whether None, NaN and pandas' NA are the same to the encoders of a pipeline.

Some encoders read one of them as missing and another as a label that they do not know, and some
imputers fill only one. The transformers are tried on each kind; rows with a kind that is read as
neither missing nor any label are refused. Under pandas 2, encoders of category_encoders read NaN
in another way where the column has None, too, and so pairs of kinds are tried.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.pipelines.axes import RawAxis, Uses, cells_of
from treepurify.rows.columns import REFUSED, TOGETHER
from treepurify.rows.missing_values import missing_kind
from treepurify.typing import Array

__all__ = ["with_missing_kinds"]


def with_missing_kinds(
    ensemble: TreeEnsemble,
    uses: Uses,
    axes: Sequence[RawAxis],
    read: dict[int, Array],
    *,
    zero_is_absent: bool,
) -> list[RawAxis]:
    """Return the axes, those of labels with the kinds of missing values that are not missing.

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
    zero_is_absent : bool
        Whether a transformed zero is missing to the model.
    """
    asked = {
        t: column
        for t, column in uses.items()
        if axes[column.raw[0]].spec.is_categorical and not axes[column.raw[0]].is_passed_on
    }
    if not asked:
        return list(axes)
    alone = {}
    for value in _missing_values():
        alone[missing_kind(value)] = _readings(ensemble, asked, axes, [value], zero_is_absent)
    cells = {
        r: np.stack([read[t] for t, column in asked.items() if column.raw[0] == r])
        for r in next(iter(alone.values()))
    }
    found = {
        r: [(kind, _cell_like(cells[r], readings[r])) for kind, readings in alone.items()]
        for r in cells
    }
    found = {
        r: [(kind, code) for kind, code in kinds if code != axes[r].n_cells]
        for r, kinds in found.items()
    }
    if any(found.values()):
        for first, second in combinations(_missing_values(), 2):
            kinds = (missing_kind(first), missing_kind(second))
            both = _readings(ensemble, asked, axes, [first, second], zero_is_absent)
            for r, readings in both.items():
                apart = np.concatenate([alone[kind][r] for kind in kinds], axis=1)
                if not np.array_equal(readings, apart, equal_nan=True):
                    found[r].append((TOGETHER.join(kinds), REFUSED))
    return [
        replace(axis, spec=replace(axis.spec, missing_kinds=tuple(found.get(r, ()))))
        for r, axis in enumerate(axes)
    ]


def _readings(
    ensemble: TreeEnsemble,
    uses: Uses,
    axes: Sequence[RawAxis],
    values: list[Any],
    zero_is_absent: bool,
) -> dict[int, Array]:
    """Return what is read in rows of missing values, for each raw column of labels.

    The arrays have the shape (number of uses of the raw column, number of rows).
    """
    rows = [_rows_of(axis, values) for axis in axes]
    read = cells_of(ensemble, uses, rows, zero_is_absent=zero_is_absent)
    readings: dict[int, list[Array]] = {}
    for t, column in uses.items():
        readings.setdefault(column.raw[0], []).append(read[t][: len(values)])
    return {r: np.stack(mine) for r, mine in readings.items()}


def _missing_values() -> list[Any]:
    import pandas as pd

    return [None, np.nan, pd.NA, pd.NaT]


def _rows_of(axis: RawAxis, values: list[Any]) -> RawAxis:
    """Return an axis of missing values, with a label that keeps the column one of labels."""
    if not axis.spec.is_categorical or axis.is_passed_on:
        return replace(axis, values=axis.values[:1])
    return replace(axis, values=np.array([*values, axis.values[0]], dtype=object))


def _cell_like(cells: Array, values: Array) -> int:
    """Return the last cell that is read as some values are, `REFUSED` if none is.

    The last cells are that of unseen labels and that of missing values.
    """
    is_same = (cells == values) | (np.isnan(cells) & np.isnan(values))
    return max(np.flatnonzero(is_same.all(axis=0)).tolist(), default=REFUSED)
