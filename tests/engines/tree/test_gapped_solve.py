"""Equations with many undetermined directions, beside dense least squares."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from tests.engines.tree.coarse_problems import coarse_problem, distance, on_rows, spread
from tests.reference.coarse_projection import least_norm_tables
from treepurify.engines.tree import direct_solve
from treepurify.engines.tree.direct_solve import solve_directly

N_ROWS = 1500


def problem_of(monkeypatch, pair_cells=6, prepare=None, **options):
    """The least-squares problem of a forest; many of its cells are empty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 6)) + rng.normal(size=(N_ROWS, 1))
    if prepare is not None:
        prepare(X)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 3] * X[:, 4] * X[:, 5]
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    settings = {"main_cells": 16, "pair_cells": pair_cells} | options
    return coarse_problem(model, X, monkeypatch, **settings)


def carefully(problem, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(direct_solve, "solve_with_gaps", lambda *_: None)
        return solve_directly(problem)


def copy_two(X):
    X[:, 1], X[:, 3] = X[:, 0], X[:, 2]


@pytest.mark.parametrize(("prepare", "least"), [(None, 0), (copy_two, 100)])
def test_tables_are_those_of_dense_least_squares(prepare, least, monkeypatch):
    problem = problem_of(monkeypatch, prepare=prepare)

    def refuse(*_):
        raise AssertionError("not solved with gaps")

    monkeypatch.setattr(direct_solve, "_solve_factored", refuse)
    found = solve_directly(problem)
    assert found.undetermined >= least
    assert distance(problem, found.tables, least_norm_tables(problem)) <= 1e-10
    assert found.error <= 1e-9


def test_both_ways_to_decide_agree(monkeypatch):
    problem = problem_of(monkeypatch, prepare=copy_two)
    found, careful = solve_directly(problem), carefully(problem, monkeypatch)
    assert found.undetermined == careful.undetermined
    assert distance(problem, found.tables, careful.tables) <= 1e-10


def copy_all_but_one_row(X):
    X[:, 1] = X[:, 0]
    X[7, 1] = -X[7, 0]


def light_row(weight):
    weights = np.ones(N_ROWS)
    weights[7] = weight
    return weights


@pytest.mark.parametrize("weight", [1e-4, 1e-3])
def test_directions_that_hardly_hold_their_last_unknown_are_found(weight, monkeypatch):
    # A ridge gives them pivots above what is weak.
    weights = light_row(weight)
    problem = problem_of(monkeypatch, prepare=copy_all_but_one_row, sample_weight=weights)
    found, careful = solve_directly(problem), carefully(problem, monkeypatch)
    assert found.undetermined == careful.undetermined
    assert distance(problem, careful.tables, least_norm_tables(problem)) <= 1e-6


@pytest.mark.parametrize("weight", [1e-6, 1e-4, 1.0])
def test_the_error_is_near_the_true_one(weight, monkeypatch):
    weights = light_row(weight)
    given = problem_of(monkeypatch, prepare=copy_all_but_one_row, sample_weight=weights)
    # What leaves no rest is known more exactly from dense least squares.
    problem = replace(given, target=on_rows(given, solve_directly(given).tables))
    for found in solve_directly(problem), carefully(problem, monkeypatch):
        true = distance(problem, found.tables, least_norm_tables(problem)) * spread(problem)
        assert true <= 10 * found.error + 1e-11 * spread(problem)
        assert found.error <= 1e-6


@pytest.mark.parametrize("weight", [1e-7, 1e-5, 1e-3])
def test_what_little_mass_determines_is_not_taken_for_undetermined(weight, monkeypatch):
    careful = 0
    solve = direct_solve._solve_factored

    def count(*given):
        nonlocal careful
        careful += 1
        return solve(*given)

    weights = light_row(weight)
    problem = problem_of(monkeypatch, prepare=copy_all_but_one_row, sample_weight=weights)
    monkeypatch.setattr(direct_solve, "_solve_factored", count)
    found = solve_directly(problem)
    assert distance(problem, found.tables, least_norm_tables(problem)) <= 1e-6
    # Gaps cannot tell what less than 1e-7 of the mass determines.
    assert (careful > 0) == (weight < 1e-4)
