"""No text of any figure is cut, whatever the names are."""

from io import BytesIO
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.transforms import Bbox
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp
from treepurify import plots
from treepurify.grouping.strengths import InteractionStrengths
from treepurify.plots.labels import fold, shorten, shorten_all

MARGIN, DPI = 2, 40
NAMES = {
    "words": (
        "mean_number_of_visits_to_the_clinic_within_the_last_year",
        "Household income before taxes and transfers in thousand euros",
        "type_of_employment_of_the_partner_at_the_time_of_the_interview",
        ["Never-worked-for-money-since-school", "Self employed with more than 10 people"],
    ),
    "no_words": ("Mean" * 15, "Wide" * 15, "Kind" * 15, ["Level" * 9, "Group" * 9]),
    "short": ("a", "b", "c", ["u", "v"]),
}


class Case(NamedTuple):
    X: pd.DataFrame
    d: tp.Decomposition
    other: tp.Decomposition
    model: HistGradientBoostingRegressor
    names: tuple[str, str, str]


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    first, second, kind, levels = NAMES[request.param]
    rng = np.random.default_rng(0)
    X = pd.DataFrame({first: rng.integers(0, 2, 300), second: np.exp(3 * rng.normal(size=300))})
    X[kind] = pd.Categorical(rng.choice(levels, 300), categories=levels)
    y = X[first] * (X[kind] == levels[0]) + np.log(X[second]) * X[first]
    model = HistGradientBoostingRegressor(
        max_iter=30, max_depth=2, categorical_features="from_dtype"
    ).fit(X, y)
    d, other = (tp.purify(model, X, weights=weights) for weights in ("empirical", "independent"))
    return Case(X, d, other, model, (first, second, kind))


def ink_outside(ax):
    """Number of pixels with ink on each side of the figure, where it is drawn on a larger sheet."""
    figure = ax.get_figure(root=True)
    width, height = figure.get_size_inches()
    sheet = BytesIO()
    box = Bbox([[-MARGIN, -MARGIN], [width + MARGIN, height + MARGIN]])
    figure.savefig(sheet, format="png", dpi=DPI, bbox_inches=box)
    sheet.seek(0)
    inked = (plt.imread(sheet)[..., :3] < 0.98).any(axis=-1)
    edge = MARGIN * DPI - 1
    sides = {"top": inked[:edge], "bottom": inked[-edge:]}
    sides |= {"left": inked[:, :edge], "right": inked[:, -edge:]}
    return {side: int(part.sum()) for side, part in sides.items() if part.any()}


def both(case):
    return {"under the rows of the training data": case.d, "under independent features": case.other}


FIGURES = {
    **{f"main effect {i}": lambda c, i=i: plots.main_effect(c.d, c.names[i]) for i in range(3)},
    "main effect to scale": lambda c: plots.main_effect(c.d, c.names[1], scale="value"),
    **{
        f"{draw.__name__} {i} {j}": lambda c, draw=draw, i=i, j=j: draw(
            c.d, (c.names[i], c.names[j])
        )
        for draw in (plots.pair, plots.pair_lines)
        for i, j in ((0, 1), (2, 0), (1, 2))
    },
    "pair before": lambda c: plots.pair(c.d, c.names[:2], before=True),
    **{
        f"waterfall of {parts}": lambda c, parts=parts: plots.waterfall(
            c.d, c.X.iloc[[0]], parts=parts
        )
        for parts in ("terms", "shapley")
    },
    "importance": lambda c: plots.importance(c.d),
    "importance of pairs": lambda c: plots.importance(c.d, order=2),
    "beeswarm": lambda c: plots.beeswarm(c.d, c.X),
    "summary": lambda c: plots.summary(c.d).axes[0],
    "network": lambda c: plots.network(c.d),
    **{f"overlay {i}": lambda c, i=i: plots.overlay(both(c), c.names[i]) for i in range(3)},
    "worth": lambda c: plots.worth(worth_of(c)),
    "simplification": lambda c: plots.simplification(
        tp.simplify(c.d, c.X, c.d.predict(c.X), progress=False)
    ),
    **{
        f"profile {i}": lambda c, i=i: plots.profile(
            tp.feature_profile(c.d.predict, c.X, i, c.d.predict(c.X), progress=False)
        )
        for i in range(3)
    },
    **{
        f"together {i} {j}": lambda c, i=i, j=j: plots.together(c.d, c.names[i], c.names[j], X=c.X)
        for i, j in ((0, 1), (2, 0), (1, 2))
    },
    "mean_difference": lambda c: plots.mean_difference(gap_of(c)),
    "weak_spots": lambda c: plots.weak_spots(weak_spots_of(c)),
    "monotonicity": lambda c: plots.monotonicity(
        tp.check_monotonicity(c.model, c.X, {c.names[0]: "decreasing"}, progress=False), c.d
    ),
    "comparison": lambda c: plots.comparison(tp.compare(c.d, c.other, names=tuple(both(c)))),
    "h_statistics": lambda c: plots.h_statistics(statistics(c.names)),
}


def worth_of(case):
    y = case.d.predict(case.X)
    return tp.effect_worth(case.d, case.X, y, n_bootstrap=2, progress=False)


def gap_of(case):
    first = case.names[0]
    return tp.group_gap(case.d, case.X, np.where(case.X[first] > 0, "new", "old"), progress=False)


def weak_spots_of(case):
    X = case.X.sample(800, replace=True, random_state=0)
    noise = np.random.default_rng(0).normal(size=len(X)) * (1 + 3 * (X[case.names[0]] > 0.5))
    y = case.d.predict(X) + noise
    return tp.weak_spots(case.d, X, y, min_share=0.15, progress=False)


def strengths(names):
    shares = np.full((3, 3), 0.2)
    return InteractionStrengths(shares, names, "independent features")


def statistics(names):
    X = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 3))
    return tp.h_statistics(
        lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2],
        X,
        feature_names=list(names),
        progress=False,
    )


@pytest.mark.parametrize("figure", FIGURES)
def test_no_text_is_cut(case, figure):
    assert ink_outside(FIGURES[figure](case)) == {}


def test_ink_outside_is_found():
    ax = plt.figure(figsize=(3, 2)).add_subplot()
    ax.set_title("a title that is much too long for so small a figure")
    assert set(ink_outside(ax)) == {"left", "right"}


def test_every_figure_is_looked_at():
    # The picture of a finding is a main effect, an overlay or a pair.
    words = " ".join(FIGURES).replace("main effect", "main_effect")
    assert {name for name in plots.__all__ if name not in words} == {"finding"}


@pytest.mark.parametrize(
    ("label", "most", "expected"),
    [
        ("age", 5, "age"),
        ("number_of_visits_in_2019", 19, "number_of…s_in_2019"),
        ("marital_status & hours_per_week", 40, "marital_status & hours_per_week"),
        ("x" * 30, 11, "xxxxx…xxxxx"),
    ],
)
def test_the_middle_is_left_out(label, most, expected):
    found = shorten(label, most)
    assert found == expected
    assert len(found) <= most


INDUSTRIES = [f"Industry {n}: manufacture and sale of products made of wood" for n in range(200)]


@pytest.mark.parametrize("most", [16, 22, 34])
@pytest.mark.parametrize(
    "names",
    [
        INDUSTRIES,
        [f"{'long ' * 20}{n}{' tail' * 20}" for n in "abc"],
        ["a" * 40 + "x" * n for n in range(1, 30)],
        ["abc", "abd", "abc & " + "d" * 60, "abc & " + "d" * 61],
        [f"{n % 7} {'z' * 50} {n}" for n in range(60)],
        ["one", "one", "two"],
    ],
)
def test_short_labels_differ_where_whole_ones_do(names, most):
    short = shorten_all(names, most)
    assert len(set(short)) == len(set(names))
    assert max(map(len, short)) <= most
    for name, label in zip(names, short, strict=True):
        if len(name) <= most and names.count(name) == 1 and "(" not in label:
            assert label == name


def test_labels_that_look_alike_show_where_they_differ():
    found = shorten_all(INDUSTRIES, 26)
    assert found[17] != found[18]
    assert all(str(n) in label for n, label in enumerate(found))


def test_names_of_pairs_that_look_alike_show_where_each_differs():
    genes = [f"gene_ENSG{n:011d}_expression" for n in range(12)]
    pairs = [f"{genes[n]} & {genes[n + 1]}" for n in range(0, 11, 2)]
    for most in (28, 34):
        for n, label in enumerate(shorten_all([*pairs, *genes], most)[:6]):
            first, second = label.split(" & ")
            assert (f"{2 * n:02d}" in first, f"{2 * n + 1:02d}" in second) == (True, True)
            assert len(label) <= most


@pytest.mark.parametrize("width", [10, 25, 40])
@pytest.mark.parametrize("label", [*NAMES["words"][:3], *NAMES["no_words"][:3], "a = b, c"])
def test_folded_lines_fit_and_end_after_words(label, width):
    lines = fold(label, width, 3).split("\n")
    assert len(lines) <= 3
    assert max(map(len, lines)) <= width
    if len(label) <= width:
        assert lines == [label]


def test_waterfall_keeps_whole_labels():
    levels = ["Married-civ-spouse", "Protective-serv"]
    rng = np.random.default_rng(0)
    columns = zip(("marital_status", "occupation"), levels, strict=True)
    X = pd.DataFrame(
        {name: pd.Categorical(rng.choice([level, "other"], 60)) for name, level in columns}
    )
    y = ((X["marital_status"] == levels[0]) & (X["occupation"] == levels[1])).astype(float)
    model = HistGradientBoostingRegressor(
        max_iter=10, max_depth=2, categorical_features="from_dtype", min_samples_leaf=2
    ).fit(X, y)
    row = X[y == 1].iloc[[0]]
    d = tp.purify(model, X, weights="empirical")
    whole = "marital_status & occupation = Married-civ-spouse, Protective-serv"
    labels = [label.get_text() for label in plots.waterfall(d, row).get_yticklabels()]
    assert whole in [label.replace("\n", " ") for label in labels]


def test_the_mean_has_its_number(case):
    ax = plots.waterfall(case.d, case.X.iloc[[0]])
    (text,) = [own for own in ax.texts if own.xy[1] == len(ax.get_yticklabels()) - 1]
    assert float(text.get_text().replace("\u2212", "-")) == pytest.approx(
        case.d.intercept[0], rel=1e-3
    )
