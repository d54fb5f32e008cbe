"""Figures of single rows: of deep models, of rows by themselves, with the response above."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from scipy.stats import t as student_t
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treepurify as tp
from treepurify.engines.common.functions import response_function
from treepurify.links import Link
from treepurify.plots.rows import add_response_axis

plots = pytest.importorskip("treepurify.plots")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def deep():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    X["kind"] = pd.Categorical(rng.choice(["oak", "fir"], 300))
    y = X["a"] * X["b"] * X["c"] + (X["kind"] == "fir") * X["d"]
    model = HistGradientBoostingRegressor(
        max_iter=30, max_depth=5, categorical_features="from_dtype", min_samples_leaf=5
    ).fit(X, y)
    return tp.purify(model, X, weights="empirical", progress=False), X


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_shapley_values_of_deep_models_have_the_rest_as_one_bar(deep):
    d, X = deep
    assert d.remainder is not None
    row = X.iloc[[3]]
    ax = plots.waterfall(d, row, parts="shapley", top=20)
    shown = dict(zip(labels(ax), (bar.get_width() for bar in ax.patches), strict=False))
    values = d.shapley_values(row)
    assert shown["remainder"] == pytest.approx(values.remainder[0, 0])
    assert shown[f"kind = {X['kind'].iloc[3]}"] == pytest.approx(values.values[0, 4, 0])
    assert sum(shown.values()) + d.intercept[0] == pytest.approx(d.predict(row)[0])
    swarm = plots.beeswarm(d, X, parts="shapley")
    assert "remainder" in labels(swarm)
    assert swarm.get_xlabel() == "Shapley value: effect on the prediction"


def test_a_row_by_itself_is_drawn_as_a_table_of_one_row(deep):
    d, X = deep
    alone, table = (
        [bar.get_width() for bar in plots.waterfall(d, row).patches]
        for row in (X.iloc[7], X.iloc[[7]])
    )
    np.testing.assert_allclose(alone, table)
    with pytest.raises(tp.errors.InvalidInputError, match="the columns"):
        plots.waterfall(d, X["a"])


def test_a_row_is_found_in_a_table_by_its_position(deep):
    d, X = deep
    alone = [bar.get_width() for bar in plots.waterfall(d, X.iloc[7]).patches]
    for index in (7, 7 - len(X)):
        found = [bar.get_width() for bar in plots.waterfall(d, X, index=index).patches]
        np.testing.assert_allclose(found, alone)
    with pytest.raises(
        tp.errors.InvalidInputError,
        match="index, the position of the row, must be a whole number from -300",
    ):
        plots.waterfall(d, X, index=300)
    with pytest.raises(tp.errors.InvalidInputError, match="or the whole table together"):
        plots.waterfall(d, X)
    nodes = [
        plots.network(d, row=row, index=i).collections for row, i in ((X.iloc[7], None), (X, 7))
    ]
    for one, other in zip(*nodes, strict=True):
        if isinstance(one, PathCollection):
            np.testing.assert_allclose(one.get_sizes(), other.get_sizes())
    with pytest.raises(tp.errors.InvalidInputError, match="pass that table"):
        plots.network(d, index=7)


def test_a_swarm_of_one_row_has_one_dot_a_term(deep):
    d, X = deep
    swarm = plots.beeswarm(d, X.iloc[7], top=30)
    dots = np.concatenate([dots.get_offsets()[:, 0] for dots in swarm.collections])
    assert dots.sum() + d.intercept[0] == pytest.approx(d.predict(X.iloc[[7]])[0])


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = X["a"] * X["b"] + X["c"] + rng.normal(size=200)
    models = tp.refit(GradientBoostingRegressor(max_depth=2), X, y, n=6, progress=False)
    return models, _independent(models, X), X


def _independent(model, X):
    """Under a product of margins, the cells of other trainings change no effect."""
    return tp.purify(model, X, weights="independent", progress=False)


def _bounds(values, level=0.9):
    """The prediction interval of one more draw from a normal distribution."""
    n = len(values)
    half = student_t.ppf(0.5 + level / 2, n - 1) * np.std(values, ddof=1) * np.sqrt(1 + 1 / n)
    return np.mean(values) - half, np.mean(values) + half


def test_what_is_not_known_of_each_training_has_no_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] * X[:, 2] + rng.normal(size=300)
    models = [
        HistGradientBoostingRegressor(max_iter=20, max_depth=5, random_state=s).fit(X[s:], y[s:])
        for s in range(3)
    ]
    d = tp.purify(models, X, weights="empirical", progress=False)
    assert d.remainder is not None
    ax = plots.waterfall(d, X[0], top=20)
    drawn = {round(segment[0, 1]) for segment in ax.collections[0].get_segments() if len(segment)}
    known = {place for place, name in enumerate(labels(ax)[:-1]) if name != "remainder"}
    assert drawn == known
    assert "(lines: 90% band for one more training)" in ax.get_xlabel()


def test_parts_that_add_nothing_have_no_bars():
    X = np.random.default_rng(0).normal(size=(60, 30))
    d = tp.purify(
        RandomForestRegressor(2, max_depth=1, random_state=0).fit(X, X[:, 0]),
        X,
        weights="empirical",
    )
    shown = labels(plots.waterfall(d, X, index=0, parts="shapley"))
    assert len(shown) <= 4
    assert shown[-2].endswith("more")


def test_values_of_rows_have_few_digits_and_whole_numbers_all():
    X = np.array([[0.123456, 20220131.0], [0.9, 20231231.0]] * 20)
    d = tp.purify(
        RandomForestRegressor(5, max_depth=2, random_state=0).fit(X, X[:, 0]),
        X,
        weights="empirical",
    )
    shown = labels(plots.waterfall(d, X, index=0, parts="shapley"))
    assert {"x0 = 0.1235", "x1 = 20220131"} <= set(shown)


def test_a_network_of_several_trainings_shows_how_large_a_pair_may_be(trained):
    models, d, X = trained
    alone = [_independent(model, X) for model in models]
    pairs = [s for s in d.components if len(s) == 2]
    ends = {
        s: _bounds([np.sqrt(m.components[s].variance[0]) if s in m else 0.0 for m in alone])
        for s in pairs
    }
    ax = plots.network(d)
    faint = [line for line in ax.lines if line.get_alpha() == 0.22]
    widest = max(upper for _, upper in ends.values())
    broadest = max(line.get_linewidth() for line in faint)
    np.testing.assert_allclose(
        sorted(line.get_linewidth() for line in faint),
        sorted(broadest * upper / widest for _, upper in ends.values()),
    )
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert len(dashed) == sum(lower <= 0 for lower, _ in ends.values())
    assert "band for one more training" in " ".join(ax.get_legend().get_title().get_text().split())
    # Of one row: dashed where the band of the effect there holds zero.
    ax = plots.network(d, row=X, index=3)
    lower, upper = _row_bands(d, pairs, X.iloc[[3]])
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    drawn = [d.components[s].on_rows(X.iloc[[3]])[0, 0] != 0 for s in pairs]
    assert len(dashed) == np.sum((lower <= 0) & (upper >= 0) & drawn)


def test_rounding_is_no_part_of_a_row():
    mains = {(j,): [-1.0 - j, 1.0 + j] for j in range(3)}
    rounding = {(0, 1): [[1e-17, -1e-17], [-1e-17, 1e-17]]}
    d = tp.purify_tensors(mains | rounding, "uniform")
    assert (0, 1) in d.components
    row = np.array([1.0, 1.0, 1.0])
    assert len(plots.waterfall(d, row).patches) == 4
    assert not plots.network(d).lines
    assert not plots.network(d, row=row).lines


def test_effects_of_unknown_size_leave_the_others_in_the_network():
    d = tp.purify_tensors({(0, 1): [[1.0, -1.0], [-1.0, 1.0]], (1, 2): [[1.0, -1.0], [-1.0, 1.0]]})
    unknown = replace(d.components[0, 1], mass=np.full((2, 2), np.nan))
    assert np.isnan(unknown.variance).all()
    some = replace(d, components={**d.components, (0, 1): unknown})
    assert len(plots.network(some).lines) == 1


def _row_bands(d, pairs, row):
    """The bounds of each pair at a row, from its band as tables."""
    tables = [(d.components[s], *d.spread.band(s)) for s in pairs]
    ends = [
        [replace(c, values=bound).on_rows(row)[0, 0] for bound in (lower, upper)]
        for c, lower, upper in tables
    ]
    return np.array(ends).T


def test_a_row_of_an_array():
    X = np.random.default_rng(0).normal(size=(100, 3))
    d = tp.purify(
        RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, X[:, 0]),
        X,
        weights="empirical",
    )
    alone = labels(plots.waterfall(d, X[5]))
    assert alone == labels(plots.waterfall(d, X[5:6]))


def test_probabilities_stand_above_the_log_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = GradientBoostingClassifier(max_depth=2, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0.5)
    d = tp.purify(model, X, weights="empirical")
    ax = plots.waterfall(d, X[:1])
    (top,) = ax.child_axes
    assert top.get_xlabel().startswith("probability")
    places = top.get_xticks()
    written = [float(text.get_text()) for text in top.get_xticklabels()]
    assert len(written) >= 2
    np.testing.assert_allclose(1 / (1 + np.exp(-places)), written, atol=1e-9)
    low, high = ax.get_xlim()
    assert np.all((places > low) & (places < high))
    said = next(text.get_text() for text in ax.texts if "this row" in text.get_text())
    probability = model.predict_proba(X[:1])[0, 1]
    assert f"{probability:.3g}" in said


def test_a_waterfall_next_to_long_names_is_legible():
    rng = np.random.default_rng(1)
    names = [f"a_feature_whose_name_is_quite_long_{k}" for k in range(3)]
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=names)
    y = X[names[0]] + X[names[1]] > 0.5
    model = GradientBoostingClassifier(max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    for index in range(4):
        ax = plots.waterfall(d, X, index=index)
        ax.figure.draw_without_rendering()
        inside = ax.get_window_extent()
        for text in ax.texts:
            box = text.get_window_extent()
            assert inside.x0 <= box.x0 < box.x1 <= inside.x1, text.get_text()
        ticks = [text.get_window_extent() for text in ax.child_axes[0].get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in pairwise(ticks))
        plt.close(ax.figure)


def test_effects_of_a_response_are_on_the_scale_of_the_probability(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.partial_dependence_anova(response_function(model), X, order=2, progress=False)
    ax = plots.waterfall(d, X, index=0, parts="shapley")
    assert ax.get_xlabel() == "probability of class 'yes'"
    assert not ax.child_axes
    said = next(text.get_text() for text in ax.texts if "this row" in text.get_text())
    assert said == f"this row {model.predict_proba(X[:1])[0, 1]:.4g}"
    d.save(tmp_path / "response.tpz")
    assert tp.load(tmp_path / "response.tpz").origin.response_of.trees == 5


@pytest.mark.parametrize("name", ["log", "log1p", "softplus", "sqrt", "cloglog", "logit"])
@pytest.mark.parametrize("limits", [(-3.0, 4.0), (1.0, 1.3), (-0.2, 9.0)])
def test_ticks_of_every_link_stand_at_their_responses(name, limits):
    _, ax = plt.subplots()
    ax.set_xlim(limits)
    link = Link(name)
    d = tp.purify_tensors({(0,): [0.0, 1.0]})
    add_response_axis(ax, _with_link(d, link), 0)
    for top in ax.child_axes:
        places = top.get_xticks()
        written = [float(text.get_text().replace("\u2212", "-")) for text in top.get_xticklabels()]
        np.testing.assert_allclose(link.inverse(places), written, rtol=2e-3, atol=1e-9)
        assert np.all(np.diff(places) > 0.05 * (limits[1] - limits[0]))
    if name in ("log", "log1p", "softplus", "sqrt"):
        assert ax.child_axes


@pytest.mark.parametrize("name", ["identity", "softmax", "step", "unknown"])
def test_other_links_have_no_second_axis(name):
    _, ax = plt.subplots()
    add_response_axis(ax, _with_link(tp.purify_tensors({(0,): [0.0, 1.0]}), Link(name)), 0)
    assert not ax.child_axes


def _with_link(d, link):
    return replace(d, link=link)
