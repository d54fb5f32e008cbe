"""Orders and interactions of an ensemble on sampled rows, under independent features."""

import numpy as np

from treepurify._kernels.compiling import inlined, kernel, part

# Conditions of a leaf of which rows meet one of all combinations, listed beforehand.
_CHUNK = 10


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
    orders, mains, pairs : (n_rows, depth + 1), (n_features, n_rows), (n_pairs, n_rows)
        What is added to.
    """
    values, leaf_ptr, run_ptr = leaves.values, leaves.leaf_ptr, leaves.run_ptr
    n_rows, depth = len(orders), orders.shape[1] - 1
    n_chunks = (depth + _CHUNK - 1) // _CHUNK
    probability, products = np.empty(depth), np.empty((n_chunks, depth + 1))
    # For all combinations of conditions that are met, bits of a number: a polynomial, and how many.
    polynomials = np.empty((n_chunks, 1 << _CHUNK, _CHUNK + 1))
    n_met = np.zeros(1 << _CHUNK, dtype=np.int64)
    for number in range(1, len(n_met)):
        n_met[number] = n_met[number >> 1] + (number & 1)
    met, near = np.empty((n_chunks, n_rows), dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    for leaf in range(len(values)):
        start = leaf_ptr[leaf]
        width = leaf_ptr[leaf + 1] - start
        features = leaves.leaf_feature[start : start + width]
        for k in range(width):
            interval, chunk, place = leaves.leaf_interval[start + k], k // _CHUNK, k % _CHUNK
            first, last = run_ptr[interval], run_ptr[interval + 1]
            low, high = leaves.low[first:last], leaves.high[first:last]
            probability[k] = leaves.probability[interval]
            if place == 0:
                polynomials[chunk, 0, 0] = values[leaf] if k == 0 else 1.0
            _multiply(polynomials[chunk], place, probability[k])
            _mark(positions[features[k]], low, high, place, met[chunk])
        of_leaf = slots[slot_ptr[leaf] : slot_ptr[leaf + 1]]
        if width <= _CHUNK:
            _add_polynomials(polynomials[0], met[0], width, orders)
        else:
            _add_products(polynomials, met, width, products, orders)
        n_near = 0
        for row in range(n_rows):
            near[n_near], total = row, 0
            for chunk in range((width + _CHUNK - 1) // _CHUNK):
                total += n_met[met[chunk, row]]
            n_near += total >= width - 2
        _add_totals(values[leaf], near[:n_near], features, probability, met, of_leaf, mains, pairs)


@inlined
def _multiply(polynomials, degree, probability):
    """Multiply by one condition more, ``p + t (1 - p)`` where it is met and else ``p - t p``."""
    n = 1 << degree
    for number in range(n):
        missed, met = polynomials[number], polynomials[n + number]
        missed[degree + 1] = 0.0
        for power in range(degree + 1, 0, -1):
            own, lower = missed[power], missed[power - 1]
            met[power] = own * probability + lower * (1.0 - probability)
            missed[power] = (own - lower) * probability
        met[0] = missed[0] = missed[0] * probability


@inlined
def _mark(positions, low, high, place, met):
    """Set a bit for the rows in one of some runs; the first clears all others."""
    if place == 0:
        for row in range(len(positions)):
            met[row] = 0
    bit = 1 << place
    for run in range(len(low)):
        start, stop = low[run], high[run]
        for row in range(len(positions)):
            met[row] |= bit if (start <= positions[row]) & (positions[row] < stop) else 0


# Parts with a loop each: a call within a loop over rows would take longer than what it does.
@part
def _add_polynomials(polynomials, met, width, orders):
    for row in range(len(orders)):
        to, own = orders[row], polynomials[met[row]]
        for power in range(width + 1):
            to[power] += own[power]


@part
def _add_products(polynomials, met, width, products, orders):
    """Add the product of the polynomials of all chunks."""
    last = (width - 1) // _CHUNK
    for row in range(len(orders)):
        for power in range(_CHUNK + 1):
            products[0, power] = polynomials[0, met[0, row], power]
        for chunk in range(1, last + 1):
            before, product = products[chunk - 1], products[chunk]
            factor, done = polynomials[chunk, met[chunk, row]], chunk * _CHUNK
            for power in range(width + 1):
                product[power] = 0.0
            for j in range(_CHUNK + 1 if chunk < last else width - done + 1):
                for i in range(done + 1):
                    product[i + j] += before[i] * factor[j]
        for power in range(width + 1):
            orders[row, power] += products[last, power]


@part
def _add_totals(value, rows, features, probability, met, slots, mains, pairs):
    """Add a leaf to rows that miss two of its conditions at most."""
    for row in rows:
        n_missed, slot = 0, 0
        for i in range(len(features)):
            n_missed += 1 - (met[i // _CHUNK, row] >> (i % _CHUNK) & 1)
        for i in range(len(features)):
            inside = met[i // _CHUNK, row] >> (i % _CHUNK) & 1
            own, still = value * (inside - probability[i]), n_missed - (1 - inside)
            if still == 0:
                mains[features[i], row] += own
            for j in range(i + 1, len(features) if still <= 1 else 0):
                inside = met[j // _CHUNK, row] >> (j % _CHUNK) & 1
                if still == 1 - inside:
                    pairs[slots[slot + j - i - 1], row] += own * (inside - probability[j])
            slot += len(features) - i - 1
