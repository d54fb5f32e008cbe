"""Second moments of an ensemble under independent features, from pairs of leaves."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def _shared_mass(first, second, run_ptr, low, high):
    """Return the probability that a value lies in both intervals."""
    total = 0.0
    a = run_ptr[first]
    b = run_ptr[second]
    while a < run_ptr[first + 1] and b < run_ptr[second + 1]:
        total += max(min(high[a], high[b]) - max(low[a], low[b]), 0.0)
        if high[a] < high[b]:
            a += 1
        else:
            b += 1
    return total


@part
def _set_ratios(
    interval,
    left,
    feature,
    interval_ptr,
    interval_leaf,
    probability,
    run_ptr,
    low,
    high,
    ratio,
):
    """Set ``P(both) / (P(one) P(other)) - 1`` for the intervals of a feature up to a leaf."""
    own = run_ptr[interval]
    is_single = run_ptr[interval + 1] - own == 1
    for other in range(interval_ptr[feature], interval_ptr[feature + 1]):
        if interval_leaf[other] > left:
            break
        run = run_ptr[other]
        if is_single and run_ptr[other + 1] - run == 1:
            both = max(min(high[own], high[run]) - max(low[own], low[run]), 0.0)
        else:
            both = _shared_mass(interval, other, run_ptr, low, high)
        ratio[other] = both / (probability[interval] * probability[other]) - 1.0


# Sums may be reordered: only then are they computed several numbers at a time. Rows have names, as
# indices of them are computed again in every step of an inner loop.
@part(fastmath={"reassoc", "contract"})
def _add_orders(weight, ratio, n_common, first, stop, polynomial, orders):
    """Add the coefficients of ``sum_m weight[m] prod_k (1 + t ratio[k, m])`` to `orders`."""
    size = stop - first
    for m in range(size):
        polynomial[0, m] = weight[first + m]
    for k in range(n_common):
        own = ratio[k, first:stop]
        top, below = polynomial[k + 1], polynomial[k]
        for m in range(size):
            top[m] = below[m] * own[m]
        for degree in range(k, 0, -1):
            upper, lower = polynomial[degree], polynomial[degree - 1]
            for m in range(size):
                upper[m] += lower[m] * own[m]
    for degree in range(n_common + 1):
        total = 0.0
        row = polynomial[degree]
        for m in range(size):
            total += row[m]
        orders[degree] += total


@part(fastmath={"reassoc", "contract"})
def _add_totals(
    scale, weight, ratio, features, n_common, first, stop, suffix, work, pair_total, main_total
):
    """Add what is left of ``prod_k (1 + ratio[k, m])`` when one or two features give `ratio`.

    `suffix` and `work` are workspace for the products of the features behind, and of those before.
    """
    size = stop - first
    for m in range(size):
        suffix[n_common, m] = 1.0
        work[0, m] = weight[first + m]
    before, inside = work[0], work[1]
    for k in range(n_common - 1, -1, -1):
        own, behind, product = ratio[k, first:stop], suffix[k + 1], suffix[k]
        for m in range(size):
            product[m] = behind[m] * (1.0 + own[m])
    for i in range(n_common):
        total = 0.0
        own, behind = ratio[i, first:stop], suffix[i + 1]
        for m in range(size):
            part = before[m] * own[m]
            inside[m] = part
            before[m] += part
            total += part * behind[m]
        main_total[features[i]] += scale * total
        for j in range(i + 1, n_common):
            total = 0.0
            own, behind = ratio[j, first:stop], suffix[j + 1]
            for m in range(size):
                part = inside[m] * own[m]
                inside[m] += part
                total += part * behind[m]
            pair_total[features[i], features[j]] += scale * total


@kernel
def leaf_pair_moments(
    lefts,
    amplitude,
    leaf_ptr,
    leaf_feature,
    leaf_interval,
    feature_ptr,
    feature_leaf,
    feature_interval,
    interval_ptr,
    interval_leaf,
    probability,
    run_ptr,
    low,
    high,
    by_order,
    pair_total,
    main_total,
):
    """Add the pairs of each leaf of `lefts` with the leaves up to itself, in both orders.

    The expectation of the product of two leaves' boxes factors over features: along one that
    both test it is the product of their probabilities times ``1 + ratio``, where the ratio is
    their covariance over that product, and 0 along the others. With the amplitude, the
    value of a leaf times the probability of its box, a pair's part of the variance at order k
    is the coefficient of t^k in ``amplitudes * prod (1 + t ratio)``, and its part of the total
    index of (i, j) is what is left when i and j contribute their ratios. Leaves without a
    common feature add to order 0 alone, the squared mean, and are left out.

    One leaf is paired with a block of others at a time, so that the products of a block stay
    near the processor and several are taken at once. An interval is a set of runs between
    two cumulative probabilities, `low` and `high`.
    """
    block = 256
    n_leaves = len(amplitude)
    most = 1
    for left in lefts:
        most = max(most, leaf_ptr[left + 1] - leaf_ptr[left])
    interval_ratio = np.zeros(len(probability))
    rights = np.zeros(n_leaves, dtype=np.int64)
    place = np.full(n_leaves, -1)
    ratio = np.zeros((most, n_leaves))
    weight = np.zeros(n_leaves)
    polynomial = np.zeros((most + 1, block))
    suffix = np.zeros((most + 1, block))
    work = np.zeros((2, block))
    orders = np.zeros(most + 1)
    for left in lefts:
        start = leaf_ptr[left]
        n_common = leaf_ptr[left + 1] - start
        n_rights = 0
        features = leaf_feature[start : start + n_common]
        for k in range(n_common):
            feature = features[k]
            _set_ratios(
                leaf_interval[start + k],
                left,
                feature,
                interval_ptr,
                interval_leaf,
                probability,
                run_ptr,
                low,
                high,
                interval_ratio,
            )
            for position in range(feature_ptr[feature], feature_ptr[feature + 1]):
                right = feature_leaf[position]
                if right > left:
                    break
                if place[right] < 0:
                    place[right] = n_rights
                    rights[n_rights] = right
                    weight[n_rights] = amplitude[right] * (0.5 if right == left else 1.0)
                    for other in range(n_common):
                        ratio[other, n_rights] = 0.0
                    n_rights += 1
                ratio[k, place[right]] = interval_ratio[feature_interval[position]]
        for position in range(n_rights):
            place[rights[position]] = -1
        scale = 2.0 * amplitude[left]
        orders[:] = 0.0
        for first in range(0, n_rights, block):
            stop = min(first + block, n_rights)
            _add_orders(weight, ratio, n_common, first, stop, polynomial, orders)
            _add_totals(
                scale,
                weight,
                ratio,
                features,
                n_common,
                first,
                stop,
                suffix,
                work,
                pair_total,
                main_total,
            )
        for degree in range(n_common + 1):
            by_order[degree] += scale * orders[degree]


@kernel
def component_variance(
    features,
    leaves,
    entry_ptr,
    entry_feature,
    probability,
    run_ptr,
    low,
    high,
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
                both = _shared_mass(a, b, run_ptr, low, high)
                product *= both - probability[a] * probability[b]
            total += product
    return total
