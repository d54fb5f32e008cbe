"""Where the cells of an axis are drawn."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis

__all__ = ["GAP", "AxisLayout", "lay_out_axis"]

# Stands for a cell in the place between the regular cells and the special ones.
GAP = -1

# The effect is flat beyond the outer cuts: so much of the range of the cuts is shown of that.
_MOST_BEYOND_CUTS = 0.15
_LEAST_BEYOND_CUTS = 0.04


@dataclass(frozen=True, eq=False)
class AxisLayout:
    """Positions of the cells along one axis of a figure.

    Regular cells come first; after a gap, those of other and missing values.

    Parameters
    ----------
    edges : ndarray of float64, shape (n_drawn + 1,)
        Edges of what is drawn, gaps included; in the units of the feature where it is numeric.
    cells : ndarray of int, shape (n_drawn,)
        Cell of the axis that each interval shows, or `GAP`.
    n_regular : int
        Number of regular cells.
    special : tuple of (float, str)
        Centre and label of each special cell.
    """

    edges: npt.NDArray[np.float64]
    cells: npt.NDArray[np.intp]
    n_regular: int
    special: tuple[tuple[float, str], ...]

    @property
    def regular_edges(self) -> npt.NDArray[np.float64]:
        """Edges of the regular cells."""
        return self.edges[: self.n_regular + 1]

    @property
    def has_width(self) -> npt.NDArray[np.bool_]:
        """Whether each regular cell has a width; those beyond the data have none."""
        return np.diff(self.regular_edges) > 0

    @property
    def limits(self) -> tuple[float, float]:
        """First and last edge."""
        return float(self.edges[0]), float(self.edges[-1])

    @property
    def blocks(self) -> list[tuple[float, float]]:
        """Start and end of each run of cells without a gap."""
        ends = [(float(self.edges[0]), float(self.edges[self.n_regular]))]
        ends += [
            (float(self.edges[i]), float(self.edges[i + 1]))
            for i in range(self.n_regular, len(self.cells))
            if self.cells[i] != GAP
        ]
        return ends


def lay_out_axis(axis: FeatureAxis) -> AxisLayout:
    """Return the positions of the cells of an axis.

    Intervals keep their cuts; the outer ones end where the data end, but show at most 15 % of
    the range of the cuts. Categories are one unit wide.
    """
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + 1) - 0.5
        width, gap = 1.0, 0.4
    else:
        regular = numeric_edges(axis)
        width, gap = (share * (regular[-1] - regular[0]) for share in (0.05, 0.03))
    edges, cells, special = list(regular), list(range(axis.n_regular)), []
    labels = axis.labels()
    for cell in range(axis.n_regular, axis.n_cells):
        start = edges[-1] + gap
        edges += [start, start + width]
        cells += [GAP, cell]
        special.append((start + width / 2, labels[cell]))
    return AxisLayout(
        np.array(edges), np.array(cells, dtype=np.intp), len(regular) - 1, tuple(special)
    )


def numeric_edges(axis: FeatureAxis) -> npt.NDArray[np.float64]:
    """Return the edges of the intervals of a numeric axis, the outer ones finite.

    Cuts beyond the data, by which some libraries set missing values apart, have no width.
    """
    cuts = np.asarray(axis.cuts, dtype=np.float64)
    lowest, highest = axis.bounds or (-np.inf, np.inf)
    inner = cuts[np.isfinite(cuts) & (cuts > lowest) & (cuts <= highest)]
    if len(inner) == 0:
        lower, upper = axis.bounds or (0.0, 1.0)
        upper = upper if upper > lower else lower + 1.0
    else:
        least, most = _reach_beyond(inner, axis.bounds)
        lower = inner[0] - min(max(inner[0] - lowest, least), most)
        upper = inner[-1] + min(max(highest - inner[-1], least), most)
    return np.asarray(np.clip(np.concatenate([[lower], cuts, [upper]]), lower, upper))


def _reach_beyond(
    cuts: npt.NDArray[np.float64], bounds: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the least and the most that is shown beyond the outer cuts."""
    span = float(cuts[-1] - cuts[0])
    if span == 0.0:
        # One cut at a whole number: the upper value sits on it and needs a width to be seen.
        return (0.5 * (bounds[1] - bounds[0]), np.inf) if bounds else (1.0, 1.0)
    share = float(np.median(np.diff(cuts))) / span
    return span * min(max(share, _LEAST_BEYOND_CUTS), _MOST_BEYOND_CUTS), span * _MOST_BEYOND_CUTS
