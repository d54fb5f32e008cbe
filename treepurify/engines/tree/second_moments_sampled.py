"""Second moments of an ensemble from rows drawn with independent features."""

import numpy as np
import numpy.typing as npt

from treepurify._kernels.conditional import subset_keys
from treepurify._kernels.sampled_moments import effects_on_rows
from treepurify.budget import check_budget
from treepurify.engines.tree.independent_leaves import OutputLeaves, SecondMoments
from treepurify.threads import available_threads, iterate_threads

__all__ = ["moments_of_rows"]

Array = npt.NDArray[np.float64]

_ROWS_IN_A_BLOCK = 256


def moments_of_rows(
    depth: int,
    own: OutputLeaves,
    positions: Array,
    pairs: Array,
    pair_errors: Array,
    memory_budget: int,
) -> SecondMoments:
    """Return unbiased estimates of the second moments of one output, with standard errors.

    On each row the sum of the components of every order, the sum of those with a feature and
    the sum of those with a pair are exact, because the other features are averaged over in
    closed form. Only the mean of their squares is estimated, so that no estimate is negative
    and small numbers have small errors.

    Parameters
    ----------
    depth : int
        Most features on a path.
    own : OutputLeaves
        The leaves of the output.
    positions : ndarray of float64, shape (n_features, n_rows)
        The rows, each value as the cumulative probability of its feature: uniform numbers.
    pairs, pair_errors : ndarray of float64, shape (n_features, n_features)
        Zeros; become the estimates for pairs and their errors.
    memory_budget : int
        Bytes that the effects on rows may take.

    Raises
    ------
    MemoryBudgetError
        If the values on one row for each thread would not fit.
    """
    n_features, n_rows = positions.shape
    every = np.arange(len(own.leaves))
    keys, slots = np.unique(
        subset_keys(own.leaf_ptr, own.leaf_feature, every, 2, n_features + 1), return_inverse=True
    )
    n_numbers = depth + 1 + n_features + len(keys)
    # The effects and their squares on each row, and the sums that wait to be added.
    row_bytes, sum_bytes = 16 * n_numbers, 128 * n_numbers
    room = memory_budget // available_threads() - sum_bytes
    check_budget(
        (row_bytes + sum_bytes) * available_threads(),
        memory_budget,
        f"the interaction indices of {len(keys)} pairs of features on sampled rows",
        "Raise memory_budget, or name the interactions that you need.",
    )
    block = max(min(room // row_bytes, _ROWS_IN_A_BLOCK), 1)
    width = np.diff(own.leaf_ptr)
    slot_ptr = np.concatenate([[0], np.cumsum(width * (width - 1) // 2)]).astype(np.int64)

    def sums(first: int) -> tuple[Array, Array]:
        part = np.ascontiguousarray(positions[:, first : first + block])
        effects = np.zeros((n_numbers, part.shape[1]))
        effects_on_rows(
            part,
            own.values,
            own.leaf_ptr,
            own.leaf_feature,
            own.leaf_interval,
            own.interval_probability,
            own.run_ptr,
            own.low,
            own.high,
            slot_ptr,
            slots,
            *np.split(effects, [depth + 1, depth + 1 + n_features]),
        )
        np.square(effects, out=effects)
        # The first is the mean, which is known: its place is taken by the variance.
        effects[0] = effects[1 : depth + 1].sum(axis=0)
        return effects.sum(axis=1), np.square(effects, out=effects).sum(axis=1)

    total, squared = np.zeros(n_numbers), np.zeros(n_numbers)
    for one, two in iterate_threads(sums, range(0, n_rows, block)):
        total += one
        squared += two
    mean = total / n_rows
    error = np.sqrt(np.maximum(squared / n_rows - mean**2, 0.0) / (n_rows - 1))
    first, second = keys // (n_features + 1), keys % (n_features + 1)
    for table, numbers in ((pairs, mean), (pair_errors, error)):
        table[first, second] = table[second, first] = numbers[depth + 1 + n_features :]
    by_order, by_feature = slice(1, depth + 1), slice(depth + 1, depth + 1 + n_features)
    return SecondMoments(
        mean[by_order], error[by_order], mean[by_feature], error[by_feature], float(error[0])
    )
