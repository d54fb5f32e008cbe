"""Profiles of features against loops over rows, pandas and the engine of local effects."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor

import treepurify as tp
from treepurify.engines.common.functions import response_function
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.profiles.feature_profile import _means


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[:, 1] += X[:, 0]
    X[:, 2] = rng.integers(0, 4, 400)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 1).astype(int)
    model = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, y)
    return X, y, model


def profile(model, X, feature, y=None, **options):
    return tp.feature_profile(model, X, feature, y, progress=False, **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_means_in_cells_are_those_of_the_rows(data, weighted):
    X, y, model = data
    weights = np.random.default_rng(1).uniform(0, 2, 400) if weighted else None
    found = profile(model, X, "x2", y, sample_weight=weights)
    assert found.labels == ("< 0.5", "[0.5, 1.5)", "[1.5, 2.5)", ">= 2.5")
    np.testing.assert_array_equal(found.points, [0, 1, 2, 3])
    probability = model.predict_proba(X)[:, 1]
    own = np.ones(400) if weights is None else weights
    for k in range(4):
        inside = X[:, 2] == k
        assert found.share[k] == pytest.approx(own[inside].sum() / own.sum())
        assert found.predicted[k, 0] == pytest.approx(
            np.average(probability[inside], weights=own[inside])
        )
        assert found.observed[k] == pytest.approx(np.average(y[inside], weights=own[inside]))
    frame = found.to_frame()
    np.testing.assert_allclose(frame["residual"], frame["observed"] - frame["predicted"])
    if not weighted:
        errors = [y[X[:, 2] == k].std(ddof=1) / np.sqrt((X[:, 2] == k).sum()) for k in range(4)]
        np.testing.assert_allclose(found.observed_error, errors)


@pytest.mark.parametrize("scale", ["response", "margin"])
def test_curves_and_partial_dependence_are_predictions_of_changed_rows(data, scale):
    X, _, model = data
    found = profile(model, X, 0, scale=scale, bins=6)
    ask = (
        (lambda rows: model.predict_proba(rows)[:, 1])
        if scale == "response"
        else (model.decision_function)
    )
    assert len(found.points) == 6
    for k, point in enumerate(found.points):
        changed = X.copy()
        changed[:, 0] = point
        assert found.partial_dependence[k, 0] == pytest.approx(ask(changed).mean())
        curves = ask(changed)[np.linspace(0, 399, 50).astype(int)]
        np.testing.assert_allclose(found.curves[:, k, 0], curves, atol=1e-12)
    assert not found.dependence_error.any()
    assert found.rows_used == found.n_rows == 400


def test_a_sample_of_rows_says_how_far_it_may_be_off(data):
    X, _, model = data
    whole = profile(model, X, 0)
    part = profile(model, X, 0, most_rows=100)
    assert part.rows_used == 100
    off = np.abs(part.partial_dependence - whole.partial_dependence)
    assert np.all(part.dependence_error > 0)
    assert np.all(off < 4 * part.dependence_error)
    again = profile(model, X, 0, most_rows=100)
    np.testing.assert_array_equal(again.partial_dependence, part.partial_dependence)


def test_accumulated_effects_are_those_of_the_engine(data):
    X, _, model = data
    f = response_function(model)
    found = profile(model, X, 1, bins=10)
    d = tp.ale_anova(f, X, order=1, bins=10, progress=False)
    rows = np.zeros((10, 3))
    rows[:, 1] = found.points
    expected = d.intercept + d["x1"].on_rows(rows)
    np.testing.assert_allclose(found.accumulated, expected, atol=1e-12)


def test_missing_values_and_categories():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=300), "kind": rng.choice(["fir", "oak"], 300)})
    X["kind"] = X["kind"].astype("category")
    X.loc[::7, "a"] = np.nan
    y = X["a"].fillna(3) + (X["kind"] == "oak")
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype")
    model.fit(X, y)
    found = profile(model, X, "a", y, bins=5)
    assert found.labels[-1] == "missing"
    assert np.isnan(found.points[-1])
    assert np.isnan(found.accumulated[-1, 0])
    changed = X.assign(a=np.nan)
    assert found.partial_dependence[-1, 0] == pytest.approx(model.predict(changed).mean())
    kinds = profile(model, X, "kind", y)
    assert kinds.labels == ("fir", "oak")
    assert not kinds.is_numeric
    means = y.groupby(X["kind"], observed=True).mean()
    np.testing.assert_allclose(kinds.observed, means)
    assert "kind" in repr(kinds)


def test_several_outputs_and_functions(data):
    X, _, _ = data
    found = profile(
        lambda rows: np.stack([rows[:, 0], rows[:, 0] * rows[:, 1]], axis=1), X, 0, bins=4
    )
    np.testing.assert_allclose(found.partial_dependence[:, 0], found.points)
    np.testing.assert_allclose(found.partial_dependence[:, 1], found.points * X[:, 1].mean())
    assert found.to_frame(1)["partial_dependence"].tolist() == (
        found.partial_dependence[:, 1].tolist()
    )
    with pytest.raises(InvalidInputError, match="2 outputs"):
        profile(lambda rows: rows[:, :2], X, 0, np.zeros(400))


def test_what_cannot_be_used_is_refused(data):
    X, y, model = data
    with pytest.raises(InvalidInputError, match="one feature"):
        profile(model, X, ("x0", "x1"))
    with pytest.raises(InvalidInputError, match="one finite number per row"):
        profile(model, X, "x0", y[1:])
    for weights in (np.ones(3), ["a"] * 400, np.ones((400, 2))):
        with pytest.raises(InvalidInputError, match="sample_weight"):
            profile(model, X, "x0", y, sample_weight=weights)
    with pytest.raises(MemoryBudgetError, match="predictions of 400 rows"):
        profile(model, X, "x0", memory_budget=10_000)


@pytest.mark.parametrize("feature", ["a", "kind"])
def test_the_figure_shows_every_mean(feature):
    plots = pytest.importorskip("treepurify.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["fir", "oak"], 200)})
    X.loc[::9, "a"] = np.nan
    X["kind"] = X["kind"].astype("category")
    y = X["a"].fillna(2.0) * (X["kind"] == "oak")
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features="from_dtype")
    found = profile(model.fit(X, y), X, feature, y)
    ax = plots.profile(found, curves=True)
    shown = {line.get_label(): line.get_ydata() for line in ax.lines}
    frame = found.to_frame()
    special = frame["point"].isna() if feature == "a" else np.ones(len(frame), dtype=bool)
    drawn = "partial_dependence"
    apart = [line.get_ydata() for line in ax.lines if line.get_color() == "#d55e00"]
    # Categories without an order come by size.
    np.testing.assert_allclose(np.sort(np.concatenate(apart)), np.sort(frame[drawn]))
    assert len(apart[-1]) == special.sum() or feature == "kind"
    assert {"predicted", "partial dependence", "accumulated effects"} <= set(shown)
    # No curve of a row leads to missing values, or from one category to another.
    curves = [line for line in ax.lines if line.get_color() == "#c4cad1"]
    assert len(curves) == 2 * len(found.curves)
    words = [text.get_text() for text in ax.child_axes[0].get_xticklabels()]
    assert words[-1] == "missing" if feature == "a" else set(words) == {"fir", "oak"}
    plt.close("all")


def test_errors_of_weighted_means_are_unbiased():
    """The mean of the squared error over many cells is the variance of a weighted mean."""
    weights = np.array([6.0, 3.0, 1.0, 1.0, 0.5])
    n_cells, own = 20_000, weights / weights.sum()
    values = np.random.default_rng(0).normal(size=(n_cells, len(own)))
    place = np.repeat(np.arange(n_cells), len(own))
    shares = np.tile(own, n_cells) / n_cells
    mean, error = _means(place, shares, values.ravel(), np.full(n_cells, 1 / n_cells))
    np.testing.assert_allclose(mean, values @ own)
    assert np.mean(error**2) == pytest.approx(np.sum(own**2), rel=0.03)
    alone = _means(np.array([0]), np.ones(1), np.ones(1), np.ones(1))[1]
    assert np.isnan(alone).all()


def test_the_figure_has_the_heaviest_of_many_categories_and_errors_of_samples():
    plots = pytest.importorskip("treepurify.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    to_hex = pytest.importorskip("matplotlib.colors").to_hex
    rng = np.random.default_rng(4)
    weights = np.arange(1, 61) / np.arange(1, 61).sum()
    kinds = rng.choice([f"k{k:02d}" for k in range(60)], 2000, p=weights)
    X = pd.DataFrame({"kind": pd.Categorical(kinds), "size": np.exp(2 * rng.normal(size=2000))})

    def f(X):
        return np.log(X["size"]) * (X["kind"].cat.codes > 30)

    ax = plots.profile(profile(f, X, "kind", most_rows=100))
    strip = ax.child_axes[0]
    shown = [text.get_text() for text in strip.get_xticklabels()]
    assert shown == sorted(X["kind"].value_counts().index[:24])
    assert strip.get_xlabel() == f"kind (24 of {X['kind'].nunique()} categories)"
    assert ax.get_figure().get_figwidth() < 12
    found = profile(f, X, "size", most_rows=100)
    ax = plots.profile(found, scale="log")
    ax.figure.canvas.draw()
    assert ax.child_axes[0].get_xlabel() == "size\nlogarithmic scale"
    middles = found.points[5:7]
    low, high = ax.get_xlim()
    assert low < found.points[0] < found.points[-1] < high
    pixels = ax.transData.transform(np.stack([middles, middles], axis=1))[:, 0]
    span = ax.transData.transform([[found.points[0], 0], [found.points[-1], 0]])[:, 0]
    share = np.diff(np.log(middles)) / np.log(found.points[-1] / found.points[0])
    assert np.diff(pixels) / np.diff(span) == pytest.approx(share, rel=1e-3)
    (errors,) = [each for each in ax.collections if to_hex(each.get_color()[0]) == "#d55e00"]
    lengths = [np.ptp(segment[:, 1]) for segment in errors.get_segments()]
    np.testing.assert_allclose(lengths, 2 * 1.96 * found.dependence_error[:, 0])
    plt.close("all")


def test_the_main_effect_stands_beside_the_others(data):
    plots = pytest.importorskip("treepurify.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["oak", "fir"], 200)})
    X.loc[::9, "a"] = np.nan
    X["kind"] = X["kind"].astype("category")
    y = X["a"].fillna(2.0) * (X["kind"] == "oak")
    model = HistGradientBoostingRegressor(
        max_iter=10, max_depth=2, categorical_features="from_dtype"
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical")
    for name in X:
        found = profile(model, X, name)
        ax = plots.profile(found, effects=d)
        shown = [line for line in ax.lines if line.get_color() == "#cc79a7"]
        drawn = np.concatenate([line.get_ydata() for line in shown])
        rows = pd.DataFrame({"a": found.points, "kind": "oak"})
        if name == "kind":
            rows = pd.DataFrame({"a": 0.0, "kind": list(found.labels)})
        rows["kind"] = rows["kind"].astype(X["kind"].dtype)
        expected = d.intercept[0] + d[name].on_rows(rows)[:, 0]
        np.testing.assert_allclose(np.sort(drawn), np.sort(expected))
    X, y, model = data
    with pytest.raises(InvalidInputError, match='scale="margin"'):
        plots.profile(
            profile(model, X, "x0", y),
            effects=tp.purify(model, X, weights="empirical", progress=False),
        )
    plots.profile(
        profile(model, X, "x0", scale="margin"), effects=tp.purify(model, X, weights="empirical")
    )
    plt.close("all")


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pd.Categorical])
def test_labels_of_classes_are_taken_as_observed(data, kind):
    X, y, _ = data
    labels = np.where(y == 1, "paid", "late")
    # The second class in the order of the alphabet is the one that is predicted.
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, labels)
    of_labels, of_numbers = (profile(model, X, 2, each) for each in (kind(labels), 1.0 * y))
    np.testing.assert_array_equal(of_labels.observed, of_numbers.observed)
    with pytest.raises(InvalidInputError, match="the name of the output"):
        profile(model, X, 2, kind(np.where(y == 1, "yes", "no")))


def test_observed_shares_are_not_drawn_among_log_odds(data):
    X, y, model = data
    for scale, has_observed in (("response", True), ("margin", False)):
        found = profile(model, X, 0, y, scale=scale)
        names = [text.get_text() for text in tp.plots.profile(found).get_legend().get_texts()]
        assert ("observed" in names) == has_observed
        assert ("residual" in found.to_frame()) == has_observed
