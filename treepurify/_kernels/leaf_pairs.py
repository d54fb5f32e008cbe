"""Second moments of an ensemble under independent features, from pairs of leaves."""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel, part
from treepurify._kernels.sorted_numbers import count_below

# Features of a leaf by which those that it is paired with are grouped; the others count as one.
MOST_BITS = 10
# Leaves whose products with another one are computed together.
_BLOCK = 256


@part
def _shared_mass(first, second, run_ptr, low, high):
    """Return the probability that a value lies in both intervals."""
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


@inlined
def _set_ratios(
    interval,
    end,
    feature,
    interval_ptr,
    interval_leaf,
    probability,
    run_ptr,
    low,
    high,
    ratio,
):
    """Set ``P(both) / (P(one) P(other)) - 1`` for a feature's intervals of leaves before `end`."""
    first = interval_ptr[feature]
    last = first + count_below(interval_leaf[first : interval_ptr[feature + 1]], end)
    start, stop = run_ptr[first], run_ptr[last]
    own, n_own = run_ptr[interval], run_ptr[interval + 1] - run_ptr[interval]
    both = ratio[first:last]
    if n_own == 1 and stop - start == last - first:
        _shared_masses(low[own], high[own], low[start:stop], high[start:stop], both)
    else:
        for other in range(first, last):
            both[other - first] = _shared_mass(interval, other, run_ptr, low, high)
    _relate(probability[interval], probability[first:last], both)


@part
def _shared_masses(own_low, own_high, low, high, shared):
    """Set the probability that a value lies in one interval and in each of some others."""
    for i in range(len(shared)):
        start = low[i] if low[i] > own_low else own_low
        stop = high[i] if high[i] < own_high else own_high
        shared[i] = stop - start if stop > start else 0.0


# Without a test whether the divisor is zero, several numbers are divided at a time.
@part(error_model="numpy")
def _relate(one, others, both):
    """Replace ``P(both)`` by ``P(both) / (P(one) P(other)) - 1``."""
    for i in range(len(both)):
        both[i] = both[i] / (one * others[i]) - 1.0


# Sums may be reordered: only then are they computed several numbers at a time. Rows have names, as
# indices of them are computed again in every step of an inner loop.
@part(fastmath={"reassoc", "contract"})
def _add_orders(weight, ratio, n_common, polynomial, orders):
    """Add the coefficients of ``sum_m weight[m] prod_k (1 + t ratio[k, m])`` to `orders`."""
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
        orders[degree] += total


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
def _group(
    features,
    end,
    feature_ptr,
    feature_leaf,
    feature_interval,
    untested,
    key,
    place,
    ends,
    interval,
):
    """Order the leaves before `end` by which of some features they test.

    Those with the same features are neighbours, up to ``ends[key]``, where bit k of the key stands
    for feature k; leaves without any have key 0 and no place. `interval` becomes their intervals,
    and `untested` for a feature that a leaf does not test.
    """
    for leaf in range(end):
        key[leaf] = 0
    for k in range(len(features)):
        bit = 1 << (k if k < MOST_BITS else MOST_BITS)
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
        if k >= MOST_BITS:
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
        if key >> (k if k < MOST_BITS else MOST_BITS) & 1:
            common[n_common], rows[n_common] = features[k], k
            n_common += 1
    return n_common


@inlined
def _take_ratios(of_intervals, intervals, to):
    for m in range(len(intervals)):
        to[m] = of_intervals[intervals[m]]


@kernel
def leaf_pair_moments(
    first_left,
    last_left,
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
    workspace,
    by_order,
    pair_total,
    main_total,
):
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
    near the processor and several are taken at once. An interval is a set of runs between
    two cumulative probabilities, `low` and `high`.
    """
    # The last is that of a feature that a leaf does not test.
    untested = len(probability)
    interval_ratio, interval, weight = workspace.of_intervals, workspace.interval, workspace.weight
    key, place, all_ends = workspace.key, workspace.place, workspace.ends
    common, rows, orders = workspace.common, workspace.rows, workspace.orders
    # Here, where the compiler knows that they are different memory.
    ratio, products = np.empty((len(common), _BLOCK)), np.empty((2, _BLOCK))
    polynomial, suffix = np.empty((len(orders), _BLOCK)), np.empty((len(orders), _BLOCK))
    begin = first_left
    while begin < last_left:
        end = _end_of_run(begin, last_left, leaf_ptr, leaf_feature)
        features = leaf_feature[leaf_ptr[begin] : leaf_ptr[begin + 1]]
        n_features = len(features)
        ends = all_ends[: 1 << (n_features if n_features <= MOST_BITS else MOST_BITS + 1)]
        _group(
            features,
            end,
            feature_ptr,
            feature_leaf,
            feature_interval,
            untested,
            key,
            place,
            ends,
            interval,
        )
        for leaf in range(end):
            if key[leaf]:
                # Every two of the run come in both orders.
                weight[place[leaf]] = amplitude[leaf] * (0.5 if leaf >= begin else 1.0)
        for left in range(begin, end):
            for k in range(n_features):
                _set_ratios(
                    leaf_interval[leaf_ptr[left] + k],
                    end,
                    features[k],
                    interval_ptr,
                    interval_leaf,
                    probability,
                    run_ptr,
                    low,
                    high,
                    interval_ratio,
                )
            scale = 2.0 * amplitude[left]
            for degree in range(n_features + 1):
                orders[degree] = 0.0
            for at in range(1, len(ends)):
                n_common = _list_common(at, features, common, rows)
                for first in range(ends[at - 1], ends[at], _BLOCK):
                    stop = first + _BLOCK if first + _BLOCK < ends[at] else ends[at]
                    weights = weight[first:stop]
                    for i in range(n_common):
                        _take_ratios(interval_ratio, interval[rows[i], first:stop], ratio[i])
                    _add_orders(weights, ratio, n_common, polynomial, orders)
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
            for degree in range(n_features + 1):
                by_order[degree] += scale * orders[degree]
        begin = end


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
    n_features, n = len(features), len(leaves)
    entries = np.zeros((n_features, n), dtype=np.int64)
    chance, first_low, first_high = np.zeros((3, n_features, n))
    has_one_run = np.ones(n_features, dtype=np.bool_)
    weights, products, shared = np.zeros((3, n))
    for i in range(n):
        weights[i] = values[leaves[i]]
        position = 0
        for entry in range(entry_ptr[leaves[i]], entry_ptr[leaves[i] + 1]):
            if position < n_features and entry_feature[entry] == features[position]:
                run = run_ptr[entry]
                entries[position, i], chance[position, i] = entry, probability[entry]
                first_low[position, i], first_high[position, i] = low[run], high[run]
                has_one_run[position] &= run_ptr[entry + 1] - run == 1
                position += 1
            else:
                weights[i] *= probability[entry]
    total = 0.0
    for i in range(n):
        product, both = products[: i + 1], shared[: i + 1]
        for j in range(i + 1):
            product[j] = weights[j]
        for k in range(n_features):
            lows, highs = first_low[k, : i + 1], first_high[k, : i + 1]
            if has_one_run[k]:
                _shared_masses(lows[i], highs[i], lows, highs, both)
            else:
                for j in range(i + 1):
                    if product[j] != 0.0:
                        a, b = entries[k, i], entries[k, j]
                        both[j] = _shared_mass(a, b, run_ptr, low, high)
            _multiply_covariances(chance[k, i], chance[k], both, product)
        total += weights[i] * (2.0 * _sum(product) - product[i])
    return total


@part
def _multiply_covariances(one, others, both, product):
    """Multiply by the covariances of one interval with some others."""
    for j in range(len(product)):
        product[j] *= both[j] - one * others[j]


@part(fastmath={"reassoc"})
def _sum(values):
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    return total
