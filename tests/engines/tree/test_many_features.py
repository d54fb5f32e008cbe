"""What cannot fit into memory is refused before it is listed, what can is not listed slowly."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import treepurify as tp
from tests.reference.ensembles import random_ensemble

ROWS = np.random.default_rng(0).normal(size=(40, 500))


def product(rows):
    return rows[:, 0] * rows[:, 1]


@pytest.mark.parametrize("engine", [tp.hooker_anova, tp.partial_dependence_anova])
@pytest.mark.parametrize("order", [2, 3])
def test_too_many_interactions_are_refused(engine, order):
    with pytest.raises(tp.errors.MemoryBudgetError, match="name the interactions that you need"):
        engine(product, ROWS, order=order, memory_budget=1 << 20, progress=False)


def test_terms_of_every_order_are_counted_and_not_listed():
    with pytest.raises(tp.errors.MemoryBudgetError, match="smaller order"):
        tp.partial_dependence_anova(product, ROWS, order=None, progress=False)
    with pytest.raises(tp.errors.MemoryBudgetError, match="smaller order"):
        tp.partial_dependence_anova(
            product, ROWS[:2], order=None, interactions=[range(40)], progress=False
        )


def test_points_and_tables_are_counted_before_a_function_is_called():
    called = []

    def counted(rows):
        called.append(len(rows))
        return product(rows)

    rows = np.random.default_rng(1).integers(0, 2, size=(2000, 12)).astype(float)
    with pytest.raises(tp.errors.MemoryBudgetError, match="66 tables to 2000 points"):
        tp.hooker_anova(counted, rows, memory_budget=1 << 20, progress=False)
    assert max(called) < 2000


def test_named_interactions_inside_others_are_fitted_with_these():
    rows = np.random.default_rng(2).integers(0, 3, size=(300, 4)).astype(float)
    options = {"order": 3, "progress": False}
    alone = tp.hooker_anova(product, rows, interactions=[(0, 1, 2)], **options)
    nested = tp.hooker_anova(product, rows, interactions=[(1, 2), (0, 1, 2), (0, 2)], **options)
    assert set(nested) == set(alone)
    for subset in alone:
        np.testing.assert_array_equal(nested[subset].values, alone[subset].values)


def test_deep_paths_are_refused_before_their_subsets_are_listed():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1500, 40))
    forest = RandomForestRegressor(n_estimators=3, random_state=0).fit(rows, rng.normal(size=1500))
    exact = {"method": "exact", "order": None, "progress": False}
    with pytest.raises(tp.errors.MemoryBudgetError, match="tables"):
        tp.purify(forest, iter([rows]), **{"weights": "empirical", **exact})
    with pytest.raises(tp.errors.MemoryBudgetError, match="leaves"):
        tp.purify(forest, iter([rows]), memory_budget=10_000, **{"weights": "empirical", **exact})


def test_counts_are_those_of_the_rows():
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, n_features=3, n_trees=8, depth=3)
    rows = rng.normal(size=(200, 3))
    d = tp.purify(
        ensemble, iter([rows[:50], rows[50:]]), weights="empirical", order=None, progress=False
    )
    assert len(d) == 7
    for component in d.components.values():
        cells = [
            np.searchsorted(axis.cuts, rows[:, j], side="right")
            for j, axis in zip(component.features, component.axes, strict=True)
        ]
        expected = np.zeros(component.mass.shape)
        np.add.at(expected, tuple(cells), 1.0)
        np.testing.assert_array_equal(component.mass, expected / 200)
