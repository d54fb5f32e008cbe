"""Orders and interactions of an ensemble on sampled rows, under independent features."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def _is_inside(interval, position, run_ptr, low, high):
    """Return whether a cumulative probability lies in one of the runs of an interval."""
    for run in range(run_ptr[interval], run_ptr[interval + 1]):
        if low[run] <= position < high[run]:
            return True
    return False


@part
def _add_whole(value, row, features, complement, slots, mains, pairs):
    """Add a leaf that the row reaches."""
    width = len(features)
    slot = 0
    for i in range(width):
        own = value * complement[i]
        mains[features[i], row] += own
        for j in range(i + 1, width):
            pairs[slots[slot], row] += own * complement[j]
            slot += 1


@part
def _add_missed(value, row, missed, features, complement, slots, mains, pairs):
    """Add a leaf that the row misses by one condition."""
    width = len(features)
    own = -value * (1.0 - complement[missed])
    mains[features[missed], row] += own
    for other in range(width):
        if other != missed:
            slot = slots[_place(min(other, missed), max(other, missed), width)]
            pairs[slot, row] += own * complement[other]


@part
def _place(first, second, width):
    """Return the position of a pair among all pairs of `width`, in order."""
    return first * width - first * (first + 1) // 2 + second - first - 1


@kernel
def effects_on_rows(
    positions,
    values,
    leaf_ptr,
    leaf_feature,
    leaf_interval,
    interval_probability,
    run_ptr,
    low,
    high,
    slot_ptr,
    slots,
    orders,
    mains,
    pairs,
):
    """Add to each row the sums of its components by order, by feature and by pair.

    The components of a leaf along the features S of its path are
    ``value * prod_S (1 - p) * prod_others p`` with the indicator 1 and the probability p of
    each condition. Those of k features sum to the coefficient of t^k in
    ``value * prod (p + t (1 - p))``; those that contain i to the leaf with ``1 - p`` along i
    and the indicator along all others, which is zero where the row breaks another condition;
    and those that contain i and j likewise.

    Parameters
    ----------
    positions : (n_features, n_rows)
        Cumulative probability of each feature up to the row's value.
    slots : (n_slots,)
        Position in `pairs` of each pair of features of each leaf, from ``slot_ptr[leaf]``.
    orders, mains, pairs : (depth + 1, n_rows), (n_features, n_rows), (n_pairs, n_rows)
        What is added to.
    """
    n_rows = positions.shape[1]
    polynomial = np.zeros((orders.shape[0], n_rows))
    complement = np.zeros(orders.shape[0])
    share = np.zeros(n_rows)
    n_missed = np.zeros(n_rows, dtype=np.int64)
    missed = np.zeros((2, n_rows), dtype=np.int64)
    for leaf in range(len(values)):
        start = leaf_ptr[leaf]
        width = leaf_ptr[leaf + 1] - start
        features = leaf_feature[start : start + width]
        polynomial[0, :] = values[leaf]
        n_missed[:] = 0
        for k in range(width):
            interval = leaf_interval[start + k]
            probability = interval_probability[interval]
            complement[k] = 1.0 - probability
            own = positions[features[k]]
            for row in range(n_rows):
                inside = _is_inside(interval, own[row], run_ptr, low, high)
                share[row] = inside - probability
                if not inside:
                    missed[n_missed[row] & 1, row] = k
                    n_missed[row] += 1
            _multiply(polynomial, k, probability, share)
        for degree in range(width + 1):
            for row in range(n_rows):
                orders[degree, row] += polynomial[degree, row]
        own_slots = slots[slot_ptr[leaf] : slot_ptr[leaf + 1]]
        for row in range(n_rows):
            if n_missed[row] == 0:
                _add_whole(values[leaf], row, features, complement, own_slots, mains, pairs)
            elif n_missed[row] == 1:
                first = missed[0, row]
                _add_missed(values[leaf], row, first, features, complement, own_slots, mains, pairs)
            elif n_missed[row] == 2:
                first, second = missed[0, row], missed[1, row]
                slot = own_slots[_place(first, second, width)]
                both = (1.0 - complement[first]) * (1.0 - complement[second])
                pairs[slot, row] += values[leaf] * both


@part
def _multiply(polynomial, degree, probability, share):
    """Multiply polynomials of a degree, one for each row, by ``probability + t * share``."""
    n_rows = len(share)
    polynomial[degree + 1, :] = 0.0
    for power in range(degree + 1, 0, -1):
        upper, lower = polynomial[power], polynomial[power - 1]
        for row in range(n_rows):
            upper[row] = upper[row] * probability + lower[row] * share[row]
    for row in range(n_rows):
        polynomial[0, row] *= probability
