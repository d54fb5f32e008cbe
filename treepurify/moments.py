"""Second moments of the parts of a function over rows that come in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

import numpy as np

from treepurify.components import TensorComponent, evaluate_each, values_on_rows
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.progress import progress_report
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.threads import map_threads
from treepurify.typing import Array

__all__ = [
    "MeasureRows",
    "MomentState",
    "PartMoments",
    "mean_square_of_sum",
    "measured_covariances",
    "moments_of_parts",
    "variance_of_sum",
]

MeasureRows = Mapping[int, EncodedRows] | RowStream
"""Rows that are a measure: on the grid of each order, or in batches that are read again."""


# Numbers of rows on which the values of all parts stay in the cache, or are few.
_VALUES_PER_BLOCK = 1 << 21
_LEAST_ROWS, _MOST_ROWS = 1 << 10, 1 << 16


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

    def merge(self, other: "MomentState") -> "MomentState":
        """Return the sums over the rows of both."""
        return MomentState(*map(add, self, other))

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
            return self._moments(columns, weights[start : start + size])

        # In the order of the rows, however many threads there are.
        on_blocks = map_threads if self.on_threads else map
        for of_block in on_blocks(moments, range(0, n_rows, size)):
            state = self.merge(state, of_block)
        return state

    def _moments(self, columns: Columns, weights: Array) -> MomentState:
        parts = self.parts(columns)
        if self.function is None:
            parts = list(parts)
            total = np.zeros((columns.n_rows, self.n_outputs))
            for part in parts:
                total += part
        else:
            total = self.function(columns)
            parts = _with_rest(parts, total)
        return moments_of_parts(parts, total, weights)

    def merge(self, state: MomentState, other: MomentState) -> MomentState:
        """Return the sums over the rows of both."""
        return state.merge(other)


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
    by_part = np.reshape(sums, (-1, 4, total.shape[1]))
    return MomentState(
        len(weights),
        float(weights.sum()),
        weighted.sum(axis=0),
        (weighted * total).sum(axis=0),
        *by_part.transpose(1, 0, 2),
    )


def _with_rest(parts: Iterable[Array], total: Array) -> Iterator[Array]:
    """Yield the parts, and what they leave of a total."""
    rest = total.copy()
    for part in parts:
        rest -= part
        yield part
    yield rest


def measured_covariances(
    components: Mapping[Subset, TensorComponent],
    rest: Sequence[TensorComponent],
    rows: MeasureRows | None,
) -> dict[Subset, Array] | None:
    """Return the covariance of each component with the model over all rows; None without rows.

    That of the remainder, the sum of the components in `rest`, is under the empty subset.
    """
    if rows is None:
        return None
    found = _moments([*components.values(), *rest], rows, apart=True).covariances
    covariances = dict(zip(components, found, strict=False))
    if rest:
        covariances[()] = np.asarray(found[len(components) :].sum(axis=0))
    return covariances


def variance_of_sum(parts: Sequence[TensorComponent], rows: MeasureRows) -> Array:
    """Return the variance of a sum of components over all rows."""
    return _moments(parts, rows).variance


def mean_square_of_sum(parts: Sequence[TensorComponent], rows: MeasureRows) -> Array:
    """Return the mean square of a sum of components over all rows."""
    state = _moments(parts, rows)
    return np.asarray(state.square / state.weight)


def _moments(
    parts: Sequence[TensorComponent], rows: MeasureRows, *, apart: bool = False
) -> MomentState:
    """Return the sums over rows of the sum of components, and of each where they are `apart`."""
    n_outputs = len(parts[0].variance)
    if isinstance(rows, RowStream):
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
