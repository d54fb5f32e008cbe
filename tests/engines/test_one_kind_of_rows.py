"""A table and the same rows in batches give one certificate, one importance, one simpler model."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import treepurify as tp
from tests.engines.tree.streams import batches
from treepurify.moments import rows_on_grids

QUIET = {"progress": False}
N_ROWS = 900


def dependent_rows():
    """Return rows of which two features determine each other in blocks, some without weight."""
    rng = np.random.default_rng(8)
    level = rng.integers(0, 12, N_ROWS)
    X = pd.DataFrame(
        {
            "level": level.astype(float),
            "block": (level // 4).astype(float),
            "along": level + rng.normal(size=N_ROWS),
            "alone": rng.normal(size=N_ROWS),
        }
    )
    y = X["level"] + 2.0 * X["block"] + X["along"] * X["alone"] / 8.0
    return X, y, rng.integers(0, 4, N_ROWS).astype(float)


def shallow(X, y):
    return GradientBoostingRegressor(n_estimators=40, max_depth=1, random_state=0).fit(X, y)


def deep(X, y):
    return GradientBoostingRegressor(n_estimators=12, max_depth=4, random_state=0).fit(X, y)


def forest(X, y):
    return RandomForestRegressor(n_estimators=5, random_state=0).fit(X, y)


CALLS = {
    "main effects": (shallow, tp.purify, {}),
    "closed form": (deep, tp.purify, {"weights": "independent"}),
    "projection": (deep, tp.purify, {"method": "projection"}),
    "coarse cells": (forest, tp.purify, {"method": "coarse"}),
    "smoothed": (deep, tp.purify, {"weights": "auto"}),
    "partial dependence": (deep, tp.partial_dependence_anova, {}),
    "local effects": (deep, tp.ale_anova, {"bins": 8}),
    "Legendre": (deep, tp.legendre_anova, {"degree": 3}),
    "Hooker": (deep, tp.hooker_anova, {"bins": 4}),
}
NUMBERS = [
    *("scale", "additivity", "margin_error", "conditional_mean", "unidentified", "cosine"),
    *("unidentified_terms", "fitted_share", "fit_unidentified"),
]


@pytest.mark.parametrize("called", CALLS)
def test_certificate_importance_and_simplify_are_those_of_the_table(called):
    make, anova, options = CALLS[called]
    X, y, weight = dependent_rows()
    model = make(X, y)
    whole = anova(model, X, sample_weight=weight, **options, **QUIET)
    rows = batches(X.assign(weight=weight), 130)
    streamed = anova(model, rows, sample_weight="weight", **options, **QUIET)
    assert (streamed.certificate is None) == (whole.certificate is None)
    for name in NUMBERS if whole.certificate else ():
        found, expected = (getattr(d.certificate, name) for d in (streamed, whole))
        if isinstance(expected, str | bool) or expected is None:
            assert found == expected, name
        elif name != "unidentified_terms":
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=name)
        else:
            assert found == expected
    # By name: effects of equal size are in one order or the other.
    tables = [d.importance(details=True) for d in (streamed, whole)]
    tables = [
        table.drop(columns="rank").sort_values("effect", ignore_index=True) for table in tables
    ]
    pd.testing.assert_frame_equal(*tables, rtol=1e-6, atol=1e-9)
    simpler = [tp.simplify(d, X[:200], y[:200], **QUIET) for d in (streamed, whole)]
    assert simpler[0].absorb == simpler[1].absorb
    assert list(simpler[0].decomposition) == list(simpler[1].decomposition)
    for subset, part in simpler[1].decomposition.components.items():
        found = simpler[0].decomposition.components[subset].on_rows(X)
        np.testing.assert_allclose(found, part.on_rows(X), rtol=0, atol=1e-7)


def test_main_effects_that_a_sample_does_not_tell_apart_are_said_to_be_of_a_sample(monkeypatch):
    X, y, _ = dependent_rows()
    model = shallow(X, y)
    few = partial(rows_on_grids, most=60)
    monkeypatch.setattr("treepurify.collinear.rows_on_grids", few)
    shared = tp.purify(model, batches(X, 130), weights="empirical", **QUIET)
    assert shared.certificate.unidentified_terms == ("level & block",)
    assert "was checked on a sample of 60 of 900 rows" in shared.certificate.note


def test_the_error_of_sampling_is_measured_on_halves_of_batches():
    X, y, weight = dependent_rows()
    model = deep(X, y)
    options = {"weights": "empirical", "method": "exact", "order": None, **QUIET}
    rows = batches(X.assign(weight=weight), 130)
    again = batches(X.assign(weight=weight), 400)
    errors = []
    for source, counted in ((X, weight), (rows, "weight"), (again, "weight")):
        d = tp.purify(model, source, sample_weight=counted, **options)
        found = tp.with_sampling_error(d, model, source, sample_weight=counted, splits=4, **QUIET)
        errors.append(found.certificate.sampling_error)
    # Other halves of the same rows: the mean over the splits is much the same.
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.25)
    np.testing.assert_allclose(errors[2], errors[1], rtol=1e-9)


def test_a_sample_for_the_certificate_alone_refuses_no_model(monkeypatch):
    X, y, _ = dependent_rows()
    model = shallow(X, y)
    whole = tp.purify(model, X, weights="empirical", memory_budget=1 << 20, **QUIET)
    # A sample of 16 384 rows of four features takes three times as much.
    streamed = tp.purify(
        model, batches(X, 130), weights="empirical", memory_budget=1 << 20, **QUIET
    )
    assert streamed.certificate.unidentified == whole.certificate.unidentified
    monkeypatch.setattr("treepurify.moments.DEFAULT_BUDGET", 1 << 20)
    unseen = tp.purify(model, batches(X, 130), weights="empirical", memory_budget=1 << 20, **QUIET)
    assert "a sample of the rows would not fit" in unseen.certificate.note
