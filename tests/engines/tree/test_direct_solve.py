"""Solutions with a factor in single precision, beside those with one in double precision."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from tests.engines.tree.coarse_problems import coarse_problem, distance
from treepurify.engines.tree import direct_solve
from treepurify.engines.tree.arrowhead import N_PROBES
from treepurify.engines.tree.direct_solve import solve_directly
from treepurify.engines.tree.normal_equations import Equations, code_cells, normal_equations

N_ROWS = 20_000


def rows(kind):
    """Features that depend on each other, so that rows determine all, nearly all, or not all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)) + rng.normal(size=(N_ROWS, 1))
    if kind == "copies":
        # Where a feature is two of values, so is a function of another one.
        X[:, 1] = X[:, 0] > 1
        X[:, 4] = (X[:, 0] > 1) & (X[:, 2] > 0)
    if kind == "nearly copies":
        X[:, 1] = X[:, 0] + 1e-3 * rng.normal(size=N_ROWS)
    if kind == "one row apart":
        X[:, 1] = X[:, 0] > 1
        X[7, 1] = 1 - X[7, 1]
    return X


def problem_of(kind, monkeypatch, pair_cells):
    """The least-squares problem of a forest."""
    X = rows(kind)
    y = X[:, 0] * X[:, 2] * X[:, 3] + X[:, 1] * X[:, 2] + X[:, 4] * X[:, 3]
    y = y + np.random.default_rng(1).normal(size=N_ROWS)
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    return coarse_problem(model, X, monkeypatch, main_cells=64, pair_cells=pair_cells)


def in_double(problem, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(direct_solve, "_MANY_UNKNOWNS", np.inf)
        return solve_directly(problem)


@pytest.mark.parametrize("pair_cells", [4, 12])
@pytest.mark.parametrize("kind", ["ordinary", "copies", "nearly copies", "one row apart"])
def test_tables_are_those_of_double_precision(kind, pair_cells, monkeypatch):
    n_refined = 0
    refine = direct_solve._solve_refined

    def count(*given):
        nonlocal n_refined
        solved = refine(*given)
        n_refined += solved is not None
        return solved

    problem = problem_of(kind, monkeypatch, pair_cells)
    monkeypatch.setattr(direct_solve, "_MANY_UNKNOWNS", 1)
    monkeypatch.setattr(direct_solve, "_ROWS_TO_AN_UNKNOWN", 1)
    monkeypatch.setattr(direct_solve, "_solve_refined", count)
    found, expected = solve_directly(problem), in_double(problem, monkeypatch)
    assert found.undetermined == expected.undetermined
    assert found.error <= max(1e-11, 10 * expected.error)
    assert distance(problem, found.tables, expected.tables) <= 1e-10
    if kind == "ordinary":
        assert n_refined == 1
    if kind == "copies":
        assert found.undetermined > 0


def test_the_error_of_a_refined_solution_covers_the_true_one(monkeypatch):
    problem = problem_of("copies", monkeypatch, 4)
    equations = normal_equations(problem, code_cells(problem))
    right = equations.scaling[:, None] * equations.right
    solved = direct_solve._solve_refined(equations, right, len(problem.terms.family))
    full = equations.image(np.eye(len(right)))
    exact = np.linalg.lstsq(full, right, rcond=1e-12)[0]
    solution, probes = np.split(solved.solution, [-N_PROBES], axis=1)
    distance_of_all = np.linalg.norm(solution - exact)
    assert distance_of_all <= 10 * np.linalg.norm(probes) + 1e-14 * np.linalg.norm(exact)
    assert solved.null.shape[1] > 0
    np.testing.assert_allclose(full @ solved.null, 0.0, atol=1e-13)


def test_equations_that_single_precision_cannot_solve_are_left(monkeypatch):
    problem = problem_of("ordinary", monkeypatch, 8)
    equations = normal_equations(problem, code_cells(problem))
    right = equations.scaling[:, None] * equations.right
    solved = direct_solve._solve_refined(equations, right, 20)
    assert solved is not None
    image = Equations.image

    def off(self, vectors):
        # As if the factor were one of another matrix.
        return 3 * image(self, vectors)

    monkeypatch.setattr(Equations, "image", off)
    assert direct_solve._solve_refined(equations, right, 20) is None
