"""Figures stay inside the place of their axes, show the bulk of the data, and can be read."""

from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost
from matplotlib.collections import LineCollection
from matplotlib.legend import Legend
from scipy.stats import t as student_t

import treepurify as tp
from treepurify import plots
from treepurify.grids.axis import FeatureAxis, central_values
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.limits import central_range, shown_range
from treepurify.plots.merged_cells import CellMerging, merge_axis

ENGINES = ("none", "tight", "constrained")


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


def draw_grid(d, keys, engine, size):
    layout = engine if engine == "constrained" else None
    figure, axes = plt.subplots(1, len(keys), figsize=size, layout=layout)
    for ax, key in zip(axes, keys, strict=True):
        (plots.pair if isinstance(key, tuple) else plots.main_effect)(d, key, ax=ax)
    if engine == "tight":
        figure.tight_layout()
    figure.canvas.draw()
    return figure, axes


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("keys", "size"),
    [
        (["a", "far"], (6.4, 4.8)),
        (["a", ("a", "b")], (6.4, 4.8)),
        (["a", "far", "b"], (7.2, 2.4)),
        (["a", "kind", ("a", "b")], (7.2, 3.0)),
    ],
)
def test_all_lies_between_the_neighbours(shallow, engine, keys, size):
    figure, axes = draw_grid(shallow, keys, engine, size)
    boxes = [ax.get_tightbbox(figure.canvas.get_renderer()) for ax in axes]
    width, height = figure.bbox.size
    for box in boxes:
        assert box.x0 >= -1
        assert box.x1 <= width + 1
        assert box.y0 >= -1.5  # what a layout engine rounds
        assert box.y1 <= height + 1
    for left, right in pairwise(boxes):
        assert left.x1 <= right.x0 + 1
    legends = [legend.get_window_extent() for legend in figure.findobj(Legend)]
    assert not any(a.overlaps(b) for i, a in enumerate(legends) for b in legends[:i])


def test_axes_placed_by_something_else_stay(shallow):
    outer = plt.figure().add_subplot()
    ax = outer.inset_axes((0.2, 0.2, 0.5, 0.5))
    locator = ax.get_axes_locator()
    plots.main_effect(shallow, "a", ax=ax)
    assert ax.get_axes_locator() is locator


def test_sizes_follow_the_settings(shallow):
    with plt.rc_context({"font.size": 5.0, "xtick.labelsize": 3.0}):
        ax = plots.main_effect(shallow, "a")
        assert ax.yaxis.label.get_size() == 5.0
        strip = ax.child_axes[0]
        assert {text.get_size() for text in strip.get_xticklabels()} == {3.0}
        assert ax.get_legend().get_texts()[0].get_size() < 5.0


def test_values_far_out_are_named_not_drawn(deep, X):
    ax = plots.main_effect(deep, "far")
    low, high = ax.get_xlim()
    assert -4 < low < -2
    assert 2 < high < 5
    words = ax.child_axes[0].get_xlabel()
    assert "of data, up to 1000" in words
    assert any(line.get_label() == "_beyond" for line in ax.child_axes[0].lines)
    density = ax.child_axes[0].patches[0].get_data().values
    inside = X["far"].between(low, high).mean()
    assert density.sum() == pytest.approx(inside, abs=0.01)


def test_the_share_of_what_is_not_drawn_is_that_of_the_rows():
    x = np.concatenate([np.linspace(0, 1, 1000), np.linspace(50, 100, 4)])
    central = central_values(x)
    axis = FeatureAxis("x", np.array([0.5]), bounds=(0.0, 100.0), central=central)
    mass = np.array([np.mean(x < 0.5), np.mean(x >= 0.5)])
    layout = lay_out_axis(axis, mass, shown=(0.0, axis.central[1]))
    # Spread evenly within its cell, half of the mass would be above one.
    assert layout.beyond.above == pytest.approx(0.005)
    even = lay_out_axis(replace(axis, central=None), mass, shown=(0.0, axis.central[1]))
    assert even.beyond.above > 0.4


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
    cells = CellMerging(merged, mass)
    shown, held = cells.means(values[..., None])[..., 0], cells.merged_mass()
    groups = [axis.cells_in(each.axis) for axis, each in zip(axes, merged, strict=True)]
    assert shown.shape == held.shape == tuple(each.axis.n_cells for each in merged)
    assert max(shown.shape) <= 12
    for i, j in np.ndindex(shown.shape):
        part = np.ix_(groups[0] == i, groups[1] == j)
        assert held[i, j] == pytest.approx(mass[part].sum())
        if held[i, j] > 0:
            mean = np.average(values[part], weights=mass[part])
            assert shown[i, j] == pytest.approx(mean, abs=1e-12)


def test_a_deep_pair_has_few_cells_paler_with_less_mass(deep):
    component = deep["a", "b"]
    assert max(component.mass.shape) > 60
    (mesh,) = plots.pair(deep, ("a", "b")).collections
    assert max(mesh.get_array().shape) <= 32
    opacity = np.asarray(mesh.get_alpha())
    assert 0.1 < opacity.min() < 0.8
    assert opacity.max() == 1.0
    by_kind = plots.pair(deep, ("a", "kind"))
    assert "30 of 50 categories" in by_kind.get_ylabel().replace("\n", " ")


@pytest.mark.usefixtures("every_cell")
def test_before_of_a_deep_model_has_the_main_effects(deep):
    ax = plots.pair(deep, ("a", "b"), before=True)
    assert "main effects included" in ax.get_title().replace("\n", " ")
    pair, one, two = deep["a", "b"], deep["a"], deep["b"]
    whole = pair.values[..., 0].copy()
    for which, main in enumerate((one, two)):
        mass, inside = main.mass, main.axes[0].cells_in(pair.axes[which])
        sums = np.bincount(inside, mass * main.values[:, 0], minlength=pair.axes[which].n_cells)
        mean = sums / np.bincount(inside, mass, minlength=pair.axes[which].n_cells)
        whole += mean[:, None] if which == 0 else mean
    shown = ax.collections[0].get_array()
    np.testing.assert_allclose(shown.compressed(), whole.T[~shown.mask], atol=1e-9)


def test_low_axes_show_as_many_categories_as_fit(shallow):
    _, ax = plt.subplots(figsize=(4, 2))
    plots.main_effect(shallow, "kind", ax=ax)
    n_labels = len(ax.get_yticklabels())
    assert 3 < n_labels < 15
    assert f"({n_labels} of 50 categories)" in ax.get_ylabel().replace("\n", " ")
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_summary_has_the_leading_effects(deep):
    panels = plots.summary(deep, top=6)
    leading = [deep.term_name(s) for s in deep.ranking.order if len(s) in (1, 2)][:6]
    shown = [ax.get_title(loc="left") for ax in panels]
    assert len(shown) == 6
    for title, name in zip(shown, leading, strict=True):
        assert title.startswith(name)
    (figure,) = {ax.figure for ax in panels}
    assert figure.get_size_inches()[0] == pytest.approx(7.2)
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
    monkeypatch.setattr("treepurify.plots.bands.MOST_CELLS", most)
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
    monkeypatch.setattr("treepurify.plots.bands.MOST_CELLS", 5)
    one = replace(refits, spread=None)
    ax = plots.overlay({"several": refits, "one": one}, "a", centred=False)
    curves = {patch.get_label(): patch.get_data().values for patch in ax.patches}
    np.testing.assert_array_equal(curves["one"], one["a"].values[:, 0])
    assert len(np.unique(curves["several"])) <= 5


def test_categories_of_several_models_are_dumbbells(shallow, X):
    fewer = X.assign(kind=X["kind"].cat.remove_categories(["k07"]).fillna("k08"))
    other = fitted(fewer, 2)
    named = {"one": shallow, "two": other}
    effects = [
        dict(zip(d["kind"].axes[0].labels(), d["kind"].values[:, 0], strict=True))
        for d in named.values()
    ]
    ax = plots.overlay(named, "kind", centred=False)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    marks = [line for line in ax.lines if line.get_label() in named]
    assert len(labels) == 40
    assert "40 of 50 categories" in ax.get_ylabel().replace("\n", " ")
    for line, known in zip(marks, effects, strict=True):
        assert line.get_linestyle() == "None"
        np.testing.assert_array_equal(line.get_ydata(), range(40))
        expected = [known.get(label, np.nan) for label in labels]
        np.testing.assert_allclose(line.get_xdata(), expected, atol=1e-12)
    (bars,) = (own for own in ax.collections if isinstance(own, LineCollection))
    for label, place, segment in zip(labels, range(40), bars.get_segments(), strict=True):
        both = [known[label] for known in effects if label in known]
        np.testing.assert_allclose(segment, [[min(both), place], [max(both), place]], atol=1e-12)
    turned = plots.overlay({"two": other, "one": shallow}, "kind")
    assert "1 only in others" in turned.get_ylabel().replace("\n", " ")


def test_summary_as_the_first_figure_of_a_notebook_leaves_drawing_on(deep, monkeypatch):
    make = plt.figure

    def figure(*args, **options):
        plt.rcParams["interactive"] = True  # as the backend of notebooks does when it is loaded
        return make(*args, **options)

    monkeypatch.setattr(plt, "figure", figure)
    with plt.rc_context({"interactive": False}):
        plots.summary(deep, top=2)
        assert plt.rcParams["interactive"]
