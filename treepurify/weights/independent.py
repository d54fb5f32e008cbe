"""Independent weighting: the product of the empirical margins."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.columns import Columns
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid, count_rows
from treepurify.weights.points import MeasurePoints, drawn_points, numbers_of_features
from treepurify.weights.weighting import MassTables, Weighting, normalised, outer_product

__all__ = ["Independent"]


@dataclass(frozen=True)
class Independent(Weighting):
    """Independent features, each distributed as in the rows.

    See Also
    --------
    treepurify.weights.Uniform : All cells or values equally likely.
    treepurify.weights.Empirical : With the dependence of the rows.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.Independent().describe()
    'independent'
    """

    name: ClassVar[str] = "independent"
    needs_rows: ClassVar[bool] = True
    is_product: ClassVar[bool] = True

    @property
    def counts_are_enough(self) -> bool:
        """True: only the cells of rows count."""
        return True

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        if rows is None:
            raise InvalidInputError('weights="independent" needs rows: pass X')
        features = sorted({j for subset in subsets for j in subset})
        counts = count_rows(grid, rows, [(j,) for j in features])
        margins = {j: normalised(counts[(j,)], "the weights of the rows") for j in features}
        return {subset: outer_product([margins[j] for j in subset]) for subset in subsets}

    def sample_points(
        self, rows: MeasurePoints, grid: Grid, n_points: int, rng: np.random.Generator
    ) -> MeasurePoints:
        """Return values drawn from the rows, separately for each feature."""
        columns = rows.columns
        numbers = numbers_of_features(columns.features, n_points, rng)
        values = tuple(map(partial(_drawn_values, rows.shares), columns.values, numbers))
        return drawn_points(Columns(columns.features, values, n_points), grid)


def _drawn_values(
    shares: Array, values: npt.NDArray[np.floating], numbers: Array
) -> npt.NDArray[np.floating]:
    """Return the values at which the distribution function of the rows reaches these numbers."""
    order = np.argsort(values, kind="stable")
    reached = shares[order].cumsum()
    picked = np.searchsorted(reached, numbers * reached[-1], side="right")
    return np.asarray(values[order[np.minimum(picked, len(values) - 1)]])
