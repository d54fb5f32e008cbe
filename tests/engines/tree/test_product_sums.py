"""Counts and weights of products beside sums of a dense design."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.ensembles import complete_ensemble, random_ensemble
from tests.reference.split_products import in_products, in_sides, leaf_of_rows
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.conditional import Margins
from treepurify.engines.tree.projection import row_groups, sum_products
from treepurify.engines.tree.split_products import splits_of, tree_products
from treepurify.grids.grid import make_grid

# Rows, depth, features, order. Chunks are of 16 384 rows and of 1 024 where weights are added.
SHAPES = {
    "leaves of several chunks": (36_000, 1, 2, 2),
    "leaves of about a chunk": (20_000, 3, 3, 2),
    "leaves that fill words": (256, 2, 2, 2),
    "many small and empty leaves": (300, 8, 4, 2),
    "a wide tree": (2_000, 6, 40, 2),
    "few rows": (5, 5, 4, 3),
    "one row": (1, 5, 4, 3),
}
WEIGHTS = {
    "equal": lambda rng, n: np.full(n, 1 / n),
    "groups with zeros": lambda rng, n: rng.choice([0.0, 0.3, 0.7], size=n),
    "as many groups as there may be": lambda rng, n: rng.integers(0, 8, size=n) / 7,
    "one more": lambda rng, n: rng.integers(0, 9, size=n) / 7,
    "over decades, with zeros": lambda rng, n: (
        10.0 ** rng.uniform(-9, 0, n) * (rng.random(n) < 0.8)
    ),
}


def check(ensemble, X, weights, order, codes_as=None):
    """Compare the sums of every tree with those of its dense design."""
    grid, rows = make_grid(
        ensemble.columns(X), ensemble.features, ensemble_cuts(ensemble), match_names=False
    )
    codes = rows.codes if codes_as is None else rows.codes.astype(codes_as)
    masses = [np.bincount(codes[j], weights, axis.n_cells) for j, axis in enumerate(grid.axes)]
    splits = splits_of(ensemble, grid, Margins.of(masses))
    for tree in range(ensemble.n_trees):
        products = tree_products(splits, tree, order, 1 << 30)
        found = sum_products(codes, row_groups(weights), splits, tree, products)
        of_rows = leaf_of_rows(ensemble, tree, X)
        np.testing.assert_array_equal(found.leaves[found.leaf], of_rows)
        first, last = ensemble.tree_ptr[tree : tree + 2]
        leaves = first + np.flatnonzero(ensemble.feature[first:last] < 0)
        assert sorted(found.leaves.tolist()) == leaves.tolist()
        design = in_products(products, in_sides(products.sides, codes))
        weighed = weights[:, None] * design
        precision = {"rtol": 1e-12, "atol": 1e-15 * weights.sum()}
        np.testing.assert_allclose(found.of_pairs, design.T @ weighed, **precision)
        expected = (found.leaves[:, None] == of_rows) @ weighed
        np.testing.assert_allclose(found.of_leaves, expected, **precision)
    return codes.dtype


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_a_dense_design(shape, weight):
    n_rows, depth, n_features, order = SHAPES[shape]
    rng = np.random.default_rng(0)
    ensemble = complete_ensemble(rng, n_features=n_features, depth=depth, n_trees=2)
    X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_rows, 1))
    check(ensemble, X, WEIGHTS[weight](rng, n_rows), order)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("seed", range(4))
def test_sides_of_several_runs(seed, weight):
    """Categories, and missing values on either side, in an order of rows that mixes them."""
    rng = np.random.default_rng(seed)
    options = {"n_features": 4, "n_categorical": 2, "n_codes": 9, "depth": 6, "n_trees": 5}
    ensemble = random_ensemble(rng, **options)
    X = rng.normal(size=(1_500, 4))
    X[:, 2:] = rng.integers(0, 9, size=(1_500, 2))
    X[rng.random(X.shape) < 0.2] = np.nan
    check(ensemble, X, WEIGHTS[weight](rng, len(X)), 3)


@pytest.mark.parametrize("codes_as", [None, np.uint8, np.uint32])
def test_codes_of_every_width(codes_as):
    rng = np.random.default_rng(0)
    n_trees = 12 if codes_as is None else 2
    ensemble = complete_ensemble(rng, n_features=2, depth=6, n_trees=n_trees)
    ensemble = replace(ensemble, cut=ensemble.cut + 1e-3 * rng.normal(size=len(ensemble.cut)))
    ensemble = replace(ensemble, missing_left=rng.random(len(ensemble.cut)) < 0.5)
    X = rng.normal(size=(3_000, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    used = check(ensemble, X, np.ones(len(X)), 2, codes_as)
    assert used == (codes_as or np.uint16)


@pytest.mark.parametrize("n_codes", [254, 255])
def test_as_many_cells_as_a_byte_can_number_and_one_more(n_codes):
    rng = np.random.default_rng(n_codes)
    options = {"n_features": 3, "n_categorical": 2, "n_codes": n_codes, "depth": 5, "n_trees": 4}
    ensemble = random_ensemble(rng, **options)
    X = rng.normal(size=(4_000, 3))
    X[:, 1:] = rng.integers(0, n_codes, size=(4_000, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    used = check(ensemble, X, np.ones(len(X)), 2)
    assert used == (np.uint8 if n_codes == 254 else np.uint16)


def test_rows_are_grouped_by_weight_unless_there_are_many():
    weights = np.array([0.5, 0.0, 0.25, 0.5])
    groups = row_groups(weights)
    assert [(weight, rows.tolist()) for weight, rows in groups.groups] == [
        (0.0, [1]),
        (0.25, [2]),
        (0.5, [0, 3]),
    ]
    assert len(groups.others) == 0
    many = row_groups(np.arange(9.0))
    assert many.groups == []
    assert many.others.tolist() == list(range(9))
