"""Conditional expectations of leaf boxes under independent features."""

import numpy as np

from treepurify._kernels.combinations import next_combination
from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.corners import add_corners, holds_cell


@part
def count_below(numbers, bound):
    """Return how many of some sorted numbers are below a bound."""
    first, last = 0, len(numbers)
    while first < last:
        middle = (first + last) // 2
        if numbers[middle] < bound:
            first = middle + 1
        else:
            last = middle
    return first


_ROWS_A_BLOCK = 512


@kernel
def add_conditional_corners(
    leaves,
    size,
    base,
    entry_ptr,
    entry_feature,
    probability,
    run_ptr,
    run_start,
    run_stop,
    group_key,
    group_offset,
    group_extents,
    values,
    output,
    tables,
):
    """Add each leaf's conditional expectation given every `size` of its features.

    Given the features of a choice S, the leaf's box counts with its value times the
    probabilities of its other features: signed corners of a difference table, as in
    `add_corners`. ``group_key`` is sorted; choices that are not in it are skipped.
    """
    chosen = np.zeros(size, dtype=np.int64)
    entries = np.zeros(size, dtype=np.int64)
    corner = np.zeros(size, dtype=np.int64)
    n_corners = np.zeros(size, dtype=np.int64)
    for leaf in leaves:
        first = entry_ptr[leaf]
        n = entry_ptr[leaf + 1] - first
        if n < size:
            continue
        for k in range(size):
            chosen[k] = k
        while True:
            key = 0
            for k in range(size):
                entries[k] = first + chosen[k]
                key = key * base + entry_feature[entries[k]]
            group = count_below(group_key, key)
            if group < len(group_key) and group_key[group] == key:
                weight = 1.0
                position = 0
                for k in range(n):
                    if position < size and chosen[position] == k:
                        position += 1
                    else:
                        weight *= probability[first + k]
                add_corners(
                    size,
                    entries,
                    run_ptr,
                    run_start,
                    run_stop,
                    group_extents[group],
                    group_offset[group],
                    weight,
                    values[leaf],
                    output[leaf],
                    tables,
                    corner,
                    n_corners,
                )
            if not next_combination(chosen, size, n):
                break


@kernel
def evaluate_boxes(
    cells,
    features,
    leaves,
    entry_ptr,
    entry_feature,
    probability,
    run_ptr,
    run_start,
    run_stop,
    values,
    output,
    total,
):
    """Add the component of `features` of every leaf to `total`, shape (n_outputs, n_rows).

    ``value * prod_{i in features} (1_i - p_i) * prod_{other j on the path} p_j``. `cells` has a
    line for each feature. Rows are taken in blocks that stay in the cache.
    """
    entries = np.zeros(len(features), dtype=np.int64)
    block = np.empty(min(cells.shape[1], _ROWS_A_BLOCK))
    for first in range(0, cells.shape[1], _ROWS_A_BLOCK):
        last = min(first + _ROWS_A_BLOCK, cells.shape[1])
        factor = block[: last - first]
        for leaf in leaves:
            rest = 1.0
            position = 0
            for entry in range(entry_ptr[leaf], entry_ptr[leaf + 1]):
                if position < len(features) and entry_feature[entry] == features[position]:
                    entries[position] = entry
                    position += 1
                else:
                    rest *= probability[entry]
            if rest == 0.0:
                continue
            for row in range(len(factor)):
                factor[row] = rest
            for k in range(len(features)):
                along, entry = cells[k, first:last], entries[k]
                _multiply_centred(
                    along, entry, probability[entry], run_ptr, run_start, run_stop, factor
                )
            if output[leaf] >= 0:
                _add_multiple(factor, values[leaf, 0], total[output[leaf], first:last])
            else:
                for m in range(len(total)):
                    _add_multiple(factor, values[leaf, m], total[m, first:last])


@part
def _multiply_centred(cells, entry, probability, run_ptr, run_start, run_stop, factor):
    """Multiply each row's factor by whether its cell is in the runs of an entry, centred."""
    run = run_ptr[entry]
    if run_ptr[entry + 1] - run == 1:
        start, stop = run_start[run], run_stop[run]
        inside, outside = 1.0 - probability, -probability
        for row in range(len(factor)):
            is_inside = (cells[row] >= start) & (cells[row] < stop)
            factor[row] *= inside if is_inside else outside
    else:
        for row in range(len(factor)):
            is_inside = holds_cell(entry, cells[row], run_ptr, run_start, run_stop)
            factor[row] *= is_inside - probability


@part
def _add_multiple(factor, value, to):
    for row in range(len(factor)):
        to[row] += factor[row] * value
