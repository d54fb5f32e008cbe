"""Where rows that move along their features first come to a cut, on their way down a tree.

A row has three values of each feature: one below, its own, and one above, between which it moves.
Most cuts lie outside, and send all three to the same side.
"""

import numpy as np

from treepurify._kernels.compiling import part

# Which of the three values go somewhere, as bits.
BELOW, OWN, ABOVE = 1, 2, 4
ALL_VALUES = BELOW + OWN + ABOVE

# Number of rows that go down a tree side by side, as their values stay in the cache.
ROWS_A_BLOCK = 128


@part
def go_left(below, own, above, cut, missing_left, first, category_left):
    """Return, as bits, which of three values of a feature go left at a node.

    `first` is where the categories of the node begin, below zero for a numeric test.
    """
    if np.isnan(own):
        # What is missing has no place to move from.
        return ALL_VALUES if missing_left else 0
    if first >= 0:
        return (
            BELOW * category_left[first + np.int64(below)]
            + OWN * category_left[first + np.int64(own)]
            + ABOVE * category_left[first + np.int64(above)]
        )
    return BELOW * (below < cut) + OWN * (own < cut) + ABOVE * (above < cut)


@part
def find_partings(
    points,
    root,
    n_levels,
    tested,
    child,
    cut,
    missing_left,
    category_ptr,
    category_left,
    reached,
):
    """Find the first node on the way of each row whose values do not all go to one side.

    ``points[row, feature]`` holds the three values; `n_levels`, `tested` and `child` are those of a
    `Walk`. Where there is no such node, `reached` is the row's leaf.
    """
    for row in range(len(points)):
        reached[row] = root
    for _ in range(n_levels):
        for row in range(len(points)):
            # No branches, as in `add_leaf_values`. No value is missing where another is not.
            node = reached[row]
            j, here = tested[node], cut[node]
            below, own, above = points[row, j, 0], points[row, j, 1], points[row, j, 2]
            is_left = (own < here) | (np.isnan(own) & missing_left[node])
            parts = (below < here) & (above >= here)
            following = child[node, np.uint8(is_left)]
            reached[row] = node if parts else following
    for row in range(len(points)):
        node = reached[row]
        while child[node, 0] != node:
            j = tested[node]
            to_left = go_left(
                points[row, j, 0],
                points[row, j, 1],
                points[row, j, 2],
                cut[node],
                missing_left[node],
                category_ptr[node],
                category_left,
            )
            if to_left not in (0, ALL_VALUES):
                break
            node = child[node, 1 if to_left else 0]
        reached[row] = node
