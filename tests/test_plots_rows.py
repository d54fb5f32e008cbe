"""Figures of single rows: of deep models, of rows by themselves, with the response above."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

import treepurify as tp
from treepurify.links import Link
from treepurify.plots.response_axis import add_response_axis

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
    return tp.purify(model, X, progress=False), X


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
    assert any(
        "remainder" in text.get_text() for text in plots.force(d, row, parts="shapley").texts
    )


@pytest.mark.parametrize("draw", [plots.waterfall, plots.force])
def test_a_row_by_itself_is_drawn_as_a_table_of_one_row(deep, draw):
    d, X = deep
    alone = [bar.get_width() for bar in draw(d, X.iloc[7]).patches]
    np.testing.assert_allclose(alone, [bar.get_width() for bar in draw(d, X.iloc[[7]]).patches])
    with pytest.raises(tp.InvalidInputError, match="the columns"):
        draw(d, X["a"])


def test_a_row_is_found_in_a_table_by_its_position(deep):
    d, X = deep
    for draw in (plots.waterfall, plots.force):
        alone = [bar.get_width() for bar in draw(d, X.iloc[7]).patches]
        for index in (7, 7 - len(X)):
            found = [bar.get_width() for bar in draw(d, X, index=index).patches]
            np.testing.assert_allclose(found, alone)
        with pytest.raises(tp.InvalidInputError, match="index must be a whole number from -300"):
            draw(d, X, index=300)
        with pytest.raises(tp.InvalidInputError, match="or the table and which of its rows"):
            draw(d, X)
    nodes = [
        plots.network(d, row=row, index=i).collections for row, i in ((X.iloc[7], None), (X, 7))
    ]
    for one, other in zip(*nodes, strict=True):
        np.testing.assert_allclose(one.get_sizes(), other.get_sizes())
    with pytest.raises(tp.InvalidInputError, match="pass the table"):
        plots.network(d, index=7)


def test_a_swarm_of_one_row_has_one_dot_a_term(deep):
    d, X = deep
    swarm = plots.beeswarm(d, X.iloc[7], top=30)
    dots = np.concatenate([dots.get_offsets()[:, 0] for dots in swarm.collections])
    assert dots.sum() + d.intercept[0] == pytest.approx(d.predict(X.iloc[[7]])[0])


def test_bars_of_a_force_plot_have_the_numbers_of_its_list(deep):
    d, X = deep
    ax = plots.force(d, X, index=3)
    lists = [text.get_text() for text in ax.texts if "pushes" in text.get_text()]
    listed = {}
    for line in (line for text in lists for line in text.split("\n")[1:]):
        number, _, words = line.partition("  ")
        listed[int(number)] = words.replace("\u2212", "-").rpartition("  ")
    assert sorted(listed) == list(range(1, len(ax.patches) + 1))
    for number, bar in enumerate(ax.patches, start=1):
        assert bar.get_width() == pytest.approx(abs(float(listed[number][2])), rel=6e-3)
    on_bars = [text for text in ax.texts if text.get_text().split("  ")[0].isdecimal()]
    assert len(on_bars) >= 3
    for text in on_bars:
        number, _, name = text.get_text().partition("  ")
        bar = ax.patches[int(number) - 1]
        assert text.get_position()[0] == pytest.approx(bar.get_x() + bar.get_width() / 2)
        assert listed[int(number)][0].startswith(name)


def test_parts_that_add_nothing_have_no_bars():
    X = np.random.default_rng(0).normal(size=(60, 30))
    d = tp.purify(RandomForestRegressor(2, max_depth=1, random_state=0).fit(X, X[:, 0]), X)
    shown = labels(plots.waterfall(d, X, index=0, parts="shapley"))
    assert len(shown) <= 4
    assert shown[-2].endswith("more")


def test_values_of_rows_have_few_digits_and_whole_numbers_all():
    X = np.array([[0.123456, 20220131.0], [0.9, 20231231.0]] * 20)
    d = tp.purify(RandomForestRegressor(5, max_depth=2, random_state=0).fit(X, X[:, 0]), X)
    shown = labels(plots.waterfall(d, X, index=0, parts="shapley"))
    assert {"x0 = 0.1235", "x1 = 20220131"} <= set(shown)


def test_a_row_of_an_array():
    X = np.random.default_rng(0).normal(size=(100, 3))
    d = tp.purify(RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, X[:, 0]), X)
    alone = labels(plots.waterfall(d, X[5]))
    assert alone == labels(plots.waterfall(d, X[5:6]))


def test_probabilities_stand_above_the_log_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = GradientBoostingClassifier(max_depth=2, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0.5)
    d = tp.purify(model, X)
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


def test_effects_of_a_response_are_on_the_scale_of_the_probability(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.partial_dependence_anova(tp.response_function(model), X, order=2, progress=False)
    ax = plots.waterfall(d, X, index=0, parts="shapley")
    assert ax.get_xlabel() == "probability of class yes"
    assert not ax.child_axes
    said = next(text.get_text() for text in ax.texts if "this row" in text.get_text())
    assert said == f"this row {model.predict_proba(X[:1])[0, 1]:.4g}"
    d.save(tmp_path / "response.tpz")
    assert tp.load(tmp_path / "response.tpz").diagnostics["response_of"]["trees"] == 5


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
