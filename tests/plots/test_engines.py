"""Every engine's effects can be drawn, compared and overlaid."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from treepurify import plots
from treepurify.components import TensorComponent, tabulate

mpl.use("Agg")

# Every term, also those that a criterion would take for noise.
ALL = {"selection": "all", "density": "kernel"}

# Few functions are fitted here, which is what the warning is about.
pytestmark = pytest.mark.filterwarnings("ignore::treepurify.errors.FitWarning")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    colours = pd.Categorical(rng.choice(["red", "green", "blue"], p=[0.6, 0.3, 0.1], size=300))
    return pd.DataFrame({"a": rng.normal(size=300), "b": rng.exponential(size=300), "c": colours})


def f(frame):
    colour = frame["c"].astype(str).map({"red": 1.0, "green": 0.0, "blue": -1.0}).to_numpy()
    a, b = frame["a"].to_numpy(), frame["b"].to_numpy()
    return a * b + colour * a + np.sin(a)


def engines(frame):
    quiet = {"progress": False}
    return {
        "sampled": tp.partial_dependence_anova(f, frame, background_size=40, **quiet),
        "ale": tp.ale_anova(f, frame, bins=8, **quiet),
        "hooker": tp.hooker_anova(f, frame, bins=6, **quiet),
        "legendre": tp.legendre_anova(f, frame, degree=4, **ALL, **quiet),
    }


@pytest.fixture(scope="module")
def decompositions(frame):
    return engines(frame)


@pytest.mark.parametrize("engine", ["sampled", "ale", "hooker", "legendre"])
def test_every_effect_is_drawn(decompositions, engine):
    plt = pytest.importorskip("matplotlib.pyplot")
    d = decompositions[engine]
    for feature in ("a", "b", "c"):
        tp.plots.main_effect(d, feature)
    for key in (("a", "b"), ("c", "a"), ("a", "c")):
        tp.plots.pair(d, key)
        tp.plots.pair_lines(d, key)
    plt.close("all")


@pytest.mark.parametrize("engine", ["sampled", "ale", "legendre"])
def test_the_curve_shows_the_component_itself(decompositions, frame, engine):
    plt = pytest.importorskip("matplotlib.pyplot")
    d = decompositions[engine]
    (line,) = [
        own for own in tp.plots.main_effect(d, "a").lines if len(np.unique(own.get_xdata())) > 100
    ]
    rows = frame.iloc[np.zeros(len(line.get_xdata()), dtype=int)].assign(a=line.get_xdata())
    np.testing.assert_allclose(line.get_ydata(), d["a"].on_rows(rows)[:, 0], atol=1e-12)
    reach = np.ptp(line.get_xdata())
    assert 0.7 * np.ptp(frame["a"]) < reach <= np.ptp(frame["a"])
    plt.close("all")


def test_masses_are_those_of_the_rows(decompositions, frame):
    d = decompositions["ale"]
    colours = tabulate(d["c"], d.inputs)
    shares = frame["c"].value_counts(normalize=True)
    found = dict(zip(colours.axes[0].labels(), colours.mass, strict=True))
    assert found == pytest.approx(shares.to_dict())
    table = tabulate(d["a"], d.inputs)
    inner = d["a"].axes[0].nodes[1:-1]
    cells = np.searchsorted(table.axes[0].cuts, inner) + 1
    below = [table.mass[:cell].sum() for cell in cells]
    np.testing.assert_allclose(below, [(frame["a"] <= node).mean() for node in inner], atol=1e-12)
    pair = tabulate(d["a", "c"], d.inputs)
    np.testing.assert_allclose(pair.mass.sum(axis=0), colours.mass, atol=1e-12)
    assert pair.mass.sum() == pytest.approx(1.0)


def test_a_table_stands_for_itself(decompositions):
    d = decompositions["hooker"]
    assert isinstance(d["a"], TensorComponent)
    assert tabulate(d["a"], d.inputs) is d["a"]


def test_engines_are_overlaid_and_compared(decompositions, frame):
    plt = pytest.importorskip("matplotlib.pyplot")
    for feature in ("a", "c"):
        ax = tp.plots.overlay(decompositions, feature)
        assert len(ax.get_legend().get_texts()) == 4
    plt.close("all")
    for other in ("ale", "hooker", "legendre"):
        found = tp.compare(decompositions["sampled"], decompositions[other], frame)
        assert set(found.terms["term"]) == {"a", "b", "c", "a & b", "a & c", "b & c"}
        assert found.verdict()
        # Independent features, so the engines agree but for sampling and binning.
        assert found.terms.set_index("term").loc["a & b", "correlation"] > 0.5
        tp.plots.comparison(found)
    plt.close("all")


def with_flags(frame):
    """Return the frame with numbers of few values, some of them missing, and an empty category."""
    rng = np.random.default_rng(1)
    flags = rng.choice([0.0, 1.0, 3.5, np.nan], p=[0.4, 0.3, 0.2, 0.1], size=len(frame))
    colours = pd.Categorical(frame["c"].astype(str), categories=["blue", "none", "green", "red"])
    return frame.assign(flag=flags, c=colours)


def flagged(frame):
    return f(frame) + frame["a"].to_numpy() * frame["flag"].fillna(7.0).to_numpy()


@pytest.fixture(scope="module")
def with_levels(frame):
    return tp.legendre_anova(flagged, with_flags(frame), degree=3, **ALL, progress=False)


def test_levels_stand_for_themselves(with_levels, frame):
    d, rows = with_levels, with_flags(frame)
    for feature, labels in (
        ("flag", ["0", "1", "3.5", "missing"]),
        ("c", ["blue", "green", "red"]),
    ):
        table = tabulate(d[feature], d.inputs)
        assert table.axes[0].labels() == labels
        spelled = rows[feature].astype(object).where(rows[feature].notna(), "missing")
        own = [np.flatnonzero(spelled.map(_spelled) == label) for label in labels]
        np.testing.assert_allclose(table.mass, [len(at) / len(rows) for at in own], atol=1e-12)
        values = d[feature].on_rows(rows)[:, 0]
        np.testing.assert_allclose(table.values[:, 0], [values[at[0]] for at in own], atol=1e-12)
    pair = tabulate(d["a", "flag"], d.inputs)
    np.testing.assert_allclose(pair.mass.sum(axis=0), tabulate(d["flag"], d.inputs).mass)
    middle = np.concatenate([[pair.axes[0].bounds[0]], pair.axes[0].cuts[:1]]).mean()
    rows = rows.iloc[[0]].assign(a=middle, flag=np.nan)
    np.testing.assert_allclose(pair.values[0, -1], d["a", "flag"].on_rows(rows)[0])


def _spelled(value):
    return str(value).removesuffix(".0")


def test_levels_are_drawn_as_bars_and_beside_other_engines(with_levels, frame):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = tp.plots.main_effect(with_levels, "flag")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["0", "1", "3.5", "missing"]
    lengths = sorted(bar.get_width() for bar in ax.patches)
    known = tabulate(with_levels["flag"], with_levels.inputs).values[:, 0]
    np.testing.assert_allclose(lengths, sorted(known))
    for key in (("a", "flag"), ("flag", "a"), ("c", "flag")):
        tp.plots.pair(with_levels, key)
        tp.plots.pair_lines(with_levels, key)
    tp.plots.importance(with_levels)
    ale = tp.ale_anova(flagged, with_flags(frame), bins=5, progress=False)
    ax = tp.plots.overlay({"legendre": with_levels, "ale": ale}, "flag", centred=False)
    points = next(line for line in ax.lines if line.get_label() == "legendre")
    np.testing.assert_allclose(points.get_xdata()[:3], [0.0, 1.0, 3.5])
    np.testing.assert_allclose(points.get_ydata()[:3], known[:3])
    renamed = with_flags(frame).assign(c=np.arange(len(frame)) % 50 * 1.0)
    other = tp.legendre_anova(renamed["c"].to_numpy(), renamed, degree=2, progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="numeric in one"):
        tp.plots.overlay({"legendre": with_levels, "other": other}, "c")
    plt.close("all")


def test_lines_of_a_smooth_pair_are_curves(with_levels, frame):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = tp.plots.pair_lines(with_levels, ("a", "flag"), lines=4)
    line = next(own for own in ax.lines if own.get_label() == "3.5")
    rows = with_flags(frame).iloc[np.zeros(len(line.get_xdata()), dtype=int)]
    rows = rows.assign(a=line.get_xdata(), flag=3.5)
    truth = sum(with_levels[key].on_rows(rows) for key in ("a", "flag", ("a", "flag")))
    shown = np.isfinite(line.get_ydata())
    np.testing.assert_allclose(line.get_ydata()[shown], truth[shown, 0], atol=1e-12)
    assert shown.mean() > 0.9
    plt.close("all")


def test_accumulated_effects_have_bands_over_samples_of_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    X["town"] = pd.Categorical(rng.choice(["u", "v", "w"], 200))

    def f(X):
        return X["a"] * X["b"] + (X["town"] == "u") * X["a"]

    d = tp.ale_anova(f, X, order=1, bins=8, progress=False)
    ax = plots.main_effect(d, "a")
    (band,) = [each for each in ax.collections if each.get_label() == "90% range with other rows"]
    lower, upper = d["a"].band(0.9)
    nodes = d["a"].axes[0].nodes
    # The polygon goes along one bound and back along the other.
    for x, y in band.get_paths()[0].vertices[:-1]:
        bounds = (np.interp(x, nodes, lower[:, 0]), np.interp(x, nodes, upper[:, 0]))
        assert min(abs(np.array(bounds) - y)) < 1e-9
    ax = plots.main_effect(d, "town")
    (whiskers,) = [
        each for each in ax.collections if each.get_label() == "90% range with other rows"
    ]
    ends = sorted(tuple(path.vertices[:, 0]) for path in whiskers.get_paths())
    np.testing.assert_allclose(
        ends, sorted(zip(*np.array(d["town"].band(0.9))[..., 0], strict=True))
    )
