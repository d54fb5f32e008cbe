"""The steps of a model along one feature, from each row, with all other values as they are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify._kernels.jumps import add_jumps
from treepurify.effects.table_effects import table_cuts
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns, numeric_cells
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Indices
from treepurify.validation.directions import Direction

__all__ = ["RowLimits", "RowWitness", "WrongRows", "steps_on_rows", "wrong_rows"]

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


class RowWitness(NamedTuple):
    """Where the largest step against a direction is, over all rows.

    Parameters
    ----------
    size : float
        How far the margin goes against the direction.
    step : int
        The step.
    place : int
        Place of the row itself among the cells; -2 at none of them.
    row : int
        The position of the row.
    """

    size: float
    step: int
    place: int
    row: int


class WrongRows(NamedTuple):
    """Rows along which one output goes against a direction.

    Parameters
    ----------
    shares : tuple of float
        Shares of the rows and of their mass along which the margin somewhere goes against the
        direction, and of the mass of those that stand on one side of such a step.
    worst : RowWitness, optional
        The largest step against the direction; None where there is none.
    """

    shares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    worst: RowWitness | None = None


def wrong_rows(model: Model, one: RowLimits, columns: Columns, counts: Array) -> list[WrongRows]:
    """Return along which rows each output of a margin goes against a direction.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    one : RowLimits
        The direction.
    columns : Columns
        The rows.
    counts : ndarray of float64, shape (n_rows,)
        Their weights, all positive.
    """
    n_outputs = model.n_outputs
    sums = np.zeros((n_outputs, 3))
    worst: list[RowWitness | None] = [None] * n_outputs
    places = one.places(columns)
    for start, against in _against(model, one, columns):
        block = slice(start, start + len(against))
        sums += _totals(against > 0.0, counts[block], places[block])
        for k in range(n_outputs):
            row, step = divmod(int(np.argmax(against[:, :, k])), against.shape[1])
            size, known = float(against[row, step, k]), worst[k]
            if size > (0.0 if known is None else known.size):
                worst[k] = RowWitness(size, step, int(places[start + row]), start + row)
    total = float(counts.sum())
    return [
        WrongRows((rows / columns.n_rows, mass / total, near / total), witness)
        for (rows, mass, near), witness in zip(sums.tolist(), worst, strict=True)
    ]


def _against(model: Model, one: RowLimits, columns: Columns) -> Iterator[tuple[int, Array]]:
    """Yield how far each step of some rows goes against the direction; 0 within rounding."""
    n_steps, n_outputs = one.limits.shape
    # A row has its steps, and three values of each feature: see `add_jumps`.
    length = max(_NUMBERS_AT_ONCE // max(n_steps * n_outputs, 3 * model.n_features), 1)

    def block(start: int) -> tuple[int, Array]:
        steps = steps_on_rows(model, columns.part(start, start + length), one.direction)
        against = -one.direction.sign * steps
        return start, np.where(against > one.limits, against, 0.0)

    yield from iterate_threads(block, range(0, columns.n_rows if n_steps else 0, length))


def _totals(is_wrong: npt.NDArray[np.bool_], counts: Array, places: Indices) -> Array:
    """Return what the rows add to the sums of one direction, shape (n_outputs, 3)."""
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
