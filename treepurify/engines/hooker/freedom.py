"""How much of a fit of tables its points leave open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.support import label_blocks
from treepurify.grids.grid import Subset
from treepurify.purification.cascade import downward_closure
from treepurify.purification.unidentified import MOST_SLICES, gram_rank, support_rank
from treepurify.typing import Integers

__all__ = ["Freedom", "measure_freedom"]

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

    dimensions, is_exact = 1, True
    for subset in downward_closure(fitted):
        dimension = _pure_dimension(codes, subset, sizes)
        is_exact &= dimension is not None
        dimensions += dimension or 0
    points = pd.DataFrame({j: codes[j] for s in fitted for j in s}).drop_duplicates()
    by_table = (points.groupby(list(subset), sort=False).ngroup() for subset in fitted)
    numbers: list[Integers] = [np.asarray(number) for number in by_table]
    unknowns = sum(int(number.max()) + 1 for number in numbers)
    rank = min(len(points), unknowns)
    if 0 < unknowns <= _MOST_UNKNOWNS:
        rank = _rank(numbers, unknowns)
    else:
        is_exact = False
    directions = max(dimensions - rank, 0)
    return Freedom(directions, is_exact, directions > 0 and rank == len(points))


def _pure_dimension(codes: npt.NDArray[Any], subset: Subset, sizes: Sequence[int]) -> int | None:
    """Return the dimension of the functions of a table that are orthogonal to those of fewer."""
    there = np.zeros([sizes[j] for j in subset], dtype=bool)
    there[tuple(codes[j] for j in subset)] = True
    count = int(np.count_nonzero(there))
    if len(subset) == 1:
        return count - 1
    if len(subset) == 2:
        filled = int(there.any(axis=0).sum() + there.any(axis=1).sum())
        nodes = sum(there.shape)
        blocks = label_blocks(there, np.arange(nodes), np.full(nodes, -1))
        return count - filled + int(blocks)
    margins = [np.asarray(there.any(axis=axis)) for axis in range(there.ndim)]
    if sum(int(margin.sum()) for margin in margins) > MOST_SLICES:
        return None
    return count - support_rank(there, margins)


def _rank(numbers: Sequence[Integers], unknowns: int) -> int:
    """Return the rank of the indicators of the cells of all tables."""
    from scipy.sparse import csr_array

    n_points = len(numbers[0])
    starts = np.cumsum([0, *(int(number.max()) + 1 for number in numbers[:-1])])
    column = np.stack([number + start for number, start in zip(numbers, starts, strict=True)], 1)
    pointers = np.arange(n_points + 1) * len(numbers)
    shape = (n_points, unknowns)
    design = csr_array((np.ones(column.size), column.ravel(), pointers), shape=shape)
    return gram_rank((design.T @ design).toarray(), n_points)
