"""Joint-table weighting: the mass of every cell, as the caller gives it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_whole, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.weighting import MassTables, Weighting, normalised

__all__ = ["JointTable"]

_MASSES = "be an array of weights, one axis per feature"


@dataclass(frozen=True, eq=False)
class JointTable(Weighting):
    """A given joint distribution over all cells of some features.

    A cell is a combination of one interval or category of each feature.

    Parameters
    ----------
    table : array_like, shape (cells...)
        Mass of each cell, one axis per feature of `features`, on any positive scale.
    features : sequence of int, optional
        Positions of the features along the axes of `table`; all features by default. They
        must include every feature that the model uses.

    See Also
    --------
    treepurify.weights.Empirical : The distribution of the rows.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.weights.JointTable([[0.2, 0.1], [0.3, 0.4]]).describe()
    'given joint table'
    """

    table: npt.ArrayLike
    features: Sequence[int] | None = None
    name: ClassVar[str] = "given joint table"

    def __post_init__(self) -> None:
        table = read_numbers("the joint table", self.table, _MASSES)
        if table.ndim == 0:
            raise InvalidInputError(f"the joint table must {_MASSES}, got {brief(self.table)}")
        normalised(table, "the weights in the joint table")
        if self.features is not None:
            _read_features(self.features)

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        features = tuple(range(grid.n_features))
        if self.features is not None:
            features = _read_features(self.features)
        if len(set(features)) != len(features) or not set(features) <= set(range(grid.n_features)):
            raise InvalidInputError(
                f"features of the joint table must be different positions from 0 to "
                f"{grid.n_features - 1}, got {features}"
            )
        table = read_numbers("the joint table", self.table, _MASSES)
        expected = grid.shape(features)
        if table.shape != expected:
            raise InvalidInputError(
                f"the joint table has shape {table.shape}; expected {expected}, the numbers of "
                f"cells of the features {features}"
            )
        joint = normalised(table, "the weights in the joint table")
        return {subset: _margin(joint, features, subset) for subset in subsets}


def _read_features(features: Any) -> tuple[int, ...]:
    """Return different positions of features."""
    if not isinstance(features, Iterable) or isinstance(features, str | bytes):
        raise InvalidInputError(
            "features of the joint table must be different positions, such as (0, 2); got "
            f"{brief(features)}"
        )
    positions = tuple(features)
    for position in positions:
        check_whole("the position of a feature of the joint table", position, 0)
    if len(set(positions)) != len(positions):
        raise InvalidInputError(
            f"features of the joint table must be different positions, got {brief(positions)}"
        )
    return positions


def _margin(joint: Array, features: tuple[int, ...], subset: Subset) -> Array:
    absent = [j for j in subset if j not in features]
    if absent:
        raise InvalidInputError(
            f"the joint table does not contain the features {absent}, which the model uses"
        )
    summed = joint.sum(axis=tuple(i for i, j in enumerate(features) if j not in subset))
    kept = [j for j in features if j in subset]
    return np.asarray(summed.transpose([kept.index(j) for j in subset]))
