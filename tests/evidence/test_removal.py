"""Decompositions without a feature: predictions do not use it, and the rest is as it was."""

import numpy as np
import pytest

import treepurify as tp
from tests.evidence.test_editing import decomposition
from treepurify.errors import UnknownComponentError


def shuffled(X, columns):
    changed = X.copy()
    for j in columns:
        changed[:, j] = np.random.default_rng(j).permutation(X[:, j])
    return changed


@pytest.mark.parametrize("gone", [["x0"], [2], ["x0", "x1"]])
@pytest.mark.parametrize("absorb", [False, True])
def test_predictions_do_not_use_the_feature(gone, absorb):
    d, X = decomposition()
    edited = tp.without_features(d, *gone, absorb=absorb)
    positions = [d.feature_names.index(j) if isinstance(j, str) else j for j in gone]
    np.testing.assert_array_equal(edited.predict(shuffled(X, positions)), edited.predict(X))
    assert all(set(positions).isdisjoint(subset) for subset in edited)
    assert edited.certificate.conditional_mean < 1e-10
    if not absorb:
        kept = [s for s in d if set(positions).isdisjoint(s)]
        total = d.intercept[0] + sum(d[s].on_rows(X)[:, 0] for s in kept)
        np.testing.assert_allclose(edited.predict(X), total, atol=1e-12)
    assert "Edited: " in str(edited.certificate)


def test_a_remainder_that_may_use_the_feature_goes_too():
    d, X = decomposition(order=1)
    assert d.remainder is not None
    edited = tp.without_features(d, "x1")
    assert edited.remainder is None
    np.testing.assert_array_equal(edited.predict(shuffled(X, [1])), edited.predict(X))


def test_a_feature_that_is_not_used_changes_nothing():
    d, _ = decomposition()
    alone = d.only("x2")
    assert tp.without_features(alone, "x0") is alone
    with pytest.raises(UnknownComponentError):
        tp.without_features(d, "age")
