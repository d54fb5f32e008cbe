"""What a notebook shows of a decomposition: shares, R², small pictures, a folded certificate."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from treepurify.demo import load_demo_data
from treepurify.summary import notebook_summary
from treepurify.terms import same_digits
from treepurify.verdict import shares_words


class Nesting(HTMLParser):
    """Fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def rows():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])


def test_shares_are_per_cent_with_a_bar():
    X = rows()
    model = GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0)
    d = tp.purify(model.fit(X, X["a"] * X["b"] + X["c"]), X, weights="empirical", progress=False)
    text = d._repr_html_()
    Nesting(text)
    table = d.importance()
    write = same_digits([*table["size"]])
    for size, share in zip(table["size"], table["share"], strict=True):
        length = round(70 * size / table["size"].max())
        bar = rf">{write(size)}</span> <span [^>]*width: {length}px[^<]*</span></td><td [^>]*>"
        assert re.search(rf"{bar}{share:z.0%}<", text), size
    assert re.search(r"Main effects \d+%, pairs \d+%\.", text)
    head, _, rest = text.partition("<details><summary>")
    summary, _, listed = rest.partition("</summary>")
    assert summary == d.certificate.details()[0]
    assert summary.startswith("Exact to rounding; ")
    assert listed.count("<li>") == len(d.certificate.details()) - 1
    assert "<li>" not in head


def test_small_pictures_step_at_the_effects():
    X = rows()
    model = GradientBoostingRegressor(n_estimators=2, max_depth=1, random_state=0)
    d = tp.purify(model.fit(X, X["c"]), X, weights="empirical", progress=False)
    (picture,) = re.findall(r"<svg.*?</svg>", d._repr_html_())
    effect, mass = d["c"].values[:, 0], d["c"].mass
    path = re.search(r'<path d="M0 [\d.]+((?:V[\d.]+H[\d.]+)+)"', picture).group(1)
    steps = np.array(re.findall(r"V([\d.]+)H([\d.]+)", path), dtype=float)
    shown = effect[mass > 0]
    np.testing.assert_allclose(steps[:, 1], 120 * np.cumsum(mass[mass > 0]), atol=0.06)
    heights = 2 + 30 * (shown.max() - shown) / np.ptp(shown)
    np.testing.assert_allclose(steps[:, 0], heights, atol=0.06)
    assert f"from {effect.min():.3g} to {effect.max():.3g}" in picture


def test_deep_models_say_how_much_is_explained():
    X = rows()
    model = GradientBoostingRegressor(n_estimators=5, max_depth=4, random_state=0)
    d = tp.purify(
        model.fit(X, X["a"] * X["b"] * X["c"]),
        X,
        weights="empirical",
        method="projection",
        progress=False,
    )
    text = notebook_summary(d)
    assert shares_words(d, d.ranking) in text
    assert d.without("a").certificate.edits[0] in notebook_summary(d.without("a"))


def test_outputs_and_categories():
    X = rows().assign(kind=pd.Categorical(np.resize(["<u>", "v", "w"], 300)))
    y = np.digitize(X["a"], [-0.5, 0.5])
    codes = X.assign(kind=X["kind"].cat.codes)
    model = GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0).fit(codes, y)
    text = tp.purify(model, codes, weights="empirical", progress=False)._repr_html_()
    Nesting(text)
    assert "<th" in text
    assert "3 outputs together" in text
    d = tp.purify_tensors({(0,): np.array([1.0, -2.0, 4.0])}, {(0,): np.array([0.5, 0.25, 0.25])})
    assert "<svg" in notebook_summary(d)


@pytest.mark.parametrize("n_cells", [2, 5000])
def test_pictures_stay_small(n_cells):
    rng = np.random.default_rng(0)
    d = tp.purify_tensors({(0,): rng.normal(size=n_cells)}, {(0,): np.ones(n_cells)})
    assert len(notebook_summary(d)) < 8000


def test_results_print_words_not_fields():
    X = rows()
    y = X["a"] * X["b"] + X["c"]
    model = GradientBoostingRegressor(n_estimators=10, max_depth=2, random_state=0).fit(X, y)
    d = tp.purify(model, X, weights="empirical", progress=False)
    deep = tp.purify(
        GradientBoostingRegressor(n_estimators=5, max_depth=4, random_state=0).fit(X, y),
        X,
        method="projection",
        progress=False,
    )
    audited = tp.audit(model, X, progress=False)
    shown = [
        *d.components.values(),
        deep.remainder,
        d.shapley_values(X),
        d.shapley_interactions(X),
        tp.parse_model(model),
        tp.feature_profile(model, X, "a", progress=False),
        tp.interaction_indices(model, X, progress=False),
        tp.h_statistics(model, X, progress=False),
        tp.shapley_sets(model, X, progress=False),
        *audited.findings,
        *tp.check_monotonicity(model, X, directions={"c": "increasing"}, progress=False).checks,
        *tp.weak_spots(d, X, y, progress=False).spots,
        load_demo_data("diabetes"),
    ]
    for result in shown:
        text = repr(result)
        assert len(text) < 400
        assert not re.search(r"\w=|array\(|object at", text), text
    assert repr(d.certificate) == "\n".join(d.certificate.details())
    kinds = [repr(component).partition(":")[0] for component in d.components.values()]
    assert kinds[0] == "Main effect of a"
    assert "Interaction b & c" in kinds
