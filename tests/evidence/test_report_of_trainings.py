"""The section of a report on several trainings: its numbers, and a page that still stands alone."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.report.test_page import Page

pytest.importorskip("matplotlib", reason="draws figures")


def page_of(d, path):
    return Page(tp.report.write_html(d, path / "page.html", top=2).read_text(encoding="utf-8"))


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_section_says_what_the_spread_says(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    X = rng.integers(5, size=(300, 3)).astype(float)
    y = X[:, 0] * X[:, 1] + rng.normal(size=300)
    estimator = GradientBoostingRegressor(n_estimators=6, max_depth=2)
    if n_classes > 1:
        y = np.digitize(y, [1, 5])
        estimator = GradientBoostingClassifier(n_estimators=3, max_depth=2)
    d = tp.purify(
        tp.refit(estimator, X, y, n=4, progress=False), X, weights="empirical", progress=False
    )
    page = page_of(d, tmp_path)
    assert ("h2", "Several trainings") in page.headings
    assert "4 trainings (bootstrap) were purified, each by itself. " in page.text
    whole = len(d.spread.stacked) * d.n_outputs
    found = len(d.spread.no_clear_sign())
    expected = (
        f"The bands of {found} of {whole} effects" if found else "Every effect has a clear sign"
    )
    assert expected in page.text
    ids = [name for name in page.ids if name.startswith("band-")]
    assert len(page.ids) == len(set(page.ids))
    assert ids
    largest = max(d, key=lambda subset: d[subset].variance[0])
    between = np.sqrt(d.spread.training_variance(largest)[0] / d[largest].variance[0])
    assert f"{between:.0%} of its standard deviation" in page.text
    # Noise averages out in the mean of the trainings, not in one more of them.
    outside = [
        d.term_name(subset)
        for subset in d.spread.stacked
        for low, size, high in zip(
            d.spread.variance_interval(subset)[0],
            d[subset].variance,
            d.spread.variance_interval(subset)[1],
            strict=True,
        )
        if not low <= size <= high
    ]
    assert ("outside the interval in its row" in page.text) == bool(outside)
    assert all(name in page.text for name in outside)


def test_a_single_training_has_no_section(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    page = page_of(tp.purify(model, X, weights="empirical", progress=False), tmp_path)
    assert ("h2", "Several trainings") not in page.headings
