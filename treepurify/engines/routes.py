"""How an ensemble is purified: on the union grid, in closed form, or tree by tree."""

from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from treepurify.arguments import check_choice, check_number
from treepurify.engines.layout import Layout, closed_subsets
from treepurify.errors import InvalidInputError, MemoryBudgetError
from treepurify.grids.grid import Subset
from treepurify.weights import Empirical, Laplace, Rows, Weighting

__all__ = ["Method", "Route", "TreeProjection", "choose_route"]

MethodName = Literal["auto", "exact", "closed-form", "projection", "mass-moving"]
Route = Literal["exact", "closed-form", "projection", "mass-moving"]

_PAIR = 2


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
    n_outputs: int,
    memory_budget: int,
) -> Route:
    """Return the route of a model.

    On request the one asked for. Otherwise: the union grid where no path tests more than
    two features; the closed form where features are independent; the union grid where it
    fits the memory budget and no table has more cells than there are rows; and else, where
    the measure has rows, the projection of each tree. The projection keeps low orders only:
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
    if name == "projection" and not has_rows(weighting):
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
    fits = _fits_union_grid(layout, layout.boxes.subsets, n_outputs, memory_budget)
    return "exact" if fits or not has_rows(weighting) else "projection"


def _fits_union_grid(
    layout: Layout, paths: Collection[Subset], n_outputs: int, memory_budget: int
) -> bool:
    """Return whether the tables fit into memory and none has more cells than there are rows.

    With more cells than rows an exact solve would fit the noise of nearly empty cells.
    """
    grid, rows = layout.union_grid, layout.rows[1]
    if rows is not None:
        sizes = [axis.n_cells for axis in grid.axes]
        if max(prod(sizes[j] for j in path) for path in paths) > rows.n_rows:
            return False
    try:
        closed_subsets(paths, grid, n_outputs, memory_budget)
    except MemoryBudgetError:
        return False
    return True


def has_rows(weighting: Weighting) -> bool:
    """Return whether the projection route can use the weighting."""
    if isinstance(weighting, Laplace):
        return weighting.variant == "mixture"
    return isinstance(weighting, Empirical | Rows)


def uniform_share(weighting: Weighting) -> float:
    """Return the share of the uniform distribution in a weighting with rows."""
    return weighting.smoothing if isinstance(weighting, Laplace) else 0.0
