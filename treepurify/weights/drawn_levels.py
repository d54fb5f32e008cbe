"""Measures of points that are drawn as levels, with the rows' own values within them."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_number, check_whole
from treepurify.budget import check_budget
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array, Indices
from treepurify.weights.coded_rows import CodedRows, spread_draws
from treepurify.weights.smoothing import USUAL_POINTS, Points
from treepurify.weights.weighting import FittedMeasure, Weighting

__all__ = ["Drawing", "LevelsWeighting"]

_SEED = 48_271
_LEAST_COPIES = 4
_TABLES = 4


@dataclass(frozen=True, eq=False)
class Drawing:
    """A mass fitted to rows as levels.

    Parameters
    ----------
    rows : CodedRows
        The rows as levels.
    draw : callable
        Returns the levels of each feature of that number of points.
    facts : mapping of str to object
        What was found, for diagnostics.
    """

    rows: CodedRows
    draw: Callable[[int, np.random.Generator], Sequence[Indices]]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class LevelsWeighting(Weighting):
    """What weightings that estimate a mass of levels have in common; see `ChowLiu`."""

    prior_count: float | None = None
    bins: int | None = None
    n_points: int = USUAL_POINTS
    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.prior_count is not None:
            check_number("prior_count", self.prior_count, least=0)
        if self.bins is not None:
            check_whole("bins", self.bins, 2)
        check_whole("n_points", self.n_points, 1)

    def fitted(
        self, columns: Columns, row_weights: RowWeights, memory_budget: int
    ) -> FittedMeasure:
        """Return the points that are drawn from the fitted mass."""
        columns, restored = _in_order_of_names(columns)
        drawing = self._fit(columns, row_weights, memory_budget)
        return restored(_drawn_measure(columns, drawing, self.n_points, memory_budget, self.name))

    @abstractmethod
    def _fit(self, columns: Columns, row_weights: RowWeights, memory_budget: int) -> Drawing:
        """Return the mass that is fitted to the rows."""


def _drawn_measure(
    columns: Columns, drawing: Drawing, n_points: int, memory_budget: int, name: str
) -> FittedMeasure:
    """Return drawn points as a measure, with the rows' own values within their levels.

    There are at least four points for each row.

    Raises
    ------
    MemoryBudgetError
        If the points would not fit.
    """
    n_points = max(n_points, _LEAST_COPIES * columns.n_rows)
    check_budget(
        8 * _TABLES * n_points * max(len(columns.values), 1),
        memory_budget,
        f"{n_points} points of {len(columns.values)} features",
        'Pass fewer rows, or use weights="empirical".',
    )
    rng = np.random.default_rng(_SEED)
    rows, levels = drawing.rows, drawing.draw(n_points, rng)
    values = tuple(
        _values_within(of_rows, codes, rows.shares, drawn, rng)
        for of_rows, codes, drawn in zip(columns.values, rows.codes, levels, strict=True)
    )
    added = rows.effective_rows / n_points
    note = (
        f"The distribution was fitted to {columns.n_rows} rows and sampled at {n_points} points "
        f"(fixed seed); sampling the points adds at most {100 * added:.3g}% to the sampling "
        "variance of the rows."
    )
    points = Columns(columns.features, values, n_points)
    return FittedMeasure(Points(name), points, None, {**drawing.facts, "points": n_points}, note)


def _in_order_of_names(
    columns: Columns,
) -> tuple[Columns, Callable[[FittedMeasure], FittedMeasure]]:
    """Return the columns by name, so that draws do not depend on their order, and the way back."""
    order = sorted(range(len(columns.features)), key=lambda j: columns.features[j].name)
    places = np.argsort(order)

    def restored(measure: FittedMeasure) -> FittedMeasure:
        drawn = measure.columns
        if drawn is None:
            return measure
        values = tuple(drawn.values[place] for place in places)
        return replace(measure, columns=Columns(columns.features, values, drawn.n_rows))

    by_name = Columns(
        tuple(columns.features[j] for j in order),
        tuple(columns.values[j] for j in order),
        columns.n_rows,
    )
    return by_name, restored


def _values_within(
    values: npt.NDArray[np.floating],
    codes: npt.NDArray[np.integer],
    shares: Array,
    drawn: Indices,
    rng: np.random.Generator,
) -> npt.NDArray[np.floating]:
    """Return a value for each drawn level: those of the rows in it, as often as their shares say.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        Values of the rows.
    codes : ndarray of int, shape (n_rows,)
        Their levels.
    shares : ndarray of float64, shape (n_rows,)
        Their shares.
    drawn : ndarray of int, shape (n_points,)
        The drawn levels.
    rng : Generator
        Where values are drawn from.
    """
    found = np.empty(len(drawn), dtype=values.dtype)
    by_value = np.lexsort((values, codes))
    by_draw = np.argsort(drawn, kind="stable")
    levels = np.arange(int(drawn.max(initial=0)) + 2)
    ends = np.searchsorted(codes[by_value], levels)
    ends_drawn = np.searchsorted(drawn[by_draw], levels)
    for level in range(len(levels) - 1):
        places = by_draw[ends_drawn[level] : ends_drawn[level + 1]]
        if len(places):
            rows = by_value[ends[level] : ends[level + 1]]
            found[places] = values[rows[spread_draws(shares[rows], len(places), rng)]]
    return found
