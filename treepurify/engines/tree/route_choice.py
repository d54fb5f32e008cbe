"""How an ensemble is purified: on the union grid, in closed form, or tree by tree."""

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice, check_number
from treepurify.engines.common.layout import Layout, closed_subsets
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.purification.unidentified import MOST_SLICES
from treepurify.weights import Weighting

__all__ = ["Method", "Route", "TreeProjection", "choose_route"]

MethodName = Literal["auto", "exact", "closed-form", "projection", "mass-moving"]
Route = Literal["exact", "closed-form", "projection", "mass-moving"]

_PAIR = 2
# Exact effects are preferred to fitted ones as long as they take less than two seconds, or less
# than a few times the time of the projection.
_QUICK = 2e9
_EXACT_IS_WORTH = 4


@dataclass(frozen=True)
class TreeProjection:
    """The projection route with a tolerance of one's own.

    Parameters
    ----------
    tolerance : float
        Estimated error of a tree's tables, over the standard deviation of its values, at which
        conjugate gradients stop. Trees whose normal equations fit the memory are factored
        instead, which leaves rounding.

    Examples
    --------
    >>> TreeProjection(1e-6)
    TreeProjection(tolerance=1e-06)
    """

    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_number(
            "the tolerance of a projection", self.tolerance, least=0, most=1, open_ends=True
        )


Method = MethodName | TreeProjection


def check_method(method: Method) -> None:
    """Raise `InvalidInputError` unless the method is known."""
    if not isinstance(method, TreeProjection):
        check_choice("method", method, get_args(MethodName), advice=", or a TreeProjection")


def choose_route(
    method: Method,
    layout: Layout,
    weighting: Weighting,
    order: int | None,
    model: Model,
    memory_budget: int,
) -> Route:
    """Return the route of a model.

    On request the one asked for. Otherwise: the union grid where no path tests more than
    two features; the closed form where features are independent; the union grid where it
    fits the memory budget, no table has more cells than there are rows, and the work is small
    or not much above that of the projection; and else, where the measure has rows, the
    projection of each tree. The projection keeps low orders only:
    where all are asked for (order None), it is the union grid.

    Raises
    ------
    InvalidInputError
        If the route does not fit the measure or the model.
    """
    check_method(method)
    name = "projection" if isinstance(method, TreeProjection) else method
    if layout.boxes is None:
        if name in ("closed-form", "projection"):
            raise InvalidInputError(f"method={name!r} is for tree ensembles; an EBM needs none")
        return "mass-moving" if name == "mass-moving" else "exact"
    if name == "closed-form" and not weighting.is_product:
        raise InvalidInputError(
            'method="closed-form" needs independent features: weights="independent" or "uniform"'
        )
    if name == "projection" and weighting.share_of_rows is None:
        raise InvalidInputError(
            f'method="projection" needs rows, weights={weighting.name!r} has none: use '
            '"empirical" or "laplace"'
        )
    if name != "auto":
        return name
    depth = max((len(subset) for subset in layout.boxes.subsets), default=0)
    if depth <= _PAIR:
        return "exact"
    if weighting.is_product:
        return "closed-form"
    if order is None:
        return "exact"
    rows = layout.rows[1]
    if weighting.share_of_rows is None or rows is None or not isinstance(model, TreeEnsemble):
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
    in its slices. A thousand small tables are slow where one large one is not.
    """
    work = 0.0
    for subset in tables:
        sizes = [grid.axes[j].n_cells for j in subset]
        cells, size = prod(sizes), len(subset)
        if size <= _PAIR:
            work += 1e5 + 10.0 * cells * min(sizes)
            continue
        slices = sum(cells // own for own in sizes)
        work += 50 * size * (6e4 + 5 * cells * n_outputs)
        work += 2 * slices**3 / 9 if slices <= MOST_SLICES else 0.0
    return work


def _projection_work(leaves_in_trees: npt.NDArray[np.intp], n_rows: int) -> float:
    """Return about how many nanoseconds of one core projecting the trees takes.

    A tree with `n` leaves has some n^2 / 2 unknowns in its pairs, whose equations are factored.
    """
    n_leaves = leaves_in_trees.astype(np.float64)
    unknowns = n_leaves**2 / 2
    work = 5e6 + unknowns**3 / 90 + n_rows * np.minimum(10 * n_leaves, 1000.0)
    return float(work.sum())
