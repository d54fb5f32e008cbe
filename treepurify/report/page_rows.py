"""Rows on a page: examples with what the model says of them, and where the reader starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.components import TensorComponent, evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grid_rows import GridRows
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns
from treepurify.typing import Array

__all__ = ["ExampleRows", "InitialRow", "evaluate_examples", "initial_row", "packed_rows"]

Row = list[float | None]

# Stands for infinity, which JSON does not have.
_LARGEST = 1e300
# An odd constant of 64 bits that mixes the cells of a row into one number.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class ExampleRows:
    """What a decomposition says of example rows.

    Parameters
    ----------
    prediction : ndarray of float64, shape (n_rows, n_outputs), optional
        The margin; None where the remainder cannot be evaluated.
    remainder : ndarray of float64, shape (n_rows, n_outputs), optional
        None where there is none, or it cannot be evaluated.
    left_out : ndarray of float64, shape (n_rows, n_outputs)
        The sum of the effects that are not on the page.
    exact : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        The effects whose table on the page is an approximation.
    """

    prediction: Array | None
    remainder: Array | None
    left_out: Array
    exact: Mapping[Subset, Array]


def evaluate_examples(
    d: Decomposition, columns: Columns, on_page: Sequence[Subset], inexact: Sequence[Subset]
) -> ExampleRows:
    """Return what the model, the remainder and the effects say of rows.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    columns : Columns
        The rows.
    on_page : sequence of tuple of int
        The effects that the page holds.
    inexact : sequence of tuple of int
        Those of them whose table has merged cells or stands for a curve.
    """
    explained = np.tile(d.intercept, (columns.n_rows, 1))
    left_out = np.zeros_like(explained)
    exact: dict[Subset, Array] = {}
    each = evaluate_each(d.components.values(), columns)
    for subset, values in zip(d.components, each, strict=True):
        explained += values
        if subset not in on_page:
            left_out += values
        elif subset in inexact:
            exact[subset] = values
    if d.remainder is None:
        return ExampleRows(explained, None, left_out, exact)
    try:
        prediction = d.on_rows(columns)
    except InvalidInputError:
        # It was loaded without the function that was decomposed.
        return ExampleRows(None, None, left_out, exact)
    return ExampleRows(prediction, prediction - explained, left_out, exact)


def packed_rows(columns: Columns) -> list[Row]:
    """Return rows as numbers, codes of categories, and None for missing values."""
    matrix = columns.matrix()
    matrix = np.where(np.isnan(matrix), np.nan, np.clip(matrix, -_LARGEST, _LARGEST))
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]


@dataclass(frozen=True, eq=False)
class InitialRow:
    """The row that the page shows first.

    Parameters
    ----------
    words : str
        Its description.
    example : int
        Position among the examples, or -1.
    row : list of (float or None), optional
        The values, where it is not an example.
    """

    words: str
    example: int = -1
    row: Row | None = None


def initial_row(d: Decomposition, columns: Columns | None) -> InitialRow:
    """Return a typical row: one that exists, if rows are stored with the decomposition.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    columns : Columns, optional
        The examples.
    """
    if columns is not None and columns.n_rows:
        used = sorted({j for subset in d.components for j in subset})
        ordered = [not columns.features[j].is_categorical for j in used]
        matrix = np.array([columns.values[j] for j in used], dtype=np.float64)
        weights = np.ones(columns.n_rows)
        chosen = int(np.argmin(_distance_from_centre(matrix, ordered, weights)))
        words = f"Starts from example {chosen + 1}, the most central one."
        return InitialRow(words, chosen)
    axes = _axes(d)
    rows = d.grid_rows
    if rows is None or not axes:
        return InitialRow(
            "Starts from the most frequent value of each feature (not an actual row; their "
            "combination may not occur)."
        )
    return _heaviest_cell(d, rows, axes)


def _axes(d: Decomposition) -> dict[int, tuple[int, FeatureAxis]]:
    """Return the order and the axis under which each feature is first met."""
    axes: dict[int, tuple[int, FeatureAxis]] = {}
    for subset, component in d.components.items():
        if isinstance(component, TensorComponent):
            for j, axis in zip(subset, component.axes, strict=True):
                axes.setdefault(j, (len(subset), axis))
    return axes


def _heaviest_cell(
    d: Decomposition, rows: GridRows, axes: Mapping[int, tuple[int, FeatureAxis]]
) -> InitialRow:
    grids, largest = rows.by_order, max(rows.by_order)
    codes = np.array([grids.get(order, grids[largest]).codes[j] for j, (order, _) in axes.items()])
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    mixed = np.zeros(rows.n_rows, dtype=np.uint64)
    for cells in codes:
        mixed = (mixed ^ cells.astype(np.uint64)) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    _, group = np.unique(mixed, return_inverse=True)
    held = np.bincount(group, weights)
    heaviest = np.flatnonzero(held[group] >= held.max() * (1.0 - 1e-9))
    numeric = [not axis.is_categorical for _, axis in axes.values()]
    matrix = codes.astype(np.float64)
    for cells, (_, axis) in zip(matrix, axes.values(), strict=True):
        cells[cells == (-1 if axis.missing_cell is None else axis.missing_cell)] = np.nan
    distance = _distance_from_centre(matrix, numeric, weights)
    chosen = heaviest[np.argmin(distance[heaviest])]
    row: Row = [None] * len(d.feature_names)
    for cell, (j, (_, axis)) in zip(codes[:, chosen], axes.items(), strict=True):
        row[j] = _value_in(axis, int(cell))
    share = held[group[chosen]] / held.sum()
    which = "a central combination of intervals"
    if np.sum(group == group[chosen]) > 1:
        which = f"the most common combination of intervals ({share:.2%} of the data)"
    words = f"Starts from {which}, which is not an actual row."
    return InitialRow(words, row=row)


def _value_in(axis: FeatureAxis, cell: int) -> float | None:
    """Return a value in a cell: where it begins, or the code of a category."""
    if cell == axis.missing_cell:
        return None
    if axis.cuts is None:
        return float(cell)
    lowest = axis.bounds[0] if axis.bounds else -_LARGEST
    value = lowest if cell == 0 else axis.cuts[cell - 1]
    return float(np.clip(value, -_LARGEST, _LARGEST))


def _distance_from_centre(matrix: Array, ordered: Sequence[bool], weights: Array) -> Array:
    """Return how far each row is from the middle, shape (n_rows,), summed over the features.

    Numbers count by the distance of their rank from the median, from 0 to 1; categories and
    missing values by the share of the rows that have another one.
    """
    total = np.zeros(matrix.shape[1])
    for values, is_ordered in zip(matrix, ordered, strict=True):
        _, level = np.unique(values, return_inverse=True, equal_nan=True)
        share = np.bincount(level, weights) / weights.sum()
        if is_ordered:
            missing = np.isnan(values)
            known = np.unique(level[~missing])
            inside = share[known] / (share[known].sum() or 1.0)
            distance = 1.0 - share
            distance[known] = np.abs(2 * np.cumsum(inside) - inside - 1.0)
            total += distance[level]
        else:
            total += 1.0 - share[level]
    return total
