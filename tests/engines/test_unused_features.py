"""Features that a model does not use take no part in the work, and are still known by name."""

import warnings
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest

import treepurify as tp
from tests.reference.ensembles import complete_ensemble
from treepurify.engines.ale import axes
from treepurify.rows.columns import Columns, FeatureSpec

N_WIDE = 60
USED = (7, 20, 41)


def narrow_and_wide(n_rows=80):
    """The same trees over three features and over sixty, and rows of both."""
    rng = np.random.default_rng(3)
    narrow = complete_ensemble(rng, n_features=3, depth=3, n_trees=5)
    places = np.where(narrow.feature >= 0, np.take(USED, narrow.feature), -1)
    features = tuple(FeatureSpec(f"x{j}") for j in range(N_WIDE))
    wide = replace(narrow, feature=places.astype(np.int32), features=features)
    rows = rng.normal(size=(n_rows, N_WIDE))
    return narrow, wide, rows[:, USED], rows


def test_margins_are_of_used_features_alone(monkeypatch):
    narrow, wide, few, rows = narrow_and_wide()
    widths = []
    matrix = Columns.matrix

    def watched(self, *span):
        widths.append(len(self.values))
        return matrix(self, *span)

    monkeypatch.setattr(Columns, "matrix", watched)
    np.testing.assert_array_equal(wide.margin(rows), narrow.margin(few))
    assert set(widths) == {3}
    again = wide.of_features((0, *USED, 50))
    np.testing.assert_array_equal(again.margin(rows[:, (0, *USED, 50)]), narrow.margin(few))


@pytest.mark.parametrize("order", [1, 2])
def test_local_effects_are_of_used_features_alone(order, monkeypatch):
    narrow, wide, few, rows = narrow_and_wide()
    asked = []
    quantiles = axes._quantiles

    def watched(columns, weights, feature, levels):
        asked.append(feature)
        return quantiles(columns, weights, feature, levels)

    monkeypatch.setattr(axes, "_quantiles", watched)
    d = tp.ale_anova(wide, rows, order=order, progress=False)
    assert tuple(asked) == USED
    truth = tp.ale_anova(narrow, few, order=order, progress=False)
    assert len(d) == len(truth)
    for subset, component in truth.components.items():
        found = d.components[tuple(USED[j] for j in subset)]
        np.testing.assert_array_equal(found.on_rows(rows), component.on_rows(few))


def test_h_statistics_measure_one_feature_that_is_not_used():
    narrow, wide, few, rows = narrow_and_wide()
    h = tp.h_statistics(wide, rows, progress=False)
    truth = tp.h_statistics(narrow, few, progress=False)
    assert len(h.interactions.measured) == 1 + 4 + 6
    assert len(h.features()) == N_WIDE
    assert len(h.pairs()) == N_WIDE * (N_WIDE - 1) / 2
    assert len(h.interactions) == 1 + N_WIDE + N_WIDE * (N_WIDE - 1) / 2
    for subset, interaction in truth.interactions.items():
        found = h.interactions[tuple(USED[j] for j in subset)]
        for name in ("numerator", "denominator", "purified"):
            np.testing.assert_allclose(getattr(found, name), getattr(interaction, name))
    main = tp.partial_dependence_anova(narrow, few, order=2, progress=False)
    for j, k in combinations(range(N_WIDE), 2):
        if {j, k} <= set(USED):
            continue
        found = h.interactions[j, k]
        assert found.features == (j, k)
        assert found.numerator == 0
        own = [main[USED.index(i),].variance[0] for i in (j, k) if i in USED]
        np.testing.assert_allclose(found.denominator, own or [0.0])
        assert found.purified == 0
    assert h.interactions[0,].h_squared == h.interactions[59,].h_squared == 0
    for wrong in [(60,), (-1, 2), (2, 1), (1, 2, 3)]:
        with pytest.raises(KeyError):
            h.interactions[wrong]


@pytest.mark.parametrize(
    "engine", [tp.hooker_anova, partial(tp.legendre_anova, degree=2), tp.partial_dependence_anova]
)
def test_other_engines_find_what_they_find_without(engine):
    narrow, wide, few, rows = narrow_and_wide(200)
    rows[::9, 30] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d, truth = engine(wide, rows, progress=False), engine(narrow, few, progress=False)
    assert len(d) == len(truth)
    for subset, component in truth.components.items():
        found = d.components[tuple(USED[j] for j in subset)]
        np.testing.assert_allclose(found.on_rows(rows), component.on_rows(few), atol=1e-10)


def test_a_model_that_uses_nothing_has_no_effects():
    _, wide, _, rows = narrow_and_wide()
    by_node = ("feature", "cut", "left", "right", "missing_left", "category_ptr", "value")
    nothing = {name: getattr(wide, name)[:0] for name in (*by_node, "tree_output")}
    constant = replace(wide, tree_ptr=np.array([0]), **nothing)
    for engine in (tp.ale_anova, tp.hooker_anova, tp.legendre_anova, tp.partial_dependence_anova):
        assert not engine(constant, rows, progress=False).components
    h = tp.h_statistics(constant, rows, progress=False)
    assert len(h.features()) == N_WIDE
    assert (h.pairs()["strength"] == 0).all()
