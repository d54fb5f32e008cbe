"""Figures show the bulk of the data, and can be read."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.stats import t as student_t

import treepurify as tp
from treepurify import plots
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.limits import central_range, shown_range
from treepurify.plots.merged_cells import merge_axis, merged_means, merged_sums
from treepurify.plots.pairs import lay_out_pair


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=["a", "b", "far"])
    X.loc[:2, "far"] = [300.0, 500.0, 1000.0]
    X["kind"] = pd.Categorical(rng.choice([f"k{i:02d}" for i in range(50)], 1500))
    return X


def fitted(X, depth, **options):
    y = X["a"] * X["b"] + np.clip(X["far"], -3, 3) + X["a"] * X["kind"].cat.codes / 50
    model = xgboost.XGBRegressor(
        max_depth=depth, n_estimators=30, enable_categorical=True, n_jobs=1, **options
    )
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


@pytest.fixture(scope="module")
def deep(X):
    return fitted(X, 6)


@pytest.fixture(scope="module")
def shallow(X):
    return fitted(X, 2)


def test_sizes_follow_the_settings(shallow):
    with plt.rc_context({"font.size": 5.0}):
        ax = plots.main_effect(shallow, "a")
        assert ax.yaxis.label.get_size() == 5.0
        assert ax.get_legend().get_texts()[0].get_size() < 5.0


def test_an_arrow_stands_for_values_far_out(deep, X):
    ax = plots.main_effect(deep, "far")
    low, high = ax.get_xlim()
    assert -4 < low < -2
    assert 2 < high < 5
    assert ax.child_axes[0].get_xlabel() == "far"
    assert any(line.get_label() == "_beyond" for line in ax.child_axes[0].lines)
    density = ax.child_axes[0].patches[0].get_data().values
    inside = X["far"].between(low, high).mean()
    assert density.sum() == pytest.approx(inside, abs=0.01)


def test_one_range_in_every_figure(deep):
    limits = plots.main_effect(deep, "far").get_xlim()
    assert plots.pair_lines(deep, ("far", "a")).get_xlim() == limits
    assert plots.pair(deep, ("far", "a")).get_xlim() == pytest.approx(limits)
    assert plots.pair(deep, ("a", "far")).get_ylim() == pytest.approx(limits)


def test_two_models_have_one_axis(deep, X):
    coarse = fitted(X, 2, max_bin=8)
    assert len(coarse["far"].axes[0].cuts) < len(deep["far"].axes[0].cuts) / 4
    limits = plots.main_effect(deep, "far").get_xlim()
    assert plots.main_effect(coarse, "far").get_xlim() == limits
    assert plots.pair(coarse, ("far", "a")).get_xlim() == limits
    # The lower end is hardly further out than the quantile, and stays.
    assert limits == pytest.approx((X["far"].min(), X["far"].quantile(0.995)))
    ax = plots.overlay({"deep": deep, "coarse": coarse}, "far")
    ends = [
        shown_range(d, 2, d["far"].axes[0], d["far"].mass) or d["far"].axes[0].bounds
        for d in (deep, coarse)
    ]
    assert ax.get_xlim() == (min(low for low, _ in ends), max(high for _, high in ends))


def test_central_range_by_hand():
    axis = FeatureAxis("x", np.arange(1.0, 100.0), bounds=(0.5, 10_000.5))
    mass = np.full(100, 0.01)
    low, high = central_range(axis, mass)
    assert low == 0.5
    assert 99 < high < 115
    assert central_range(FeatureAxis("x", np.arange(1.0, 100.0), bounds=(0.0, 100.0)), mass) is None


def test_merged_cells_are_means_by_mass():
    rng = np.random.default_rng(1)
    axes = [FeatureAxis(name, np.sort(rng.random(80)), bounds=(0.0, 1.0)) for name in "ab"]
    mass, values = rng.random((81, 81)) * (rng.random((81, 81)) < 0.5), rng.normal(size=(81, 81))
    merged = tuple(
        merge_axis(axis, held, lay_out_axis(axis, held), 12)
        for axis, held in zip(axes, (mass.sum(axis=1), mass.sum(axis=0)), strict=True)
    )
    shown, held = merged_means(values, mass, merged), merged_sums(mass, merged)
    groups = [axis.cells_in(each.axis) for axis, each in zip(axes, merged, strict=True)]
    assert shown.shape == held.shape == tuple(each.axis.n_cells for each in merged)
    assert max(shown.shape) <= 12
    for i, j in np.ndindex(shown.shape):
        part = np.ix_(groups[0] == i, groups[1] == j)
        assert held[i, j] == pytest.approx(mass[part].sum())
        if held[i, j] > 0:
            mean = np.average(values[part], weights=mass[part])
            assert shown[i, j] == pytest.approx(mean, abs=1e-12)


def test_a_deep_pair_has_few_cells_smaller_with_less_mass(deep):
    component = deep["a", "b"]
    assert max(component.mass.shape) > 60
    ax = plots.pair(deep, "a", "b")
    (mesh,) = ax.collections
    assert max(mesh.get_array().shape) <= 32
    (frames,) = (own for own in ax.patches if own.get_facecolor()[3] == 1.0)
    laid_out = lay_out_pair(deep, ("a", "b"), 0)
    corners = frames.get_path().vertices.reshape(2, -1, 5, 2)
    outer, inner = (np.ptp(own, axis=1).prod(axis=1) for own in corners)
    outer, inner = outer[outer > 0], inner[outer > 0]
    held = np.sort(laid_out.mass[laid_out.mass > 0])
    usual = held[np.searchsorted(np.cumsum(held), 0.5)]
    assert 0 < len(outer) <= (held < usual / 2).sum() < len(held)
    assert 0.25 - 1e-9 <= (inner / outer).min() < (inner / outer).max() < 1.0
    by_kind = plots.pair(deep, ("a", "kind"))
    assert "30 of 50 categories" in by_kind.get_ylabel().replace("\n", " ")


@pytest.mark.usefixtures("every_cell")
def test_before_of_a_deep_model_has_the_main_effects(deep):
    ax = plots.pair(deep, ("a", "b"), before=True)
    bar = ax.child_axes[-1]
    assert "main effects included" in bar.get_ylabel().replace("\n", " ")
    pair, one, two = deep["a", "b"], deep["a"], deep["b"]
    whole = pair.values[..., 0].copy()
    for which, main in enumerate((one, two)):
        mass, inside = main.mass, main.axes[0].cells_in(pair.axes[which])
        sums = np.bincount(inside, mass * main.values[:, 0], minlength=pair.axes[which].n_cells)
        mean = sums / np.bincount(inside, mass, minlength=pair.axes[which].n_cells)
        whole += mean[:, None] if which == 0 else mean
    shown = ax.collections[0].get_array()
    np.testing.assert_allclose(shown.compressed(), whole.T[~shown.mask], atol=1e-9)


def test_summary_has_the_leading_effects(deep):
    figure = plots.summary(deep, top=6)
    panels = figure.axes
    leading = [deep.term_name(s) for s in deep.ranking.order if len(s) in (1, 2)][:6]
    shown = [ax.get_title(loc="left") for ax in panels]
    assert len(shown) == 6
    for title, name in zip(shown, leading, strict=True):
        assert title.startswith(name)
    assert len({round(ax.get_position().width, 3) for ax in panels}) == 1
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in panels]
    assert all(box.x0 >= -1 and box.x1 <= figure.bbox.width + 1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    with pytest.raises(tp.errors.InvalidInputError, match="columns must be"):
        plots.summary(deep, columns=9)


@pytest.fixture(scope="module")
def refits(X):
    """Five trainings of many cuts, and how they are purified one by one."""
    rows = X.iloc[:400][["a", "b", "kind"]]
    model = xgboost.XGBRegressor(
        max_depth=2, n_estimators=60, learning_rate=0.5, enable_categorical=True, n_jobs=1
    )
    y = rows["a"] * rows["b"] + rows["b"]
    trained = tp.refit(model.fit(rows, y), rows, y, n=5, progress=False)
    return tp.purify(trained, rows, weights="empirical", progress=False)


def merged_by_hand(d, name, groups):
    """Return the mean and its band over trainings in groups of cells, by loops."""
    each, mass = d.spread.values(d[name].features)[..., 0], d[name].mass
    means = np.array([[np.average(own[g], weights=mass[g]) for g in groups] for own in each])
    center, spread = means.mean(axis=0), means.std(axis=0, ddof=1)
    half = student_t.ppf(0.95, len(each) - 1) * np.sqrt(1 + 1 / len(each)) * spread
    values = d[name].values[:, 0]
    mean = np.array([np.average(values[g], weights=mass[g]) for g in groups])
    return mean, center - half, center + half


@pytest.mark.usefixtures("every_cell")
@pytest.mark.parametrize("most", [3, 8, 1000])
def test_a_band_and_its_curve_are_those_of_merged_cells(refits, most, monkeypatch):
    monkeypatch.setattr("treepurify.plots.curves.MOST_CELLS", most)
    axis, mass = refits["a"].axes[0], refits["a"].mass
    assert axis.n_regular > 40
    ax = plots.main_effect(refits, "a", before=False)
    curve = next(patch for patch in ax.patches if patch.get_label() == "effect")
    (drawn_band,) = [patch for patch in ax.patches if "one more training" in patch.get_label()]
    band = drawn_band.get_data()
    drawn = curve.get_data().values
    if most >= axis.n_regular:
        groups = np.arange(axis.n_regular)[:, None]
    else:
        layout = lay_out_axis(axis, mass, shown=None)
        merged = merge_axis(axis, mass, layout, most)
        groups = np.split(np.arange(axis.n_regular), merged.first[1:])
        assert len(groups) <= most
    mean, lower, upper = merged_by_hand(refits, "a", groups)
    sizes = [len(group) for group in groups]
    is_thick = np.isfinite(drawn)
    np.testing.assert_allclose(drawn[is_thick], np.repeat(mean, sizes)[is_thick], atol=1e-12)
    # Merged intervals are thick or thin as a whole.
    starts = np.cumsum([0, *sizes[:-1]])
    parts = np.add.reduceat(is_thick, starts) / sizes
    assert set(parts) <= {0, 1}
    assert mass[: axis.n_regular][~is_thick].sum() < 0.2
    np.testing.assert_allclose(band.baseline[: len(drawn)], np.repeat(lower, sizes), atol=1e-12)
    np.testing.assert_allclose(band.values, np.repeat(upper, sizes), atol=1e-12)


@pytest.mark.usefixtures("every_cell")
def test_an_overlay_merges_cells_under_a_band_alone(refits, monkeypatch):
    monkeypatch.setattr("treepurify.plots.curves.MOST_CELLS", 5)
    one = replace(refits, spread=None)
    ax = plots.overlay({"several": refits, "one": one}, "a", centred=False)
    curves = {patch.get_label(): patch.get_data().values for patch in ax.patches}
    np.testing.assert_array_equal(curves["one"], one["a"].values[:, 0])
    assert len(np.unique(curves["several"])) <= 5


def test_categories_of_several_models_are_bars_in_groups(shallow, X):
    fewer = X.assign(kind=X["kind"].cat.remove_categories(["k07"]).fillna("k08"))
    other = fitted(fewer, 2)
    named = {"one": shallow, "two": other}
    effects = [
        dict(zip(d["kind"].axes[0].labels(), d["kind"].values[:, 0], strict=True))
        for d in named.values()
    ]
    ax = plots.overlay(named, "kind", centred=False)
    *labels, rest = [label.get_text() for label in ax.get_yticklabels()]
    assert (len(labels), rest) == (20, "30 more")
    for bars, known in zip(ax.containers, effects, strict=True):
        expected = [known.get(label, np.nan) for label in labels]
        np.testing.assert_allclose([bar.get_width() for bar in bars][:-1], expected, atol=1e-12)


def test_summary_as_the_first_figure_of_a_notebook_leaves_drawing_on(deep, monkeypatch):
    make = plt.figure

    def figure(*args, **options):
        plt.rcParams["interactive"] = True  # as the backend of notebooks does when it is loaded
        return make(*args, **options)

    monkeypatch.setattr(plt, "figure", figure)
    with plt.rc_context({"interactive": False}):
        plots.summary(deep, top=2)
        assert plt.rcParams["interactive"]
