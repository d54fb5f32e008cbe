"""The observed range of each axis of a grid, found batch by batch."""

from dataclasses import dataclass, field, replace

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, encode_rows
from treepurify.rows.columns import Columns
from treepurify.rows.source_reader import CategoryLevels, RowBatch, joined_levels
from treepurify.rows.table_reader import unknown_categories
from treepurify.typing import Array, Indices, Mask


@dataclass(eq=False)
class ObservedRange:
    """The values that rows have along each axis of a grid.

    Parameters
    ----------
    n_rows, n_counted : int
        Number of rows, and of those of positive weight.
    total_weight : float
        Sum of their weights, or their number.
    missing, other, seen : ndarray of bool, shape (n_features,)
        Whether a feature has missing values, levels that the model has not seen, and levels that it
        has seen.
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
    seen: Mask
    lowest: Array
    highest: Array
    levels: CategoryLevels = field(default_factory=dict)

    @classmethod
    def empty(cls, n_features: int) -> "ObservedRange":
        """Return the range of no rows."""
        missing, other, seen = np.zeros((3, n_features), dtype=bool)
        lowest, highest = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        return cls(0, 0, 0.0, missing, other, seen, lowest, highest)

    def merge(self, more: "ObservedRange", grid: Grid, where: str = "a file") -> "ObservedRange":
        """Return the range of the rows of both; `where` names those of `more` in messages.

        Raises
        ------
        InvalidInputError
            If the codes of a category whose labels the model does not know have different labels.
        """
        return ObservedRange(
            self.n_rows + more.n_rows,
            self.n_counted + more.n_counted,
            self.total_weight + more.total_weight,
            self.missing | more.missing,
            self.other | more.other,
            self.seen | more.seen,
            np.minimum(self.lowest, more.lowest),
            np.maximum(self.highest, more.highest),
            joined_levels(self.levels, more.levels, [axis.name for axis in grid.axes], where),
        )


def encode_batch(
    rows: RowBatch, grid: Grid, features: tuple[int, ...]
) -> tuple[EncodedRows, ObservedRange]:
    """Return the cells of a batch along some features, and the range that it has there.

    Parameters
    ----------
    rows : RowBatch
        The rows.
    grid : Grid
        Its axes have cells for missing and unseen values everywhere, and no bounds.
    features : tuple of int
        The features, in the order of the codes that are returned.
    """
    columns = rows.columns
    observed = ObservedRange.empty(grid.n_features)
    observed.n_rows = columns.n_rows
    observed.n_counted = int(np.count_nonzero(rows.counts))
    observed.total_weight = float(columns.n_rows if rows.weights is None else rows.weights.sum())
    observed.levels = rows.levels
    # Along numeric axes the cell of missing values is the last one in any case, and only an axis
    # without it shows whether there are any.
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
            observed.missing[j] = np.any(np.isnan(values))
            observed.other[j] = np.any(values == axis.n_regular)
            observed.seen[j] = np.any(values < axis.n_regular)
        else:
            observed.missing[j] = axis.has_missing
            if axis.bounds is not None:
                observed.lowest[j], observed.highest[j] = axis.bounds
    return replace(encoded, weights=rows.weights), observed


def narrowed_grid(grid: Grid, observed: ObservedRange) -> Grid:
    """Return the grid with cells for missing and unseen values only where they are needed.

    Cells for missing values are needed, too, where the model had such values in training.

    Raises
    ------
    InvalidInputError
        If a categorical column has values, but no level that the model has seen.
    """
    axes = []
    for j, (axis, spec) in enumerate(zip(grid.axes, grid.features, strict=True)):
        if axis.is_categorical and spec.n_codes and observed.other[j] and not observed.seen[j]:
            raise unknown_categories(spec)
        has_missing = spec.has_missing or bool(observed.missing[j])
        axes.append(replace(axis, has_other=bool(observed.other[j]), has_missing=has_missing))
    return replace(grid, axes=tuple(axes))


def bounded_grid(grid: Grid, observed: ObservedRange) -> Grid:
    """Return the grid with the smallest and largest number of the rows as bounds of its axes."""
    axes = tuple(
        replace(axis, bounds=(float(low), float(high))) if low <= high else axis
        for axis, low, high in zip(grid.axes, observed.lowest, observed.highest, strict=True)
    )
    return replace(grid, axes=axes)


def kept_cells(wide: FeatureAxis, narrow: FeatureAxis) -> Indices:
    """Return the positions in an axis with all special cells of the cells of one with fewer."""
    regular = np.arange(wide.n_regular)
    special = [wide.other_cell] * narrow.has_other + [wide.missing_cell] * narrow.has_missing
    return np.concatenate([regular, np.array(special, dtype=np.intp)]).astype(np.intp)
