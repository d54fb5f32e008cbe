"""In a row of three small axes, as a page of a paper has it, labels lie nowhere on each other."""

from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify import plots

JOBS = ["Exec-managerial", "Prof-specialty", "Sales", "Craft-repair", "Adm-clerical", "Other"]
STATES = ["Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Absent"]
CLARITY = ["IF", "VVS1", "VVS2", "VS1", "VS2", "SI1", "SI2", "I1"]


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"share": rng.random(1500), "hour": rng.integers(0, 24, 1500)})
    for name, levels in (("occupation", JOBS), ("marital_status", STATES), ("clarity", CLARITY)):
        X[name] = pd.Categorical(rng.choice(levels, 1500), categories=levels)
    codes = [
        X[name].cat.codes.astype(float) for name in ("occupation", "marital_status", "clarity")
    ]
    y = codes[0] * codes[1] + 9 * codes[2] * X["share"] + X["share"] * X["hour"]
    model = xgboost.XGBRegressor(max_depth=2, n_estimators=40, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


@pytest.fixture
def ax():
    _, axes = plt.subplots(1, 3, figsize=(7.2, 2.4))
    return axes[1]


def assert_apart(texts):
    texts = [text for text in texts if text.get_text()]
    for one, other in combinations(texts, 2):
        boxes = one.get_window_extent(), other.get_window_extent()
        assert not boxes[0].overlaps(boxes[1]), (one, other)


def test_labels_of_two_categorical_features(d, ax):
    plots.pair(d, ("occupation", "marital_status"), ax=ax)
    ax.figure.canvas.draw()
    assert_apart(ax.get_yticklabels())
    assert len(ax.get_yticklabels()) > 1
    # The name has two whole lines, though it is too long for one.
    assert ax.get_title() == "occupation &\nmarital_status"


def test_the_name_of_the_data_next_to_bars(d, ax):
    plots.main_effect(d, "clarity", ax=ax)
    ax.figure.canvas.draw()
    strip = ax.child_axes[0]
    assert strip.get_ylabel() == "data"
    assert_apart([*ax.get_xticklabels(), ax.xaxis.label, strip.yaxis.label])


def test_lines_keep_their_height_and_the_legend_names_their_feature(d, ax):
    plots.pair_lines(d, ("hour", "share"), ax=ax)
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    assert legend.get_title().get_text() == "share"
    assert not any("share" in text.get_text() for text in legend.get_texts())
    assert ax.get_window_extent().height > 0.3 * ax.figure.bbox.height
    wide = plots.pair_lines(d, ("hour", "share")).get_legend()
    assert wide.get_title().get_text() == "share (main effects and pair)"


def test_labels_of_a_category_below_lines(d, ax):
    plots.pair_lines(d, ("clarity", "share"), ax=ax)
    ax.figure.canvas.draw()
    assert_apart(ax.get_xticklabels())


def inside(figure, axes):
    """Whether the boxes of axes with all that belongs to them lie in the figure, and apart."""
    boxes = [ax.get_tightbbox(figure.canvas.get_renderer()) for ax in axes]
    assert all(box.x0 >= -1 and box.x1 <= figure.bbox.width + 1 for box in boxes)
    assert all(left.x1 <= right.x0 + 1 for left, right in pairwise(boxes))
    return [box.y0 >= -1 and box.y1 <= figure.bbox.height + 1 for box in boxes]


def test_figures_of_bars_lie_between_their_neighbours(d):
    figure, axes = plt.subplots(1, 2, figsize=(4.8, 2.4))
    plots.importance(d, ax=axes[0])
    plots.network(d, ax=axes[1])
    figure.canvas.draw()
    assert inside(figure, axes) == [True] * 2
    assert_apart(axes[0].get_xticklabels())
    # Their boxes have space for letters that reach below the line.
    boxes = [label.get_window_extent() for label in axes[0].get_yticklabels()]
    assert all(below.y1 - above.y0 < 0.2 * above.height for above, below in pairwise(boxes))


def test_figures_of_rows_lie_between_their_neighbours(d):
    X = pd.DataFrame({"share": [0.5, 0.9], "hour": [3, 4], "occupation": JOBS[:2]})
    X["marital_status"], X["clarity"] = STATES[:2], CLARITY[:2]
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.4))
    plots.waterfall(d, X.head(1), ax=axes[0])
    axes[1].remove()
    plots.beeswarm(d, X, ax=axes[2])
    figure.canvas.draw()
    assert inside(figure, axes[::2]) == [True] * 2
    assert_apart(axes[0].get_yticklabels())
