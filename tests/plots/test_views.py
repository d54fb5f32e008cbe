"""The figures of rows, networks, orders and comparisons show the numbers they stand for."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

import treepurify as tp
from tests.cases import needs_stored_labels
from treepurify import plots
from treepurify.auditing.audit import audit
from treepurify.comparing.compare import compare
from treepurify.plots import style
from treepurify.plots.limits import cells_that_count
from treepurify.report.figures import figure_of

KINDS = ["u", "v", "w"]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(rng.choice(KINDS, 400))
    X.loc[::8, "b"] = np.nan
    return X


@pytest.fixture(scope="module")
def model(X):
    y = X["a"] * X["b"].fillna(1.0) + X["c"] + (X["kind"] == "u") * X["a"]
    return xgboost.XGBRegressor(
        n_estimators=30, max_depth=2, enable_categorical=True, n_jobs=1
    ).fit(X, y)


@pytest.fixture
def labelled(model):
    needs_stored_labels(model)


@pytest.fixture(scope="module")
def d(model, X):
    return tp.purify(model, X, weights="empirical")


@pytest.fixture(scope="module")
def uniform(model, X):
    return tp.purify(model, X, weights="uniform")


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_large_rest_of_a_waterfall_is_split_by_order():
    """Of twenty equal main effects and twelve pairs, what has no bar is more than any bar."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 6)) < 0.5).astype(float)
    y = X.sum(axis=1) + sum(X[:, i] * X[:, j] for i in range(6) for j in range(i))
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=2, n_jobs=1).fit(X, y > np.median(y))
    d = tp.purify(model, X, weights="empirical")
    row = np.ones((1, 6))
    ax = plots.waterfall(d, row, top=3)
    *_, alone, joint, start = names_of(ax)
    n_alone = sum(len(subset) == 1 for subset in d)
    assert (alone, joint) == (
        f"main effects: {n_alone - 3} more",
        f"interactions: {len(d) - n_alone} more",
    )
    assert start == "mean log-odds"
    sizes = [patch.get_width() for patch in ax.patches]
    table = d.contributions(row).iloc[0]
    pairs = table[[d.term_name(subset) for subset in d if len(subset) == 2]]
    assert sizes[-1] == pytest.approx(pairs.sum())
    assert d.intercept[0] + sum(sizes) == pytest.approx(d.predict(row)[0])


@pytest.mark.parametrize("parts", ["terms", "shapley"])
def test_waterfall_ends_at_the_prediction(d, X, parts):
    ax = plots.waterfall(d, X.iloc[[0]], parts=parts, top=3)
    bars = [patch for patch in ax.patches if patch.get_width() != 0]
    sizes = [bar.get_width() for bar in bars]
    assert len(sizes) == (4 if parts == "terms" else len(d.feature_names))
    prediction = d.predict(X.iloc[[0]])[0]
    assert d.intercept[0] + sum(sizes) == pytest.approx(prediction)
    assert bars[0].get_x() + bars[0].get_width() == pytest.approx(prediction)
    assert names_of(ax)[-1] == "mean prediction"
    assert names_of(ax)[-2].endswith(" more") == (parts == "terms")
    assert any(f"this row {prediction:.4g}" in text.get_text() for text in ax.texts)


@pytest.mark.usefixtures("labelled")
def test_waterfall_shows_shapley_values(d, X):
    ax = plots.waterfall(d, X.iloc[[0]], parts="shapley")
    shown = dict(zip(names_of(ax), (bar.get_width() for bar in ax.patches), strict=False))
    contributions = d.contributions(X.iloc[[0]]).iloc[0]
    for name in d.feature_names:
        expected = sum(
            contributions[d.term_name(subset)] / len(subset)
            for subset in d
            if name in [d.feature_names[j] for j in subset]
        )
        (label,) = [text for text in shown if text.startswith(f"{name} = ")]
        assert shown[label] == pytest.approx(expected)
    assert "b = missing" in shown
    assert f"kind = {X['kind'].iloc[0]}" in shown


def test_one_row_is_one_row(d, X):
    with pytest.raises(tp.errors.InvalidInputError, match="shows one row, got 2"):
        plots.waterfall(d, X.iloc[:2])
    with pytest.raises(
        tp.errors.InvalidInputError, match="top must be a whole number of at least 1"
    ):
        plots.waterfall(d, X.iloc[:1], top=0)
    with pytest.raises(tp.errors.InvalidInputError, match='parts must be "terms" or "shapley"'):
        plots.waterfall(d, X.iloc[:1], parts="features")


def test_beeswarm_has_a_dot_a_row(d, X):
    ax = plots.beeswarm(d, X, top=3)
    contributions = d.contributions(X).drop(columns="intercept")
    largest = d.importance()["effect"][:3]
    assert names_of(ax) == list(largest)
    for place, term in enumerate(largest):
        dots = [
            dot
            for collection in ax.collections
            for dot in np.asarray(collection.get_offsets())
            if abs(dot[1] - place) < 0.5
        ]
        np.testing.assert_allclose(sorted(dot[0] for dot in dots), sorted(contributions[term]))
    with pytest.raises(tp.errors.InvalidInputError, match="X has no rows"):
        plots.beeswarm(d, X.iloc[:0])


def areas_of_nodes(ax):
    """Return the area of each node; the one in the legend has no place."""
    nodes = [own for own in ax.collections if isinstance(own, PathCollection)]
    return [float(own.get_sizes()[0]) for own in nodes if len(own.get_offsets())]


def legend_words(ax):
    return " ".join(ax.get_legend().get_title().get_text().split())


def test_network_has_nodes_and_edges(d):
    ax = plots.network(d)
    assert sorted(text.get_text() for text in ax.texts) == sorted(d.feature_names)
    sizes = {s: float(c.variance[0]) ** 0.5 for s, c in d.components.items()}
    mains, pairs = (sorted(v for s, v in sizes.items() if len(s) == n) for n in (1, 2))
    areas = sorted(areas_of_nodes(ax))
    np.testing.assert_allclose(np.divide(areas, areas[-1]), np.divide(mains, mains[-1]), atol=0.02)
    widths = sorted(line.get_linewidth() for line in ax.lines)
    np.testing.assert_allclose(
        widths, np.maximum(widths[-1] * np.divide(pairs, pairs[-1]), 0.4), rtol=1e-12
    )
    assert "all pairs" in legend_words(ax)
    ax = plots.network(d, pairs=1)
    assert len(ax.lines) == 1
    share = max(pairs) ** 2 / sum(np.square(pairs))
    assert f"1 of {len(pairs)} pairs, with {share:.0%} of their variance" in legend_words(ax)


def test_sizes_in_the_legend_of_a_network_are_to_scale(d):
    ax = plots.network(d)
    mains = [float(c.variance[0]) ** 0.5 for s, c in d.components.items() if len(s) == 1]
    (sample,) = (own for own in ax.collections if str(own.get_label()).startswith("main effect"))
    size = float(sample.get_label().split(": ")[1])
    expected = max(areas_of_nodes(ax)) * size / max(mains)
    assert sample.get_sizes()[0] == pytest.approx(expected)


def test_network_of_one_row_has_the_sizes_and_signs_of_its_effects(d, X):
    row = X.iloc[[3]]
    ax = plots.network(d, row=row)
    effects = {s: float(c.on_rows(row)[0, 0]) for s, c in d.components.items()}
    pairs = {s: effect for s, effect in effects.items() if len(s) == 2 and effect}
    assert len(ax.lines) == len(pairs)
    widths = sorted(line.get_linewidth() for line in ax.lines)
    sizes = sorted(abs(effect) for effect in pairs.values())
    assert widths[-2] == pytest.approx(max(widths[-1] * sizes[-2] / sizes[-1], 0.4))
    colours = [line.get_color() for line in ax.lines]
    assert colours.count(style.UP) == sum(effect > 0 for effect in pairs.values())
    assert colours.count(style.DOWN) == sum(effect < 0 for effect in pairs.values())
    with pytest.raises(tp.errors.InvalidInputError, match="one row"):
        plots.network(d, row=X.iloc[:2])


@pytest.fixture(scope="module", params=[3, 15, 60])
def many(request):
    """Features with long names, each of which interacts with the next."""
    rng, count = np.random.default_rng(0), request.param
    names = [f"number_of_visits_to_the_clinic_within_year_{j}" for j in range(count)]
    mains = {(j,): rng.normal(size=2) for j in range(count)}
    pairs = {(j, j + 1): rng.normal(size=(2, 2)) for j in range(count - 1)}
    return tp.purify_tensors(mains | pairs, feature_names=names)


def test_names_in_a_network_do_not_touch(many):
    ax = plots.network(many, top=len(many.feature_names))
    figure = ax.figure
    figure.canvas.draw()
    # Without the lines to the nodes.
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == len(many.feature_names)
    boxes.append(ax.get_legend().get_window_extent())
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert all(figure.bbox.x0 - 1 <= box.x0 for box in boxes)
    assert all(box.x1 <= figure.bbox.x1 + 1 for box in boxes)


def test_the_leading_pairs_are_drawn_wherever_their_features_rank():
    rng = np.random.default_rng(0)
    mains = {(j,): (50.0 - j) * np.array([-1.0, 1.0]) for j in range(40)}
    strong = {(34, 37): 3.0, (36, 39): 2.0, (35, 38): 1.0}
    weak = {(j, j + 1): 0.01 * rng.uniform(0.5, 1.0) for j in range(30)}
    cross = np.array([[1.0, -1.0], [-1.0, 1.0]])
    d = tp.purify_tensors(mains | {s: size * cross for s, size in (strong | weak).items()})
    ax = plots.network(d, top=10, pairs=3)
    assert len(ax.lines) == 3
    places = {text.get_text(): text.xy for text in ax.texts}
    assert places.keys() == {*(f"x{j}" for j in range(34, 40)), *(f"x{j}" for j in range(4))}
    assert "3 of 33 pairs, with 100% of their variance; 10 of 40 features" in legend_words(ax)
    # Strong partners are neighbours: hardly another feature is closer than the partner.
    away = {name: np.hypot(*np.subtract(place, places["x34"])) for name, place in places.items()}
    assert away["x37"] <= sorted(away.values())[2] + 1e-9


def test_overlay_shows_both_curves(d, uniform):
    ax = plots.overlay({"rows": d, "even": uniform}, "a")
    curves = {patch.get_label(): patch.get_data().values for patch in ax.patches}
    np.testing.assert_allclose(curves["rows"], d["a"].values[:, 0], atol=1e-14)
    values, mass = uniform["a"].values[:, 0], d["a"].mass
    np.testing.assert_allclose(curves["even"], values - mass @ values)
    plain = plots.overlay({"even": uniform, "rows": d}, "a", centred=False)
    curves = {patch.get_label(): patch.get_data().values for patch in plain.patches}
    np.testing.assert_array_equal(curves["rows"], d["a"].values[:, 0])


@pytest.mark.usefixtures("labelled")
def test_overlay_of_categories(d, uniform):
    ax = plots.overlay({"rows": d, "even": uniform}, "kind")
    cells = [KINDS.index(name) for name in names_of(ax)]
    assert sorted(cells) == [0, 1, 2]
    first = [bar.get_width() for bar in ax.containers[0]]
    np.testing.assert_allclose(first, d["kind"].values[cells, 0], atol=1e-14)
    with pytest.raises(tp.errors.InvalidInputError, match="must be decompositions by name"):
        plots.overlay({}, "kind")


@pytest.mark.usefixtures("every_cell")
def test_lines_of_a_pair_along_a_number(d):
    ax = plots.pair_lines(d, ("a", "kind"), with_mains=False)
    pair = d["a", "kind"]
    values = pair.values[..., 0]
    counts = cells_that_count(values, pair.mass, pair.axes)
    named = [patch for patch in ax.patches if patch.get_label() != "_thin"]
    assert len(named) == 3
    for patch, column, counted in zip(named, values.T, counts.T, strict=True):
        expected = np.where(counted, column, np.nan)
        np.testing.assert_array_equal(patch.get_data().values, expected)
    both = plots.pair_lines(d, ("a", "kind"))
    thin = next(p for p in both.patches if p.get_label() == "_thin").get_data().values
    alone = next(p for p in ax.patches if p.get_label() == "_thin").get_data().values
    name = next(p for p in ax.patches if p.get_label() not in ("_thin", "")).get_label()
    across = d["kind"].values[d["kind"].axes[0].labels().index(name), 0]
    np.testing.assert_allclose(thin - alone, d["a"].values[:, 0] + across)
    with pytest.raises(
        tp.errors.InvalidInputError, match="lines must be a whole number from 1 to 7"
    ):
        plots.pair_lines(d, ("a", "kind"), lines=9)


@pytest.mark.usefixtures("labelled")
def test_lines_of_a_pair_along_categories(d):
    ax = plots.pair_lines(d, ("kind", "a"))
    values, mass = d["a", "kind"].values[..., 0].T, d["a", "kind"].mass.T
    margin = np.cumsum(mass.sum(axis=0))
    cells = np.searchsorted(margin, np.array([0.1, 0.5, 0.9]) * margin[-1])
    kinds = [KINDS.index(name) for name in names_of(ax)]
    assert sorted(kinds) == [0, 1, 2]
    assert len(ax.containers) == 3
    for bars, cell in zip(ax.containers, cells, strict=True):
        mains = d["kind"].values[:, 0] + d["a"].values[cell, 0]
        drawn = [bar.get_width() for bar in bars]
        np.testing.assert_allclose(drawn, (values[:, cell] + mains)[kinds])
    assert ax.get_legend().get_title().get_text() == "a (main effects and pair)"


def test_lines_along_many_categories_show_the_heaviest():
    rng = np.random.default_rng(0)
    weights = rng.permutation(np.arange(1.0, 61.0))
    mass = np.outer(weights, [1.0, 2.0])
    heavy = np.argmax(weights)
    mass[heavy] = 0.0, 200.0
    d = tp.purify_tensors({(0, 1): rng.normal(size=(60, 2))}, mass)
    ax = plots.pair_lines(d, (0, 1))
    shown = [int(name) for name in names_of(ax)]
    assert shown == sorted(np.argsort(-mass.sum(axis=1))[:20])
    for level, bars in enumerate(ax.containers):
        whole = [bar.get_alpha() is None for bar in bars]
        assert whole == [mass[cell, level] > 0 for cell in shown]
    assert heavy in shown
    assert "(20 of 60 categories)" in ax.get_ylabel()


def test_comparison_shows_both_sizes(d, uniform):
    compared = compare(d, uniform)
    ax = plots.comparison(compared, top=4)
    assert names_of(ax) == list(compared.terms["term"][:4])
    sizes = {line.get_label(): line.get_xdata() for line in ax.lines}
    np.testing.assert_array_equal(sizes["empirical"], compared.terms["deviation_first"][:4])
    np.testing.assert_array_equal(sizes["uniform"], compared.terms["deviation_second"][:4])
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_array_equal(widths, compared.terms["distance"][:4])


@pytest.mark.usefixtures("every_cell")
def test_cells_without_data_can_be_shown(d):
    component = d["a", "b"]
    assert np.any(component.mass == 0)

    def hidden_cells(ax):
        (mesh,) = ax.collections
        return np.ma.getmaskarray(mesh.get_array()).sum()

    shown = plots.pair(d, ("a", "b"), show_empty=True)
    n_empty = np.sum(component.mass == 0)
    plain = plots.pair(d, ("a", "b"))
    assert hidden_cells(plain) - hidden_cells(shown) == n_empty
    (hatching,) = (own for own in shown.patches if own.get_hatch())
    corners = np.asarray(shown.collections[0].get_coordinates())
    middles = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    path = hatching.get_path()
    corners = path.vertices.reshape(-1, 5, 2)
    lower, upper = corners.min(axis=1)[:, None], corners.max(axis=1)[:, None]
    inside = ((middles.reshape(-1, 2) > lower) & (middles.reshape(-1, 2) < upper)).all(axis=2)
    hatched = inside.any(axis=0)
    assert hatched.sum() == n_empty
    gaps = np.ma.getmaskarray(shown.collections[0].get_array())
    assert not np.any(hatched & gaps.ravel())


@pytest.mark.usefixtures("every_cell")
def test_cells_without_data_are_hatched_by_one_patch_however_many():
    rng = np.random.default_rng(0)
    n = 500
    mass = np.where(rng.random((n, n)) < 0.01, 1.0, 0.0)
    d = tp.purify_tensors({(0, 1): rng.normal(size=(n, n))}, mass, progress=False)
    ax = plots.pair(d, (0, 1), show_empty=True)
    (hatching,) = (own for own in ax.patches if own.get_hatch())
    assert hatching.get_rasterized()
    page = figure_of(ax, "", "a pair").versions[""]
    assert len(page) < 1_200_000
    assert page.count("<path") < 200


def test_every_finding_has_its_picture(model, X):
    audited = audit(model, X, n_bootstrap=2, progress=False)
    assert audited.findings
    for rank, what in enumerate(audited.findings):
        ax = plots.finding(audited, rank)
        is_of_pair = what.kind == "distribution" and len(what.subset) == 2
        under = f": under {what.measure}" if is_of_pair else ""
        assert ax.get_title(loc="right") == what.kind + under
        plt.close("all")
    with pytest.raises(tp.errors.InvalidInputError, match="what must be a whole number"):
        plots.finding(audited, 999)


def test_given_axes_are_used(d, uniform, X):
    row = X.iloc[[0]]
    for draw in (
        lambda ax: plots.waterfall(d, row, ax=ax),
        lambda ax: plots.beeswarm(d, X, ax=ax),
        lambda ax: plots.network(d, ax=ax),
        lambda ax: plots.overlay({"rows": d}, "a", ax=ax),
        lambda ax: plots.pair_lines(d, ("a", "b"), ax=ax),
        lambda ax: plots.comparison(compare(d, uniform), ax=ax),
    ):
        ax = Figure().add_subplot()
        assert draw(ax) is ax
    assert plt.get_fignums() == []
