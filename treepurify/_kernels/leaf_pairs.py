"""Second moments of an ensemble under independent features, from pairs of leaves."""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel, part

# Features of a leaf by which those that it is paired with are grouped; the others count as one.
_MOST_BITS = 10
# Leaves whose products with another one are computed together.
_BLOCK = 256


@part
def _shared_mass(first, second, run_ptr, low, high):
    """Return the probability that a value lies in both of two sets of runs."""
    total = 0.0
    a = run_ptr[first]
    b = run_ptr[second]
    while a < run_ptr[first + 1] and b < run_ptr[second + 1]:
        start = low[a] if low[a] > low[b] else low[b]
        stop = high[a] if high[a] < high[b] else high[b]
        total += stop - start if stop > start else 0.0
        if high[a] < high[b]:
            a += 1
        else:
            b += 1
    return total


# Without a test whether the divisor is zero, several numbers are divided at a time.
@part(error_model="numpy")
def _set_ratios(own, first, last, probability, run_ptr, low, high, ratio):
    """Set ``P(both) / (P(own) P(other)) - 1`` for the intervals of one feature."""
    others, both = probability[first:last], ratio[first:last]
    start, stop = run_ptr[first], run_ptr[last]
    if run_ptr[own + 1] - run_ptr[own] == 1 and stop - start == last - first:
        own_low, own_high = low[run_ptr[own]], high[run_ptr[own]]
        lows, highs = low[start:stop], high[start:stop]
        for i in range(len(both)):
            at = lows[i] if lows[i] > own_low else own_low
            end = highs[i] if highs[i] < own_high else own_high
            both[i] = end - at if end > at else 0.0
    else:
        for i in range(len(both)):
            both[i] = _shared_mass(own, first + i, run_ptr, low, high)
    for i in range(len(both)):
        both[i] = both[i] / (probability[own] * others[i]) - 1.0


# Sums may be reordered: only then are they computed several numbers at a time. Rows have names, as
# indices of them are computed again in every step of an inner loop.
@part(fastmath={"reassoc", "contract"})
def _add_orders(scale, weight, ratio, n_common, polynomial, orders):
    """Add the coefficients of ``scale sum_m weight[m] prod_k (1 + t ratio[k, m])``."""
    size = len(weight)
    for m in range(size):
        polynomial[0, m] = weight[m]
    for k in range(n_common):
        own, top, below = ratio[k], polynomial[k + 1], polynomial[k]
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
        orders[degree] += scale * total


@part(fastmath={"reassoc", "contract"})
def _add_totals(scale, weight, ratio, features, n_common, suffix, work, pair_total, main_total):
    """Add what is left of ``prod_k (1 + ratio[k, m])`` when one or two features give `ratio`.

    `suffix` and `work` are workspace for the products of the features behind, and of those before.
    """
    size = len(weight)
    for m in range(size):
        suffix[n_common, m] = 1.0
        work[0, m] = weight[m]
    before, inside = work[0], work[1]
    for k in range(n_common - 1, -1, -1):
        own, behind, product = ratio[k], suffix[k + 1], suffix[k]
        for m in range(size):
            product[m] = behind[m] * (1.0 + own[m])
    for i in range(n_common):
        total = 0.0
        own, behind = ratio[i], suffix[i + 1]
        for m in range(size):
            part = before[m] * own[m]
            inside[m] = part
            before[m] += part
            total += part * behind[m]
        main_total[features[i]] += scale * total
        for j in range(i + 1, n_common):
            total = 0.0
            own, behind = ratio[j], suffix[j + 1]
            for m in range(size):
                part = inside[m] * own[m]
                inside[m] += part
                total += part * behind[m]
            pair_total[features[i], features[j]] += scale * total


@inlined
def _end_of_run(first, last, leaf_ptr, leaf_feature):
    """Return the end of the leaves from `first` on that test the same features, at most `last`."""
    start = leaf_ptr[first]
    size = leaf_ptr[first + 1] - start
    for leaf in range(first + 1, last):
        other = leaf_ptr[leaf]
        if leaf_ptr[leaf + 1] - other != size:
            return leaf
        for k in range(size):
            if leaf_feature[other + k] != leaf_feature[start + k]:
                return leaf
    return last


@inlined
def _group(features, end, leaves, key, place, ends, interval):
    """Order the leaves before `end` by which of some features they test.

    Those with the same features are neighbours, up to ``ends[key]``, where bit k of the key stands
    for feature k; leaves without any have key 0 and no place. `interval` becomes their intervals,
    and one behind the last for a feature that a leaf does not test.
    """
    feature_ptr, feature_leaf = leaves.feature_ptr, leaves.feature_leaf
    feature_interval, untested = leaves.feature_interval, len(leaves.probability)
    for leaf in range(end):
        key[leaf] = 0
    for k in range(len(features)):
        bit = 1 << (k if k < _MOST_BITS else _MOST_BITS)
        for position in range(feature_ptr[features[k]], feature_ptr[features[k] + 1]):
            if feature_leaf[position] >= end:
                break
            key[feature_leaf[position]] |= bit
    for at in range(len(ends)):
        ends[at] = 0
    for leaf in range(end):
        if key[leaf]:
            ends[key[leaf]] += 1
    n_before = 0
    for at in range(len(ends)):
        n_before, ends[at] = n_before + ends[at], n_before
    for leaf in range(end):
        if key[leaf]:
            place[leaf] = ends[key[leaf]]
            ends[key[leaf]] += 1
    for k in range(len(features)):
        own = interval[k]
        if k >= _MOST_BITS:
            for at in range(n_before):
                own[at] = untested
        for position in range(feature_ptr[features[k]], feature_ptr[features[k] + 1]):
            if feature_leaf[position] >= end:
                break
            own[place[feature_leaf[position]]] = feature_interval[position]


# A part, since a number that is found here would be a literal first where it is inlined, and the
# parts that take it would be compiled twice.
@part
def _list_common(key, features, common, rows):
    """List the features that a key stands for, and their places; return their number."""
    n_common = 0
    for k in range(len(features)):
        if key >> (k if k < _MOST_BITS else _MOST_BITS) & 1:
            common[n_common], rows[n_common] = features[k], k
            n_common += 1
    return n_common


@inlined
def _take_ratios(of_intervals, intervals, to):
    for m in range(len(intervals)):
        to[m] = of_intervals[intervals[m]]


@kernel
def leaf_pair_moments(first_left, last_left, leaves, by_order, main_total, pair_total):
    """Add the pairs of some neighbours with all leaves up to themselves, in both orders.

    The expectation of the product of two leaves' boxes factors over features: along one that
    both test it is the product of their probabilities times ``1 + ratio``, where the ratio is
    their covariance over that product, and 0 along the others. With the amplitude, the
    value of a leaf times the probability of its box, a pair's part of the variance at order k
    is the coefficient of t^k in ``amplitudes * prod (1 + t ratio)``, and its part of the total
    index of (i, j) is what is left when i and j contribute their ratios. Leaves without a
    common feature add to order 0 alone, the squared mean, and are left out.

    Leaves that test the same features are neighbours, and are paired with the same others, which
    are grouped by the features that are common: a product takes no others. One leaf
    is paired with a block of a group at a time, so that the products of a block stay
    near the processor and several are taken at once. `leaves` are a
    `treepurify.engines.tree.independent_leaves.OutputLeaves`.
    """
    amplitude, leaf_ptr, leaf_feature = leaves.amplitude, leaves.leaf_ptr, leaves.leaf_feature
    leaf_interval, interval_ptr = leaves.leaf_interval, leaves.interval_ptr
    probability, run_ptr, low, high = leaves.probability, leaves.run_ptr, leaves.low, leaves.high
    depth = len(by_order) - 1
    # The last is that of a feature that a leaf does not test.
    interval_ratio = np.zeros(len(probability) + 1)
    weight, interval = np.zeros(last_left), np.empty((depth, last_left), np.int64)
    key, place = np.empty((2, last_left), np.int64)
    common, rows = np.empty((2, depth), np.int64)
    all_ends = np.empty(2 << _MOST_BITS, np.int64)
    ratio, products = np.empty((depth, _BLOCK)), np.empty((2, _BLOCK))
    polynomial, suffix = np.empty((depth + 1, _BLOCK)), np.empty((depth + 1, _BLOCK))
    begin = first_left
    while begin < last_left:
        end = _end_of_run(begin, last_left, leaf_ptr, leaf_feature)
        features = leaf_feature[leaf_ptr[begin] : leaf_ptr[begin + 1]]
        n_features = len(features)
        ends = all_ends[: 1 << (n_features if n_features <= _MOST_BITS else _MOST_BITS + 1)]
        _group(features, end, leaves, key, place, ends, interval)
        for leaf in range(end):
            if key[leaf]:
                # Every two of the run come in both orders.
                weight[place[leaf]] = amplitude[leaf] * (0.5 if leaf >= begin else 1.0)
        for left in range(begin, end):
            for k in range(n_features):
                own, j = leaf_interval[leaf_ptr[left] + k], features[k]
                first, last = interval_ptr[j], interval_ptr[j + 1]
                _set_ratios(own, first, last, probability, run_ptr, low, high, interval_ratio)
            scale = 2.0 * amplitude[left]
            for at in range(1, len(ends)):
                n_common = _list_common(at, features, common, rows)
                for first in range(ends[at - 1], ends[at], _BLOCK):
                    stop = first + _BLOCK if first + _BLOCK < ends[at] else ends[at]
                    weights = weight[first:stop]
                    for i in range(n_common):
                        _take_ratios(interval_ratio, interval[rows[i], first:stop], ratio[i])
                    _add_orders(scale, weights, ratio, n_common, polynomial, by_order)
                    _add_totals(
                        scale,
                        weights,
                        ratio,
                        common,
                        n_common,
                        suffix,
                        products,
                        pair_total,
                        main_total,
                    )
        begin = end
