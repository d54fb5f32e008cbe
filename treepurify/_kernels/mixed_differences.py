"""Corners of leaf boxes as mixed differences, for subsets of features."""

import numpy as np

from treepurify._kernels.combinations import next_combination
from treepurify._kernels.compiling import kernel, part
from treepurify._kernels.corners import holds_cell


@part
def _mix(key, number):
    """Return a 64-bit hash of `key` and one more number (the finaliser of SplitMix64)."""
    z = key + np.uint64(0x9E3779B97F4A7C15) * (np.uint64(number) + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@part
def _off_anchor(first, width, entry_feature, run_ptr, run_start, run_stop, anchor):
    """Return, as bits, the entries of a leaf whose runs do not hold the anchor cell."""
    off = 0
    for k in range(width):
        cell = anchor[entry_feature[first + k]]
        if not holds_cell(first + k, cell, run_ptr, run_start, run_stop):
            off |= 1 << k
    return off


@part
def _corners_of_choice(
    first,
    chosen,
    size,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    n_cells,
    corner,
    write,
    n_found,
    first_key,
    second_key,
    sign_of,
):
    """Count the corners of one choice of entries, and write them from `n_found` if `write`.

    The first cell of an axis is not a corner: differences start at the second.
    """
    for k in range(size):
        corner[k] = 2 * run_ptr[first + chosen[k]]
    while True:
        inside = True
        sign = 1
        one = np.uint64(size)
        two = np.uint64(size + 1000)
        for k in range(size):
            feature = entry_feature[first + chosen[k]]
            run = corner[k] // 2
            if corner[k] % 2:
                cell = run_stop[run]
                sign = -sign
            else:
                cell = run_start[run]
            if cell == 0 or cell >= n_cells[feature]:
                inside = False
            one = _mix(_mix(one, feature), cell)
            two = _mix(_mix(two, cell), feature)
        if inside:
            if write:
                first_key[n_found] = one
                second_key[n_found] = two
                sign_of[n_found] = sign
            n_found += 1
        k = size - 1
        while k >= 0:
            corner[k] += 1
            if corner[k] < 2 * run_ptr[first + chosen[k] + 1]:
                break
            corner[k] = 2 * run_ptr[first + chosen[k]]
            k -= 1
        if k < 0:
            return n_found


@kernel
def mixed_corners(
    leaves,
    size,
    entry_ptr,
    entry_feature,
    run_ptr,
    run_start,
    run_stop,
    n_cells,
    anchor,
    label,
):
    """List the corners of the anchored components of `size` features.

    With the other features at their anchor cells, a leaf's box is a product over the chosen
    features, and its mixed difference is plus or minus one at the corners. Choices whose
    features share a label are left out.

    Returns
    -------
    first_key, second_key : (n_corners,)
        Two hashes of the chosen features and the cells of the corner.
    sign_of : (n_corners,)
        Plus or minus one.
    leaf_of : (n_corners,)
        The leaf.
    choice : (n_corners,)
        The leaf's entries that were chosen, as bits.
    """
    n_found = 0
    first_key = np.zeros(0, dtype=np.uint64)
    second_key = np.zeros(0, dtype=np.uint64)
    sign_of = np.zeros(0, dtype=np.int64)
    leaf_of = np.zeros(0, dtype=np.int64)
    choice = np.zeros(0, dtype=np.int64)
    chosen = np.zeros(64, dtype=np.int64)
    corner = np.zeros(64, dtype=np.int64)
    for sweep in range(2):
        if sweep == 1:
            first_key = np.zeros(n_found, dtype=np.uint64)
            second_key = np.zeros(n_found, dtype=np.uint64)
            sign_of = np.zeros(n_found, dtype=np.int64)
            leaf_of = np.zeros(n_found, dtype=np.int64)
            choice = np.zeros(n_found, dtype=np.int64)
            n_found = 0
        for leaf in leaves:
            first = entry_ptr[leaf]
            width = entry_ptr[leaf + 1] - first
            if width < size:
                continue
            off = _off_anchor(first, width, entry_feature, run_ptr, run_start, run_stop, anchor)
            for k in range(size):
                chosen[k] = k
            more = True
            while more:
                bits = 0
                same = True
                for k in range(size):
                    bits |= 1 << chosen[k]
                    own = label[entry_feature[first + chosen[k]]]
                    same &= own == label[entry_feature[first + chosen[0]]]
                if off & ~bits == 0 and not same:
                    before = n_found
                    n_found = _corners_of_choice(
                        first,
                        chosen,
                        size,
                        entry_feature,
                        run_ptr,
                        run_start,
                        run_stop,
                        n_cells,
                        corner,
                        sweep == 1,
                        n_found,
                        first_key,
                        second_key,
                        sign_of,
                    )
                    if sweep == 1:
                        leaf_of[before:n_found] = leaf
                        choice[before:n_found] = bits
                more = next_combination(chosen, size, width)
    return first_key, second_key, sign_of, leaf_of, choice
