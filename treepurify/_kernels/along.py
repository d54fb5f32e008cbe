"""Walk rows down trees with all values of one feature at a time."""

import numpy as np

from treepurify._kernels.background_walk import is_left
from treepurify._kernels.compiling import kernel


@kernel
def add_steps_along(
    rows,
    feature,
    along,
    n_numbers,
    turn,
    tree_ptr,
    tested,
    child,
    cut,
    missing_left,
    category_ptr,
    category_left,
    value,
    tree_output,
    waiting,
    steps,
):
    """Add the leaves of rows whose feature has each of some values, as steps between the values.

    A row is at a node with a run of neighbouring values. A node that tests the feature parts the
    run; at others all of it goes where the row goes. So few leaves are reached, however many
    values there are.

    Parameters
    ----------
    rows : (n_rows, n_used)
        The features that the trees test.
    feature : int
        Position of the feature among them.
    along : (n_values,)
        Its values, increasing; missing ones are last.
    n_numbers : int
        Number of those that are not missing.
    turn : (n_nodes,)
        Number of values below the cut of each node.
    tested, child
        See `_Walk`: a leaf is its own child.
    waiting : (n, 3)
        Workspace: nodes that are to be walked to, and the runs that go there.
    steps : (n_rows, n_outputs, n_values + 1)
        At a value: what the leaves have there, minus what they have at the value before.
    """
    for tree in range(len(tree_ptr) - 1):
        output = tree_output[tree]
        first = output if output >= 0 else 0
        stop = output + 1 if output >= 0 else steps.shape[1]
        for row in range(len(rows)):
            waiting[0, 0], waiting[0, 1], waiting[0, 2] = tree_ptr[tree], 0, len(along)
            n_waiting = 1
            while n_waiting > 0:
                n_waiting -= 1
                node, at, end = waiting[n_waiting]
                while child[node, 0] != node and tested[node] != feature:
                    goes_left = is_left(
                        rows[row, tested[node]],
                        cut[node],
                        missing_left[node],
                        category_ptr[node],
                        category_left,
                    )
                    node = np.int64(child[node, np.uint8(goes_left)])
                if child[node, 0] == node:
                    for k in range(first, stop):
                        steps[row, k, at] += value[node, k - first]
                        steps[row, k, end] -= value[node, k - first]
                    continue
                while at < end:
                    goes_left = is_left(
                        along[at],
                        cut[node],
                        missing_left[node],
                        category_ptr[node],
                        category_left,
                    )
                    after = at + 1
                    if category_ptr[node] < 0:
                        after = end
                        for turning in (n_numbers, turn[node]):
                            if at < turning < end:
                                after = turning
                    waiting[n_waiting, 0] = child[node, np.uint8(goes_left)]
                    waiting[n_waiting, 1], waiting[n_waiting, 2] = at, after
                    n_waiting, at = n_waiting + 1, after
