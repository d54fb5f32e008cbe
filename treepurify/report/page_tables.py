"""Which tables a page holds, and with how many cells."""

from dataclasses import dataclass, field
from math import prod

import numpy as np

from treepurify.components import TensorComponent, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import lay_out_axis
from treepurify.plots.merged_cells import CellMerging, MergedAxis, merge_axis
from treepurify.typing import Array

__all__ = [
    "Merging",
    "PageTable",
    "PairPlan",
    "main_tables",
    "merged_axis",
    "plan_pairs",
]

# Indices along an axis of a pair, for the first ones and where bytes are scarce. A table is merged
# where it has more cells than the square of that, and further where the data are few.
_FINE, _COARSE, _COARSEST = 200, 64, 25
# More than these, after merging, come from long lists of categories.
_MOST_CELLS_PER_PAIR = 60_000
# The largest table that is read to be merged: 160 megabytes.
_MOST_MERGED_CELLS = 20_000_000
_BYTES_PER_CELL = 2.7
# For its cut, edge, place and label.
_BYTES_PER_INTERVAL = 70
# Components that are no tables are evaluated, which may call a function very often.
_MOST_EVALUATED_PAIRS = 40


def merged_axis(axis: FeatureAxis, mass: Array, most: int) -> MergedAxis:
    """Return an axis of at most `most` intervals; categories and special cells stay apart."""
    return merge_axis(axis, mass, lay_out_axis(axis, mass, scale="auto"), most)


@dataclass(frozen=True, eq=False)
class PageTable:
    """The table of a component as the page holds it.

    Parameters
    ----------
    component : TensorComponent
        The table with all its cells.
    coarse : CellMerging, optional
        How its cells are merged for the page.
    """

    component: TensorComponent
    coarse: CellMerging | None = None

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """The axes on the page."""
        if self.coarse is None:
            return self.component.axes
        return tuple(coarse.axis for coarse in self.coarse.axes)

    @property
    def mass(self) -> Array:
        """Mass of the cells on the page."""
        return self.component.mass if self.coarse is None else self.coarse.merged_mass()

    def shown(self, values: Array) -> Array:
        """Return values on all cells of the component as values on the cells of the page."""
        return values if self.coarse is None else self.coarse.means(values)


@dataclass(frozen=True, eq=False)
class PairPlan:
    """How one pair goes onto the page.

    Parameters
    ----------
    component : TensorComponent
        The pair, or the table that stands for it.
    side : int
        Largest number of intervals along an axis, where its cells must be merged.
    """

    component: TensorComponent
    side: int

    @property
    def is_merged(self) -> bool:
        """Whether its cells are merged."""
        return self.n_cells < self.component.n_cells

    @property
    def n_cells(self) -> int:
        """Number of cells on the page."""
        return _cells(self.component.axes, self.side)


@dataclass(eq=False)
class Merging:
    """The merged axes, each found once, so that the tables of a page share them."""

    known: dict[tuple[int, int], MergedAxis] = field(default_factory=dict)

    def page_table(self, plan: PairPlan) -> PageTable:
        """Return the table of a pair, with the cells that the plan leaves it."""
        table = plan.component.stored()
        if not plan.is_merged:
            return PageTable(table)
        axes = []
        for position, axis in enumerate(table.axes):
            if (id(axis), plan.side) not in self.known:
                mass = table.mass.sum(axis=1 - position)
                self.known[id(axis), plan.side] = merged_axis(axis, mass, plan.side)
            axes.append(self.known[id(axis), plan.side])
        return PageTable(table, CellMerging(tuple(axes), table.mass))


def main_tables(d: Decomposition, n_versions: int, most_bytes: float) -> dict[Subset, PageTable]:
    """Return the tables of the main effects that have or can be given cells.

    Where together they have too many cells, neighbouring intervals are merged; the least
    important ones are left out where even the merged ones are too large.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    n_versions : int
        Number of versions of each effect on the page.
    most_bytes : float
        About how many bytes all of them may take.
    """
    tables = {
        subset: table
        for subset, component in d.components.items()
        if len(subset) == 1 and (table := tabulate(component, d.inputs)) is not None
    }
    cell_bytes = _BYTES_PER_INTERVAL + _BYTES_PER_CELL * d.n_outputs * n_versions

    def cost(side: int) -> float:
        return cell_bytes * sum(_cells_along(table.axes[0], side) for table in tables.values())

    side = max((table.axes[0].n_regular for table in tables.values()), default=0)
    while cost(side) > most_bytes and side > _COARSEST:
        side = max(side // 2, _COARSEST)
    kept = set()
    for subset in sorted(tables, key=d.ranking.places.__getitem__):
        most_bytes -= cell_bytes * _cells_along(tables[subset].axes[0], side)
        if most_bytes < 0:
            break
        kept.add(subset)
    return {
        subset: _main_table(table.stored(), side)
        for subset, table in tables.items()
        if subset in kept
    }


def _main_table(table: TensorComponent, side: int) -> PageTable:
    coarse = merged_axis(table.axes[0], table.mass, side)
    if coarse.axis is table.axes[0]:
        return PageTable(table)
    return PageTable(table, CellMerging((coarse,), table.mass))


def plan_pairs(d: Decomposition, table_bytes: float) -> dict[Subset, PairPlan]:
    """Return which pairs the page holds, the most important first.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    table_bytes : float
        About how much one version of all of them may take.
    """
    can_be = _drawable_pairs(d)
    fine = [PairPlan(component, _side_of_data(component)) for component in can_be.values()]
    coarse = [PairPlan(plan.component, min(plan.side, _COARSE)) for plan in fine]
    most = _BYTES_PER_CELL * _MOST_CELLS_PER_PAIR * d.n_outputs
    needed = _BYTES_PER_CELL * d.n_outputs * sum(plan.n_cells for plan in coarse)
    # At most half of the bytes are kept back for the pairs that come later.
    kept = table_bytes / 2
    plans: dict[Subset, PairPlan] = {}
    for subset, first, second in zip(can_be, fine, coarse, strict=True):
        costs = [_BYTES_PER_CELL * d.n_outputs * plan.n_cells for plan in (first, second)]
        needed -= costs[1]
        is_fine = costs[0] + min(needed, kept) <= table_bytes and costs[0] <= most
        plan, cost = (first, costs[0]) if is_fine else (second, costs[1])
        if cost <= min(table_bytes, most):
            plans[subset] = plan
            table_bytes -= cost
    return plans


def _side_of_data(table: TensorComponent) -> int:
    """Return the number of intervals along an axis at which a merged table has something to show.

    Where half as many intervals leave most of the cells that have data, most of these hold a
    single row, and a finer picture would be dots on empty ground.
    """
    side = _FINE
    if PairPlan(table, side).is_merged:
        occupied = _occupied(table, side)
        while side // 2 >= _COARSEST and (fewer := _occupied(table, side // 2)) > occupied / 2:
            side, occupied = side // 2, fewer
    return side


def _occupied(table: TensorComponent, side: int) -> int:
    axes = tuple(
        merged_axis(axis, table.mass.sum(axis=1 - position), side)
        for position, axis in enumerate(table.axes)
    )
    return int(np.count_nonzero(CellMerging(axes, table.mass).merged_mass() > 0))


def _drawable_pairs(d: Decomposition) -> dict[Subset, TensorComponent]:
    """Return pairs that are or can be given tables, the most important first."""
    pairs = {subset: component for subset, component in d.components.items() if len(subset) == 2}
    ordered = sorted(pairs, key=d.ranking.places.__getitem__)
    tables: dict[Subset, TensorComponent] = {}
    evaluated = 0
    for subset in ordered:
        component = pairs[subset]
        if isinstance(component, TensorComponent):
            if component.n_cells * d.n_outputs <= _MOST_MERGED_CELLS:
                tables[subset] = component
        elif is_drawable(component) and evaluated < _MOST_EVALUATED_PAIRS:
            evaluated += 1
            table = tabulate(component, d.inputs)
            if table is not None:
                tables[subset] = table
    return tables


def _cells(axes: tuple[FeatureAxis, ...], side: int) -> int:
    """Return how many cells a table has on the page."""
    unmerged = prod(axis.n_cells for axis in axes)
    if unmerged <= side**2:
        return unmerged
    return prod(_cells_along(axis, side) for axis in axes)


def _cells_along(axis: FeatureAxis, side: int) -> int:
    if axis.is_categorical:
        return axis.n_cells
    return min(axis.n_regular, side) + axis.n_cells - axis.n_regular
