"""What a comparison is made of: sums over rows or cells of two components, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from treepurify.comparing.shared_cells import AlignedTerm, BothSides, check_sides, sides_on_rows
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.progress import ProgressReport, no_report
from treepurify.remainder import used_features
from treepurify.rows.batches import ROWS_PER_BATCH, Batch
from treepurify.rows.columns import Columns
from treepurify.rows.labelled_rows import as_statistic
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import CategoryLevels, RowReader, joined_levels
from treepurify.rows.sources import check_repeats, open_rows
from treepurify.rows.tables import check_any_rows
from treepurify.threads import one_blas_thread
from treepurify.typing import Array

_Sums = tuple[int, float, Array, CategoryLevels]


@dataclass(frozen=True, eq=False)
class ComponentSums:
    """Sums by mass of two components, each less its mean.

    Parameters
    ----------
    subset : tuple of int
        The features, as positions in the first decomposition.
    axis : FeatureAxis, optional
        The axis of a main effect whose values are known in cells.
    squares : ndarray of float64, shape (5, n_outputs)
        The squared difference, both squares, their product, and the mass where their signs
        are opposed.
    in_cells : ndarray of float64, shape (n_cells, 1 + 2 * n_outputs)
        The mass, and both values, in each cell of the axis; no cells without one.
    """

    subset: Subset
    axis: FeatureAxis | None
    squares: Array
    in_cells: Array


@dataclass(frozen=True, eq=False)
class SideSums:
    """What a comparison is made of.

    Parameters
    ----------
    pairs : tuple of ComponentSums
        The components.
    shapley : mapping of int to ndarray of float64, shape (n_outputs,)
        Squared difference of the Shapley values of each feature; none where components are not
        given on the same rows.
    """

    pairs: tuple[ComponentSums, ...]
    shapley: Mapping[int, Array]


def row_sums(
    a: Decomposition,
    b: Decomposition,
    X: Any,
    sample_weight: Any,
    smallest: Array,
    report: ProgressReport,
) -> tuple[SideSums, str]:
    """Return the sums of a comparison over given rows, and the mass in words.

    Parameters
    ----------
    a, b : Decomposition
        The decompositions.
    X : array_like, table or rows in batches
        The rows; those in batches can be read again.
    sample_weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.
    smallest : ndarray of float64, shape (n_outputs,)
        Effects have a sign from here on.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If features or outputs differ, or the rows cannot be read, or only once.
    """
    check_sides(a, b)
    stream = _rows_of_both(a, b, X, sample_weight)
    # Workers need nothing of the rows of the measures.
    a, b = (replace(d, rows=None) for d in (a, b))
    compared = _Compared(a, b, smallest)
    if stream.is_table:
        # Of a table, which is one batch, the mean of every component is found in the same pass.
        check_any_rows(stream.source.n_rows or 0, "the rows on which to compare")
        words = f"the {stream.source.n_rows} given rows"
    else:
        known = stream.reduce(as_statistic(_ValueSums(a, b)), "averaging effects", report)
        called = stream.source.describe()
        if known is None or not known[1] > 0:
            raise InvalidInputError(f"{called} has no rows of positive weight; pass some rows")
        n_rows, total, sums, _ = known
        compared = replace(compared, total=total, means=sums / total)
        words = f"the {n_rows} rows of {called}"
    return stream.reduce(as_statistic(compared), "comparing effects", report), words


def _rows_of_both(a: Decomposition, b: Decomposition, X: Any, sample_weight: Any) -> RowStream:
    """Return the rows as both decompositions read them, where other readers give those of one."""
    source = open_rows(X)
    check_repeats(source, "two passes over the rows, one for means and one for differences")
    # The cells of a component are found in the columns of either, so both read the same features.
    names = {d.feature_names[j] for d in (a, b) for j in used_features(d.components, d.remainder)}
    first, second = (
        d.row_stream(
            source, sample_weight, [j for j, name in enumerate(d.feature_names) if name in names]
        )
        for d in (a, b)
    )
    is_alike = a.inputs == b.inputs
    reader: Any = _BothReaders(first.reader, first.reader if is_alike else second.reader)
    return RowStream(first.source, reader)


@dataclass(frozen=True, eq=False)
class _BothRows:
    """Some rows, as each of two decompositions reads them; the other fields are of `RowBatch`."""

    columns: tuple[Columns, Columns]
    weights: Array
    levels: CategoryLevels
    report: ProgressReport = field(default=no_report, compare=False)

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, eq=False)
class _BothReaders:
    """How each of two decompositions reads rows."""

    first: RowReader
    second: RowReader

    @property
    def wanted(self) -> Sequence[str] | None:
        """Names of the columns that are read; None for all."""
        if self.first.wanted is None or self.second.wanted is None:
            return None
        return tuple(dict.fromkeys([*self.first.wanted, *self.second.wanted]))

    def read(self, batch: Batch) -> _BothRows:
        """Return the rows of a batch."""
        rows = self.first.read(batch)
        again = rows if self.second is self.first else self.second.read(batch)
        return _BothRows((rows.columns, again.columns), rows.counts, rows.levels)


def _blocks(
    a: Decomposition, b: Decomposition, rows: _BothRows, total: float, size: int = ROWS_PER_BATCH
) -> Iterator[BothSides]:
    """Yield the components of both on some rows at a time, at most `size`."""
    first, second = rows.columns
    for start in range(0, len(rows), size):
        stop = start + size
        columns = first.part(start, stop), second.part(start, stop)
        yield sides_on_rows(a, b, columns, rows.weights[start:stop] / total)


@dataclass(frozen=True, eq=False)
class _ValueSums:
    """The statistic of rows, their weight, and the sums of all values; None before the first row.

    Centred values need the means over all rows, so these come in a pass of their own.
    """

    a: Decomposition
    b: Decomposition

    def zero(self) -> _Sums | None:
        return None

    def add(self, state: _Sums | None, rows: _BothRows) -> _Sums | None:
        for sides in _blocks(self.a, self.b, rows, 1.0):
            weights = np.zeros(0) if sides.weights is None else sides.weights
            own = len(weights), float(weights.sum()), _value_sums(sides), rows.levels
            state = self.merge(state, own)
        return state

    def merge(self, state: _Sums | None, other: _Sums | None) -> _Sums | None:
        if state is None or other is None:
            return state or other
        levels = joined_levels(state[3], other[3], self.a.feature_names)
        return state[0] + other[0], state[1] + other[1], state[2] + other[2], levels


@dataclass(frozen=True, eq=False)
class _Compared:
    """The statistic of the sums of a comparison; None before the first row.

    Without means, a batch is all there is, and finds its total as well.
    """

    a: Decomposition
    b: Decomposition
    smallest: Array
    total: float = 1.0
    means: Array | None = None

    def zero(self) -> SideSums | None:
        return None

    def add(self, state: SideSums | None, rows: _BothRows) -> SideSums | None:
        is_all = self.means is None
        total = float(rows.weights.sum()) if is_all else self.total
        n_pairs = len(self.a.components.keys() | self.b.components.keys())
        for sides in _blocks(self.a, self.b, rows, total, len(rows) if is_all else ROWS_PER_BATCH):
            if is_all:
                pairs = _reported(sides.pairs, n_pairs, rows.report)
                sides = replace(sides, pairs=pairs)  # noqa: PLW2901 - the same, reported
            state = self.merge(state, side_sums(sides, self.smallest, self.means))
        return state

    def merge(self, state: SideSums | None, other: SideSums | None) -> SideSums | None:
        return state or other if state is None or other is None else _merged(state, other)


def _reported(
    pairs: Iterator[AlignedTerm], n_pairs: int, report: ProgressReport
) -> Iterator[AlignedTerm]:
    """Yield pairs of components, and report how many were compared."""
    for number, pair in enumerate(pairs):
        report("comparing effects", number, n_pairs)
        yield pair


def _value_sums(sides: BothSides) -> Array:
    """Return the sums of all values on rows by mass, shape (n_sums, n_outputs).

    Those of each component, of the first and of the second, and of each part of the remainders.
    """
    weights = np.zeros(0) if sides.weights is None else sides.weights
    # As in `side_sums`.
    with one_blas_thread():
        of_pairs = [values for pair in sides.pairs for values in pair.sums]
        return np.array([*of_pairs, *(weights @ values for _, values in sides.remainders)])


def side_sums(sides: BothSides, smallest: Array, means: Array | None = None) -> SideSums:
    """Return the sums of a comparison.

    Parameters
    ----------
    sides : BothSides
        The components side by side.
    smallest : ndarray of float64, shape (n_outputs,)
        Effects have a sign from here on.
    means : ndarray of float64, shape (n_sums, n_outputs), optional
        The means of all values, as `row_sums` finds them, where the sides hold some of the rows
        only. Otherwise they are found here.
    """
    # Products with so few columns are done before a second thread of BLAS has begun, and where a
    # core is busy most of the time is spent waiting for it.
    with one_blas_thread():
        return _side_sums(sides, smallest, means)


def _side_sums(sides: BothSides, smallest: Array, means: Array | None) -> SideSums:
    known = None if means is None else iter(means)
    pairs: list[ComponentSums] = []
    shapley: dict[int, Array] = {}
    for pair in sides.pairs:
        centred = pair.less(pair.sums if known is None else np.stack([next(known), next(known)]))
        pairs.append(_pair_sums(centred, smallest))
        if sides.on_rows:
            _split(pair.subset, centred.first - centred.second, shapley)
    weights = sides.weights
    if weights is None or not sides.on_rows:
        return SideSums(tuple(pairs), {})
    for subset, values in sides.remainders:
        _split(subset, values - (weights @ values if known is None else next(known)), shapley)
    return SideSums(tuple(pairs), {j: weights @ difference**2 for j, difference in shapley.items()})


def _merged(sums: SideSums, other: SideSums) -> SideSums:
    """Return the sums over the rows of both."""
    pairs = (
        ComponentSums(one.subset, one.axis, one.squares + two.squares, one.in_cells + two.in_cells)
        for one, two in zip(sums.pairs, other.pairs, strict=True)
    )
    return SideSums(
        tuple(pairs), {j: square + other.shapley[j] for j, square in sums.shapley.items()}
    )


def opposed(first: Array, second: Array, smallest: Array) -> Array:
    """Return 1 where two effects have opposite signs and both are larger than `smallest`."""
    beyond = np.minimum(np.abs(first), np.abs(second)) > smallest
    return np.asarray((first * second < 0) & beyond, dtype=np.float64)


def _pair_sums(pair: AlignedTerm, smallest: Array) -> ComponentSums:
    first, second, weights = pair.first, pair.second, pair.weights
    products = (
        (first - second) ** 2,
        first**2,
        second**2,
        first * second,
        opposed(first, second, smallest),
    )
    squares = np.stack([weights @ values for values in products])
    if len(pair.axes) != 1:
        return ComponentSums(pair.subset, None, squares, np.empty((0, 1 + 2 * first.shape[1])))
    (axis,), (cells,) = pair.axes, pair.cells
    of_rows = (np.ones_like(weights), *first.T, *second.T)
    in_cells = [np.bincount(cells, weights * one, minlength=axis.n_cells) for one in of_rows]
    return ComponentSums(pair.subset, axis, squares, np.stack(in_cells, axis=1))


def _split(subset: Subset, difference: Array, shapley: dict[int, Array]) -> None:
    """Add an equal share of an effect's difference to each of its features."""
    share = difference / len(subset)
    for j in subset:
        shapley[j] = shapley[j] + share if j in shapley else share
