"""Where the cells of an axis are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.typing import Array, Indices, Mask

Scale = Literal["auto", "value", "rank", "log"]
Range = tuple[float, float]
# Stands for a cell in the place between the regular cells and the special ones.
GAP = -1
# The gap before a special cell and its width: in slots, and as shares of the whole.
_GAP_SLOTS, _GAP_SHARE, _WIDTH_SHARE = 0.4, 0.03, 0.05
# With so few slots a special cell is as wide as they are.
_FEW_SLOTS = 20
_SQUEEZED_MASS, _SQUEEZED_WIDTH = 0.9, 0.05
# A cell that holds only the largest value needs a width to be seen.
_LEAST_LAST_SHARE, _MOST_LAST_SHARE = 0.01, 0.15
# The effect is flat beyond the outer cuts: this part of their range is shown where the range of the
# data is not known.
_LEAST_UNKNOWN_SHARE, _MOST_UNKNOWN_SHARE = 0.04, 0.15
_MOST_VALUES = 100


class NumericEdges(NamedTuple):
    """Edges of intervals, and the values in the middle of slots of their own, where these are few.

    Cuts beyond the data, by which some libraries set missing values apart, have no width.
    """

    edges: Array
    values: Array | None = None
    is_whole: bool = False


@dataclass(frozen=True, eq=False)
class AxisLayout:
    """Positions of the cells along one axis of a figure.

    Regular cells come first; after a gap, those of other and missing values.

    Parameters
    ----------
    edges : ndarray of float64, shape (n_drawn + 1,)
        Where the edges of what is drawn lie, gaps included: in the units of a numeric feature, or
        at 0, 1, ... where all cells have the same width.
    cells : ndarray of int, shape (n_drawn,)
        Cell of the axis that each interval shows, or `GAP`.
    special : tuple of (float, str)
        Centre and label of each special cell that is drawn.
    numeric : NumericEdges
        The edges of the regular cells in units of the feature, of the part that is drawn.
    whole_edges : ndarray of float64
        The same of the whole axis.
    spacing : {"value", "rank", "log"}
        What widths are.
    labels : tuple of str
        Of categories, and of numbers that stand for ordered ones: labels of the regular cells.
    """

    edges: Array
    cells: Indices
    special: tuple[tuple[float, str], ...]
    numeric: NumericEdges
    whole_edges: Array
    spacing: Scale = "value"
    labels: tuple[str, ...] = ()
    has_categories: bool = False

    @property
    def n_regular(self) -> int:
        """Number of regular cells that are drawn."""
        return len(self.numeric.edges) - 1

    @property
    def is_whole(self) -> bool:
        """Whether a numeric feature has whole numbers only."""
        return self.numeric.is_whole

    @property
    def regular_edges(self) -> Array:
        """Where the edges of the regular cells lie."""
        return self.edges[: self.n_regular + 1]

    @property
    def has_width(self) -> Mask:
        """Whether each regular cell has a width; those beyond the data have none."""
        return np.diff(self.regular_edges) > 0

    @property
    def special_cells(self) -> Indices:
        """Cell of the axis of each special cell that is drawn."""
        after = self.cells[self.n_regular :]
        return np.asarray(after[after != GAP])

    @property
    def cells_with_place(self) -> Indices:
        """Cell of the axis of each that is drawn with a width, special ones last."""
        return np.asarray(self.cells[(self.cells != GAP) & (np.diff(self.edges) > 0)])

    @property
    def widths(self) -> Array:
        """How wide each regular cell is drawn."""
        edges = self.regular_edges
        return np.diff(np.log(edges) if self.spacing == "log" else edges)

    def at(self, values: Array) -> Array:
        """Return where values of a numeric feature lie."""
        if self.spacing != "rank":
            return np.asarray(values)
        edges, kept = np.unique(self.numeric.edges, return_index=True)
        return np.asarray(np.interp(values, edges, self.regular_edges[kept]))


def lay_out_axis(
    axis: FeatureAxis,
    mass: Array | None = None,
    *,
    scale: Scale = "value",
    order: Sequence[int] | Indices | None = None,
    is_smooth: bool = False,
    shown: Range | None = None,
) -> AxisLayout:
    """Return the positions of the cells of an axis.

    Intervals keep their cuts, or the slots of the whole numbers that they hold, and end where
    the data end. Categories are one unit wide.

    Parameters
    ----------
    axis : FeatureAxis
        The axis.
    mass : ndarray of float64, shape (n_cells,), optional
        Mass of the cells. Special cells without mass are left out.
    scale : {"auto", "value", "rank", "log"}
        Widths of intervals: as in the units of the feature, all the same, or as in their
        logarithms. ``"auto"`` makes them the same where nine tenths of the mass would otherwise
        have less than a twentieth of the width.
    order : sequence of int, optional
        The categories to draw, from first to last; all by default.
    is_smooth : bool
        Whether the cells are no steps of the effect, but points of a curve.
    shown : (float, float), optional
        The part of a numeric axis that is drawn, unless all its cells get the same width; cells
        outside have no width.

    Raises
    ------
    InvalidInputError
        If `scale` is unknown, ``"rank"`` for a curve, or ``"log"`` where values are not positive.
    """
    check_choice("scale", scale, get_args(Scale))
    if axis.cuts is None:
        chosen = np.arange(axis.n_regular) if order is None else np.asarray(order, dtype=np.intp)
        numeric = NumericEdges(np.arange(len(chosen) + 1, dtype=np.float64) - 0.5)
        return _with_special(axis, mass, chosen, numeric, numeric.edges, "value")
    if is_smooth and scale == "rank":
        raise InvalidInputError(
            f'the effect of {axis.name!r} is a smooth curve: scale="rank" needs an '
            'effect with steps; use scale="value"'
        )
    whole = NumericEdges(_ends_of_curve(axis)) if is_smooth else numeric_edges(axis, mass)
    numeric = whole if shown is None or scale == "rank" else _between(whole, shown)
    if scale == "log":
        numeric, whole = _positive(axis, numeric), _positive(axis, whole)
    elif scale == "auto":
        is_squeezed = not is_smooth and mass is not None and _is_squeezed(numeric.edges, mass)
        scale, numeric = ("rank", whole) if is_squeezed else ("value", numeric)
    return _with_special(axis, mass, np.arange(axis.n_regular), numeric, whole.edges, scale)


def _with_special(
    axis: FeatureAxis,
    mass: Array | None,
    chosen: Indices,
    numeric: NumericEdges,
    whole: Array,
    spacing: Scale,
) -> AxisLayout:
    """Return the layout of regular cells and, to their right, of special ones that have mass."""
    regular, slot = numeric.edges, 1.0
    if spacing == "rank":
        regular = np.concatenate([[0.0], np.cumsum(np.diff(numeric.edges) > 0)])
    elif spacing == "log":
        regular, slot = np.log(numeric.edges), 0.0
    elif axis.cuts is not None:
        slot = 0.0 if numeric.values is None else float(np.diff(numeric.values[:2])[0])
    width = float(regular[-1] - regular[0])
    gap, size = _GAP_SHARE * width, _WIDTH_SHARE * width
    if width <= _FEW_SLOTS * slot or axis.is_categorical:
        gap, size = _GAP_SLOTS * slot, slot
    edges, cells, special = list(regular), list(chosen), []
    for cell in range(axis.n_regular, axis.n_cells):
        if mass is None or mass[cell] > 0:
            start = edges[-1] + gap
            edges += [start, start + size]
            cells += [GAP, cell]
            special.append((start + size / 2, axis.special_labels()[cell - axis.n_regular]))
    if spacing == "log":
        edges = [*numeric.edges, *np.exp(edges[len(numeric.edges) :])]
        special = [(float(np.exp(centre)), label) for centre, label in special]
    labels = tuple(axis.labels()[cell] for cell in chosen) if axis.has_labels else ()
    return AxisLayout(
        np.array(edges),
        np.array(cells, dtype=np.intp),
        tuple(special),
        numeric,
        whole,
        spacing,
        labels,
        axis.is_categorical,
    )


def _between(numeric: NumericEdges, shown: Range) -> NumericEdges:
    """Return the edges within a part of the axis; all of them where it is elsewhere."""
    edges = np.clip(numeric.edges, *shown)
    if edges[0] == edges[-1]:
        return numeric
    values = numeric.values
    if values is not None:
        values = values[(values > edges[0]) & (values < edges[-1])]
        values = values if len(values) > 1 else None
    return NumericEdges(edges, values, numeric.is_whole)


def _positive(axis: FeatureAxis, numeric: NumericEdges) -> NumericEdges:
    """Return edges that have logarithms; refuse values that have none."""
    edges = numeric.edges.copy()
    if axis.bounds is None and len(edges) > 1 and edges[1] > 0:
        # How far the values reach down is not known.
        edges[0] = max(edges[0], edges[1] / 2)
    if edges[0] <= 0:
        raise InvalidInputError(
            f'scale="log" needs values above zero, but the values of {axis.name!r} begin at '
            f'{(axis.bounds or edges)[0]:g}; use scale="rank" or "value"'
        )
    return numeric._replace(edges=edges)


def _ends_of_curve(axis: FeatureAxis) -> Array:
    cuts = np.asarray(axis.cuts, dtype=np.float64)
    lower, upper = axis.bounds or (0.0, 1.0)
    upper = upper if upper > lower else lower + 1.0
    return np.concatenate([[lower], cuts, [upper]])


def _is_squeezed(edges: Array, mass: Array) -> bool:
    """Return whether neighbouring cells of nine tenths of the mass hardly have any width."""
    upto = np.concatenate([[0.0], np.cumsum(mass[: len(edges) - 1])])
    wanted = upto + _SQUEEZED_MASS * upto[-1]
    # For each first cell, the first edge up to which there is enough.
    last = np.searchsorted(upto, wanted - 1e-12 * upto[-1])
    starts = np.flatnonzero(last < len(edges))
    width = (edges[last[starts]] - edges[starts]).min(initial=np.inf)
    return bool(upto[-1] > 0 and width < _SQUEEZED_WIDTH * (edges[-1] - edges[0]))


def numeric_edges(axis: FeatureAxis, mass: Array | None = None) -> NumericEdges:
    """Return where the intervals of a numeric axis are drawn.

    Between bounds that are whole numbers, cuts at whole and half numbers are taken to separate
    whole numbers: each value k reaches from k - 1/2 to k + 1/2; a cell without one must have no
    mass. A single cut in the middle of the bounds, or at the upper one, is taken to separate two
    values: both have the same width. Other intervals keep their cuts and end at the bounds.
    """
    cuts = np.asarray(axis.cuts, dtype=np.float64)
    lowest, highest = axis.bounds or (-np.inf, np.inf)
    inner = cuts[np.isfinite(cuts) & (cuts > lowest) & (cuts <= highest)]
    if len(inner) == 0:
        lower, upper = axis.bounds or (0.0, 1.0)
        upper = upper if upper > lower else lower + 1.0
    elif axis.bounds is None:
        reach = _reach_unknown(inner)
        lower, upper = inner[0] - reach, inner[-1] + reach
    elif _separates_two_values(inner, axis.bounds):
        return _two_values(cuts, axis.bounds)
    elif _separates_whole_numbers(cuts, axis.bounds, mass):
        return _whole_numbers(cuts, axis.bounds)
    else:
        lower, upper = lowest, max(highest, inner[-1] + _least_last_width(inner, axis.bounds))
    edges = np.clip(np.concatenate([[lower], cuts, [upper]]), lower, upper)
    return NumericEdges(np.asarray(edges, dtype=np.float64))


def _separates_two_values(inner: Array, bounds: tuple[float, float]) -> bool:
    lower, upper = bounds
    if len(inner) > 1 or (lower.is_integer() and upper.is_integer() and bounds != (-1.0, 1.0)):
        return False
    near = np.isclose(inner[0], [upper, (lower + upper) / 2], rtol=0, atol=1e-6 * (upper - lower))
    return bool(near.any())


def _two_values(cuts: Array, bounds: tuple[float, float]) -> NumericEdges:
    lower, upper = bounds
    half = (upper - lower) / 2
    middle = np.where(
        cuts <= lower, lower - half, np.where(cuts > upper, upper + half, upper - half)
    )
    edges = np.concatenate([[lower - half], middle, [upper + half]])
    return NumericEdges(edges, np.array(bounds, dtype=np.float64))


def _separates_whole_numbers(cuts: Array, bounds: tuple[float, float], mass: Array | None) -> bool:
    lower, upper = bounds
    is_inner = np.isfinite(cuts) & (cuts > lower) & (cuts <= upper)
    halves = 2 * cuts[is_inner]
    # Some libraries store a cut as the float32 after the half number.
    noise = np.clip(4 * np.spacing(np.abs(halves).astype(np.float32)), 1e-6, 0.05)
    near = np.abs(halves - np.round(halves)) <= noise
    if not (lower.is_integer() and upper.is_integer() and near.all()):
        return False
    is_empty = np.diff(np.ceil(cuts[is_inner])) == 0
    between = np.flatnonzero(is_inner)[:-1] + 1
    return not is_empty.any() or (mass is not None and not mass[between[is_empty]].any())


def _whole_numbers(cuts: Array, bounds: tuple[float, float]) -> NumericEdges:
    lower, upper = bounds
    # The first whole number that is not below a cut is the first of the cell above.
    first = np.ceil(np.clip(cuts, lower, upper + 1.0))
    edges = np.concatenate([[lower], first, [upper + 1.0]]) - 0.5
    count = int(upper - lower) + 1
    values = np.linspace(lower, upper, count) if count <= _MOST_VALUES else None
    return NumericEdges(edges, values, is_whole=True)


def _least_last_width(inner: Array, bounds: tuple[float, float]) -> float:
    width = bounds[1] - bounds[0]
    if bounds[1] - inner[-1] > 1e-6 * width:
        return 0.0
    if len(inner) == 1:
        return _MOST_LAST_SHARE * width
    usual = float(np.median(np.diff(inner)))
    return min(max(usual, _LEAST_LAST_SHARE * width), _MOST_LAST_SHARE * width)


def _reach_unknown(inner: Array) -> float:
    span = float(inner[-1] - inner[0])
    if span == 0.0:
        return 1.0
    share = float(np.median(np.diff(inner))) / span
    return span * min(max(share, _LEAST_UNKNOWN_SHARE), _MOST_UNKNOWN_SHARE)
