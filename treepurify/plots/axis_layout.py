"""Where the cells of an axis are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from treepurify.arguments import check_choice
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import CENTRAL_ENDS, FeatureAxis
from treepurify.typing import Array, Indices, Mask

__all__ = [
    "GAP",
    "AxisLayout",
    "Beyond",
    "Range",
    "Scale",
    "lay_out_axis",
    "numeric_edges",
]

Scale = Literal["auto", "value", "rank", "log"]
Spacing = Literal["value", "rank", "log"]
# Stands for a cell in the place between the regular cells and the special ones.
GAP = -1
# The gap before a special cell and its width: in categories, and as shares of all intervals.
_CATEGORY_SIZES = (0.4, 1.0)
_GAP_SHARE, _WIDTH_SHARE = 0.03, 0.05
# With so few slots a special cell is as wide as they are.
_FEW_SLOTS = 20
_SQUEEZED_MASS, _SQUEEZED_WIDTH = 0.9, 0.05
# A cell that holds only the largest value needs a width to be seen.
_LEAST_LAST_SHARE, _MOST_LAST_SHARE = 0.01, 0.15
# The effect is flat beyond the outer cuts: this part of their range is shown where the range of the
# data is not known.
_LEAST_UNKNOWN_SHARE, _MOST_UNKNOWN_SHARE = 0.04, 0.15
_MOST_VALUES = 100
# Number of points between which a logarithmic axis is drawn as straight.
_LOG_POINTS = 257


Range = tuple[float, float]


class Beyond(NamedTuple):
    """What lies outside the part of a numeric axis that is drawn.

    Parameters
    ----------
    below, above : float
        Share of the mass on each side.
    lowest, highest : float
        How far the data reach.
    """

    below: float
    above: float
    lowest: float
    highest: float


class NumericEdges(NamedTuple):
    """Edges of the intervals of a numeric axis, the outer ones finite.

    Parameters
    ----------
    edges : ndarray of float64, shape (n_cells + 1,)
        Cuts beyond the data, by which some libraries set missing values apart, have no width.
    values : ndarray of float64, optional
        The values that the feature can have, each in the middle of a slot of its own, where
        they are whole numbers, at most 100, or just two.
    is_whole : bool
        Whether the values are whole numbers.
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
        Edges of what is drawn, gaps included; in the units of the feature where it is numeric.
    cells : ndarray of int, shape (n_drawn,)
        Cell of the axis that each interval shows, or `GAP`.
    n_regular : int
        Number of regular cells that are drawn.
    special : tuple of (float, str)
        Centre and label of each special cell that is drawn.
    values : ndarray of float64, optional
        The values that a numeric feature can have, each in the middle of a slot.
    is_whole : bool
        Whether a numeric feature has whole numbers only.
    spacing : {"value", "rank", "log"}
        What widths are: in the units of the feature, the same for all cells whatever their edges,
        or logarithms; see `places`.
    whole_edges : ndarray of float64, shape (n_regular + 1,), optional
        Edges of the regular cells of a numeric axis of which only a part is drawn.
    beyond : Beyond, optional
        What lies outside that part.
    labels : tuple of str
        Of numbers that stand for ordered categories: labels of the regular cells.
    has_categories : bool
        Whether the regular cells are categories.
    """

    edges: Array
    cells: Indices
    n_regular: int
    special: tuple[tuple[float, str], ...]
    values: Array | None = None
    is_whole: bool = False
    spacing: Spacing = "value"
    whole_edges: Array | None = None
    beyond: Beyond | None = None
    labels: tuple[str, ...] = ()
    has_categories: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether all cells get the same width."""
        return self.spacing == "rank"

    @property
    def regular_edges(self) -> Array:
        """Edges of the regular cells."""
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
    def limits(self) -> tuple[float, float]:
        """First and last edge."""
        return float(self.edges[0]), float(self.edges[-1])

    @property
    def places(self) -> Array:
        """Where each edge lies along the axis; other than `edges` unless to scale."""
        if self.spacing == "value":
            return self.edges
        regular = np.concatenate([[0.0], np.cumsum(self.has_width)])
        if self.spacing == "log":
            regular = _logarithms(self.regular_edges)
        gap, width = _special_sizes(regular, 1.0 if self.is_ranked else None)
        sizes = [gap if cell == GAP else width for cell in self.cells[self.n_regular :]]
        return np.concatenate([regular, regular[-1] + np.cumsum(sizes)])

    @property
    def knots(self) -> tuple[Array, Array]:
        """Values, increasing, and their places, between which the axis is straight."""
        edges, kept = np.unique(self.edges, return_index=True)
        places = self.places[kept]
        if self.spacing == "log":
            first, last = self.regular_edges[[0, -1]]
            between = np.geomspace(first, last, _LOG_POINTS)
            edges = np.concatenate([edges, between])
            places = np.concatenate([places, _logarithms(between)])
            edges, kept = np.unique(edges, return_index=True)
            places = places[kept]
        return edges, places

    def parts(self, values: Array) -> Array:
        """Return where values are drawn, as a part of the width of the regular cells."""
        along = np.interp([*values, *self.regular_edges[[0, -1]]], *self.knots)
        return np.asarray((along[:-2] - along[-2]) / (along[-1] - along[-2]))

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


def lay_out_axis(
    axis: FeatureAxis,
    mass: Array | None = None,
    *,
    scale: Scale = "value",
    order: Sequence[int] | Indices | None = None,
    is_smooth: bool = False,
    with_empty: bool = False,
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
    with_empty : bool
        Whether to draw special cells without mass, too.
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
        return _with_special(axis, mass, numeric, chosen, _CATEGORY_SIZES, with_empty=with_empty)
    if is_smooth:
        if scale == "rank":
            raise InvalidInputError(
                f'the effect of {axis.name!r} is a smooth curve: scale="rank" needs an '
                'effect with steps; use scale="value"'
            )
        numeric = NumericEdges(_ends_of_curve(axis))
    else:
        numeric = numeric_edges(axis, mass)
    whole = numeric
    if shown is not None and scale != "rank":
        numeric = _between(numeric, shown)
    spacing: Spacing = "value" if scale == "auto" else scale
    if scale == "log":
        numeric, whole = _positive(axis, numeric), _positive(axis, whole)
    elif scale == "auto" and not is_smooth and mass is not None:
        spacing = "rank" if _is_squeezed(numeric.edges, mass) else "value"
    if spacing == "rank":
        numeric = whole
    cells = np.arange(axis.n_regular)
    slot = None if numeric.values is None else float(numeric.values[1] - numeric.values[0])
    sizes = _special_sizes(numeric.edges, slot)
    layout = _with_special(
        axis, mass, numeric, cells, sizes, with_empty=with_empty, spacing=spacing
    )
    if np.array_equal(numeric.edges, whole.edges):
        return layout
    beyond = None if mass is None else _beyond(axis, mass, numeric.edges, whole.edges)
    return replace(layout, whole_edges=whole.edges, beyond=beyond)


def _between(numeric: NumericEdges, shown: Range) -> NumericEdges:
    """Return the edges within a part of the axis; all of them where it is elsewhere."""
    edges = np.clip(numeric.edges, *shown)
    if edges[0] == edges[-1]:
        return numeric
    values = numeric.values
    if values is not None:
        values = values[(values > edges[0]) & (values < edges[-1])]
    return NumericEdges(
        edges, values if values is not None and len(values) > 1 else None, numeric.is_whole
    )


def _beyond(axis: FeatureAxis, mass: Array, edges: Array, whole: Array) -> Beyond:
    """Return what lies outside the edges that are drawn.

    Within a cell mass is spread evenly, on both sides of a quantile that is known.
    """
    upto = np.concatenate([[0.0], np.cumsum(mass[: axis.n_regular])])
    known = whole
    if axis.central is not None:
        cell = np.clip(np.searchsorted(whole, axis.central, side="right") - 1, 0, len(whole) - 2)
        shares = np.clip(upto[-1] * np.array(CENTRAL_ENDS), upto[cell], upto[cell + 1])
        known = np.concatenate([whole, np.clip(axis.central, whole[cell], whole[cell + 1])])
        order = np.argsort(known, kind="stable")
        known, upto = known[order], np.concatenate([upto, shares])[order]
    low, high = np.interp(edges[[0, -1]], known, upto)
    total = mass.sum() or 1.0
    lowest, highest = axis.bounds or (float(whole[0]), float(whole[-1]))
    return Beyond(float(low / total), float((upto[-1] - high) / total), lowest, highest)


def _positive(axis: FeatureAxis, numeric: NumericEdges) -> NumericEdges:
    """Return edges that have logarithms.

    Raises
    ------
    InvalidInputError
        If values are not positive.
    """
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


def _logarithms(values: Array) -> Array:
    """Return the decades above the first value."""
    return np.asarray(np.log10(values / values[0]))


def _with_special(
    axis: FeatureAxis,
    mass: Array | None,
    numeric: NumericEdges,
    chosen: Indices,
    sizes: tuple[float, float],
    *,
    with_empty: bool,
    spacing: Spacing = "value",
) -> AxisLayout:
    """Return the layout of regular cells and of the special ones that have mass."""
    gap, width = sizes
    edges, cells, special = list(numeric.edges), list(chosen), []
    for cell in range(axis.n_regular, axis.n_cells):
        if mass is not None and mass[cell] <= 0 and not with_empty:
            continue
        start = edges[-1] + gap
        edges += [start, start + width]
        cells += [GAP, cell]
        special.append((start + width / 2, axis.special_labels()[cell - axis.n_regular]))
    return AxisLayout(
        np.array(edges),
        np.array(cells, dtype=np.intp),
        len(chosen),
        tuple(special),
        numeric.values,
        numeric.is_whole,
        spacing,
        labels=() if axis.is_categorical or not axis.has_labels else tuple(axis.labels()),
        has_categories=axis.is_categorical,
    )


def _special_sizes(regular: Array, slot: float | None) -> tuple[float, float]:
    """Return the gap before a special cell, and its width."""
    whole = float(regular[-1] - regular[0])
    if slot is not None and whole <= _FEW_SLOTS * slot:
        return 0.3 * slot, slot
    return _GAP_SHARE * whole, _WIDTH_SHARE * whole


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
    whole numbers: each value k reaches from k - 1/2 to k + 1/2. A single cut in the middle of
    the bounds, or at the upper one, is taken to separate two values: both have the same width.
    Other intervals keep their cuts and end at the bounds.

    Parameters
    ----------
    axis : FeatureAxis
        The axis, not of categories.
    mass : ndarray of float64, shape (n_cells,), optional
        Mass of the cells: one without a whole number must have none.
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
