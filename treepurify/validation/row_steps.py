"""The steps of a model along one feature, from each row, with all other values as they are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from treepurify._kernels.jumps import add_jumps
from treepurify.effects.table_effects import table_cuts
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns, numeric_cells
from treepurify.rows.source_reader import RowBatch
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Indices
from treepurify.validation.directions import Direction

__all__ = ["RowLimits", "RowWitness", "WrongRows", "WrongSteps", "steps_on_rows"]

_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class RowLimits:
    """A direction, and from where on steps against it count.

    Parameters
    ----------
    direction : Direction
        The direction.
    cuts : ndarray of float64, shape (n_steps,), optional
        Cuts between the cells; None for categories.
    limits : ndarray of float64, shape (n_steps, n_outputs)
        Rounding of each step: what goes against the direction by more counts.
    """

    direction: Direction
    cuts: Array | None
    limits: Array

    def places(self, columns: Columns) -> Indices:
        """Return the place of each row among the cells; -2 for rows at none of them."""
        values = columns.values[self.direction.feature]
        if self.cuts is not None:
            return np.where(np.isnan(values), -2, numeric_cells(values, self.cuts))
        spec = columns.features[self.direction.feature]
        place_of = np.full(spec.n_codes + 2, -2)
        place_of[self.direction.cells] = np.arange(len(self.direction.cells))
        missing = np.flatnonzero(spec.counts_as_missing(np.arange(float(spec.n_codes))))
        place_of[-1] = place_of[missing].max(initial=-2)
        codes = np.where(np.isnan(values), spec.n_codes + 1, values)
        return place_of[codes.astype(np.intp)]


@dataclass(frozen=True, eq=False)
class RowWitness:
    """Where the largest step against a direction is, over all rows.

    Parameters
    ----------
    size : float
        How far the margin goes against the direction; 0 where it does not.
    step : int
        The step.
    place : int
        Place of the row itself among the cells; -2 at none of them.
    values : ndarray of float64, shape (n_features,)
        The row.
    part, number : int
        File and number of the row.
    """

    size: float
    step: int
    place: int
    values: Array
    part: int
    number: int


@dataclass(frozen=True, eq=False)
class WrongRows:
    """Rows along which a margin goes against the directions.

    Parameters
    ----------
    n_rows, mass : float
        Rows of positive weight, and the sum of their weights.
    sums : ndarray of float64, shape (n_directions, n_outputs, 3)
        Number and mass of the rows along which the margin somewhere goes against the direction,
        and mass of those that stand on one side of such a step.
    worst : tuple of RowWitness
        The largest step against each direction, output after output.
    """

    n_rows: float
    mass: float
    sums: Array
    worst: tuple[RowWitness, ...]


@dataclass(frozen=True, eq=False)
class WrongSteps:
    """Count the rows along which a margin goes against directions; see `WrongRows`.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    checked : tuple of RowLimits
        The directions.
    """

    model: Model
    checked: tuple[RowLimits, ...]

    def zero(self) -> WrongRows:
        """Return the state of no rows."""
        none = RowWitness(0.0, -1, -2, np.full(self.model.n_features, np.nan), -1, -1)
        n_outputs = self.model.n_outputs
        sums = np.zeros((len(self.checked), n_outputs, 3))
        return WrongRows(0.0, 0.0, sums, (none,) * (len(self.checked) * n_outputs))

    def add(self, state: WrongRows, rows: RowBatch) -> WrongRows:
        """Return the state with the rows added."""
        counts = rows.counts
        kept = np.flatnonzero(counts > 0)
        columns, counts = rows.of_weight()
        sums, worst = state.sums, list(state.worst)
        for number, one in enumerate(self.checked):
            rows.report("checking the steps of rows", number, len(self.checked))
            places = one.places(columns)
            for start, against in self._against(one, columns):
                block = slice(start, start + len(against))
                sums[number] += _totals(against > 0.0, counts[block], places[block])
                for k in range(self.model.n_outputs):
                    at = number * self.model.n_outputs + k
                    row, step = divmod(int(np.argmax(against[:, :, k])), against.shape[1])
                    if against[row, step, k] > worst[at].size:
                        worst[at] = RowWitness(
                            float(against[row, step, k]),
                            step,
                            int(places[start + row]),
                            columns.matrix(start + row, start + row + 1)[0],
                            rows.part,
                            rows.first_row + int(kept[start + row]),
                        )
        total = float(counts.sum())
        return WrongRows(state.n_rows + len(kept), state.mass + total, sums, tuple(worst))

    def merge(self, state: WrongRows, other: WrongRows) -> WrongRows:
        """Return the state of the rows of both."""
        worst = tuple(
            second if second.size > first.size else first
            for first, second in zip(state.worst, other.worst, strict=True)
        )
        return WrongRows(
            state.n_rows + other.n_rows, state.mass + other.mass, state.sums + other.sums, worst
        )

    def _against(self, one: RowLimits, columns: Columns) -> Iterator[tuple[int, Array]]:
        """Yield how far each step of some rows goes against the direction; 0 within rounding."""
        n_steps, n_outputs = one.limits.shape
        # A row has its steps, and three values of each feature: see `add_jumps`.
        of_row = max(n_steps * n_outputs, 3 * self.model.n_features)
        length = max(_NUMBERS_AT_ONCE // of_row, 1)

        def block(start: int) -> tuple[int, Array]:
            steps = steps_on_rows(self.model, columns.part(start, start + length), one.direction)
            against = -one.direction.sign * steps
            return start, np.where(against > one.limits, against, 0.0)

        starts = range(0, columns.n_rows if n_steps else 0, length)
        yield from iterate_threads(block, starts)


def _totals(is_wrong: npt.NDArray[np.bool_], counts: Array, places: Indices) -> Array:
    """Return what the rows add to `WrongRows.sums` for one direction, shape (n_outputs, 3)."""
    somewhere = is_wrong.any(axis=1)
    # The steps before and behind the place of a row.
    near = np.zeros_like(somewhere)
    for step in (places - 1, places):
        inside = np.flatnonzero((step >= 0) & (step < is_wrong.shape[1]))
        near[inside] |= is_wrong[inside, step[inside]]
    return np.stack([somewhere.sum(axis=0), counts @ somewhere, counts @ near], axis=1)


def steps_on_rows(model: Model, columns: Columns, direction: Direction) -> Array:
    """Return by how much the margin moves at each step, shape (n_rows, n_steps, n_outputs).

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    columns : Columns
        The rows. The value of the feature that is moved does not count.
    direction : Direction
        The cells that are stepped through.
    """
    j = direction.feature
    n_steps = len(direction.cells) - 1
    if isinstance(model, TreeEnsemble) and not model.features[j].is_categorical:
        return _jumps(model, columns, j, n_steps)
    cuts = None
    if isinstance(model, AdditiveTables):
        cuts = table_cuts(model)[j]
        model = replace(model, terms=tuple(term for term in model.terms if j in term.features))
    # A cell of numbers holds the cut at which it begins.
    places = direction.cells if cuts is None else np.concatenate([[-np.inf], cuts])
    steps = np.empty((columns.n_rows, n_steps, model.n_outputs))
    before = None
    for place, value in enumerate(places.astype(np.float64)):
        values = list(columns.values)
        values[j] = np.full(columns.n_rows, value)
        moved = Columns(columns.features, tuple(values), columns.n_rows)
        margin = model.margin(moved, precision="float64")
        if before is not None:
            steps[:, place - 1] = margin - before
        before = margin
    return steps


def _jumps(model: TreeEnsemble, columns: Columns, j: int, n_steps: int) -> Array:
    """Return the jumps of trees at each cut of one feature."""
    n_rows = columns.n_rows
    jumps = np.zeros((n_rows * n_steps, model.n_outputs))
    numeric = (model.feature == j) & (model.category_ptr < 0)
    cuts = np.unique(model.cut[numeric])
    cuts = cuts[cuts > -np.inf]
    used = model.used_features
    moved = used.index(j)
    tested = columns.of_features(used).matrix()
    points = np.repeat(tested[:, :, None], 3, axis=2)
    # Any number does in between: all cuts lie within the range of steps.
    points[:, moved] = -np.inf, 0.0, np.inf
    each = np.arange(n_rows)
    add_jumps(
        points,
        np.ones(n_rows),
        each[:, None],
        np.zeros_like(each),
        np.full(n_rows, n_steps),
        each * n_steps,
        np.where(np.arange(len(used)) == moved, 0, -1),
        np.searchsorted(cuts, model.cut, side="right") - 1,
        model.tree_ptr,
        *model.walk,
        model.cut,
        model.missing_left,
        model.category_ptr,
        model.category_left,
        model.value,
        model.tree_output,
        jumps,
        np.zeros((n_rows, 1, model.n_outputs)),
    )
    return jumps.reshape(n_rows, n_steps, model.n_outputs)
