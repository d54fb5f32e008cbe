"""The figures of H-statistics and of groups show the numbers they stand for."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer

import treepurify as tp
from treepurify import plots
from treepurify.grouping.strengths import InteractionStrengths
from treepurify.plots.style import DATA, MANY, MUTED


def product(X):
    """a and b interact strongly, a and c weakly, d is alone; e has no effect."""
    return X[:, 0] * X[:, 1] + 0.1 * X[:, 0] * X[:, 2] + X[:, 3] + 3.0


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(80, 5))


@pytest.fixture(scope="module")
def statistics(X):
    names = list("abcde")
    return tp.h_statistics(product, X, feature_names=names, seed=0, progress=False)


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def bars_of(ax):
    """Return the width of each bar, from top to bottom."""
    found = [c for c in ax.containers if isinstance(c, BarContainer)]
    bars = sorted((bar for own in found for bar in own), key=lambda bar: bar.get_y())
    return [bar.get_width() for bar in bars], [to_hex(bar.get_facecolor()) for bar in bars]


@pytest.mark.parametrize("show", ["h_squared", "h", "strength"])
@pytest.mark.parametrize("of", ["pairs", "features"])
def test_bars_are_the_column(statistics, of, show):
    ax = plots.h_statistics(statistics, of=of, show=show, top=4)
    table = getattr(statistics, of)().head(4).sort_values(show, ascending=False, kind="stable")
    widths, _ = bars_of(ax)
    np.testing.assert_allclose(widths, table[show])
    columns = ["feature"] if of == "features" else ["first", "second"]
    assert names_of(ax) == [" & ".join(row) for row in table[columns].to_numpy()]
    assert ax.get_xlim()[1] > max(widths)


def test_the_pair_that_interacts_is_on_top(statistics):
    ax = plots.h_statistics(statistics, show="strength")
    assert names_of(ax)[:2] == ["a & b", "a & c"]


def test_share_of_independent_features():
    sklearn = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = sklearn.GradientBoostingRegressor(max_depth=2, n_estimators=100, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] + X[:, 0] + X[:, 1] + X[:, 2])
    found = tp.h_statistics(model, X, progress=False)
    widths, _ = bars_of(plots.h_statistics(found, show="purified_share"))
    shares = found.pairs()["purified_share"].sort_values(ascending=False)
    np.testing.assert_allclose(widths, shares)
    assert shares.iloc[0] > 0.1 > shares.iloc[1]


def test_unstable_ratios_are_grey(statistics):
    table = statistics.pairs().head(10).sort_values("h_squared", ascending=False, kind="stable")
    assert table["unstable"].any()
    assert not table["unstable"].all()
    _, colors = bars_of(plots.h_statistics(statistics, top=10))
    assert [color == DATA for color in colors] == list(table["unstable"])
    _, colors = bars_of(plots.h_statistics(statistics, show="strength", top=10))
    assert DATA not in colors


def test_one_output_of_several(X):
    def two(rows):
        return np.column_stack([rows[:, 0] * rows[:, 1], rows[:, 2] * rows[:, 3]])

    found = tp.h_statistics(two, X, progress=False)
    assert names_of(plots.h_statistics(found, output=0, top=1)) == ["x0 & x1"]
    assert names_of(plots.h_statistics(found, output=found.output_names[1], top=1)) == ["x2 & x3"]
    with pytest.raises(
        tp.errors.InvalidInputError, match="no output 2; outputs have the positions 0 to 1"
    ):
        plots.h_statistics(found, output=2)


def test_wrong_requests_for_statistics(statistics):
    with pytest.raises(
        tp.errors.InvalidInputError, match='of must be "features", "pairs" or "triples"'
    ):
        plots.h_statistics(statistics, of="terms")
    with pytest.raises(
        tp.errors.InvalidInputError, match="top must be a whole number of at least 1"
    ):
        plots.h_statistics(statistics, top=0)
    with pytest.raises(tp.errors.InvalidInputError, match="have no triples"):
        plots.h_statistics(statistics, of="triples")
    with pytest.raises(tp.errors.InvalidInputError, match="'purified_share' was not computed"):
        plots.h_statistics(statistics, show="purified_share")


def strengths(n=5):
    shares = np.zeros((n, n))
    for i, j, share in [(0, 3, 0.4), (1, 2, 0.2), (2, 3, 0.01)]:
        shares[i, j] = shares[j, i] = share
    names = tuple(f"f{j}" for j in range(n))
    return InteractionStrengths(shares, names, "independent features")


def uprights(ax):
    """Return the strength of each join, with the rows it spans and its colour."""
    return [
        (line.get_xdata()[0], *sorted(line.get_ydata()), line.get_color())
        for line in ax.lines
        if line.get_xdata()[0] == line.get_xdata()[1] and line.get_linestyle() == "-"
    ]


def test_groups_join_at_their_strength():
    ax = plots.dendrogram(strengths(), threshold=0.05)
    assert names_of(ax) == ["f1", "f2", "f0", "f3", "f4"]
    expected = [(0.4, 2, 3, MANY[1]), (0.2, 0, 1, MANY[0]), (0.01, 0.5, 2.5, MUTED)]
    assert uprights(ax) == expected
    ends = [line for line in ax.lines if line.get_xdata()[1] == ax.get_xlim()[1]]
    assert sorted(line.get_ydata()[0] for line in ends) == [1.5, 4.0]
    start, end = ax.get_xlim()
    assert start > 0.4
    assert end < 0.01
    assert ax.get_title("right") == "joined above 5%: 2 groups, 1 single feature"


def test_no_threshold_no_colours():
    ax = plots.dendrogram(strengths())
    assert {line.get_color() for line in ax.lines} == {MUTED}


def test_only_the_first_features_of_many():
    ax = plots.dendrogram(strengths(200), threshold=0.05, top=3)
    assert names_of(ax) == ["f0", "f3"]
    assert [join[0] for join in uprights(ax)] == [0.4]
    assert "198 more features join below 40%, or never" in ax.get_xlabel()


@pytest.mark.parametrize("shape", [None, (1, 1), (1, 3)])
def test_names_of_sixty_features_do_not_touch(shape):
    rng = np.random.default_rng(0)
    shares = np.triu(rng.exponential(size=(60, 60)) ** 4, 1)
    names = tuple(f"mean_atomic_radius_weighted_by_{j}" for j in range(60))
    groups = InteractionStrengths((shares + shares.T) / shares.sum(), names, "independent features")
    if shape is None:
        axes = [plots.dendrogram(groups, top=60)]
        assert len(names_of(axes[0])) == 60
    else:
        _, axes = plt.subplots(*shape, figsize=(7.2, 2.8), squeeze=False)
        axes = [plots.dendrogram(groups, top=60, ax=ax) for ax in axes.flat]
    figure = axes[0].figure
    figure.canvas.draw()
    for ax in axes:
        for labels in (ax.get_yticklabels(), ax.get_xticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            touching = (a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
            assert not any(touching)
        whole = ax.get_tightbbox()
        assert min(whole.x0, whole.y0) >= -1
        assert whole.x1 <= figure.bbox.x1 + 1
        assert whole.y1 <= figure.bbox.y1 + 1
        if len(names_of(ax)) < 60:
            words = ax.get_xlabel().replace("\n", " ")
            assert f"{60 - len(names_of(ax))} more features join below" in words


def test_many_features_that_join_nothing_are_counted():
    shares = np.zeros((20, 20))
    shares[3, 7] = shares[7, 3] = 0.1
    groups = InteractionStrengths(shares, tuple(map(str, range(20))), "independent features")
    ax = plots.dendrogram(groups, threshold=0.05)
    assert names_of(ax) == ["3", "7"]
    assert ax.get_xlabel().endswith("18 more features join below 10%, or never")
    assert ax.get_title(loc="right") == "joined above 5%: 1 group, 18 single features"


def test_features_that_never_join_are_a_figure_too():
    nothing = InteractionStrengths(np.zeros((3, 3)), ("a", "b", "c"), "independent features")
    ax = plots.dendrogram(nothing, threshold=0.0125)
    assert names_of(ax) == ["a", "b", "c"]
    assert uprights(ax) == []
    ax.figure.canvas.draw()


def test_sets_bring_their_threshold(X):
    found = tp.shapley_sets(product, X, method="index", seed=0, progress=False)
    ax = plots.dendrogram(found)
    alone = sum(len(group) == 1 for group in found.groups)
    assert ax.get_title("right").endswith(f"1 group, {alone} single features")
    joins = [own for own in found.strengths.merges() if own.strength > 1e-6]
    assert len(joins) == 2
    np.testing.assert_allclose([own[0] for own in uprights(ax)], [own.strength for own in joins])


def test_wrong_requests_for_groups(X):
    other = tp.shapley_sets(product, X, method="recursive", progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="no strengths of interactions are known"):
        plots.dendrogram(other)
    with pytest.raises(
        tp.errors.InvalidInputError, match="threshold must be a finite number from 0 to 1"
    ):
        plots.dendrogram(strengths(), threshold=2.0)
    with pytest.raises(
        tp.errors.InvalidInputError, match="top must be a whole number of at least 2"
    ):
        plots.dendrogram(strengths(), top=1)
