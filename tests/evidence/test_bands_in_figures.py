"""What figures draw of a spread: the numbers of the band, cell by cell."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="draws figures")
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch
from scipy.stats import t
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp
from treepurify.spread import LEVEL


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.integers(6, size=500) * 1.0, "age": rng.normal(size=500)})
    X["kind"] = pd.Categorical(rng.choice(list("abc"), 500))
    X.loc[::9, "age"] = np.nan
    return X


@pytest.fixture(scope="module")
def d(X):
    rng = np.random.default_rng(1)
    y = X["size"] * (X["kind"] == "a") + X["age"].fillna(1.0) + rng.normal(size=500)
    estimator = HistGradientBoostingRegressor(
        max_depth=2, max_iter=20, categorical_features="from_dtype"
    )
    return tp.purify(
        tp.refit(estimator, X, y, n=5, progress=False), X, weights="empirical", progress=False
    )


def band_patch(ax):
    return next(p for p in ax.patches if isinstance(p, StepPatch) and p.get_fill())


def test_a_step_curve_has_its_band(d, monkeypatch):
    monkeypatch.setattr("treepurify.plots.curves.MOST_CELLS", 1 << 20)
    ax = tp.plots.main_effect(d, "age")
    lower, upper = d.spread.band("age", LEVEL)
    n = len(d["age"].axes[0].cuts) + 1
    values, edges, baseline = band_patch(ax).get_data()
    assert len(edges) == len(values) + 1
    # Cells without width at the ends of the data are not drawn.
    drawn = upper[:n, 0][np.isin(upper[:n, 0], values)]
    np.testing.assert_array_equal(values, drawn)
    np.testing.assert_array_equal(baseline, lower[:n, 0][np.isin(upper[:n, 0], values)])
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "90% band for one more training" in legend


def test_the_missing_cell_has_its_band(d):
    ax = tp.plots.main_effect(d, "age")
    lower, upper = (bound[-1, 0] for bound in d.spread.band("age"))
    ends = [segment[:, 1] for lines in ax.collections for segment in lines.get_segments()]
    assert any(np.allclose(np.sort(end), [lower, upper]) for end in ends)


def test_bars_have_whiskers(d):
    ax = tp.plots.main_effect(d, "kind")
    lower, upper = (bound[:, 0] for bound in d.spread.band("kind"))
    (lines,) = ax.collections
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    cells = cells_of(d, ax.get_yticklabels())
    np.testing.assert_allclose(ends[:3], np.stack([lower, upper], axis=1)[cells])


def cells_of(d, texts):
    """The cells of the three kinds, in the order in which a figure names them."""
    labels = d["kind"].axes[0].labels()
    return [labels.index(text.get_text()) for text in texts][:3]


def each_training(d, X, terms):
    """What terms add to rows in each training, shape (n_models, n_rows), cell by cell."""
    total = 0.0
    for term in terms:
        component = d.spread.stacked[d[term].features]
        total = total + component.on_rows(X).T
    return total


def by_hand(each, level):
    """The interval of one more draw, by the quantile of Student's t."""
    n = len(each)
    half = t.ppf(0.5 + level / 2, n - 1) * each.std(axis=0, ddof=1) * np.sqrt(1 + 1 / n)
    return each.mean(axis=0) - half, each.mean(axis=0) + half


def ends_of_lines(ax, axis):
    lines = [each for each in ax.collections if isinstance(each, LineCollection)]
    return np.array([segment[:, axis] for each in lines for segment in each.get_segments()])


def test_bars_of_a_waterfall_have_whiskers(d, X):
    for parts in ("terms", "shapley"):
        ax = tp.plots.waterfall(d, X, index=3, parts=parts, top=20)
        lines = ends_of_lines(ax, 0)
        bars = {
            text.get_text().split(" = ")[0]: (bar, line)
            for text, bar, line in zip(ax.get_yticklabels(), ax.patches, lines, strict=False)
        }
        row = X.iloc[[3]]
        if parts == "terms":
            expected = {d.term_name(s): each_training(d, row, [s]) for s in d.components}
        else:
            pairs = [s for s in d.components if len(s) == 2]
            expected = {
                name: each_training(d, row, [name])
                + sum(each_training(d, row, [s]) / 2 for s in pairs if j in s)
                for j, name in enumerate(d.feature_names)
            }
        assert set(expected) <= set(bars)
        for name, each in expected.items():
            bar, line = bars[name]
            bounds = np.concatenate(by_hand(each, LEVEL))
            np.testing.assert_allclose(line, bar.get_x() + bounds, atol=1e-12)
        assert "90% band for one more training" in ax.get_xlabel().replace("\n", " ")


def test_bars_of_what_is_left_have_whiskers_of_their_sum(d, X):
    ax = tp.plots.waterfall(d, X, index=3, top=2)
    shown = [text.get_text().split(" = ")[0] for text in ax.get_yticklabels()]
    rest = [s for s in d.components if d.term_name(s) not in shown]
    assert len(rest) >= 2
    bounds = np.concatenate(by_hand(each_training(d, X.iloc[[3]], rest), LEVEL))
    bar = ax.patches[2]
    np.testing.assert_allclose(ends_of_lines(ax, 0)[2], bar.get_x() + bounds, atol=1e-12)


def test_lines_of_a_pair_have_bands_of_all_effects_together(d):
    ax = tp.plots.pair_lines(d, ("size", "kind"), lines=1)
    kind = int(np.argmax(d["kind"].mass))
    each = d.spread.values("size")[..., 0] + d.spread.values("kind")[:, [kind], 0]
    each = each + d.spread.values(("size", "kind"))[:, :, kind, 0]
    lower, upper = by_hand(each, LEVEL)
    drawn, _, baseline = band_patch(ax).get_data()
    np.testing.assert_allclose(drawn, upper[np.isin(np.round(upper, 9), np.round(drawn, 9))])
    assert len(drawn) >= 4
    np.testing.assert_allclose(baseline, lower[np.isin(np.round(upper, 9), np.round(drawn, 9))])
    words = ax.get_legend().get_title().get_text().replace("\n", " ")
    assert words.endswith("90% band for one more training")
    ax = tp.plots.pair_lines(d, ("kind", "size"))
    ends = ends_of_lines(ax, 0).reshape(3, 3, 2)
    size = d["size"].axes[0].n_regular // 2
    each = d.spread.values("kind")[..., 0] + d.spread.values("size")[:, [size], 0]
    each = each + d.spread.values(("size", "kind"))[:, size, :, 0]
    bounds = np.stack(by_hand(each, LEVEL), axis=1)[cells_of(d, ax.get_yticklabels())]
    assert any(np.allclose(line, bounds) for line in ends)


def test_overlays_have_bands_and_comparisons_the_spread(d, X, monkeypatch):
    monkeypatch.setattr("treepurify.plots.curves.MOST_CELLS", 1 << 20)
    ax = tp.plots.overlay({"trainings": d, "again": d}, "size")
    shift = d["size"].mass @ d["size"].values[:, 0]
    drawn = band_patch(ax).get_data().values
    upper = d.spread.band("size", LEVEL)[1][:, 0] - shift
    assert np.isin(np.round(drawn, 9), np.round(upper, 9)).all()
    assert ax.get_legend().get_title().get_text() == "bands: 90% band for one more training"
    ax = tp.plots.overlay({"trainings": d}, "kind", centred=False)
    bounds = np.stack([bound[:, 0] for bound in d.spread.band("kind", LEVEL)], axis=1)
    cells = cells_of(d, ax.get_yticklabels())
    np.testing.assert_allclose(ends_of_lines(ax, 0), bounds[cells])
    # Each side has the spread, but for one effect, which is gone from the second.
    compared = tp.compare(d, d.without(("size", "kind")), X)
    ax = tp.plots.comparison(compared)
    (noise,) = [line for line in ax.lines if line.get_label() == "spread of trainings"]
    terms = [tuple(name.split(" & ")) for name in compared.terms["term"]]
    sides = [1 if term == ("size", "kind") else 2 for term in terms]
    variances = [d.spread.training_variance(term)[0] for term in terms]
    assert min(sides) == 1
    np.testing.assert_allclose(noise.get_xdata(), np.sqrt(np.multiply(sides, variances)))


def test_unsure_cells_of_a_pair_are_dotted(d):
    ax = tp.plots.pair(d, ("size", "kind"))
    assert "5 trainings" in ax.get_xlabel().replace("\n", " ")
    unsure = d.spread.covers_zero(("size", "kind"))[..., 0] & (d["size", "kind"].mass > 0)
    dotted = [patch for patch in ax.patches if patch.get_hatch() == "...."]
    assert len(dotted) == int(unsure.any())
    if unsure.any():
        assert len(dotted[0].get_path()) > 0


def test_importance_has_whiskers(d):
    ax = tp.plots.importance(d)
    (lines,) = ax.collections
    order = [text.get_text() for text in ax.get_yticklabels()]
    for segment in lines.get_segments():
        subset = next(s for s in d if d.term_name(s) == order[int(segment[0, 1])])
        lower, upper = d.spread.size_interval(subset)
        np.testing.assert_allclose(segment[:, 0], [lower[0], upper[0]])
