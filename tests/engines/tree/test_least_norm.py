"""Solutions of least norm beside exact ones, in fractions."""

from fractions import Fraction

import numpy as np
import pytest

from tests.reference.rational import rank, solve
from treepurify.engines.tree.table_fit import least_norm

# Rows, cells of each of three features, sides of each, spread of the weights in powers of two.
PROBLEMS = {
    "many rows": (128, 4, 3, 0),
    "dependent equations and products without rows": (16, 4, 3, 0),
    "one row": (1, 4, 3, 0),
    "sides that add up to one": (64, 3, 6, 0),
    "few rows and sides that add up to one": (8, 3, 6, 0),
    "weights over three decades": (64, 4, 3, 10),
    "few rows of weights over six decades": (16, 4, 3, 20),
    "rows of weights over six decades and sides that add up to one": (32, 3, 5, 20),
}


N_DRAWN = 12


def draw(seed, n_rows, n_cells, n_sides, spread):
    """Products of sides of three features: on the rows and where these are independent.

    All numbers are whole, so that equations that depend on each other do so exactly.
    """
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, n_cells, (n_rows, 3))
    weights = 2 ** rng.integers(0, spread + 1, n_rows)
    in_cells = np.indices((n_cells,) * 3).reshape(3, -1).T
    margins = [np.bincount(cells[:, j], weights, n_cells).astype(int) for j in range(3)]
    masses = np.prod([margins[j][in_cells[:, j]].astype(object) for j in range(3)], axis=0)
    has_mass = masses > 0
    sides = rng.random((3, n_sides, n_cells)) < 0.5
    single = [(j, i) for j in range(3) for i in range(n_sides)]
    pairs = [(a, b) for a in single for b in single if a[0] < b[0]]
    some = [pair for pair in pairs if rng.random() < 20 / len(pairs)]
    chosen = [(), *((side,) for side in single), *some]

    def values(cells):
        columns = np.ones((len(cells), len(chosen)), dtype=int)
        for u, product in enumerate(chosen):
            for j, i in product:
                columns[:, u] &= sides[j, i, cells[:, j]]
        return columns

    on_rows, everywhere = values(cells), values(in_cells[has_mass])
    kept = everywhere.any(axis=0)
    on_rows, everywhere = on_rows[:, kept], everywhere[:, kept]
    matrix = on_rows.T @ (weights[:, None] * on_rows)
    norm = everywhere.T @ (masses[has_mass][:, None] * everywhere)
    right = on_rows.T @ (weights[:, None] * rng.integers(-9, 10, (n_rows, 2)))
    total = int(weights.sum())
    return matrix, right, norm, total


def solved(matrix, right, norm, total, ridge=1e-5):
    """The fit, for which equations are scaled as those of rows: the total weight is one."""
    gram, share = matrix / total, (norm / total**3).astype(float)
    return least_norm(gram, gram + ridge * share, right / total)


def exact(matrix, right, norm):
    """The solution of least norm by Lagrange multipliers."""
    system = np.block([[norm, matrix], [matrix, np.zeros_like(matrix)]])
    sides = np.concatenate([np.zeros_like(right), right])
    return np.array(solve(fractions(system), fractions(sides))[: len(matrix)])


def fractions(matrix):
    return [[Fraction(entry) for entry in row] for row in matrix.tolist()]


def length(solution, norm, total):
    """The norm of a solution in fractions, of which the root is taken."""
    square = (solution * (norm.astype(object) @ solution)).sum()
    return float(np.sqrt(float(square / total**3)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_solutions_are_those_of_fractions(name):
    for seed in range(N_DRAWN):
        matrix, right, norm, total = draw(seed, *PROBLEMS[name])
        fit = solved(matrix, right, norm, total)
        expected = exact(matrix, right, norm)
        wrong = length(np.array(fractions(fit.solution)) - expected, norm, total)
        # A hundred steps leave short what only rows of a millionth of the weight determine.
        tolerance = 1e-5 if "six decades" in name else 1e-6
        assert wrong <= tolerance * length(expected, norm, total)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "decades" not in name])
def test_undetermined_unknowns_are_about_counted_without_those_without_rows(name):
    for seed in range(N_DRAWN):
        matrix, right, norm, total = draw(seed, *PROBLEMS[name])
        fit = solved(matrix, right, norm, total)
        empty = matrix.diagonal() == 0
        expected = (
            rank(norm.tolist()) - rank(matrix.tolist()) - rank(norm[empty][:, empty].tolist())
        )
        assert abs(fit.undetermined - expected) <= 1 + expected // 10
