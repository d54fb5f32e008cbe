"""Interventional Shapley values of any function, from all coalitions of differing features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Integers

__all__ = ["MOST_DIFFERING", "coalition_values"]

MOST_DIFFERING = 16
_MOST_CALLED = 10**9
_ROWS_A_BLOCK = 1 << 16
# A row of a block: put together, taken apart into columns, and put into the caller's form.
_COPIES_OF_A_ROW = 4


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Rows and background rows that differ in the same number of features.

    Parameters
    ----------
    row, other : ndarray of int, shape (n_pairs,)
        The row, and the background row.
    players : ndarray of int, shape (n_pairs, n_differing)
        The players in whose features they differ.
    """

    row: Indices
    other: Indices
    players: Indices


def coalition_values(
    function: Callable[[Columns], Array],
    columns: Columns,
    background: Columns,
    shares: Array,
    n_outputs: int,
    used: tuple[int, ...],
    memory_budget: int,
    report: ProgressReport,
    player_of_feature: Integers | None = None,
) -> Array:
    """Return the Shapley values of ``v(T) = mean of f(x_T, b_rest)``, by their definition.

    The values are means over the background rows of those with a single one. There only the
    features that differ between the two rows are players, so that d of them take ``2^d`` values
    of the function, whatever the number of features. Features that belong to one player count
    once, and join coalitions together.

    Parameters
    ----------
    function : callable
        Columns -> values, shape (n_rows, n_outputs).
    columns, background : Columns
        The rows to explain and those that stand for the distribution.
    shares : ndarray of float64, shape (n_background,)
        Share of each background row; they sum to one.
    n_outputs : int
        Number of outputs.
    used : tuple of int
        Features that the function may depend on.
    memory_budget : int
        Bytes that values and blocks of rows may take.
    report : callable
        Progress.
    player_of_feature : ndarray of int64, shape (n_features,), optional
        The player that each feature belongs to, counted from zero; each is one by itself by
        default.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_players, n_outputs)

    Raises
    ------
    InvalidInputError
        If two rows differ in the features of too many players, or there are too many rows to call.
    MemoryBudgetError
        If the values, or a block of rows, would not fit.
    """
    rows, others = columns.matrix(), background.matrix()
    width = rows.shape[1]
    player_of = np.arange(width) if player_of_feature is None else player_of_feature
    n_players = int(player_of.max(initial=-1)) + 1
    features_of = [[j for j in used if player_of[j] == p] for p in range(n_players)]
    counted = np.flatnonzero(shares)
    n_differing = _count_differing(rows, others, counted, features_of)
    largest = int(n_differing.max(initial=0))
    n_called = _check_work(n_differing, largest)
    block = max(_ROWS_A_BLOCK, 1 << largest)
    check_budget(
        8 * len(rows) * (width * (n_outputs + 2) + len(others))
        + 8 * block * (_COPIES_OF_A_ROW * width + 2 * n_outputs)
        + (8 * largest << largest),
        memory_budget,
        f"the Shapley values of {len(rows)} rows with {len(others)} background rows",
        "Pass fewer rows at a time.",
    )
    phi = np.zeros((len(rows), n_players, n_outputs))
    done = 0
    for size in range(1, largest + 1):
        row, position = np.nonzero(n_differing == size)
        members = _members(size)
        weights = _shapley_weights(members)
        at_once = max(1, _ROWS_A_BLOCK >> size)
        for start in range(0, len(row), at_once):
            report("Shapley values, rows called", done, n_called)
            part = row[start : start + at_once]
            other = counted[position[start : start + at_once]]
            differs = _differs(rows[part], others[other])
            by_player = np.stack([differs[:, own].any(axis=1) for own in features_of], axis=1)
            players = np.nonzero(by_player)[1].reshape(-1, size)
            mixed = _mixed_rows(rows, others, _Pairs(part, other, players), members, player_of)
            values = function(Columns(columns.features, tuple(mixed.T), len(mixed)))
            added = np.einsum("cd,pck->pdk", weights, values.reshape(len(part), -1, n_outputs))
            np.add.at(phi, (part[:, None], players), added * shares[other, None, None])
            done += len(mixed)
    return phi


def _differs(values: Array, others: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((values != others) & ~(np.isnan(values) & np.isnan(others)))


def _count_differing(
    rows: Array, others: Array, counted: Indices, features_of: Sequence[Sequence[int]]
) -> npt.NDArray[np.uint16]:
    """Return for how many players each row differs from each background row that counts."""
    total = np.zeros((len(rows), len(counted)), dtype=np.uint16)
    for features in features_of:
        differs = np.zeros(total.shape, dtype=bool)
        for j in features:
            differs |= _differs(rows[:, j, None], others[counted, j])
        total += differs
    return total


def _check_work(n_differing: npt.NDArray[np.uint16], largest: int) -> int:
    """Return how many rows the function is called with, after refusing what takes too long."""
    if largest > MOST_DIFFERING:
        raise InvalidInputError(
            f"a row differs from a background row in {largest} features, whose 2^{largest} "
            f"coalitions are too many to go through (at most 2^{MOST_DIFFERING}). For a model that "
            "can be parsed, explain its margin, whose Shapley values need no coalitions: pass the "
            "model itself. For any function, shapley_sets explains groups of features."
        )
    n_pairs = np.bincount(n_differing.ravel(), minlength=1)
    n_called = sum(int(count) << size for size, count in enumerate(n_pairs) if size)
    if n_called > _MOST_CALLED:
        raise InvalidInputError(
            f"all coalitions of {len(n_differing)} rows with {n_differing.shape[1]} background "
            f"rows take {n_called:.2g} rows to call the function with, at most {_MOST_CALLED:.0e} "
            "are called: pass fewer rows, or fewer background rows, such as "
            "background=X.sample(100, random_state=0)"
        )
    return n_called


def _members(size: int) -> npt.NDArray[np.bool_]:
    """Return which players each coalition has, shape (2^size, size)."""
    coalitions = np.arange(1 << size)
    return np.asarray((coalitions[:, None] >> np.arange(size)) & 1 == 1)


def _shapley_weights(members: npt.NDArray[np.bool_]) -> Array:
    """Return what the value of each coalition counts for each player, shape (2^size, size)."""
    size = members.shape[1]
    # Of a coalition with a player in it; without it, that of the coalition one larger, negative.
    by_count = np.array(
        [factorial(k - 1) * factorial(size - k) / factorial(size) for k in range(1, size + 1)]
    )
    count = members.sum(axis=1)[:, None]
    joined = by_count[np.clip(count - 1, 0, size - 1)]
    left = by_count[np.clip(count, 0, size - 1)]
    return np.asarray(np.where(members, joined, -left))


def _mixed_rows(
    rows: Array,
    others: Array,
    pairs: _Pairs,
    members: npt.NDArray[np.bool_],
    player_of: Integers,
) -> Array:
    """Return every pair with every coalition, shape (n_pairs * n_coalitions, n_features)."""
    mixed = np.repeat(others[pairs.other, None], len(members), axis=1)
    for place, players in enumerate(pairs.players.T):
        inside = np.flatnonzero(members[:, place])
        # Where a player differs in some of its features, the others are equal in both rows.
        at, features = np.nonzero(players[:, None] == player_of)
        values = rows[pairs.row[at], features]
        mixed[at[:, None], inside, features[:, None]] = values[:, None]
    return mixed.reshape(-1, rows.shape[1])
