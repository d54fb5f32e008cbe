"""Interventional Shapley values of trees, by walking each row down with all background rows.

A leaf adds something for a row and a background row only if each feature of its path is passed by
one of the two. Walking down, a row and the background rows that are still with it part where they
take different sides: all of them go on to the row's side, where those that fail the test are
marked, and those that pass the other side go there, too. Few of them reach most leaves (Lundberg
et al. 2020, algorithm 3, for all background rows at a time).
"""

import numpy as np

from treepurify._kernels.compiling import kernel, part


@kernel
def write_visits(left, right, visits):
    """Write how many nodes below each one a pair of rows visits on its way to wanted leaves.

    In `visits` wanted leaves have a one. Two rows go the same way at half of the tests, so that a
    child is visited in three of four cases. Zero where no wanted leaf is below. Children come
    after their parents.
    """
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            below = visits[left[node]] + visits[right[node]]
            visits[node] = 1.0 + 0.75 * below if below > 0.0 else 0.0


@part
def _n_ones(pattern):
    """Return the number of ones of a pattern, by sums of two, four and eight neighbours."""
    pairs = pattern - ((pattern >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = np.uint64(0x3333333333333333)
    fours = (pairs & low) + ((pairs >> np.uint64(2)) & low)
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((eights * np.uint64(0x0101010101010101)) >> np.uint64(56))


@part
def is_left(x, threshold, missing_left, table, category_left):
    if table < 0:
        return (x < threshold) | (missing_left & np.isnan(x))
    return missing_left if np.isnan(x) else category_left[table + np.int64(x)]


@part
def _move_right(member, failed, start, stop, goes_left):
    """Move the background rows that go right behind ``stop``.

    Returns
    -------
    kept, end : int
        Those that go left are now at ``start:kept``, the others at ``stop:end``.
    """
    kept, end = start, stop
    for at in range(start, stop):
        who, pattern, goes = member[at], failed[at], goes_left[at - start]
        member[end], failed[end] = who, pattern
        member[kept], failed[kept] = who, pattern
        kept += goes
        end += not goes
    return kept, end


@part
def _copy_differing(member, failed, start, stop, goes_left, row_goes_left, own):
    """Copy the background rows that part from the row at a test behind ``stop``, up to ``end``.

    All stay with the row as well, where those that part from it fail the feature. Those that had
    failed it before cannot pass it on the other side.
    """
    end = stop
    for at in range(start, stop):
        pattern = failed[at]
        differs = goes_left[at - start] != row_goes_left
        member[end], failed[end] = member[at], pattern
        # No branches: a processor could not foresee them.
        end += differs & (pattern >> own & np.uint64(1) == 0)
        failed[at] = pattern | np.uint64(differs) << own
    return end


@part
def add_leaf(patterns, shares, row_failed, gains, losses, width, sums):
    """Write what a leaf of value one adds for each feature of its path.

    ``patterns`` are those of the path's features that each background row fails, ``row_failed``
    those that the row fails.
    """
    n_lost = _n_ones(row_failed)
    loss = 0.0
    for k in range(width):
        sums[k] = 0.0
    for at in range(len(patterns)):
        pattern = patterns[at]
        n_gained = _n_ones(pattern)
        gain = shares[at] * gains[n_gained, n_lost]
        loss += shares[at] * losses[n_gained, n_lost]
        for k in range(width):
            sums[k] += gain * np.float64(pattern >> np.uint64(k) & np.uint64(1))
    for k in range(width):
        if row_failed >> np.uint64(k) & np.uint64(1):
            sums[k] = loss


@kernel
def walk_background(
    root,
    height,
    rows,
    background,
    weights,
    is_wanted,
    feature,
    player,
    cut,
    left,
    right,
    missing_left,
    category_ptr,
    category_left,
    bit,
    n_bits,
    value,
    first_output,
    gains,
    losses,
    workspace,
    phi,
):
    """Add the Shapley values of the wanted leaves of a tree to ``phi``.

    Parameters
    ----------
    root, height : int
        The tree's root, and the number of tests on its longest path.
    rows, background : (n_features, n_rows), (n_features, n_background)
        The rows to explain, and those that stand for the distribution.
    weights : (n_background,)
        Weight of each background row.
    is_wanted : (n_nodes,)
        Whether a wanted leaf is at or below each node.
    player, bit, n_bits : (n_nodes,)
        See `path_bits`.
    gains, losses : (n, n)
        See `treepurify.shapley.twigs.leaf_weights`.
    workspace : treepurify.shapley.few_rows.WalkWorkspace
        Workspace, which would take long to compile here.
    phi : (n_outputs, n_players, n_rows)
        Those of the tree begin with ``first_output``.
    """
    n_background = background.shape[1]
    member, failed, shares = workspace.member, workspace.failed, workspace.shares
    goes_left, waiting, row_failed_of = workspace.goes_left, workspace.waiting, workspace.row_failed
    node_of, start_of, stop_of = waiting[0], waiting[1], waiting[2]
    player_of_bit, sums = workspace.player_of_bit, workspace.sums
    one = np.uint64(1)
    for row in range(rows.shape[1]):
        for at in range(n_background):
            member[at] = at
            failed[at] = 0
        node_of[0], start_of[0], stop_of[0], row_failed_of[0] = root, 0, n_background, 0
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            node, row_failed = node_of[n_waiting], row_failed_of[n_waiting]
            start, stop = start_of[n_waiting], stop_of[n_waiting]
            while left[node] >= 0 and start < stop:
                own = np.uint64(bit[node])
                # Nodes below a sibling have written higher bits only.
                player_of_bit[bit[node]] = player[node]
                column, threshold = background[feature[node]], cut[node]
                to_left = missing_left[node]
                table = category_ptr[node]
                for at in range(start, stop):
                    goes_left[at - start] = is_left(
                        column[member[at]], threshold, to_left, table, category_left
                    )
                stay, move, stop_of_stay, moved_failed = left[node], right[node], stop, row_failed
                if row_failed >> own & one:
                    # The background row decides alone.
                    stop_of_stay, end = _move_right(member, failed, start, stop, goes_left)
                else:
                    x = rows[feature[node], row]
                    row_goes_left = is_left(x, threshold, to_left, table, category_left)
                    if not row_goes_left:
                        stay, move = move, stay
                    end = _copy_differing(
                        member, failed, start, stop, goes_left, row_goes_left, own
                    )
                    moved_failed |= one << own
                if stop_of_stay > start and is_wanted[stay]:
                    node_of[n_waiting], row_failed_of[n_waiting] = stay, row_failed
                    start_of[n_waiting], stop_of[n_waiting] = start, stop_of_stay
                    n_waiting += 1
                node, row_failed = move, moved_failed
                start, stop = stop, end if is_wanted[move] else stop
            if start == stop:
                continue
            for at in range(start, stop):
                shares[at - start] = weights[member[at]]
            width = n_bits[node]
            add_leaf(failed[start:stop], shares, row_failed, gains, losses, width, sums)
            for k in range(width):
                if sums[k] != 0.0:
                    for v in range(value.shape[1]):
                        phi[first_output + v, player_of_bit[k], row] += sums[k] * value[node, v]
