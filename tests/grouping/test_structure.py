"""Exact groups from the trees, against differences in every cell of the grid."""

from itertools import combinations

import numpy as np
import pytest

import treepurify as tp
from tests.reference.ensembles import random_ensemble, values_in_cells
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.grids.grid import make_grid
from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.sets import Sampling
from treepurify.grouping.strengths import connected_groups
from treepurify.grouping.structure import group_by_structure


def silent(*_):
    pass


def dense_groups(ensemble, grid):
    """Two features interact if some second difference of the table in all cells is not zero."""
    table = values_in_cells(ensemble, grid)
    edges = []
    for i, j in combinations(range(ensemble.n_features), 2):
        difference = np.diff(np.diff(table, axis=i), axis=j)
        if np.abs(difference).max(initial=0.0) > 1e-9:
            edges.append((i, j))
    return connected_groups(ensemble.n_features, edges)


@pytest.mark.parametrize("seed", range(40))
def test_equal_to_all_cells(seed):
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(
        rng,
        n_features=6,
        n_categorical=2,
        n_trees=4,
        depth=3,
        n_outputs=1 + seed % 2,
        vector_leaves=seed % 4 == 1,
        n_distinct=3 - seed % 2,
    )
    grid, _ = make_grid(None, ensemble.features, ensemble_cuts(ensemble), match_names=False)
    found = group_by_structure(ensemble, None, None, silent)
    assert found == dense_groups(ensemble, grid)


def test_the_cases_are_of_all_kinds():
    sizes = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ensemble = random_ensemble(rng, n_features=6, n_trees=4, depth=3, n_distinct=2)
        sizes |= {len(group_by_structure(ensemble, None, None, silent))}
    assert len(sizes) >= 3


def additive_tree():
    """A tree of depth two that adds up: 1[a] + 2 1[b], as most trees of a pair do not."""
    from sklearn.tree import DecisionTreeRegressor

    X = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)] * 10)
    return DecisionTreeRegressor().fit(X, X[:, 0] + 2 * X[:, 1]), X


def test_a_tree_of_two_features_may_add_up():
    model, X = additive_tree()
    assert tp.parse_model(model).n_trees == 1
    assert shapley_sets(model, X, method="structure", progress=False).groups == ((0,), (1,))


@pytest.mark.parametrize("box", [0.1, 0.01, 0.001])
def test_an_interaction_in_a_small_box(box):
    """Found whatever the size of the box; random probes miss the smallest."""
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    ends = (0.5 * box, 1.5 * box, 0.9)
    corners = np.array([[a, b] for a in ends for b in ends])
    y = 1.0 * (corners.max(axis=1) < box)
    model = DecisionTreeRegressor(random_state=0).fit(corners, y)
    X = rng.uniform(size=(1000, 2))
    assert shapley_sets(model, X, method="structure", progress=False).groups == ((0, 1),)
    if box < 0.01:
        few = Sampling(probes=50)
        found = shapley_sets(model, X, method="recursive", sampling=few, progress=False)
        assert found.groups == ((0,), (1,))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("n_trees", [100, 1000])
def test_depth_one_adds_up(library, n_trees):
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = X[:, 0] * X[:, 1] + X.sum(axis=1)
    if library == "xgboost":
        from xgboost import XGBRegressor

        model = XGBRegressor(n_jobs=1, n_estimators=n_trees, max_depth=1).fit(X, y)
    else:
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_jobs=1, n_estimators=n_trees, max_depth=1, verbose=-1).fit(X, y)
    for method in ("structure", "index", "recursive"):
        sampling = Sampling(probes=500)
        found = shapley_sets(model, X, method=method, sampling=sampling, progress=False)
        assert len(found.groups) == 6


def test_a_tolerance_leaves_small_interactions_out():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=4, n_trees=5, depth=3)
    X = rng.normal(size=(100, 4))
    exact = shapley_sets(ensemble, X, method="structure", progress=False)
    loose = shapley_sets(ensemble, X, method="structure", tolerance=1e3, progress=False)
    assert len(exact.groups) < len(loose.groups) == 4


def test_other_functions_have_no_structure():
    X = np.zeros((5, 2))
    with pytest.raises(tp.errors.InvalidInputError, match="reads the trees"):
        shapley_sets(lambda X: X[:, 0], X, method="structure", progress=False)
