"""Titles say what is seen, and fit; effects on a logarithmic scale have a second axis."""

import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify import plots
from treepurify.grids.axis import FeatureAxis
from treepurify.plots.labels import number_words, range_words, signed_words
from treepurify.plots.limits import cells_that_count
from treepurify.report.sentences import model_statements

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1200, 2)), columns=["tenure", "usage"])
    X["contract"] = pd.Categorical(rng.choice(["monthly", "one year", "two years"], 1200))
    return X


def purified(model, X, y):
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


@pytest.fixture(scope="module")
def margin(X):
    kind = X["contract"].cat.codes
    return X["tenure"] * (1 + (kind == 0)) - X["usage"] ** 2 + 1.5 * kind


@pytest.fixture(scope="module")
def churn(X, margin):
    labels = pd.Series(np.where(margin > 0, "left", "stayed"))
    from lightgbm import LGBMClassifier

    return purified(LGBMClassifier(n_estimators=20, max_depth=3, verbose=-1), X, labels)


@pytest.fixture(scope="module")
def counts(X, margin):
    y = np.random.default_rng(1).poisson(np.exp(margin / 4))
    options = {"n_estimators": 20, "max_depth": 3, "enable_categorical": True, "n_jobs": 1}
    return purified(xgboost.XGBRegressor(objective="count:poisson", **options), X, y)


@pytest.fixture(scope="module")
def plain(X, margin):
    options = {"n_estimators": 20, "max_depth": 3, "enable_categorical": True, "n_jobs": 1}
    return purified(xgboost.XGBRegressor(**options), X, margin)


@pytest.fixture(scope="module")
def classes(X, margin):
    y = pd.qcut(margin, 3, labels=False)
    options = {"n_estimators": 10, "max_depth": 3, "enable_categorical": True, "n_jobs": 1}
    return purified(xgboost.XGBClassifier(**options), X, y)


def title_of(ax):
    return ax.get_title().replace("\n", " ")


def words_of(values):
    return range_words(*values)


def counted(component):
    effects = component.values[..., 0]
    return effects[cells_that_count(effects, component.mass, component.axes)]


def second_axes(ax):
    kind = plt.matplotlib.axes._secondary_axes.SecondaryAxis
    return [child for child in ax.child_axes if isinstance(child, kind)]


@pytest.mark.usefixtures("every_cell")
def test_a_title_names_the_scale_and_the_range(plain, counts, classes):
    values = counted(plain["tenure"])
    assert np.argmin(values) < np.argmax(values)
    ax = plots.main_effect(plain, "tenure")
    whole = words_of((values.min(), values.max()))
    assert title_of(ax) == f"tenure: {whole}"
    ax = plots.main_effect(counts, "usage")
    assert title_of(ax).startswith("usage: from ")
    assert ax.get_ylabel().replace("\n", " ") == "effect on the log of the prediction"
    ax = plots.main_effect(classes, "tenure", output=2)
    assert ax.get_ylabel().replace("\n", " ") == "effect on the score of class 2 before softmax"
    effects = plain["contract"].values[:, 0]
    title = title_of(plots.main_effect(plain, "contract"))
    reach = words_of((effects.max(), effects.min()))
    assert title == f"contract: {reach}"


def test_a_title_has_the_range_of_what_is_drawn(plain, monkeypatch):
    monkeypatch.setattr("treepurify.plots.limits.central_range", lambda axis, mass: (0.0, 1.0))
    component = plain["tenure"]
    cuts = component.axes[0].cuts
    inside = component.values[1:-1, 0][(cuts[1:] > 0) & (cuts[:-1] < 1)]
    title = title_of(plots.main_effect(plain, "tenure"))
    first, last = (np.argmin(inside), np.argmax(inside))
    ends = inside[[min(first, last), max(first, last)]]
    assert title.endswith(words_of(ends))


@pytest.mark.usefixtures("every_cell")
def test_a_pair_has_the_range_of_its_colours(plain):
    ax = plots.pair(plain, ("tenure", "contract"))
    component = plain["tenure", "contract"]
    shown = counted(component)
    reach = words_of((shown.min(), shown.max()))
    assert title_of(ax) == f"tenure & contract: {reach}"
    assert ax.collections[0].norm.vmax == np.abs(shown).max()
    lines = plots.pair_lines(plain, ("tenure", "contract"))
    assert title_of(lines).startswith("tenure by contract: from ")


KIND = FeatureAxis("kind", None, tuple("abcd"))
SIZE = FeatureAxis("size", np.arange(4.0), has_missing=True)


@pytest.mark.parametrize(
    ("axes", "values", "mass", "expected"),
    [
        # Categories and missing values alone, whatever their effects.
        ([KIND], [1, 2, -9, 9], [0.5, 0.494, 0.005, 0.001], [1, 1, 1, 0]),
        ([KIND], [1, 2, 1.5, 9], [0.6, 0.398, 0.002, 0], [1, 1, 0, 0]),
        ([SIZE], [1, 2, 3, 4, 5, 9], [0.2, 0.2, 0.2, 0.2, 0.199, 0.001], [1, 1, 1, 1, 1, 0]),
        # Small intervals with their small neighbours, those without are left out.
        (
            [SIZE],
            [2, 2, 1, 1.5, 5, 2],
            [0.003, 0.003, 0.49, 0.002, 0.49, 0.012],
            [1, 1, 1, 0, 1, 1],
        ),
        # But not for an effect that hardly any row has.
        (
            [SIZE],
            [2, 9, 1, 1.5, 5, 2],
            [0.003, 0.003, 0.49, 0.002, 0.49, 0.012],
            [1, 0, 1, 0, 1, 1],
        ),
        ([KIND], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_cells_of_less_than_half_a_percent_of_the_rows_do_not_count(axes, values, mass, expected):
    found = cells_that_count(np.array(values, float), np.array(mass, float), axes)
    np.testing.assert_array_equal(found, np.array(expected, bool))


@pytest.mark.parametrize("is_categorical", [False, True])
def test_of_many_small_cells_only_the_furthest_do_not_count(is_categorical):
    cuts = None if is_categorical else np.arange(999.0)
    axis = FeatureAxis("x", cuts, tuple(range(1000)) if is_categorical else ())
    values = np.random.default_rng(0).permutation(1000) - 500.0
    counts = cells_that_count(values, np.full(1000, 1e-3), [axis])
    # Five rows in a thousand have an effect as far out as the ends.
    assert (values[counts].min(), values[counts].max()) == (-496.0, 495.0)
    assert counts.sum() == 992


def test_small_combinations_of_values_do_not_count_for_a_pair():
    axes = [FeatureAxis("x", np.arange(19.0)), FeatureAxis("y", np.arange(19.0))]
    values = np.random.default_rng(0).uniform(-8000, 8000, (20, 20))
    mass = np.full((20, 20), 1.0)
    values[3, 4], mass[3, 4] = -60000, 0.2
    values[5, 6], mass[5, 6] = 28000, 0.0
    counts = cells_that_count(values, mass / mass.sum(), axes)
    shown = values[counts]
    assert -8000 < shown.min() < -7500
    assert 7500 < shown.max() < 8000
    for sign in (1, -1):
        end = (sign * shown).min()
        assert mass[sign * values <= end].sum() >= 0.005 * mass.sum()
        assert mass[sign * values < end].sum() < 0.005 * mass.sum()
    # Of a category with few rows no combination counts.
    kinds = [axes[0], FeatureAxis("kind", None, tuple(range(20)))]
    mass[:, 7] *= 1e-3
    assert not cells_that_count(values, mass / mass.sum(), kinds)[:, 7].any()


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def rare(request):
    """A model with a category of 15 in 4000 rows, the one with the largest effect."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["plain", "fine", "grand"], 4000)
    kind[:15] = "rare"
    X = pd.DataFrame({"kind": pd.Categorical(kind), "size": rng.uniform(size=4000)})
    y = X["kind"].map({"plain": 0.0, "fine": 2.0, "grand": 5.0, "rare": 90.0}).astype(float)
    y += np.where(X["kind"] == "rare", 60.0, 3.0) * (X["size"] - 0.5) * (X["kind"] != "fine")
    if request.param == "xgboost":
        return purified(xgboost.XGBRegressor(enable_categorical=True, n_jobs=1), X, y)
    from lightgbm import LGBMRegressor

    options = {"min_child_samples": 2, "min_data_per_group": 2, "cat_smooth": 0.1, "cat_l2": 0}
    return purified(LGBMRegressor(verbose=-1, n_jobs=1, **options), X, y)


def test_title_bars_and_sentence_agree_about_a_rare_category(rare):
    component = rare["kind"]
    effects = dict(zip(component.axes[0].labels(), component.values[:, 0], strict=True))
    assert effects["rare"] > max(effects[kind] for kind in ("plain", "fine", "grand"))
    usual = [effects[kind] for kind in ("plain", "fine", "grand")]
    ax = plots.main_effect(rare, "kind")
    reach = words_of((max(usual), min(usual)))
    assert title_of(ax) == f"kind: {reach}"
    names = [label.get_text() for label in ax.get_yticklabels()]
    bars = dict(zip(names, ax.patches, strict=False))
    assert {name for name, bar in bars.items() if bar.get_alpha() is not None} == {"rare"}
    (sentence,) = (s.text for s in model_statements(rare, 9) if s.effects == (component.features,))
    assert f"highest where kind = grand ({signed_words(max(usual))}" in sentence
    twice = replace(component, values=2 * component.values)
    other = replace(rare, components={**rare.components, component.features: twice})
    title = title_of(plots.overlay({"one": rare, "other": other}, "kind"))
    assert title.endswith(f"up to {number_words(np.abs(usual).max(), 2)} apart")


def test_title_colours_and_sentence_agree_about_a_pair_with_a_rare_category(rare):
    pair = rare["kind", "size"]
    held = pair.mass.sum(axis=1 - pair.features.index(0))
    effects = np.moveaxis(pair.values[..., 0], pair.features.index(0), 0)
    usual = np.abs(effects[held >= 0.005]).max()
    assert np.abs(effects).max() > 2 * usual
    ax = plots.pair(rare, ("kind", "size"))
    limit = ax.collections[0].norm.vmax
    assert limit <= usual
    low, high = (float(own) for own in re.findall(r"[+-][\d.]+", title_of(ax).replace(MINUS, "-")))
    assert max(-low, high) == pytest.approx(limit, rel=0.05)
    told = [s.text for s in model_statements(rare, 9) if s.effects == (pair.features,)]
    said = re.findall(r"([+-][\d.]+) where", "".join(told).replace(MINUS, "-"))
    assert "rare" not in "".join(told)
    assert all(low * 1.05 <= float(own) <= high * 1.05 for own in said)


def test_a_profile_has_the_range_of_its_means(plain, X):
    found = tp.feature_profile(plain.predict, X, "tenure", progress=False)
    means = found.predicted[:, 0]
    ends = range_words(means[0], means[-1])
    assert np.argmin(means) in (0, len(means) - 1)
    assert title_of(plots.profile(found)).startswith("tenure: from ")
    assert ends.split()[-1].lstrip("+") in title_of(plots.profile(found))


def test_named_classes_are_named(churn):
    label = plots.main_effect(churn, "usage").get_ylabel()
    name = churn.output_names[0]
    of_what = "log-odds" if name == "margin" else f"log-odds of class '{name}'"
    assert label.replace("\n", " ") == f"effect on the {of_what}"


@pytest.mark.usefixtures("every_cell")
def test_an_overlay_says_how_far_its_curves_are_apart(plain, churn, counts):
    both = {"numbers": plain, "counts": counts}
    at = np.linspace(*plain["tenure"].axes[0].bounds, 40_001)
    rows = pd.DataFrame({"tenure": at, "usage": 0.0, "contract": "monthly"})
    effects = [each["tenure"].on_rows(rows)[:, 0] for each in both.values()]
    both_count = np.ones(len(at), dtype=bool)
    for component in (each["tenure"] for each in both.values()):
        (axis,) = component.axes
        counts_in = cells_that_count(component.values[:, 0], component.mass, component.axes)
        both_count &= counts_in[np.searchsorted(axis.cuts, at, side="right")]
    ax = plots.overlay(both, "tenure", centred=False)
    distances = np.abs(effects[0] - effects[1])
    apart = number_words(distances[both_count].max(), 2)
    # The curves are furthest apart where hardly any rows are, which the title leaves out.
    assert number_words(distances.max(), 2) != apart
    assert title_of(ax) == f"tenure: up to {apart} apart"
    # Links differ, so that there is no axis for both.
    assert second_axes(ax) == []
    (known, other) = (each["contract"].values[:, 0] for each in both.values())
    title = title_of(plots.overlay(both, "contract", centred=False))
    assert title.endswith(f"up to {number_words(np.abs(known - other).max(), 2)} apart")
    (second,) = second_axes(plots.overlay({"a": churn, "b": churn}, "usage"))
    assert second.get_ylabel() == "odds ratio"
    (second,) = second_axes(plots.overlay({"a": counts, "b": counts}, "contract"))
    assert second.get_xlabel() == "factor on the prediction"


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((1.9234, -2.3456), "from +1.9 to \u22122.3"),
        ((-3512.0, 7031.0), "from \u22123500 to +7000"),
        ((0.001, 0.0123), "from +0.001 to +0.012"),
        ((1.0, -0.5), "from +1.0 to \u22120.5"),
        ((0.0, 0.0), ""),
        ((1.0, 1.001), ""),
    ],
)
def test_ranges_have_two_digits(ends, words):
    assert range_words(*ends) == words


def test_titles_can_be_changed(plain):
    for draw, key in (
        (plots.main_effect, "tenure"),
        (plots.pair, ("tenure", "usage")),
        (plots.pair_lines, ("tenure", "usage")),
    ):
        ax = draw(plain, key)
        ax.set_title("mine")
        assert {ax.get_title(loc=side) for side in ("left", "right")} == {""}
        assert_nothing_overlaps(ax.figure)


def texts_of(figure):
    figure.canvas.draw()
    found = []
    for ax in figure.axes:
        legend = ax.get_legend()
        found += [ax.title] + ([] if legend is None else [*legend.get_texts()])
        for each in (ax, *ax.child_axes):
            found += [each.xaxis.label, each.yaxis.label]
    return [text for text in found if text.get_text() and text.get_visible()]


def assert_nothing_overlaps(figure):
    texts = texts_of(figure)
    boxes = [text.get_window_extent() for text in texts]
    for i, one in enumerate(boxes):
        assert one.x0 >= -1, texts[i]
        assert one.x1 <= figure.bbox.width + 1, texts[i]
        assert one.y0 >= -1, texts[i]
        assert one.y1 <= figure.bbox.height + 1, texts[i]
        for j in range(i):
            assert not one.overlaps(boxes[j]), (texts[i], texts[j])


def test_log_scales_have_a_second_axis(churn, counts, plain):
    for d, words in ((churn, "odds ratio"), (counts, "factor on the prediction")):
        (second,) = second_axes(plots.main_effect(d, "usage"))
        assert second.get_ylabel() == words
        places = second.get_yticks()
        ratios = [float(text.get_text()) for text in second.get_yticklabels()]
        np.testing.assert_allclose(np.exp(places), ratios)
        assert len(ratios) >= 2
        (second,) = second_axes(plots.main_effect(d, "contract"))
        assert second.get_xlabel() == words
    assert not second_axes(plots.main_effect(plain, "usage"))
    assert all(not second_axes(ax) for ax in plots.summary(churn).axes)
    _, ax = plt.subplots(1, 3, figsize=(7.2, 2.4))
    assert not second_axes(plots.main_effect(churn, "usage", ax=ax[0]))


def test_a_profile_on_the_margin_has_odds(X, margin):
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, enable_categorical=True, n_jobs=1)
    model.fit(X, margin > 0)
    found = tp.feature_profile(model, X, "usage", scale="margin", progress=False)
    ax = plots.profile(found)
    (second,) = second_axes(ax)
    assert second.get_ylabel() == "odds"
    assert ax.get_ylabel() == "log-odds"
    assert not second_axes(plots.profile(tp.feature_profile(model, X, "usage", progress=False)))
