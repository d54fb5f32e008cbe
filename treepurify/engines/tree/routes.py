"""The routes to the effects of a model, in the order in which they are tried."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Literal, NamedTuple, get_args

import numpy as np

from treepurify.arguments import check_choice, check_number, check_whole
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Problem, closed_subsets, lay_out
from treepurify.engines.tree.closed_form import purify_by_closed_form
from treepurify.engines.tree.coarse_projection import CoarseProjection, fit_on_coarse_cells
from treepurify.engines.tree.exact import purify_exactly
from treepurify.engines.tree.nearest_sum import (
    FittedTables,
    count_unknowns,
    fitted_result,
    has_few_cells,
    is_joint_fit,
    low_orders,
    purify_jointly,
)
from treepurify.engines.tree.projection import project
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.purification.unidentified import MOST_SLICES
from treepurify.typing import Indices

__all__ = ["ROUTES", "Method", "TreeProjection", "TreeRoute", "check_method", "choose_route"]

MethodName = Literal["auto", "exact", "closed-form", "projection", "coarse", "mass-moving"]

_PAIR, _MOST_PROJECTED = 2, 3
# Exact effects are preferred to fitted ones as long as they take less than two seconds, or less
# than a few times the time of the projection.
_QUICK = 2e9
_EXACT_IS_WORTH = 4
# Pairs of the cells of a tree with more leaves are too many to be solved for, and fit noise.
_MANY_LEAVES = 256
_COARSE = 'method="coarse"'


@dataclass(frozen=True)
class TreeProjection:
    """The projection of each tree (``method="projection"`` of `purify`), with chosen options.

    Parameters
    ----------
    tolerance : float
        Largest error of a tree's projection, as estimated and relative to the largest standard
        deviation of the values of a tree, at which the result counts as converged. Equations are
        factored, so the error is rounding.
    sample_rows : int
        Largest number of rows on which trees are projected if rows come in batches: a sample, in
        which rows of larger weight are more likely. Rows in memory are all used.
    seed : int
        Seed of that sample. It depends on the positions of the rows, by file and row number, and
        not on how they are divided into batches.

    See Also
    --------
    treepurify.purify : Takes it as `method`.
    treepurify.options.CoarseProjection : Projection on coarse cells.

    Examples
    --------
    >>> import treepurify as tp
    >>> tp.options.TreeProjection(1e-6).tolerance
    1e-06
    """

    tolerance: float = 1e-6
    sample_rows: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_number(
            "the tolerance of a projection", self.tolerance, least=0, most=1, open_ends=True
        )
        check_whole("sample_rows of a projection", self.sample_rows, least=1)
        check_whole("seed", self.seed, least=0)


Method = MethodName | TreeProjection | CoarseProjection


def check_method(method: Method) -> None:
    """Raise `InvalidInputError` unless the method is known."""
    if not isinstance(method, TreeProjection | CoarseProjection):
        advice = ", or a TreeProjection or a CoarseProjection"
        check_choice("method", method, get_args(MethodName), advice=advice)


class TreeRoute(NamedTuple):
    """A way to the effects of a model.

    Parameters
    ----------
    name : str
        As in ``diagnostics["method"]``.
    methods : tuple of str
        The values of `method` that may lead to it.
    applies : callable
        Whether it is taken, unless one before it is. Raises `InvalidInputError` if it is requested
        and does not fit the measure or the model.
    run : callable
        Returns the effects.
    """

    name: str
    methods: tuple[MethodName, ...]
    applies: Callable[[Problem], bool]
    run: Callable[[Problem], Result]


def choose_route(problem: Problem) -> tuple[Problem, TreeRoute]:
    """Return the first of `ROUTES` that applies, and the model on the cells of all its cuts.

    The cells are not laid out for the coarse route, which has cells of its own.
    """
    name = _method_name(problem)
    routes = [route for route in ROUTES if name in route.methods]
    coarse = next((route for route in routes if route.name == "coarse"), None)
    if coarse is not None and coarse.applies(problem) and not _may_fit_jointly(problem):
        return problem, coarse
    problem = replace(problem, cells=lay_out(problem))
    return problem, next(route for route in routes if route.applies(problem))


def reads_rows(problem: Problem, route: TreeRoute) -> bool:
    """Return whether a route reads rows one by one, not only how many are in each cell."""
    if route.name == "exact":
        return _is_cut_short(problem)
    return route.name in ("coarse", "joint", "projection")


def projection_of(problem: Problem) -> TreeProjection:
    """Return the settings of the projection of single trees."""
    return problem.method if isinstance(problem.method, TreeProjection) else TreeProjection()


def coarse_projection_of(problem: Problem) -> CoarseProjection:
    """Return the settings of the projection on coarse cells."""
    return problem.method if isinstance(problem.method, CoarseProjection) else CoarseProjection()


def _method_name(problem: Problem) -> MethodName:
    if isinstance(problem.method, CoarseProjection):
        return "coarse"
    name: MethodName = problem.method
    return "projection" if isinstance(problem.method, TreeProjection) else name


def _is_low(problem: Problem) -> bool:
    """Return whether effects have fewer features than paths or tables, which are dependent."""
    order = problem.kept_terms.order
    return order is not None and order < problem.depth and not problem.weighting.is_product


def _is_of_rows(problem: Problem) -> bool:
    return problem.weighting.share_of_rows == 1.0 and problem.layout.given_mass is None


def _fits_jointly(problem: Problem) -> bool:
    """All effects of a low order at once: rows determine all cells, or all cells stand for rows."""
    is_ensemble = isinstance(problem.model, TreeEnsemble)
    if not _is_low(problem):
        return False
    if not _is_of_rows(problem):
        return is_ensemble and has_few_cells(problem.layout)
    order = problem.kept_terms.order or 1
    sizes = [problem.layout.occupied_cells(size) for size in range(1, order + 1)]
    is_determined = is_joint_fit(count_unknowns(sizes), _effective_rows(problem))
    is_beyond_projection = is_ensemble and order > _MOST_PROJECTED
    return is_determined or is_beyond_projection or problem.method == "exact"


def _is_coarse(problem: Problem) -> bool:
    """Few intervals, under the rows, up to pairs: a tree has more than 256 leaves."""
    model, share = problem.model, problem.weighting.share_of_rows
    if _method_name(problem) == "coarse":
        if not isinstance(model, TreeEnsemble):
            raise InvalidInputError(f"{_COARSE} is for tree ensembles only: leave method out")
        if share != 1.0:
            raise InvalidInputError(
                f"{_COARSE} averages over rows, and does not apply to "
                f'weights={problem.weighting.name!r}: pass weights="empirical", or '
                'method="projection"'
            )
        return True
    order = problem.kept_terms.order
    if not isinstance(model, TreeEnsemble) or share != 1.0 or order is None or order > _PAIR:
        return False
    if model.leaves_in_trees().max(initial=0) <= _MANY_LEAVES:
        return False
    # With more rows than cells, trees of many leaves are small tables.
    n_rows = 0 if problem.stream is None else problem.stream.expected_rows
    return prod(_cells_of_features(model)) > n_rows


def _is_exact(problem: Problem) -> bool:
    """All cuts: up to two features on a path, or dependent features and little work."""
    if problem.method == "exact" or not isinstance(problem.model, TreeEnsemble):
        return True
    is_low, share = _is_low(problem), problem.weighting.share_of_rows
    if not is_low and problem.depth <= _PAIR:
        return True
    if problem.weighting.is_product:
        return False
    if share is None or problem.kept_terms.order is None:
        return True
    # No path tests more features than effects have: a projection of each tree is exact, too.
    return not (is_low and share == 1.0) and _is_worth_solving(problem)


def _is_closed(problem: Problem) -> bool:
    """The formula for trees of any depth: features are independent."""
    if problem.method == "closed-form":
        _check_trees(problem)
        if not problem.weighting.is_product:
            raise InvalidInputError(
                'method="closed-form" needs independent features: weights="independent" or '
                '"uniform"'
            )
    return problem.weighting.is_product


def _is_projected(problem: Problem) -> bool:
    """Each tree by itself, whatever its depth, under rows or a mixture with them."""
    _check_trees(problem)
    if problem.weighting.share_of_rows is None:
        raise InvalidInputError(
            f'method="projection" needs rows, but weights={problem.weighting.name!r} uses none: '
            'pass weights="empirical" or "laplace"'
        )
    return True


def _check_trees(problem: Problem) -> None:
    if not isinstance(problem.model, TreeEnsemble):
        name = _method_name(problem)
        raise InvalidInputError(f"method={name!r} is for tree ensembles only: leave method out")


def _run_jointly(problem: Problem) -> Result:
    other = None
    if problem.method == "auto" and not problem.trusts_rows and problem.given is not None:
        other = partial(_apart, problem)
    return purify_jointly(problem, other)


def _apart(problem: Problem) -> FittedTables:
    """Return effects of a low order that were not fitted to the whole model at once."""
    if problem.layout.effects is None:
        return project(problem, projection_of(problem).tolerance)
    return low_orders(problem, purify_exactly(problem, "exact"))


def _run_coarse(problem: Problem) -> Result:
    return fitted_result(problem, fit_on_coarse_cells(problem, coarse_projection_of(problem)))


def _run_exactly(problem: Problem) -> Result:
    result = purify_exactly(problem, "exact")
    if problem.given is None or not _is_cut_short(problem):
        return result
    return fitted_result(problem, low_orders(problem, result))


def _run_projection(problem: Problem) -> Result:
    return fitted_result(problem, project(problem, projection_of(problem).tolerance))


ROUTES = (
    TreeRoute("joint", ("auto", "exact"), _fits_jointly, _run_jointly),
    TreeRoute("coarse", ("auto", "coarse"), _is_coarse, _run_coarse),
    TreeRoute("exact", ("auto", "exact"), _is_exact, _run_exactly),
    TreeRoute("closed-form", ("auto", "closed-form"), _is_closed, purify_by_closed_form),
    TreeRoute("projection", ("auto", "projection"), _is_projected, _run_projection),
    TreeRoute(
        "mass-moving",
        ("mass-moving",),
        lambda problem: True,
        lambda problem: purify_exactly(problem, "mass-moving"),
    ),
)
"""With `method` ``"auto"`` the first that applies is taken."""


def _is_cut_short(problem: Problem) -> bool:
    """Return whether exact effects of all orders are cut at a lower one under dependence."""
    return _is_low(problem) and problem.weighting.share_of_rows == 1.0


def _effective_rows(problem: Problem) -> float:
    if problem.given is not None:
        return float(problem.given.effective)
    return 0 if problem.stream is None else problem.stream.expected_rows


def _may_fit_jointly(problem: Problem) -> bool:
    """Return whether all effects of an order may be fitted at once, before cells are known."""
    model, order = problem.model, problem.kept_terms.order
    if problem.method != "auto" or order is None or not isinstance(model, TreeEnsemble):
        return False
    sizes = [_cells_of_features(model)] * order
    return is_joint_fit(count_unknowns(sizes), _effective_rows(problem))


def _cells_of_features(model: TreeEnsemble) -> list[int]:
    """Return the number of cells of each feature that a model uses, special ones aside."""
    sizes = []
    for j in model.used_features:
        spec = model.features[j]
        n_cuts = len(np.unique(model.cut[model.feature == j]))
        sizes.append(spec.n_codes if spec.is_categorical else n_cuts + 1)
    return sizes


def _is_worth_solving(problem: Problem) -> bool:
    """Return whether all tables fit, and solving them takes little more time than projecting."""
    rows, n_outputs = problem.rows, problem.model.n_outputs
    if rows is None:
        return True
    tables = _union_grid_tables(problem, rows.n_rows)
    if tables is None:
        return False
    work = _union_grid_work(tables, problem.grid, n_outputs)
    others = _projection_work(problem.ensemble.leaves_in_trees(), rows.n_rows)
    return work <= max(_QUICK, _EXACT_IS_WORTH * others)


def _union_grid_tables(problem: Problem, n_rows: int) -> list[Subset] | None:
    """Return the tables on the union grid; None where they do not fit or would fit noise.

    With more cells than rows an exact solve would fit the noise of nearly empty cells.
    """
    grid, paths = problem.grid, problem.boxes.subsets
    sizes = [axis.n_cells for axis in grid.axes]
    if max(prod(sizes[j] for j in path) for path in paths) > n_rows:
        return None
    try:
        return closed_subsets(paths, grid, problem.model.n_outputs, problem.memory_budget)
    except MemoryBudgetError:
        return None


def _union_grid_work(tables: list[Subset], grid: Grid, n_outputs: int) -> float:
    """Return about how many nanoseconds of one core purifying these tables takes.

    A table of three features and more takes some fifty conjugate-gradient steps, of passes
    over its cells and calls around them, and the ranks that say what is undetermined, cubic
    in its slices. A thousand small tables are slow where one large table is not.
    """
    work = 0.0
    for subset in tables:
        sizes = [grid.axes[j].n_cells for j in subset]
        cells, size = prod(sizes), len(subset)
        if size <= _PAIR:
            work += 1e5 + 10.0 * cells * min(sizes)
            continue
        slices = sum(cells // n_cells for n_cells in sizes)
        work += 50 * size * (6e4 + 5 * cells * n_outputs)
        work += 2 * slices**3 / 9 if slices <= MOST_SLICES else 0.0
    return work


def _projection_work(leaves_in_trees: Indices, n_rows: int) -> float:
    """Return about how many nanoseconds of one core projecting the trees takes.

    A balanced tree with n leaves has some n log2(n) products, of which every two are counted, 64
    rows at a time, and whose equations are factored.
    """
    n_leaves = leaves_in_trees.astype(np.float64)
    products = n_leaves * np.log2(n_leaves)
    work = 2e6 + products**3 / 30 + n_rows * (20.0 + products**2 / 8000)
    return float(work.sum())
