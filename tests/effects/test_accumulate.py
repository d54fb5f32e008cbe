"""Effect tensors of random ensembles against the trees themselves, in every cell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.ensembles import random_ensemble, spread_out, values_in_cells
from treepurify.budget import DEFAULT_BUDGET
from treepurify.effects.accumulate import accumulate, ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.errors import MemoryBudgetError
from treepurify.grids.grid import make_grid
from treepurify.rows.columns import FeatureSpec


def lay_out(ensemble, missing_cells="always"):
    grid, _ = make_grid(
        None,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=False,
        missing_cells=missing_cells,
    )
    boxes = leaf_boxes(ensemble, grid)
    return grid, boxes, accumulate(ensemble, grid, boxes, DEFAULT_BUDGET)


def check(ensemble, missing_cells="always"):
    grid, _, effects = lay_out(ensemble, missing_cells)
    total = spread_out({s: t.values for s, t in effects.tensors.items()}, grid, effects.intercept)
    np.testing.assert_allclose(total, values_in_cells(ensemble, grid), atol=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(1, 4),
    n_categorical=st.integers(0, 2),
    n_trees=st.integers(0, 8),
    depth=st.integers(0, 5),
    n_outputs=st.integers(1, 3),
    vector_leaves=st.booleans(),
    missing_cells=st.sampled_from(["auto", "always"]),
)
def test_equals_the_trees_in_every_cell(
    seed, n_features, n_categorical, n_trees, depth, n_outputs, vector_leaves, missing_cells
):
    ensemble = random_ensemble(
        np.random.default_rng(seed),
        n_features=n_features,
        n_categorical=min(n_categorical, n_features),
        n_trees=n_trees,
        depth=depth,
        n_outputs=n_outputs,
        vector_leaves=vector_leaves,
    )
    check(ensemble, missing_cells)


@pytest.mark.parametrize("keep_every_test", [False, True])
def test_boxes_of_some_leaves_at_a_time_are_those_of_all(monkeypatch, keep_every_test):
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_features=4, n_categorical=2, n_trees=6, depth=5)
    grid, *_ = lay_out(ensemble)
    expected = leaf_boxes(ensemble, grid, keep_every_test=keep_every_test)
    monkeypatch.setattr("treepurify.effects.leaf_boxes._SPARE_ENTRIES", 3)
    found = leaf_boxes(ensemble, grid, keep_every_test=keep_every_test)
    assert found.subsets == expected.subsets
    for name in ("leaf_subset", "entry_ptr", "entry_feature", "run_ptr", "run_start", "run_stop"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_some_corners_at_a_time_give_what_all_at_once_do(monkeypatch):
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, n_features=4, n_categorical=2, n_trees=6, depth=5, n_outputs=2)
    _, _, expected = lay_out(ensemble)
    monkeypatch.setattr("treepurify.effects.accumulate._AT_A_TIME", 3)
    _, _, found = lay_out(ensemble)
    assert found.tensors.keys() == expected.tensors.keys()
    for subset, tensor in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[subset].values, tensor.values)


def test_no_trees():
    ensemble = random_ensemble(np.random.default_rng(0), n_trees=0, n_outputs=2)
    _, _, effects = lay_out(ensemble)
    assert effects.tensors == {}
    np.testing.assert_array_equal(effects.intercept, ensemble.base)
    assert effects.tensors == {}


def test_single_leaves_go_to_the_intercept():
    ensemble = random_ensemble(np.random.default_rng(0), n_trees=4, depth=0)
    _, _, effects = lay_out(ensemble)
    assert effects.tensors == {}
    np.testing.assert_allclose(effects.intercept, ensemble.base + ensemble.value.sum(axis=0))


def test_subsets_are_those_of_leaf_paths_not_of_trees():
    # x0 at the root, x1 below left, x2 below right: three features, yet only pairs.
    from dataclasses import replace

    ensemble = random_ensemble(np.random.default_rng(0), n_trees=0, n_features=3)
    nan = np.nan
    tree = replace(
        ensemble,
        tree_ptr=np.array([0, 7]),
        feature=np.array([0, 1, -1, -1, 2, -1, -1], dtype=np.int32),
        cut=np.array([0.0, 1.0, nan, nan, 2.0, nan, nan]),
        left=np.array([1, 2, -1, -1, 5, -1, -1], dtype=np.int32),
        right=np.array([4, 3, -1, -1, 6, -1, -1], dtype=np.int32),
        missing_left=np.zeros(7, dtype=bool),
        category_ptr=np.full(7, -1),
        value=np.array([[0.0], [0.0], [1.0], [2.0], [0.0], [3.0], [4.0]]),
        tree_output=np.zeros(1, dtype=np.int32),
    )
    _, boxes, effects = lay_out(tree)
    assert boxes.subsets == ((0, 1), (0, 2))
    assert list(effects.tensors) == [(0, 1), (0, 2)]
    check(tree)


@pytest.mark.parametrize("cut", [-np.inf, np.inf])
def test_cuts_at_infinity(cut):
    from dataclasses import replace

    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=2, n_trees=6, depth=3)
    cuts = np.where(ensemble.cut == 0.25, cut, ensemble.cut)
    check(replace(ensemble, cut=cuts), "always")
    check(replace(ensemble, cut=cuts), "auto")


def test_known_missing_values_need_a_cell_only_in_their_feature():
    ensemble = random_ensemble(np.random.default_rng(2), n_features=2, n_trees=5)
    from dataclasses import replace

    features = (FeatureSpec("x0", has_missing=True), FeatureSpec("x1"))
    grid, _, _ = lay_out(replace(ensemble, features=features), "auto")
    assert [axis.has_missing for axis in grid.axes] == [True, False]


def test_budget_is_checked_before_anything_is_allocated():
    rng = np.random.default_rng(0)
    ensemble = random_ensemble(rng, n_features=3, n_trees=8, depth=4)
    grid, _ = make_grid(None, ensemble.features, ensemble_cuts(ensemble), match_names=False)
    boxes = leaf_boxes(ensemble, grid)
    with pytest.raises(MemoryBudgetError, match=r"x0 x x1 x x2, has 4x4x4 cells.*would take") as e:
        accumulate(ensemble, grid, boxes, 100)
    assert "memory budget of 100 bytes" in str(e.value)
    assert "smaller depth" in str(e.value)
