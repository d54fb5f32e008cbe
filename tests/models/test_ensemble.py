"""The margin of an ensemble: rows that go down the trees side by side, and one at a time."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from tests.reference.ensembles import CUTS, random_ensemble
from treepurify.errors import UnsupportedModelError


def walk(ensemble, row):
    """Add the leaves that one row reaches, as the fields of a `TreeEnsemble` are defined."""
    total = ensemble.base.astype(np.float64).copy()
    for tree, root in enumerate(ensemble.tree_ptr[:-1]):
        node = root
        while ensemble.feature[node] >= 0:
            x = row[ensemble.feature[node]]
            table = ensemble.category_ptr[node]
            if np.isnan(x):
                is_left = ensemble.missing_left[node]
            elif table >= 0:
                is_left = ensemble.category_left[table + int(x)]
            else:
                is_left = x < ensemble.cut[node]
            node = (ensemble.left if is_left else ensemble.right)[node]
        if ensemble.tree_output[tree] >= 0:
            total[ensemble.tree_output[tree]] += ensemble.value[node, 0]
        else:
            total += ensemble.value[node]
    return total


@pytest.mark.parametrize("n_categorical", [0, 1])
@pytest.mark.parametrize(("n_outputs", "vector_leaves"), [(1, False), (3, False), (3, True)])
def test_rows_side_by_side_reach_the_leaves_of_each_row(n_outputs, vector_leaves, n_categorical):
    rng = np.random.default_rng(n_outputs)
    numbers = [*CUTS, *np.nextafter(CUTS, -np.inf), 0.0, 9.0, np.inf, -np.inf, np.nan]
    for depth in (0, 1, 4, 9):
        ensemble = random_ensemble(
            rng,
            n_features=4,
            n_categorical=n_categorical,
            n_trees=8,
            depth=depth,
            n_outputs=n_outputs,
            vector_leaves=vector_leaves,
        )
        rows = rng.choice(numbers, size=(150, 4))
        rows[:, 4 - n_categorical :] = rng.choice([0, 1, 2, np.nan], size=(150, n_categorical))
        expected = np.array([walk(ensemble, row) for row in rows])
        np.testing.assert_array_equal(ensemble.margin(rows), expected)
        np.testing.assert_array_equal(ensemble.margin(rows[:5]), expected[:5])


@pytest.mark.parametrize("n_categorical", [0, 1])
@pytest.mark.parametrize(("n_outputs", "vector_leaves"), [(1, False), (3, False), (3, True)])
def test_values_along_a_feature_are_those_of_changed_rows(n_outputs, vector_leaves, n_categorical):
    rng = np.random.default_rng(n_outputs)
    numbers = np.array([*CUTS, *np.nextafter(CUTS, -np.inf), 0.0, 9.0, np.inf, -np.inf, np.nan])
    for depth in (0, 1, 4, 9):
        ensemble = random_ensemble(
            rng,
            n_features=4,
            n_categorical=n_categorical,
            n_trees=8,
            depth=depth,
            n_outputs=n_outputs,
            vector_leaves=vector_leaves,
        )
        rows = rng.choice(numbers, size=(60, 4))
        rows[:, 4 - n_categorical :] = rng.choice([0, 1, 2, np.nan], size=(60, n_categorical))
        for feature in range(4):
            known = numbers if feature < 4 - n_categorical else np.array([0, 1, 2, 3, np.nan])
            values = rng.permutation(np.append(known, known[:2]))
            found = ensemble.margin_along(ensemble.columns(rows), feature, values)
            expected = np.empty((len(values), 60, n_outputs))
            for k, value in enumerate(values):
                rows_there = rows.copy()
                rows_there[:, feature] = value
                expected[k] = ensemble.margin(rows_there, precision="float64")
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_a_tree_far_deeper_than_a_balanced_one_is_walked_to_its_end():
    """A chain of splits, each of which cuts off one more of the largest targets."""
    X = np.arange(100.0)[:, None]
    tree = DecisionTreeRegressor(max_leaf_nodes=16).fit(X, 3.0 ** X[:, 0])
    assert tree.get_depth() == 15
    np.testing.assert_array_equal(tp.parse_model(tree).margin(X)[:, 0], tree.predict(X))


def test_a_node_that_is_a_child_twice_is_refused():
    """A chain whose nodes have one child each has two to the power of its length ways down."""
    ensemble = random_ensemble(np.random.default_rng(0), n_features=1, n_trees=1, depth=1)
    assert len(ensemble.feature) == 3
    ensemble.margin(np.zeros((1, 1)))
    with pytest.raises(UnsupportedModelError, match="a node is a child twice"):
        replace(ensemble, left=ensemble.right)
