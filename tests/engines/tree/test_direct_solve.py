"""Solutions with a factor in single precision, beside those with one in double precision."""

import numpy as np
import pytest

import treepurify as tp
from treepurify.engines.tree import direct_solve, projection
from treepurify.engines.tree.cell_coding import code_cells
from treepurify.engines.tree.direct_solve import solve_directly
from treepurify.engines.tree.gapped_solve import N_PROBES
from treepurify.engines.tree.normal_equations import Equations, normal_equations
from treepurify.engines.tree.solve import solve_tree

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


def problems(kind, monkeypatch):
    """The least-squares problems of the trees of a default booster."""
    xgboost = pytest.importorskip("xgboost")
    X = rows(kind)
    y = X[:, 0] * X[:, 2] * X[:, 3] + X[:, 1] * X[:, 2] + X[:, 4] * X[:, 3]
    y = y + np.random.default_rng(1).normal(size=N_ROWS)
    seen = []

    def keep(problem, *others):
        seen.append(problem)
        return solve_tree(problem, *others)

    monkeypatch.setattr(projection, "solve_tree", keep)
    model = xgboost.XGBRegressor(n_estimators=6).fit(X, y)
    tp.purify(model, X, progress=False, method="projection", order=2)
    return seen


def in_double(problem, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(direct_solve, "_MANY_UNKNOWNS", np.inf)
        return solve_directly(problem)


@pytest.mark.parametrize("kind", ["ordinary", "copies", "nearly copies", "one row apart"])
def test_tables_are_those_of_double_precision(kind, monkeypatch):
    n_refined, undetermined = 0, 0
    refine = direct_solve._solve_refined

    def count(*given):
        nonlocal n_refined
        solved = refine(*given)
        n_refined += solved is not None
        return solved

    seen = problems(kind, monkeypatch)
    monkeypatch.setattr(direct_solve, "_ROWS_TO_AN_UNKNOWN", 1)
    monkeypatch.setattr(direct_solve, "_solve_refined", count)
    for problem in seen:
        found, expected = solve_directly(problem), in_double(problem, monkeypatch)
        assert found.undetermined == expected.undetermined
        undetermined += found.undetermined
        assert found.error <= max(1e-11, 10 * expected.error)
        for subset, table in expected.tables.items():
            square = (found.tables[subset] - table)[..., 0] ** 2
            for feature in reversed(subset):
                square = square @ problem.margins[problem.terms.position[feature]]
            assert np.sqrt(square) <= 1e-10 * problem.spread()
    if kind == "ordinary":
        assert n_refined == len(seen)
    if kind == "copies":
        assert n_refined > 0
        assert undetermined > 0


def test_the_error_of_a_refined_solution_covers_the_true_one(monkeypatch):
    for problem in problems("copies", monkeypatch)[:3]:
        coding = code_cells(problem)
        equations = normal_equations(problem, coding)
        right = equations.scaling[:, None] * equations.right
        solved = direct_solve._solve_refined(equations, right, len(problem.terms.family))
        if solved is None:
            continue
        full = equations.image(np.eye(len(right)))
        exact = np.linalg.lstsq(full, right, rcond=1e-12)[0]
        solution, probes = np.split(solved.solution, [-N_PROBES], axis=1)
        distance = np.linalg.norm(solution - exact)
        assert distance <= 10 * np.linalg.norm(probes) + 1e-14 * np.linalg.norm(exact)
        np.testing.assert_allclose(full @ solved.null, 0.0, atol=1e-13)


def test_equations_that_single_precision_cannot_solve_are_left(monkeypatch):
    problem = problems("ordinary", monkeypatch)[0]
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
