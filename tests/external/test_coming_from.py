"""What the page for those who come from other packages says, statement by statement."""

import warnings
from inspect import signature
from itertools import chain, combinations

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.inspection import partial_dependence

import treepurify as tp

pytestmark = pytest.mark.libraries


@pytest.fixture(autouse=True)
def _quiet_peers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 4))
    values[:, 1] += values[:, 0]
    return values


def target(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture(scope="module")
def model(X):
    return xgboost.XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1).fit(X, target(X))


def interventional(model, X, background):
    found = tp.interventional_shapley_values(model, X, background=background, progress=False)
    return found.values[..., 0]


def test_shap_with_few_background_rows(model, X):
    shap = pytest.importorskip("shap")
    theirs = shap.TreeExplainer(model, X[:100]).shap_values(X[:20])
    np.testing.assert_allclose(theirs, interventional(model, X[:20], X[:100]), atol=1e-5)


def test_shap_samples_a_large_background(model, X):
    shap = pytest.importorskip("shap")
    ours = interventional(model, X[:20], X)
    sampled = shap.TreeExplainer(model, X).shap_values(X[:20])
    assert np.abs(sampled - ours).max() > 0.02
    everything = shap.maskers.Independent(X, max_samples=len(X))
    theirs = shap.TreeExplainer(model, everything).shap_values(X[:20])
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


def test_shap_without_a_background(model, X):
    shap = pytest.importorskip("shap")
    explainer = shap.TreeExplainer(model)
    d = tp.partial_dependence_anova(model, X, order=None, background="cover", progress=False)
    theirs = explainer.shap_values(X[:20])
    np.testing.assert_allclose(theirs, d.shapley_values(X[:20]).values[..., 0], atol=1e-5)
    assert np.abs(theirs - interventional(model, X[:20], X)).max() > 0.05
    pairs = d.shapley_interactions(X[:20], order=2).matrix()
    np.testing.assert_allclose(explainer.shap_interaction_values(X[:20]), pairs, atol=1e-5)


def test_shap_on_dart(X):
    shap = pytest.importorskip("shap")
    dart = xgboost.XGBRegressor(
        booster="dart", rate_drop=0.3, n_estimators=20, max_depth=3, n_jobs=1
    ).fit(X, target(X))
    margin = tp.parse_model(dart).margin(X[:20])[:, 0]
    np.testing.assert_allclose(dart.predict(X[:20]), margin, atol=1e-5)
    ours = tp.interventional_shapley_values(dart, X[:20], background=X[:100], progress=False)
    np.testing.assert_allclose(ours.values[..., 0].sum(axis=1) + ours.base[0], margin, atol=1e-5)
    explainer = shap.TreeExplainer(dart, X[:100])
    theirs = explainer.shap_values(X[:20], check_additivity=False).sum(axis=1)
    assert np.abs(theirs + explainer.expected_value - margin).max() > 0.1


def test_purified_effects_split_evenly_are_a_third_kind(X):
    boosted = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X, target(X))
    purified = tp.purify(boosted, X, weights="empirical", progress=False).shapley_values(X[:20])
    margin = boosted.predict(X[:20])
    np.testing.assert_allclose(
        purified.values[..., 0].sum(axis=1) + purified.base[0], margin, atol=1e-10
    )
    by_path = tp.partial_dependence_anova(
        boosted, X, order=None, background="cover", progress=False
    ).shapley_values(X[:20])
    for other in (interventional(boosted, X[:20], X), by_path.values[..., 0]):
        assert np.abs(purified.values[..., 0] - other).max() > 0.05


def test_purify_of_interpret():
    utils = pytest.importorskip("interpret.utils")
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(4, 5)), rng.uniform(size=(4, 5))
    pure, impurities, intercept = utils.purify(scores.copy(), weights)
    d = tp.purify_tensors(
        {(0, 1): scores}, weights={(0, 1): weights / weights.sum()}, progress=False
    )
    np.testing.assert_allclose(d[0, 1].values[..., 0], pure, atol=1e-12)
    np.testing.assert_allclose(d.intercept, intercept, atol=1e-12)
    for (feature,), main in impurities:
        np.testing.assert_allclose(d[feature].values[:, 0], main, atol=1e-12)


def largest_mean(values, weights):
    """The largest mean of a pair, given one of its features."""
    means = []
    for axis in (0, 1):
        mass = weights.sum(axis=axis)
        sums = (values * weights).sum(axis=axis)
        means.append(np.abs(sums[mass > 0] / mass[mass > 0]).max())
    return max(means)


def test_a_trained_ebm_is_not_pure(X):
    glassbox = pytest.importorskip("interpret.glassbox")
    ebm = glassbox.ExplainableBoostingRegressor(
        interactions=2, max_rounds=100, outer_bags=2, n_jobs=1, random_state=0
    ).fit(X, target(X))
    pairs = [k for k, features in enumerate(ebm.term_features_) if len(features) == 2]
    before = max(largest_mean(ebm.term_scores_[k], ebm.bin_weights_[k]) for k in pairs)
    assert before > 0.01
    d = tp.purify(ebm, X, weights="empirical", progress=False)
    after = max(
        largest_mean(c.values[..., 0], c.mass) for s, c in d.components.items() if len(s) == 2
    )
    assert after < 1e-12
    np.testing.assert_allclose(d.predict(X), ebm.predict(X), atol=1e-10)
    exported = tp.export.to_ebm(d)
    expected = [c.mean_absolute[0] for c in d.components.values()]
    np.testing.assert_allclose(exported.term_importances(), expected, atol=1e-12)


def test_partial_dependence_of_scikit_learn(model, X):
    if "custom_values" not in signature(partial_dependence).parameters:
        pytest.skip("this version of scikit-learn chooses the values itself")
    d = tp.partial_dependence_anova(model, X, progress=False)
    grid = np.linspace(-2, 2, 9)
    found = partial_dependence(model, X, [0], method="brute", custom_values={0: grid})
    rows = np.zeros((len(grid), 4))
    rows[:, 0] = grid
    ours = d.intercept[0] + d[0].on_rows(rows)[:, 0]
    np.testing.assert_allclose(found["average"][0], ours, atol=1e-5)


def marginal(f, X, x, subset):
    """Partial dependence of some features at one row, by definition."""
    rows = X.copy()
    rows[:, list(subset)] = x[list(subset)]
    return f(rows).mean()


def test_glex_by_its_definition(X):
    """``m_S`` is the sum of signed partial dependences; its Shapley value shares ``m_S`` evenly."""
    rows = X[:60, :3]
    boosted = GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0)
    boosted.fit(rows, target(rows))
    d = tp.partial_dependence_anova(boosted, rows, order=None, progress=False)
    found = d.contributions(rows[:4])
    values = d.shapley_values(rows[:4]).values[..., 0]
    subsets = [*chain.from_iterable(combinations(range(3), k) for k in range(4))]
    for row in range(4):
        pd = {s: marginal(boosted.predict, rows, rows[row], s) for s in subsets}
        m = {
            s: sum((-1) ** (len(s) - len(t)) * pd[t] for t in subsets if set(t) <= set(s))
            for s in subsets
        }
        for subset in subsets[1:]:
            ours = found.iloc[row].get(d.term_name(subset), 0.0)
            assert ours == pytest.approx(m[subset], abs=1e-10)
        for j in range(3):
            share = sum(m[s] / len(s) for s in subsets if j in s)
            assert values[row, j] == pytest.approx(share, abs=1e-10)


def test_h_squared_by_its_definition(X):
    rows = X[:60, :3]
    boosted = GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0)
    boosted.fit(rows, target(rows))
    h = tp.h_statistics(boosted, rows, progress=False)

    def centred(subset):
        values = np.array([marginal(boosted.predict, rows, x, subset) for x in rows])
        return values - values.mean()

    for record in h.pairs().to_dict("records"):
        i, j = (int(record[name][1:]) for name in ("first", "second"))
        both = centred((i, j))
        rest = both - centred((i,)) - centred((j,))
        assert record["h_squared"] == pytest.approx((rest**2).sum() / (both**2).sum(), abs=1e-9)
    for record in h.features().to_dict("records"):
        j = int(record["feature"][1:])
        others = tuple(k for k in range(3) if k != j)
        whole = centred((0, 1, 2))
        rest = whole - centred((j,)) - centred(others)
        assert record["h_squared"] == pytest.approx((rest**2).sum() / (whole**2).sum(), abs=1e-9)


@pytest.fixture(scope="module")
def hfd():
    return pytest.importorskip("treehfd").XGBTreeHFD


def test_treehfd_on_fitted_and_on_new_rows(hfd, X):
    shallow = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1).fit(X, target(X))
    peer = hfd(shallow)
    peer.fit(X, interaction_order=2, verbose=False)
    mains, pairs = peer.predict(X, verbose=False)
    predicted = shallow.predict(X)
    np.testing.assert_allclose(
        mains.sum(axis=1) + pairs.sum(axis=1) + peer.eta0, predicted, atol=1e-4
    )
    d = tp.purify(shallow, X, weights="empirical", progress=False)
    np.testing.assert_allclose(d.predict(X), predicted, atol=1e-4)
    ours = d[0].on_rows(X)[:, 0]
    assert np.corrcoef(mains[:, 0], ours)[0, 1] > 0.98
    assert np.abs(mains[:, 0] - ours).max() > 0.02
    new = 3 * np.random.default_rng(1).normal(size=(500, 4))
    mains, pairs = peer.predict(new, verbose=False)
    off = mains.sum(axis=1) + pairs.sum(axis=1) + peer.eta0 - shallow.predict(new)
    assert np.abs(off).max() > 0.05
    np.testing.assert_allclose(d.predict(new), shallow.predict(new), atol=1e-4)


def test_treehfd_is_random_for_deep_trees(hfd, X):
    deep = xgboost.XGBRegressor(n_estimators=20, max_depth=6, n_jobs=1).fit(X, target(X))
    peer = hfd(deep)
    peer.fit(X, interaction_order=2, verbose=False)
    new = 3 * np.random.default_rng(1).normal(size=(500, 4))
    first, second = (peer.predict(new, verbose=False)[1] for _ in range(2))
    assert np.abs(first - second).max() > 0.0
    d = tp.purify(deep, X, weights="empirical", progress=False)
    np.testing.assert_array_equal(d.contributions(new), d.contributions(new))


def test_summed_dummies_are_not_the_value_of_their_column():
    """The game of dummies mixes categories: some of the row, some of the background row."""
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 300)
    X = np.column_stack([codes, rng.normal(size=300)])
    dummies = np.column_stack([np.eye(3)[codes], X[:, 1]])
    y = (codes == 1) * (1 + X[:, 1]) - (codes == 2) * X[:, 1]
    trees = xgboost.XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1).fit(dummies, y)

    def of_columns(rows):
        return trees.predict(np.column_stack([np.eye(3)[rows[:, 0].astype(int)], rows[:, 1]]))

    explainer = shap.TreeExplainer(trees, dummies[:60])
    theirs = explainer.shap_values(dummies[:20])
    summed = np.column_stack([theirs[:, :3].sum(axis=1), theirs[:, 3]])
    ours = tp.interventional_shapley_values(of_columns, X[:20], X[:60], progress=False)
    np.testing.assert_allclose(summed.sum(axis=1), ours.values.sum(axis=(1, 2)), atol=1e-5)
    assert np.abs(summed - ours.values[..., 0]).max() > 0.05


def test_sobol_indices_by_their_definition():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 4, size=(300, 3)).astype(float)
    trees = xgboost.XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1).fit(
        X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0]
    )
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3, indexing="ij"), axis=-1)
    values = tp.parse_model(trees).margin(grid.reshape(-1, 3)).reshape(4, 4, 4)
    shares = [np.bincount(column.astype(int), minlength=4) / len(X) for column in X.T]

    def variance(of):
        """The variance of the expectation, given these features, all being independent."""
        given = values
        for axis in set(range(3)) - of:
            weights = np.expand_dims(shares[axis], [a for a in range(3) if a != axis])
            given = (given * weights).sum(axis=axis, keepdims=True)
        mass = np.ones(())
        for axis in range(3):
            one = shares[axis] if axis in of else np.ones(1)
            mass = mass * np.expand_dims(one, [a for a in range(3) if a != axis])
        return (given**2 * mass).sum() - (given * mass).sum() ** 2

    everything = variance({0, 1, 2})
    d = tp.purify(trees, X, weights="independent", progress=False)
    own = d.importance().set_index("effect")["share"]
    found = tp.interaction_indices(trees, X, progress=False)
    total = found.feature_total[0] / found.variance_by_order[0].sum()
    for feature in range(3):
        first = variance({feature}) / everything
        np.testing.assert_allclose(own[f"x{feature}"], first, atol=1e-8)
        others = {0, 1, 2} - {feature}
        np.testing.assert_allclose(total[feature], 1 - variance(others) / everything, atol=1e-8)
    for pair in combinations(range(3), 2):
        second = (variance(set(pair)) - sum(variance({j}) for j in pair)) / everything
        np.testing.assert_allclose(own[f"x{pair[0]} & x{pair[1]}"], second, atol=1e-8)
