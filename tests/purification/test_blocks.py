"""Connected blocks of the cells of a table, against SciPy's components of a graph."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from treepurify.purification.unidentified import label_blocks


@pytest.mark.parametrize("seed", range(30))
def test_blocks_are_the_components_of_the_graph(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 300 if seed % 3 == 0 else 12, 2))
    there = rng.random(shape) * (rng.random(shape) < 0.7 / max(shape))
    rows, columns = np.nonzero(there)
    of_rows, of_columns, n_blocks = label_blocks(rows, columns, shape)
    nodes = sum(shape)
    graph = coo_array((np.ones(len(rows)), (rows, shape[0] + columns)), (nodes, nodes))
    _, component = connected_components(graph, directed=False)
    labels = np.concatenate([of_rows, of_columns])
    has_mass = np.concatenate([there.any(axis=1), there.any(axis=0)])
    assert np.array_equal(labels >= 0, has_mass)
    of_both = set(zip(labels[has_mass].tolist(), component[has_mass].tolist(), strict=True))
    assert len(of_both) == n_blocks == len(set(component[has_mass].tolist()))
    _, first = np.unique(labels[has_mass], return_index=True)
    assert np.all(np.diff(first) > 0)
    repeated = rng.permutation(np.repeat(np.arange(len(rows)), 3))
    again = label_blocks(rows[repeated].astype(np.uint16), columns[repeated], shape)
    assert np.array_equal(np.concatenate(again[:2]), labels)


def test_a_long_chain_is_one_block():
    n = 20_000
    turn = np.random.default_rng(0).permutation(n)
    first, second = np.repeat(turn, 2)[:-1], np.repeat(turn, 2)[1:]
    of_rows, of_columns, n_blocks = label_blocks(first, second, (n, n))
    assert n_blocks == 1
    assert not of_rows.any()
    assert not of_columns.any()
