"""Solve the least-squares problem of one tree, the cheaper way or the one that works."""

import numpy as np

from treepurify.engines.tree.direct_solve import solve_directly
from treepurify.engines.tree.iterative_solve import solve_by_steps
from treepurify.engines.tree.normal_equations import count_unknowns, work_of_equations
from treepurify.engines.tree.row_solve import row_work, solve_by_rows
from treepurify.engines.tree.tree_problem import TreeFit, TreeProblem
from treepurify.threads import available_threads

__all__ = ["solve_safely", "solve_tree"]

# Steps that conjugate gradients take on ordinary trees, for comparing the work of both solves, and
# where few joint cells have rows: there some tenth of the directions is undetermined.
_USUAL_STEPS, _STEPS_OF_FEW_ROWS = 700, 2000
_FEW_ROWS, _TENTH = 4, 10


def solve_tree(problem: TreeProblem, tolerance: float, memory_budget: int) -> TreeFit:
    """Return the projection of a tree by rows, by a factorisation or by steps: what is cheapest."""
    unknowns = count_unknowns(problem).number
    room = memory_budget // available_threads()
    by_factor = _work_of_factor(problem, unknowns)
    if _is_by_rows(problem, unknowns, room) and row_work(problem) <= by_factor:
        fit = solve_by_rows(problem)
        # Where little mass makes it round too much, scaled equations are better.
        if fit is not None and fit.error <= tolerance * problem.spread():
            return fit
    if _is_direct(problem, unknowns, by_factor, room):
        return solve_safely(problem, tolerance)
    return solve_by_steps(problem, tolerance)


def solve_safely(problem: TreeProblem, tolerance: float) -> TreeFit:
    """Return the projection by a factorisation, or by steps where rounding prevents one."""
    try:
        return solve_directly(problem)
    except np.linalg.LinAlgError:
        # Steps need no factorisation, and tell where they do not converge.
        return solve_by_steps(problem, tolerance)


def _is_by_rows(problem: TreeProblem, unknowns: int, room: int) -> bool:
    """Return whether there are fewer equations for the rows, and these fit the memory."""
    n_rows = len(problem.cells)
    matrices = 6 + len(problem.margins)
    return problem.share == 0 and n_rows < unknowns and 8 * matrices * n_rows**2 <= room


def _is_direct(problem: TreeProblem, unknowns: int, by_factor: float, room: int) -> bool:
    """Return whether the normal equations fit the memory and are cheaper than steps."""
    n_rows, terms = len(problem.cells), problem.terms
    # The equations, their factor, and the norm of empty cells.
    if 32 * unknowns**2 > room:
        return False
    a_step = 2 * n_rows * len(terms.subsets) + 20 * int(terms.base[-1]) + 1e5
    steps = _STEPS_OF_FEW_ROWS if n_rows < _FEW_ROWS * unknowns else _USUAL_STEPS
    return by_factor <= steps * a_step


def _work_of_factor(problem: TreeProblem, unknowns: int) -> float:
    """Return how many nanoseconds of one core a factorisation takes, as measured.

    Beside its share of the equations, a row takes one for each set of features.
    """
    n_rows = len(problem.cells)
    of_rows = n_rows * len(problem.terms.family) + min(work_of_equations(problem))
    return _factor_work(unknowns, n_rows) + of_rows


def _factor_work(unknowns: int, n_rows: int) -> float:
    """Return how many nanoseconds factoring the equations and solving them takes.

    A factorisation does some 80 multiplications in one. What rows leave undetermined takes a
    solution and inner products besides. That is some tenth of the unknowns, or a quarter of what is
    more than rows, much of which is empty.
    """
    undetermined = max(0, unknowns - n_rows) // 4
    if n_rows < _FEW_ROWS * unknowns:
        undetermined = max(undetermined, unknowns // _TENTH)
    by_unknowns = unknowns**2 / 25 + undetermined * unknowns / 10
    return unknowns**3 / 250 + undetermined * by_unknowns
