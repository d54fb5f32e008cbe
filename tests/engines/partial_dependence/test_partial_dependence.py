"""Partial dependence of tree models and EBMs against its definition, row by row."""

import gc
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

from tests.reference.ensembles import random_ensemble
from tests.reference.partial_dependence import moebius_terms, subsets_of
from tests.reference.tables import tables_with_coarse_terms
from treepurify.components import TensorComponent, locate_cells
from treepurify.engines.partial_dependence import pattern_component
from treepurify.engines.partial_dependence.anova import partial_dependence_anova
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.models.parse import parse_model
from treepurify.storage import load


def background_rows(rng, n_rows, n_features, n_categorical=0, missing=0.1):
    rows = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_rows, 1))
    for j in range(n_features - n_categorical, n_features):
        rows[:, j] = rng.integers(0, 4, size=n_rows)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def exact_margin(model):
    """The margin in double precision: XGBoost itself adds leaves up in single precision."""
    return partial(parse_model(model).margin, precision="float64")


def assert_terms(d, f, X, background, order, weights=None, tolerance=1e-10):
    truth = moebius_terms(f, X, background, order, weights)
    scale = max(float(np.max(np.abs(table))) for table in truth.values())
    np.testing.assert_allclose(d.intercept, truth[()][0], atol=tolerance * scale)
    for subset, values in truth.items():
        if not subset:
            continue
        if subset in d.components:
            got = d.components[subset].on_rows(X)
            np.testing.assert_allclose(got, values, atol=tolerance * scale, err_msg=str(subset))
        else:
            assert np.max(np.abs(values)) < tolerance * scale, subset


@pytest.mark.parametrize("case", range(12))
def test_every_term_of_a_random_ensemble_is_the_moebius_inverse(case):
    rng = np.random.default_rng(case)
    n_categorical = case % 3
    ensemble = random_ensemble(
        rng,
        n_features=4,
        n_categorical=n_categorical,
        n_trees=5,
        depth=5,
        n_outputs=1 + case % 3,
        vector_leaves=case % 2 == 1,
    )
    n_rows = [3, 64, 65, 200][case % 4]
    background = background_rows(rng, n_rows, 4, n_categorical)
    weights = rng.random(n_rows) if case % 5 < 2 else None
    d = partial_dependence_anova(
        ensemble,
        background,
        order=None,
        sample_weight=weights,
        missing_cells="always",
        progress=False,
    )
    X = background_rows(rng, 9, 4, n_categorical)
    assert_terms(d, ensemble.margin, X, background, None, weights)
    np.testing.assert_allclose(d.on_rows(X), ensemble.margin(X), atol=1e-11)
    assert d.remainder is None


def test_tables_and_leaf_sums_agree_at_every_order():
    rng = np.random.default_rng(1)
    ensemble = random_ensemble(rng, n_features=3, n_trees=8, depth=4)
    background = background_rows(rng, 100, 3)
    d = partial_dependence_anova(ensemble, background, order=None, progress=False)
    pair = d[0, 1]
    triple = d[0, 1, 2]
    assert isinstance(pair, TensorComponent)
    assert isinstance(triple, PatternComponent)
    single = partial_dependence_anova(ensemble, background, order=1, progress=False)
    found = single[0, 1]
    np.testing.assert_allclose(found.on_rows(background), pair.on_rows(background), atol=1e-13)
    shares = PatternComponent((0, 1), triple.grid, triple.shares, triple.background, 1)
    np.testing.assert_allclose(shares.on_rows(background), pair.on_rows(background), atol=1e-13)
    np.testing.assert_allclose(shares.variance, pair.variance, rtol=1e-10)


@pytest.mark.parametrize("weights", [None, "weights"])
def test_tables_of_pairs_are_built_when_they_are_asked_for(weights):
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_features=4, n_trees=60, depth=5, n_categorical=1)
    background = background_rows(rng, 3000, 4, 1)
    sample_weight = None if weights is None else rng.uniform(0, 2, size=3000)
    d = partial_dependence_anova(ensemble, background, sample_weight=sample_weight, progress=False)
    pairs = [d[subset] for subset in d if len(subset) == 2]
    stored = [pair.stored() for pair in pairs]
    for pair, table in zip(pairs, stored, strict=True):
        assert isinstance(pair, TensorComponent)
        assert pair.values is not pair.values
        np.testing.assert_array_equal(pair.values, table.values)
        counts = np.zeros(table.mass.shape)
        columns = d.inputs.columns(background)
        cells = tuple(
            locate_cells(columns, j, axis) for j, axis in zip(pair.features, pair.axes, strict=True)
        )
        np.add.at(counts, cells, 1.0 if sample_weight is None else sample_weight)
        np.testing.assert_allclose(table.mass, counts / counts.sum(), atol=1e-15)
        # One row at a time the leaves are summed, many rows are looked up.
        alone = [pair.on_rows(background[i : i + 1]) for i in range(4)]
        many = pair.on_rows(np.tile(background, (4, 1)))[:4]
        np.testing.assert_allclose(np.concatenate(alone), many, atol=1e-13)
        np.testing.assert_allclose(pair.variance, table.variance, rtol=1e-12)
        assert repr(pair).startswith("Interaction ")


def test_tables_of_pairs_are_not_kept():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1500, 4)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    forest = RandomForestRegressor(n_estimators=30, max_depth=6, random_state=0).fit(X, y)
    # What is compiled is there before.
    partial_dependence_anova(forest, X, progress=False).on_rows(X)
    tracemalloc.start()
    d = partial_dependence_anova(forest, X, progress=False)
    d.on_rows(X)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    cells = sum(d[subset].n_cells for subset in d if len(subset) == 2)
    # Values and masses are doubles.
    assert held < 0.3 * 16 * cells


def test_evaluating_asks_no_term_for_its_variance(monkeypatch):
    """Variances of large terms take as long as all their values."""
    rng = np.random.default_rng(9)
    ensemble = random_ensemble(rng, n_features=4, n_trees=8, depth=4)
    background = background_rows(rng, 200, 4)
    d = partial_dependence_anova(ensemble, background, order=None, progress=False)
    assert any(isinstance(component, PatternComponent) for component in d.components.values())

    def spread(component):
        raise AssertionError(f"{component} was asked for its variance")

    monkeypatch.setattr(PatternComponent, "_spread", property(spread))
    np.testing.assert_allclose(d.on_rows(background), ensemble.margin(background), atol=1e-11)


def test_order_two_leaves_the_rest_as_remainder():
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, n_features=5, n_trees=20, depth=5)
    background = background_rows(rng, 300, 5, missing=0.0)
    d = partial_dependence_anova(ensemble, background, progress=False)
    full = partial_dependence_anova(ensemble, background, order=None, progress=False)
    assert max(len(s) for s in d) == 2
    np.testing.assert_allclose(d.predict(background), ensemble.margin(background)[:, 0], atol=1e-12)
    above = sum(c.on_rows(background) for s, c in full.components.items() if len(s) > 2)
    np.testing.assert_allclose(d.remainder.on_rows(background), above, atol=1e-12)
    np.testing.assert_allclose(d.remainder.variance, above.var(axis=0), rtol=1e-9)
    higher = next(s for s in full if len(s) == 3)
    np.testing.assert_allclose(
        d[higher].on_rows(background), full[higher].on_rows(background), atol=1e-13
    )
    assert d.importance()["share"].sum() == pytest.approx(1.0)
    assert d.diagnostics["intercept_error"] < 1e-13


@pytest.mark.parametrize("order", [2, 3, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_order_has_its_share_of_the_variance(order, weighted):
    rng = np.random.default_rng(2)
    ensemble = random_ensemble(rng, n_features=5, n_trees=20, depth=5)
    background = background_rows(rng, 300, 5, missing=0.0)
    weights = rng.integers(1, 5, size=300).astype(float) if weighted else None
    d = partial_dependence_anova(
        ensemble, background, order=order, sample_weight=weights, progress=False
    )
    table = d.importance()
    assert not table[["size", "share"]].isna().any().any()
    assert table["share"].sum() == pytest.approx(1.0)
    margin = ensemble.margin(background)[:, 0]
    for subset, component in d.components.items():
        values = component.on_rows(background)[:, 0]
        own = np.cov(values, margin, aweights=weights, bias=True)
        assert d.covariances[subset] == pytest.approx(own[0, 1], abs=1e-12)
        assert component.variance == pytest.approx(own[0, 0], abs=1e-12)
    if d.remainder is not None:
        own = np.cov(d.remainder.on_rows(background)[:, 0], margin, aweights=weights, bias=True)
        assert d.remainder.variance == pytest.approx(own[0, 0], abs=1e-12)
        assert d.covariances[()] == pytest.approx(own[0, 1], abs=1e-12)


def test_chosen_interactions_are_kept_apart():
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=4, n_trees=20, depth=4)
    background = background_rows(rng, 100, 4, missing=0.0)
    d = partial_dependence_anova(ensemble, background, order=3, interactions=[(0, 2), (0, 1, 3)])
    assert set(d) == {(0,), (1,), (2,), (3,), (0, 2), (0, 1, 3)}
    np.testing.assert_allclose(d.predict(background), ensemble.margin(background)[:, 0], atol=1e-12)


def test_another_background_and_rows_with_other_special_cells():
    rng = np.random.default_rng(4)
    ensemble = random_ensemble(rng, n_features=4, n_categorical=1, n_trees=9, depth=4)
    X = background_rows(rng, 12, 4, 1, missing=0.3)
    background = background_rows(rng, 150, 4, 1, missing=0.0)
    background[:, 3] = np.minimum(background[:, 3], 2)
    d = partial_dependence_anova(ensemble, X, background=background, order=None)
    assert_terms(d, ensemble.margin, X, background, None)
    swapped = partial_dependence_anova(ensemble, background, background=X, order=None)
    assert_terms(swapped, ensemble.margin, background[:7], X, None)


def test_many_blocks_of_rows_count_like_one(monkeypatch):
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_features=4, n_trees=9, depth=4)
    background = background_rows(rng, 3000, 4)
    weights = rng.random(3000)
    whole = partial_dependence_anova(ensemble, background, sample_weight=weights)
    monkeypatch.setattr(
        "treepurify.engines.partial_dependence.pattern_shares._MOST_ROWS_A_BLOCK", 1024
    )
    monkeypatch.setattr(
        "treepurify.engines.partial_dependence.pattern_shares._LEAST_ROWS_A_BLOCK", 64
    )
    pieces = partial_dependence_anova(ensemble, background, sample_weight=weights)
    for subset in whole:
        np.testing.assert_allclose(pieces[subset].values, whole[subset].values, atol=1e-13)


def test_repeated_rows_are_weights():
    rng = np.random.default_rng(6)
    ensemble = random_ensemble(rng, n_features=4, n_trees=9, depth=4)
    background = background_rows(rng, 80, 4)
    times = rng.integers(0, 4, size=80)
    times[0] = 1
    weighted = partial_dependence_anova(
        ensemble, background, sample_weight=times, missing_cells="always"
    )
    repeated = partial_dependence_anova(ensemble, np.repeat(background, times, axis=0))
    X = background[times > 0]
    for subset in weighted:
        np.testing.assert_allclose(
            weighted[subset].on_rows(X), repeated[subset].on_rows(X), atol=1e-13
        )


@pytest.fixture(scope="module")
def correlated():
    rng = np.random.default_rng(7)
    X = rng.multivariate_normal(np.zeros(4), 0.5 + 0.5 * np.eye(4), size=400)
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + (X[:, 0] > 0) * X[:, 3]
    return X, y


def test_xgboost_and_the_interventional_values_of_shap(correlated):
    with warnings.catch_warnings():
        # What importing its plots warns about is not ours to fix.
        warnings.simplefilter("ignore")
        shap = pytest.importorskip("shap", reason="the peer is not a dependency")
    import xgboost

    X, y = correlated
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    model = xgboost.XGBRegressor(n_estimators=25, max_depth=4).fit(holes, y)
    d = partial_dependence_anova(model, holes[:200], order=None)
    assert_terms(d, exact_margin(model), holes[:5], holes[:200], None)
    masker = shap.maskers.Independent(holes[:200], max_samples=200)
    explainer = shap.TreeExplainer(model, masker, feature_perturbation="interventional")
    theirs = explainer.shap_values(holes[:100])
    ours = d.shapley_values(holes[:100]).values[:, :, 0]
    assert np.max(np.abs(ours - theirs)) < 1e-6 * max(1.0, np.max(np.abs(theirs)))


def test_multiclass_xgboost(correlated):
    import xgboost

    X, y = correlated
    classes = np.digitize(y, [-0.5, 0.7])
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3).fit(X, classes)
    d = partial_dependence_anova(model, X[:90], order=None)
    assert d.n_outputs == 3
    assert_terms(d, exact_margin(model), X[:4], X[:90], None)


def test_lightgbm_with_categories(correlated):
    import lightgbm

    X, y = correlated
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["e"] = pd.Categorical(rng.choice(["u", "v", "w", "x", "y"], size=len(X)))
    target = y + frame["e"].cat.codes.to_numpy() % 2 * X[:, 0]
    model = lightgbm.LGBMRegressor(
        n_estimators=20, num_leaves=12, min_child_samples=5, min_data_per_group=5, verbose=-1
    ).fit(frame, target)
    d = partial_dependence_anova(model, frame, order=2)
    ensemble = parse_model(model)
    columns = ensemble.columns(frame).matrix()
    truth = moebius_terms(ensemble.margin, columns[:4], columns, 2)
    for subset in d:
        got = d[subset].on_rows(frame.iloc[:4])
        np.testing.assert_allclose(got, truth[subset], atol=1e-10)
    np.testing.assert_allclose(d.predict(frame), model.predict(frame), atol=1e-10)


def test_catboost(correlated):
    import catboost

    X, y = correlated
    model = catboost.CatBoostRegressor(
        iterations=10, depth=4, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(X, y)
    d = partial_dependence_anova(model, X[:120], order=None)
    assert_terms(d, exact_margin(model), X[:4], X[:120], None)


@pytest.mark.parametrize("depth", [3, 9])
def test_scikit_learn(correlated, depth):
    X, y = correlated
    forest = RandomForestRegressor(n_estimators=4, max_depth=depth, random_state=0).fit(X, y)
    d = partial_dependence_anova(forest, X[:150], order=None)
    assert_terms(d, forest.predict, X[:4], X[:150], None)
    boosted = GradientBoostingClassifier(n_estimators=5, max_depth=2).fit(X, y > 0)
    d = partial_dependence_anova(boosted, X)
    assert_terms(d, boosted.decision_function, X[:4], X, 2)
    assert d.remainder is None
    assert d.certificate.additivity < 1e-12


def test_ebm(correlated):
    from interpret.glassbox import ExplainableBoostingRegressor

    X, y = correlated
    model = ExplainableBoostingRegressor(
        interactions=3, max_rounds=40, n_jobs=1, outer_bags=2, max_bins=16
    ).fit(X, y)
    d = partial_dependence_anova(model, X)
    truth = moebius_terms(model.predict, X[:5], X, 2)
    for subset, values in truth.items():
        if subset in d.components:
            np.testing.assert_allclose(d[subset].on_rows(X[:5]), values, atol=1e-9)
        elif subset:
            assert np.max(np.abs(values)) < 1e-9
    np.testing.assert_allclose(d.predict(X), model.predict(X), atol=1e-9)
    assert "outside the joint support" in d.certificate.note


@pytest.mark.parametrize("n_cuts", [(300, 5), (200, 6, 3)])
def test_tables_keep_the_cells_of_their_own_order(n_cuts):
    rng = np.random.default_rng(0)
    model = tables_with_coarse_terms(rng, 4, n_cuts)
    X = rng.normal(size=(80, 4))
    X[:, 1:] += X[:, :1]
    # On the cuts of all terms the pairs alone would take more than three times this.
    d = partial_dependence_anova(model, X, order=None, memory_budget=8 << 20, progress=False)
    truth = moebius_terms(model.margin, X, X, len(n_cuts))
    for subset, values in truth.items():
        if subset:
            np.testing.assert_allclose(d[subset].on_rows(X), values, atol=1e-12)
            np.testing.assert_allclose(d[subset].variance, values.var(axis=0), atol=1e-12)


def test_a_reader_is_told_where_the_model_extrapolates():
    rng = np.random.default_rng(8)
    ensemble = random_ensemble(rng, n_features=3, n_trees=8, depth=3)
    apart = rng.normal(size=(2000, 3))
    together = apart[:, :1] + 0.05 * rng.normal(size=(2000, 3))
    independent = partial_dependence_anova(ensemble, apart).diagnostics["extrapolation"]
    dependent = partial_dependence_anova(ensemble, together)
    facts = dependent.diagnostics["extrapolation"]
    assert independent["share"] < 0.01
    assert facts["share"] > 0.7
    assert set(facts["by_feature"]) <= {"x0", "x1", "x2"}
    assert f"{facts['share']:.0%}" in dependent.measure
    assert any("extrapolations" in line for line in dependent.certificate.details())


def test_terms_are_not_orthogonal_under_dependence_and_the_certificate_says_so():
    rng = np.random.default_rng(3)
    ensemble = random_ensemble(rng, n_features=2, n_trees=30, depth=2)
    d = partial_dependence_anova(ensemble, background_rows(rng, 500, 2, missing=0.0))
    assert d.certificate.conditional_mean > 1e-4
    assert not d.certificate.is_exact


def test_a_constant_model_and_one_background_row():
    ensemble = random_ensemble(np.random.default_rng(0), n_trees=0)
    background = np.zeros((1, 3))
    d = partial_dependence_anova(ensemble, background)
    assert len(d) == 0
    np.testing.assert_allclose(d.predict(np.ones((4, 3))), np.full(4, ensemble.base[0]))
    deeper = random_ensemble(np.random.default_rng(1), n_trees=4)
    d = partial_dependence_anova(deeper, background, order=None)
    assert_terms(d, deeper.margin, np.random.default_rng(0).normal(size=(6, 3)), background, None)


def test_bad_input():
    ensemble = random_ensemble(np.random.default_rng(0), depth=4)
    background = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InvalidInputError, match="order"):
        partial_dependence_anova(ensemble, background, order=0)
    with pytest.raises(InvalidInputError, match="no rows"):
        partial_dependence_anova(ensemble, background, background=background[:0])
    with pytest.raises(InvalidInputError, match="no rows"):
        partial_dependence_anova(ensemble, None)
    with pytest.raises(InvalidInputError, match="columns"):
        partial_dependence_anova(ensemble, background, background=background[:, :2])
    with pytest.raises(InvalidInputError, match="sample_weight"):
        partial_dependence_anova(ensemble, background, sample_weight=np.ones(3))
    with pytest.raises(InvalidInputError, match="missing_cells"):
        partial_dependence_anova(ensemble, background, missing_cells="never")
    with pytest.raises(InvalidInputError, match="the rows of the decomposition had none"):
        partial_dependence_anova(ensemble, background)[0].on_rows(np.full((1, 3), np.nan))
    with pytest.raises(MemoryBudgetError):
        partial_dependence_anova(ensemble, background, memory_budget=100)


def test_a_pair_whose_table_would_not_fit_is_evaluated_from_the_leaves(tmp_path):
    rng = np.random.default_rng(3)
    X = background_rows(rng, 1500, 4)
    target = np.nan_to_num(X[:, 0] * X[:, 1]) + rng.normal(size=len(X))
    model = RandomForestRegressor(n_estimators=10, random_state=0).fit(X, target)
    of_tables = partial_dependence_anova(model, X, order=2, progress=False)
    assert 8 * of_tables["x0", "x1"].values.size > 4 << 20
    d = partial_dependence_anova(model, X, order=2, memory_budget=4 << 20, progress=False)
    d.save(tmp_path / "forest.tpz")
    for found in (d, load(tmp_path / "forest.tpz")):
        pairs = [part for subset, part in found.components.items() if len(subset) == 2]
        assert {type(pair) for pair in pairs} == {PatternComponent}
        for pair in pairs:
            expected = of_tables[pair.features]
            np.testing.assert_allclose(pair.on_rows(X), expected.on_rows(X), atol=1e-12)
            np.testing.assert_allclose(pair.variance, expected.variance, rtol=1e-9)
    pd.testing.assert_frame_equal(d.importance(), of_tables.importance(), rtol=1e-9)


@pytest.mark.parametrize("case", range(4))
def test_a_pair_on_many_rows_is_the_pair_on_few(case):
    rng = np.random.default_rng(case)
    ensemble = random_ensemble(
        rng,
        n_features=3,
        n_categorical=case % 2,
        n_trees=60,
        depth=5,
        n_outputs=1 + case % 3,
        vector_leaves=case % 2 == 1,
    )
    X = background_rows(rng, 400, 3, n_categorical=case % 2)
    d = partial_dependence_anova(ensemble, X, order=None, missing_cells="always", progress=False)
    pair = d[0, 2].term
    few = [pair.on_rows(X[start : start + 50]) for start in range(0, len(X), 50)]
    np.testing.assert_allclose(pair.on_rows(X), np.vstack(few), atol=1e-12)


def test_subsets_of_the_reference():
    assert subsets_of((1, 4)) == [(), (1,), (4,), (1, 4)]


def test_a_large_background_is_read_in_blocks():
    """Beside the cell numbers, memory does not grow with the rows of the background."""
    rng = np.random.default_rng(5)
    ensemble = random_ensemble(rng, n_features=4, n_trees=12, depth=3)
    X = background_rows(rng, 50, 4, missing=0.0)
    background = rng.normal(size=(400_000, 4)).astype(np.float32)
    half = partial_dependence_anova(ensemble, X, background=background[:200_000], progress=False)
    tracemalloc.start()
    d = partial_dependence_anova(ensemble, X, background=background, progress=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    codes = background.shape[0] * background.shape[1]
    # One double a row would be twice the cell numbers of four features.
    assert peak < codes + 24e6
    assert d.diagnostics["background_rows"] == 400_000
    other = partial_dependence_anova(ensemble, X, background=background[200_000:], progress=False)
    for subset, component in d.components.items():
        parts = half[subset].on_rows(X) + other[subset].on_rows(X)
        np.testing.assert_allclose(component.on_rows(X), parts / 2, atol=1e-12)
    np.testing.assert_allclose(d.intercept, ensemble.margin(background).mean(axis=0), atol=1e-10)
    with pytest.raises(MemoryBudgetError):
        partial_dependence_anova(ensemble, X, background=background, memory_budget=500)


@pytest.mark.parametrize(("depth", "order"), [(2, 2), (6, 2), (3, 1)])
def test_tables_with_far_more_cells_than_rows_are_measured_on_rows(monkeypatch, depth, order):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 4))
    X[:, 1] += X[:, 0]
    labels = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])
    model = GradientBoostingClassifier(n_estimators=8, max_depth=depth, random_state=0)
    model.fit(X, labels)
    weights = rng.uniform(size=200)
    found = []
    for cells_a_row in (1e9, 0):
        monkeypatch.setattr(pattern_component, "_CELLS_A_ROW", cells_a_row)
        d = partial_dependence_anova(model, X, order=order, sample_weight=weights, progress=False)
        seen = d.certificate
        figures = [
            seen.conditional_mean * seen.scale,
            seen.cosine,
        ]
        found.append(
            (
                figures,
                [d[s].variance for s in d.components],
                [d[s].mean_absolute for s in d.components],
            )
        )
    for dense, on_rows in zip(*found, strict=True):
        np.testing.assert_allclose(on_rows, dense, rtol=1e-10, atol=1e-15)
