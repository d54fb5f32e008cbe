"""Values of trees on joint cells are those of the rows in them."""

import numpy as np
import pytest

import treepurify as tp
from tests.engines.tree.test_purify import scene
from treepurify.effects.accumulate import ensemble_cuts, leaf_boxes
from treepurify.engines.tree.tree_problem import term_subsets, tree_terms
from treepurify.engines.tree.tree_scores import cell_scores, tree_scores
from treepurify.grids.grid import make_grid

SCENES = {
    "numbers": {"n_features": 5, "depth": 6},
    "many categories": {"n_features": 6, "depth": 6, "n_categorical": 3, "missing": True},
    "several outputs": {"n_features": 4, "depth": 5, "n_outputs": 3, "vector_leaves": True},
    "an output for each tree": {"n_features": 4, "depth": 5, "n_outputs": 2},
}


def both_scores(ensemble, X):
    """For each tree, its values on all rows, by their cells and by their values."""
    columns = ensemble.columns(X)
    grid, rows = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    boxes, leaves = leaf_boxes(ensemble, grid), np.flatnonzero(ensemble.feature < 0)
    bounds = np.searchsorted(leaves, ensemble.tree_ptr)
    matrix = np.column_stack(columns.values)
    for tree in range(ensemble.n_trees):
        own = np.arange(bounds[tree], bounds[tree + 1])
        terms = tree_terms(ensemble, tree, grid, term_subsets(boxes, own, 2))
        if terms is not None:
            cells = terms.row_cells(rows.codes)
            found = cell_scores(ensemble, tree, grid, terms, cells)
            yield found, tree_scores(ensemble, tree, matrix)


@pytest.mark.parametrize("name", SCENES)
def test_random_trees(name):
    ensemble, X = scene(7, n_trees=10, **SCENES[name])
    n = 0
    for found, expected in both_scores(ensemble, X):
        if found is not None:
            np.testing.assert_array_equal(found, expected)
            n += 1
    assert n > 2


def test_a_booster_of_unbalanced_trees_with_missing_values():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.isnan(X[:, 2])
    model = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=40, verbose=-1).fit(X, y)
    for found, expected in both_scores(tp.parse_model(model), X):
        np.testing.assert_array_equal(found, expected)
