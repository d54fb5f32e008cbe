"""Interventional Shapley values of groups of features, for a model, function or decomposition.

The values are linear, so those of a sum of trees, tables and functions are the sum of theirs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from treepurify.arguments import read_output
from treepurify.budget import check_budget
from treepurify.components import TensorComponent, locate_cells
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import ParsedFunction, read_function
from treepurify.grids.grid import Subset
from treepurify.models.additive_tables import AdditiveTables, term_cells
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns
from treepurify.shapley.coalitions import coalition_values
from treepurify.shapley.interventional import tree_values
from treepurify.shapley.table_values import table_values
from treepurify.typing import Array, Indices, Integers

__all__ = ["Explained", "group_values", "read_explained", "trainings_of"]


class _Called(NamedTuple):
    """A function of columns with values for all outputs, and the features it may depend on."""

    function: Callable[[Columns], Array]
    features: Subset


_Part = TreeEnsemble | AdditiveTables | TensorComponent | _Called


class Explained(NamedTuple):
    """One output of a model, function or decomposition, as a sum of parts.

    Parameters
    ----------
    feature_names, output_names : tuple of str
        Names of the features and outputs.
    output : int
        The output.
    margin : callable
        Columns -> the function itself, shape (n_rows, n_outputs).
    columns : callable
        Reads a table, and compares a model with its library on it.
    parts : sequence of (float, part)
        A sign, and trees, tables, an effect or a function; they sum to the output but for a
        constant and what belongs to no feature.
    """

    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    output: int
    margin: Callable[[Columns], Array]
    columns: Callable[[Any], Columns]
    parts: Sequence[tuple[float, _Part]]


def read_explained(
    model: Any, X: Any, output: Any, feature_names: Sequence[str] | None
) -> Explained:
    """Read what is explained; `X` are rows in the form that a function is called with."""
    if isinstance(model, Decomposition):
        return _of_decomposition(model, output, _parts_of(model))
    function, _ = read_function(model, X, feature_names)
    part: _Part = _Called(function, function.used_features)
    if isinstance(function, ParsedFunction):
        part = function.model
    return Explained(
        tuple(spec.name for spec in function.features),
        function.output_names,
        read_output(output, function.output_names),
        function,
        function.columns,
        [(1.0, part)],
    )


def trainings_of(d: Decomposition, output: int) -> list[Explained]:
    """Return each training of a decomposition of several; none where they are not known."""
    spread = d.spread
    if spread is None or d.remainder is not None or set(spread.stacked) != set(d.components):
        return []
    return [
        _of_decomposition(
            d,
            output,
            [
                (1.0, replace(part, values=spread.values(subset)[model]))
                for subset, part in spread.stacked.items()
            ],
        )
        for model in range(spread.n_models)
    ]


def _of_decomposition(
    d: Decomposition, output: Any, parts: Sequence[tuple[float, _Part]]
) -> Explained:
    chosen = read_output(output, d.output_names)
    return Explained(d.feature_names, d.output_names, chosen, d.on_rows, d.inputs.columns, parts)


def _parts_of(d: Decomposition) -> list[tuple[float, _Part]]:
    rest, added, taken = d.remainder, list(d.components.values()), []
    parts: list[tuple[float, _Part]] = []
    if isinstance(rest, SumOfParts):
        added += rest.parts
    elif isinstance(rest, Difference) and isinstance(rest.function, ParsedFunction):
        # The model less the components that it had, plus those that the decomposition has now:
        # where nothing was edited, the model.
        parts = [(1.0, rest.function.model)]
        of_rest, own = set(map(id, rest.components)), set(map(id, added))
        taken = [part for part in rest.components if id(part) not in own]
        added = [part for part in added if id(part) not in of_rest]
    for sign, components in ((1.0, added), (-1.0, taken)):
        for part in components:
            if isinstance(part, TensorComponent):
                parts.append((sign, part))
            else:
                parts.append((sign, _Called(part.on_rows, part.features)))
    return parts


def group_values(
    explained: Explained,
    columns: Columns,
    reference: Columns,
    shares: Array,
    group_of_feature: Integers,
    memory_budget: int,
    report: ProgressReport,
) -> Array:
    """Return the interventional Shapley values of groups of features, (n_rows, n_groups).

    They sum to the difference from the mean of the reference.

    Parameters
    ----------
    explained : Explained
        What is explained.
    columns, reference : Columns
        The rows to explain, and the reference population.
    shares : ndarray of float64, shape (n_reference,)
        Share of each reference row; they sum to one.
    group_of_feature : ndarray of int64, shape (n_features,)
        The group of each feature, which is one player.
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
    n_groups, k = int(group_of_feature.max(initial=-1)) + 1, explained.output
    total = np.zeros((columns.n_rows, n_groups))
    check_budget(
        2 * total.nbytes,
        memory_budget,
        f"the reasons of {columns.n_rows} rows",
        "Pass fewer rows at a time.",
    )

    def add_table(table: Array, features: Sequence[int], cells: list[tuple[Indices, ...]]) -> None:
        players = tuple(int(group_of_feature[j]) for j in features)
        check_budget(
            8 * (2 ** len(players) + len(players) + 1) * table.size,
            memory_budget,
            "the tables of an effect",
            "Purify with fewer bins, or pass the model itself.",
        )
        for player, own in table_values(table, np.stack(cells[1]), shares, players).items():
            total[:, player] += own[cells[0]]

    def called(part: _Called) -> Array:
        if len(part.features) > 1:
            given = (len(explained.output_names), part.features, memory_budget, report)
            found = coalition_values(
                part.function, columns, reference, shares, *given, group_of_feature
            )
            return found.values[..., k]
        values = np.zeros_like(total)
        for j in part.features:
            own = part.function(columns) - shares @ part.function(reference)
            values[:, group_of_feature[j]] = own[:, k]
        return values

    located: dict[tuple[int, int], list[Indices]] = {}
    for sign, part in explained.parts:
        if isinstance(part, TreeEnsemble):
            given = (columns, reference, shares, memory_budget, report, group_of_feature)
            total += sign * tree_values(part, *given)[..., k]
        elif isinstance(part, AdditiveTables):
            for term in part.terms:
                cells = [
                    tuple(
                        term_cells(rows.values[j], part.features[j], cuts)
                        for j, cuts in zip(term.features, term.cuts, strict=True)
                    )
                    for rows in (columns, reference)
                ]
                if term.features:
                    add_table(sign * term.scores[..., k], term.features, cells)
        elif isinstance(part, TensorComponent):
            along = list(zip(part.features, part.axes, strict=True))
            for j, axis in along:
                if (j, id(axis)) not in located:
                    both = [locate_cells(rows, j, axis) for rows in (columns, reference)]
                    located[j, id(axis)] = both
            cells = [tuple(located[j, id(axis)][side] for j, axis in along) for side in range(2)]
            add_table(sign * part.values[..., k], part.features, cells)
        else:
            total += sign * called(part)
    return total
