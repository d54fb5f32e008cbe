"""Products of the splits of a tree by walking all its paths, and sums over all joint cells."""

from itertools import combinations

import numpy as np


def products_on_paths(ensemble, tree, grid, masses, order):
    """Sets of sides, each a feature and its cells with mass, of different features on one path."""
    found = {frozenset()}
    for path in _paths(ensemble, int(ensemble.tree_ptr[tree]), grid, masses, [], {}):
        for size in range(1, order + 1):
            for some in combinations(path, size):
                if len({j for j, _ in some}) == size:
                    found.add(frozenset(some))
    return found


def _paths(ensemble, node, grid, masses, path, reached):
    j = int(ensemble.feature[node])
    if j < 0:
        yield path
        return
    axis, present = grid.axes[j], frozenset(np.flatnonzero(masses[j] > 0).tolist())
    missing = frozenset([axis.missing_cell] if axis.has_missing else []) & present
    left_reached, right_reached = reached, reached
    if axis.is_categorical:
        table = ensemble.category_left[ensemble.category_ptr[node] :]
        goes_left = {c for c in present - missing if table[c]}
        goes_left |= missing if ensemble.missing_left[node] else set()
        here = reached.get(j, present)
        side = here & goes_left
        sides = [side] if side and side != here else []
        left_reached, right_reached = reached | {j: side}, reached | {j: here - side}
    else:
        begins = np.concatenate([[-np.inf], axis.cuts])
        known = present - missing
        side = frozenset(c for c in known if begins[c] < ensemble.cut[node])
        sides = [side] if side and side != known else []
        sides += [missing] if missing and known else []
    below = [*path, *((j, frozenset(side)) for side in sides)]
    yield from _paths(ensemble, int(ensemble.left[node]), grid, masses, below, left_reached)
    yield from _paths(ensemble, int(ensemble.right[node]), grid, masses, below, right_reached)


def leaf_of_rows(ensemble, tree, X):
    """The leaf that each row reaches, as a node of the ensemble."""
    leaves = []
    for row in X:
        node = int(ensemble.tree_ptr[tree])
        while ensemble.feature[node] >= 0:
            x, table = row[ensemble.feature[node]], ensemble.category_ptr[node]
            if np.isnan(x):
                is_left = ensemble.missing_left[node]
            elif table >= 0:
                is_left = ensemble.category_left[table + int(x)]
            else:
                is_left = x < ensemble.cut[node]
            node = int((ensemble.left if is_left else ensemble.right)[node])
        leaves.append(node)
    return np.array(leaves)


def in_sides(sides, codes):
    """Whether each row is in each side, shape (n_rows, n_sides)."""
    columns = np.zeros((codes.shape[1], len(sides.feature)))
    for side, j in enumerate(sides.feature):
        for run in range(sides.run_ptr[side], sides.run_ptr[side + 1]):
            columns[:, side] += (sides.run_start[run] <= codes[j]) & (
                codes[j] < sides.run_stop[run]
            )
    return columns


def in_products(products, columns):
    """Products of these columns, shape (n_rows, n_products)."""
    padded = np.column_stack([columns, np.ones(len(columns))])
    return padded[:, products.products].prod(axis=2)
