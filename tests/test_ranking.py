"""The order of effects and the groups that cancel, against sums over rows in numpy."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline

import treepurify as tp
from treepurify.collinear import merge_cancelling
from treepurify.frames import text_summary
from treepurify.ranking import share_sums
from treepurify.report.effects import EffectPages
from treepurify.report.sentences import model_statements

QUIET = {"weights": "empirical", "progress": False}


def report_table(d):
    """Return the table of effects of a report, a line for each row."""
    (table,) = EffectPages(d, 0).table().tables
    cells = ["".join(f"<td>{cell}</td>" for cell in row.cells) for row in table.rows]
    return "\n".join(f"<tr>{row}</tr>" for row in cells)


def planted(n_rows=1500):
    """`a` and `b` go together and work against each other; `c` is by itself."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=n_rows)
    X = pd.DataFrame({"a": a, "b": a + 0.1 * rng.normal(size=n_rows), "c": rng.normal(size=n_rows)})
    return X, X["a"] - 0.9 * X["b"] + 0.3 * X["c"]


def of_effects(y, X):
    """A decomposition of a sum of main effects that was trained on these rows."""
    model = GradientBoostingRegressor(
        n_estimators=300, max_depth=1, learning_rate=0.3, random_state=0
    )
    return tp.purify(model.fit(X, y), X, **QUIET)


@pytest.fixture(scope="module")
def cancelling():
    X, y = planted()
    return X, of_effects(y, X)


def on_rows(d, X):
    return {subset: part.on_rows(X) for subset, part in d.components.items()}


def test_shares_and_order_are_those_of_the_rows(cancelling):
    X, d = cancelling
    effects, total = on_rows(d, X), d.on_rows(X)[:, 0]
    shares = {s: np.cov(v[:, 0], total, ddof=0)[0, 1] / total.var() for s, v in effects.items()}
    assert d.ranking.sort_by == "covariance"
    for subset, share in d.ranking.shares.items():
        assert share == pytest.approx(shares[subset], abs=1e-10)
    assert sum(d.ranking.shares.values()) == pytest.approx(1)
    joint = abs(shares[0,] + shares[1,])
    expected = [(0,), (1,)] if abs(shares[0,]) >= abs(shares[1,]) else [(1,), (0,)]
    expected.insert(0 if abs(shares[2,]) > joint else 2, (2,))
    assert list(d.ranking.order) == expected
    table = d.importance()
    assert list(table["term"]) == [d.term_name(subset) for subset in expected]
    by_variance = d.importance(sort_by="variance")
    variances = {d.term_name(s): v.var() for s, v in effects.items()}
    assert list(by_variance["term"]) == sorted(variances, key=lambda name: -variances[name])
    assert not by_variance["group"].any()
    assert list(d.components) == [(0,), (1,), (2,)]


def test_a_planted_pair_is_a_group(cancelling):
    X, d = cancelling
    effects = on_rows(d, X)
    first, second = effects[0,][:, 0], effects[1,][:, 0]
    (group,) = d.ranking.groups
    assert set(group.members) == {(0,), (1,)}
    assert group.amount == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert group.amount < -0.9
    assert group.movable == pytest.approx(first.var() + second.var() - (first + second).var())
    assert group.variance == pytest.approx((first + second).var())
    assert group.variance < 1 / 3 * (first.var() + second.var())
    shares = d.ranking.shares
    joint = d.ranking.share(group)
    assert joint == pytest.approx(shares[0,] + shares[1,])
    names = " and ".join(group.names)
    assert group.sentence == (
        f"The effects of {names} largely cancel (their correlation is {group.amount:.2f}): read "
        "them together (tp.plots.together)."
    )
    assert group.sentence in repr(d)
    assert f"{group.name}, together:" in repr(d)
    assert group.sentence in d._repr_html_()
    table = d.importance().set_index("term")
    assert dict(table["group"]) == {"a": group.name, "b": group.name, "c": ""}
    expected = {"a": joint, "b": joint, "c": shares[2,]}
    assert dict(table["joint_share"]) == pytest.approx(expected)
    alone = d.importance(sort_by="variance")
    np.testing.assert_array_equal(alone["joint_share"], alone["covariance_share"])


def test_a_negative_share_is_explained_where_it_is_shown():
    rng = np.random.default_rng(0)
    a = rng.normal(size=1500)
    X = pd.DataFrame({"a": a, "b": a + 0.5 * rng.normal(size=1500), "c": rng.normal(size=1500)})
    d = of_effects(X["a"] - 0.3 * X["b"] + 0.3 * X["c"], X)
    assert not d.ranking.groups
    own = d.components[1,].on_rows(X)[:, 0]
    others = d.on_rows(X)[:, 0] - own
    # The others fall by more than the effect rises.
    assert np.polyfit(own, others, 1)[0] < -1
    (said,) = d.ranking.sentences([(0,), (1,), (2,)], d.term_name)
    assert said == (
        "b has a negative share: where it raises the prediction, the others lower it by more, on "
        "average."
    )
    assert said in repr(d)
    assert said in d._repr_html_()
    assert d.ranking.sentences([(0,), (2,)], d.term_name) == []
    (told,) = [each.text for each in model_statements(d) if each.effects == ((1,),)]
    assert told.endswith(said)


def test_groups_that_are_not_shown_have_no_sentence(cancelling):
    _, d = cancelling
    assert d.ranking.sentences([(2,)], d.term_name) == []
    assert d.ranking.sentences([(1,)], d.term_name) == [d.ranking.groups[0].sentence]


def names_row(name, row):
    return re.search(rf"(>|\s|&emsp;){re.escape(name)}(<|:?$)", row)


def test_every_table_has_one_joint_row_above_the_members(cancelling):
    """In print, in a notebook, in a report: the sum's share and deviation, then the members."""
    X, d = cancelling
    effects = on_rows(d, X)
    (group,) = d.ranking.groups
    together = sum(effects[subset][:, 0] for subset in group.members)
    names = [f"{group.name}, together", *group.names]
    texts = {
        "print": repr(d),
        "notebook": d._repr_html_(),
        "report": report_table(d),
    }
    for kind, text in texts.items():
        rows = text.splitlines() if kind == "print" else re.findall(r"<tr>.*?</tr>", text, re.S)
        places = [next(i for i, row in enumerate(rows) if names_row(name, row)) for name in names]
        assert places == [places[0], places[0] + 1, places[0] + 2], kind
        share = (
            f"{100 * d.ranking.share(group):.3g}"
            if kind == "report"
            else f"{100 * d.ranking.share(group):.2f}"
        )
        assert share.replace("-", "") in rows[places[0]], kind
        if kind != "print":
            assert f"{together.std():.4g}" in rows[places[0]], kind
        assert text.count(names[0]) == 1, kind


def test_no_table_ends_inside_a_group(cancelling):
    _, d = cancelling
    (group,) = d.ranking.groups
    first = d.ranking.order.index(group.members[0])
    whole = first + len(group.members)
    left = len(d) - whole
    assert [d.ranking.n_shown(d.ranking.order, top) for top in (first + 1, whole)] == [whole] * 2
    text = text_summary(d, first + 1)
    assert group.joint_name in text
    assert all(name in text.split() for name in group.names)
    assert (f"and {left} more" in text) == bool(left)
    # One that comes later is left out as a whole.
    assert first > 0
    assert group.joint_name not in text_summary(d, first)


def test_a_joint_row_of_several_outputs_stands_once_above_all_of_them():
    X, _ = planted(900)
    elsewhere = X.assign(b=X["b"].sample(frac=1.0, random_state=0).to_numpy())
    y = elsewhere["a"] - 0.9 * elsewhere["b"]
    model = RandomForestRegressor(n_estimators=10, max_depth=6, random_state=0)
    # Trained where the two are independent, so that a forest tells them apart.
    model.fit(elsewhere, np.column_stack([y, 2 * y]))
    d = tp.purify(model, X, **QUIET)
    (group,) = d.ranking.groups
    for text in (d._repr_html_(), report_table(d)):
        rows = re.findall(r"<tr>.*?</tr>", text, re.S)
        (place,) = (i for i, row in enumerate(rows) if group.joint_name in row)
        assert ">all<" in rows[place]
        for name, row in zip(np.repeat(group.names, 2), rows[place + 1 : place + 5], strict=True):
            assert names_row(name, row)


def test_independent_features_and_small_effects_have_no_groups():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(1000, 3)), columns=["a", "b", "c"])
    assert of_effects(X["a"] - 0.9 * X["b"] + X["c"], X).ranking.groups == []
    # They cancel, but have less than 1% of the variance.
    X, _ = planted()
    d = of_effects(0.02 * (X["a"] - X["b"]) + 10 * X["c"], X)
    assert d.ranking.groups == []


@pytest.mark.parametrize(("covariance", "second"), [(-0.66, 1.0), (-0.99, 4.0), (-0.8, 1.4)])
def test_effects_that_leave_a_third_are_not_grouped(covariance, second):
    """The rule is Var(a + b) < (Var a + Var b) / 3, whatever the correlation."""
    products = np.array([[1.0, covariance], [covariance, second]])
    left = products.sum() / np.trace(products)
    assert merge_cancelling(products) == ([[0, 1]] if left < 1 / 3 else [])


def test_effects_that_hardly_cancel_are_no_group():
    X, _ = planted()
    d = of_effects(X["a"] - 0.15 * X["b"] + 0.3 * X["c"], X)
    effects = on_rows(d, X)
    first, second = (effects[s][:, 0] for s in ((0,), (1,)))
    assert (first + second).var() > (first.var() + second.var()) / 3
    assert d.ranking.groups == []


def test_several_outputs_are_added_up():
    X, y = planted(900)
    model = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, np.digitize(y, [-0.2, 0.2])), X, **QUIET)
    effects, total = on_rows(d, X), d.on_rows(X)
    centred = total - total.mean(axis=0)
    whole = (centred**2).mean(axis=0).sum()
    for subset, values in effects.items():
        share = (values * centred).mean(axis=0).sum() / whole
        assert d.ranking.shares[subset] == pytest.approx(share, abs=1e-10)
    table = d.importance()
    terms = list(dict.fromkeys(table["term"]))
    assert terms == [d.term_name(subset) for subset in d.ranking.order]
    # The outputs of a term follow each other.
    assert list(table["term"]) == [term for term in terms for _ in range(3)]
    np.testing.assert_allclose(table.groupby("output")["covariance_share"].sum(), 1)


def test_without_covariances_variances_rank_and_the_text_says_so():
    d = tp.purify_tensors({(0,): [0.0, 1.0], (1,): [0.0, 3.0]}, feature_names=["a", "b"])
    alone = tp.purify_tensors(
        {(0,): [0.0, 1.0], (1,): [0.0, 3.0]},
        {(0,): [1.0, 1.0], (1,): [1.0, 1.0]},
        feature_names=["a", "b"],
    )
    assert d.ranking.sort_by == "covariance"
    assert alone.ranking.sort_by == "variance"
    assert alone.ranking.order == ((1,), (0,))
    assert alone.ranking.shares[1,] == pytest.approx(0.9)
    assert "main effects 100.0% of the sum of the effects' variances" in repr(alone)
    with pytest.raises(
        tp.errors.InvalidInputError, match="covariances with the model are not known"
    ):
        alone.importance("covariance")
    with pytest.raises(tp.errors.InvalidInputError, match="sort_by"):
        alone.importance("size")


def test_a_saved_file_keeps_groups(cancelling, tmp_path):
    _, d = cancelling
    d.save(tmp_path / "d.tpz")
    again = tp.load(tmp_path / "d.tpz")
    assert again.rows is None
    assert again.ranking == d.ranking
    assert repr(again) == repr(d)
    assert again._repr_html_() == d._repr_html_()
    pd.testing.assert_frame_equal(again.importance(), d.importance())
    assert report_table(again) == report_table(d)
    again.save(tmp_path / "twice.tpz")
    assert tp.load(tmp_path / "twice.tpz").ranking == d.ranking
    # What was stored holds for the effects as they were.
    assert again.without("b").ranking.groups == []


def test_printed_shares_add_up_to_one_hundred():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    y = X["a"] + X["b"] * X["c"] + X["a"] * X["b"] * X["d"]
    model = GradientBoostingRegressor(n_estimators=30, max_depth=4, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    words = share_sums(d.ranking, d.inputs.combined)
    numbers = [float(number) for number in re.findall(r"(-?[\d.]+)%", words)]
    assert len(numbers) == 2
    rest = d.covariances[()][0] / sum(d.covariances.values())[0]
    assert sum(numbers) == pytest.approx(100 * (1 - rest), abs=0.1)
    assert words in repr(d)


def test_features_made_of_several_columns_have_no_main_effects_of_a_column():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    columns = make_column_transformer(("passthrough", ["c"]), (PCA(1), ["a", "b"]))
    model = make_pipeline(columns, GradientBoostingRegressor(max_depth=2, random_state=0))
    d = tp.purify(model.fit(X, X["a"] + X["b"] * X["c"]), X, progress=False)
    first, *lines = str(d).splitlines()
    assert first.startswith("3 effects of 1 feature and 1 combination of columns")
    (of_column,) = (s for s in d.components if d.term_name(s) == "c")
    sums = next(line for line in lines if line.startswith("main effects"))
    share = d.ranking.shares[of_column]
    assert sums.startswith(f"main effects {100 * share:.1f}%, effects of combinations of columns ")
