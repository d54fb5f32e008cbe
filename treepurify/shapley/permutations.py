"""Interventional Shapley values of any function, estimated from random orders of the features."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treepurify.budget import check_budget
from treepurify.typing import Array, Indices, Mask

__all__ = ["Orders", "draw_orders"]

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
