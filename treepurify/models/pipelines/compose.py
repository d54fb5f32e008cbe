"""Compose a tree ensemble with the transformers before it: trees on the raw columns.

A test of a transformed column is a test of one raw column: by a table of its labels, or by the
numbers at which the sides change. Where they change once the node stays one node. Where they do not
(a number that is missing to the model, a function that rises and falls) it becomes several cuts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.errors import UnsupportedModelError
from treepurify.models.ensemble import LEAF, NUMERIC_NODE, TreeEnsemble
from treepurify.models.limits import check_category_tables
from treepurify.models.pipelines.cells import cells_of, raw_axes
from treepurify.models.pipelines.columns import Column
from treepurify.typing import Array, Indices, Mask

_MOST_BYTES = 1 << 30
_MOST_NODES = 1 << 22
# The cut below all numbers: it parts missing values from all others.
_BELOW_ALL = -np.inf


def compose(
    ensemble: TreeEnsemble,
    raws: Sequence[Column],
    columns: Sequence[Column],
    types: Sequence[np.dtype[Any] | None],
    *,
    has_names: bool,
    zero_is_absent: bool,
) -> TreeEnsemble:
    """Return the ensemble as a function of the raw columns.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model on the transformed columns.
    raws, columns : sequence of Column
        The raw columns, and the transformed ones in the order of the model.
    types : sequence of (dtype or None)
        Types of the raw columns, where they are known; numbers are in double precision otherwise.
    has_names : bool
        Whether the names of the raw columns are the user's.
    zero_is_absent : bool
        Whether a transformed zero is missing to the model.

    Returns
    -------
    TreeEnsemble
        The same leaves, with the tests rewritten.

    Raises
    ------
    UnsupportedModelError
        If trees test a column that depends on several raw columns, or in an unknown way.
    MemoryBudgetError
        If the trees on the raw columns take too much memory.
    """
    uses = {t: columns[t] for t in ensemble.used_features}
    reason = next((column.refusal for column in uses.values() if column.refusal), "")
    if reason:
        raise UnsupportedModelError(reason)
    axes = raw_axes(ensemble, raws, uses, types, zero_is_absent=zero_is_absent)
    read = cells_of(ensemble, uses, axes, zero_is_absent=zero_is_absent)
    n_nodes = len(ensemble.feature)
    feature = ensemble.feature.copy()
    cut = np.full(n_nodes, np.nan)
    missing_left = ensemble.missing_left.copy()
    swapped = np.zeros(n_nodes, dtype=np.bool_)
    category_ptr = np.full(n_nodes, NUMERIC_NODE, dtype=np.int64)
    tables: list[Mask] = []
    n_entries = 0
    # Where the sides of a node change several times: the numbers, and the side of the first cell.
    chains: dict[int, tuple[list[float], bool]] = {}
    order = np.argsort(ensemble.feature, kind="stable")
    ends = np.searchsorted(ensemble.feature[order], np.arange(-1, ensemble.n_features), "right")
    for t, column in uses.items():
        axis, nodes = axes[column.raw[0]], order[ends[t] : ends[t + 1]]
        feature[nodes] = column.raw[0]
        kept, test = _different_tests(ensemble, nodes)
        missing_left[nodes] = _sides(ensemble, kept, read[t][-1:])[:, 0][test]
        values = read[t][:-1]
        if axis.spec.is_categorical:
            check_category_tables(n_entries + len(kept) * len(values))
            tables.append(_sides(ensemble, kept, values).ravel())
            category_ptr[nodes] = n_entries + len(values) * test
            n_entries += len(tables[-1])
            continue
        first, count, where = _switches(ensemble, kept, values)
        begin = np.cumsum(count) - count
        numbers = axis.breaks[where - 1]
        once = np.append(numbers, 0.0)[np.where(count == 1, begin, len(numbers))]
        cut[nodes] = np.where(count == 0, _BELOW_ALL, once)[test]
        # Below a cut is the first cell, and below all numbers none.
        swapped[nodes] = (first == (count == 0))[test]
        for k in np.flatnonzero(count > 1):
            chain = numbers[begin[k] : begin[k] + count[k]].tolist(), bool(first[k])
            chains |= dict.fromkeys(nodes[test == k].tolist(), chain)
    swapped[list(chains)] = False
    whole = replace(
        ensemble,
        feature=feature,
        cut=cut,
        left=np.where(swapped, ensemble.right, ensemble.left),
        right=np.where(swapped, ensemble.left, ensemble.right),
        missing_left=missing_left != swapped,
        category_ptr=category_ptr,
        category_left=np.concatenate([np.zeros(0, dtype=np.bool_), *tables]),
        features=tuple(axis.spec for axis in axes),
        has_feature_names=has_names,
    )
    return _with_chains(whole, chains) if chains else whole


def _different_tests(ensemble: TreeEnsemble, nodes: Indices) -> tuple[Indices, Indices]:
    """Return one node of each different test of a column, and the test of each node."""
    is_table = ensemble.category_ptr[nodes[0]] >= 0
    keys = ensemble.category_ptr[nodes] if is_table else ensemble.cut[nodes].view(np.int64)
    pairs = np.stack([keys, ensemble.missing_left[nodes].astype(np.int64)], axis=1)
    _, kept, test = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    return nodes[kept], test.ravel()


def _sides(ensemble: TreeEnsemble, nodes: Indices, values: Array) -> Mask:
    """Return whether each value of a column goes left at each node, shape (n_nodes, n_values)."""
    check_budget(
        4 * len(nodes) * len(values),
        _MOST_BYTES,
        f"{len(nodes)} tests on {len(values)} values of a raw column",
        'Pass columns="transformed"',
    )
    missing = np.isnan(values)
    if ensemble.category_ptr[nodes[0]] >= 0:
        codes = np.where(missing, 0.0, values).astype(np.int64)
        left = ensemble.category_left[ensemble.category_ptr[nodes, None] + codes]
    else:
        left = values < ensemble.cut[nodes, None]
    return np.where(missing, ensemble.missing_left[nodes, None], left)


def _switches(
    ensemble: TreeEnsemble, nodes: Indices, values: Array
) -> tuple[Mask, Indices, Indices]:
    """Return whether the first value goes left at each node, and where the others change sides."""
    cuts, n_values = ensemble.cut[nodes], len(values)
    is_cut = ensemble.category_ptr[nodes[0]] < 0
    rises, falls = np.all(values[1:] >= values[:-1]), np.all(values[1:] <= values[:-1])
    if is_cut and (rises or falls) and not np.isnan(values[0]):
        place = np.searchsorted(values if rises else values[::-1], cuts, side="left")
        where = place if rises else n_values - place
        inside = (where > 0) & (where < n_values)
        return (where > 0) == rises, inside.astype(np.intp), where[inside]
    sides = _sides(ensemble, nodes, values)
    changes = sides[:, 1:] != sides[:, :-1]
    return sides[:, 0], changes.sum(axis=1), np.nonzero(changes)[1] + 1


def _with_chains(whole: TreeEnsemble, chains: dict[int, tuple[list[float], bool]]) -> TreeEnsemble:
    """Return an ensemble in which some nodes become several cuts.

    On the way down only what comes to a node counts: what is decided above is no test any more.
    """
    feature, cut, missing_left = (
        values.tolist() for values in (whole.feature, whole.cut, whole.missing_left)
    )
    left, right, is_table = (
        values.tolist() for values in (whole.left, whole.right, whole.category_ptr >= 0)
    )
    # Of each new node: the old one, its cut, its children, and whether missing values go left.
    nodes: list[tuple[int, float, bool]] = []
    children: list[list[int]] = []
    tree_ptr = [0]
    for root in whole.tree_ptr[:-1].tolist():
        stack: list[tuple[int, int, int, dict[int, tuple[float, float, bool]]]] = []
        stack.append((root, -1, 0, {}))
        while stack:
            node, parent, side, reach = stack.pop()
            below = above = node
            test, goes_left = np.nan, False
            while (j := feature[node]) >= 0:
                below, above, goes_left = left[node], right[node], missing_left[node]
                if is_table[node]:
                    break
                low, high, has_missing = reach.get(j, (-np.inf, np.inf, True))
                cuts, first_left = chains.get(node) or ([cut[node]], True)
                begin, end = bisect_right(cuts, low), bisect_left(cuts, high)
                if first_left == (begin % 2 == 1):
                    below, above, goes_left = above, below, not goes_left
                if end > begin:
                    test = cuts[(begin + end) // 2]
                    if end - begin > 1:
                        below, above, goes_left = node, node, True
                    break
                if low < high and has_missing and not goes_left:
                    # All numbers go one way, and missing values the other.
                    test, below, above, goes_left = _BELOW_ALL, above, below, True
                    break
                node = below if low < high or goes_left else above
            if parent >= 0:
                children[parent][side] = len(nodes)
            if feature[node] >= 0:
                low, high, has_missing = reach.get(j, (-np.inf, np.inf, True))
                into = dict(reach), dict(reach)
                if not is_table[node]:
                    into[0][j] = low, min(high, test), has_missing and goes_left
                    into[1][j] = max(low, test), high, has_missing and not goes_left
                stack.append((above, len(nodes), 1, into[1]))
                stack.append((below, len(nodes), 0, into[0]))
            nodes.append((node, test, goes_left))
            children.append([LEAF, LEAF])
        tree_ptr.append(len(nodes))
        if len(nodes) > len(feature) + _MOST_NODES:
            raise UnsupportedModelError(
                f"its tests would become more than {_MOST_NODES} cuts of raw columns"
            )
    origin = np.array([node for node, _, _ in nodes])
    is_leaf = whole.feature[origin] < 0
    # A leaf in several places has none of its weight in any.
    is_once = len(np.unique(origin[is_leaf])) == np.count_nonzero(is_leaf)
    return replace(
        whole,
        tree_ptr=np.array(tree_ptr),
        feature=whole.feature[origin],
        cut=np.array([test for _, test, _ in nodes]),
        left=np.array(children, dtype=np.int32)[:, 0],
        right=np.array(children, dtype=np.int32)[:, 1],
        missing_left=np.array([goes_left for _, _, goes_left in nodes]),
        category_ptr=whole.category_ptr[origin],
        value=np.where(is_leaf[:, None], whole.value[origin], 0.0),
        cover=whole.cover[origin] * is_leaf if is_once and whole.cover is not None else None,
    )
