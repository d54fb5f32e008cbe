"""Interventional Shapley values of tables over cells, in closed form: again tables."""

from itertools import combinations
from math import factorial, prod

import numpy as np

from treepurify.budget import check_budget
from treepurify.models.additive_tables import AdditiveTables, TableTerm, term_cells
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Cells


def additive_values(
    model: AdditiveTables,
    columns: Columns,
    reference: Columns,
    weights: Array,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the Shapley values of a sum of tables, shape (n_rows, n_features, n_outputs).

    Parameters
    ----------
    model : AdditiveTables
        The tables.
    columns, reference : Columns
        The rows to explain and those that stand for the distribution.
    weights : ndarray of float64, shape (n_reference,)
        Weight of each reference row.
    memory_budget : int
        Bytes that values and tables may take.
    report : callable
        Progress.

    Raises
    ------
    MemoryBudgetError
        If the values, and the tables of one term, would not fit.
    """
    shape = (columns.n_rows, len(model.features), len(model.output_names))
    # Of each output of a term: a mean for every coalition, a table for every player, and a sum.
    largest = max(
        ((2 ** len(t.features) + len(t.features) + 1) * t.scores[..., 0].size for t in model.terms),
        default=0,
    )
    most_features = max((len(term.features) for term in model.terms), default=0)
    check_budget(
        8 * (prod(shape) + largest + (1 + most_features) * (columns.n_rows + reference.n_rows)),
        memory_budget,
        f"the Shapley values of {columns.n_rows} rows with {reference.n_rows} background rows",
        "Pass fewer rows at a time.",
    )
    phi = np.zeros(shape)
    for done, term in enumerate(model.terms):
        report("Shapley values of tables: table", done, len(model.terms))
        cells, reference_cells = _cells(model, term, columns), _cells(model, term, reference)
        for output in range(shape[2]):
            found = table_values(term.scores[..., output], reference_cells, weights, term.features)
            for player, values in found.items():
                phi[:, player, output] += values[tuple(cells)]
    return phi


def _cells(model: AdditiveTables, term: TableTerm, columns: Columns) -> Cells:
    return np.stack(
        [
            term_cells(columns.values[j], model.features[j], cuts)
            for j, cuts in zip(term.features, term.cuts, strict=True)
        ]
    )


def table_values(
    table: Array, reference_cells: Cells, shares: Array, players: tuple[int, ...]
) -> dict[int, Array]:
    r"""Return what each player gets of a table, in every cell of it.

    The value of a coalition is the mean of the table over the reference rows along all axes that
    do not belong to it, so it is a table too, of fewer axes, and so is the Shapley value. For two
    features of different players it is ``1/2 [f(x_j, x_k) - E f(R_j, x_k) + E f(x_j, R_k) -
    E f(R_j, R_k)]``, which depends on how the reference rows distribute each of the two features,
    not on how the reference differs from the row.

    Parameters
    ----------
    table : ndarray of float64, shape (cells...)
        A value for every combination of cells of its axes.
    reference_cells : ndarray of int, shape (n_axes, n_reference)
        The cells of the reference rows.
    shares : ndarray of float64, shape (n_reference,)
        Share of each reference row.
    players : tuple of int
        The player that the feature of each axis belongs to.

    Returns
    -------
    dict of int to ndarray of float64, shape (cells...)
        One table per player. They sum to the table less its mean over the reference rows, times
        the sum of the shares.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[0.0, 0.0], [0.0, 1.0]])
    >>> reference = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    >>> table_values(table, reference, np.full(4, 0.25), (0, 1))[0]
    array([[-0.125, -0.375],
           [ 0.125,  0.375]])
    """
    different = sorted(set(players))
    mean_of = {
        coalition: _mean_given(table, reference_cells, shares, players, coalition)
        for size in range(len(different) + 1)
        for coalition in combinations(different, size)
    }
    found = {}
    for player in different:
        total = np.zeros_like(table)
        for coalition, without in mean_of.items():
            if player not in coalition:
                joined = mean_of[tuple(sorted((*coalition, player)))]
                total += _weight(len(coalition), len(different)) * (joined - without)
        found[player] = total
    return found


def _weight(size: int, n_players: int) -> float:
    """Return the Shapley weight of a coalition that a player joins."""
    return factorial(size) * factorial(n_players - size - 1) / factorial(n_players)


def _mean_given(
    table: Array,
    reference_cells: Cells,
    shares: Array,
    players: tuple[int, ...],
    coalition: tuple[int, ...],
) -> Array:
    """Return the mean over the axes of all other players, which are left with one cell."""
    absent = tuple(axis for axis, player in enumerate(players) if player not in coalition)
    if not absent:
        return np.asarray(table * shares.sum())
    shape = tuple(table.shape[axis] for axis in absent)
    numbers = np.ravel_multi_index(tuple(reference_cells[axis] for axis in absent), shape)
    mass = np.bincount(numbers, weights=shares, minlength=prod(shape)).reshape(shape)
    mean = np.tensordot(table, mass, axes=(absent, tuple(range(len(absent)))))
    return np.asarray(np.expand_dims(mean, absent))
