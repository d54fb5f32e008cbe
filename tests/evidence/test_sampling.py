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
    found = tp.with_sampling_error(d, splits=1, seed=3)
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
        d = tp.purify(model, rows(1000, seed), weights="empirical")
        squares = [
            np.mean((d[s].on_rows(fresh) - population[s].on_rows(fresh)) ** 2)
            for s in population.components
        ]
        true.append(np.sum(squares) / np.var(model.predict(fresh)))
        found = tp.with_sampling_error(d, splits=2).certificate.sampling_error
        estimated.append(found[0] ** 2)
    assert 0.5 < np.mean(estimated) / np.mean(true) < 2


def test_the_certificate_parts_the_errors_and_says_what_is_not_measured(tmp_path):
    X = rows(300, 0)
    d = tp.purify(trained(X), X, weights="empirical")
    assert "Sampling error is not included; tp.with_sampling_error(d)" in str(d.certificate)
    found = tp.with_sampling_error(d)
    assert "Sampling error, estimated from halves of the 300 rows" in str(found.certificate)
    assert found.certificate.is_exact
    found.save(tmp_path / "d.tpz")
    assert load(tmp_path / "d.tpz").certificate == found.certificate
    edited = found.without("x0 & x1")
    assert edited.certificate.sampling_error == ()


def test_what_halves_cannot_say_is_refused():
    X = rows(300, 0)
    model = trained(X)
    for d, reason in (
        (tp.purify(model, X, weights="independent"), "does not consist of its rows"),
        (tp.purify(model, X, weights="empirical", method="projection"), "were fitted"),
        (tp.purify(model, X, weights="empirical").without("x0 & x1"), "were edited"),
    ):
        assert "with_sampling_error" not in str(d.certificate)
        with pytest.raises(InvalidInputError, match=reason):
            tp.with_sampling_error(d)
