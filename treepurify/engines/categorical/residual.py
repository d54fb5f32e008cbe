"""What the selected functions leave of the function that was decomposed."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, ModelInputs, evaluate_each, locate_cells
from treepurify.engines.common.functions import RowFunction
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.saving import savable

__all__ = ["Residual"]

Array = npt.NDArray[np.float64]


@savable("categorical residual")
@dataclass(frozen=True, eq=False, repr=False)
class Residual:
    """The function minus the intercept and the components (Ferrere et al. 2026, eq. 10).

    Orthogonal to every selected function. Where the function itself cannot be asked, only
    its values at the observed combinations are known.

    Parameters
    ----------
    inputs : ModelInputs
        How the columns of a table are read.
    axes : tuple of FeatureAxis
        One axis a feature.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : tuple of Component
        Its components.
    variance : ndarray of float64, shape (n_outputs,)
        Mean square under the measure; its mean is zero.
    mean_absolute : ndarray of float64, shape (n_outputs,)
        Mean absolute value under the measure.
    function : RowFunction, optional
        The decomposed function.
    cells : ndarray of unsigned int, shape (n_features, n_points)
        Cells of the observed combinations.
    values : ndarray of float64, shape (n_points, n_outputs)
        The mean residual at each of them.
    """

    inputs: ModelInputs
    axes: tuple[FeatureAxis, ...]
    intercept: Array
    components: tuple[Component, ...]
    variance: Array
    mean_absolute: Array
    function: RowFunction | None
    cells: npt.NDArray[np.unsignedinteger[Any]]
    values: Array

    def __repr__(self) -> str:
        """Return what it is the residual of."""
        return f"Residual(the function minus {len(self.components)} components)"

    @property
    def features(self) -> Subset:
        """Positions of all features: the residual may depend on each (eq. 23)."""
        return tuple(range(len(self.inputs.features)))

    @property
    def is_joint(self) -> bool:
        """True: it is one effect of all features, which Shapley values split evenly (eq. 23)."""
        return True

    def component(self, subset: Subset) -> Component | None:
        """Return None: the residual has no known parts."""
        return None

    @cached_property
    def _point_of(self) -> dict[bytes, int]:
        return {key: point for point, key in enumerate(_row_keys(self.cells))}

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If only values were given and a row's combination was not among them.
        """
        columns = self.inputs.columns(X)
        if self.function is None:
            located = [locate_cells(columns, j, axis) for j, axis in enumerate(self.axes)]
            return self.in_cells(np.stack(located))
        total = self.function(columns) - self.intercept
        for values in evaluate_each(self.components, columns):
            total -= values
        return np.asarray(total)

    def in_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in observed cells (n_features, n_rows), shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If a combination was not observed.
        """
        keys = _row_keys(cells.astype(self.cells.dtype))
        points = np.array([self._point_of.get(key, -1) for key in keys], dtype=np.intp)
        missing = int((points < 0).sum())
        if missing:
            raise InvalidInputError(
                f"{missing} of {len(points)} rows have a combination of levels that was not "
                "observed, and the function was given by its values alone: pass the function "
                "itself, or evaluate the components"
            )
        return self.values[points]


def _row_keys(cells: npt.NDArray[np.integer[Any]]) -> list[bytes]:
    """Return one key a column of cells, shape (n_features, n_rows)."""
    return [row.tobytes() for row in np.ascontiguousarray(cells.T)]
