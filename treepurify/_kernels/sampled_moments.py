"""Orders and interactions of an ensemble on sampled rows, under independent features."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@kernel
def effects_on_rows(positions, leaves, slot_ptr, slots, orders, mains, pairs):
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
    leaves : treepurify.engines.tree.independent_leaves.OutputLeaves
        The leaves.
    slots : (n_slots,)
        Position in `pairs` of each pair of features of each leaf, from ``slot_ptr[leaf]``.
    orders, mains, pairs : (depth + 1, n_rows), (n_features, n_rows), (n_pairs, n_rows)
        What is added to.
    """
    values, leaf_ptr, run_ptr = leaves.values, leaves.leaf_ptr, leaves.run_ptr
    n_rows = positions.shape[1]
    polynomial, inside = np.zeros(orders.shape), np.zeros(orders.shape)
    probability, n_missed = np.zeros(orders.shape[0]), np.zeros(n_rows)
    for leaf in range(len(values)):
        start = leaf_ptr[leaf]
        width = leaf_ptr[leaf + 1] - start
        features = leaves.leaf_feature[start : start + width]
        for row in range(n_rows):
            polynomial[0, row], n_missed[row] = values[leaf], width
        for k in range(width):
            interval = leaves.leaf_interval[start + k]
            first, last = run_ptr[interval], run_ptr[interval + 1]
            runs = leaves.low[first:last], leaves.high[first:last]
            probability[k] = leaves.probability[interval]
            _mark(positions[features[k]], runs[0], runs[1], inside[k], n_missed)
            _multiply(polynomial, k, probability[k], inside[k])
        for degree in range(width + 1):
            total, own = orders[degree], polynomial[degree]
            for row in range(n_rows):
                total[row] += own[row]
        of_leaf = slots[slot_ptr[leaf] : slot_ptr[leaf + 1]]
        for row in range(n_rows):
            if n_missed[row] <= 2:
                _add_totals(
                    values[leaf],
                    row,
                    n_missed[row],
                    features,
                    probability,
                    inside,
                    of_leaf,
                    mains,
                    pairs,
                )


@part
def _mark(positions, low, high, inside, n_missed):
    """Write 1 for the rows in one of some runs, else 0, and take it from what they miss."""
    for row in range(len(positions)):
        inside[row] = 0.0
    for run in range(len(low)):
        start, stop = low[run], high[run]
        for row in range(len(positions)):
            inside[row] += 1.0 if (start <= positions[row]) & (positions[row] < stop) else 0.0
    for row in range(len(positions)):
        n_missed[row] -= inside[row]


@part
def _multiply(polynomial, degree, probability, inside):
    """Multiply the polynomial of each row by ``probability + t (inside - probability)``."""
    top, below = polynomial[degree + 1], polynomial[degree]
    for row in range(len(inside)):
        top[row] = below[row] * (inside[row] - probability)
    for power in range(degree, 0, -1):
        upper, lower = polynomial[power], polynomial[power - 1]
        for row in range(len(inside)):
            share = inside[row] - probability
            upper[row] = upper[row] * probability + lower[row] * share
    constant = polynomial[0]
    for row in range(len(inside)):
        constant[row] *= probability


@part
def _add_totals(value, row, n_missed, features, probability, inside, slots, mains, pairs):
    """Add a leaf of which the row misses two conditions at most."""
    slot = 0
    for i in range(len(features)):
        own, still = value * (inside[i, row] - probability[i]), n_missed - (1.0 - inside[i, row])
        if still == 0.0:
            mains[features[i], row] += own
        for j in range(i + 1, len(features)):
            if still == 1.0 - inside[j, row]:
                pairs[slots[slot], row] += own * (inside[j, row] - probability[j])
            slot += 1
