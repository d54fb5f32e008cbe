"""Interventional Shapley values of any function, from coalitions of the features that differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import factorial

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices, Integers, Mask

# Of an order and its reverse, for each background row: fewer than two show no spread.
_LEAST_ORDERS = 2
_STEPS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders in which players join a coalition, independent ones for every background row.

    Parameters
    ----------
    times : ndarray of float64, shape (n_background, n_orders, n_players)
        When each player joins. Every order is also gone through backwards.
    """

    times: Array

    @property
    def n_orders(self) -> int:
        """Number of orders of each background row, their reverses not counted."""
        return len(self.times[0])

    def n_called(self, size: int) -> int:
        """Return how many rows a pair of rows that differs for `size` players takes."""
        return 2 + 2 * self.n_orders * (size - 1)

    def bytes_of_pair(self, size: int, n_outputs: int) -> int:
        """Return the bytes of what all orders add for each of `size` players of one pair."""
        steps = min(self.n_orders * 2 * size, _STEPS_AT_ONCE + 2 * size)
        return size * (steps + self.n_orders * 8 * (3 + n_outputs)) + 32 * n_outputs * steps

    def added(
        self, background: Indices, players: Indices, values_of: Callable[[Mask], Array]
    ) -> tuple[Array, Array]:
        """Return what players add on average over the orders, and the variance of that mean.

        An order and its reverse are one observation (antithetic): what a player adds early in one
        it adds late in the other, so that main effects and pairs leave no spread. In every order
        the players together add the difference between the two rows.

        Parameters
        ----------
        background : ndarray of int, shape (n_pairs,)
            The background row of each pair of rows, which has the orders.
        players : ndarray of int, shape (n_pairs, size)
            The players in whose features the two rows differ.
        values_of : callable
            Members of coalitions, shape (n_pairs, n_coalitions, size) or (n_coalitions, size), ->
            values of the function, shape (n_pairs, n_coalitions, n_outputs).

        Returns
        -------
        mean, variance : ndarray of float64, shape (n_pairs, size, n_outputs)
        """
        n_pairs, size = players.shape
        times = np.take_along_axis(self.times[background], players[:, None, :], axis=2)
        places = times.argsort(axis=2).argsort(axis=2)
        ends = values_of(np.repeat([[False], [True]], size, axis=1))
        at_once = max(1, _STEPS_AT_ONCE // (2 * size * n_pairs))
        joined = np.concatenate(
            [
                _added_in_order(places[:, start : start + at_once], values_of, ends)
                for start in range(0, self.n_orders, at_once)
            ],
            axis=1,
        )
        return joined.mean(axis=1), joined.var(axis=1, ddof=1) / self.n_orders


def _added_in_order(places: Indices, values_of: Callable[[Mask], Array], ends: Array) -> Array:
    """Return what each player adds, by order, shape (n_pairs, n_orders, size, n_outputs).

    ``places`` of shape (n_pairs, n_orders, size) are when each player joins, from zero; ``ends`` of
    shape (n_pairs, 2, n_outputs) are the values without players and with all of them.
    """
    n_pairs, n_orders, size = places.shape
    backwards = size - 1 - places
    both = np.stack([places, backwards], axis=2)
    n_joined = np.arange(1, size)
    members = both[:, :, :, None, :] < n_joined[:, None]
    values = values_of(members.reshape(n_pairs, -1, size))
    inner = values.reshape(n_pairs, n_orders, 2, size - 1, -1)
    shape = (n_pairs, n_orders, 2, 1, inner.shape[-1])
    first, last = (np.broadcast_to(ends[:, None, None, [end]], shape) for end in (0, 1))
    steps = np.diff(np.concatenate([first, inner, last], axis=3), axis=3)
    return np.asarray(np.take_along_axis(steps, both[..., None], axis=3).mean(axis=2))


def draw_orders(n_background: int, n_players: int, permutations: int, memory_budget: int) -> Orders:
    """Draw the same orders whenever it is called.

    Parameters
    ----------
    n_background : int
        Number of background rows.
    n_players : int
        Number of players.
    permutations : int
        Orders in all, half of them reverses, spread evenly over the background rows; each has at
        least four.
    memory_budget : int
        Bytes that they may take.

    Raises
    ------
    MemoryBudgetError
        If the orders would not fit.

    Examples
    --------
    >>> draw_orders(3, 10, 60, 1 << 20).times.shape
    (3, 10, 10)
    """
    n_orders = max(-(-permutations // (2 * max(n_background, 1))), _LEAST_ORDERS)
    check_budget(
        8 * n_background * n_orders * n_players,
        memory_budget,
        f"{permutations} permutations of {n_players} features for {n_background} background rows",
        "Pass fewer background rows, or fewer permutations.",
    )
    return Orders(np.random.default_rng(0).random((n_background, n_orders, n_players)))


MOST_DIFFERING = 16
_MOST_CALLED = 10**9
_ROWS_A_BLOCK = 1 << 16
_CALL = "tp.interventional_shapley_values(model, X, background"
_PERMUTATIONS = f'{_CALL}, estimate="permutations")'
# A row of a block: put together, taken apart into columns, and put into the caller's form.
_COPIES_OF_A_ROW = 4


@dataclass(frozen=True, eq=False)
class CoalitionValues:
    """Shapley values, and how far they may be off where orders of players were drawn.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows, n_players, n_outputs)
        On the scale of the function.
    standard_error : ndarray of float64, shape (n_rows, n_players, n_outputs), optional
        Of each value, zero where it is exact; None where all are.
    """

    values: Array
    standard_error: Array | None


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


@dataclass(frozen=True, eq=False)
class _CoalitionGame:
    """A function, the rows that are explained, and those that stand for the distribution.

    Parameters
    ----------
    function : callable
        Columns -> values, shape (n_rows, n_outputs).
    columns, background : Columns
        The rows.
    player_of : ndarray of int64, shape (n_features,)
        The player of each feature.
    used : tuple of int
        Features that the function may depend on.
    """

    function: Callable[[Columns], Array]
    columns: Columns
    background: Columns
    player_of: Integers
    used: tuple[int, ...]

    @cached_property
    def rows(self) -> Array:
        """The rows that are explained, shape (n_rows, n_features)."""
        return self.columns.matrix()

    @cached_property
    def others(self) -> Array:
        """The background rows, shape (n_background, n_features)."""
        return self.background.matrix()

    @cached_property
    def features_of(self) -> list[list[int]]:
        """The features of each player that the function may depend on."""
        n_players = int(self.player_of.max(initial=-1)) + 1
        return [[j for j in self.used if self.player_of[j] == p] for p in range(n_players)]

    def count_differing(self) -> npt.NDArray[np.uint16]:
        """Return for how many players each row differs from each background row."""
        total = np.zeros((len(self.rows), len(self.others)), dtype=np.uint16)
        for features in self.features_of:
            differs = np.zeros(total.shape, dtype=bool)
            for j in features:
                differs |= _differs(self.rows[:, j, None], self.others[:, j])
            total += differs
        return total

    def pairs(self, row: Indices, other: Indices, size: int) -> _Pairs:
        """Return pairs of rows that differ for `size` players, with these players."""
        differs = _differs(self.rows[row], self.others[other])
        by_player = np.stack([differs[:, own].any(axis=1) for own in self.features_of], axis=1)
        return _Pairs(row, other, np.nonzero(by_player)[1].reshape(-1, size))

    def values(self, pairs: _Pairs, members: Mask) -> Array:
        """Return the function with the coalition's features from the row, the others from the pair.

        Parameters
        ----------
        pairs : _Pairs
            The pairs of rows.
        members : ndarray of bool, shape (n_coalitions, size) or (n_pairs, n_coalitions, size)
            The players of each coalition.

        Returns
        -------
        ndarray of float64, shape (n_pairs, n_coalitions, n_outputs)
        """
        n_pairs, n_coalitions = len(pairs.row), members.shape[-2]
        members = np.broadcast_to(members, (n_pairs, *members.shape[-2:]))
        mixed = np.repeat(self.others[pairs.other, None], n_coalitions, axis=1)
        for place, players in enumerate(pairs.players.T):
            # Where a player differs in some of its features, the others are equal in both rows.
            at, features = np.nonzero(players[:, None] == self.player_of)
            values = self.rows[pairs.row[at], features]
            kept = mixed[at, :, features]
            mixed[at, :, features] = np.where(members[at, :, place], values[:, None], kept)
        mixed = mixed.reshape(-1, mixed.shape[-1])
        values = self.function(Columns(self.columns.features, tuple(mixed.T), len(mixed)))
        return values.reshape(n_pairs, n_coalitions, -1)


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
    permutations: int | None = None,
) -> CoalitionValues:
    """Return the Shapley values of ``v(T) = mean of f(x_T, b_rest)``, by their definition.

    The values are means over the background rows of those with a single one. There only the
    features that differ between the two rows are players, so that d of them take ``2^d`` values
    of the function, whatever the number of features. Features that belong to one player count
    once, and join coalitions together.

    With `permutations`, a pair of rows whose coalitions are more than the steps of the orders
    that are drawn for it is estimated from these.

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
    permutations : int, optional
        Orders of the players to draw for each row, see `draw_orders`; by default all coalitions
        are gone through.

    Raises
    ------
    InvalidInputError
        If two rows differ in the features of too many players, or there are too many rows to call.
    MemoryBudgetError
        If the values, or a block of rows, would not fit.
    """
    player_of = np.arange(len(columns.features)) if player_of_feature is None else player_of_feature
    distinct, shares = _distinct_rows(background, shares, used)
    game = _CoalitionGame(function, columns, background.take(distinct), player_of, used)
    n_differing = game.count_differing()
    orders = None
    if permutations is not None:
        orders = draw_orders(len(distinct), len(game.features_of), permutations, memory_budget)
    called = _called_by_size(n_differing, orders)
    check_budget(
        8 * columns.n_rows * (len(player_of) * (2 * n_outputs + 2) + background.n_rows)
        + _bytes_of_block(called, len(player_of), n_outputs, orders),
        memory_budget,
        f"the Shapley values of {columns.n_rows} rows with {background.n_rows} background rows",
        "Pass fewer rows at a time.",
    )
    phi = np.zeros((columns.n_rows, len(game.features_of), n_outputs))
    variance = np.zeros_like(phi)
    for pairs in _blocks(game, n_differing, called, report):
        share = shares[pairs.other, None, None]
        to = (pairs.row[:, None], pairs.players)
        if orders is None or _is_exact(pairs.players.shape[1], orders):
            added = _from_all_coalitions(game, pairs)
        else:
            values_of = partial(game.values, pairs)
            added, spread = orders.added(pairs.other, pairs.players, values_of)
            np.add.at(variance, to, share**2 * spread)
        np.add.at(phi, to, share * added)
    return CoalitionValues(phi, None if orders is None else np.sqrt(variance))


def _blocks(
    game: _CoalitionGame,
    n_differing: npt.NDArray[np.uint16],
    called: Integers,
    report: ProgressReport,
) -> Iterator[_Pairs]:
    """Yield all pairs of rows that differ, by the number of players, some at a time."""
    n_pairs = np.bincount(n_differing.ravel(), minlength=len(called))
    done, whole = 0, int(n_pairs @ called)
    for size in range(1, len(called)):
        row, other = np.nonzero(n_differing == size)
        at_once = max(1, _ROWS_A_BLOCK // int(called[size]))
        for start in range(0, len(row), at_once):
            report("Shapley values: rows evaluated", done, whole)
            block = slice(start, start + at_once)
            yield game.pairs(row[block], other[block], size)
            done += len(row[block]) * int(called[size])


def _from_all_coalitions(game: _CoalitionGame, pairs: _Pairs) -> Array:
    """Return the Shapley values of each pair of rows, shape (n_pairs, size, n_outputs)."""
    members = _members(pairs.players.shape[1])
    weights = _shapley_weights(members)
    return np.asarray(np.einsum("cd,pck->pdk", weights, game.values(pairs, members)))


def _distinct_rows(
    background: Columns, shares: Array, used: tuple[int, ...]
) -> tuple[Indices, Array]:
    """Return one of each background rows that are equal where they count, and their shares.

    They come in the order of their values, so that estimates do not depend on that of the rows.
    """
    counted = np.flatnonzero(shares)
    values = background.matrix()[counted][:, list(used)]
    order = np.lexsort((np.zeros(len(values)), *values.T))
    values = values[order]
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = _differs(values[1:], values[:-1]).any(axis=1)
    summed = np.add.reduceat(shares[counted][order], np.flatnonzero(is_new))
    return counted[order[is_new]], summed


def _differs(values: Array, others: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((values != others) & ~(np.isnan(values) & np.isnan(others)))


def _is_exact(size: int, orders: Orders) -> bool:
    """Return whether all coalitions of some players are no more than the steps of their orders."""
    return 1 << size <= orders.n_called(size)


def _called_by_size(n_differing: npt.NDArray[np.uint16], orders: Orders | None) -> Integers:
    """Return how many rows a pair takes, by the number of players that differ.

    Raises
    ------
    InvalidInputError
        If two rows differ for too many players, or there are too many rows to call.
    """
    largest = int(n_differing.max(initial=0))
    if orders is None and largest > MOST_DIFFERING:
        raise InvalidInputError(
            f"a row differs from a background row in {largest} features, whose 2^{largest} "
            f"coalitions are too many to evaluate (at most 2^{MOST_DIFFERING}). If the model can "
            "be parsed, pass the model itself: the Shapley values of its margin need no "
            f"coalitions. For any function, estimate them with standard errors, {_PERMUTATIONS}, "
            "or explain groups of features with shapley_sets"
        )
    called = [0] + [
        1 << size if orders is None or _is_exact(size, orders) else orders.n_called(size)
        for size in range(1, largest + 1)
    ]
    n_pairs = np.bincount(n_differing.ravel(), minlength=1)
    n_called = sum(int(count) * number for count, number in zip(n_pairs, called, strict=True))
    if n_called > _MOST_CALLED:
        fewer = "" if orders is None else ", or fewer permutations"
        estimate = f"; or estimate the values, {_PERMUTATIONS}" if orders is None else ""
        raise InvalidInputError(
            f"{len(n_differing)} rows with {n_differing.shape[1]} background rows need "
            f"{n_called:.2g} evaluations of the function; the limit is {_MOST_CALLED:.0e}. Pass "
            "fewer rows, or fewer background rows, such as "
            f"background=X.sample(100, random_state=0){fewer}{estimate}"
        )
    return np.array(called)


def _bytes_of_block(called: Integers, width: int, n_outputs: int, orders: Orders | None) -> int:
    """Return the bytes of the rows that the function is called with at a time."""
    largest = len(called) - 1
    block = max(_ROWS_A_BLOCK, 2 * largest)
    if orders is None or _is_exact(largest, orders):
        block = max(block, 1 << largest)
    of_orders = 0 if orders is None else orders.bytes_of_pair(largest, n_outputs)
    rows = 8 * block * (_COPIES_OF_A_ROW * width + 2 * n_outputs)
    return rows + block * largest + (8 * largest << min(largest, MOST_DIFFERING)) + of_orders


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
