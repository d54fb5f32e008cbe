"""Second moments of an ensemble under independent features, from pairs of leaves."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _overlap(first, second, run_ptr, run_start, run_stop, cumulative, base):
    """Return the probability that a value lies in the runs of both entries."""
    total = 0.0
    a = run_ptr[first]
    b = run_ptr[second]
    while a < run_ptr[first + 1] and b < run_ptr[second + 1]:
        start = max(run_start[a], run_start[b])
        stop = min(run_stop[a], run_stop[b])
        if start < stop:
            total += cumulative[base + stop] - cumulative[base + start]
        if run_stop[a] < run_stop[b]:
            a += 1
        else:
            b += 1
    return total


@njit(cache=True, nogil=True)
def leaf_pair_moments(
    rows,
    leaves,
    entry_ptr,
    entry_feature,
    probability,
    run_ptr,
    run_start,
    run_stop,
    margin_ptr,
    cumulative,
    values,
    by_order,
    pair_total,
    main_total,
):
    """Add the pairs (l, m) of ``rows x leaves`` to the second moments of one output.

    The expectation of the product of two leaves' boxes factors over features. Along a
    feature that both test it is a covariance plus a product of means; along one that only
    one tests, that one's mean. A pair's part of the variance at order k is therefore the
    coefficient of t^k in the product of (means + t * covariance), and its part of the total
    index of (i, j) is what is left when i and j contribute their covariances.

    `by_order` has shape (n_rows, depth + 1): the sums over m for each l, so that a sample of
    rows gives a standard error.
    """
    most = by_order.shape[1]
    common = np.zeros(most, dtype=np.int64)
    share = np.zeros(most)
    order_part = np.zeros(most)
    for position in range(len(rows)):
        left = rows[position]
        for right in leaves:
            weight = values[left] * values[right]
            if weight == 0.0:
                continue
            a = entry_ptr[left]
            b = entry_ptr[right]
            n_common = 0
            while a < entry_ptr[left + 1] or b < entry_ptr[right + 1]:
                if b == entry_ptr[right + 1] or (
                    a < entry_ptr[left + 1] and entry_feature[a] < entry_feature[b]
                ):
                    weight *= probability[a]
                    a += 1
                elif a == entry_ptr[left + 1] or entry_feature[b] < entry_feature[a]:
                    weight *= probability[b]
                    b += 1
                else:
                    both = _overlap(
                        a, b, run_ptr, run_start, run_stop, cumulative, margin_ptr[entry_feature[a]]
                    )
                    apart = probability[a] * probability[b]
                    # Disjoint boxes: the product of the others times (covariance + mean).
                    common[n_common] = entry_feature[a]
                    share[n_common] = both - apart
                    order_part[n_common] = apart
                    n_common += 1
                    a += 1
                    b += 1
            if weight == 0.0:
                continue
            _add_pair(
                weight,
                n_common,
                common,
                share,
                order_part,
                position,
                by_order,
                pair_total,
                main_total,
            )


@njit(cache=True, nogil=True)
def _add_pair(
    weight, n_common, common, covariance, apart, position, by_order, pair_total, main_total
):
    """Add one pair of leaves, given the covariance and the product of means by feature."""
    polynomial = np.zeros(n_common + 1)
    polynomial[0] = weight
    for k in range(n_common):
        for degree in range(k + 1, 0, -1):
            polynomial[degree] = (
                polynomial[degree] * apart[k] + polynomial[degree - 1] * covariance[k]
            )
        polynomial[0] *= apart[k]
    for degree in range(n_common + 1):
        by_order[position, degree] += polynomial[degree]
    for i in range(n_common):
        if covariance[i] == 0.0:
            continue
        rest = weight * covariance[i]
        for k in range(n_common):
            if k != i:
                rest *= covariance[k] + apart[k]
        main_total[common[i]] += rest
        for j in range(i):
            pair = weight * covariance[i] * covariance[j]
            for k in range(n_common):
                if k not in (i, j):
                    pair *= covariance[k] + apart[k]
            pair_total[common[j], common[i]] += pair


@njit(cache=True, nogil=True)
def component_variance(
    features,
    leaves,
    entry_ptr,
    entry_feature,
    probability,
    run_ptr,
    run_start,
    run_stop,
    margin_ptr,
    cumulative,
    values,
):
    """Return the variance of the component of `features`, one output, from pairs of leaves."""
    n_features = len(features)
    entries = np.zeros((len(leaves), n_features), dtype=np.int64)
    weights = np.zeros(len(leaves))
    for i in range(len(leaves)):
        weights[i] = values[leaves[i]]
        position = 0
        for entry in range(entry_ptr[leaves[i]], entry_ptr[leaves[i] + 1]):
            if position < n_features and entry_feature[entry] == features[position]:
                entries[i, position] = entry
                position += 1
            else:
                weights[i] *= probability[entry]
    total = 0.0
    for i in range(len(leaves)):
        for j in range(i + 1):
            product = weights[i] * weights[j] * (1.0 if i == j else 2.0)
            for k in range(n_features):
                if product == 0.0:
                    break
                a, b = entries[i, k], entries[j, k]
                both = _overlap(
                    a, b, run_ptr, run_start, run_stop, cumulative, margin_ptr[features[k]]
                )
                product *= both - probability[a] * probability[b]
            total += product
    return total
