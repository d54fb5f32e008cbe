"""Which tables a page holds, and with how many cells."""

from dataclasses import dataclass, field, replace
from math import prod

from treepurify.components import TensorComponent, for_display, is_drawable, tabulate
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.plots.axis_layout import AxisLayout, lay_out_axis
from treepurify.plots.merged_cells import (
    MOST_CELLS_OF_PAIR,
    CellMerging,
    MergedAxis,
    lay_out_merged,
    merge_axis,
)
from treepurify.report.scales import AUTOMATIC, Scales
from treepurify.typing import Array

__all__ = [
    "Merging",
    "PageTable",
    "PairPlan",
    "displayed",
    "main_tables",
    "merged_axis",
    "plan_pairs",
]

# Intervals of a main effect, at the least.
_COARSEST = 25
# More than these, after merging, come from long lists of categories.
_MOST_CELLS_PER_PAIR = 60_000
# The cells on both sides of those that figures show.
_BEYOND = 2
# The largest table that is read to be merged: 160 megabytes.
_MOST_MERGED_CELLS = 20_000_000
_BYTES_PER_CELL = 2.7
# For its cut, edge, place and label.
_BYTES_PER_INTERVAL = 70
# Components that are no tables are evaluated, which may call a function very often.
_MOST_EVALUATED_PAIRS = 40


def merged_axis(axis: FeatureAxis, mass: Array, most: int) -> MergedAxis:
    """Return the axis of a main effect with at most `most` intervals; all others stay."""
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
    layouts : tuple of AxisLayout, optional
        Where the cells of a pair are drawn along each feature.
    has_whole : bool
        Whether the page also holds the table before cells are merged.
    """

    component: TensorComponent
    coarse: CellMerging | None = None
    layouts: tuple[AxisLayout, ...] | None = None
    has_whole: bool = False

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

    def in_full(self) -> "PageTable":
        """Return the table before cells are merged, if the page holds it, else itself."""
        return PageTable(self.component) if self.has_whole else self

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
    has_whole : bool
        Whether the page also holds the table before cells are merged.
    """

    component: TensorComponent
    has_whole: bool = False

    @property
    def is_merged(self) -> bool:
        """Whether its cells are merged."""
        return any(
            not axis.is_categorical and axis.n_regular > MOST_CELLS_OF_PAIR
            for axis in self.component.axes
        )

    @property
    def n_cells(self) -> int:
        """Largest number of cells after merging."""
        return prod(
            _cells_along(axis, MOST_CELLS_OF_PAIR + _BEYOND) for axis in self.component.axes
        )


@dataclass(eq=False)
class Merging:
    """The merged axes, each found once, so that the tables of a page share them.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    scales : Scales
        The scale of each feature.
    known : dict
        How the cells of an axis are merged and drawn, by its feature and its id. The axis is kept
        because the id of a deleted object can be used again.
    """

    d: Decomposition
    scales: Scales = AUTOMATIC
    known: dict[tuple[int, int], tuple[FeatureAxis, MergedAxis, AxisLayout]] = field(
        default_factory=dict
    )

    def page_table(self, plan: PairPlan) -> PageTable:
        """Return the table of a pair, with the cells that figures of it have."""
        table = plan.component.stored()
        is_smooth = not isinstance(self.d.components[table.features], TensorComponent)
        for position, (feature, axis) in enumerate(zip(table.features, table.axes, strict=True)):
            if (feature, id(axis)) not in self.known:
                found = lay_out_merged(
                    self.d,
                    feature,
                    axis,
                    table.mass.sum(axis=1 - position),
                    most=MOST_CELLS_OF_PAIR,
                    scale=self.scales.of(self.d.feature_names[feature]),
                    is_smooth=is_smooth,
                )
                self.known[feature, id(axis)] = axis, *found
        along = zip(table.features, map(id, table.axes), strict=True)
        _, merged, layouts = zip(*(self.known[key] for key in along), strict=True)
        if all(found.axis is axis for found, axis in zip(merged, table.axes, strict=True)):
            return PageTable(table, None, layouts)
        return PageTable(table, CellMerging(merged, table.mass), layouts, plan.has_whole)


def displayed(d: Decomposition) -> Decomposition:
    """Return a decomposition with one cell for all categories whose labels are not known.

    Its rows still have the codes of the model. Tables whose categories all have labels are the same
    objects.
    """
    changed = {
        subset: for_display(component)
        for subset, component in d.tensor_components().items()
        if any(axis.unnamed for axis in component.axes)
    }
    return replace(d, components={**d.components, **changed}) if changed else d


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


def plan_pairs(d: Decomposition, n_versions: int, most_bytes: float) -> dict[Subset, PairPlan]:
    """Return which pairs the page holds, the most important first.

    Where effects add up to the model, what space is left goes to the tables before cells are
    merged, so that a sum of effects is the prediction.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    n_versions : int
        Number of tables of each pair on the page, that of the mass included.
    most_bytes : float
        About how many bytes all of them may take.
    """
    cell_bytes = _BYTES_PER_CELL * d.n_outputs
    plans: dict[Subset, PairPlan] = {}
    for subset, component in _drawable_pairs(d).items():
        plan = PairPlan(component)
        cost = n_versions * cell_bytes * plan.n_cells
        if plan.n_cells <= _MOST_CELLS_PER_PAIR and cost <= most_bytes:
            plans[subset] = plan
            most_bytes -= cost
    if d.remainder is not None:
        return plans
    for subset, plan in plans.items():
        cost = cell_bytes * plan.component.n_cells
        if plan.is_merged and cost <= most_bytes:
            plans[subset] = replace(plan, has_whole=True)
            most_bytes -= cost
    return plans


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


def _cells_along(axis: FeatureAxis, side: int) -> int:
    if axis.is_categorical:
        return axis.n_cells
    return min(axis.n_regular, side) + axis.n_cells - axis.n_regular
