"""What a model is purified for: the model on its grids, the measure, and what is wanted of it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

from treepurify.budget import check_budget
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.effects.table_effects import table_cuts, table_effects, term_mass
from treepurify.effects.tensor import EffectTensors
from treepurify.engines.common.functions import ParsedFunction
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Cuts, EncodedRows, Grid, MissingCells, Subset, make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.moments import MeasureRows
from treepurify.progress import ProgressReport
from treepurify.purification.cascade import downward_closure
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import CopiedRows, RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.weights import Weighting
from treepurify.weights.cell_counts import CountedRows, RowsOnGrid
from treepurify.weights.distributions import MassTables

Resolution = Literal["auto", "union", "term"]
Counted = Mapping[int, CountedRows]

# A feature, the start of its runs, one run of cells, a probability, and what else is at hand.
_BYTES_PER_FEATURE = 36
# What a table takes besides its cells: arrays, axes and the report of its solve.
_BYTES_PER_TABLE = 2048
_OF_SMALLER_ORDER = (
    "Pass order=2, which keeps effects of up to two features and puts the rest into a remainder; "
    "or use partial_dependence_anova(model, X, order=None), whose effects need no such tables; or "
    "train with a smaller depth."
)
_ADVICE = (
    "Ways to need less memory: purify(model, X, order=1) for main effects only; "
    'purify(model, X, method="coarse", order=2) for pairs on coarser intervals (weights "auto", '
    '"empirical" or "smoothed"); legendre_anova(model, X) for smooth effects. For an EBM, '
    'pass resolution="term". Or train with fewer bins or a smaller depth.'
)


@dataclass(frozen=True, eq=False)
class KeptTerms:
    """The effects that become components; main effects always do.

    Parameters
    ----------
    order : int, optional
        Largest number of features of a component; all by default.
    interactions : collection of tuple of int, optional
        Subsets of two or more features; all by default.
    """

    order: int | None = None
    interactions: Collection[Subset] | None = None

    def keeps(self, subset: Subset) -> bool:
        """Return whether the effect of a subset becomes a component."""
        is_named = self.interactions is None or subset in self.interactions
        return len(subset) == 1 or (is_named and len(subset) <= (self.order or len(subset)))


@dataclass(frozen=True, eq=False)
class Layout:
    """A model on its cells, and the rows there: an EBM as effect tensors, an ensemble as boxes."""

    effects: EffectTensors | None
    grids: dict[int, Grid]
    rows: Mapping[int, RowsOnGrid | None]
    measure: str
    resolution: str
    boxes: LeafBoxes | None = None
    given_mass: MassTables | None = None

    def by_grid(
        self, subsets: Iterable[Subset]
    ) -> Iterable[tuple[Grid, RowsOnGrid | None, list[Subset]]]:
        """Return each grid, the rows on it, and the subsets whose tables have its cells."""
        found: dict[int, tuple[Grid, RowsOnGrid | None, list[Subset]]] = {}
        for subset in subsets:
            size = max(len(subset), 1)
            grid = self.grids[size]
            found.setdefault(id(grid), (grid, self.rows[size], []))[2].append(subset)
        return found.values()

    def mass(self, weighting: Weighting, subsets: Iterable[Subset]) -> MassTables:
        """Return the mass of every subset, on the grid of its order."""
        if self.given_mass is not None:
            return self.given_mass
        tables: MassTables = {}
        for on_grid in self.by_grid(subsets):
            tables |= weighting.tables(*on_grid)
        return tables


NOT_LAID_OUT = Layout(None, {}, {}, "", "")
"""What a problem has before its cells are chosen."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A model on its cells, the measure, and what the caller wants: what every route reads.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The parsed model.
    stream : RowStream, optional
        The rows that stand for the measure, in memory or in batches.
    weighting : Weighting
        The measure.
    kept_terms : KeptTerms
        The effects that become components.
    memory_budget : int
        Bytes that tables may take.
    report : callable
        Progress.
    method : str, TreeProjection or CoarseProjection
        How effects are to be computed; see `purify`.
    resolution, missing_cells : str
        See `purify`.
    cuts : tuple of (ndarray or None), optional
        Cuts of the union grid, where it has more than those of the model.
    layout : Layout
        The model on its cells, once these were chosen.
    copied : CopiedRows, optional
        The rows that were given, where those of the measure are copies of them.
    source_rows : SourceRows, optional
        Which of these each row is, where effects of a low order are fitted.
    trusts_rows : bool
        Whether the caller has named the measure: then effects are those under these rows, not
        those that predict others best.
    all_rows : RowStream, optional
        All rows, where `stream` is a sample of them.
    n_rows : int, optional
        Number of rows that were given, where they were counted.
    facts : mapping of str to object
        What the diagnostics say of the measure, of the cells, and of how rows were read.
    note : str
        What a reader of the certificate must know of the measure.
    """

    model: Model
    stream: RowStream | None
    weighting: Weighting
    kept_terms: KeptTerms
    memory_budget: int
    report: ProgressReport
    method: Any = "auto"
    resolution: Resolution = "auto"
    missing_cells: MissingCells = "auto"
    cuts: Cuts | None = None
    layout: Layout = NOT_LAID_OUT
    copied: CopiedRows | None = None
    source_rows: Any = None
    trusts_rows: bool = True
    all_rows: RowStream | None = None
    n_rows: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def ensemble(self) -> TreeEnsemble:
        """The model, where it is an ensemble."""
        if not isinstance(self.model, TreeEnsemble):
            raise TypeError("an additive model of tables has no trees")
        return self.model

    @property
    def function(self) -> ParsedFunction:
        """The margin of the model."""
        return ParsedFunction(self.model)

    @property
    def table(self) -> RowBatch | None:
        """The rows, where they are in memory."""
        return None if self.stream is None else self.stream.whole

    @property
    def columns(self) -> Columns | None:
        """The rows as the model reads them, where they are in memory."""
        return None if self.table is None else self.table.columns

    @property
    def grid(self) -> Grid:
        """The union grid."""
        return self.layout.grids[1]

    @property
    def boxes(self) -> LeafBoxes:
        """The leaves of an ensemble on the union grid."""
        if self.layout.boxes is None:
            raise TypeError("an additive model of tables has no leaves")
        return self.layout.boxes

    @property
    def rows(self) -> RowsOnGrid | None:
        """The rows on the union grid, with their weights, or counted there."""
        return self.layout.rows.get(1)

    @property
    def encoded_rows(self) -> EncodedRows | None:
        """The rows on the union grid one by one; None where there are none, or only counts."""
        return self.rows if isinstance(self.rows, EncodedRows) else None

    @property
    def measure_rows(self) -> MeasureRows | None:
        """The rows where they, and nothing else, are the measure."""
        rows = self.all_rows or self.stream
        if self.weighting.share_of_rows != 1.0 or self.layout.given_mass is not None:
            return None
        if rows is None or not rows.is_table:
            return rows if rows is not None and rows.source.can_repeat else None
        on_grids = self.layout.rows.items()
        return {size: one for size, one in on_grids if isinstance(one, EncodedRows)}

    @property
    def depth(self) -> int:
        """Largest number of features on a path, or of a table."""
        effects = self.layout.effects
        return max(map(len, self.boxes.subsets if effects is None else effects.tensors), default=0)

    @property
    def kept_order(self) -> int:
        """Largest order of a component that occurs."""
        order = self.kept_terms.order
        return self.depth if order is None else min(order, self.depth)

    @property
    def leaves_something_above(self) -> bool:
        """Whether effects can occur that do not become components."""
        return self.kept_terms.interactions is not None or self.kept_order < self.depth


def lay_out(problem: Problem, counted: Counted | None = None) -> Layout:
    """Choose the grids, encode the rows on them and write the model as effect tensors.

    Trees share one grid, the union of their cuts. The terms of an EBM have bins of their
    own: see `resolution` of `purify`.

    Rows in memory are encoded one by one. Rows in batches are not read: before they are `counted`,
    grids have cells for missing and unseen values everywhere, since a later batch may have such
    values; afterwards the counts come with their grids.

    Raises
    ------
    InvalidInputError
        If the resolution needs rows that are not there.
    MemoryBudgetError
        If the tensors would not fit.
    """
    model = problem.model
    if isinstance(model, AdditiveTables):
        return _lay_out_tables(problem, model, counted)
    _check_leaves(model, problem.memory_budget)
    cuts = problem.cuts or ensemble_cuts(model)
    grid, on_grid = _place(problem, cuts, None if counted is None else counted[1])
    boxes = leaf_boxes(model, grid)
    orders = range(1, max([1, *map(len, boxes.subsets)]) + 1)
    grids, rows = dict.fromkeys(orders, grid), dict.fromkeys(orders, on_grid)
    return Layout(None, grids, rows, problem.weighting.describe(), "union", boxes)


def _place(
    problem: Problem, cuts: Cuts, counted: CountedRows | None
) -> tuple[Grid, RowsOnGrid | None]:
    """Return the grid of some cuts, and the rows on it; of batches only how many there are."""
    if counted is not None:
        return counted.grid, counted
    model, stream, table = problem.model, problem.stream, problem.table
    is_ensemble = isinstance(model, TreeEnsemble)
    special: MissingCells = problem.missing_cells
    if table is None and (stream is not None or not is_ensemble):
        special = "always"
    grid, encoded = make_grid(
        problem.columns,
        model.features,
        cuts,
        match_names=model.has_feature_names,
        missing_cells=special,
        used=model.used_features if is_ensemble else None,
    )
    if table is not None and encoded is not None:
        return grid, replace(encoded, weights=table.weights)
    return grid, None if stream is None else CountedRows(grid, {}, stream.expected_rows)


def _check_leaves(model: TreeEnsemble, memory_budget: int) -> None:
    """Refuse an ensemble whose leaf boxes would not fit, before anything is allocated."""
    n_leaves, longest = int((model.feature < 0).sum()), min(model.depth, model.n_features)
    bytes_of_leaf = _BYTES_PER_FEATURE * longest + 8 * (model.value.shape[1] + 6)
    check_budget(
        bytes_of_leaf * n_leaves,
        memory_budget,
        f"the boxes of {n_leaves} leaves with up to {longest} features each",
        "Explain a model with fewer or smaller trees.",
    )


def _lay_out_tables(problem: Problem, model: AdditiveTables, counted: Counted | None) -> Layout:
    uses_bin_weights = problem.stream is None and problem.weighting.needs_rows
    chosen = "term" if problem.resolution == "auto" else problem.resolution
    if chosen == "union" and uses_bin_weights:
        raise InvalidInputError('resolution="union" needs the rows: pass X')
    grids: dict[int, Grid] = {}
    rows: dict[int, RowsOnGrid | None] = {}
    for size in range(1, max((len(term.features) for term in model.terms), default=1) + 1):
        if chosen == "union" and size > 1:
            grids[size], rows[size] = grids[1], rows[1]
        else:
            own = None if counted is None else counted[size]
            grids[size], rows[size] = _place(problem, table_cuts(model, size), own)
    subsets = downward_closure(term.features for term in model.terms)
    axes = [grids[len(subset)].subset_axes(subset) for subset in subsets]
    check_memory(axes, model.n_outputs, problem.memory_budget)
    mass = term_mass(model, grids, subsets) if uses_bin_weights else None
    measure = "empirical (the model's bin weights)" if mass else problem.weighting.describe()
    effects = table_effects(model, grids)
    return Layout(effects, grids, rows, measure, chosen, given_mass=mass)


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
    # Of pairs there are few subsets, whose tables are checked with theirs.
    long = [grid.subset_axes(subset) for subset in subsets if len(subset) > 2]
    check_memory(long, n_outputs, memory_budget)

    def check_number(n_tables: int) -> None:
        n_bytes = _BYTES_PER_TABLE * n_tables
        # Asked after each subset: words for the message only where it is needed.
        if n_bytes > memory_budget:
            what = "tables (for each set of features on a path, and its subsets)"
            words = f"more than {n_tables - 1} {what}"
            check_budget(n_bytes, memory_budget, words, _OF_SMALLER_ORDER)

    closed = downward_closure(subsets, check_number)
    check_memory([grid.subset_axes(subset) for subset in closed], n_outputs, memory_budget)
    return closed


def check_memory(axes: Iterable[Sequence[FeatureAxis]], n_outputs: int, memory_budget: int) -> None:
    """Refuse to purify tables that would not fit, before their masses are allocated."""
    tables = list(axes)
    cells = [prod([axis.n_cells for axis in table]) for table in tables]
    if not cells:
        return
    largest = cells.index(max(cells))
    names = " x ".join(axis.name for axis in tables[largest])
    check_budget(
        # Masses and tensors stay; the working copies are those of the largest table.
        8 * (3 * sum(cells) + 4 * max(cells)) * n_outputs,
        memory_budget,
        f"purifying {len(cells)} tables (the largest, {names}, has {cells[largest]} cells)",
        _ADVICE if len(tables[largest]) <= 2 else _OF_SMALLER_ORDER,
    )
