"""Several trainings of one model: against each of them purified by itself."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.reference.dense import functional_anova
from treepurify.errors import InvalidInputError, MemoryBudgetError, UnsupportedModelError
from treepurify.models.several import sum_of_models

QUIET = {"progress": False}


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += 0.7 * X[:, 0]
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n)
    return X, y


def boosters(n=4, depth=2, size=12):
    X, y = rows()
    rng = np.random.default_rng(1)
    models = []
    for number in range(n):
        drawn = rng.integers(len(X), size=len(X))
        model = GradientBoostingRegressor(max_depth=depth, n_estimators=size, random_state=number)
        models.append(model.fit(X[drawn], y[drawn]))
    return models, X


def test_each_model_has_the_effects_of_a_dense_anova():
    rng = np.random.default_rng(0)
    X = rng.integers(4, size=(900, 3)).astype(float)
    X[:, 1] = np.where(rng.uniform(size=900) < 0.5, X[:, 0], X[:, 1])
    y = X[:, 0] * X[:, 1] + (X[:, 2] > 1) + rng.normal(size=900)
    models = tp.refit(GradientBoostingRegressor(max_depth=2, n_estimators=6), X, y, n=3, **QUIET)
    d = tp.purify(models, X, weights="empirical", **QUIET)
    joint = np.zeros([component.mass.size for component in (d[0], d[1], d[2])])
    codes = [np.searchsorted(d[j].axes[0].cuts, X[:, j], "right") for j in range(3)]
    np.add.at(joint, tuple(codes), 1 / len(X))
    assert np.all(joint > 0)
    for number, model in enumerate(models):
        values = np.zeros((*joint.shape, 1))
        values[(*codes, 0)] = model.predict(X)
        dense = functional_anova(values, joint)
        for subset in d:
            ours = d.spread.values(subset)[number]
            np.testing.assert_allclose(ours, dense[subset], atol=1e-9)


def test_the_mean_is_decomposed():
    models, X = boosters()
    d = tp.purify(models, X, weights="empirical", **QUIET)
    expected = np.mean([model.predict(X) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-12)
    assert d.certificate.is_exact
    for subset in d:
        np.testing.assert_allclose(d.spread.mean(subset), d[subset].values, atol=1e-12)
    np.testing.assert_allclose(d.spread.intercepts.mean(axis=0), d.intercept, atol=1e-12)


def test_each_model_is_the_sum_of_its_effects():
    models, X = boosters()
    d = tp.purify(models, X, weights="empirical", **QUIET)
    for number, model in enumerate(models):
        total = np.full(len(X), d.spread.intercepts[number, 0])
        for component in d.spread.stacked.values():
            total += component.on_rows(X)[:, number]
        np.testing.assert_allclose(total, model.predict(X), atol=1e-12)


@pytest.mark.parametrize("weights", ["independent", "uniform", "laplace"])
def test_other_measures(weights):
    models, X = boosters()
    d = tp.purify(models, X, weights=weights, **QUIET)
    for subset in d:
        np.testing.assert_allclose(d.spread.mean(subset), d[subset].values, atol=1e-12)


@pytest.mark.parametrize("method", ["projection", "coarse", "exact"])
def test_deep_models(method):
    models, X = boosters(depth=4, size=4)
    d = tp.purify(models, X, weights="empirical", method=method, **QUIET)
    assert d.diagnostics["method"] == {"exact": "joint"}.get(method, method)
    expected = np.mean([model.predict(X) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-12)
    for subset in d:
        np.testing.assert_allclose(d.spread.mean(subset), d[subset].values, atol=1e-7)


def test_a_model_keeps_its_own_effects_beside_its_refits():
    models, X = boosters()
    d = tp.purify(models[0], X, refits=models[1:], weights="empirical", **QUIET)
    np.testing.assert_allclose(d.predict(X), models[0].predict(X), atol=1e-12)
    assert d.spread.n_models == 3
    assert d.diagnostics["refits"]["decomposed"] == "given model"
    assert d.origin.model.trees == 12
    alone = tp.purify(models[0], X, weights="empirical", **QUIET)
    for subset in d:
        np.testing.assert_array_equal(d[subset].values, alone[subset].values)


def test_effects_of_refits_are_averaged_over_the_cells_of_the_model():
    models, X = boosters()
    d = tp.purify(models[0], X, refits=models[1:], weights="empirical", **QUIET)
    for number, model in enumerate(models[1:]):
        alone = tp.purify(model, X, weights="empirical", **QUIET)
        np.testing.assert_array_equal(d.spread.intercepts[number], alone.intercept)
        for j in range(3):
            cells = np.searchsorted(d[j].axes[0].cuts, X[:, j], side="right")
            own = pd.Series(alone[j].on_rows(X)[:, 0]).groupby(cells).mean()
            ours = d.spread.values(j)[number, own.index, 0]
            np.testing.assert_allclose(ours, own, atol=1e-12)


def test_several_outputs():
    X, y = rows()
    labels = np.digitize(y, [-1, 1])
    models = [
        GradientBoostingClassifier(n_estimators=3, max_depth=2, subsample=0.5, random_state=seed)
        for seed in range(3)
    ]
    models = [model.fit(X, labels) for model in models]
    d = tp.purify(models, X, weights="empirical", **QUIET)
    expected = np.mean([model.decision_function(X) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-12)
    for number, model in enumerate(models):
        total = np.tile(d.spread.intercepts[number], (len(X), 1))
        for component in d.spread.stacked.values():
            total += component.on_rows(X).reshape(len(X), 3, 3)[:, number]
        np.testing.assert_allclose(total, model.decision_function(X), atol=1e-12)


def test_the_largest_effects_have_a_spread_where_not_all_fit():
    models, X = boosters(20)
    many = {"refits": models * 5, "weights": "empirical"}
    whole = tp.purify(models[0], X, **many, **QUIET)
    cells = sum(8 * table.values.size for table in whole.spread.stacked.values())
    d = tp.purify(models[0], X, memory_budget=cells - 1, **many, **QUIET)
    left_out = [tuple(subset) for subset in d.diagnostics["refits"]["without_spread"]]
    assert left_out
    assert {*left_out, *d.spread.stacked} == {*d}
    least = min(d[subset].variance[0] for subset in d.spread.stacked)
    assert max(d[subset].variance[0] for subset in left_out) <= least
    for subset, table in d.spread.stacked.items():
        np.testing.assert_array_equal(table.values, whole.spread.stacked[subset].values)


def test_a_mean_that_does_not_fit_says_what_to_do():
    models, X = boosters(6)
    with pytest.raises(MemoryBudgetError, match="one of them as model and the others as refits"):
        tp.purify(models, X, weights="empirical", memory_budget=20_000, **QUIET)


def test_trees_stand_beside_an_ebm():
    glassbox = pytest.importorskip("interpret.glassbox", reason="trains an EBM")
    models, X = boosters(2)
    y = rows()[1]
    ebm = glassbox.ExplainableBoostingRegressor(interactions=1, outer_bags=1, max_rounds=20)
    both = [models[0], ebm.fit(X, y)]
    d = tp.purify(both, X, weights="empirical", **QUIET)
    expected = np.mean([model.predict(X) for model in both], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-10)
    alone = tp.purify([both[0], both[0]], X, weights="empirical", **QUIET)
    assert d.spread.n_models == 2
    assert len(alone.spread.stacked) <= len(d.spread.stacked)


def test_ebms_that_know_other_labels():
    glassbox = pytest.importorskip("interpret.glassbox", reason="trains an EBM")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": rng.choice(list("abc"), 300), "size": rng.normal(size=300)})
    y = (X["kind"] == "a") * 1.0 + X["size"]
    without = X["kind"] != "c"
    models = [
        glassbox.ExplainableBoostingRegressor(outer_bags=1, max_rounds=20).fit(X, y),
        glassbox.ExplainableBoostingRegressor(outer_bags=1, max_rounds=20).fit(
            X[without], y[without]
        ),
    ]
    d = tp.purify(models, X, weights="empirical", **QUIET)
    expected = np.mean([model.predict(X) for model in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-10)


def bags_of(ebm):
    """The bags as EBMs, by hand from what interpret stores."""
    bags = []
    for number, intercept in enumerate(ebm.bagged_intercept_):
        bag = copy.copy(ebm)
        bag.term_scores_ = [scores[number] for scores in ebm.bagged_scores_]
        bag.intercept_ = intercept if np.ndim(ebm.intercept_) == 0 else np.atleast_1d(intercept)
        bags.append(bag)
    return bags


@pytest.mark.parametrize("task", ["regression", "binary", "classes"])
def test_the_bags_of_an_ebm(task):
    glassbox = pytest.importorskip("interpret.glassbox", reason="trains an EBM")
    X, y = rows(300)
    settings = {"interactions": 1, "outer_bags": 3, "max_rounds": 30}
    if task == "regression":
        ebm = glassbox.ExplainableBoostingRegressor(**settings).fit(X, y)
    else:
        settings["interactions"] = 0 if task == "classes" else 1
        labels = np.digitize(y, [0] if task == "binary" else [-1, 1])
        ebm = glassbox.ExplainableBoostingClassifier(**settings).fit(X, labels)
    d = tp.purify(ebm, X, refits="bags", weights="empirical", **QUIET)
    assert d.spread.how == "bags of an EBM"
    bags = bags_of(ebm)
    alone = tp.purify(ebm, X, weights="empirical", **QUIET)
    np.testing.assert_allclose(d.predict(X), alone.predict(X), atol=1e-12)
    for number, bag in enumerate(bags):
        by_hand = tp.purify(bag, X, weights="empirical", **QUIET)
        assert set(by_hand) == set(d)
        for subset in d:
            ours = d.spread.values(subset)[number]
            np.testing.assert_allclose(ours, by_hand[subset].values, atol=1e-10)
            np.testing.assert_allclose(d[subset].values, alone[subset].values, atol=1e-10)
    # And the bags are what interpret says they are.
    for scores, deviation in zip(ebm.bagged_scores_, ebm.standard_deviations_, strict=True):
        np.testing.assert_allclose(np.std(scores, axis=0), deviation, atol=1e-12)


def test_bags_without_rows():
    glassbox = pytest.importorskip("interpret.glassbox", reason="trains an EBM")
    X, y = rows(300)
    ebm = glassbox.ExplainableBoostingRegressor(interactions=1, outer_bags=2, max_rounds=20)
    d = tp.purify(ebm.fit(X, y), refits="bags", **QUIET)
    by_hand = [tp.purify(bag, **QUIET) for bag in bags_of(ebm)]
    for subset in d:
        deviation = np.std([other[subset].values for other in by_hand], axis=0, ddof=1)
        ours = d.spread.standard_deviation(subset)
        np.testing.assert_allclose(ours, deviation, atol=1e-10)


def test_categories_and_missing_values():
    lightgbm = pytest.importorskip("lightgbm", reason="trains LightGBM models")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(list("abcd"), 500)),
            "size": np.where(rng.uniform(size=500) < 0.1, np.nan, rng.normal(size=500)),
        }
    )
    y = np.where(X["kind"] == "a", 1.0, 0.0) + X["size"].fillna(2.0)
    model = lightgbm.LGBMRegressor(n_estimators=8, num_leaves=4, verbose=-1)
    models = tp.refit(model, X, y, n=4, **QUIET)
    d = tp.purify(models, X, weights="empirical", **QUIET)
    expected = np.mean([other.predict(X) for other in models], axis=0)
    np.testing.assert_allclose(d.predict(X), expected, atol=1e-10)


def test_a_single_model_has_no_spread():
    models, X = boosters(2)
    assert tp.purify(models[0], X, weights="empirical", **QUIET).spread is None


def test_what_cannot_be_purified_together():
    models, X = boosters(2)
    with pytest.raises(InvalidInputError, match="two or more trained models"):
        tp.purify(models[:1], X, weights="empirical", **QUIET)
    with pytest.raises(InvalidInputError, match="contains None"):
        tp.purify([models[0], None], X, weights="empirical", **QUIET)
    names = pd.DataFrame(X, columns=list("abc"))
    named = [GradientBoostingRegressor(n_estimators=2).fit(names, X[:, 2]) for _ in range(2)]
    named[1] = GradientBoostingRegressor(n_estimators=2).fit(
        names.set_axis([*"abd"], axis=1), X[:, 2]
    )
    with pytest.raises(InvalidInputError, match="in model 1 and 'a', 'b', 'c' in model 0"):
        tp.purify(named, names, weights="empirical", **QUIET)
    other = GradientBoostingClassifier(n_estimators=2).fit(X, X[:, 2] > 0)
    with pytest.raises(InvalidInputError, match=r"the outputs are .* in model 1"):
        tp.purify([models[0], other], X, weights="empirical", **QUIET)
    with pytest.raises(UnsupportedModelError, match="two bags or more"):
        tp.purify(models[0], X, refits="bags", **QUIET)
    with pytest.raises(InvalidInputError, match="model is the one model"):
        tp.purify(models, X, refits=models, **QUIET)
    for refits in ("bag", models[0], models[:1]):
        with pytest.raises(InvalidInputError, match="two or more trained models"):
            tp.purify(models[0], X, refits=refits, **QUIET)


@pytest.mark.parametrize("weights", ["empirical", "independent"])
def test_cells_of_other_models_change_effects_only_where_features_depend(weights):
    """What the page on uncertainty says of one model, on its cuts and on those of others too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:, 1] += 0.8 * X[:, 0]
    y = X[:, 0] * X[:, 1] + rng.normal(size=2000)
    models = [
        tp.parse_model(
            GradientBoostingRegressor(
                max_depth=2, n_estimators=30, subsample=0.5, random_state=k
            ).fit(X, y)
        )
        for k in range(6)
    ]
    together = sum_of_models(models, np.eye(6)[0], models[0].source)
    alone, beside = (tp.purify(one, X, weights=weights, **QUIET) for one in (models[0], together))
    np.testing.assert_allclose(alone.predict(X), beside.predict(X), atol=1e-12)
    apart = [np.sqrt(np.mean((alone[s].on_rows(X) - beside[s].on_rows(X)) ** 2)) for s in alone]
    shares = np.array(apart) / np.std(alone.predict(X))
    if weights == "independent":
        assert shares.max() < 1e-12
    else:
        assert 0.05 < shares.min() <= shares.max() < 0.15
