"""The smallest sum of functions that are constant on boxes, by branch and bound."""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@part
def _is_inside(box, other, word_ptr):
    """Return whether two boxes share a cell along every feature."""
    for j in range(len(word_ptr) - 1):
        shared = np.uint64(0)
        for word in range(word_ptr[j], word_ptr[j + 1]):
            shared |= box[word] & other[word]
        if shared == 0:
            return False
    return True


@part
def _look(part_ptr, values, boxes, word_ptr, box, is_chosen):
    """Return the bound inside a box, the part that varies most there, and by how much."""
    bound, widest, width = 0.0, -1, 0.0
    for number in range(len(part_ptr) - 1):
        low = part_ptr[number]
        while not _is_inside(boxes[low], box, word_ptr):
            low += 1
        bound += values[low]
        if is_chosen[number]:
            continue
        high = part_ptr[number + 1] - 1
        while not _is_inside(boxes[high], box, word_ptr):
            high -= 1
        if widest < 0 or values[high] - values[low] > width:
            widest, width = number, values[high] - values[low]
    return bound, widest, width


@kernel
def search_smallest(part_ptr, values, boxes, word_ptr, below, most_boxes, best_box):
    """Find the smallest sum below `below` of one value from each part whose boxes share a cell.

    The boxes of a part, ``boxes[part_ptr[p]:part_ptr[p + 1]]``, fill all cells without overlap,
    and its values rise. Bits of ``boxes[i, word_ptr[j]:word_ptr[j + 1]]`` are the cells along
    feature j. `best_box` is filled with the box of the smallest sum.

    Returns the smallest sum found, or `below`; a bound that no sum is below; and the number of
    boxes looked at. The first two are equal unless there were more than `most_boxes`.
    """
    n_parts, n_words = len(part_ptr) - 1, boxes.shape[1]
    box = np.empty((n_parts + 1, n_words), dtype=np.uint64)
    box[0, :] = ~np.uint64(0)
    bound = np.empty(n_parts + 1)
    branch = np.empty(n_parts + 1, dtype=np.int64)
    option = np.empty(n_parts + 1, dtype=np.int64)
    smallest = np.empty(n_parts + 1)
    is_chosen = np.zeros(n_parts, dtype=np.bool_)
    best, n_boxes, depth, is_new = below, 0, 0, True
    while depth >= 0:
        if is_new:
            is_new = False
            n_boxes += 1
            bound[depth], branch[depth], width = _look(
                part_ptr, values, boxes, word_ptr, box[depth], is_chosen
            )
            if bound[depth] >= best or width == 0.0:
                if bound[depth] < best:
                    best = bound[depth]
                    best_box[:] = box[depth]
                depth -= 1
                continue
            is_chosen[branch[depth]] = True
            low = part_ptr[branch[depth]]
            while not _is_inside(boxes[low], box[depth], word_ptr):
                low += 1
            option[depth], smallest[depth] = low, values[low]
        part_end = part_ptr[branch[depth] + 1]
        at = option[depth]
        while at < part_end and not _is_inside(boxes[at], box[depth], word_ptr):
            at += 1
        if at == part_end or bound[depth] - smallest[depth] + values[at] >= best:
            is_chosen[branch[depth]] = False
            depth -= 1
            continue
        option[depth] = at
        if n_boxes >= most_boxes:
            break
        for word in range(n_words):
            box[depth + 1, word] = box[depth, word] & boxes[at, word]
        option[depth] = at + 1
        depth += 1
        is_new = True
    lowest = best
    while depth >= 0:
        # What is still to be looked at on each level begins with its next option.
        at = option[depth]
        if at < part_ptr[branch[depth] + 1]:
            rest = bound[depth] - smallest[depth] + values[at]
            lowest = min(lowest, rest)
        depth -= 1
    return best, lowest, n_boxes
