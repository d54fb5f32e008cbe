"""The path on a Gram matrix against scikit-learn's on the columns, and against its definition."""

import numpy as np
import pytest
from sklearn.linear_model import LassoLarsIC
from sklearn.linear_model import lars_path as lars_path_of_columns

from treepurify.engines.common.least_angle import full_fit, lars_path
from treepurify.errors import InvalidInputError


def problem(seed, n_rows=200, n_columns=25):
    """Centred correlated columns of different lengths, and a response."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(n_columns, n_columns))
    columns = rng.normal(size=(n_rows, n_columns)) @ mixing * rng.uniform(0.1, 3, n_columns)
    response = columns[:, :5] @ rng.normal(size=5) + rng.normal(size=n_rows)
    return columns - columns.mean(axis=0), response - response.mean()


def moments(columns, response):
    return columns.T @ columns, columns.T @ response, float(response @ response)


@pytest.mark.parametrize("seed", range(6))
def test_lasso_path_equals_that_of_scikit_learn(seed):
    columns, response = problem(seed)
    alphas, _, truth = lars_path_of_columns(columns, response, method="lasso")
    path = lars_path(*moments(columns, response))
    assert np.any(np.diff(path.n_terms) < 0), "no coefficient left: the case is too easy"
    # scikit-learn ends its path a little before least squares.
    n = len(alphas) - 1
    np.testing.assert_allclose(
        path.levels[:n] / len(response), alphas[:n], rtol=1e-9, atol=1e-12 * alphas[0]
    )
    for step in range(n):
        np.testing.assert_allclose(path.coefficients(step), truth[:, step], atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("criterion", ["bic", "aic"])
def test_criterion_and_choice_equal_those_of_lasso_lars_ic(seed, criterion):
    columns, response = problem(seed)
    truth = LassoLarsIC(criterion=criterion).fit(columns, response)
    gram, correlations, total = moments(columns, response)
    full = full_fit(gram, correlations, total, len(response))
    assert full.noise_variance == pytest.approx(truth.noise_variance_, rel=1e-10)
    path = lars_path(gram, correlations, total)
    values = path.criterion(criterion, len(response), full.noise_variance)
    n = len(truth.criterion_) - 1
    np.testing.assert_allclose(values[:n], truth.criterion_[:n], rtol=1e-10)
    best = int(np.argmin(values))
    np.testing.assert_allclose(path.coefficients(best), truth.coef_, atol=1e-9)
    np.testing.assert_array_equal(path.support(best), np.flatnonzero(truth.coef_))


@pytest.mark.parametrize("seed", range(6))
def test_stopping_early_does_not_change_the_choice(seed):
    columns, response = problem(seed, n_columns=80)
    gram, correlations, total = moments(columns, response)
    full = full_fit(gram, correlations, total, len(response))
    whole = lars_path(gram, correlations, total)
    stopped = lars_path(gram, correlations, total, stop=("bic", len(response), full))
    assert len(stopped.levels) < len(whole.levels)
    values = whole.criterion("bic", len(response), full.noise_variance)
    best = int(np.argmin(values))
    assert best < len(stopped.levels)
    np.testing.assert_array_equal(stopped.coefficients(best), whole.coefficients(best))


def test_path_keeps_its_definition():
    """All active columns have the same correlation with the residual, others a smaller one."""
    columns, response = problem(3)
    path = lars_path(*moments(columns, response))
    for step in range(len(path.levels)):
        coefficients = path.coefficients(step)
        residual = response - columns @ coefficients
        correlations = columns.T @ residual
        active = np.flatnonzero(coefficients)
        scale = path.levels[0]
        np.testing.assert_allclose(
            np.abs(correlations[active]), path.levels[step], atol=1e-10 * scale
        )
        assert np.all(np.abs(correlations) <= path.levels[step] + 1e-10 * scale)
        if path.levels[step] > 1e-6 * scale:
            assert np.all(np.sign(correlations[active]) * coefficients[active] >= -1e-12)
        assert path.sums_of_squares[step] == pytest.approx(residual @ residual, rel=1e-9)
        assert path.n_terms[step] == len(active)
    least_squares = np.linalg.lstsq(columns, response, rcond=None)[0]
    np.testing.assert_allclose(path.coefficients(-1), least_squares, atol=1e-8)


def test_dependent_columns_are_dropped_and_reported():
    columns, response = problem(5, n_columns=8)
    # A copy, an opposite, a sum and a column of zeros behind the independent ones.
    more = np.column_stack(
        [
            columns,
            columns[:, 2],
            -3.0 * columns[:, 1],
            columns[:, 0] + columns[:, 4],
            np.zeros(len(columns)),
        ]
    )
    gram, correlations, total = moments(more, response)
    path = lars_path(gram, correlations, total)
    kept = np.setdiff1d(np.arange(12), path.dropped)
    assert 11 in path.dropped
    assert np.linalg.matrix_rank(more[:, path.support(-1)]) == len(path.support(-1))
    assert path.sums_of_squares[-1] == pytest.approx(
        float(np.linalg.lstsq(columns, response, rcond=None)[1][0]), rel=1e-9
    )
    assert np.linalg.matrix_rank(more[:, kept]) == 8
    assert full_fit(gram, correlations, total, len(response)).rank == 8


def test_limits_end_the_path():
    columns, response = problem(6)
    whole = lars_path(*moments(columns, response))
    few = lars_path(*moments(columns, response), max_terms=4)
    assert few.n_terms[-1] == 4
    np.testing.assert_array_equal(few.levels, whole.levels[: len(few.levels)])
    assert len(lars_path(*moments(columns, response), max_steps=7).levels) == 8


def test_inputs_stay_as_they_are_and_results_repeat():
    columns, response = problem(7)
    gram, correlations, total = moments(columns, response)
    before = gram.copy(), correlations.copy()
    first = lars_path(gram, correlations, total)
    second = lars_path(gram, correlations, total)
    np.testing.assert_array_equal(gram, before[0])
    np.testing.assert_array_equal(correlations, before[1])
    np.testing.assert_array_equal(first.coefficients(9), second.coefficients(9))


def test_problems_without_columns_and_with_too_few_rows():
    path = lars_path(np.zeros((0, 0)), np.zeros(0), 1.0)
    assert path.support(0).size == 0
    assert lars_path(np.eye(2), np.zeros(2), 1.0).n_terms.tolist() == [0]
    with pytest.raises(InvalidInputError, match="more rows than columns"):
        full_fit(np.eye(3), np.ones(3), 10.0, 4)
