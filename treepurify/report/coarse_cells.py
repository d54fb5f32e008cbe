"""Tables with fewer cells, for display: neighbouring cells are merged by their mean."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import lay_out_axis

__all__ = ["CoarseAxis", "CoarseCells", "coarse_axis"]

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CoarseAxis:
    """An axis whose cells are runs of the cells of another.

    Parameters
    ----------
    axis : FeatureAxis
        The axis with fewer cells.
    first : ndarray of int, shape (n_cells,)
        First cell of each run.
    """

    axis: FeatureAxis
    first: Cells


def coarse_axis(axis: FeatureAxis, mass: Array, most: int) -> CoarseAxis:
    """Return an axis of at most `most` intervals; categories and special cells stay apart.

    Half of the intervals go where the data are, half along the width that is drawn.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    mass : ndarray of float64, shape (n_cells,)
        Mass of its cells.
    most : int
        Largest number of intervals.
    """
    special = np.arange(axis.n_regular, axis.n_cells)
    if axis.cuts is None or axis.n_regular <= most:
        return CoarseAxis(axis, np.arange(axis.n_cells))
    layout = lay_out_axis(axis, mass, scale="auto")
    widths = np.diff(layout.places[: axis.n_regular + 1])
    share = (_share(mass[: axis.n_regular]) + _share(widths)) / 2
    run = np.minimum(np.floor((np.cumsum(share) - share / 2) * most), most - 1)
    first = np.flatnonzero(np.diff(run, prepend=-1.0))
    coarse = replace(axis, cuts=axis.cuts[first[1:] - 1])
    return CoarseAxis(coarse, np.concatenate([first, special]).astype(np.intp))


def _share(part: Array) -> Array:
    total = float(part.sum())
    return part / total if total > 0 else np.full(len(part), 1.0 / len(part))


@dataclass(frozen=True, eq=False)
class CoarseCells:
    """The merging of the cells of one table.

    Parameters
    ----------
    axes : tuple of CoarseAxis
        One a feature.
    mass : ndarray of float64, shape (cells...)
        Mass of the cells that are merged.
    """

    axes: tuple[CoarseAxis, ...]
    mass: Array

    def merged_mass(self) -> Array:
        """Return the mass of the merged cells."""
        return self._sums(self.mass)

    def means(self, values: Array) -> Array:
        """Return the mean by mass in each merged cell, shape (merged cells..., n_outputs).

        Where there is no mass, the mean of the cells.
        """
        held = self.merged_mass()[..., None]
        by_mass = self._sums(values * self.mass[..., None])
        plain = self._sums(values) / self._sums(np.ones_like(self.mass))[..., None]
        return np.where(held > 0, by_mass / np.where(held > 0, held, 1.0), plain)

    def _sums(self, table: Array) -> Array:
        def along(sums: Array, position: int) -> Array:
            return np.add.reduceat(sums, self.axes[position].first, axis=position)

        return reduce(along, range(len(self.axes)), table)
