"""What figures draw of a spread: the numbers of the band, cell by cell."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="draws figures")
from matplotlib.patches import PathPatch, StepPatch
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.spread import LEVEL


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.integers(6, size=500) * 1.0, "age": rng.normal(size=500)})
    X["kind"] = pd.Categorical(rng.choice(list("abc"), 500))
    X.loc[::9, "age"] = np.nan
    y = X["size"] * (X["kind"] == "a") + X["age"].fillna(1.0) + rng.normal(size=500)
    estimator = HistGradientBoostingRegressor(
        max_depth=2, max_iter=20, categorical_features="from_dtype"
    )
    return tp.purify(tp.refit(estimator, X, y, n=5, progress=False), X, progress=False)


def band_patch(ax):
    return next(p for p in ax.patches if isinstance(p, StepPatch) and p.get_fill())


def test_a_step_curve_has_its_band(d):
    ax = tp.plots.main_effect(d, "age", level=0.8)
    lower, upper = d.spread.band("age", 0.8)
    n = len(d["age"].axes[0].cuts) + 1
    values, edges, baseline = band_patch(ax).get_data()
    assert len(edges) == len(values) + 1
    # Cells without width at the ends of the data are not drawn.
    drawn = upper[:n, 0][np.isin(upper[:n, 0], values)]
    np.testing.assert_array_equal(values, drawn)
    np.testing.assert_array_equal(baseline, lower[:n, 0][np.isin(upper[:n, 0], values)])
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "one more training, 80%" in legend


def test_the_missing_cell_has_its_band(d):
    ax = tp.plots.main_effect(d, "age")
    lower, upper = (bound[-1, 0] for bound in d.spread.band("age"))
    ends = [segment[:, 1] for lines in ax.collections for segment in lines.get_segments()]
    assert any(np.allclose(np.sort(end), [lower, upper]) for end in ends)


def test_bars_have_whiskers(d):
    ax = tp.plots.main_effect(d, "kind", sort="name")
    lower, upper = (bound[:, 0] for bound in d.spread.band("kind"))
    (lines,) = ax.collections
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(ends[:3], np.stack([lower, upper], axis=1)[:3])


def test_no_band_where_none_is_asked_for_or_known(d):
    assert tp.plots.main_effect(d, "age", before=False, level=None).get_legend() is None
    ax = tp.plots.main_effect(d, "kind", before=False, level=None)
    assert not ax.collections


def test_unsure_cells_of_a_pair_are_dotted(d):
    ax = tp.plots.pair(d, ("size", "kind"))
    assert "5 trainings" in ax.get_title(loc="left")
    unsure = d.spread.covers_zero(("size", "kind"))[..., 0] & (d["size", "kind"].mass > 0)
    dotted = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert len(dotted) == int(unsure.any())
    if unsure.any():
        assert dotted[0].get_hatch() == "...."
        assert len(dotted[0].get_path()) > 0
    plain = tp.plots.pair(d, ("size", "kind"), level=None)
    assert plain.get_title(loc="left") == ""


def test_importance_has_whiskers(d):
    ax = tp.plots.importance(d, level=LEVEL)
    (lines,) = ax.collections
    total = sum(c.variance[0] for c in d.components.values())
    if d.remainder is not None:
        total += d.remainder.variance[0]
    order = [text.get_text() for text in ax.get_yticklabels()]
    for segment in lines.get_segments():
        subset = next(s for s in d if d.term_name(s) == order[int(segment[0, 1])])
        lower, upper = d.spread.variance_interval(subset)
        np.testing.assert_allclose(segment[:, 0], [lower[0] / total, upper[0] / total])
    assert not tp.plots.importance(d, level=None).collections


@pytest.mark.parametrize("level", [0.0, 1.0, "most"])
def test_levels_lie_between_zero_and_one(d, level):
    for draw, key in ((tp.plots.main_effect, "age"), (tp.plots.pair, ("size", "kind"))):
        with pytest.raises(InvalidInputError, match="level"):
            draw(d, key, level=level)
