"""The section of a report on several trainings: its numbers, and a page that still stands alone."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import treepurify as tp
from tests.report.pages import Page, number

pytest.importorskip("matplotlib", reason="draws figures")


def page_of(d, path):
    return Page(tp.report.write_html(d, path / "page.html", top=2, progress=False))


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
    section = page["Several trainings"]
    assert "4 trainings (bootstrap) were purified" in section.text
    whole = len(d.spread.stacked) * d.n_outputs
    found = len(d.spread.no_clear_sign())
    expected = (
        f"The bands of {found} of {whole} effects" if found else "Every effect has a clear sign"
    )
    assert expected in page.text
    assert section.pictures
    head, rows = section.tables[0][0], page.rows("Several trainings")
    frame = d.spread.importance().sort_values("size_upper", ascending=False, kind="stable")
    assert len(rows) == len(frame)
    for cells, row in zip(rows, frame.to_dict("records"), strict=True):
        shown = dict(zip(head, cells, strict=True))
        assert shown["Effect"] == row["effect"]
        expected = [row["size_lower"], row["size_upper"], row["training_size"]]
        found = [
            number(shown[name])
            for name in ("Size in one more training: from", "to", "Trainings differ by")
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-9)


def test_a_single_training_has_no_section(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])
    page = page_of(tp.purify(model, X, weights="empirical", progress=False), tmp_path)
    assert "Several trainings" not in page.titles
