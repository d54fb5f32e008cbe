"""The steps of a model along one feature, from each row, with all other values as they are."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from treepurify._kernels.jumps import add_jumps
from treepurify.effects.table_effects import table_cuts
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import Columns
from treepurify.threads import iterate_threads
from treepurify.typing import Array, Indices

__all__ = ["WrongRows", "wrong_rows"]

_NUMBERS_AT_ONCE = 1 << 20


class WrongRows(NamedTuple):
    """Rows along which one output goes against a direction, and the largest step that does.

    Parameters
    ----------
    row_share, mass_share, near_share : float
        Shares of the rows and of their mass along which the margin somewhere goes against the
        direction, and of the mass of those that are on one side of such a step.
    size : float
        How far the margin goes against the direction at most; 0 where it never does.
    row, place, step : int
        The position of the row, its place among the cells (-2 at none of them), and the step.
    """

    row_share: float = 0.0
    mass_share: float = 0.0
    near_share: float = 0.0
    size: float = 0.0
    row: int = 0
    place: int = -2
    step: int = 0


def wrong_rows(
    model: Model,
    feature: int,
    cells: Indices,
    sign: int,
    limits: Array,
    columns: Columns,
    counts: Array,
    places: Indices,
) -> list[WrongRows]:
    """Return along which rows each output of a margin goes against a direction.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    feature : int
        The feature that is moved.
    cells : ndarray of int64, shape (n_steps + 1,)
        Its cells, in the order in which they are stepped through.
    sign : int
        1 where the margin must not fall, -1 where it must not rise.
    limits : ndarray of float64, shape (n_steps, n_outputs)
        Rounding of each step: what goes against the direction by more counts.
    columns : Columns
        The rows.
    counts : ndarray of float64, shape (n_rows,)
        Their weights, all positive.
    places : ndarray of int64, shape (n_rows,)
        The place of each row among the cells; -2 for rows at none of them.
    """
    n_steps, n_outputs = limits.shape
    # A row has its steps, and three values of each feature: see `add_jumps`.
    length = max(_NUMBERS_AT_ONCE // max(n_steps * n_outputs, 3 * model.n_features), 1)

    def of_block(start: int) -> tuple[int, Array]:
        steps = _steps(model, columns.part(start, start + length), feature, cells)
        return start, np.where(-sign * steps > limits, -sign * steps, 0.0)

    sums = np.zeros((3, n_outputs))
    worst = [WrongRows()] * n_outputs
    starts = range(0, columns.n_rows if n_steps else 0, length)
    for start, against in iterate_threads(of_block, starts):
        block, wrong = slice(start, start + len(against)), against > 0.0
        somewhere = wrong.any(axis=1)
        near = np.zeros_like(somewhere)
        for step in (places[block] - 1, places[block]):
            inside = np.flatnonzero((step >= 0) & (step < n_steps))
            near[inside] |= wrong[inside, step[inside]]
        sums += [somewhere.sum(axis=0), counts[block] @ somewhere, counts[block] @ near]
        for k, known in enumerate(worst):
            row, step = divmod(int(np.argmax(against[:, :, k])), n_steps)
            if against[row, step, k] > known.size:
                size = float(against[row, step, k])
                row += start
                place = int(places[row])
                worst[k] = known._replace(size=size, row=row, place=place, step=step)
    shares = (sums.T / [columns.n_rows, counts.sum(), counts.sum()]).tolist()
    return [
        known._replace(row_share=rows, mass_share=mass, near_share=near)
        for known, (rows, mass, near) in zip(worst, shares, strict=True)
    ]


def _steps(model: Model, columns: Columns, j: int, cells: Indices) -> Array:
    """Return by how much the margin moves at each step, shape (n_rows, n_steps, n_outputs)."""
    if isinstance(model, TreeEnsemble) and not model.features[j].is_categorical:
        return _jumps(model, columns, j, len(cells) - 1)
    places = cells.astype(np.float64)
    if isinstance(model, AdditiveTables):
        cuts = table_cuts(model)[j]
        model = replace(model, terms=tuple(term for term in model.terms if j in term.features))
        if cuts is not None:
            # A cell of numbers contains the cut at which it begins.
            places = np.concatenate([[-np.inf], cuts])
    margins = []
    for value in places:
        values = list(columns.values)
        values[j] = np.full(columns.n_rows, value)
        moved = Columns(columns.features, tuple(values), columns.n_rows)
        margins.append(model.margin(moved, precision="float64"))
    return np.diff(np.stack(margins, axis=1), axis=1)


def _jumps(model: TreeEnsemble, columns: Columns, j: int, n_steps: int) -> Array:
    """Return the jumps of trees at each cut of one feature."""
    n_rows = columns.n_rows
    jumps = np.zeros((n_rows * n_steps, model.n_outputs))
    numeric = (model.feature == j) & (model.category_ptr < 0)
    cuts = np.unique(model.cut[numeric])
    cuts = cuts[cuts > -np.inf]
    used = model.used_features
    moved = used.index(j)
    points = np.repeat(columns.of_features(used).matrix()[:, :, None], 3, axis=2)
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
