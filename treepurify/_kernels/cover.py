"""Path-dependent expectations of leaves: products of the shares of training rows on each path."""

import numpy as np

from treepurify._kernels.combinations import next_combination
from treepurify._kernels.compiling import kernel
from treepurify._kernels.partial_dependence import pattern_slot


@kernel
def weights_below(left, right, cover):
    """Return the weight of the training rows at each node: that of the leaves below it."""
    below = cover.copy()
    # Children stand after their parents.
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            below[node] = below[left[node]] + below[right[node]]
    return below


@kernel
def path_ratios(leaves, parent, feature, left, right, below, entry_ptr, entry_feature, ratio):
    """Set, for each entry of a leaf, the share of training rows that its feature's tests let by.

    A feature that is tested several times has the product of the shares of all its tests. Where
    no training row comes to a test, each side counts half.
    """
    ratio[:] = 1.0
    for i in range(len(leaves)):
        node = leaves[i]
        while parent[node] >= 0:
            above = parent[node]
            total = below[left[above]] + below[right[above]]
            share = below[node] / total if total > 0.0 else 0.5
            for entry in range(entry_ptr[i], entry_ptr[i + 1]):
                if entry_feature[entry] == feature[above]:
                    ratio[entry] *= share
            node = above


@kernel
def products_outside(leaves, entry_ptr, ratio, limit, choose, slot_ptr, share):
    """Set the product of the ratios outside each subset of at most `limit` of a path's features.

    Subsets stand by size, then as `pattern_slot` numbers them.
    """
    chosen = np.zeros(limit + 1, dtype=np.int64)
    for leaf in leaves:
        first = entry_ptr[leaf]
        d = entry_ptr[leaf + 1] - first
        for size in range(min(limit, d) + 1):
            for k in range(size):
                chosen[k] = k
            while True:
                product = 1.0
                position = 0
                for k in range(d):
                    if position < size and chosen[position] == k:
                        position += 1
                    else:
                        product *= ratio[first + k]
                share[slot_ptr[leaf] + pattern_slot(chosen, size, d, choose)] = product
                if not next_combination(chosen, size, d):
                    break
