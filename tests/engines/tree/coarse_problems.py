"""The least-squares problems that projections on coarse cells solve."""

import numpy as np

import treepurify as tp
from treepurify.engines.tree import coarse_projection


def coarse_problem(model, X, monkeypatch, *, main_cells=None, pair_cells=None, **options):
    """The problem of a model on some rows."""
    seen = []
    solve = coarse_projection.solve_directly

    def keep(problem):
        seen.append(problem)
        return solve(problem)

    settings = tp.options.CoarseProjection(main_cells=main_cells, pair_cells=pair_cells)
    with monkeypatch.context() as patch:
        patch.setattr(coarse_projection, "solve_directly", keep)
        tp.purify(model, X, progress=False, method=settings, **{"weights": "empirical", **options})
    return seen[0]


def spread(problem):
    """The largest standard deviation of the margin over the outputs."""
    return float(np.sqrt((problem.weights @ problem.target**2).max()))


def distance(problem, tables, others):
    """The norm of a difference where features are independent, in deviations of the margin."""
    total = 0.0
    for subset, table in tables.items():
        square = (table - others[subset])[..., 0] ** 2
        for feature in reversed(subset):
            square = square @ problem.margins[problem.terms.position[feature]]
        total += float(square)
    return np.sqrt(total) / spread(problem)


def on_rows(problem, tables):
    """The sum of the tables on the rows."""
    return sum(
        table[tuple(problem.cells[:, problem.terms.position[j]] for j in subset)]
        for subset, table in tables.items()
    )
