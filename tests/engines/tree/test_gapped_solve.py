"""Equations with hundreds of undetermined directions, beside dense least squares."""

from dataclasses import replace

import numpy as np
import pytest

import treepurify as tp
from tests.reference.projection import project_one_tree
from treepurify.engines.tree import direct_solve, projection
from treepurify.engines.tree.direct_solve import solve_directly


def problems(monkeypatch, n_trees=3, n_rows=1500, order=3, prepare=None, weights=None):
    """The least-squares problems of the trees of a default booster; many cells are empty."""
    from lightgbm import LGBMRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6)) + rng.normal(size=(n_rows, 1))
    if prepare is not None:
        prepare(X)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * X[:, 3] * X[:, 4] * X[:, 5]
    model = LGBMRegressor(n_estimators=n_trees, learning_rate=0.5, verbose=-1).fit(X, y)
    seen = []

    def keep(problem, *_):
        seen.append(problem)
        return solve_directly(problem)

    with monkeypatch.context() as patch:
        patch.setattr(projection, "solve_tree", keep)
        tp.purify(model, X, progress=False, method="projection", order=order, sample_weight=weights)
    return seen


def distance(problem, tables, others):
    """The norm of a difference where features are independent, in deviations of the tree."""
    total = 0.0
    for subset, table in tables.items():
        if subset:
            square = (table - others[subset])[..., 0] ** 2
            for feature in reversed(subset):
                square = square @ problem.margins[problem.terms.position[feature]]
            total += float(square)
    return np.sqrt(total) / problem.spread()


def on_rows(problem, tables):
    """The sum of the tables on the rows."""
    return sum(
        table[tuple(problem.cells[:, problem.terms.position[j]] for j in subset)]
        for subset, table in tables.items()
    )


def carefully(problem, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(direct_solve, "solve_with_gaps", lambda *_: None)
        return solve_directly(problem)


def dense(problem):
    own = {j: np.arange(len(cells)) for j, cells in problem.terms.local_cells.items()}
    cells = {j: problem.cells[:, i] for j, i in problem.terms.position.items()}
    sizes = {j: np.arange(len(problem.margins[i])) for j, i in problem.terms.position.items()}
    terms = replace(problem.terms, local_cells={j: sizes[j] for j in own})
    return project_one_tree(cells, problem.weights, problem.target, terms)


@pytest.mark.parametrize("order", [2, 3])
def test_tables_are_those_of_dense_least_squares(order, monkeypatch):
    seen = problems(monkeypatch, order=order)

    def refuse(*_):
        raise AssertionError("not solved with gaps")

    monkeypatch.setattr(direct_solve, "_solve_factored", refuse)
    for problem in seen:
        found = solve_directly(problem)
        assert found.undetermined > (100 if order > 2 else 0)
        assert distance(problem, found.tables, dense(problem)) <= 1e-10
        assert found.error <= 1e-9


def test_both_ways_to_decide_agree(monkeypatch):
    for problem in problems(monkeypatch):
        found, careful = solve_directly(problem), carefully(problem, monkeypatch)
        assert found.undetermined == careful.undetermined
        assert distance(problem, found.tables, careful.tables) <= 1e-10


def copy_all_but_one_row(X):
    X[:, 1] = X[:, 0]
    X[7, 1] = -X[7, 0]


@pytest.mark.parametrize("weight", [1e-4, 1e-3])
def test_directions_that_hardly_hold_their_last_unknown_are_found(weight, monkeypatch):
    # A ridge gives them pivots above what is weak.
    weights = np.ones(1500)
    weights[7] = weight
    for problem in problems(monkeypatch, prepare=copy_all_but_one_row, weights=weights, order=2):
        found, careful = solve_directly(problem), carefully(problem, monkeypatch)
        assert found.undetermined == careful.undetermined
        assert distance(problem, careful.tables, dense(problem)) <= 1e-6


@pytest.mark.parametrize("weight", [1e-6, 1e-4, 1.0])
def test_the_error_is_near_the_true_one(weight, monkeypatch):
    weights = np.ones(1500)
    weights[7] = weight
    for given in problems(monkeypatch, prepare=copy_all_but_one_row, weights=weights, order=2):
        # What leaves no rest is known more exactly from dense least squares.
        problem = replace(given, target=on_rows(given, solve_directly(given).tables))
        for found in solve_directly(problem), carefully(problem, monkeypatch):
            true = distance(problem, found.tables, dense(problem)) * problem.spread()
            assert true <= 10 * found.error + 1e-11 * problem.spread()
            assert found.error <= 1e-6


@pytest.mark.parametrize("weight", [1e-7, 1e-5, 1e-3])
def test_what_little_mass_determines_is_not_taken_for_undetermined(weight, monkeypatch):
    weights = np.ones(1500)
    weights[7] = weight
    careful = 0
    solve = direct_solve._solve_factored

    def count(*given):
        nonlocal careful
        careful += 1
        return solve(*given)

    monkeypatch.setattr(direct_solve, "_solve_factored", count)
    for problem in problems(monkeypatch, prepare=copy_all_but_one_row, weights=weights, order=2):
        found = solve_directly(problem)
        assert distance(problem, found.tables, dense(problem)) <= 1e-6
    # Gaps cannot tell what less than 1e-7 of the mass determines.
    assert (careful > 0) == (weight < 1e-4)
