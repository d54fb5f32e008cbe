"""Weightings that the caller supplies: a joint table, or other rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, check_whole, read_numbers
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Grid, Subset
from treepurify.rows.row_weights import read_weights
from treepurify.rows.tables import check_table
from treepurify.typing import Array
from treepurify.weights.cell_counts import RowsOnGrid
from treepurify.weights.empirical import Empirical
from treepurify.weights.weighting import MassTables, Weighting, normalised

__all__ = ["GivenRows", "JointTable"]

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
    treepurify.weights.GivenRows : Your own rows.

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


@dataclass(frozen=True, eq=False)
class GivenRows(Weighting):
    """The empirical distribution of rows other than those on which the model is checked.

    Parameters
    ----------
    X : array_like or table of shape (n_rows, n_features)
        The rows.
    sample_weight : array_like of shape (n_rows,), optional
        Weight of each row.

    See Also
    --------
    treepurify.weights.JointTable : Your own table of masses.
    treepurify.weights.Empirical : The rows that are passed as `X`.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> tp.weights.GivenRows(np.zeros((3, 2)), [1.0, 1.0, 2.0]).describe()
    'empirical (given rows)'
    """

    X: Any
    sample_weight: npt.ArrayLike | None = None
    name: ClassVar[str] = "empirical (given rows)"
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_table(self.X)
        if self.sample_weight is not None:
            read_weights(self.sample_weight)

    def __repr__(self) -> str:
        """Return the table by its type and shape, not the rows."""
        weighted = "" if self.sample_weight is None else ", with weights"
        return f"GivenRows({brief(self.X)}{weighted})"

    @property
    def share_of_rows(self) -> float:
        """One: the rows are the whole distribution."""
        return 1.0

    def rows_for(self, X: Any) -> Any:
        """Return the given rows."""
        return self.X

    def row_weights_for(self, sample_weight: Any) -> Any:
        """Return the weights of the given rows.

        Raises
        ------
        InvalidInputError
            If other weights are given too.
        """
        if sample_weight is not None:
            raise InvalidInputError(
                "the rows of the distribution come from GivenRows(...): pass their weights to "
                "it, as GivenRows(X, sample_weight)"
            )
        return self.sample_weight

    def tables(self, grid: Grid, rows: RowsOnGrid | None, subsets: Sequence[Subset]) -> MassTables:
        """Return the mass of the cells of each subset."""
        return Empirical().tables(grid, rows, subsets)
