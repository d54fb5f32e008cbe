"""What every engine reads the same way: named interactions, and names of features."""

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.reference.ensembles import random_ensemble
from treepurify.links import Link
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import FeatureSpec

pytestmark = pytest.mark.filterwarnings("ignore:the tables have .* more unknowns")

ROWS = np.random.default_rng(0).normal(size=(60, 4))
ENSEMBLE = random_ensemble(np.random.default_rng(1), n_features=4, n_trees=30, depth=4)


def product(rows):
    return rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 2] * rows[:, 3]


def model_of_tables():
    rng = np.random.default_rng(2)
    cuts = np.array([-0.5, 0.5])
    terms = [
        TableTerm(subset, (cuts,) * len(subset), rng.normal(size=(5,) * len(subset) + (1,)))
        for size in (1, 2, 3)
        for subset in combinations(range(4), size)
    ]
    features = tuple(FeatureSpec(f"x{j}") for j in range(4))
    source = ModelSource("none", "0", "tables")
    return AdditiveTables(tuple(terms), np.zeros(1), features, ("margin",), Link(), source, False)


ENGINES = {
    "purify": (partial(tp.purify, method="exact"), ENSEMBLE),
    "purify, tables": (tp.purify, model_of_tables()),
    "partial dependence, trees": (tp.partial_dependence_anova, ENSEMBLE),
    "partial dependence, tables": (tp.partial_dependence_anova, model_of_tables()),
    "partial dependence, function": (tp.partial_dependence_anova, product),
    "hooker": (tp.hooker_anova, product),
    "ale": (tp.ale_anova, product),
}


def decompose(name, **options):
    engine, model = ENGINES[name]
    return engine(model, ROWS, progress=False, **options)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        ([("x0", 0)], r"different features.*interactions\[0\] is \('x0', 0\)"),
        ([(1, 2), ("x0", "x0", "x1")], r"different features.*interactions\[1\]"),
        ([("x0", "x1", "x2")], r"order=2 keeps no effect of 3 features"),
        ([(0, 1.7)], "no feature 1.7"),
        ([(0, 1.0)], "no feature 1.0"),
        ([(True, 2)], "no feature True"),
        ([(-1, 0)], "no feature -1"),
        ([(0, 4)], "no feature 4; the model has 'x0', 'x1', 'x2', 'x3', at the positions 0 to 3"),
        ([("x0", "y")], "no feature 'y'"),
        ([("x0",)], "two or more"),
        (["x0"], "two or more"),
        (("x0", "x1"), "two or more"),
        ([0, 1], "two or more"),
        ("x0", "two or more"),
        (2.5, "two or more"),
    ],
)
def test_interactions_that_name_no_component_are_refused(name, interactions, message):
    with pytest.raises(tp.errors.InvalidInputError, match=message):
        decompose(name, interactions=interactions)


@pytest.mark.parametrize("name", ENGINES)
def test_an_order_without_interactions_takes_none(name):
    with pytest.raises(tp.errors.InvalidInputError, match="order=1"):
        decompose(name, order=1, interactions=[(0, 1)])
    d = decompose(name, interactions=[])
    assert max(map(len, d)) == 1


@pytest.mark.parametrize("name", ENGINES)
def test_names_and_positions_of_any_whole_kind_may_be_mixed(name):
    chosen = [("x2", np.int64(0)), np.array([2, 3]), [3, "x2"]]
    d = decompose(name, interactions=chosen)
    assert {subset for subset in d if len(subset) > 1} == {(0, 2), (2, 3)}


@pytest.mark.parametrize("name", [name for name in ENGINES if name not in ("hooker", "ale")])
def test_without_a_largest_order_interactions_of_any_size_are_kept(name):
    d = decompose(name, order=None, interactions=[(0, 1, 2)])
    assert {subset for subset in d if len(subset) > 1} == {(0, 1, 2)}


@pytest.mark.parametrize("names", [np.array(["a", "b", "c", "d"]), pd.Index(["a", "b", "c", "d"])])
@pytest.mark.parametrize("name", ENGINES)
def test_names_of_features_in_arrays(name, names):
    assert decompose(name, order=1, feature_names=names).feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("name", ["hooker", "ale", "partial dependence, function"])
def test_a_prediction_evaluates_each_component_once(name, monkeypatch):
    # As few rows as these, tables would be evaluated many at a time.
    monkeypatch.setattr("treepurify.components._ROWS_PER_BLOCK", 16)
    d = decompose(name)
    components = list(d.components.values())
    calls = []
    for kind in {type(component) for component in components}:
        method = "on_cells" if hasattr(kind, "on_cells") else "on_rows"
        whole = getattr(kind, method)
        counted = lambda self, rows, whole=whole: calls.append(self.features) or whole(self, rows)
        monkeypatch.setattr(kind, method, counted)
    values = d.predict(ROWS)
    # The others share averages, or the places of rows, and are not asked one by one.
    assert sorted(calls) == (sorted(d) if name == "hooker" else [])
    np.testing.assert_allclose(values, product(ROWS), atol=1e-12)
    rest = product(ROWS)[:, None] - d.intercept - sum(c.on_rows(ROWS) for c in components)
    np.testing.assert_allclose(d.remainder.on_rows(ROWS), rest, atol=1e-12)


def test_a_prediction_by_partial_dependence_averages_once_for_each_term():
    called = []

    def counted(rows):
        called.append(len(rows))
        return product(rows)

    d = tp.partial_dependence_anova(counted, ROWS, progress=False)
    called.clear()
    d.predict(ROWS)
    assert sum(called) == len(d) * len(ROWS) ** 2 + len(ROWS)
