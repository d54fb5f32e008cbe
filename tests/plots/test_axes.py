"""Axes of whole numbers, of two values, of skewed features and of categories."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import treepurify as tp
from treepurify import plots
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.pairs import draw_pair, lay_out_pair
from treepurify.plots.style import AFTER, BEFORE, DOWN, MAIN, PAIR, UP


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "flag": rng.permutation(np.repeat([0.0, 1.0], 200)),
            "season": rng.integers(1, 5, 400).astype(float),
            "gain": np.where(rng.random(400) < 0.93, 0.0, rng.integers(1, 50_000, 400)),
            "size": rng.normal(size=400),
        }
    )


@pytest.fixture(scope="module")
def d(X):
    y = X["flag"] * X["season"] + np.log1p(X["gain"]) * X["flag"] + X["size"] * X["season"]
    model = HistGradientBoostingRegressor(max_iter=60, max_depth=2, min_samples_leaf=2)
    return tp.purify(model.fit(X, y), X, weights="empirical")


def drawn_width(ax, low, high):
    """Distance in pixels between two values of the x axis."""
    low, high = (ax.transData.transform((value, 0.0))[0] for value in (low, high))
    return high - low


def ticks_of(ax, which="x"):
    axis = getattr(ax, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_majorticklocs() if low <= tick <= high]


@pytest.mark.parametrize(
    ("cuts", "bounds", "edges"),
    [
        # A cut in the middle, as scikit-learn and LightGBM place it, or at the value, as XGBoost.
        ([0.5], (0.0, 1.0), [-0.5, 0.5, 1.5]),
        ([1.0], (0.0, 1.0), [-0.5, 0.5, 1.5]),
        ([np.nextafter(np.float32(0.5), np.float32(1))], (0.0, 1.0), [-0.5, 0.5, 1.5]),
        ([1.0000000180025095e-35, 2.5], (0.0, 4.0), [-0.5, 0.5, 2.5, 4.5]),
        ([2.0, 3.0, 4.0], (1.0, 4.0), [0.5, 1.5, 2.5, 3.5, 4.5]),
        # Two values: standardised, or coded by their sign.
        ([1.4], (-0.7, 1.4), [-1.75, 0.35, 2.45]),
        ([0.35], (-0.7, 1.4), [-1.75, 0.35, 2.45]),
        ([1.0], (-1.0, 1.0), [-2.0, 0.0, 2.0]),
        # No whole numbers: cuts and bounds as they are.
        ([0.3, 0.5], (0.0, 1.0), [0.0, 0.3, 0.5, 1.0]),
        ([1.5, 2.5], (0.2, 7.9), [0.2, 1.5, 2.5, 7.9]),
        ([0.5, 1.0, 1.5], (0.0, 2.0), [0.0, 0.5, 1.0, 1.5, 2.0]),
        ([3.0, 9.0], (0.0, 100_000.5), [0.0, 3.0, 9.0, 100_000.5]),
    ],
)
def test_each_whole_number_has_a_slot(cuts, bounds, edges):
    axis = FeatureAxis("x", np.array(cuts, dtype=np.float64), bounds=bounds)
    np.testing.assert_allclose(lay_out_axis(axis).edges, edges, rtol=0, atol=1e-7)


def test_cells_without_a_whole_number_must_be_empty():
    axis = FeatureAxis("x", np.array([3.5, 4.0, 5.5]), bounds=(0.0, 9.0))
    empty = lay_out_axis(axis, np.array([0.4, 0.0, 0.3, 0.3]))
    np.testing.assert_array_equal(empty.edges, [-0.5, 3.5, 3.5, 5.5, 9.5])
    held = lay_out_axis(axis, np.array([0.4, 0.1, 0.2, 0.3]))
    np.testing.assert_array_equal(held.edges, [0.0, 3.5, 4.0, 5.5, 9.0])


def test_the_largest_value_alone_in_its_cell_is_seen():
    axis = FeatureAxis("x", np.array([0.5, 2.3, 50.1]), bounds=(0.2, 50.1))
    last = lay_out_axis(axis).edges[-1]
    assert 50.1 + 0.01 * 49.9 <= last <= 50.1 + 0.15 * 49.9


def test_both_halves_of_a_flag_are_as_wide_and_as_high(d):
    ax = plots.main_effect(d, "flag")
    ax.figure.canvas.draw()
    assert drawn_width(ax, *ax.get_xlim()) == pytest.approx(2 * drawn_width(ax, 0.5, 1.5))
    strip = ax.child_axes[0]
    assert ticks_of(strip) == [0.0, 1.0]
    (density,) = strip.patches
    np.testing.assert_allclose(density.get_data().values, [0.5, 0.5])


def test_heights_of_the_strip_are_shares_of_whole_numbers(d, X):
    strip = plots.main_effect(d, "season").child_axes[0]
    (density,) = strip.patches
    shares = X["season"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(density.get_data().values, shares)
    assert ticks_of(strip) == [1.0, 2.0, 3.0, 4.0]


def test_pair_of_whole_numbers_has_equal_slots(d):
    ax = plots.pair(d, ("season", "flag"))
    corners = ax.collections[0].get_coordinates()
    np.testing.assert_array_equal(np.diff(corners[0, :, 0]), 1.0)
    np.testing.assert_array_equal(np.diff(corners[:, 0, 1]), 1.0)
    assert ticks_of(ax, "x") == [1.0, 2.0, 3.0, 4.0]
    assert ticks_of(ax, "y") == [0.0, 1.0]
    lines = plots.pair_lines(d, ("season", "flag"))
    assert [text.get_text() for text in lines.get_legend().get_texts()] == ["0", "1"]


def test_lines_are_chosen_by_what_varies_where_one_cell_has_most_mass():
    """Nine of ten rows have no gain: all three quantiles are in its cell."""
    rng = np.random.default_rng(0)
    flag, gain = (
        rng.integers(0, 2, 500),
        np.where(rng.random(500) < 0.95, 0, rng.integers(1, 5, 500)),
    )
    rows = pd.DataFrame({"flag": flag, "gain": gain})
    model = DecisionTreeRegressor(random_state=0).fit(rows, flag * (gain == 2) * 5.0 + flag)
    d = tp.purify(model, rows, weights="empirical")
    ax = plots.pair_lines(d, ("flag", "gain"))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(texts) >= 2
    assert any(text == "2" for text in texts), texts


def test_curves_keep_their_own_edges():
    # Cells of a curve that happen to end at whole numbers part nothing.
    axis = FeatureAxis("x", np.arange(1.0, 200.0), bounds=(0.0, 200.0))
    assert tuple(lay_out_axis(axis, is_smooth=True).edges[[0, -1]]) == (0.0, 200.0)


def test_a_squeezed_axis_gives_each_cell_the_same_width(d, X):
    component = d["gain"]
    cuts = component.axes[0].cuts
    ax = plots.main_effect(d, "gain")
    strip = ax.child_axes[0]
    ax.figure.canvas.draw()
    edges = next(p for p in ax.patches if p.get_label() == "purified").get_data().edges
    widths = [drawn_width(ax, *ends) for ends in pairwise(edges)]
    np.testing.assert_allclose(widths, drawn_width(ax, *ax.get_xlim()) / len(widths))
    np.testing.assert_array_equal(edges, np.arange(len(cuts) + 2))
    assert strip.get_xlabel() == "gain\nnot to scale: equally wide intervals"
    (density,) = strip.patches
    np.testing.assert_allclose(density.get_data().values, component.mass)
    labels = [label.get_text() for label in strip.get_xticklabels()]
    assert (labels[0], labels[-1]) == ("0", f"{X['gain'].max():.0f}")
    assert {float(label) for label in labels[1:-1]} <= {float(np.ceil(cut)) for cut in cuts}


def test_scale_is_a_choice(d, X):
    ax = plots.main_effect(d, "gain", scale="value")
    assert ax.child_axes[0].get_xlabel() == "gain"
    whole = (-0.5, X["gain"].max() + 0.5)
    assert ax.get_xlim() == whole
    assert "not to scale" not in plots.main_effect(d, "size").child_axes[0].get_xlabel()
    assert "not to scale" in plots.main_effect(d, "size", scale="rank").child_axes[0].get_xlabel()
    ranked = (0.0, d["gain"].axes[0].n_regular)
    assert plots.pair(d, "gain", "flag").get_xlim()[0] == 0.0
    assert plots.pair(d, "gain", "flag", scale="value").get_xlim() == whole
    assert plots.pair_lines(d, ("gain", "flag")).get_xlim()[0] == 0.0
    assert plots.pair_lines(d, ("flag", "gain")).get_xlim() == (-0.5, 1.5)
    assert plots.overlay({"one": d}, "gain").get_xlim() == ranked
    for draw, key in ((plots.main_effect, "gain"), (plots.pair, ("gain", "flag"))):
        with pytest.raises(
            tp.errors.InvalidInputError, match='must be "auto", "value", "rank" or "log"'
        ):
            draw(d, key, scale="linear")
        with pytest.raises(tp.errors.InvalidInputError, match="values of 'gain' begin at 0; use"):
            draw(d, key, scale="log")


@pytest.fixture(scope="module")
def incomes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"income": np.exp(10 + 1.5 * rng.normal(size=500)), "age": rng.normal(size=500)}
    )
    X.loc[::10, "income"] = np.nan
    y = np.log(X["income"].fillna(1e4)) * (1 + X["age"])
    model = HistGradientBoostingRegressor(max_iter=60, max_depth=2, min_samples_leaf=3)
    return tp.purify(model.fit(X, y), X, weights="empirical"), X


@pytest.mark.usefixtures("every_cell")
def test_a_logarithmic_axis_gives_each_decade_the_same_width(incomes):
    d, X = incomes
    for draw, key in (
        (plots.main_effect, "income"),
        (plots.pair, ("income", "age")),
        (plots.pair_lines, ("income", "age")),
        (lambda d, key, **options: plots.overlay({"one": d}, key, **options), "income"),
    ):
        ax = draw(d, key, scale=("log", "value") if draw is plots.pair else "log")
        ax.figure.canvas.draw()
        decades = [drawn_width(ax, 10**k, 10 ** (k + 1)) for k in (3, 4)]
        assert decades[0] == pytest.approx(decades[1], rel=1e-3)
        assert drawn_width(ax, 2e3, 4e3) == pytest.approx(decades[0] * np.log10(2), rel=0.01)
        shown = {tick for tick in ticks_of(ax) if tick < X["income"].max()}
        assert 2 <= len(shown) <= 4
        named = ax.child_axes[0] if draw is plots.main_effect else ax
        assert named.get_xlabel() == "income\nlogarithmic scale"


@pytest.mark.usefixtures("every_cell")
def test_bars_of_data_on_a_logarithmic_axis_are_shares(incomes):
    ax = plots.main_effect(incomes[0], "income", scale="log")
    density, missing = ax.child_axes[0].patches
    heights, edges = density.get_data().values, density.get_data().edges
    assert heights.sum() == pytest.approx(0.9)
    np.testing.assert_allclose(np.diff(np.log(edges)), np.diff(np.log(edges))[0])
    # Lognormal data have a hump in the middle.
    assert 20 < np.argmax(heights) < 40
    ax.figure.canvas.draw()
    widths = [
        drawn_width(ax, *edges[:2]),
        drawn_width(ax, missing.get_x(), missing.get_x() + missing.get_width()),
    ]
    assert widths[1] * missing.get_height() / widths[0] == pytest.approx(0.1, rel=0.01)


def test_curves_and_whole_numbers_have_logarithmic_axes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.exp(4 * rng.normal(size=200)), "b": rng.integers(1, 400, size=200)})
    curves = tp.ale_anova(lambda X: np.log(X["a"]) * X["b"], X, bins=5, progress=False)
    ax = plots.main_effect(curves, "a", scale="log")
    assert drawn_width(ax, 0.1, 1) == pytest.approx(drawn_width(ax, 1, 10), rel=1e-3)
    tree = DecisionTreeRegressor(max_depth=2).fit(X[["b"]], X["b"])
    ax = plots.main_effect(tp.purify(tree, X[["b"]], weights="empirical"), "b", scale="log")
    assert {1.0, 10.0, 100.0} <= set(ticks_of(ax))


def labels_touch(ax):
    """Whether the labels of ticks of the x axis, as they are drawn, overlap."""
    ax.figure.canvas.draw()
    axes = [ax, *ax.child_axes]
    boxes = [
        text.get_window_extent()
        for each in axes
        for text in each.get_xticklabels()
        if text.get_text()
        and each.xaxis.get_tick_params()["labelbottom"]
        and each.get_xlim()[0] <= text.get_position()[0] <= each.get_xlim()[1]
    ]
    return any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize("start", [2010.0, 20220101.0, 1_600_000_000.0])
def test_dates_as_numbers_have_ticks_that_differ(start):
    X = start + np.random.default_rng(0).integers(0, 80, size=(200, 1)) / (1 if start > 3000 else 7)
    model = DecisionTreeRegressor(max_depth=4).fit(X, np.sin(X[:, 0]))
    ax = plots.main_effect(tp.purify(model, X, weights="empirical"), 0)
    assert not labels_touch(ax)
    shown = [text.get_text() for text in ax.child_axes[0].get_xticklabels()]
    assert len(set(shown)) == len(shown) >= 2


@pytest.mark.parametrize(
    ("scale", "factor"), [("value", 1.0), ("value", 1e8), ("rank", 300.0), ("log", 1e-3)]
)
def test_no_label_touches_another(incomes, scale, factor):
    X = incomes[1].assign(income=incomes[1]["income"] * factor)
    y = np.log(X["income"].fillna(1e4)) * (1 + X["age"])
    model = HistGradientBoostingRegressor(max_iter=20, max_depth=2).fit(X, y)
    d = tp.purify(model, X, weights="empirical")
    for ax in (
        plots.main_effect(d, "income", scale=scale),
        plots.pair(d, ("income", "age"), scale=(scale, "auto")),
        plots.pair(d, ("age", "income"), scale=("auto", scale)),
        plots.pair_lines(d, ("income", "age"), scale=scale),
    ):
        assert not labels_touch(ax)
        said = [text for each in (ax, *ax.child_axes) for text in each.get_xticklabels()]
        assert "missing" in [text.get_text() for text in (*said, *ax.get_yticklabels())]


@pytest.mark.parametrize(
    ("mass", "is_ranked"),
    [
        ([0.93, 0.04, 0.02, 0.01], True),
        ([0.5, 0.41, 0.05, 0.04], True),
        ([0.4, 0.4, 0.1, 0.1], False),
    ],
)
def test_auto_is_what_it_says(mass, is_ranked):
    axis = FeatureAxis("x", np.array([2.3, 4.9, 50.1]), bounds=(0.1, 100.2))
    layout = lay_out_axis(axis, np.array(mass), scale="auto")
    assert (layout.spacing == "rank") == is_ranked


def test_curves_have_no_ranks():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.exp(4 * rng.normal(size=200)), "b": rng.normal(size=200)})
    curves = tp.ale_anova(lambda X: X["a"] * X["b"], X, bins=5, progress=False)
    assert plots.main_effect(curves, "a").get_xscale() == "linear"
    with pytest.raises(tp.errors.InvalidInputError, match="is a smooth curve"):
        plots.main_effect(curves, "a", scale="rank")


def test_ranked_cells_leave_room_for_missing_values(X, d):
    holes = X.assign(gain=X["gain"].where(np.arange(400) % 10 > 0))
    model = HistGradientBoostingRegressor(max_iter=30, max_depth=2, min_samples_leaf=2)
    y = np.log1p(holes["gain"].fillna(5.0)) * holes["flag"]
    ax = plots.main_effect(
        tp.purify(model.fit(holes, y), holes, weights="empirical"), "gain", scale="rank"
    )
    ax.figure.canvas.draw()
    strip = ax.child_axes[0]
    density, bar = strip.patches
    values, edges = density.get_data().values, density.get_data().edges
    cell = drawn_width(ax, edges[0], edges[1])
    width = drawn_width(ax, bar.get_x(), bar.get_x() + bar.get_width())
    # The area is the share of the rows, in pixels.
    assert width * bar.get_height() / cell == pytest.approx(0.1)
    assert values.sum() == pytest.approx(0.9)
    assert strip.get_xticklabels()[-1].get_text() == "missing"


@pytest.fixture(scope="module")
def levels():
    return ["10th", "9th", "Masters", "Bachelors", "1st-4th"]


@pytest.fixture(scope="module")
def schooled(levels):
    rng = np.random.default_rng(1)
    codes = rng.choice(5, 600, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    X = pd.DataFrame({"school": pd.Categorical.from_codes(codes, levels)})
    X["sex"] = pd.Categorical(rng.choice(["f", "m"], 600))
    X["age"] = rng.normal(size=600)
    y = np.array([1.0, 0.0, 4.0, 3.0, -2.0])[codes] * (1 + 0.5 * (X["sex"] == "f")) + X["age"]
    y = y + X["age"] * (codes == 2)
    model = HistGradientBoostingRegressor(
        max_iter=60, max_depth=2, categorical_features="from_dtype"
    ).fit(X, y)
    return tp.purify(model, X, weights="empirical", missing_cells="always")


def test_categories_of_a_pair_have_the_order_of_the_main_effect(schooled, levels):
    main = [t.get_text() for t in plots.main_effect(schooled, "school").get_yticklabels()]
    across = plots.pair(schooled, ("school", "sex"))
    assert [label.get_text() for label in across.get_xticklabels()] == main
    up = plots.pair(schooled, ("sex", "school"))
    assert [label.get_text() for label in up.get_yticklabels()] == main
    lines = plots.pair_lines(schooled, ("school", "age"))
    assert [label.get_text() for label in lines.get_yticklabels()] == main
    assert main == ["Masters", "Bachelors", "10th", "9th", "1st-4th"]
    turned = replace(schooled.components[0,], values=-schooled.components[0,].values)
    like = replace(schooled, components={**schooled.components, (0,): turned})
    other = draw_pair(lay_out_pair(schooled, ("school", "sex"), 0, like=like))
    assert [label.get_text() for label in other.get_xticklabels()] == main[::-1]
    component = schooled["school", "sex"]
    table = component.values[..., 0]
    rows = [component.axes[0].labels().index(label) for label in main]
    columns = [component.axes[1].labels().index(t.get_text()) for t in across.get_yticklabels()]
    shown = across.collections[0].get_array()
    np.testing.assert_array_equal(shown, table[np.ix_(rows, columns)].T)


def test_a_pair_without_main_effect_keeps_its_categories():
    d = tp.purify_tensors({(0, 1): np.array([[1.0, -1.0], [-1.0, 1.0]])}, np.ones((2, 2)))
    ax = plots.pair(d, (0, 1))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1"]


def test_special_cells_without_rows_are_left_out(schooled):
    assert schooled["school"].axes[0].has_missing
    for ax in (
        plots.pair(schooled, ("school", "age")),
        plots.main_effect(schooled, "school"),
        plots.main_effect(schooled, "age").child_axes[0],
        plots.pair_lines(schooled, ("school", "age")),
        plots.overlay({"one": schooled}, "age"),
    ):
        labels = [*ax.get_xticklabels(), *ax.get_yticklabels()]
        assert not {"missing", "other"} & {label.get_text() for label in labels}


def test_special_cells_of_curves_stand_above_each_other():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300))})
    model = HistGradientBoostingRegressor(max_iter=20, max_depth=2).fit(X, X["a"].fillna(2.0))
    even, rows = (tp.purify(model, X, weights=own) for own in ("uniform", "empirical"))
    assert even["a"].mass[-1] == 0.0 < rows["a"].mass[-1]
    ax = plots.overlay({"even": even, "rows": rows}, "a", centred=False)
    points = [line for line in ax.lines if line.get_label() == "_special"]
    assert len({tuple(line.get_xdata()) for line in points}) == 1
    assert ax.get_xlim()[0] < points[0].get_xdata()[0] < ax.get_xlim()[1]
    shown = [line.get_ydata()[0] for line in points]
    np.testing.assert_array_equal(shown, [d["a"].values[-1, 0] for d in (even, rows)])


def test_red_is_up_in_every_figure():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X, weights="empirical")
    for row in (X[3:], X[1:2]):
        ups = {bar.get_width() > 0: bar for bar in plots.waterfall(d, row).patches}
        assert all(to_hex(bar.get_facecolor()) == (UP if up else DOWN) for up, bar in ups.items())
    for span, color in zip(plots.beeswarm(d, X).patches, (DOWN, UP), strict=True):
        assert to_hex(span.get_facecolor()) == color
        assert (span.get_x() + span.get_width() / 2 > 0) == (color == UP)
    red, _, blue, _ = plots.pair(d, (0, 1)).collections[0].cmap(1.0)
    assert red > blue
    assert not {UP, DOWN} & {AFTER, BEFORE, MAIN, PAIR}
