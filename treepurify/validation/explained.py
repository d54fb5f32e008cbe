"""What is explained, as summands whose values against a reference are known exactly."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from treepurify.arguments import read_output
from treepurify.budget import check_budget
from treepurify.components import Component, ModelInputs, TensorComponent, locate_on_grid
from treepurify.decomposition import Decomposition
from treepurify.effects.accumulate import accumulate, model_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.effects.table_effects import table_cuts, table_effects
from treepurify.engines.common.functions import ParsedFunction, RowFunction, read_function
from treepurify.errors import MemoryBudgetError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Cuts, Grid, Subset, make_grid
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns
from treepurify.shapley.coalitions import coalition_values
from treepurify.shapley.interventional import tree_values
from treepurify.shapley.table_values import table_values
from treepurify.typing import Array, Cells, Indices, Integers

__all__ = [
    "ExplainedOutput",
    "TablePart",
    "explained",
    "spread_trainings",
]

# Of the rest of a tree ensemble as tables, effects of more features would take the most memory.
_MOST_FEATURES_OF_TABLES = 2


class TablePart(NamedTuple):
    """A summand that is a table: its features, their cells, and its values there."""

    features: Subset
    axes: tuple[FeatureAxis, ...]
    values: Array

    def places(self, cells: Cells, axes: Sequence[FeatureAxis]) -> tuple[Indices, ...]:
        """Return the own cells of rows that are in some cells of finer axes of all features."""
        pairs = zip(self.features, self.axes, strict=True)
        return tuple(axes[j].cells_in(own)[cells[j]] for j, own in pairs)


@dataclass(frozen=True, eq=False)
class _FunctionPart:
    """A summand that can only be called: a sign, a function of columns, and what it depends on."""

    sign: float
    function: Callable[[Columns], Array]
    features: Subset


@dataclass(frozen=True, eq=False)
class ExplainedOutput:
    """One output of a model or a decomposition as a sum of tables, trees and functions.

    Interventional Shapley values are linear, so those of the sum are the sum of theirs.

    Parameters
    ----------
    inputs : ModelInputs
        How the columns of a table are read.
    output_names : tuple of str
        One name per output.
    output : int
        The output that is explained.
    margin : callable
        Columns -> the function itself, shape (n_rows, n_outputs).
    tables : tuple of TablePart
        Tables that are added, each of the output, on cells of its own.
    trees : tuple of TreeEnsemble
        Trees that are added.
    functions : tuple of _FunctionPart
        Functions that are added.
    compared : callable, optional
        Reads a table, and compares the model with its library on it.
    """

    inputs: ModelInputs
    output_names: tuple[str, ...]
    output: int
    margin: Callable[[Columns], Array]
    tables: tuple[TablePart, ...] = ()
    trees: tuple[TreeEnsemble, ...] = ()
    functions: tuple[_FunctionPart, ...] = ()
    compared: Callable[[Any], Columns] | None = None

    def columns(self, X: Any) -> Columns:
        """Read a table, and compare a model with its library on it."""
        return self.inputs.columns(X) if self.compared is None else self.compared(X)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(spec.name for spec in self.inputs.features)

    @cached_property
    def table_axes(self) -> tuple[FeatureAxis, ...]:
        """The cells of each feature in which all tables are constant."""
        return tuple(
            _union_axis(axes) if axes else FeatureAxis(spec.name, np.empty(0))
            for spec, axes in zip(self.inputs.features, self._axes_of_tables, strict=True)
        )

    @cached_property
    def _axes_of_tables(self) -> list[list[FeatureAxis]]:
        axes: list[list[FeatureAxis]] = [[] for _ in self.inputs.features]
        for part in self.tables:
            for j, axis in zip(part.features, part.axes, strict=True):
                axes[j].append(axis)
        return axes

    def margins(self, columns: Columns) -> Array:
        """Return the output on all rows, shape (n_rows,)."""
        return self.margin(columns)[:, self.output]

    def values(
        self,
        columns: Columns,
        reference: Columns,
        shares: Array,
        player_of_feature: Integers,
        memory_budget: int,
        report: ProgressReport,
    ) -> Array:
        """Return the interventional Shapley values of players, shape (n_rows, n_players).

        They sum to the difference from the mean of the reference.

        Parameters
        ----------
        columns, reference : Columns
            The rows to explain, and the reference population.
        shares : ndarray of float64, shape (n_reference,)
            Share of each reference row; they sum to one.
        player_of_feature : ndarray of int64, shape (n_features,)
            The player of each feature.
        memory_budget : int
            Bytes that values and tables may take.
        report : callable
            Progress.

        Raises
        ------
        InvalidInputError
            If a function would have to be called with too many rows.
        MemoryBudgetError
            If values or tables would not fit.
        """
        n_players = int(player_of_feature.max(initial=-1)) + 1
        n_cells = sum((1 + len(part.features)) * part.values.size for part in self.tables)
        check_budget(
            8 * (n_cells + (1 + n_players) * columns.n_rows),
            memory_budget,
            f"the reasons of {columns.n_rows} rows",
            "Pass fewer rows at a time.",
        )
        total = np.zeros((columns.n_rows, n_players))
        given = (memory_budget, report, player_of_feature)
        for ensemble in self.trees:
            of_trees = tree_values(ensemble, columns, reference, shares, *given)
            total += of_trees[:, :, self.output]
        for part in self.functions:
            total += part.sign * self._of_function(part, columns, reference, shares, given)
        if not self.tables:
            return total
        cells, reference_cells = self._cells(columns), self._cells(reference)
        for table in self.tables:
            players = tuple(int(player_of_feature[j]) for j in table.features)
            at_reference = np.stack(table.places(reference_cells, self.table_axes))
            found = table_values(table.values, at_reference, shares, players)
            places = table.places(cells, self.table_axes)
            for player, own in found.items():
                total[:, player] += own[places]
        return total

    def _cells(self, columns: Columns) -> Cells:
        """Return the cells of rows along the features that have tables, zero along all others."""
        cells = np.zeros((len(columns.features), columns.n_rows), dtype=np.intp)
        features = tuple(sorted({j for table in self.tables for j in table.features}))
        grid = Grid(self.table_axes, self.inputs.features, self.inputs.match_names)
        cells[list(features)] = locate_on_grid(columns, grid, features)
        return cells

    def _of_function(
        self,
        part: _FunctionPart,
        columns: Columns,
        reference: Columns,
        shares: Array,
        given: tuple[int, ProgressReport, Integers],
    ) -> Array:
        player_of_feature = given[2]
        if len(part.features) == 1:
            values = np.zeros((columns.n_rows, int(player_of_feature.max()) + 1))
            own = part.function(columns) - shares @ part.function(reference)
            values[:, player_of_feature[part.features[0]]] = own[:, self.output]
            return values
        n_outputs = len(self.output_names)
        of_players = coalition_values(
            part.function, columns, reference, shares, n_outputs, part.features, *given
        )
        return of_players.values[:, :, self.output]


def explained(
    model: Any,
    X: Any,
    output: Any,
    feature_names: Sequence[str] | None,
    memory_budget: int,
) -> ExplainedOutput:
    """Read a model, a function or a decomposition.

    Parameters
    ----------
    model : object, str, Path, callable or Decomposition
        What is explained.
    X : array_like or table of shape (n_reference, n_features)
        Rows in the form that a function is called with.
    output : int or str
        The output, by position or by name.
    feature_names : sequence of str, optional
        Names of the features of a model.
    memory_budget : int
        Bytes that tables may take.
    """
    if isinstance(model, Decomposition):
        return _of_decomposition(model, output, memory_budget)
    function, _ = read_function(model, X, feature_names)
    return _of_function(function, output, memory_budget)


def _of_function(function: RowFunction, output: Any, memory_budget: int) -> ExplainedOutput:
    chosen = read_output(output, function.output_names)
    plain = ExplainedOutput(
        function.inputs, function.output_names, chosen, function, compared=function.columns
    )
    if not isinstance(function, ParsedFunction):
        called = _FunctionPart(1.0, function, function.used_features)
        return replace(plain, functions=(called,))
    tables = _tables_of_model(function.model, chosen, memory_budget)
    if tables is None and isinstance(function.model, TreeEnsemble):
        return replace(plain, trees=(function.model,))
    return replace(plain, tables=tables or ())


def _tables_of_model(model: Model, output: int, memory_budget: int) -> tuple[TablePart, ...] | None:
    """Return the tables of an EBM, or of trees where no leaf depends on more than two features."""
    if isinstance(model, AdditiveTables):
        sizes = {len(term.features) for term in model.terms}
        grids = {size: _grid_of(model, table_cuts(model, size)) for size in sizes}
        subsets = {term.features for term in model.terms}
        check_budget(
            16 * model.n_outputs * sum(prod(grids[len(s)].shape(s)) for s in subsets),
            memory_budget,
            "the tables of the model",
            "Train with fewer bins.",
        )
        effects = table_effects(model, grids)
    else:
        grid = _model_grid(model)
        boxes = leaf_boxes(model, grid)
        if max(map(len, boxes.subsets), default=0) > _MOST_FEATURES_OF_TABLES:
            return None
        try:
            effects = accumulate(model, grid, boxes, memory_budget // 4)
        except MemoryBudgetError:
            return None
    return tuple(
        TablePart(subset, found.axes, found.values[..., output])
        for subset, found in effects.tensors.items()
    )


def _model_grid(model: Model) -> Grid:
    """Return the grid of all cuts of a model."""
    return _grid_of(model, model_cuts(model))


def _grid_of(model: Model, cuts: Cuts) -> Grid:
    """Return a grid for a model, with a cell for missing and unseen values."""
    grid, _ = make_grid(
        None,
        model.features,
        cuts,
        match_names=model.has_feature_names,
        missing_cells="always",
    )
    return grid


def _of_decomposition(d: Decomposition, output: Any, memory_budget: int) -> ExplainedOutput:
    chosen = read_output(output, d.output_names)
    rest = d.remainder
    added: list[Component] = list(d.components.values())
    if isinstance(rest, SumOfParts):
        added += rest.parts
    plain = ExplainedOutput(d.inputs, d.output_names, chosen, d.on_rows)
    if not isinstance(rest, Difference):
        return _with_components(plain, added, (), memory_budget)
    if not isinstance(rest.function, ParsedFunction):
        return _with_components(plain, added, (), memory_budget)
    # The function less the components that it had, plus those that the decomposition has now:
    # where nothing was edited, the function.
    kept, taken = {id(part) for part in added}, {id(part) for part in rest.components}
    function = replace(_of_function(rest.function, chosen, memory_budget), margin=d.on_rows)
    return _with_components(
        function,
        [part for part in added if id(part) not in taken],
        [part for part in rest.components if id(part) not in kept],
        memory_budget,
    )


def _with_components(
    function: ExplainedOutput,
    added: Iterable[Component],
    taken: Iterable[Component],
    memory_budget: int,
) -> ExplainedOutput:
    """Add components and take others away."""
    signed = [*((1.0, part) for part in added), *((-1.0, part) for part in taken)]
    if not signed:
        return function
    called, tables = list(function.functions), list(function.tables)
    known = [part for _, part in signed if isinstance(part, TensorComponent)]
    check_budget(
        16 * sum(prod(axis.n_cells for axis in part.axes) for part in known),
        memory_budget,
        "the tables of the effects",
        "Purify with fewer bins, or pass the model itself.",
    )
    for sign, part in signed:
        if isinstance(part, TensorComponent):
            values = sign * part.stored().values[..., function.output]
            tables.append(TablePart(part.features, part.axes, values))
        else:
            called.append(_FunctionPart(sign, part.on_rows, part.features))
    return replace(function, functions=tuple(called), tables=tuple(tables))


def _union_axis(axes: Sequence[FeatureAxis]) -> FeatureAxis:
    cuts = [axis.cuts for axis in axes if axis.cuts is not None]
    return replace(
        axes[0],
        cuts=np.unique(np.concatenate(cuts)) if cuts else None,
        has_other=any(axis.has_other for axis in axes),
        has_missing=any(axis.has_missing for axis in axes),
    )


def spread_trainings(d: Decomposition, output: int) -> list[ExplainedOutput]:
    """Return each training of a decomposition of several; none where they are not known."""
    spread = d.spread
    if spread is None or d.remainder is not None or set(spread.stacked) != set(d.components):
        return []
    plain = ExplainedOutput(d.inputs, d.output_names, output, d.on_rows)
    trainings = []
    for model in range(spread.n_models):
        tables = tuple(
            TablePart(subset, part.axes, spread.values(subset)[model, ..., output])
            for subset, part in spread.stacked.items()
        )
        trainings.append(replace(plain, tables=tables))
    return trainings
