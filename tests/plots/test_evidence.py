"""The figures of worth and of simplifications show the numbers that they stand for."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify import plots


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=600)
    model = GradientBoostingRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    return tp.purify(model, X[:300], weights="empirical"), X[300:], y[300:]


def test_bars_are_shares_of_worth_and_variance(world):
    found = tp.effect_worth(*world, progress=False)
    ax = plots.worth(found, top=3)
    table = found.to_frame().sort_values("size", ascending=False).head(3)
    first, second = ([bar.get_width() for bar in container] for container in ax.containers)
    np.testing.assert_allclose(first, table["worth_share"])
    np.testing.assert_allclose(second, table["share"])
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table["term"])
    (intervals,) = ax.collections
    ends = np.array([segment[:, 0] for segment in intervals.get_segments()])
    gain = found.intercept_loss - found.model_loss
    np.testing.assert_allclose(ends, table[["low", "high"]] / gain)


def test_a_model_that_is_worse_than_its_intercept_is_drawn_in_units_of_the_loss(world):
    d, X, y = world
    found = tp.effect_worth(d, X, -y, n_bootstrap=0, progress=False)
    ax = plots.worth(found)
    assert "increase in loss;" in ax.get_xlabel()
    widths = sorted(bar.get_width() for bar in ax.containers[0])
    np.testing.assert_allclose(widths, np.sort(found.worth))


@pytest.mark.parametrize("whole", [True, False])
def test_the_path_is_drawn(world, whole):
    simple = tp.simplify(*world, progress=False)
    ax = plots.simplification(simple, whole=whole)
    path, limit, taken = ax.lines
    table = simple.to_frame()
    drawn = len(path.get_xdata())
    np.testing.assert_allclose(path.get_xdata(), table["n_effects"][:drawn])
    np.testing.assert_allclose(path.get_ydata(), table["loss"][:drawn])
    assert (drawn == len(table)) == whole
    assert limit.get_ydata()[0] == pytest.approx(1.01 * simple.model_loss)
    assert taken.get_xdata()[0] == len(simple.decomposition)
    words = [text.get_text().replace("\n", " ") for text in ax.get_legend().get_texts()]
    assert "± one standard error of the increase over the model" in words
