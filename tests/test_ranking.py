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
from treepurify.report.effects import EffectPages
from treepurify.report.sentences import model_statements
from treepurify.summary import text_summary
from treepurify.terms import same_digits
from treepurify.verdict import notes, shares_words

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
    for subset, share in d.ranking.shares.items():
        assert share == pytest.approx(shares[subset], abs=1e-10)
    assert sum(d.ranking.shares.values()) == pytest.approx(1)
    joint = (effects[0,] + effects[1,]).std()
    expected = [(0,), (1,)] if effects[0,].std() >= effects[1,].std() else [(1,), (0,)]
    expected.insert(0 if effects[2,].std() > joint else 2, (2,))
    assert list(d.ranking.order) == expected
    table = d.importance()
    assert list(table) == ["effect", "size", "share", "rank", "group"]
    assert list(table["effect"]) == [d.term_name(subset) for subset in expected]
    assert list(table["size"]) == pytest.approx([effects[subset].std() for subset in expected])
    assert list(table["share"]) == pytest.approx([shares[subset] for subset in expected])
    assert list(table["rank"]) == ([1, 2, 2] if expected[0] == (2,) else [1, 1, 2])
    assert list(d.components) == [(0,), (1,), (2,)]


def test_pairs_by_themselves_keep_their_numbers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, X["a"] * X["b"] + X["c"]), X, **QUIET)
    table = d.importance()
    assert list(table) == ["effect", "size", "share", "rank"]
    assert list(table["rank"]) == list(range(1, len(d) + 1))
    for order in (1, 2):
        names = [d.term_name(subset) for subset in d.components if len(subset) == order]
        expected = table[table["effect"].isin(names)].reset_index(drop=True)
        pd.testing.assert_frame_equal(d.importance(order), expected)
    with pytest.raises(tp.errors.InvalidInputError, match="order"):
        d.importance(0)
    with pytest.raises(tp.errors.InvalidInputError, match="details"):
        d.importance(details="all")


def test_the_leading_pairs_are_always_shown():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 9)), columns=list("abcdefghi"))
    y = X.to_numpy() @ np.arange(2, 11) + 0.3 * X["a"] * X["b"]
    model = GradientBoostingRegressor(n_estimators=150, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    mains, pairs = (d.importance(order)["effect"] for order in (1, 2))
    assert d.importance()["rank"][d.importance()["effect"] == pairs[0]].iloc[0] >= 8
    named = [re.split(r"\s\s+", line)[0] for line in repr(d).splitlines()[2:10]]
    assert named == [*mains[:5], *pairs[:3]]


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
    (joint,) = (line for line in d.ranking.lines if line.is_sum)
    assert joint.group is group
    assert joint.share == pytest.approx(shares[0,] + shares[1,])
    assert joint.size == pytest.approx((first + second).std())
    names = " and ".join(group.names)
    assert group.sentence == (
        f"The effects of {names} largely cancel: read them together (tp.plots.together)."
    )
    assert group.reason_words == f"their correlation is {group.amount:.2f}"
    assert group.sentence in repr(d)
    assert f"{group.name} together" in repr(d)
    assert group.sentence in d._repr_html_()
    table = d.importance(details=True).set_index("effect")
    assert dict(table["group"]) == {"a": group.name, "b": group.name, "c": ""}
    expected = {"a": joint.share, "b": joint.share, "c": shares[2,]}
    assert dict(table["joint_share"]) == pytest.approx(expected)
    expected = {"a": joint.size, "b": joint.size, "c": effects[2,].std()}
    assert dict(table["joint_size"]) == pytest.approx(expected)


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
    (line,) = (line for line in repr(d).splitlines() if line.startswith("b "))
    assert line.endswith("%  offsets other effects")
    assert repr(d).count("offsets") == 1
    assert d._repr_html_().count("offsets other effects") == 1
    (told,) = [each.text for each in model_statements(d) if each.effects == ((1,),)]
    assert told.endswith("offsets others: where it raises the prediction, they lower it by more.")


def test_at_most_two_notes_are_printed_the_most_serious_first(cancelling):
    _, d = cancelling
    assert notes(d, d.ranking) == [d.ranking.groups[0].sentence]
    edited = d.without("c")
    first, second = notes(edited, edited.ranking)
    assert first == edited.certificate.edits[0]
    assert second == edited.ranking.groups[0].sentence


def names_row(name, row):
    return re.search(rf"(^|>|\s|&emsp;){re.escape(name)}(<|\s\s|$)", row)


def test_every_table_has_one_joint_row_above_the_members(cancelling):
    """In print, in a notebook, in a report: the sum's share and deviation, then the members."""
    X, d = cancelling
    effects = on_rows(d, X)
    (group,) = d.ranking.groups
    together = sum(effects[subset][:, 0] for subset in group.members)
    names = [group.joint_name, *group.names]
    write = same_digits([line.size for line in d.ranking.lines])
    texts = {
        "print": repr(d),
        "notebook": d._repr_html_(),
        "report": report_table(d),
    }
    for kind, text in texts.items():
        rows = text.splitlines() if kind == "print" else re.findall(r"<tr>.*?</tr>", text, re.S)
        places = [next(i for i, row in enumerate(rows) if names_row(name, row)) for name in names]
        assert places == [places[0], places[0] + 1, places[0] + 2], kind
        share = 100 * sum(d.ranking.shares[subset] for subset in group.members)
        share = f"{share:.3g}" if kind == "report" else f"{share:.0f}"
        assert share.replace("-", "") in rows[places[0]], kind
        size = f"{together.std():.4g}" if kind == "report" else write(together.std())
        assert size in rows[places[0]], kind
        assert text.count(names[0]) == 1, kind


def test_no_table_ends_inside_a_group(cancelling):
    _, d = cancelling
    (group,) = d.ranking.groups
    first = d.ranking.order.index(group.members[0])
    whole = first + len(group.members)
    left = len(d) - whole
    shown = [d.ranking.leading(top) for top in (first + 1, whole)]
    assert [sum(not line.is_sum for line in lines) for lines in shown] == [whole] * 2
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
    effects = on_rows(d, X)
    together = sum(effects[subset] for subset in group.members)
    (joint,) = (line for line in d.ranking.lines if line.is_sum)
    assert joint.size == pytest.approx(np.sqrt(together.var(axis=0).mean()))
    for text in (d._repr_html_(), report_table(d)):
        rows = re.findall(r"<tr>.*?</tr>", text, re.S)
        (place,) = (i for i, row in enumerate(rows) if group.joint_name in row)
        for name, row in zip(group.names, rows[place + 1 : place + 3], strict=True):
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
        size = np.sqrt(values.var(axis=0).mean())
        assert d.ranking.by_effect[subset].size == pytest.approx(size)
    names = [d.term_name(subset) for subset in d.ranking.order]
    assert list(d.importance()["effect"]) == names
    table = d.importance(details=True)
    # The outputs of an effect follow each other.
    assert list(table["effect"]) == [name for name in names for _ in range(3)]
    assert list(table["output"]) == [*d.output_names] * len(names)
    np.testing.assert_allclose(table.groupby("output")["share"].sum(), 1)
    own = table["size"].to_numpy().reshape(-1, 3)
    expected = [effects[subset].std(axis=0) for subset in d.ranking.order]
    np.testing.assert_allclose(own, expected, atol=1e-12)


def test_without_covariances_there_are_sizes_and_no_shares():
    d = tp.purify_tensors({(0,): [0.0, 1.0], (1,): [0.0, 3.0]}, feature_names=["a", "b"])
    alone = tp.purify_tensors(
        {(0,): [0.0, 1.0], (1,): [0.0, 3.0]},
        {(0,): [1.0, 1.0], (1,): [1.0, 1.0]},
        feature_names=["a", "b"],
    )
    assert "Main effects 100%" in repr(d)
    assert alone.ranking.order == ((1,), (0,))
    assert alone.importance()["share"].isna().all()
    assert list(alone.importance()["size"]) == [1.5, 0.5]
    assert "%" not in repr(alone)


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


def test_printed_shares_are_those_of_all_effects_of_an_order():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    y = X["a"] + X["b"] * X["c"] + X["a"] * X["b"] * X["d"]
    model = GradientBoostingRegressor(n_estimators=30, max_depth=4, random_state=0).fit(X, y)
    d = tp.purify(model, X, **QUIET)
    words = shares_words(d, d.ranking)
    numbers = [float(number) for number in re.findall(r"(-?[\d.]+)%", words)]
    whole = sum(d.covariances.values())[0]
    orders = (1, 2, 0)
    shares = [sum(c[0] for s, c in d.covariances.items() if len(s) == n) / whole for n in orders]
    assert numbers == [round(100 * share) for share in shares]
    assert words.endswith(" are interactions of three or more features.")
    assert words in repr(d)


def test_features_made_of_several_columns_have_no_main_effects_of_a_column():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    columns = make_column_transformer(("passthrough", ["c"]), (PCA(1), ["a", "b"]))
    model = make_pipeline(columns, GradientBoostingRegressor(max_depth=2, random_state=0))
    d = tp.purify(model.fit(X, X["a"] + X["b"] * X["c"]), X, progress=False)
    first, *lines = str(d).splitlines()
    assert ": 3 effects of 1 feature and 1 combination of columns, averaged over 300 rows" in first
    (of_column,) = (s for s in d.components if d.term_name(s) == "c")
    sums = next(line for line in lines if line.startswith("Main effects"))
    share = d.ranking.shares[of_column]
    assert sums.startswith(f"Main effects {100 * share:.0f}%, effects of combinations of columns ")
