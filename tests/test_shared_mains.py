"""Main effects that rows cannot tell apart, against the rank of a design matrix."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from treepurify.collinear import shared_pairs
from treepurify.grids.grid import EncodedRows


def ranks(codes, weights):
    """What two features share, by the rank of their levels side by side."""
    found = {}
    for i, j in combinations(range(len(codes)), 2):
        first, second = (pd.get_dummies(codes[k][weights > 0]).to_numpy(float) for k in (i, j))
        both = np.hstack([first, second])
        missing = both.shape[1] - np.linalg.matrix_rank(both) - 1
        if missing:
            found[i, j] = missing
    return found


def directions(rows, sizes):
    """The number of functions that each pair shares."""
    return dict(shared_pairs(rows, sizes))


@pytest.mark.parametrize("n_features", [4, 9])
@pytest.mark.parametrize("seed", range(40))
def test_directions_are_those_that_the_rank_lacks(seed, n_features):
    """With more rows than a pair has cells, and with fewer."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_features)
    codes = np.stack([rng.integers(0, size, 40) for size in sizes])
    if seed % 2:
        codes[1] = codes[0] % sizes[1]
    codes = codes[:, : rng.integers(3, 40)].astype(np.uint8)
    weights = (rng.random(codes.shape[1]) < 0.8).astype(float)
    weights[0] = 1.0
    found = directions(EncodedRows(codes, weights), dict(enumerate(sizes.tolist())))
    assert found == ranks(codes, weights)


@pytest.mark.parametrize("n_features", [2, 9])
def test_a_chain_through_many_rows_is_one_block(n_features):
    """Each value leads to the next, and only the last rows close the circle."""
    chain = np.repeat(np.arange(200), 9)
    codes = np.stack([chain, np.minimum(chain + 1, 199)]).astype(np.uint8)
    extra = np.stack([np.arange(199), np.arange(199)]).astype(np.uint8)
    codes, extra = (np.vstack([own[:1], *(own[1:],) * (n_features - 1)]) for own in (codes, extra))
    sizes = dict.fromkeys(range(n_features), 200)
    pairs_with_the_first = [(0, j) for j in range(1, n_features)]
    apart = directions(EncodedRows(codes), sizes)
    assert [apart[pair] for pair in pairs_with_the_first] == [198] * (n_features - 1)
    joined = directions(EncodedRows(np.hstack([codes, extra])), sizes)
    assert not joined.keys() & set(pairs_with_the_first)


def two_names_of_one_thing(depth):
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 6, 2000).astype(float), rng.normal(size=2000)
    X = pd.DataFrame({"a": a, "b": 2 * a + 1, "c": c})
    return GradientBoostingRegressor(max_depth=depth, n_estimators=50, random_state=0).fit(
        X, a + c
    ), X


def test_an_additive_model_of_one_thing_twice(tmp_path):
    model, X = two_names_of_one_thing(1)
    d = tp.purify(model, X, weights="empirical", progress=False)
    cells = len(np.unique(d["a"].on_rows(X))), len(np.unique(d["b"].on_rows(X)))
    assert d.certificate.unidentified == min(cells) - 1
    assert d.certificate.unidentified_terms == ("a & b",)
    assert "main effects as the model has them" in str(d.certificate)
    (group,) = d.collinear
    assert group.reason == "copies"
    assert set(group.members) == {(0,), (1,)}
    (finding,) = (f for f in tp.audit(model, X).findings if f.kind != "distribution")
    assert finding.effects == group.members
    d.save(tmp_path / "twice.tpz")
    assert tp.load(tmp_path / "twice.tpz").diagnostics == d.diagnostics


def test_a_pair_that_has_a_table_is_counted_there():
    model, X = two_names_of_one_thing(2)
    d = tp.purify(model, X, weights="empirical", progress=False)
    assert d.certificate.unidentified == 5


def test_few_rows_in_many_cells_and_a_measure_without_gaps(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    forest = RandomForestRegressor(n_estimators=20, random_state=0).fit(X, X[:, 0] + X[:, 1])
    d = tp.purify(forest, X, weights="empirical", order=1, progress=False)
    assert d.certificate.unidentified
    d = tp.purify(forest, X, weights="independent", order=1, progress=False)
    assert not d.certificate.unidentified
    d.save(tmp_path / "forest.tpz")
    assert tp.load(tmp_path / "forest.tpz").certificate == d.certificate


def test_rows_in_batches_are_looked_at_as_in_memory():
    model, X = two_names_of_one_thing(1)
    d = tp.purify(model, lambda: iter([X[:900], X[900:]]), weights="empirical", progress=False)
    whole = tp.purify(model, X, weights="empirical", progress=False)
    assert d.certificate.unidentified_terms == whole.certificate.unidentified_terms == ("a & b",)
    assert d.certificate.unidentified == whole.certificate.unidentified
