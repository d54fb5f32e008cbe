"""Every engine's effects can be drawn, compared and overlaid."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.components import TensorComponent, tabulate

mpl.use("Agg")


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
    }


@pytest.fixture(scope="module")
def decompositions(frame):
    return engines(frame)


@pytest.mark.parametrize("engine", ["sampled", "ale", "hooker"])
def test_every_effect_is_drawn(decompositions, engine):
    plt = pytest.importorskip("matplotlib.pyplot")
    d = decompositions[engine]
    for feature in ("a", "b", "c"):
        tp.plots.main_effect(d, feature)
    for key in (("a", "b"), ("c", "a"), ("a", "c")):
        tp.plots.pair(d, key)
        tp.plots.pair_lines(d, key)
    plt.close("all")


@pytest.mark.parametrize("engine", ["sampled", "ale"])
def test_the_curve_shows_the_component_itself(decompositions, frame, engine):
    plt = pytest.importorskip("matplotlib.pyplot")
    d = decompositions[engine]
    (line,) = [
        own for own in tp.plots.main_effect(d, "a").lines if len(np.unique(own.get_xdata())) > 100
    ]
    rows = frame.iloc[np.zeros(len(line.get_xdata()), dtype=int)].assign(a=line.get_xdata())
    np.testing.assert_allclose(line.get_ydata(), d["a"].evaluate(rows)[:, 0], atol=1e-12)
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
        assert len(ax.get_legend().get_texts()) == 3
    plt.close("all")
    for other in ("ale", "hooker"):
        found = tp.compare(decompositions["sampled"], decompositions[other], frame)
        assert set(found.terms["term"]) == {"a", "b", "c", "a & b", "a & c", "b & c"}
        assert found.verdict()
        # Independent features, so the engines agree but for sampling and binning.
        assert found.terms.set_index("term").loc["a & b", "correlation"] > 0.5
        tp.plots.comparison(found)
    plt.close("all")


def test_trees_by_ale_have_steps_and_pairs_without(frame):
    plt = pytest.importorskip("matplotlib.pyplot")
    numbers = frame[["a", "b"]]
    model = GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)
    model.fit(numbers, numbers["a"] * numbers["b"])
    d = tp.ale_anova(model, numbers, bins=5, progress=False)
    tp.plots.main_effect(d, "a")
    tp.plots.pair_lines(d, ("a", "b"))
    plt.close("all")
