"""The size and the share of an effect are one number in everything that shows it."""

import re

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from tests.report.pages import Page, number
from treepurify.terms import same_digits

matplotlib = pytest.importorskip("matplotlib")

QUIET = {"progress": False}


def rows():
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    # `b` goes together with `a` and works against it.
    b = a + 0.4 * rng.normal(size=500)
    return pd.DataFrame({"a": a, "b": b, "c": rng.normal(size=500), "d": rng.normal(size=500)})


def target(X):
    return X["a"] - 0.6 * X["b"] + X["c"] * X["d"] + 0.5 * X["c"]


def booster():
    X = rows()
    return xgboost.XGBRegressor(n_estimators=40, n_jobs=1).fit(X, target(X)), X


def ebm():
    glassbox = pytest.importorskip("interpret.glassbox")
    X = rows()
    model = glassbox.ExplainableBoostingRegressor(outer_bags=1, max_rounds=200, n_jobs=1)
    return model.fit(X, target(X)), X


def classes():
    X = rows()
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1)
    return model.fit(X, np.digitize(target(X), [-0.5, 0.5])), X


def refits():
    X = rows()
    model = GradientBoostingRegressor(n_estimators=30, max_depth=2, random_state=0)
    return tp.refit(model, X, target(X), n=3, **QUIET), X


@pytest.fixture(scope="module", params=[booster, ebm, classes, refits])
def case(request):
    model, X = request.param()
    return model, X, tp.purify(model, X, weights="empirical", **QUIET)


@pytest.fixture(scope="module")
def truth(case):
    """Sizes and shares from the values of effects on the rows."""
    _, X, d = case
    values = {d.term_name(s): part.on_rows(X) for s, part in d.components.items()}
    whole = d.on_rows(X)
    if d.remainder is not None:
        values["remainder"] = d.remainder.on_rows(X)
    centred = whole - whole.mean(axis=0)
    total = (centred**2).mean(axis=0).sum()
    return {
        name: (np.sqrt(own.var(axis=0).mean()), (own * centred).mean(axis=0).sum() / total)
        for name, own in values.items()
    }


def as_drawn(text):
    return text.replace("\N{MINUS SIGN}", "-")


def test_the_table_has_those_of_the_rows(case, truth):
    table = case[2].importance().set_index("effect")
    assert set(table.index) == set(truth)
    for name, (size, share) in truth.items():
        assert table["size"][name] == pytest.approx(size, rel=1e-6, abs=1e-9)
        assert table["share"][name] == pytest.approx(share, abs=1e-6)
    assert table["share"].sum() == pytest.approx(1)


def test_what_is_printed_has_them(case):
    d = case[2]
    lines = d.ranking.leading(8, least_pairs=3)
    write = same_digits([line.size for line in lines])
    shown = [re.split(r"\s\s+", line.strip()) for line in repr(d).splitlines()[2 : 2 + len(lines)]]
    expected = [[line.name(d.term_name), write(line.size), f"{line.share:z.0%}"] for line in lines]
    assert [cells[:3] for cells in shown] == expected


def test_pictures_have_them(case):
    d = case[2]
    table = d.importance().set_index("effect")
    ax = tp.plots.importance(d, top=30)
    names = [label.get_text() for label in ax.get_yticklabels()]
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    sizes = dict(zip(names, [bar.get_width() for bar in bars], strict=True))
    words = {round(text.xy[1]): as_drawn(text.get_text()) for text in ax.texts}
    for place, name in enumerate(names):
        if name in table.index:
            assert sizes[name] == pytest.approx(table["size"][name])
            assert words[place].endswith(f"({table['share'][name]:z.0%})")
    panels = tp.plots.summary(d, top=6).axes
    subsets = [line.subset for line in d.ranking.leading(6, lambda s: len(s) in (1, 2))]
    expected = [d.ranking.by_effect[subset] for subset in subsets if subset is not None]
    write = same_digits([line.size for line in expected])
    titles = [as_drawn(ax.get_title(loc="left")) for ax in panels]
    numbers = [f": {write(line.size)} ({line.share:z.0%})" for line in expected]
    assert all(title.endswith(own) for title, own in zip(titles, numbers, strict=True))
    matplotlib.pyplot.close("all")


def test_the_beeswarm_has_the_same_order(case):
    _, X, d = case
    ax = tp.plots.beeswarm(d, X[:50], top=30)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == d.importance()["effect"].tolist()
    matplotlib.pyplot.close("all")


def test_the_page_has_them(case, tmp_path):
    d = case[2]
    page = Page(tp.report.write_html(d, tmp_path / "d.html", top=1, **QUIET))
    for row, line in zip(page.rows("Effects"), d.ranking.lines, strict=True):
        assert row[0].strip() == line.name(d.term_name)
        assert number(row[1]) == pytest.approx(line.size, rel=1e-3)
        assert number(row[2]) == pytest.approx(line.share, rel=1e-2, abs=1e-5)


def test_a_comparison_has_them(case):
    _, _, d = case
    # An edit leaves the rows and their weights as they are.
    compared = tp.compare(d, d.without(next(iter(d.components))), **QUIET)
    of_output = d.importance(details=True)
    keys = ["effect", "output"] if d.n_outputs > 1 else ["effect"]
    sizes = of_output.set_index(keys)["size"]
    for row in compared.terms.itertuples():
        key = (row.term, row.output) if d.n_outputs > 1 else row.term
        assert row.deviation_first == pytest.approx(sizes[key], rel=1e-6, abs=1e-9)
    shares = d.ranking.shares
    for order, share in compared.orders[["order", "share_first"]].itertuples(index=False):
        own = sum(part for subset, part in shares.items() if len(subset) == order)
        assert share == pytest.approx(own, abs=1e-9)
    mains = sum(share for subset, share in shares.items() if len(subset) == 1)
    assert f"Main effects {mains:.0%}" in repr(d)
    assert f"Main effects account for {mains:.0%} " in repr(compared)


def test_an_audit_has_them(case):
    model, X, d = case
    options = {"measures": [], "n_bootstrap": 0, "weights": "empirical", **QUIET}
    audited = tp.audit(model, X, **options)
    again = audited.decomposition.importance()
    pd.testing.assert_frame_equal(again, d.importance(), rtol=1e-6)
    found = [f for f in audited.findings if f.kind == "collinear effects"]
    for finding in found:
        for subset in finding.effects:
            assert f"{d.ranking.by_effect[subset].size:.3g}" in finding.sentence
