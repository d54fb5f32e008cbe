"""How good attributions are: the measures of Sivill and Flach (2023), section 6.

Part of ``paper_shapley_sets.py``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError
from treepurify.results import ShapleySets

__all__ = ["attribution_error", "deletion", "deletion_curve", "sensitivity"]

Array = npt.NDArray[np.float64]


def attribution_error(attributions: npt.ArrayLike, truth: npt.ArrayLike) -> Array:
    """Return the mean absolute error of each row's attributions (equation 9).

    The equation is printed without the absolute value that its name and results imply.

    Parameters
    ----------
    attributions, truth : array_like of shape (n_rows, n_features)
        What each feature was given, and should have been given.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        The paper prints its mean and standard deviation (MAE).

    Raises
    ------
    InvalidInputError
        If these are not two tables of numbers of one shape.

    Examples
    --------
    >>> from examples.paper_shapley_sets_measures import attribution_error
    >>> attribution_error([[1.0, 2.0]], [[1.0, 1.0]])
    array([0.5])
    """
    attributed, expected = (np.asarray(own, dtype=float) for own in (attributions, truth))
    if attributed.shape != expected.shape or attributed.ndim != 2 or not attributed.size:
        raise InvalidInputError(
            "attributions and truth must be two tables of one shape, got "
            f"{attributed.shape} and {expected.shape}"
        )
    return np.asarray(np.abs(attributed - expected).mean(axis=1))


def deletion(
    sets: ShapleySets,
    x: Any,
    attributions: npt.ArrayLike | None = None,
    *,
    groups: Any = None,
    output: int = 0,
) -> Array:
    """Return what is left of each prediction without its most important group (equation 10).

    Parameters
    ----------
    sets : ShapleySets
        Says what a coalition of features is worth: attributions of any origin are measured by
        its value function.
    x : array_like or table of shape (n_rows, n_features)
        Rows.
    attributions : array_like of shape (n_rows, n_groups), optional
        What each group was given; the worth of each group by default.
    groups : sequence, optional
        The groups that were given something, by position; features in none are
        groups of their own, so ``[]`` stands for Shapley values. Those of `sets` by default.
    output : int
        The output, by position.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        ``|v(x, N without i)|``, for the group i of largest absolute attribution: the distance
        to the prediction for no feature. Small is good; the paper's AD is the mean. The more
        features a group has, the more of the prediction goes with it, also for no reason.

    Raises
    ------
    InvalidInputError
        If rows, groups or attributions do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> import treepurify as tp
    >>> from examples.paper_shapley_sets_measures import deletion
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> def f(X):
    ...     return X[:, 0] + 2 * X[:, 1] * X[:, 2]
    >>> sets = tp.shapley_sets(f, X, value="baseline", baseline=[0, 0, 0])
    >>> deletion(sets, [[1, 1, 1]])
    array([1.])
    """
    rows, given, partition = _read(sets, x, attributions, groups, output)
    best = np.argmax(np.abs(given), axis=1)
    left = np.zeros(len(rows))
    for number, group in enumerate(partition):
        rows_of_group = np.flatnonzero(best == number)
        kept = [j for j in range(rows.shape[1]) if j not in group]
        if len(rows_of_group) and kept:
            worth = sets.value_function(rows[rows_of_group], kept)
            left[rows_of_group] = np.abs(worth[:, output])
    return left


def deletion_curve(
    sets: ShapleySets,
    x: Any,
    attributions: npt.ArrayLike | None = None,
    *,
    groups: Any = None,
    output: int = 0,
) -> Array:
    """Return each prediction as group after group is taken away, the largest first (figure 1).

    Parameters
    ----------
    sets, x, attributions, groups, output
        As `deletion` takes them.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_groups + 1)
        The prediction, what is left of it after one group, and so on, down to the prediction
        for no feature, on the scale of the model. A good order comes near the last value soon.

    Raises
    ------
    InvalidInputError
        If rows, groups or attributions do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> import treepurify as tp
    >>> from examples.paper_shapley_sets_measures import deletion_curve
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> def f(X):
    ...     return X[:, 0] + 2 * X[:, 1] * X[:, 2]
    >>> sets = tp.shapley_sets(f, X, value="baseline", baseline=[0, 0, 0])
    >>> deletion_curve(sets, [[1, 1, 1]])
    array([[3., 1., 0.]])
    """
    rows, given, partition = _read(sets, x, attributions, groups, output)
    base = float(sets.base[output])
    order = np.argsort(-np.abs(given), axis=1, kind="stable")
    curve = np.empty((len(rows), len(partition) + 1))
    for removed in range(len(partition) + 1):
        # Rows that lost the same groups are asked about together.
        lost, of_rows = np.unique(np.sort(order[:, :removed], axis=1), axis=0, return_inverse=True)
        of_rows = of_rows.reshape(-1)
        for number, numbers in enumerate(lost):
            gone = {j for k in numbers for j in partition[k]}
            kept = [j for j in range(rows.shape[1]) if j not in gone]
            here = np.flatnonzero(of_rows == number)
            worth = sets.value_function(rows[here], kept)[:, output] if kept else 0.0
            curve[here, removed] = base + worth
    return curve


def sensitivity(
    sets: ShapleySets,
    x: Any,
    attributions: npt.ArrayLike | None = None,
    *,
    output: int = 0,
) -> Array:
    """Return how far attributions are from adding up to the prediction (equation 11).

    Parameters
    ----------
    sets : ShapleySets
        Says what all features together are worth.
    x : array_like or table of shape (n_rows, n_features)
        Rows.
    attributions : array_like of shape (n_rows, n_parts), optional
        What each group, or feature, was given; the worth of each group by default.
    output : int
        The output, by position.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        ``|v(x, N) - sum of the attributions|``. Small is good; the paper's AS is the mean.

    Raises
    ------
    InvalidInputError
        If rows and attributions do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> import treepurify as tp
    >>> from examples.paper_shapley_sets_measures import sensitivity
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> sets = tp.shapley_sets(lambda X: X[:, 0] + 2 * X[:, 1], X, value="mean")
    >>> bool(sensitivity(sets, X[:2]).max() < 1e-12)
    True
    """
    rows = sets.value_function.function.read(x)
    if attributions is None:
        given = _worth_of_groups(sets, rows, output)
    else:
        given = np.asarray(attributions, dtype=float)
    if given.ndim != 2 or len(given) != len(rows):
        raise InvalidInputError(
            f"attributions must be a table with one row for each of the {len(rows)} rows of x, "
            f"got shape {given.shape}"
        )
    whole = sets.value_function(rows, list(range(rows.shape[1])))[:, output]
    return np.asarray(np.abs(whole - given.sum(axis=1)))


def _read(
    sets: Any, x: Any, attributions: Any, groups: Any, output: int
) -> tuple[Array, Array, Sequence[Sequence[int]]]:
    """Return rows, what groups were given, and the groups."""
    rows = sets.value_function.function.read(x)
    partition: Sequence[Sequence[int]] = sets.groups
    if groups is not None:
        alone = set(range(rows.shape[1])) - {j for group in groups for j in group}
        partition = sorted([*map(tuple, groups), *((j,) for j in alone)])
    if attributions is not None:
        given = np.asarray(attributions, dtype=float)
    elif groups is None:
        given = _worth_of_groups(sets, rows, output)
    else:
        raise InvalidInputError("groups says what attributions belong to: pass attributions too")
    if given.shape != (len(rows), len(partition)):
        raise InvalidInputError(
            f"attributions must have one row for each row of x and one column for each group, "
            f"shape {(len(rows), len(partition))}, got {given.shape}"
        )
    return rows, given, partition


def _worth_of_groups(sets: ShapleySets, rows: Array, output: int) -> Array:
    worths = [sets.value_function(rows, group)[:, output] for group in sets.groups]
    return np.stack(worths, axis=1)
