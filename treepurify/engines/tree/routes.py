"""The routes to the effects of a model, in the order in which they are tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from treepurify.arguments import check_choice, check_number, check_whole
from treepurify.engines.common.finish import Result
from treepurify.engines.common.problem import Layout, Problem, closed_subsets, lay_out
from treepurify.engines.tree.closed_form import purify_by_closed_form
from treepurify.engines.tree.coarse_projection import (
    CoarseProjection,
    fit_on_coarse_cells,
    lay_out_coarse,
)
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
from treepurify.grids.grid import EncodedRows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.purification.unidentified import MOST_SLICES

MethodName = Literal["auto", "exact", "closed-form", "projection", "coarse", "mass-moving"]

_PAIR, _MOST_PROJECTED = 2, 3
# Exact effects are preferred to fitted ones as long as they take a few seconds, in nanoseconds.
_LITTLE_WORK = 4e9
# Pairs of the cells of a tree with more leaves are too many to be solved for, and fit noise.
_MANY_LEAVES = 256


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
Settings = TypeVar("Settings", TreeProjection, CoarseProjection)


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
        Whether it is taken, unless one before it is.
    run : callable
        Returns the effects.
    lay_out : callable
        Returns the model on its cells: those of all its cuts, unless it has cells of its own. Then
        `applies` is asked before any are made.
    reads_rows : callable
        Whether it reads rows one by one, not only how many are in each cell.
    options : TreeProjection or CoarseProjection
        The settings that it takes from `method`, where these are not given.
    takes_margins : bool
        Whether it reads the mass of single features only.
    """

    name: str
    methods: tuple[MethodName, ...]
    applies: Callable[[Problem], bool]
    run: Callable[[Problem], Result]
    lay_out: Callable[[Problem], Layout] = lay_out
    reads_rows: Callable[[Problem], bool] = lambda _: False
    options: TreeProjection | CoarseProjection = TreeProjection()
    takes_margins: bool = False


def choose_route(problem: Problem) -> tuple[Problem, TreeRoute]:
    """Return the first of `ROUTES` that applies, and the model on the cells of all its cuts.

    A route with cells of its own gets none. The last route of each method always applies.
    """
    name = _method_name(problem)
    _check_request(problem, name)
    routes = [route for route in ROUTES if name in route.methods]
    laid_out = problem
    for route in routes:
        if route.lay_out is not lay_out:
            if route.applies(problem):
                return problem, route
            continue
        if laid_out is problem:
            laid_out = replace(problem, layout=lay_out(problem))
        if route.applies(laid_out):
            break
    return laid_out, route


def _check_request(problem: Problem, name: MethodName) -> None:
    """Raise where a requested method is not for the model or the measure."""
    weighting, share = problem.weighting, problem.weighting.share_of_rows
    needs = {
        "coarse": (
            share == 1.0,
            f"averages over rows, and does not apply to weights={weighting.name!r}: pass "
            'weights="empirical", or method="projection"',
        ),
        "closed-form": (
            weighting.is_product,
            'needs independent features: weights="independent" or "uniform"',
        ),
        "projection": (
            share is not None,
            f"needs rows, but weights={weighting.name!r} uses none: pass "
            'weights="empirical" or "laplace"',
        ),
    }
    if name in needs:
        is_met, words = needs[name]
        if not isinstance(problem.model, TreeEnsemble):
            is_met, words = False, "is for tree ensembles only: leave method out"
        if not is_met:
            raise InvalidInputError(f'method="{name}" {words}')


def settings_of(problem: Problem, default: Settings) -> Settings:
    """Return the settings that were requested with the method, or those of a default."""
    return problem.method if isinstance(problem.method, type(default)) else default


def _method_name(problem: Problem) -> MethodName:
    names: dict[type, MethodName] = {CoarseProjection: "coarse", TreeProjection: "projection"}
    name: MethodName = names.get(type(problem.method), problem.method)
    return name


def _is_low(problem: Problem) -> bool:
    """Return whether effects have fewer features than paths or tables, which are dependent."""
    order = problem.kept_terms.order
    return order is not None and order < problem.depth and not problem.weighting.is_product


def _is_cut_short(problem: Problem) -> bool:
    """Return whether exact effects of all orders are cut at a lower one under dependence."""
    return _is_low(problem) and problem.weighting.share_of_rows == 1.0


def _effective_rows(problem: Problem) -> float:
    if problem.source_rows is not None:
        return float(problem.source_rows.effective)
    return 0 if problem.stream is None else problem.stream.expected_rows


def _is_coarse(problem: Problem) -> bool:
    """Few intervals, under the rows, up to pairs: a tree has more than 256 leaves."""
    model, order = problem.model, problem.kept_terms.order
    if _method_name(problem) == "coarse":
        return True
    if order is None or order > _PAIR or problem.weighting.share_of_rows != 1.0:
        return False
    if not isinstance(model, TreeEnsemble):
        return False
    if model.leaves_in_trees().max(initial=0) <= _MANY_LEAVES:
        return False
    sizes = _cells_of_features(model)
    # With more rows than cells, trees of many leaves are small tables.
    n_rows = 0 if problem.stream is None else problem.stream.expected_rows
    all_at_once = is_joint_fit(count_unknowns([sizes] * order), _effective_rows(problem))
    return prod(sizes) > n_rows and not all_at_once


def _cells_of_features(model: TreeEnsemble) -> list[int]:
    """Return the number of cells of each feature that a model uses, special ones aside."""
    return [
        model.features[j].n_codes
        if model.features[j].is_categorical
        else len(np.unique(model.cut[model.feature == j])) + 1
        for j in model.used_features
    ]


def _fits_jointly(problem: Problem) -> bool:
    """All effects of a low order at once: rows determine all cells, or all cells stand for rows."""
    if not _is_low(problem):
        return False
    is_ensemble, order = isinstance(problem.model, TreeEnsemble), problem.kept_terms.order or 1
    if problem.weighting.share_of_rows != 1.0 or problem.layout.given_mass is not None:
        return is_ensemble and has_few_cells(problem.layout)
    if problem.method == "exact" or (is_ensemble and order > _MOST_PROJECTED):
        return True
    sizes = [_occupied_cells(problem.layout, size) for size in range(1, order + 1)]
    return is_joint_fit(count_unknowns(sizes), _effective_rows(problem))


def _occupied_cells(layout: Layout, size: int) -> list[int]:
    """Return how many cells of each feature have rows, on the grid of effects of a size."""
    axes, rows = layout.grids[size].axes, layout.rows.get(size)
    if not isinstance(rows, EncodedRows):
        return [axis.n_cells for axis in axes]
    return [
        len(np.unique(own)) if axis.n_cells > 1 else 1
        for axis, own in zip(axes, rows.codes, strict=True)
    ]


def _run_jointly(problem: Problem) -> Result:
    def apart() -> FittedTables:
        if problem.layout.effects is None:
            return project(problem, settings_of(problem, TreeProjection()).tolerance)
        return low_orders(problem, purify_exactly(problem, "exact"))

    may_be_noise = problem.method == "auto" and not problem.trusts_rows
    has_others = may_be_noise and problem.source_rows is not None
    return purify_jointly(problem, apart if has_others else None)


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
    return not (is_low and share == 1.0) and _is_little_work(problem)


def _is_little_work(problem: Problem) -> bool:
    """Return whether all tables fit, have no more cells than rows, and are solved in seconds."""
    grid, paths, n_outputs = problem.grid, problem.boxes.subsets, problem.model.n_outputs
    n_rows = np.inf if problem.rows is None else problem.rows.n_rows
    # With more cells than rows an exact solve would fit the noise of nearly empty cells.
    if max(prod(grid.shape(path)) for path in paths) > n_rows:
        return False
    try:
        tables = closed_subsets(paths, grid, n_outputs, problem.memory_budget)
    except MemoryBudgetError:
        return False
    return sum(_nanoseconds(grid.shape(table), n_outputs) for table in tables) <= _LITTLE_WORK


def _nanoseconds(shape: Sequence[int], n_outputs: int) -> float:
    """Return about how long one core takes to purify a table.

    One of three features and more takes some fifty conjugate-gradient steps, of passes over its
    cells and calls around them, and the ranks that say what is undetermined, cubic in its slices.
    """
    cells = prod(shape)
    if len(shape) <= _PAIR:
        return 1e5 + 10.0 * cells * min(shape, default=1)
    slices = sum(cells // n_cells for n_cells in shape)
    ranks = slices**3 / 4 if slices <= MOST_SLICES else 0.0
    return 50 * len(shape) * (6e4 + 5 * cells * n_outputs) + ranks


def _run_exactly(problem: Problem) -> Result:
    result = purify_exactly(problem, "exact")
    if problem.source_rows is None or not _is_cut_short(problem):
        return result
    return fitted_result(problem, low_orders(problem, result))


def _is_closed(problem: Problem) -> bool:
    """The formula for trees of any depth: features are independent."""
    return problem.weighting.is_product


def _always(_: Problem) -> bool:
    return True


def _run_mass_moving(problem: Problem) -> Result:
    return purify_exactly(problem, "mass-moving")


def _run_projection(problem: Problem) -> Result:
    settings = settings_of(problem, TreeProjection())
    return fitted_result(problem, project(problem, settings.tolerance))


def _coarse_layout(problem: Problem) -> Layout:
    settings = settings_of(problem, CoarseProjection())
    about = (problem.table, problem.weighting, problem.missing_cells, settings)
    return lay_out_coarse(problem.model, *about)


def _run_coarse(problem: Problem) -> Result:
    settings = settings_of(problem, CoarseProjection())
    return fitted_result(problem, fit_on_coarse_cells(problem, settings))


ROUTES = (
    TreeRoute(
        "coarse",
        ("auto", "coarse"),
        _is_coarse,
        _run_coarse,
        lay_out=_coarse_layout,
        reads_rows=_always,
        options=CoarseProjection(),
    ),
    TreeRoute("joint", ("auto", "exact"), _fits_jointly, _run_jointly, reads_rows=_always),
    TreeRoute("exact", ("auto", "exact"), _is_exact, _run_exactly, reads_rows=_is_cut_short),
    TreeRoute(
        "closed-form",
        ("auto", "closed-form"),
        _is_closed,
        purify_by_closed_form,
        takes_margins=True,
    ),
    # Each tree by itself, whatever its depth.
    TreeRoute("projection", ("auto", "projection"), _always, _run_projection, reads_rows=_always),
    TreeRoute("mass-moving", ("mass-moving",), _always, _run_mass_moving),
)
"""With `method` ``"auto"`` the first that applies is taken."""
