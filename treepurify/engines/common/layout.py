"""Lay a model out on its grids: tensors, encoded rows and masses."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np

from treepurify._kernels.leaf_boxes import parents_of, path_lengths
from treepurify.budget import check_budget
from treepurify.effects.accumulate import LeafBoxes, ensemble_cuts, leaf_boxes
from treepurify.effects.table_effects import table_cuts, table_effects, term_mass
from treepurify.effects.tensor import EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid, MissingCells, Subset, make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.purification.cascade import downward_closure
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.weights import Weighting
from treepurify.weights.weighting import MassTables

__all__ = [
    "Layout",
    "Resolution",
    "check_memory",
    "closed_subsets",
    "lay_out",
]

Resolution = Literal["auto", "union", "term"]


@dataclass(frozen=True, eq=False)
class Layout:
    """A model laid out on its grids: an EBM as effect tensors, an ensemble as leaf boxes."""

    effects: EffectTensors | None
    grids: dict[int, Grid]
    rows: dict[int, EncodedRows | None]
    measure: str
    resolution: str
    boxes: LeafBoxes | None = None
    given_mass: MassTables | None = None

    @property
    def union_grid(self) -> Grid:
        """The grid of main effects, which has all cuts."""
        return self.grids[1]

    @property
    def leaf_boxes(self) -> LeafBoxes:
        """The leaves of an ensemble on the union grid."""
        if self.boxes is None:
            raise TypeError("an additive model of tables has no leaves")
        return self.boxes

    def mass(self, weighting: Weighting, subsets: list[Subset]) -> MassTables:
        """Return the mass of every subset, on the grid of its order."""
        if self.given_mass is not None:
            return self.given_mass
        orders = sorted({len(subset) for subset in subsets})
        shared = len({id(self.grids[size]) for size in orders}) == 1
        if shared and orders:
            return weighting.tables(self.grids[orders[0]], self.rows[orders[0]], subsets)
        found: MassTables = {}
        for size in orders:
            wanted = [subset for subset in subsets if len(subset) == size]
            found |= weighting.tables(self.grids[size], self.rows[size], wanted)
        return found

    def measure_rows(self, weighting: Weighting) -> dict[int, EncodedRows] | None:
        """Return the rows where they, and nothing else, are the measure."""
        rows = {size: own for size, own in self.rows.items() if own is not None}
        is_rows = weighting.share_of_rows == 1.0
        return rows if is_rows and rows and self.given_mass is None else None


def lay_out(
    model: Model,
    columns: Columns | None,
    row_weights: RowWeights,
    weighting: Weighting,
    resolution: Resolution,
    missing_cells: MissingCells,
    memory_budget: int,
) -> Layout:
    """Choose the grids, encode the rows on them and write the model as effect tensors.

    Trees share one grid, the union of their cuts. The terms of an EBM have bins of their
    own: see `resolution` of `purify`.

    Raises
    ------
    InvalidInputError
        If an option is unknown, or needs rows that are not there.
    MemoryBudgetError
        If the tensors would not fit.
    """
    if resolution not in ("auto", "union", "term"):
        raise InvalidInputError(f'resolution must be "auto", "union" or "term", got {resolution!r}')
    if missing_cells not in ("auto", "always"):
        raise InvalidInputError(f'missing_cells must be "auto" or "always", got {missing_cells!r}')
    measure = weighting.describe()
    if isinstance(model, AdditiveTables):
        return _lay_out_tables(
            model, columns, row_weights, weighting, resolution, missing_cells, memory_budget
        )
    _check_leaves(model, memory_budget)
    if weighting.fixed_grid is not None:
        grid, rows = weighting.fixed_grid, None
    else:
        grid, rows = make_grid(
            columns,
            model.features,
            ensemble_cuts(model),
            match_names=model.has_feature_names,
            missing_cells=missing_cells,
        )
    boxes = leaf_boxes(model, grid)
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    orders = range(1, max(depth, 1) + 1)
    weighted = None if rows is None else replace(rows, weights=row_weights)
    return Layout(
        None, dict.fromkeys(orders, grid), dict.fromkeys(orders, weighted), measure, "union", boxes
    )


# A feature, the start of its runs, one run of cells, and a probability.
_BYTES_A_FEATURE = 28


def _check_leaves(model: TreeEnsemble, memory_budget: int) -> None:
    """Refuse an ensemble the boxes of whose leaves would not fit, before anything is made."""
    leaves = np.flatnonzero(model.feature < 0)
    n_on_paths, longest = path_lengths(
        leaves, parents_of(model.left, model.right), model.n_features
    )
    a_leaf = 8 * (longest + model.value.shape[1] + 6)
    check_budget(
        _BYTES_A_FEATURE * int(n_on_paths) + a_leaf * len(leaves),
        memory_budget,
        f"the boxes of {len(leaves)} leaves with up to {longest} features each",
        "Raise memory_budget, or explain a model with fewer or smaller trees.",
    )


def _lay_out_tables(
    model: AdditiveTables,
    columns: Columns | None,
    row_weights: RowWeights,
    weighting: Weighting,
    resolution: Resolution,
    missing_cells: MissingCells,
    memory_budget: int,
) -> Layout:
    own_mass = columns is None and weighting.needs_rows
    chosen = resolution
    if chosen == "auto":
        chosen = "term" if own_mass or not _fits_union(model, memory_budget) else "union"
    if chosen == "union" and own_mass:
        raise InvalidInputError('resolution="union" needs the rows: pass X')
    largest = max((len(term.features) for term in model.terms), default=1)
    grids: dict[int, Grid] = {}
    rows: dict[int, EncodedRows | None] = {}
    for size in range(1, largest + 1):
        if chosen == "union" and size > 1:
            grids[size], rows[size] = grids[1], rows[1]
            continue
        grids[size], encoded = make_grid(
            columns,
            model.features,
            table_cuts(model, size),
            match_names=model.has_feature_names,
            missing_cells="always" if columns is None else missing_cells,
        )
        rows[size] = None if encoded is None else replace(encoded, weights=row_weights)
    subsets = downward_closure(term.features for term in model.terms)
    axes = [grids[len(subset)].subset_axes(subset) for subset in subsets]
    check_memory(axes, model.n_outputs, memory_budget)
    effects = table_effects(model, grids)
    if own_mass:
        mass = term_mass(model, grids, subsets)
        measure = "empirical (the model's bin weights)"
        return Layout(effects, grids, rows, measure, chosen, given_mass=mass)
    measure = weighting.describe()
    if chosen == "term":
        measure += ", bins of each term"
    return Layout(effects, grids, rows, measure, chosen)


def _fits_union(model: AdditiveTables, memory_budget: int) -> bool:
    sizes = [1 if cuts is None else len(cuts) + 2 for cuts in table_cuts(model)]
    sizes = [
        spec.n_codes + 2 if spec.is_categorical else size
        for size, spec in zip(sizes, model.features, strict=True)
    ]
    cells = sum(
        float(np.prod([sizes[j] for j in term.features], dtype=float)) for term in model.terms
    )
    return _TABLES_A_CELL * 8 * cells * model.n_outputs <= memory_budget


# A purified tensor, its raw form, its mass and the working copies of a solve.
_TABLES_A_CELL = 6
# What a table takes beside its cells: arrays, axes and the report of its solve.
_BYTES_A_TABLE = 2048
_ADVICE = (
    "Raise memory_budget, or train with fewer bins or a smaller depth; for an EBM, use "
    'resolution="term".'
)


def closed_subsets(
    subsets: Collection[Subset], grid: Grid, n_outputs: int, memory_budget: int
) -> list[Subset]:
    """Return the subsets with all their subsets, whose tables purification needs.

    Raises
    ------
    MemoryBudgetError
        If these tables would not fit. Long paths have too many subsets to list them all
        first: the count stops where it exceeds the budget.
    """
    check_memory([grid.subset_axes(subset) for subset in subsets], n_outputs, memory_budget)

    def check_number(found: int) -> None:
        check_budget(
            _BYTES_A_TABLE * found,
            memory_budget,
            f"more than {found - 1} tables for the sets of features on a path and their subsets",
            _ADVICE,
        )

    closed = downward_closure(subsets, check_number)
    check_memory([grid.subset_axes(subset) for subset in closed], n_outputs, memory_budget)
    return closed


def check_memory(axes: Iterable[Sequence[FeatureAxis]], n_outputs: int, memory_budget: int) -> None:
    """Refuse to purify tables that would not fit, before their masses are allocated."""
    tables = list(axes)
    cells = [prod(axis.n_cells for axis in own) for own in tables]
    if not cells:
        return
    largest = cells.index(max(cells))
    names = " x ".join(axis.name for axis in tables[largest])
    check_budget(
        # Masses and tensors stay; the working copies are those of the largest table.
        8 * (3 * sum(cells) + 4 * max(cells)) * n_outputs,
        memory_budget,
        f"purifying {len(cells)} tables (the largest, {names}, has {cells[largest]} cells)",
        _ADVICE,
    )
