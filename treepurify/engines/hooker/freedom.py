"""How much of a fit of tables its points leave open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treepurify.grids.grid import Subset
from treepurify.purification.cascade import downward_closure
from treepurify.purification.unidentified import (
    MOST_SLICES,
    gram_rank,
    label_blocks,
    support_rank,
)
from treepurify.typing import Mask

if TYPE_CHECKING:
    import pandas as pd

_MOST_UNKNOWNS = 1500


@dataclass(frozen=True)
class Freedom:
    """How much of a fit of tables its points leave open.

    Parameters
    ----------
    directions : int
        Sums of pure components that vanish on all points: the dimensions of their spaces, less
        that of the space of their sums.
    is_exact : bool
        Whether that is their number, and not only a lower bound: that the space of sums has no
        more dimensions than there are different points, or cells.
    fits_anything : bool
        Whether, as far as it was counted, every function of the points is such a sum.
    """

    directions: int
    is_exact: bool
    fits_anything: bool


def measure_freedom(
    codes: npt.NDArray[Any], fitted: Sequence[Subset], sizes: Sequence[int]
) -> Freedom:
    """Return how much is left open.

    Parameters
    ----------
    codes : ndarray of unsigned int, shape (n_features, n_points)
        Cells of the points that have weight.
    fitted : sequence of tuple of int
        The tables.
    sizes : sequence of int
        Number of cells of each feature.
    """
    import pandas as pd

    if not fitted:
        return Freedom(0, is_exact=True, fits_anything=False)
    occupied = {s: _occupied(codes, s, sizes) for s in downward_closure(fitted)}
    pure = [_pure_dimension(there) for there in occupied.values()]
    dimensions = 1 + sum(dimension or 0 for dimension in pure)
    points = pd.DataFrame({j: codes[j] for s in fitted for j in s}).drop_duplicates()
    unknowns = sum(int(np.count_nonzero(occupied[s])) for s in fitted)
    is_counted = unknowns <= _MOST_UNKNOWNS
    rank = _rank(points, fitted, unknowns) if is_counted else min(len(points), unknowns)
    directions = max(dimensions - rank, 0)
    is_exact = is_counted and None not in pure
    return Freedom(directions, is_exact, directions > 0 and rank == len(points))


def _occupied(codes: npt.NDArray[Any], subset: Subset, sizes: Sequence[int]) -> Mask:
    """Return which cells of a table have points."""
    there = np.zeros([sizes[j] for j in subset], dtype=bool)
    there[tuple(codes[j] for j in subset)] = True
    return there


def _pure_dimension(there: Mask) -> int | None:
    """Return the dimension of the functions of a table that are orthogonal to those of fewer.

    None where the table is too large to count.
    """
    count = int(np.count_nonzero(there))
    if there.ndim == 1:
        return count - 1
    if there.ndim == 2:
        filled = int(there.any(axis=0).sum() + there.any(axis=1).sum())
        rows, columns = np.nonzero(there)
        *_, blocks = label_blocks(rows, columns, there.shape)
        return count - filled + blocks
    margins = [np.asarray(there.any(axis=axis)) for axis in range(there.ndim)]
    if sum(int(margin.sum()) for margin in margins) > MOST_SLICES:
        return None
    return count - support_rank(there, margins)


def _rank(points: "pd.DataFrame", fitted: Sequence[Subset], unknowns: int) -> int:
    """Return the rank of the indicators of the cells of all tables."""
    from scipy.sparse import csr_array

    columns, start = [], 0
    for subset in fitted:
        number = points.groupby(list(subset), sort=False).ngroup().to_numpy()
        columns.append(number + start)
        start += int(number.max()) + 1
    column = np.stack(columns, axis=1)
    pointers = np.arange(len(points) + 1) * len(fitted)
    entries = (np.ones(column.size), column.ravel(), pointers)
    design = csr_array(entries, shape=(len(points), unknowns))
    return gram_rank((design.T @ design).toarray(), len(points))
