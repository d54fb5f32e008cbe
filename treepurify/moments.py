"""The rows of a measure: in the cells of components, and second moments of parts over them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import add
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import TensorComponent, evaluate_each, values_on_rows
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Subset, place_rows
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.stream_sample import sample_stream
from treepurify.threads import map_threads
from treepurify.typing import Array

MeasureRows = Mapping[int, EncodedRows] | RowStream
"""Rows that are a measure: on the grid of each order, or in batches that are read again."""
Codes = npt.NDArray[Any]

# Most rows that are drawn from batches where the cells of single rows are needed.
_MOST_GRID_ROWS = 100_000
LOOKED_ROWS = 1 << 14
"""Most that are drawn where a look is enough: a larger sample would cost more than counting."""
GRID_SEED = 0
"""Seed of these draws."""
# Numbers of rows on which the values of all parts stay in the cache, or are few.
_VALUES_PER_BLOCK = 1 << 21
_LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 16


@dataclass(frozen=True, eq=False)
class GridRows:
    """Rows in the cells of each order.

    Parameters
    ----------
    by_order : mapping of int to EncodedRows
        The rows on the grid of each order; larger orders share the grid of the largest.
    words : str
        How many rows of how many they are; empty for all.
    """

    by_order: Mapping[int, EncodedRows]
    words: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.finest.shape[1])

    @property
    def shares(self) -> Array:
        """Share of each row in all of them, shape (n_rows,)."""
        return next(iter(self.by_order.values())).shares

    @property
    def finest(self) -> Codes:
        """Cells on the grid of the largest order, shape (n_features, n_rows)."""
        return self.by_order[max(self.by_order)].codes

    def cells(self, features: Subset) -> Codes:
        """Return the cell of each row along some features, on the grid of terms of their number."""
        of_order = self.by_order.get(len(features), self.by_order[max(self.by_order)])
        return np.asarray(of_order.codes[list(features)])


def rows_on_grids(
    rows: MeasureRows, components: Iterable[TensorComponent], most: int = _MOST_GRID_ROWS
) -> GridRows | None:
    """Return rows in the cells of components; of batches a sample of at most `most`.

    None where no component is a table.

    Raises
    ------
    InvalidInputError
        If rows in batches cannot be read.
    MemoryBudgetError
        If a sample of them would not fit.
    """
    if not isinstance(rows, RowStream):
        return GridRows(rows) if rows else None
    axes: dict[int, dict[int, FeatureAxis]] = {}
    for component in components:
        of_order = axes.setdefault(len(component.features), {})
        of_order |= dict(zip(component.features, component.axes, strict=True))
    if not axes:
        return None
    report = progress_report(rows.progress)
    sample = sample_stream(rows, most, GRID_SEED, DEFAULT_BUDGET, report)
    n_sampled = sample.columns.n_rows
    words = "" if n_sampled == sample.n_rows else f"a sample of {n_sampled} of {sample.n_rows} rows"
    encoded = {
        size: EncodedRows(cells_of_columns(sample.columns, of_order), sample.weights)
        for size, of_order in sorted(axes.items())
    }
    return GridRows(encoded, words)


def cells_of_columns(columns: Columns, axes: Mapping[int, FeatureAxis]) -> Codes:
    """Return the cell of each row along some axes; rows are in the first cell of all others."""
    placed = place_rows(columns, [*axes], [*axes.values()])
    codes = np.zeros((len(columns.features), columns.n_rows), dtype=placed.dtype)
    codes[[*axes]] = placed
    return codes


def weights_in_cells(axes: Sequence[FeatureAxis], cells: Sequence[Codes], weights: Array) -> Array:
    """Return the summed weights of rows in each cell of a table."""
    shape = tuple(axis.n_cells for axis in axes)
    numbers = np.ravel_multi_index(tuple(of_axis.astype(np.intp) for of_axis in cells), shape)
    return np.asarray(np.bincount(numbers, weights, prod(shape)).reshape(shape))


class MomentState(NamedTuple):
    """Weighted sums over rows: of parts, their sizes, squares and products with the function.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    weight : float
        Sum of their weights.
    function, square : ndarray of float64, shape (n_outputs,)
        Sums of the function minus its intercept, and of its square.
    parts, absolutes, squares, products : ndarray of float64, shape (n_parts, n_outputs)
        Sums of the parts, of their absolute values, of their squares, and of their products with
        the function.
    """

    n_rows: int
    weight: float
    function: Array
    square: Array
    parts: Array
    absolutes: Array
    squares: Array
    products: Array

    @property
    def variance(self) -> Array:
        """Variance of the function, shape (n_outputs,)."""
        mean = self.function / self.weight
        return np.asarray(np.maximum(self.square / self.weight - mean**2, 0.0))

    @property
    def covariances(self) -> Array:
        """Covariance of each part with the function, shape (n_parts, n_outputs)."""
        means = (self.function / self.weight) * (self.parts / self.weight)
        return np.asarray(self.products / self.weight - means)

    @property
    def variances(self) -> Array:
        """Variance of each part, shape (n_parts, n_outputs)."""
        return np.asarray(self.squares / self.weight - (self.parts / self.weight) ** 2)

    @property
    def mean_absolutes(self) -> Array:
        """Mean absolute value of each part, shape (n_parts, n_outputs)."""
        return np.asarray(self.absolutes / self.weight)

    @property
    def mean_squares(self) -> Array:
        """Mean square of each part, shape (n_parts, n_outputs)."""
        return np.asarray(self.squares / self.weight)


@dataclass(frozen=True, eq=False)
class PartMoments:
    """The statistic of the second moments of parts that add up to a function.

    Parameters
    ----------
    parts : callable
        Yields the parts on some rows, each of shape (n_rows, n_outputs).
    n_parts, n_outputs : int
        How many there are, and outputs of each.
    function : callable, optional
        Returns the function on some rows, less its intercept: then what the parts leave of it is
        one part more, the last. By default the function is the sum of the parts.
    on_threads : bool
        Whether both may be asked on several threads at a time; functions of users may not.
    """

    parts: Callable[[Columns], Iterable[Array]]
    n_parts: int
    n_outputs: int
    function: Callable[[Columns], Array] | None = None
    on_threads: bool = False

    def zero(self) -> MomentState:
        """Return the sums over no rows."""
        nothing = np.zeros(self.n_outputs)
        shape = 4, self.n_parts + (self.function is not None), self.n_outputs
        return MomentState(0, 0.0, nothing, nothing, *np.zeros(shape))

    def add(self, state: MomentState, rows: RowBatch) -> MomentState:
        """Return the sums with those over a batch."""
        n_rows, weights = len(rows), rows.counts
        # All parts are held together where their sum is the function.
        held = self.n_parts if self.function is None else 1
        size = max(_VALUES_PER_BLOCK // max(held * self.n_outputs, 1), _LEAST_ROWS)
        size = min(size, _MOST_ROWS)

        def moments(start: int) -> MomentState:
            rows.report("evaluating effects on rows", start, n_rows)
            columns = rows.columns.part(start, start + size)
            parts = self.parts(columns)
            if self.function is None:
                parts = list(parts)
                total = np.zeros((columns.n_rows, self.n_outputs))
                for part in parts:
                    total += part
            else:
                total = self.function(columns)
                parts = _with_rest(parts, total)
            return moments_of_parts(parts, total, weights[start : start + size])

        # In the order of the rows, however many threads there are.
        on_blocks = map_threads if self.on_threads else map
        for of_block in on_blocks(moments, range(0, n_rows, size)):
            state = self.merge(state, of_block)
        return state

    def merge(self, state: MomentState, other: MomentState) -> MomentState:
        """Return the sums over the rows of both."""
        return MomentState(*map(add, state, other))


def moments_of_parts(parts: Iterable[Array], total: Array, weights: Array) -> MomentState:
    """Return the sums over some rows.

    Parameters
    ----------
    parts : iterable of ndarray of float64, shape (n_rows, n_outputs)
        The parts.
    total : ndarray of float64, shape (n_rows, n_outputs)
        The function minus its intercept.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows.
    """
    # No matrix products: for one column the threads of a BLAS only wait, and where several of our
    # threads ask for them, they wait for each other.
    weighted, absolute, sums = weights[:, None] * total, np.empty_like(total), []
    for part in parts:
        sums.append(
            (
                np.einsum("r,ro->o", weights, part),
                np.einsum("r,ro->o", weights, np.abs(part, out=absolute)),
                np.einsum("r,ro,ro->o", weights, part, part),
                np.einsum("ro,ro->o", weighted, part),
            )
        )
    by_part = np.reshape(sums, (-1, 4, total.shape[1])).transpose(1, 0, 2)
    of_total = weighted.sum(axis=0), (weighted * total).sum(axis=0)
    return MomentState(len(weights), float(weights.sum()), *of_total, *by_part)


def _with_rest(parts: Iterable[Array], total: Array) -> Iterator[Array]:
    """Yield the parts, and what they leave of a total."""
    rest = total.copy()
    for part in parts:
        rest -= part
        yield part
    yield rest


def moments_on_rows(
    parts: Sequence[TensorComponent], rows: MeasureRows, *, apart: bool = False
) -> MomentState:
    """Return the moments of the sum of components over all rows, and of each if `apart`."""
    if isinstance(rows, RowStream):
        n_outputs = len(parts[0].variance)
        moments = PartMoments(lambda columns: evaluate_each(parts, columns), len(parts), n_outputs)
        report = progress_report(rows.progress)
        state = rows.reduce(moments, "measuring effects on rows", report)
        if not state.weight > 0:
            raise InvalidInputError(f"{rows.source.describe()} has no rows of positive weight")
        return state
    # In place: the values of all parts on all rows can take far more than their tables.
    total = values_on_rows(parts[0], rows)
    for part in parts[1:]:
        total += values_on_rows(part, rows)
    each = (values_on_rows(part, rows) for part in parts if apart)
    return moments_of_parts(each, total, next(iter(rows.values())).shares)
