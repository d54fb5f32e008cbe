"""Effects depend neither on the unit of weights nor on the order of rows, in any engine.

A row of weight two is two rows, too, but where something is found by foretelling rows from others
(the measures that choose themselves, information criteria) or by a draw of rows: there a second
row of the same values is more to go by.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp

QUIET = {"progress": False}


def bent(rows):
    return np.floor(3 * rows[:, 0]) * rows[:, 1] + np.sin(rows[:, 2]) * rows[:, 0]


def hard_rows(seed):
    """Few rows of rounded values with small whole weights: many sums of weights are equal."""
    rng = np.random.default_rng(seed)
    n_rows = (60, 80, 200)[seed % 3]
    X = rng.normal(size=(n_rows, 3)).round(1)
    X[:, 1] += X[:, 0]
    X[:, 2] = rng.integers(0, 4, n_rows) if seed % 2 else X[:, 2]
    return X.round(1), rng.integers(1, 4, n_rows).astype(float)


@cache
def model(kind):
    rng = np.random.default_rng(100)
    X = rng.normal(size=(400, 3))
    if kind == "deep":
        return RandomForestRegressor(3, max_leaf_nodes=30, random_state=0).fit(X, bent(X))
    return GradientBoostingRegressor(n_estimators=15, max_depth=2, random_state=0).fit(X, bent(X))


@dataclass(frozen=True)
class Case:
    """A call, whether a row of weight two is two rows to it, and how equal effects are."""

    engine: Callable
    subject: object
    options: dict
    counts_rows: bool = False
    tolerance: float = 1e-9


def of_measures(engine, subject, **options):
    """Every measure of rows; those that choose themselves foretell rows from others."""
    chosen = {"smoothed", "auto"}
    for measure in ("empirical", "independent", "laplace", *sorted(chosen)):
        yield measure, Case(engine, subject, {"weights": measure, **options}, measure in chosen)


CASES = {
    **{f"purify {m}": case for m, case in of_measures(tp.purify, "shallow", order=2)},
    **{
        f"hooker {m}": case
        for m, case in of_measures(tp.hooker_anova, bent, bins=4, n_points=1000, order=2)
    },
    **{f"categorical {m}": case for m, case in of_measures(tp.categorical_anova, bent, bins=4)},
    "closed form": Case(
        tp.purify, "deep", {"method": "closed-form", "weights": "independent", "order": 2}
    ),
    "projection": Case(
        tp.purify,
        "deep",
        {"method": "projection", "order": 2, "weights": "empirical"},
        tolerance=1e-7,
    ),
    "coarse": Case(tp.purify, "deep", {"method": "coarse", "order": 2, "weights": "empirical"}),
    "least norm": Case(
        tp.categorical_anova, bent, {"bins": 4, "order": 2, "selection": "least-norm"}
    ),
    "lars": Case(tp.categorical_anova, bent, {"bins": 4, "order": 2, "selection": "lars"}, True),
    "legendre": Case(tp.legendre_anova, bent, {"degree": 3, "selection": "all"}, tolerance=1e-7),
    "legendre bic": Case(tp.legendre_anova, bent, {"degree": 3}, True, 1e-7),
    "ale": Case(tp.ale_anova, bent, {"bins": 10}),
    "ale of trees": Case(tp.ale_anova, "shallow", {"bins": 10}),
    "partial dependence": Case(tp.partial_dependence_anova, "shallow", {}),
}


def largest_difference(first, second, X):
    """The largest difference of an effect on the rows, as a share of the largest effect."""
    assert set(first) == set(second)
    one, two = (
        np.array([d.intercept + 0 * X[:, 0], *(d[s].on_rows(X)[:, 0] for s in first.components)])
        for d in (first, second)
    )
    return np.abs(one - two).max() / np.abs(one).max()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_effects_depend_on_what_rows_say_alone(name):
    case = CASES[name]
    subject = model(case.subject) if isinstance(case.subject, str) else case.subject
    for seed in (1, 2):
        X, weights = hard_rows(seed)

        def effects(rows, own, subject=subject):
            return case.engine(subject, rows, sample_weight=own, **case.options, **QUIET)

        d = effects(X, weights)
        order = np.random.default_rng(seed).permutation(len(X))
        others = {
            "times 0.1": effects(X, weights * 0.1),
            "times 1e-7": effects(X, weights * 1e-7),
            "times 1e6": effects(X, weights * 1e6),
            "in another order": effects(X[order], weights[order]),
        }
        if not case.counts_rows:
            others["repeated"] = effects(np.repeat(X, weights.astype(int), axis=0), None)
        for what, other in others.items():
            assert largest_difference(d, other, X) < case.tolerance, what
