"""Main effects that another feature could carry as well, on the rows that are the measure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.cancelling import LEAST_SHARE
from treepurify.components import TensorComponent
from treepurify.grid_rows import Codes, GridRows
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.rows.row_weights import equal_parts
from treepurify.typing import Array, Indices

__all__ = ["MOST_OF_IT", "NearCopy", "find_near_copies"]

MOST_OF_IT = 0.9
"""The share of an effect that another feature determines at least."""
# Of the model's variance: with less, the model hardly reads the other feature.
_LEAST_OF_OTHER = 0.001
# Of equal mass, along a feature of numbers: a curve is nearly constant on each.
_PARTS = 30


@dataclass(frozen=True)
class NearCopy:
    """A main effect that another feature determines almost entirely.

    Parameters
    ----------
    feature : int
        The feature of the effect.
    other : int
        The other feature.
    share : float
        Share of the variance of the effect that the values of the other feature determine.
    correlation : float, optional
        Rank correlation of the two; None where one of them is categorical, or constant on the rows
        where both have a number.
    """

    feature: int
    other: int
    share: float
    correlation: float | None


def find_near_copies(
    components: Mapping[Subset, TensorComponent],
    variance: float,
    rows: GridRows | None,
    copies: int = 1,
) -> tuple[NearCopy, ...]:
    """Return the leading main effects that another feature determines; none without rows.

    Parameters
    ----------
    components : mapping of tuple of int to TensorComponent
        The effects.
    variance : float
        Variance of the model, outputs added up.
    rows : GridRows, optional
        The rows that are the measure in the cells of the effects.
    copies : int
        How often each row that was given is among them.

    Notes
    -----
    A main effect is leading with 1% of the model's variance, and the model reads another feature
    if that has a main effect of a tenth of this. What the other feature determines is the
    correlation ratio ``Var(E[f_i | x_j]) / Var(f_i)``, on at most 30 parts of equal mass of a
    feature of numbers, and adjusted for the number of parts as R squared is, so that a category
    of few rows determines nothing. Of several others the one that determines most is returned;
    the largest effect comes first, and no two features twice.
    """
    if rows is None or not variance > 0:
        return ()
    sizes = {
        subset[0]: float(np.sum(component.variance)) / variance
        for subset, component in components.items()
        if len(subset) == 1 and np.sum(component.variance) >= _LEAST_OF_OTHER * variance
    }
    ordered = sorted(sizes, key=lambda j: -sizes[j])
    leading = [j for j in ordered if sizes[j] >= LEAST_SHARE]
    if len(ordered) < 2:
        return ()
    measured = _Measured(components, rows, copies)
    found: dict[frozenset[int], NearCopy] = {}
    for j, other, share in measured.best_others(leading, ordered):
        if share >= MOST_OF_IT:
            each = NearCopy(j, other, share, measured.correlation(j, other))
            found.setdefault(frozenset((j, other)), each)
    return tuple(found.values())


@dataclass(frozen=True, eq=False)
class _Measured:
    """Main effects on rows."""

    components: Mapping[Subset, TensorComponent]
    rows: GridRows
    copies: int

    def best_others(
        self, leading: list[int], others: list[int]
    ) -> Iterator[tuple[int, int, float]]:
        """Yield each leading effect, the feature that determines most of it, and its share."""
        shares = self.rows.shares
        n_rows = 1.0 / float(np.sum(shares**2)) / self.copies
        parts = {j: _parts(self._axis(j), self._cells(j), shares) for j in others}
        for j in leading:
            values = self.components[(j,)].on_cells(self._cells(j)[None]).T
            weighted = shares * (values - np.sum(shares * values, axis=1, keepdims=True))
            total = float(np.sum(weighted * values))
            by_other = {
                other: _determined(weighted, total, parts[other], shares, n_rows)
                for other in others
                if other != j
            }
            best = max(by_other, key=by_other.__getitem__)
            yield j, best, by_other[best]

    def correlation(self, first: int, second: int) -> float | None:
        """Return the rank correlation on the rows where both have a number; None without one."""
        axes = [self._axis(first), self._axis(second)]
        if any(axis.is_categorical for axis in axes):
            return None
        cells = [self._cells(first), self._cells(second)]
        regular = np.all([c < axis.n_regular for c, axis in zip(cells, axes, strict=True)], axis=0)
        shares = self.rows.shares[regular]
        ranks = np.stack([_places(each[regular], shares)[each[regular]] for each in cells])
        products = np.cov(ranks, aweights=shares)
        scale = float(np.sqrt(products[0, 0] * products[1, 1]))
        # Rounding may lead beyond one.
        return float(np.clip(products[0, 1] / scale, -1.0, 1.0)) if scale > 0 else None

    def _axis(self, feature: int) -> FeatureAxis:
        return self.components[(feature,)].axes[0]

    def _cells(self, feature: int) -> Codes:
        (cells,) = self.rows.cells((feature,))
        return np.asarray(cells)


def _places(cells: Codes, shares: Array, n_cells: int = 0) -> Array:
    """Return the share of the rows below the middle of each cell."""
    held = np.bincount(cells, shares, n_cells)
    return np.asarray((np.cumsum(held) - held / 2) / shares.sum())


def _parts(axis: FeatureAxis, cells: Codes, shares: Array) -> Indices:
    """Return the part of each row: its category, its part of the numbers, or its special cell."""
    if axis.is_categorical:
        return np.asarray(cells, dtype=np.intp)
    of_cell = equal_parts(_places(cells, shares, axis.n_cells), _PARTS)
    of_cell[axis.n_regular :] = _PARTS + np.arange(axis.n_cells - axis.n_regular)
    return of_cell[cells]


def _determined(
    weighted: Array, total: float, parts: Indices, shares: Array, n_rows: float
) -> float:
    """Return the adjusted share of a variance, `total`, that lies between the parts of the rows.

    `weighted` are the values from their mean times the shares of the rows, (n_outputs, n_rows).
    """
    held = np.bincount(parts, shares)
    there = held > 0
    n_parts = int(np.count_nonzero(there))
    if n_rows <= n_parts:
        return 0.0
    sums = np.stack([np.bincount(parts, of_output)[there] for of_output in weighted])
    between = float(np.sum(sums**2 / held[there]))
    return max(1.0 - (1.0 - between / total) * (n_rows - 1.0) / (n_rows - n_parts), 0.0)
