"""The figure of effects that cancel: dots are rows, the sum is the sum, and all is inside."""

import numpy as np
import pytest

import treepurify as tp
from tests.report.pages import Page
from tests.test_ranking import of_effects, planted
from treepurify.components import values_on_rows

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def cancelling():
    X, y = planted()
    return X, of_effects(y, X)


def test_dots_are_effects_on_rows(cancelling):
    X, d = cancelling
    left = tp.plots.together(d, "a", "b")
    figure = left.get_figure()
    (host,) = figure.axes
    _, right = host.child_axes
    first, second = (np.asarray(dots.get_offsets())[:, 1] for dots in left.collections)
    np.testing.assert_allclose(first, values_on_rows(d["a"], d.grid_rows.by_order)[:, 0])
    (dots,) = right.collections
    np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 1], first + second)
    np.testing.assert_allclose(first, d["a"].on_rows(X)[:, 0])
    again = tp.plots.together(d, "a", "b", X=X)
    np.testing.assert_allclose(np.asarray(again.collections[0].get_offsets())[:, 1], first)


def test_everything_lies_inside_the_figure(cancelling):
    _, d = cancelling
    figure = tp.plots.together(d, "b", "a").get_figure()
    figure.canvas.draw()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


def test_what_cannot_be_drawn(cancelling, tmp_path):
    X, d = cancelling
    with pytest.raises(tp.errors.InvalidInputError, match="two or more"):
        tp.plots.together(d, "a")
    d.save(tmp_path / "d.tpz")
    saved = tp.load(tmp_path / "d.tpz")
    with pytest.raises(tp.errors.InvalidInputError, match="contains no rows"):
        tp.plots.together(saved, "a", "b")
    assert len(tp.plots.together(saved, "a", "b", X=X[:5]).collections[0].get_offsets()) == 5


def test_no_figure_ends_inside_a_group(cancelling):
    _, d = cancelling
    # c comes first, then the group of a and b.
    assert d.ranking.order == ((2,), (0,), (1,))
    assert len(tp.plots.importance(d, top=1).patches) == 1
    assert len(tp.plots.summary(d, top=1).axes) == 1
    assert len(tp.plots.importance(d, top=2).patches) == 4
    assert len(tp.plots.summary(d, top=2).axes) == 3


def test_the_report_shows_groups(cancelling, tmp_path):
    _, d = cancelling
    page = Page(tp.report.write_html(d, tmp_path / "d.html", top=1, progress=False))
    (group,) = d.ranking.groups
    assert group.sentence in page.text
    assert "Each effect and their sum." in page.text
    names = [row[0] for row in page.rows("Effects")]
    assert names.count(group.joint_name) == 1
    d.save(tmp_path / "d.tpz")
    saved = tp.load(tmp_path / "d.tpz")
    without = Page(tp.report.write_html(saved, tmp_path / "saved.html", progress=False))
    assert group.sentence in without.text
    assert [row[0] for row in without.rows("Effects")] == names
    # Both are drawn one by one, as there are no rows to draw them on together.
    assert "Each effect and their sum." not in without.text
    drawn = [label for section in without.sections.values() for label in section.pictures]
    for j in (0, 1):
        assert f"Main effect of {d.feature_names[j]}, {d.output_names[0]}." in drawn
