"""What the figures show is what the decomposition holds."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)

import treepurify as tp
from tests.cases import data_path
from treepurify.grids.axis import FeatureAxis
from treepurify.plots import importance, main_effect, pair
from treepurify.plots.axis_layout import GAP, lay_out_axis
from treepurify.plots.limits import cells_that_count
from treepurify.plots.pairs import lay_out_pair
from treepurify.plots.terms import raw_effect

COLORS = ("red", "green", "blue", "grey")


@pytest.fixture(scope="module")
def numeric():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    y = X["a"] + X["a"] * X["b"] + X["c"] ** 2
    model = GradientBoostingRegressor(n_estimators=40, max_depth=2, random_state=0).fit(X, y)
    return tp.purify(model, X, weights="empirical")


@pytest.fixture(scope="module")
def mixed():
    """Categories, one of them without rows, and missing values everywhere."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 4, 500)
    size = np.where(rng.random(500) < 0.1, np.nan, rng.normal(size=500))
    y = np.array([0.0, 2.0, -1.0, 4.0])[codes] + np.nan_to_num(size, nan=3.0)
    y = y + np.where(codes == 2, np.nan_to_num(size), 0.0)
    color = pd.Categorical.from_codes(codes, COLORS)
    X = pd.DataFrame({"color": color, "size": size})
    X.loc[:20, "color"] = np.nan
    model = HistGradientBoostingRegressor(
        max_iter=30, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5
    ).fit(X, y)
    return tp.purify(model, X[X["color"] != "grey"], weights="empirical")


def stairs_of(ax):
    """Step curves by label: values and edges."""
    return {
        patch.get_label(): patch.get_data() for patch in ax.patches if hasattr(patch, "get_data")
    }


@pytest.mark.usefixtures("every_cell")
def test_step_curve_shows_the_component(numeric):
    ax = main_effect(numeric, "a")
    component = numeric["a"]
    drawn, thin = stairs_of(ax)["purified"], stairs_of(ax)["_thin"]
    np.testing.assert_array_equal(thin.values, component.values[:, 0])
    np.testing.assert_array_equal(drawn.edges[1:-1], component.axes[0].cuts)
    # Intervals that the title leaves out are thin alone.
    counts = cells_that_count(component.values[:, 0], component.mass, component.axes)
    assert 0 < counts.sum() < len(counts)
    np.testing.assert_array_equal(drawn.values, np.where(counts, component.values[:, 0], np.nan))
    before = stairs_of(ax)["before purification"]
    raw = component.raw[:, 0]
    np.testing.assert_allclose(before.values, raw - component.mass @ raw, rtol=0, atol=1e-14)
    assert ax.get_ylabel() == "effect on the prediction"
    assert ax.child_axes[0].get_xlabel() == "a"


def test_step_curve_without_before(numeric):
    assert set(stairs_of(main_effect(numeric, 0, before=False))) == {"effect", "_thin"}


@pytest.mark.usefixtures("every_cell")
def test_density_holds_all_mass(numeric):
    strip = main_effect(numeric, "b").child_axes[0]
    (density,) = strip.patches
    assert density.get_data().values.sum() == pytest.approx(1.0)


@pytest.mark.usefixtures("every_cell")
def test_limits_are_those_of_the_data(numeric):
    assert main_effect(numeric, "a").get_xlim() == numeric["a"].axes[0].bounds


def test_cuts_beyond_the_data_have_no_width():
    axis = FeatureAxis("x", np.array([1.0, 2.0, 50.0]), bounds=(0.0, 3.0))
    layout = lay_out_axis(axis)
    np.testing.assert_array_equal(layout.has_width, [True, True, True, False])
    assert layout.edges[-1] < 4.0


@pytest.mark.parametrize("bounds", [None, (3.0, 3.0), (-1.0, 5.0)])
def test_constant_axis_has_a_width(bounds):
    layout = lay_out_axis(FeatureAxis("x", np.empty(0), bounds=bounds))
    assert layout.has_width.all()
    assert np.isfinite(layout.edges).all()


@pytest.mark.usefixtures("every_cell")
def test_missing_values_are_a_marker(mixed):
    component = mixed["size"]
    assert component.axes[0].has_missing
    ax = main_effect(mixed, "size")
    before, after = [line.get_ydata() for line in ax.lines if line.get_marker() == "D"]
    np.testing.assert_array_equal(after, component.values[-1:, 0])
    np.testing.assert_allclose(before, raw_effect(mixed, component)[-1:, 0])
    assert ax.child_axes[0].get_xticklabels()[-1].get_text() == "missing"
    layout = lay_out_axis(component.axes[0])
    assert layout.cells[-2] == GAP
    (density,) = (p for p in ax.child_axes[0].patches if hasattr(p, "get_data"))
    (bar,) = (p for p in ax.child_axes[0].patches if not hasattr(p, "get_data"))
    areas = np.diff(density.get_data().edges) * density.get_data().values
    share = bar.get_width() * bar.get_height() / (areas.sum() + bar.get_width() * bar.get_height())
    assert share == pytest.approx(component.mass[-1])


def test_bars_show_categories_and_missing(mixed):
    component = mixed["color"]
    ax = main_effect(mixed, "color")
    labels = [text.get_text() for text in ax.get_yticklabels()]
    expected = dict(zip(component.axes[0].labels(), component.values[:, 0], strict=True))
    assert dict(zip(labels, (bar.get_width() for bar in ax.patches), strict=True)) == expected
    assert labels[-1] == "missing"
    assert component.mass[-1] > 0
    regular = [expected[label] for label in labels[:-1]]
    assert regular == sorted(regular, reverse=True)
    hatched = [label for label, bar in zip(labels, ax.patches, strict=True) if bar.get_hatch()]
    assert hatched == ["grey"]
    shares = [bar.get_width() for bar in ax.child_axes[0].patches]
    assert sum(shares) == pytest.approx(1.0)


def test_many_categories_show_the_heaviest():
    rng = np.random.default_rng(2)
    codes = np.concatenate([np.repeat(np.arange(60), 5), np.repeat(np.arange(20, 60), 5)])
    names = [f"k{i:02d}" for i in range(60)]
    X = pd.DataFrame({"k": pd.Categorical.from_codes(codes, names), "x": rng.normal(size=500)})
    y = rng.normal(size=60)[codes]
    model = HistGradientBoostingRegressor(
        max_iter=20, max_depth=2, categorical_features="from_dtype", min_samples_leaf=2
    ).fit(X, y)
    d = tp.purify(model, X, weights="empirical")
    ax = main_effect(d, "k")
    *shown, rest = [text.get_text() for text in ax.get_yticklabels()]
    assert len(shown) == 20
    assert set(shown) <= set(names[20:])
    assert rest == "40 more"
    component = d["k"]
    others = ~np.isin(component.axes[0].labels(), shown)
    mean = np.average(component.values[others, 0], weights=component.mass[others])
    assert ax.patches[-1].get_width() == pytest.approx(mean)


def shown_cells(d, key, ax):
    """The drawn table with gaps taken out, in the orientation (first of key, second of key).

    Categories must be drawn in the order of their cells, and every special cell have mass.
    """
    component = d[key]
    first = d.feature_names.index(key[0])
    axes = component.axes if component.features[0] == first else component.axes[::-1]
    across, up = (lay_out_axis(axis).cells != GAP for axis in axes)
    table = ax.collections[0].get_array().reshape(len(up), len(across))
    return table[np.ix_(up, across)].T


@pytest.mark.usefixtures("every_cell")
@pytest.mark.parametrize("key", [("a", "b"), ("b", "a")])
def test_heatmap_shows_the_component(numeric, key):
    component = numeric[key]
    values, mass = component.values[..., 0], component.mass
    if key == ("b", "a"):
        values, mass = values.T, mass.T
    ax = pair(numeric, key)
    table = shown_cells(numeric, key, ax)
    np.testing.assert_array_equal(table.mask, mass == 0)
    assert (mass == 0).any()
    np.testing.assert_array_equal(table.compressed(), values[mass > 0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == key
    mesh = ax.collections[0]
    counts = cells_that_count(component.values[..., 0], component.mass, component.axes)
    assert mesh.norm.vmin == -mesh.norm.vmax == -np.abs(component.values[counts, 0]).max()
    corners = mesh.get_coordinates()
    np.testing.assert_array_equal(corners[0, 1:-1, 0], numeric[key[0]].axes[0].cuts)
    assert np.isfinite(corners).all()
    assert ax.get_xlim() == (corners[0, 0, 0], corners[0, -1, 0])


@pytest.mark.usefixtures("every_cell")
def test_heatmap_before_purification(numeric):
    component = numeric["a", "b"]
    raw = component.raw[..., 0]
    ax = pair(numeric, "a", "b", before=True)
    expected = raw - np.sum(component.mass * raw)
    table = shown_cells(numeric, ("a", "b"), ax)
    np.testing.assert_allclose(table.compressed(), expected[component.mass > 0], atol=1e-14)


@pytest.mark.usefixtures("every_cell")
def test_heatmap_has_strips_for_missing_values(mixed):
    key = ("size", "color")
    ax = pair(mixed, key)
    component = mixed[key]
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert sorted(labels) == sorted([*COLORS, "missing"])
    table = shown_cells(mixed, key, ax)
    mass = component.mass.T if component.axes[0].name == "color" else component.mass
    rows = [component.axes[component.features.index(0)].labels().index(name) for name in labels]
    np.testing.assert_array_equal(table.mask, mass[:, rows] == 0)
    assert ax.get_xticklabels()[-1].get_text() == "missing"
    hatched = [patch for patch in ax.patches if patch.get_hatch()]
    # All cells without mass are hatched by one patch, which has no colour.
    (patch,) = hatched
    assert patch.get_facecolor()[3] == 0.0


def test_color_limit_leaves_out_rare_outliers(numeric):
    laid_out = lay_out_pair(numeric, ("a", "b"), 0)
    axes = (laid_out.axes[0]._replace(axis=FeatureAxis("a", np.array([0.5]))),) * 2
    values = np.array([[1.0, -2.0], [100.0, 50.0]])
    mass = np.array([[0.5, 0.499], [0.001, 0.0]])
    own = laid_out._replace(axes=axes, mass=mass)
    assert own._replace(values=values).limit == 2.0
    assert own._replace(values=np.zeros((2, 2))).limit == 1.0


def test_importance_shows_sizes(numeric):
    ax = importance(numeric, top=3)
    table = numeric.importance()
    assert [text.get_text() for text in ax.get_yticklabels()] == list(table["effect"][:3])
    widths = sorted((bar.get_width() for bar in ax.patches), reverse=True)
    np.testing.assert_allclose(widths, table["size"][:3])
    label = ax.get_xlabel().replace("\n", " ")
    assert f"{len(numeric) - 3} more not drawn" in label
    pairs = importance(numeric, order=2)
    names = [text.get_text() for text in pairs.get_yticklabels()]
    assert names == list(numeric.importance(2)["effect"][:15])


def test_importance_of_effects_that_cancel():
    rng = np.random.default_rng(0)
    first = rng.normal(size=2000)
    X = np.column_stack([first, first + 0.3 * rng.normal(size=2000), rng.normal(size=2000)])
    # The second feature works against the first, which it goes together with.
    model = GradientBoostingRegressor(max_depth=2, n_estimators=100, random_state=0)
    d = tp.purify(model.fit(X, X[:, 0] - 0.8 * X[:, 1] + 0.3 * X[:, 2]), X, weights="empirical")
    ax = importance(d, top=20)
    table = d.importance().set_index("effect")
    (group,) = d.ranking.groups
    names = [text.get_text() for text in ax.get_yticklabels()]
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    drawn = dict(zip(names, [bar.get_width() for bar in bars], strict=True))
    assert drawn.pop(group.name) == pytest.approx(np.sqrt(group.variance))
    assert list(drawn) == list(table.index)
    np.testing.assert_allclose([*drawn.values()], table["size"])
    assert table["share"].min() < -0.05
    texts = [text.get_text().replace("\N{MINUS SIGN}", "-") for text in ax.texts]
    for name, share in table["share"].items():
        assert any(text.endswith(f"({share:z.0%})") for text in texts), name
    with pytest.raises(tp.errors.InvalidInputError, match="order must be a whole number"):
        importance(d, order=0)
    alone = tp.purify_tensors({(0,): [0.0, 1.0]}, {(0,): [1.0, 1.0]})
    assert not any("%" in text.get_text() for text in importance(alone).texts)


def test_several_outputs():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    model = GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical")
    for output in (2, "2"):
        ax = main_effect(d, "x0", output=output)
        steps = stairs_of(ax)["purified"].values
        counts = cells_that_count(d["x0"].values[:, 2], d["x0"].mass, d["x0"].axes)
        np.testing.assert_array_equal(steps, np.where(counts, d["x0"].values[:, 2], np.nan))
        assert "2" in ax.get_ylabel()
    widths = sorted((bar.get_width() for bar in importance(d).patches), reverse=True)
    np.testing.assert_allclose(widths, d.importance()["size"])
    with pytest.raises(tp.errors.InvalidInputError, match="no output 3"):
        main_effect(d, "x0", output=3)
    with pytest.raises(tp.errors.InvalidInputError, match="no output 'z'; outputs are 0, 1, 2"):
        pair(d, ("x0", "x1"), output="z")


def test_given_axes_are_used_and_nothing_is_shown(numeric, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("a figure was shown"))
    for draw in (
        lambda ax: main_effect(numeric, "a", ax=ax),
        lambda ax: pair(numeric, ("a", "b"), ax=ax),
        lambda ax: importance(numeric, ax=ax),
    ):
        ax = Figure().add_subplot()
        assert draw(ax) is ax
    assert plt.get_fignums() == []


def test_wrong_number_of_features(numeric):
    with pytest.raises(tp.errors.InvalidInputError, match=r"draw it with plots\.pair"):
        main_effect(numeric, ("a", "b"))
    with pytest.raises(tp.errors.InvalidInputError, match=r"draw it with plots\.main_effect"):
        pair(numeric, "a")
    with pytest.raises(KeyError, match="no feature 'z'"):
        main_effect(numeric, "z")
    with pytest.raises(
        tp.errors.InvalidInputError, match="top must be a whole number of at least 1"
    ):
        importance(numeric, top=0)


def test_without_matplotlib_the_error_names_the_extra(numeric, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        tp.errors.MissingDependencyError, match=r'pip install "treepurify\[plots\]"'
    ):
        main_effect(numeric, "a")


def test_california_looks_like_california():
    """Land has colour, the sea and Nevada are hatched."""
    table = pd.read_parquet(data_path("california_housing")).iloc[::4]
    X = table.drop(columns="MedHouseVal")
    model = GradientBoostingRegressor(n_estimators=60, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, table["MedHouseVal"]), X, weights="empirical")
    mesh = pair(d, ("Longitude", "Latitude")).collections[0]
    x, y = mesh.get_coordinates()[0, :, 0], mesh.get_coordinates()[:, 0, 1]
    empty = mesh.get_array().mask.reshape(len(y) - 1, len(x) - 1)

    def is_empty(longitude, latitude):
        return empty[np.searchsorted(y, latitude) - 1, np.searchsorted(x, longitude) - 1]

    assert not is_empty(-118.24, 34.05)  # Los Angeles
    assert not is_empty(-122.27, 37.80)  # Oakland
    assert is_empty(-122.3, 34.0)  # the Pacific
    assert is_empty(-116.0, 39.0)  # Nevada
