"""Solutions by the rows under weights of very different size, beside dense least squares."""

import numpy as np
import pytest

from tests.engines.tree.test_gapped_solve import dense, distance
from treepurify.engines.tree.row_solve import solve_by_rows
from treepurify.engines.tree.solve import solve_tree
from treepurify.engines.tree.tree_problem import TreeProblem, terms_on_cells


def problem_of_copies(seed, decades):
    """Twenty rows of a feature of eight cells and its copy, and of a third feature."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 8, (20, 3)).astype(np.uint8)
    cells[:, 1] = cells[:, 0]
    cells[:8, 2] = np.arange(8)
    weights = 10.0 ** rng.uniform(-decades, 0, 20)
    weights /= weights.sum()
    target = rng.normal(size=(20, 1))
    target -= weights @ target
    local = {j: np.arange(int(cells[:, j].max()) + 1) for j in range(3)}
    terms = terms_on_cells(local, [(0, 1), (0, 2), (1, 2)])
    margins = terms.row_margins(cells, weights)
    return TreeProblem(terms, cells, target, weights, 0.0, margins, 0.0, (), np.zeros((0, 1)))


@pytest.mark.parametrize("decades", [0, 4, 8])
def test_the_error_covers_the_true_one_or_another_way_is_taken(decades):
    taken = 0
    for seed in range(20):
        problem = problem_of_copies(seed, decades)
        expected, fit = dense(problem), solve_tree(problem, 1e-8, 1 << 30)
        assert fit.undetermined >= 0
        assert distance(problem, fit.tables, expected) <= 1e-6
        by_rows = solve_by_rows(problem)
        if by_rows is not None:
            true = distance(problem, by_rows.tables, expected) * problem.spread()
            assert true <= 2 * by_rows.error + 1e-11 * problem.spread()
            taken += 1
    assert taken == 20 or decades > 0
