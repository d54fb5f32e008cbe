"""Owen values: what a feature is given within its group.

Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import factorial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.results import ShapleySets

__all__ = ["owen_values"]

Others = Literal["all", "none"]


def owen_values(
    sets: ShapleySets,
    x: Any,
    *,
    others: Others = "all",
    most_coalitions: int = 1 << 14,
) -> npt.NDArray[np.float64]:
    r"""Divide the worth of each group among its features.

    Shapley Sets give an interaction to a group as a whole. Owen (1977) divides it further:
    groups play among themselves, and features play within their group,

    .. math::
        \phi_i = \sum_{R} \sum_{S} \frac{|R|! (m - |R| - 1)!}{m!} \frac{|S|! (b - |S| - 1)!}{b!}
        \bigl[v(Q_R \cup S \cup i) - v(Q_R \cup S)\bigr],

    where R runs over the sets of other groups, with features Q_R, and S over the subsets of the
    group without i. Where the function adds up over the groups, the other groups change nothing,
    and ``others="none"`` gives the same values from far fewer coalitions.

    Parameters
    ----------
    sets : ShapleySets
        The groups, and what a coalition is worth.
    x : array_like or table of shape (n_rows, n_features)
        Rows.
    others : {"all", "none"}
        ``"all"``: Owen's value; values sum to the prediction less the base. ``"none"``: the
        Shapley value of each group's own game; values sum to the worth of the group.
    most_coalitions : int
        Most coalitions that are evaluated: ``2**(m - 1 + b)`` for a group of b features among m
        groups, and ``2**b`` without the others.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_features, n_outputs)
        On the scale of the model.

    Raises
    ------
    InvalidInputError
        If there would be more coalitions.

    References
    ----------
    G. Owen, *Values of games with a priori unions*, 1977.

    Examples
    --------
    >>> import numpy as np
    >>> import treepurify as tp
    >>> from examples.paper_shapley_sets_owen import owen_values
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> def f(X):
    ...     return X[:, 0] + 2 * X[:, 1] * X[:, 2]
    >>> sets = tp.shapley_sets(f, X, value="baseline", baseline=[0, 0, 0])
    >>> owen_values(sets, [[1, 1, 1]])[0, :, 0]
    array([1., 1., 1.])
    """
    rows = sets.value_function.function.read(x)
    n_outputs = len(sets.base)
    outside = len(sets.groups) - 1 if others == "all" else 0
    # Compared as exponents: a group of a thousand features has no number of coalitions to print.
    largest = max(len(group) for group in sets.groups) + outside
    total = sum(1 << min(len(group) + outside, 62) for group in sets.groups)
    if largest > 62 or total > most_coalitions:
        count = f"{total}" if largest <= 62 else f"more than 2**{largest}"
        raise InvalidInputError(
            f"Owen values need {count} coalitions, and most_coalitions is {most_coalitions}: pass "
            'smaller groups, others="none" where the function adds up over the groups, or more '
            "coalitions"
        )
    values = np.zeros((len(rows), rows.shape[1], n_outputs))
    for group in sets.groups:
        around = [other for other in sets.groups if other != group] if others == "all" else []
        for chosen in _subsets(around):
            of_groups = _weight(len(chosen), len(around) + 1)
            present = [j for other in chosen for j in other]
            for inside in _subsets(group):
                coalition = sorted([*present, *inside])
                worth = sets.value_function(rows, coalition)
                # A coalition counts for those whose arrival it completes, and against the rest.
                if inside:
                    share = of_groups * _weight(len(inside) - 1, len(group))
                    values[:, list(inside)] += share * worth[:, None]
                absent = [j for j in group if j not in inside]
                if absent:
                    share = of_groups * _weight(len(inside), len(group))
                    values[:, absent] -= share * worth[:, None]
    return values


def _subsets(members: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return (chosen for size in range(len(members) + 1) for chosen in combinations(members, size))


def _weight(before: int, players: int) -> float:
    return factorial(before) * factorial(players - before - 1) / factorial(players)
