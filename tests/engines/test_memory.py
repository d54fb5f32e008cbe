"""Values and tables are summed as they come, and refused where they cannot fit."""

import tracemalloc
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.reference.ensembles import complete_ensemble, random_ensemble
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.components import ModelInputs, TensorComponent
from treepurify.effects.conditional import occurring_subsets
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.ale.axes import accumulation_axes
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.ale.local_effects import _filled, check_pair
from treepurify.engines.partial_dependence.background import (
    _occur,
    outside_support,
    read_background,
)
from treepurify.engines.partial_dependence.pattern_shares import _check_shares, pattern_shares
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows
from treepurify.interactions.h_statistics import h_statistics
from treepurify.moments import moments_on_rows
from treepurify.rows.columns import Columns, FeatureSpec


def peak_of(work):
    """What `work` returns, and the most bytes it held at a time."""
    tracemalloc.start()
    found = work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


def test_parts_of_a_remainder_are_summed_one_by_one():
    rng = np.random.default_rng(0)
    axis = FeatureAxis("x", np.array([0.0]))
    inputs = ModelInputs(tuple(FeatureSpec(f"x{j}") for j in range(60)), match_names=False)
    parts = tuple(
        TensorComponent((j,), (axis,), rng.normal(size=(2, 1)), np.array([0.5, 0.5]), inputs)
        for j in range(60)
    )
    codes = rng.integers(0, 2, size=(60, 20_000)).astype(np.uint8)
    weights = rng.random(20_000)
    rows = {1: EncodedRows(codes, weights)}
    found, peak = peak_of(lambda: moments_on_rows(parts, rows).variance)
    total = sum(part.values[codes[j], 0] for j, part in enumerate(parts))
    mean = np.average(total, weights=weights)
    assert found[0] == pytest.approx(np.average((total - mean) ** 2, weights=weights))
    assert peak < 6 * total.nbytes


def test_interaction_indices_hold_few_tables_of_pairs():
    rng = np.random.default_rng(1)
    ensemble = complete_ensemble(rng, n_features=300, depth=2, n_trees=150)
    table = 8 * 300**2

    def ask(budget):
        return tp.interaction_indices(
            ensemble, weights="uniform", memory_budget=budget, progress=False
        )

    ask(3 * table)  # compiles
    found, peak = peak_of(lambda: ask(3 * table))
    # 600 leaves, 64 at a time: there would be ten tables.
    assert peak < 5 * table
    np.testing.assert_allclose(found.pair_total, ask(1 << 30).pair_total, atol=1e-14)
    with pytest.raises(tp.errors.MemoryBudgetError, match="pairs of 300 features"):
        ask(3 * table - 1)


def test_interaction_indices_do_not_depend_on_the_number_of_threads(monkeypatch):
    rng = np.random.default_rng(2)
    ensemble = complete_ensemble(rng, n_features=6, depth=5, n_trees=10)
    X = rng.normal(size=(300, 6))
    found = []
    for threads in (1, 3):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        found.append(tp.interaction_indices(ensemble, X, progress=False))
    for name in ("variance_by_order", "pair_total", "feature_total"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    # The sums of all components that hold a pair or a feature, from the components themselves.
    d = tp.purify(ensemble, X, weights="independent", order=None, progress=False)
    for i in range(6):
        own = sum(c.variance[0] for s, c in d.components.items() if i in s)
        assert found[0].feature_total[0, i] == pytest.approx(own)
        for j in range(i):
            own = sum(c.variance[0] for s, c in d.components.items() if {i, j} <= set(s))
            assert found[0].pair_total[0, i, j] == pytest.approx(own)
            assert found[0].pair_total[0, j, i] == found[0].pair_total[0, i, j]


def nodes(values, *, categorical=False):
    return AccumulationAxis(0, np.array(values, dtype=float), is_categorical=categorical)


def centres(axis):
    places = np.arange(len(axis.nodes)) if axis.is_categorical else axis.nodes
    return (places[1:] + places[:-1]) / (2 * (places[-1] - places[0]))


@pytest.mark.parametrize("seed", range(20))
def test_empty_cells_take_the_nearest_difference(seed):
    rng = np.random.default_rng(seed)
    axes = (
        nodes(np.sort(rng.choice(40, size=9, replace=False))),
        nodes(rng.permutation(12), categorical=True),
    )
    mass = rng.random((8, 11)) * (rng.random((8, 11)) < rng.choice([0.05, 0.3, 0.9]))
    mean = rng.normal(size=(8, 11, 2))
    found = _filled(mean, mass, axes)
    first, second = map(centres, axes)
    full = np.argwhere(mass > 0)
    for i, j in np.ndindex(8, 11):
        distance = [(first[i] - first[k]) ** 2 + (second[j] - second[m]) ** 2 for k, m in full]
        # The first of those that are equally near, in the order of the cells.
        source = full[np.argmin(distance)] if mass[i, j] == 0 and len(full) else (i, j)
        np.testing.assert_array_equal(found[i, j], mean[tuple(source)])


def test_ties_of_empty_cells_go_to_the_first_cell():
    mass = np.ones((3, 3))
    mass[1, 1] = 0
    mean = np.arange(9.0).reshape(3, 3, 1)
    axis = nodes([0, 1, 2, 3])
    assert _filled(mean, mass, (axis, axis))[1, 1, 0] == 1.0
    mass[0, 1] = mass[2, 1] = 0
    assert _filled(mean, mass, (axis, axis))[1, 1, 0] == 3.0


def test_filling_empty_cells_takes_tables_of_cells_only():
    rng = np.random.default_rng(3)
    axis = nodes(np.arange(61), categorical=True)
    mass = rng.random((60, 60)) * (rng.random((60, 60)) < 0.5)
    mean = rng.normal(size=(60, 60, 1))
    _, peak = peak_of(lambda: _filled(mean, mass, (axis, axis)))
    assert peak < 20 * mass.nbytes


def test_pairs_of_too_many_categories_are_refused():
    specs = tuple(FeatureSpec(name, "categorical", n_codes=9000) for name in "ab")
    axes = tuple(AccumulationAxis(j, np.arange(9000.0), is_categorical=True) for j in range(2))
    f = SimpleNamespace(features=specs, n_outputs=1)
    with pytest.raises(tp.errors.MemoryBudgetError, match="'a' and 'b' in 8999 x 8999 intervals"):
        check_pair(f, axes, DEFAULT_BUDGET)


def order_of_categories(columns, weights):
    axes = accumulation_axes(columns, weights, (0,), 20, {}, DEFAULT_BUDGET)
    return axes[0].nodes.astype(int)


def slow_order(columns, shares, feature, codes):
    """Order by the definition: one distribution function a category, feature and point."""
    own = columns.values[feature]
    distance = np.zeros((len(codes), len(codes)))
    for j, values in enumerate(columns.values):
        if j == feature:
            continue
        finite = values[np.isfinite(values)]
        categorical = columns.features[j].is_categorical
        own_shares = shares[np.isfinite(values)]
        quantiles = partial(np.quantile, method="inverted_cdf", weights=own_shares)
        points = np.unique(finite if categorical else quantiles(finite, np.arange(100) / 100))
        profile = []
        for code in codes:
            weight = np.where(own == code, shares, 0.0)
            at = [values == p if categorical else values <= p for p in points]
            profile.append([weight[inside].sum() / weight.sum() for inside in at])
        gaps = np.abs(np.array(profile)[:, None] - np.array(profile)[None])
        distance += gaps.sum(axis=2) / 2 if categorical else gaps.max(axis=2)
    centring = np.eye(len(codes)) - 1 / len(codes)
    _, vectors = np.linalg.eigh(-centring @ distance**2 @ centring / 2)
    return codes[np.argsort(vectors[:, -1])]


@pytest.mark.parametrize("seed", range(5))
def test_order_of_categories_by_definition(seed):
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 9, size=700).astype(float)
    number = own / 3 + rng.normal(size=700)
    number[rng.random(700) < 0.1] = np.nan
    number[:4] = np.inf, -np.inf, np.inf, -np.inf
    # More codes than are counted at a time.
    other = np.round(20 * own + rng.integers(0, 60, size=700))
    other[rng.random(700) < 0.1] = np.nan
    own[rng.random(700) < 0.05] = np.nan
    own[rng.random(700) < 0.05] = 9.0
    specs = (
        FeatureSpec("own", "categorical", n_codes=9),
        FeatureSpec("number"),
        FeatureSpec("other", "categorical", n_codes=300),
    )
    columns = Columns(specs, (own, number, other), 700)
    shares = rng.random(700)
    found = order_of_categories(columns, shares)
    truth = slow_order(columns, shares, 0, np.arange(9))
    assert found.tolist() in (truth.tolist(), truth[::-1].tolist())


def test_ordering_categories_takes_no_table_of_rows():
    rng = np.random.default_rng(5)
    n_rows, n_codes = 20_000, 80
    specs = (
        FeatureSpec("own", "categorical", n_codes=n_codes),
        FeatureSpec("number"),
        FeatureSpec("other", "categorical", n_codes=3000),
    )
    own = rng.integers(0, n_codes, size=n_rows).astype(float)
    others = own + rng.normal(size=n_rows), rng.integers(0, 3000, size=n_rows).astype(float)
    columns = Columns(specs, (own, *others), n_rows)
    shares = np.full(n_rows, 1 / n_rows)
    order_of_categories(columns, shares)
    _, peak = peak_of(lambda: order_of_categories(columns, shares))
    # A table of categories and rows takes 12.8 MB; one of both categorical features 1.9 MB, which
    # is counted, and divided into shares.
    assert peak < 45 * own.nbytes


def test_too_many_categories_to_order_are_refused():
    spec = FeatureSpec("town", "categorical", n_codes=6000)
    columns = Columns((spec,), (np.arange(6000.0),), 6000)
    with pytest.raises(tp.errors.MemoryBudgetError, match="between the 6000 categories of 'town'"):
        order_of_categories(columns, None)


def test_values_of_triples_are_counted():
    rng = np.random.default_rng(6)
    ensemble = complete_ensemble(rng, n_features=8, depth=4, n_trees=6)
    X = rng.normal(size=(2000, 8))
    grid = read_background(ensemble, X, None, None, "auto").grid
    boxes = leaf_boxes(ensemble, grid)
    pairs = len(occurring_subsets(boxes, 2, 8))
    triples = len(occurring_subsets(boxes, 3, 8))
    # Main effects, pairs, what each feature adds to others twice, and the model.
    of_pairs = 8 * 2000 * (8 + pairs + 16 + 6)

    def ask(order, budget):
        return h_statistics(
            ensemble, X, order=order, memory_budget=budget, purified=False, progress=False
        )

    assert ask(2, of_pairs).triples().empty
    of_triples = of_pairs + 8 * 2000 * triples
    with pytest.raises(
        tp.errors.MemoryBudgetError, match="effects of up to 3 features on 2000 rows"
    ):
        ask(3, of_triples - 1)
    ask(3, of_triples)  # what is compiled is held too
    found, peak = peak_of(lambda: ask(3, of_triples))
    assert len(found.triples()) == triples
    assert peak < 1.5 * of_triples


def test_support_of_many_codes_is_looked_up():
    rng = np.random.default_rng(7)
    n_codes = 20_000
    specs = tuple(FeatureSpec(name, "categorical", n_codes=n_codes) for name in "ab")
    drawn = rng.integers(0, n_codes, size=2000).astype(float)
    columns = Columns(specs, (drawn, np.floor(drawn / 2)), 2000)
    facts, peak = peak_of(lambda: outside_support(columns, columns, (0, 1)))
    assert peak < 50 * drawn.nbytes
    # The second feature follows the first: nearly every mixture of two rows is new.
    assert facts["share"] > 0.98


@pytest.mark.parametrize("least", [0, 1 << 16])
def test_cells_are_found_by_marks_and_by_look_up(least, monkeypatch):
    monkeypatch.setattr("treepurify.engines.partial_dependence.background._LEAST_MARKS", least)
    rng = np.random.default_rng(8)
    cells, first, second = rng.integers(0, 3000, size=(3, 200))
    found = _occur(cells, 3000, first, second)
    known = set(cells.tolist())
    for own, asked in zip(found, (first, second), strict=True):
        assert own.tolist() == [cell in known for cell in asked.tolist()]


def chain(n_features):
    """One tree whose longest path tests every feature once."""
    base = random_ensemble(np.random.default_rng(0), n_features=n_features, n_trees=0)
    n_nodes = 2 * n_features + 1
    inner = np.arange(0, 2 * n_features, 2)
    feature, left, right = (np.full(n_nodes, -1, dtype=np.int32) for _ in range(3))
    feature[inner], left[inner], right[inner] = np.arange(n_features), inner + 1, inner + 2
    return replace(
        base,
        tree_ptr=np.array([0, n_nodes]),
        feature=feature,
        cut=np.where(feature >= 0, 0.0, np.nan),
        left=left,
        right=right,
        missing_left=np.zeros(n_nodes, dtype=bool),
        category_ptr=np.full(n_nodes, -1),
        value=np.where(feature < 0, 1.0, 0.0)[:, None],
        tree_output=np.zeros(1, dtype=np.int32),
    )


@pytest.mark.parametrize("n_features", [28, 61, 62, 64, 65, 66, 300])
def test_subsets_of_long_paths_are_refused_before_anything_is_allocated(n_features):
    X = np.zeros((2, n_features))

    def ask():
        with pytest.raises(tp.errors.MemoryBudgetError, match="smaller order") as refusal:
            tp.partial_dependence_anova(chain(n_features), X, order=None, progress=False)
        return str(refusal.value)

    message, peak = peak_of(ask)
    assert f"in {n_features + 1} leaves, for subsets of up to {n_features} features" in message
    assert peak < 50e6


def test_subsets_of_very_long_paths_can_still_be_put_in_words():
    with pytest.raises(
        tp.errors.MemoryBudgetError, match="5000 leaves, for subsets of up to 5000 features"
    ):
        _check_shares(np.arange(1, 5001), 5000, 1 << 30)


def test_the_shares_of_long_paths_are_counted_exactly():
    """A leaf whose path tests k features has a share for each of their 2**k subsets."""
    X = np.random.default_rng(0).normal(size=(9, 8))
    needed = 8 * (2**8 + sum(2**k for k in range(1, 9)))
    ensemble = chain(8)
    given = read_background(ensemble, X, None, None, "auto")
    boxes = leaf_boxes(ensemble, given.grid)
    ask = partial(pattern_shares, boxes, given.grid, given.rows, 8, report=lambda *_: None)
    assert 8 * len(ask(memory_budget=needed).share) == needed
    with pytest.raises(tp.errors.MemoryBudgetError):
        ask(memory_budget=needed - 1)
    few = 8 * sum(1 + k + k * (k - 1) // 2 for k in [*range(1, 9), 8])
    some = partial(pattern_shares, boxes, given.grid, given.rows, 2, report=lambda *_: None)
    assert 8 * len(some(memory_budget=few).share) == few


def test_no_error_advises_more_memory_than_computers_have():
    """Where no budget would do, the first advice is what works."""
    with pytest.raises(
        tp.errors.MemoryBudgetError, match=r"would take 2 GiB.*Pass fewer rows\. Or raise"
    ):
        check_budget(2 << 30, 1 << 30, "the values", "Pass fewer rows.")
    with pytest.raises(
        tp.errors.MemoryBudgetError, match=r"2 TiB.*any computer has\. Pass fewer rows\.$"
    ):
        check_budget(2 << 40, 1 << 30, "the values", "Pass fewer rows.")
    X = np.random.default_rng(0).normal(size=(400, 9))
    y = X.prod(axis=1)
    model = GradientBoostingRegressor(max_depth=9, n_estimators=20, random_state=0).fit(X, y)
    with pytest.raises(
        tp.errors.MemoryBudgetError, match=r"TiB.*any computer has\. Pass order=2"
    ) as refused:
        tp.purify(model, X, weights="empirical", order=None, progress=False)
    assert "raise memory_budget" not in str(refused.value)
    assert tp.purify(model, X, weights="empirical", order=2, progress=False).remainder is not None
    # The function that is advised has effects of every order.
    d = tp.partial_dependence_anova(model, X[:50], order=None, progress=False)
    np.testing.assert_allclose(d.predict(X[:5]), model.predict(X[:5]), atol=1e-8)
