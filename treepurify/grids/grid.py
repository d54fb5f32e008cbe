"""A grid: one axis per feature, and the encoding of rows as cell numbers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify._kernels.locate import CUTS_AT_A_TIME, ROWS_A_TILE, locate
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis, central_values
from treepurify.rows.columns import Columns, FeatureSpec, numeric_cells
from treepurify.rows.row_weights import row_shares
from treepurify.threads import map_threads
from treepurify.typing import Array, Mask

Subset = tuple[int, ...]
MissingCells = Literal["auto", "always"]
Cuts = tuple[Array | None, ...]

_ROWS_NAMED = 5
# Up to this number of values, with this many added for each column, NumPy locates them in a few
# milliseconds; a kernel would first have to be compiled.
_FEW_VALUES, _VALUES_OF_A_COLUMN = 1 << 16, 2048


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as cell numbers.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_rows)
        Cell of each row along each axis; features without a cut are all zero.
    weights : ndarray of float64, shape (n_rows,), optional
        Weight of each row; None for equal weights.
    """

    codes: npt.NDArray[Any]
    weights: Array | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])

    @property
    def shares(self) -> Array:
        """Share of each row in all of them, shape (n_rows,)."""
        return row_shares(self.n_rows, self.weights)


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells that a model can distinguish.

    Parameters
    ----------
    axes : tuple of FeatureAxis
        One axis per feature, in the order of the model.
    features : tuple of FeatureSpec
        How the columns of a table are read.
    match_names : bool
        Whether tables are matched by column name.
    """

    axes: tuple[FeatureAxis, ...]
    features: tuple[FeatureSpec, ...]
    match_names: bool = True

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.axes)

    def shape(self, subset: Subset) -> tuple[int, ...]:
        """Return the number of cells along each feature of `subset`."""
        return tuple([self.axes[j].n_cells for j in subset])

    def subset_axes(self, subset: Subset) -> tuple[FeatureAxis, ...]:
        """Return the axes of the features in `subset`."""
        return tuple([self.axes[j] for j in subset])


def place_rows(
    columns: Columns, features: Sequence[int], axes: Sequence[FeatureAxis]
) -> npt.NDArray[Any]:
    """Return the cell of each row along some axes, shape (n_axes, n_rows), in the narrowest type.

    Parameters
    ----------
    columns : Columns
        The rows.
    features, axes : sequences of int and of FeatureAxis
        The axes, and the feature of each.

    Raises
    ------
    InvalidInputError
        If a value is missing or unseen and the axis has no cell for it.
    """
    chosen = Columns(
        tuple(columns.features[j] for j in features),
        tuple(columns.values[j] for j in features),
        columns.n_rows,
    )
    rows, reached = encode_rows(chosen, tuple(axes))
    for axis, wider, column in zip(axes, reached, chosen.values, strict=True):
        if wider.has_missing and not axis.has_missing:
            _refuse(axis, "missing values", np.isnan(column))
        elif wider.has_other and not axis.has_other:
            _refuse(axis, "values unknown to the model", column == axis.n_regular)
    return rows.codes


def _refuse(axis: FeatureAxis, what: str, is_special: Mask) -> None:
    where = np.flatnonzero(is_special).tolist()
    named = ", ".join(map(str, where[:_ROWS_NAMED])) + ", ..." * (len(where) > _ROWS_NAMED)
    raise InvalidInputError(
        f"feature {axis.name!r} has {what} in {len(where)} of {len(is_special)} rows (positions "
        f"{named}), but the rows of the decomposition had none. Purify again with "
        'missing_cells="always", or with rows that have such values'
    )


def make_grid(
    columns: Columns | None,
    features: tuple[FeatureSpec, ...],
    cuts: Cuts,
    *,
    match_names: bool,
    missing_cells: MissingCells = "auto",
    used: Collection[int] | None = None,
) -> tuple[Grid, EncodedRows | None]:
    """Make the grid of a model's cuts and encode the rows on it.

    Parameters
    ----------
    columns : Columns, optional
        The rows; they decide where cells for missing and unseen values are needed.
    features : tuple of FeatureSpec
        The model's features.
    cuts : tuple of (ndarray or None)
        Sorted cuts of each numeric feature, None for categorical ones.
    match_names : bool
        Whether tables are matched by column name later on.
    missing_cells : {"auto", "always"}
        ``"auto"``: a missing cell where the model or the rows have missing values, a cell
        for unseen categories where the rows have them; ``"always"``: both everywhere.
    used : collection of int, optional
        Features that the model uses; the values of all others are not looked at.

    Returns
    -------
    grid : Grid
    rows : EncodedRows or None
        The encoded rows, where `columns` are given.
    """
    always = missing_cells == "always"
    axes = tuple(
        FeatureAxis(
            name=spec.name,
            cuts=feature_cuts,
            categories=spec.labels,
            has_other=always and feature_cuts is None,
            has_missing=always or spec.has_missing,
            unnamed=() if feature_cuts is not None else spec.unnamed,
        )
        for spec, feature_cuts in zip(features, cuts, strict=True)
    )
    rows = None
    if columns is not None:
        rows, axes = encode_rows(columns, axes, used, find_central=True)
    return Grid(axes, features, match_names), rows


def encode_rows(
    columns: Columns,
    axes: tuple[FeatureAxis, ...],
    used: Collection[int] | None = None,
    *,
    find_central: bool = False,
) -> tuple[EncodedRows, tuple[FeatureAxis, ...]]:
    """Encode rows, widening axes by the special cells that the rows need.

    Parameters
    ----------
    columns : Columns
        The rows.
    axes : tuple of FeatureAxis
        The axis of each column.
    used : collection of int, optional
        Columns that count. Rows are in the first cell along the axes of all others, which stay as
        they are.
    find_central : bool
        Whether axes with cuts get the central values of the rows.

    Returns
    -------
    rows : EncodedRows
    axes : tuple of FeatureAxis
        The given axes, with cells for missing and unseen values where the rows have such
        values, and with the bounds of the rows where the axes had none.
    """
    asked = set(range(len(axes)) if used is None else used)
    # Behind the regular cells there are at most two more.
    widest = max((axis.n_regular for axis in axes), default=1) + 2
    codes = np.zeros((len(axes), columns.n_rows), dtype=code_type(widest))
    is_large = len(asked) * (columns.n_rows + _VALUES_OF_A_COLUMN) > _FEW_VALUES
    find = _locate if is_large else _locate_few

    def encode(j: int) -> FeatureAxis:
        axis, column, cuts = axes[j], columns.values[j], axes[j].cuts
        if cuts is None:
            if j not in asked:
                return axis
            has_other = axis.has_other or bool(np.any(column == axis.n_regular))
            has_missing = axis.has_missing or bool(np.any(np.isnan(column)))
            axis = replace(axis, has_other=has_other, has_missing=has_missing)
            codes[j] = np.where(np.isnan(column), float(axis.n_cells - 1), column)
            return axis
        wants_central = find_central and len(cuts) > 0
        if j not in asked and not wants_central:
            return axis
        # Read once here: a column of a table by rows takes long to read.
        values = np.ascontiguousarray(column, dtype=np.float64)
        if wants_central:
            axis = replace(axis, central=central_values(values))
        if j not in asked:
            return axis
        low, high, n_missing = find(values, cuts, codes[j])
        bounds = axis.bounds or ((low, high) if low <= high else None)
        return replace(axis, has_missing=axis.has_missing or n_missing > 0, bounds=bounds)

    widened = (map_threads if is_large else map)(encode, range(len(axes)))
    return EncodedRows(codes), tuple(widened)


def _locate(values: Array, cuts: Array, codes: npt.NDArray[Any]) -> tuple[float, float, int]:
    """Fill in the codes of a column; returns its finite ends and its number of missing values."""
    padded = np.full(max(-(-len(cuts) // CUTS_AT_A_TIME), 1) * CUTS_AT_A_TIME, np.nan)
    padded[: len(cuts)] = cuts
    # Columns of some tables cannot be written to: the kernel is compiled for these only.
    values = values.view()
    values.flags.writeable = False
    low, high, n_missing = locate(
        values, padded, len(cuts) + 1, codes, np.empty(ROWS_A_TILE, dtype=np.int64)
    )
    return low, high, n_missing


def _locate_few(values: Array, cuts: Array, codes: npt.NDArray[Any]) -> tuple[float, float, int]:
    """Do the same as `_locate` without a kernel."""
    codes[:] = numeric_cells(values, cuts)
    finite = values[np.isfinite(values)]
    ends = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    return *ends, int(np.count_nonzero(np.isnan(values)))


def mean_over_cells(mass: Array, table: Array) -> Array:
    """Return the mean of a table under the mass of its cells.

    BLAS would start its threads for a table of ten thousand cells, which it adds up in
    microseconds: they then take processor time for a hundred times as long, waiting for more work.

    Parameters
    ----------
    mass : ndarray of float64, shape (cells...)
        Mass of each cell.
    table : ndarray of float64, shape (cells..., n_outputs)
        Values.

    Returns
    -------
    ndarray of float64, shape (n_outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> mean_over_cells(np.array([0.25, 0.75]), np.array([[4.0], [8.0]]))
    array([7.])
    """
    flat = table.reshape(mass.size, -1)
    return np.asarray(np.einsum("i,ik->k", mass.reshape(-1), flat, optimize=False))


def code_type(n_cells: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the narrowest type for the numbers of `n_cells` cells from zero."""
    return np.min_scalar_type(max(n_cells, 1) - 1)
