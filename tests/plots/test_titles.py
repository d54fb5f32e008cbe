"""Titles say what is seen, and fit; effects on a logarithmic scale have a second axis."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify import plots
from treepurify.plots.labels import number_words
from treepurify.plots.titles import range_words


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


def second_axes(ax):
    kind = plt.matplotlib.axes._secondary_axes.SecondaryAxis
    return [child for child in ax.child_axes if isinstance(child, kind)]


@pytest.mark.usefixtures("every_cell")
def test_a_title_names_the_scale_and_the_range(plain, counts, classes):
    values = plain["tenure"].values[:, 0]
    assert np.argmin(values) < np.argmax(values)
    ax = plots.main_effect(plain, "tenure")
    whole = words_of((values.min(), values.max()))
    assert title_of(ax) == f"Effect of tenure on the prediction: {whole}"
    title = title_of(plots.main_effect(counts, "usage"))
    assert title.startswith("Effect of usage on the log of the prediction: from ")
    title = title_of(plots.main_effect(classes, "tenure", output=2))
    assert title.startswith("Effect of tenure on the score of class 2 before softmax: from ")
    effects = plain["contract"].values[:, 0]
    title = title_of(plots.main_effect(plain, "contract"))
    reach = words_of((effects.max(), effects.min()))
    assert title == f"Effect of contract on the prediction: {reach}"


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
    shown = component.values[component.mass > 0]
    reach = words_of((shown.min(), shown.max()))
    assert title_of(ax) == f"Effect of tenure & contract on the prediction: {reach}"
    lines = plots.pair_lines(plain, ("tenure", "contract"))
    assert title_of(lines).startswith("Effect of tenure by contract on the prediction: from ")


def test_a_profile_has_the_range_of_its_means(plain, X):
    found = tp.feature_profile(plain.predict, X, "tenure", progress=False)
    means = found.predicted[:, 0]
    ends = range_words(means[0], means[-1])
    assert np.argmin(means) in (0, len(means) - 1)
    assert title_of(plots.profile(found)).startswith("Mean prediction along tenure: from ")
    assert ends.split()[-1].lstrip("+") in title_of(plots.profile(found))


def test_named_classes_are_named(churn):
    title = title_of(plots.main_effect(churn, "usage"))
    name = churn.output_names[0]
    of_what = "log-odds" if name == "margin" else f"log-odds of class '{name}'"
    assert f"Effect of usage on the {of_what}: from " in title


@pytest.mark.usefixtures("every_cell")
def test_an_overlay_says_how_far_its_curves_are_apart(plain, churn, counts):
    both = {"numbers": plain, "counts": counts}
    at = np.linspace(*plain["tenure"].axes[0].bounds, 40_001)
    rows = pd.DataFrame({"tenure": at, "usage": 0.0, "contract": "monthly"})
    effects = [each["tenure"].on_rows(rows)[:, 0] for each in both.values()]
    ax = plots.overlay(both, "tenure", centred=False)
    apart = number_words(np.abs(effects[0] - effects[1]).max(), 2)
    whole = "Effect of tenure on the prediction in 2 decompositions"
    assert title_of(ax) == f"{whole}: up to {apart} apart"
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


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
@pytest.mark.parametrize(("n", "size"), [(1, (4.6, 3.5)), (2, (6.4, 4.8)), (3, (7.2, 2.4))])
def test_titles_fit_in_small_and_large_panels(churn, layout, n, size):
    keys = ["tenure", "contract", ("tenure", "usage")]
    for start in range(3):
        figure, axes = plt.subplots(1, n, figsize=size, layout=layout, squeeze=False)
        for k, ax in enumerate(axes[0]):
            key = keys[(start + k) % 3]
            (plots.pair if isinstance(key, tuple) else plots.main_effect)(churn, key, ax=ax)
            assert ax.get_title()
        assert_nothing_overlaps(figure)


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
    assert all(not second_axes(ax) for ax in plots.summary(churn))
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
