"""Which route a model takes to its effects."""

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np

from treepurify.arguments import check_choice, check_number, check_whole
from treepurify.engines.common.problem import Layout, closed_subsets
from treepurify.engines.tree.coarse_projection import CoarseProjection
from treepurify.engines.tree.nearest_sum import count_unknowns, has_few_cells, is_joint_fit
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.purification.unidentified import MOST_SLICES
from treepurify.typing import Indices
from treepurify.weights import Weighting

__all__ = [
    "Method",
    "MethodName",
    "Route",
    "TreeProjection",
    "check_method",
    "choose_coarse",
    "choose_route",
    "may_fit_jointly",
]

MethodName = Literal["auto", "exact", "closed-form", "projection", "coarse", "mass-moving"]
Route = Literal["exact", "joint", "closed-form", "projection", "coarse", "mass-moving"]

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


def choose_coarse(
    method: Method, model: Model, n_rows: int, weighting: Weighting, order: int | None
) -> CoarseProjection | None:
    """Return how to project on coarse cells; None for another route.

    With ``method="auto"`` that is the route, under the rows, of effects of one and two features of
    trees of more than 256 leaves, whose union grid has more cells than there are rows.

    Raises
    ------
    InvalidInputError
        If this route is requested and does not fit the measure or the model.
    """
    asked = CoarseProjection() if method == "coarse" else method
    if isinstance(asked, CoarseProjection):
        if not isinstance(model, TreeEnsemble):
            raise InvalidInputError(f"{_COARSE} is for tree ensembles only: leave method out")
        if weighting.share_of_rows != 1.0:
            raise InvalidInputError(
                f"{_COARSE} averages over rows, and does not apply to weights={weighting.name!r}: "
                'pass weights="empirical", or method="projection"'
            )
        return asked
    is_fitted = weighting.share_of_rows == 1.0 and order is not None and order <= _PAIR
    if method != "auto" or not isinstance(model, TreeEnsemble) or not is_fitted:
        return None
    if model.leaves_in_trees().max(initial=0) <= _MANY_LEAVES:
        return None
    return CoarseProjection() if _has_more_cells(model, n_rows) else None


def _has_more_cells(model: TreeEnsemble, n_rows: int) -> bool:
    """Return whether the union grid has more cells than there are rows."""
    cells = 1
    for j in model.used_features:
        spec = model.features[j]
        n_cuts = len(np.unique(model.cut[model.feature == j]))
        cells *= spec.n_codes if spec.is_categorical else n_cuts + 1
        if cells > n_rows:
            return True
    return False


def may_fit_jointly(method: Method, model: Model, order: int | None, effective_rows: float) -> bool:
    """Return whether all effects of an order may be fitted at once, before cells are known."""
    if method not in ("auto", "exact") or order is None or not isinstance(model, TreeEnsemble):
        return False
    sizes = []
    for j in model.used_features:
        spec = model.features[j]
        n_cuts = len(np.unique(model.cut[model.feature == j]))
        sizes.append(spec.n_codes if spec.is_categorical else n_cuts + 1)
    return is_joint_fit(count_unknowns([sizes] * order), effective_rows)


def choose_route(
    method: Method,
    layout: Layout,
    weighting: Weighting,
    order: int | None,
    model: Model,
    memory_budget: int,
    effective_rows: float,
) -> Route:
    """Return the route of a model.

    With ``method="auto"`` it is the first of these whose condition holds:

    1. the union grid, where no path tests more than two features, or than `order`;
    2. the closed form, where features are independent;
    3. the union grid, where all orders are requested;
    4. all effects at once, where rows determine all cells, or all cells can stand for rows;
    5. the union grid for a model of tables, and where the measure has no rows; or where it fits the
       memory budget, no table has more cells than there are rows, and the work is small or not
       much more than that of the projection, under a mixture of rows with another measure;
    6. the projection of each tree.

    Raises
    ------
    InvalidInputError
        If the route does not fit the measure or the model.
    """
    if isinstance(method, CoarseProjection):
        return "coarse"
    name: MethodName = "projection" if isinstance(method, TreeProjection) else method
    is_ensemble = isinstance(model, TreeEnsemble)
    if not is_ensemble and name in ("closed-form", "projection"):
        raise InvalidInputError(f"method={name!r} is for tree ensembles only: leave method out")
    if name == "closed-form" and not weighting.is_product:
        raise InvalidInputError(
            'method="closed-form" needs independent features: weights="independent" or "uniform"'
        )
    if name == "projection" and weighting.share_of_rows is None:
        raise InvalidInputError(
            f'method="projection" needs rows, but weights={weighting.name!r} uses none: pass '
            'weights="empirical" or "laplace"'
        )
    if name in ("closed-form", "projection", "mass-moving"):
        return name
    if order is not None and order < layout.depth and not weighting.is_product:
        return _route_of_low_order(
            name, layout, weighting, order, model, memory_budget, effective_rows
        )
    if name == "exact" or not is_ensemble or layout.depth <= _PAIR:
        return "exact"
    if weighting.is_product:
        return "closed-form"
    if order is None or weighting.share_of_rows is None:
        return "exact"
    # No path tests more features than effects have: a projection of each tree is exact, too.
    return _exact_or_projection(layout, model, memory_budget)


def _route_of_low_order(
    name: MethodName,
    layout: Layout,
    weighting: Weighting,
    order: int,
    model: Model,
    memory_budget: int,
    effective_rows: float,
) -> Route:
    """Return the route to effects of fewer features than paths or tables have, under dependence."""
    is_rows = weighting.share_of_rows == 1.0 and layout.given_mass is None
    if is_rows:
        sizes = [layout.occupied_cells(size) for size in range(1, order + 1)]
        if name == "exact" or is_joint_fit(count_unknowns(sizes), effective_rows):
            return "joint"
    elif isinstance(model, TreeEnsemble) and has_few_cells(layout):
        return "joint"
    if not isinstance(model, TreeEnsemble) or weighting.share_of_rows is None or name == "exact":
        return "exact"
    if is_rows:
        return "projection" if order <= _MOST_PROJECTED else "joint"
    return _exact_or_projection(layout, model, memory_budget)


def _exact_or_projection(layout: Layout, model: Model, memory_budget: int) -> Route:
    """Return the union grid where its tables fit, and take little more time than projecting."""
    rows = layout.rows[1]
    if rows is None or not isinstance(model, TreeEnsemble):
        return "exact"
    tables = _union_grid_tables(layout, model.n_outputs, memory_budget)
    if tables is None:
        return "projection"
    work = _union_grid_work(tables, layout.union_grid, model.n_outputs)
    others = _projection_work(model.leaves_in_trees(), rows.n_rows)
    return "exact" if work <= max(_QUICK, _EXACT_IS_WORTH * others) else "projection"


def _union_grid_tables(layout: Layout, n_outputs: int, memory_budget: int) -> list[Subset] | None:
    """Return the tables on the union grid; None where they do not fit or would fit noise.

    With more cells than rows an exact solve would fit the noise of nearly empty cells.
    """
    grid, rows, paths = layout.union_grid, layout.rows[1], layout.leaf_boxes.subsets
    sizes = [axis.n_cells for axis in grid.axes]
    if rows is not None and max(prod(sizes[j] for j in path) for path in paths) > rows.n_rows:
        return None
    try:
        return closed_subsets(paths, grid, n_outputs, memory_budget)
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
