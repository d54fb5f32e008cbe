"""The sampling of the measure, beside purifications of halves and of fresh samples."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.storage import load


def rows(n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    return np.sqrt(0.5) * common + np.sqrt(0.5) * rng.normal(size=(n_rows, 3))


def trained(X: np.ndarray) -> GradientBoostingRegressor:
    model = GradientBoostingRegressor(max_depth=2, n_estimators=40, random_state=0)
    return model.fit(X, X[:, 0] * X[:, 1] + X[:, 2])


@pytest.mark.parametrize("weighted", [False, True])
def test_halves_are_those_that_the_model_is_purified_under(weighted):
    X = np.random.default_rng(0).integers(0, 3, (400, 3)).astype(float)
    weights = np.random.default_rng(1).uniform(0.5, 2, 400) if weighted else None
    model = trained(X)
    d = tp.purify(model, X, weights="empirical", sample_weight=weights)
    found = tp.with_sampling_error(d, model, X, sample_weight=weights, splits=1, seed=3)
    order = np.random.default_rng(3).permutation(400)
    one, other = (
        tp.purify(
            model,
            X[half],
            weights="empirical",
            sample_weight=None if weights is None else weights[half],
        )
        for half in np.array_split(order, 2)
    )
    squares = {}
    for subset in d.components:
        difference = one[subset].on_rows(X) - other[subset].on_rows(X)
        squares[subset] = np.average(difference[:, 0] ** 2, weights=weights) / 4
    for term in found.diagnostics["sampling"]["terms"]:
        subset = next(s for s in d.components if d.term_name(s) == term["term"])
        assert term["error"][0] == pytest.approx(np.sqrt(squares[subset]), rel=1e-7)
    predicted = model.predict(X)
    deviation = np.sqrt(np.cov(predicted, aweights=weights, ddof=0))
    (error,) = found.certificate.sampling_error
    assert error == pytest.approx(np.sqrt(sum(squares.values())) / deviation, rel=1e-7)
    assert d.certificate.sampling_error == ()


def test_the_error_is_about_that_of_fresh_samples():
    model = trained(rows(1000, 0))
    fresh = rows(20_000, 1)
    population = tp.purify(model, fresh, weights="empirical")
    true, estimated = [], []
    for seed in range(2, 8):
        sample = rows(1000, seed)
        d = tp.purify(model, sample, weights="empirical")
        squares = [
            np.mean((d[s].on_rows(fresh) - population[s].on_rows(fresh)) ** 2)
            for s in population.components
        ]
        true.append(np.sum(squares) / np.var(model.predict(fresh)))
        found = tp.with_sampling_error(d, model, sample, splits=2).certificate.sampling_error
        estimated.append(found[0] ** 2)
    assert 0.5 < np.mean(estimated) / np.mean(true) < 2


def test_the_certificate_parts_the_errors_and_says_what_is_not_measured(tmp_path):
    X = rows(300, 0)
    model = trained(X)
    d = tp.purify(model, X, weights="empirical")
    advice = "Sampling error is not included; tp.with_sampling_error(d, model, X)"
    assert advice in str(d.certificate)
    found = tp.with_sampling_error(d, model, X)
    assert "Sampling error, estimated from halves of the rows" in str(found.certificate)
    assert found.certificate.is_exact
    found.save(tmp_path / "d.tpz")
    assert load(tmp_path / "d.tpz").certificate == found.certificate
    edited = found.without("x0 & x1")
    assert edited.certificate.sampling_error == ()


@pytest.mark.parametrize(
    "options",
    [
        {"weights": "empirical", "method": "projection"},
        {"weights": "empirical", "method": "coarse"},
        {"weights": "empirical", "method": "exact", "order": 1},
        {"weights": "independent", "interactions": [("x0", "x1")]},
        {},
    ],
)
def test_a_model_is_purified_again_under_halves(options):
    X = rows(240, 0)
    weights = np.random.default_rng(1).integers(0, 4, 240).astype(float)
    model = GradientBoostingRegressor(max_depth=3, n_estimators=10, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] * (X[:, 2] > 0) + X[:, 2])
    d = tp.purify(model, X, sample_weight=weights, progress=False, **options)
    found = tp.with_sampling_error(
        d, model, X, sample_weight=weights, splits=1, seed=3, progress=False
    )
    counted = np.random.default_rng(3).permutation(np.flatnonzero(weights))
    # As it was done for all rows: a half would choose a way of its own.
    method = options.get("method", d.diagnostics["method"])
    of_halves = [
        tp.purify(
            model, X[half], sample_weight=weights[half], progress=False,
            **{**options, "method": method, "missing_cells": "always"},
        )
        for half in np.array_split(counted, 2)
    ]  # fmt: skip
    total = 0.0
    for term in found.diagnostics["sampling"]["terms"]:
        subset = next(s for s in d.components if d.term_name(s) == term["term"])
        one, other = (half[subset].on_rows(X)[:, 0] for half in of_halves)
        square = np.average((one - other) ** 2, weights=weights) / 4
        assert term["error"][0] == pytest.approx(np.sqrt(square), rel=1e-6)
        total += square
    assert len(found.diagnostics["sampling"]["terms"]) == len(d)
    deviation = np.sqrt(np.cov(model.predict(X), aweights=weights, ddof=0))
    assert found.certificate.sampling_error == pytest.approx([np.sqrt(total) / deviation])
    assert "Sampling error, estimated from halves of the" in str(found.certificate)


def test_the_error_of_fitted_effects_is_about_that_of_fresh_samples():
    X = rows(1000, 0)
    model = GradientBoostingRegressor(max_depth=3, n_estimators=15, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    options = {"weights": "empirical", "method": "projection", "progress": False}
    new = rows(3000, 99)
    samples = [rows(600, seed) for seed in range(2, 14)]
    fresh = [tp.purify(model, sample, **options) for sample in samples]
    true = sum(
        np.stack([d[subset].on_rows(new)[:, 0] for d in fresh]).var(axis=0, ddof=1).mean()
        for subset in fresh[0]
    )
    estimated = []
    for d, sample in zip(fresh[:3], samples, strict=False):
        found = tp.with_sampling_error(d, model, sample, splits=2, progress=False)
        estimated.append((found.certificate.sampling_error[0] * np.std(model.predict(sample))) ** 2)
    # Halves of the rows are noisier than their number says: empty cells weigh more there.
    assert 0.6 < np.mean(estimated) / true < 2.5


def test_rows_in_batches_are_sampled(monkeypatch):
    monkeypatch.setattr("treepurify.rows.given_rows.SAMPLED_ROWS", 150)
    X = rows(600, 0)
    model = trained(X)
    batches = lambda: (X[start : start + 100] for start in range(0, 600, 100))
    d = tp.purify(model, batches, weights="empirical", progress=False)
    (few,) = tp.with_sampling_error(d, model, batches, progress=False).certificate.sampling_error
    (whole,) = tp.with_sampling_error(d, model, X, progress=False).certificate.sampling_error
    assert few == pytest.approx(whole, rel=0.5)


def test_what_a_model_cannot_be_purified_with_again_is_refused():
    X = rows(300, 0)
    model = trained(X)
    d = tp.purify(model, X, weights=tp.weights.Laplace(0.25), progress=False)
    with pytest.raises(InvalidInputError, match="pass weights, too"):
        tp.with_sampling_error(d, model, X)
    options = {"weights": tp.weights.Laplace(0.25), "splits": 1, "progress": False}
    assert tp.with_sampling_error(d, model, X, **options).certificate.sampling_error[0] > 0
    for engine in (tp.ale_anova, tp.hooker_anova):
        with pytest.raises(InvalidInputError, match=r"what tp\.purify returned"):
            tp.with_sampling_error(engine(model, X, progress=False), model, X)
    with pytest.raises(InvalidInputError, match="needs 4 rows of positive weight; there are 3"):
        tp.with_sampling_error(d, model, X[:3], weights="uniform")
    with pytest.raises(InvalidInputError, match="were edited"):
        tp.with_sampling_error(d.without("x0 & x1"), model, X)
