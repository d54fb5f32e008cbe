"""A function that is known by its values at some points, and perhaps by nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import ModelInputs, locate_cells
from treepurify.errors import InvalidInputError, SavedFileError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns
from treepurify.saving import savable
from treepurify.typing import Array


def _check(loaded: "KnownValues") -> None:
    """Refuse points of another number than values or features, and values that are not finite."""
    shape = (len(loaded.values), len(loaded.inputs.features))
    is_table = loaded.values.ndim == 2 and bool(np.all(np.isfinite(loaded.values)))
    has_axes = loaded.axes is None or len(loaded.axes) == shape[1]
    if not is_table or not has_axes or loaded.points.shape != shape:
        raise SavedFileError("the file is damaged: its known values do not match their points")


@savable("known values", check=_check)
@dataclass(frozen=True, eq=False, repr=False)
class KnownValues:
    """A function by its values on rows or in cells; it is called itself where it is available.

    Parameters
    ----------
    inputs : ModelInputs
        How the columns of a table are read.
    points : ndarray, shape (n_points, n_features)
        Rows; with `axes` their cells.
    values : ndarray of float64, shape (n_points, n_outputs)
        The value at each point; points that are repeated have the mean of theirs.
    axes : tuple of FeatureAxis, optional
        One axis per feature, where points are cells.
    function : callable, optional
        The function itself.
    """

    inputs: ModelInputs
    points: npt.NDArray[Any]
    values: Array
    axes: tuple[FeatureAxis, ...] | None = None
    function: Callable[[Any], Array] | None = None

    @property
    def used_features(self) -> Subset:
        """Positions of all features."""
        return tuple(range(len(self.inputs.features)))

    def __call__(self, columns: Columns) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If the function is not available, and a row is none of the points.
        """
        if self.function is not None:
            return self.function(columns)
        if self.axes is None:
            return self._at(columns.matrix())
        return self.in_cells(
            np.stack([locate_cells(columns, j, axis) for j, axis in enumerate(self.axes)])
        )

    def in_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the known values in cells (n_features, n_rows), shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If one of them is none of the points.
        """
        return self._at(cells.T)

    @cached_property
    def _means(self) -> tuple[dict[bytes, int], Array]:
        """The number of each point, and the mean of its values."""
        numbers: dict[bytes, int] = {}
        place = [numbers.setdefault(key, len(numbers)) for key in _keys(self.points)]
        means = np.zeros((len(numbers), self.values.shape[1]))
        np.add.at(means, place, self.values)
        return numbers, means / np.bincount(place, minlength=len(numbers))[:, None]

    def _at(self, points: npt.NDArray[Any]) -> Array:
        numbers, means = self._means
        keys = _keys(points.astype(self.points.dtype))
        place = np.array([numbers.get(key, -1) for key in keys], dtype=np.intp)
        unknown = int((place < 0).sum())
        if unknown:
            what = "are new"
            if self.axes is not None:
                what = "have a combination of levels that was not observed"
            raise InvalidInputError(
                f"{unknown} of {len(place)} rows {what}, but only values of the function were "
                "given: pass the function itself, or evaluate the effects"
            )
        return np.asarray(means[place])


def _keys(points: npt.NDArray[Any]) -> list[bytes]:
    # Adding zero turns -0.0 into 0.0.
    return [point.tobytes() for point in np.ascontiguousarray(points) + points.dtype.type(0)]
