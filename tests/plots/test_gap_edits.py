"""The figure of gap against loss can be read, also where its points lie on each other."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from xgboost import XGBClassifier

import treepurify as tp
from treepurify import plots
from treepurify.evidence.losses import loss_words

FEW = {"n_bootstrap": 3, "n_permutations": 2, "progress": False}
WEIGHTS = np.array([1.0, 0.2, 0.2, 0.2, 0.2])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    # One feature has nearly all of the gap, so that the points of the others meet.
    return rng.normal(size=(400, 5)) + np.outer(group, [3.0, 0.1, 0.1, 0.1, 0.1]), group


def drawn(model, X, group, y, **options):
    d = tp.purify(model.fit(X, y), X, progress=False)
    gap = tp.group_gap(d, X, np.where(group, "new", "old"), y, n_edits=4, **FEW)
    ax = plots.gap_edits(gap, **options)
    ax.figure.canvas.draw()
    return gap, ax


def test_numbers_of_the_steps_overlap_nowhere_and_the_legend_names_them(rows):
    X, group = rows
    gap, ax = drawn(GradientBoostingRegressor(random_state=0), X, group, X @ WEIGHTS)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    written = ", ".join(text.get_text() for text in ax.texts).split(", ")
    assert written == ["model", *(str(n) for n in range(1, len(gap.edits.terms) + 1))]
    assert len(ax.texts) < len(written)
    title = ax.get_legend().get_title().get_text().replace("\n", " ")
    assert all(f"{n} {term}" in title for n, term in enumerate(gap.edits.terms, start=1))


def test_the_axes_name_the_scale_of_the_gap_and_the_loss(rows):
    X, group = rows
    y = (X.sum(axis=1) > 2).astype(int)
    _, ax = drawn(XGBClassifier(n_estimators=20, max_depth=2), X, group, y)
    assert ax.get_xlabel() == "mean log-odds: old minus new"
    assert ax.get_ylabel() == "increase in log loss"


@pytest.mark.parametrize(
    ("name", "words"), [("poisson", "Poisson deviance"), ("squared_error", "squared error")]
)
def test_losses_have_the_words_of_the_field(name, words):
    assert loss_words(name) == words
