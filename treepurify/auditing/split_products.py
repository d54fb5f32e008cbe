"""Products and differences of the effects of parts of the rows, in memory or in batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.resampling import Split
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array

__all__ = ["N_PARTS", "TRIPLES", "PartSums", "part_sums", "sums_of_split"]

N_PARTS = 3
TRIPLES = tuple((one, two, N_PARTS - one - two) for one, two in combinations(range(N_PARTS), 2))
"""Two parts whose effects are compared, and the third, on whose rows they are."""


@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums over the rows of one part, of the effects that two others give.

    Parameters
    ----------
    weight : float
        Sum of the weights.
    sums : ndarray of float64, shape (5, n_effects, n_outputs)
        Of the effects of both, of their product, their difference and its square.
    """

    weight: float
    sums: Array

    @property
    def product(self) -> Array:
        """Mean product of the centred effects, shape (n_effects, n_outputs)."""
        one, two, product, _, _ = self.sums / self.weight
        return np.asarray(product - one * two)

    @property
    def difference(self) -> Array:
        """Mean squared difference of the centred effects, shape (n_effects, n_outputs)."""
        _, _, _, difference, square = self.sums / self.weight
        return np.asarray(square - difference**2)


def part_sums(
    pair: tuple[Decomposition, Decomposition],
    subsets: Sequence[Subset],
    columns: Columns,
    weights: Array,
) -> PartSums:
    """Return the sums of two decompositions over some rows.

    Parameters
    ----------
    pair : tuple of Decomposition
        The decompositions.
    subsets : sequence of tuple of int
        The effects.
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,)
        Their weights.
    """
    sums = np.zeros((5, len(subsets), pair[0].n_outputs))
    both = (evaluate_each([d.components[s] for s in subsets], columns) for d in pair)
    for i, (one, two) in enumerate(zip(*both, strict=True)):
        for k, values in enumerate((one, two, one * two, one - two, (one - two) ** 2)):
            sums[k, i] = weights @ values
    return PartSums(float(weights.sum()), sums)


def sums_of_split(
    of_parts: Sequence[Decomposition],
    subsets: Sequence[Subset],
    stream: RowStream,
    split: Split,
    report: ProgressReport,
) -> list[PartSums]:
    """Return the sums for each of `TRIPLES` over all rows of a stream, in one pass.

    Parameters
    ----------
    of_parts : sequence of Decomposition
        What the rows of each part give.
    subsets : sequence of tuple of int
        The effects.
    stream : RowStream
        The rows.
    split : Split
        The part of each row.
    report : callable
        Progress.
    """
    # Workers need nothing of the rows of the measures.
    alone = tuple(replace(d, rows=None, stream=None) for d in of_parts)
    return stream.reduce(_SplitSums(alone, tuple(subsets), split), "comparing parts", report)


@dataclass(frozen=True, eq=False)
class _SplitSums:
    """The statistic of the sums for each of `TRIPLES`."""

    of_parts: tuple[Decomposition, ...]
    subsets: tuple[Subset, ...]
    split: Split

    def zero(self) -> list[PartSums]:
        """Return the sums over no rows."""
        nothing = np.zeros((5, len(self.subsets), self.of_parts[0].n_outputs))
        return [PartSums(0.0, nothing)] * len(TRIPLES)

    def add(self, state: list[PartSums], rows: RowBatch) -> list[PartSums]:
        """Return the sums with those over a batch."""
        of_rows = self.split.parts(rows.part, rows.first_row, len(rows))
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        own = []
        for one, two, third in TRIPLES:
            inside = np.flatnonzero(of_rows == third)
            columns, pair = rows.columns.take(inside), (self.of_parts[one], self.of_parts[two])
            own.append(part_sums(pair, self.subsets, columns, weights[inside]))
        return self.merge(state, own)

    def merge(self, state: list[PartSums], other: list[PartSums]) -> list[PartSums]:
        """Return the sums over the rows of both."""
        pairs = zip(state, other, strict=True)
        return [PartSums(a.weight + b.weight, a.sums + b.sums) for a, b in pairs]
