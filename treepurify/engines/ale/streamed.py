"""Accumulated local effects of rows that come in batches.

Quantiles are found first, exactly; then one pass sums local differences in the intervals between
them, and a last one measures what the effects explain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treepurify.components import Component
from treepurify.decomposition import Decomposition
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis
from treepurify.engines.ale.finished import finish_effects, wanted_pairs
from treepurify.engines.ale.local_effects import (
    accumulate_jumps,
    accumulate_main,
    accumulate_pair,
    check_pair,
    tree_places,
    trees_of,
)
from treepurify.engines.ale.local_sums import (
    JumpPlaces,
    JumpSums,
    MainSums,
    PairSums,
    jump_sums,
    main_sums,
    pair_sums,
)
from treepurify.engines.ale.streamed_axes import stream_axes
from treepurify.engines.common.functions import ParsedFunction, ResponseFunction
from treepurify.engines.common.inputs import Interactions
from treepurify.engines.common.model_check import check_head
from treepurify.engines.common.streamed_rows import explain_stream
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.rows.sources import check_repeats
from treepurify.typing import Array, Integers

__all__ = ["StreamTask", "ale_of_stream"]

_PASSES = (
    "three passes over the rows or more, to find quantiles, to sum local differences and to "
    "measure what the effects explain"
)


@dataclass(frozen=True, eq=False)
class StreamTask:
    """What `ale_anova` was asked for, for rows that come in batches.

    Parameters
    ----------
    model : object
        What the caller passed.
    f : ParsedFunction or ResponseFunction
        The parsed model.
    stream : RowStream
        The rows, with the columns of all features: categories are ordered by all of them.
    nodes : mapping of int to ndarray of float64, shape (n_nodes,)
        Nodes in place of quantiles.
    order, bins, interactions, memory_budget
        See `ale_anova`.
    report : callable
        Progress.
    """

    model: Any
    f: ParsedFunction | ResponseFunction
    stream: RowStream
    order: int
    bins: int
    nodes: Mapping[int, Array]
    interactions: Interactions | None
    memory_budget: int
    report: ProgressReport


def ale_of_stream(task: StreamTask) -> Decomposition:
    """Return the accumulated local effects of a model over all rows of a stream.

    Raises
    ------
    InvalidInputError
        If rows cannot be read, or more passes are needed than the source allows.
    MemoryBudgetError
        If sums would not fit.
    """
    f, stream = task.f, task.stream
    check_repeats(stream.source, _PASSES)
    check_head(task.model, f.model, stream)
    found = stream_axes(stream, task.bins, task.nodes, task.memory_budget, task.report)
    axes = {j: axis for j, axis in found.items() if j in f.used_features}
    pairs = wanted_pairs(f, axes, task.order, task.interactions)
    for j, k in pairs:
        check_pair(f, (axes[j], axes[k]), task.memory_budget)
    places: dict[int, JumpPlaces] = {}
    if isinstance(f, ParsedFunction) and isinstance(f.model, TreeEnsemble):
        places = {j: tree_places(f, axis) for j, axis in axes.items() if not axis.is_categorical}
    local = _LocalSums(f, axes, places, tuple(pairs))
    state = stream.reduce(local, "summing local differences", task.report)
    if not state.n_rows:
        raise InvalidInputError(f"{stream.source.describe()} has no rows of positive weight")
    components, empty = _components(local, state)
    intercept = state.margin / state.weight
    measured = explain_stream(stream, f, intercept, components, task.report)
    known: dict[Subset, Component] = {}
    for subset, component in components.items():
        if isinstance(component, AccumulatedComponent):
            variance, absolute = measured.variances[subset], measured.absolutes[subset]
            component = replace(component, variance=variance, mean_absolute=absolute)  # noqa: PLW2901
        known[subset] = component
    missing = {
        spec.name: int(n) for spec, n in zip(f.features, state.missing, strict=True) if n > 0
    }
    return finish_effects(
        f,
        intercept,
        known,
        measured.explained,
        state.n_rows,
        task.bins,
        empty,
        missing,
        {
            "standard_error": _errors_at_nodes(local, state),
            "stream": {"source": stream.source.describe(), "sampled_rows": 0},
        },
    )


Sums = MainSums | JumpSums | PairSums


@dataclass(frozen=True, eq=False)
class _State:
    """What a pass knows: the sums of each effect, and what all rows weigh together.

    Effects that jump at the cuts of an ensemble have their standard errors at the nodes.
    """

    sums: dict[Subset, Sums]
    at_nodes: dict[int, MainSums]
    n_rows: int
    weight: float
    margin: Array
    missing: Integers


@dataclass(frozen=True, eq=False)
class _LocalSums:
    """The statistic of local differences of all effects.

    Parameters
    ----------
    f : ParsedFunction or ResponseFunction
        The function.
    axes : dict of int to AccumulationAxis
        The nodes of each feature.
    places : dict of int to JumpPlaces
        The features whose effects jump at the cuts of a tree ensemble.
    pairs : tuple of tuple of int
        The pairs.
    """

    f: ParsedFunction | ResponseFunction
    axes: dict[int, AccumulationAxis]
    places: dict[int, JumpPlaces]
    pairs: tuple[Subset, ...]

    def zero(self) -> _State:
        """Return the sums over no rows."""
        n_features = len(self.f.features)
        return _State(
            {}, {}, 0, 0.0, np.zeros(self.f.n_outputs), np.zeros(n_features, dtype=np.int64)
        )

    def add(self, state: _State, rows: RowBatch) -> _State:
        """Return the sums with those over a batch."""
        columns, weights = rows.columns, rows.weights
        if weights is None:
            weights = np.ones(columns.n_rows)
        elif not np.all(weights > 0):
            kept = np.flatnonzero(weights > 0)
            columns, weights = columns.take(kept), weights[kept]
        if not columns.n_rows:
            return state
        sums: dict[Subset, Sums] = {}
        at_nodes = {}
        for j, axis in self.axes.items():
            if j in self.places:
                at_nodes[j] = main_sums(self.f, columns, weights, axis)
                sums[j,] = jump_sums(trees_of(self.f), columns, weights, self.places[j])
            else:
                sums[j,] = main_sums(self.f, columns, weights, axis)
        for j, k in self.pairs:
            sums[j, k] = pair_sums(self.f, columns, weights, (self.axes[j], self.axes[k]))
        missing = [int(np.isnan(values).sum()) for values in columns.values]
        # Sums rather than a matrix product: for one output the threads of a BLAS only wait.
        margin = (weights[:, None] * self.f(columns)).sum(axis=0)
        added = _State(
            sums,
            at_nodes,
            columns.n_rows,
            float(weights.sum()),
            margin,
            np.array(missing, dtype=np.int64),
        )
        return self.merge(state, added)

    def merge(self, state: _State, other: _State) -> _State:
        """Return the sums over the rows of both."""
        if not state.n_rows:
            return other
        if not other.n_rows:
            return state
        return _State(
            {subset: _merged(own, other.sums[subset]) for subset, own in state.sums.items()},
            {j: own.merge(other.at_nodes[j]) for j, own in state.at_nodes.items()},
            state.n_rows + other.n_rows,
            state.weight + other.weight,
            state.margin + other.margin,
            state.missing + other.missing,
        )


def _merged(one: Any, two: Any) -> Sums:
    merged: Sums = one.merge(two)
    return merged


def _errors_at_nodes(local: _LocalSums, state: _State) -> dict[str, dict[str, list[Any]]]:
    """Return the standard errors at the nodes of effects that are tables on the model's cuts."""
    errors = {}
    for j, sums in state.at_nodes.items():
        error = accumulate_main(sums, state.weight).standard_error
        at_nodes = {"nodes": local.axes[j].nodes.tolist(), "errors": error.tolist()}
        errors[local.f.features[j].name] = at_nodes
    return errors


def _components(local: _LocalSums, state: _State) -> tuple[dict[Subset, Component], dict[str, int]]:
    """Return the effects, not yet measured, and the number of cells without rows of pairs."""
    f = local.f
    components: dict[Subset, Component] = {}
    empty = {}
    unknown = np.full(f.n_outputs, np.nan)
    for subset, sums in state.sums.items():
        axes = tuple(local.axes[j] for j in subset)
        if isinstance(sums, JumpSums):
            components[subset] = accumulate_jumps(f, local.places[subset[0]], sums)
            continue
        if isinstance(sums, MainSums):
            effect = accumulate_main(sums, state.weight)
        else:
            effect = accumulate_pair(sums, (axes[0], axes[1]), state.weight)
            if effect.empty:
                empty[" & ".join(f.features[j].name for j in subset)] = effect.empty
        components[subset] = AccumulatedComponent(
            axes,
            effect.values,
            effect.standard_error,
            f.features,
            f.inputs.match_names,
            unknown,
            unknown,
            effect.between,
        )
    return components, empty
