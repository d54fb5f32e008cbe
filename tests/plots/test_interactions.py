"""The figure of H-statistics shows the numbers it stands for."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer

import treepurify as tp
from treepurify import plots
from treepurify.plots.style import DATA


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
