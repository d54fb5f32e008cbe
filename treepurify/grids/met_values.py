"""What rows that come in batches have along each axis: its range, missing and unknown values."""

from dataclasses import dataclass, field, replace

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, encode_rows
from treepurify.rows.category_levels import CategoryLevels, joined_levels
from treepurify.rows.columns import Columns
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.table_reader import unknown_categories
from treepurify.typing import Array, Indices, Mask

__all__ = ["MetValues", "encode_batch", "kept_cells", "merge_met", "narrowed_grid", "no_values"]


@dataclass(eq=False)
class MetValues:
    """What rows had along each axis of a grid.

    Parameters
    ----------
    n_rows, n_counted : int
        Number of rows, and of those of positive weight.
    total_weight : float
        Sum of their weights, or their number.
    missing, other, known : ndarray of bool, shape (n_features,)
        Whether a feature had missing values, unknown and known categories.
    lowest, highest : ndarray of float64, shape (n_features,)
        Smallest and largest finite number.
    levels : mapping of int to tuple of hashable
        The labels of the codes, where a model knows codes only; see `RowBatch`.
    """

    n_rows: int
    n_counted: int
    total_weight: float
    missing: Mask
    other: Mask
    known: Mask
    lowest: Array
    highest: Array
    levels: CategoryLevels = field(default_factory=dict)


def no_values(n_features: int) -> MetValues:
    """Return what no rows had."""
    missing, other, known = np.zeros((3, n_features), dtype=bool)
    lowest, highest = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    return MetValues(0, 0, 0.0, missing, other, known, lowest, highest)


def encode_batch(
    rows: RowBatch, grid: Grid, features: tuple[int, ...]
) -> tuple[EncodedRows, MetValues]:
    """Return the cells of a batch along some features, and what it has there.

    Parameters
    ----------
    rows : RowBatch
        The rows.
    grid : Grid
        Its axes have cells for missing and unknown values everywhere, and no bounds.
    features : tuple of int
        The features, in the order of the codes that are returned.
    """
    columns = rows.columns
    met = no_values(grid.n_features)
    met.n_rows = columns.n_rows
    met.n_counted = int(np.count_nonzero(rows.counts))
    met.total_weight = float(columns.n_rows if rows.weights is None else rows.weights.sum())
    met.levels = rows.levels
    # Along numeric axes the cell of missing values is the last one in any case; without it
    # it is seen whether there are any.
    axes = tuple(
        grid.axes[j] if grid.axes[j].is_categorical else replace(grid.axes[j], has_missing=False)
        for j in features
    )
    part = Columns(
        tuple(columns.features[j] for j in features),
        tuple(columns.values[j] for j in features),
        columns.n_rows,
    )
    encoded, reached = encode_rows(part, axes)
    for j, axis in zip(features, reached, strict=True):
        values = columns.values[j]
        if axis.is_categorical:
            met.missing[j] = np.any(np.isnan(values))
            met.other[j] = np.any(values == axis.n_regular)
            met.known[j] = np.any(values < axis.n_regular)
        else:
            met.missing[j] = axis.has_missing
            if axis.bounds is not None:
                met.lowest[j], met.highest[j] = axis.bounds
    return replace(encoded, weights=rows.weights), met


def merge_met(first: MetValues, second: MetValues, grid: Grid, where: str = "a file") -> MetValues:
    """Return what the rows of both had.

    Raises
    ------
    InvalidInputError
        If the codes of a category, of which the model knows no labels, mean different labels.
    """
    return MetValues(
        first.n_rows + second.n_rows,
        first.n_counted + second.n_counted,
        first.total_weight + second.total_weight,
        first.missing | second.missing,
        first.other | second.other,
        first.known | second.known,
        np.minimum(first.lowest, second.lowest),
        np.maximum(first.highest, second.highest),
        joined_levels(first.levels, second.levels, [axis.name for axis in grid.axes], where),
    )


def narrowed_grid(grid: Grid, met: MetValues) -> Grid:
    """Return the grid with cells for missing and unknown values only where there are such values.

    There are where the model has seen them in training, too.

    Raises
    ------
    InvalidInputError
        If a categorical column has values, and the model knows none of them.
    """
    axes = []
    for j, (axis, spec) in enumerate(zip(grid.axes, grid.features, strict=True)):
        if axis.is_categorical and spec.n_codes and met.other[j] and not met.known[j]:
            raise unknown_categories(spec)
        has_missing = spec.has_missing or bool(met.missing[j])
        axes.append(replace(axis, has_other=bool(met.other[j]), has_missing=has_missing))
    return replace(grid, axes=tuple(axes))


def bounded_grid(grid: Grid, met: MetValues) -> Grid:
    """Return the grid with the smallest and largest number of the rows as bounds of its axes."""
    axes = tuple(
        replace(axis, bounds=(float(low), float(high))) if low <= high else axis
        for axis, low, high in zip(grid.axes, met.lowest, met.highest, strict=True)
    )
    return replace(grid, axes=axes)


def kept_cells(wide: FeatureAxis, narrow: FeatureAxis) -> Indices:
    """Return the positions in an axis with all special cells of the cells of one with fewer."""
    regular = np.arange(wide.n_regular)
    special = [wide.other_cell] * narrow.has_other + [wide.missing_cell] * narrow.has_missing
    return np.concatenate([regular, np.array(special, dtype=np.intp)]).astype(np.intp)
