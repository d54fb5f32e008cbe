"""Points of a measure are drawn by value."""

import numpy as np
import pytest

import treepurify as tp

QUIET = {"progress": False, "bins": 6, "n_points": 4000}


def bent(rows):
    return np.floor(3 * rows[:, 0]) * rows[:, 1] + np.sin(rows[:, 2])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + rng.normal(size=(300, 1))
    X[:, 2] = np.round(X[:, 2], 1)
    return X


MEASURES = [
    "independent",
    "uniform",
    tp.weights.Laplace(0.3),
]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: m if isinstance(m, str) else m.name)
def test_draws_depend_neither_on_the_order_of_rows_nor_on_that_of_features(rows, measure):
    d = tp.hooker_anova(bent, rows, weights=measure, **QUIET)
    order = np.random.default_rng(1).permutation(len(rows))
    other = tp.hooker_anova(bent, rows[order], weights=measure, **QUIET)
    twice = tp.hooker_anova(bent, np.repeat(rows, 2, axis=0), weights=measure, **QUIET)

    def turned(own):
        return bent(own[:, ::-1])

    back = tp.hooker_anova(
        turned, rows[:, ::-1], weights=measure, feature_names=["x2", "x1", "x0"], **QUIET
    )
    for subset, component in d.components.items():
        values = component.on_rows(rows)
        np.testing.assert_allclose(other[subset].on_rows(rows), values, atol=1e-9)
        np.testing.assert_allclose(twice[subset].on_rows(rows), values, atol=1e-9)
        same = back[tuple(2 - j for j in reversed(subset))]
        np.testing.assert_allclose(same.on_rows(rows[:, ::-1]), values, atol=1e-9)


def test_weights_count_within_cells(rows):
    """A row of weight three is three rows, in bins and in what is drawn from them."""
    weights = np.random.default_rng(2).integers(1, 4, len(rows))
    again = np.repeat(rows, weights, axis=0)
    for measure in ("independent", tp.weights.Laplace(0.3)):
        d = tp.hooker_anova(bent, rows, weights=measure, sample_weight=weights * 0.1, **QUIET)
        other = tp.hooker_anova(bent, again, weights=measure, **QUIET)
        for subset, component in d.components.items():
            np.testing.assert_allclose(
                other[subset].on_rows(rows), component.on_rows(rows), atol=1e-9
            )
