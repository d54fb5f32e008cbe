"""The classes that storage knows by itself, and what must hold of those that it loads.

An engine registers its own classes with `treepurify.saving.savable`; the classes of packages
below the engines, which know nothing of saving, are registered here. The checks are of tables that
compiled code reads without looking at their bounds. The last functions read the remainders of
earlier versions.
"""

from collections.abc import Callable
from functools import cache
from itertools import chain, pairwise
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

# Imported for their classes, which register themselves: loading requires no engine.
import treepurify.engines.common.called_function
import treepurify.engines.common.table_form
import treepurify.engines.legendre.components
import treepurify.engines.partial_dependence.sampled  # noqa: F401
from treepurify.call import Call
from treepurify.cancelling import CancellingEffects
from treepurify.components import Component, ModelInputs, NodeErrors, TensorComponent
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis
from treepurify.engines.common.functions import ParsedFunction, RowFunction
from treepurify.engines.common.known_values import KnownValues
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.engines.partial_dependence.pattern_shares import PatternShares
from treepurify.engines.tree.closed_form import BoxComponent
from treepurify.errors import SavedFileError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import EncodedRows, Grid
from treepurify.links import Link
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.near_copies import NearCopy
from treepurify.origin import Concurvity, Edit, Identifiability, ModelFacts, Origin
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.saving import earlier_kind, savable
from treepurify.spread import Spread
from treepurify.typing import Array

__all__ = ["announce_kinds"]

# Fewer have no spread.
_LEAST_MODELS = 2
_OF_NODES_AND_OUTPUTS = 2
_PAIR = 2
_NAMES = (
    ("inputs", ModelInputs),
    ("sum of tables", SumOfParts),
    ("columns", Columns),
    ("rows", EncodedRows),
    ("call", Call),
    ("model", ModelFacts),
    ("identifiability", Identifiability),
    ("edit", Edit),
    ("trees", TreeEnsemble),
    ("source", ModelSource),
    ("additive tables", AdditiveTables),
    ("additive table", TableTerm),
)


@cache
def announce_kinds() -> None:
    """Register the classes; further calls do nothing."""
    for name, cls in _NAMES:
        savable(name)(cls)
    # The fitted steps of a pipeline are code: a reader of the file brings derived columns along.
    savable("feature", check=_check_feature, left_out=("derivation",))(FeatureSpec)
    # So is the fitted transformer of a target.
    savable("link", left_out=("undo",))(Link)
    savable("axis", check=_check_axis)(FeatureAxis)
    savable("grid", check=_check_grid)(Grid)
    savable("accumulated", check=_check_accumulated)(AccumulatedComponent)
    savable("accumulation axis", check=_check_accumulation_axis)(AccumulationAxis)
    savable("table", check=_check_table)(TensorComponent)
    savable("spread", check=_check_spread)(Spread)
    savable("origin", check=_check_origin)(Origin)
    savable("concurvity", check=_check_concurvity)(Concurvity)
    savable("cancelling effects", check=_check_cancelling)(CancellingEffects)
    savable("near copy", check=_check_near_copy)(NearCopy)
    savable("node errors", check=_check_node_errors)(NodeErrors)
    savable("leaf boxes", check=_check_boxes)(LeafBoxes)
    savable("boxes", check=_check_box_component)(BoxComponent)
    savable("patterns", check=_check_pattern)(PatternComponent)
    savable("pattern shares", check=_check_shares)(PatternShares)
    # Terms of the remainder can be found as long as the model itself is at hand.
    savable("difference", left_out=("find",))(Difference)


def _check_table(component: TensorComponent) -> None:
    """Refuse a table whose shape is not that of its axes, or whose values are not finite."""
    shape = tuple(axis.n_cells for axis in component.axes)
    raw = component.values if component.raw is None else component.raw
    if (
        component.values.shape[:-1] != shape
        or component.mass.shape != shape
        or raw.shape != component.values.shape
    ):
        raise SavedFileError(
            f"the table of features {component.features} has shape {component.values.shape}, its "
            f"axes have shape {shape}"
        )
    if not np.all(np.isfinite(component.mass)) or np.any(component.mass < 0):
        raise SavedFileError(
            f"the masses of features {component.features} are negative or not finite: the file is "
            "damaged"
        )
    if not np.all(np.isfinite(component.values)):
        raise SavedFileError(
            f"the table of features {component.features} contains values that are not finite: the "
            "file is damaged"
        )


def _check_feature(spec: FeatureSpec) -> None:
    """Refuse a feature whose codes and labels do not fit each other."""
    of_codes = (spec.listed_codes, spec.label_hashes)
    fits = spec.n_codes >= 0 and all(
        listed is None or len(listed) == spec.n_codes for listed in of_codes
    )
    fits = fits and (spec.categories is None or len(spec.categories) >= spec.n_codes)
    listed = spec.listed_codes or ()
    if not fits or any(a >= b for a, b in pairwise(listed)):
        raise SavedFileError(
            f"the file is damaged: the codes of feature {spec.name!r} do not match its labels"
        )


def _check_axis(axis: FeatureAxis) -> None:
    """Refuse cuts that are no numbers in increasing order."""
    fits = axis.cuts is None or _increases(axis.cuts)
    for ends in (axis.bounds, axis.central):
        if ends is not None:
            fits = fits and bool(np.all(np.isfinite(ends))) and ends[0] <= ends[1]
    if not fits:
        raise SavedFileError(f"the cells of {axis.name!r} in the file are damaged")


def _check_accumulated(component: AccumulatedComponent) -> None:
    """Refuse values at other nodes than those of the axes."""
    shape = tuple(len(axis.nodes) for axis in component.axes)
    if component.values.ndim != len(shape) + 1 or component.values.shape[:-1] != shape:
        raise SavedFileError(
            f"the effect of features {component.features} has values of shapes "
            f"{component.values.shape}, and its axes have {shape} nodes: the file is damaged"
        )


def _check_accumulation_axis(axis: AccumulationAxis) -> None:
    """Refuse nodes that are no finite numbers, or of a number not in increasing order."""
    fits = _increases(axis.nodes) if not axis.is_categorical else axis.nodes.ndim == 1
    if not fits or not np.all(np.isfinite(axis.nodes)):
        raise SavedFileError(f"the nodes of feature {axis.feature} in the file are damaged")


def _check_grid(grid: Grid) -> None:
    """Refuse axes of other features than the grid has."""
    if len(grid.axes) != len(grid.features):
        raise SavedFileError(
            f"the file has {len(grid.axes)} axes of cells for {len(grid.features)} features"
        )


def _increases(numbers: Array) -> bool:
    is_list = numbers.ndim == 1 and not np.any(np.isnan(numbers))
    return is_list and bool(np.all(numbers[1:] > numbers[:-1]))


def _check_spread(spread: Spread) -> None:
    """Refuse effects of another number of models or outputs than the spread says."""
    n_stacked = spread.n_models * spread.n_outputs
    fits = spread.n_models >= _LEAST_MODELS and spread.n_outputs > 0
    fits = fits and spread.intercepts.shape == (spread.n_models, spread.n_outputs)
    fits = fits and bool(np.all(np.isfinite(spread.intercepts)))
    for subset, component in spread.stacked.items():
        has_features = set(subset) <= set(range(len(spread.feature_names)))
        is_of_all = component.values.shape[-1] == n_stacked
        fits = fits and subset == component.features and has_features and is_of_all
    if not fits:
        raise SavedFileError("the file is damaged: the effects of its trainings are inconsistent")


def _check_origin(origin: Origin) -> None:
    """Refuse a negative number of rows."""
    if origin.n_rows is not None and origin.n_rows < 0:
        raise SavedFileError(f"the file is damaged: it refers to {origin.n_rows} rows")


def _check_concurvity(found: Concurvity) -> None:
    """Refuse any other number of features than two."""
    if len(found.features) != _PAIR:
        raise SavedFileError(f"the file is damaged: it lists features {found.features} as a pair")


def _check_cancelling(group: CancellingEffects) -> None:
    """Refuse a single effect, and numbers that no effects give."""
    fits = len(group.members) >= _PAIR and -1 <= group.correlation <= 1
    if not fits or not 0 <= group.variance < np.inf:
        raise SavedFileError(f"the file is damaged: it lists effects {group.members} as a group")


def _check_near_copy(found: NearCopy) -> None:
    """Refuse a feature as a copy of itself, and numbers that no effects give."""
    correlation = 0.0 if found.correlation is None else found.correlation
    fits = found.feature != found.other and -1 <= correlation <= 1 and found.share <= 1
    if not fits:
        raise SavedFileError(f"the file is damaged: it lists {found} as near copies")


def _check_node_errors(known: NodeErrors) -> None:
    """Refuse errors of another number than their nodes."""
    nodes, errors = known.nodes, known.errors
    fits = nodes.ndim == 1 and len(nodes) > 0 and not np.any(np.isnan(nodes))
    if not fits or errors.ndim != _OF_NODES_AND_OUTPUTS or len(errors) != len(nodes):
        raise SavedFileError(
            "the file is damaged: it does not have one standard error for each node"
        )


def _check_boxes(boxes: LeafBoxes) -> None:
    """Refuse leaves whose entries, runs or outputs lie outside their arrays."""
    n_leaves, n_entries = len(boxes.leaf_subset), len(boxes.entry_feature)
    fits = (
        _is_partition(boxes.entry_ptr, n_leaves, n_entries)
        and _is_partition(boxes.run_ptr, n_entries, len(boxes.run_start))
        and _is_whole(boxes.run_start, len(boxes.run_start))
        and _is_whole(boxes.run_stop, len(boxes.run_start))
        and _is_whole(boxes.entry_feature, n_entries)
        and bool(np.all(boxes.run_start >= 0))
        and bool(np.all(boxes.entry_feature >= 0))
        and _is_whole(boxes.output, n_leaves)
        and boxes.values.dtype == np.float64
        and boxes.values.ndim == 2
        and len(boxes.values) == n_leaves
        and boxes.values.shape[1] > 0
        and _is_whole(boxes.leaf_subset, n_leaves)
        and bool(np.all(boxes.leaf_subset < len(boxes.subsets)))
    )
    if not fits or not _entries_are_subsets(boxes):
        raise SavedFileError("the file is damaged: its leaves are inconsistent")


def _check_shares(shares: PatternShares) -> None:
    """Refuse shares of another number or order than their leaves have."""
    boxes = shares.boxes
    depth = max((len(subset) for subset in boxes.subsets), default=0)
    width = shares.limit + 2
    choose = np.array([[comb(n, k) for k in range(width)] for n in range(depth + 2)], np.int64)
    lengths = np.minimum(np.diff(boxes.entry_ptr), depth + 1)
    per_leaf = choose[lengths, : shares.limit + 1].sum(axis=1)
    slot_ptr = np.concatenate([[0], np.cumsum(per_leaf)])
    fits = (
        np.array_equal(shares.choose, choose)
        and np.array_equal(shares.slot_ptr, slot_ptr)
        and shares.share.dtype == np.float64
        and shares.share.shape == (slot_ptr[-1],)
    )
    if not fits:
        raise SavedFileError(
            "the file is damaged: the shares of its leaves do not match the leaves"
        )


def _check_pattern(component: PatternComponent) -> None:
    """Refuse a term of more features than its shares are for, or of outputs that are not there."""
    shares, n_outputs = component.shares, component.n_outputs
    _check_features(shares.boxes, component.grid)
    if len(component.features) > shares.limit:
        raise SavedFileError(
            "the file is damaged: shares are stored for fewer features than an effect has"
        )
    _check_outputs(shares.boxes, n_outputs)


def _check_box_component(component: BoxComponent) -> None:
    """Refuse probabilities of another number than the leaves' entries, and missing outputs."""
    boxes, probability = component.boxes, component.probability
    _check_features(boxes, component.grid)
    if probability.shape != boxes.entry_feature.shape or probability.dtype != np.float64:
        raise SavedFileError(
            "the file is damaged: the probabilities of its leaves do not match the leaves"
        )
    _check_outputs(boxes, len(component.variance))


def _check_features(boxes: LeafBoxes, grid: Grid) -> None:
    """Refuse leaves of features, or of cells, that the grid does not have."""
    if np.any(boxes.entry_feature >= grid.n_features):
        raise SavedFileError("the file is damaged: its leaves refer to features that do not exist")
    n_cells = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    last = np.repeat(n_cells[boxes.entry_feature], np.diff(boxes.run_ptr))
    if np.any(boxes.run_start > boxes.run_stop) or np.any(boxes.run_stop > last):
        raise SavedFileError("the file is damaged: its leaves refer to cells that do not exist")


def _check_outputs(boxes: LeafBoxes, n_outputs: int) -> None:
    is_beyond = bool(np.any(boxes.output >= n_outputs))
    has_few = bool(np.any(boxes.output < 0)) and boxes.values.shape[1] < n_outputs
    if is_beyond or has_few:
        raise SavedFileError("the file is damaged: its leaves refer to outputs that do not exist")


def _is_whole(array: npt.NDArray[Any], size: int) -> bool:
    return array.dtype.kind in "iu" and array.shape == (size,)


def _is_partition(ends: npt.NDArray[Any], n_parts: int, total: int) -> bool:
    """Return whether numbers from zero up to `total` bound the parts of an array."""
    if not _is_whole(ends, n_parts + 1):
        return False
    return bool(ends[0] == 0 and ends[-1] == total and np.all(np.diff(ends.astype(np.int64)) >= 0))


def _entries_are_subsets(boxes: LeafBoxes) -> bool:
    """Return whether the entries of every reachable leaf are the features of its subset."""
    sizes = np.array([len(subset) for subset in boxes.subsets], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    flat = np.array([*chain.from_iterable(boxes.subsets)], dtype=np.int64)
    reachable = boxes.leaf_subset >= 0
    counts = np.diff(boxes.entry_ptr)
    if np.any(counts[reachable] != sizes[boxes.leaf_subset[reachable]]):
        return False
    owner = np.repeat(np.arange(len(counts)), counts)
    used = np.flatnonzero(reachable[owner])
    offset = used - boxes.entry_ptr[owner[used]]
    expected = flat[starts[boxes.leaf_subset[owner[used]]] + offset]
    return bool(np.array_equal(boxes.entry_feature[used], expected))


# The remainders of files of format versions 2 and 3 that were written before there was one
# class of differences.
@earlier_kind("model minus components")
def _model_minus_components(
    model: TreeEnsemble, intercept: Array, components: tuple[Component, ...], variance: Array
) -> Difference:
    return Difference(ParsedFunction(model), intercept, components, variance)


@earlier_kind("function minus components")
def _function_minus_components(
    box: RowFunction, intercept: Array, components: tuple[Component, ...], variance: Array
) -> Difference:
    return Difference(box, intercept, components, variance)


@earlier_kind("remainder of given values")
def _values_minus_components(
    inputs: ModelInputs, rows: Array, values: Array, variance: Array
) -> Difference:
    # The values are what is left already: nothing is to be taken off.
    return Difference(KnownValues(inputs, rows, values), np.zeros(len(variance)), (), variance)


@earlier_kind("categorical residual")
def _categorical_residual(
    inputs: ModelInputs,
    axes: tuple[FeatureAxis, ...],
    intercept: Array,
    components: tuple[TensorComponent, ...],
    variance: Array,
    mean_absolute: Array,
    function: Callable[[Any], Array] | None,
    cells: npt.NDArray[np.unsignedinteger[Any]],
    values: Array,
) -> Difference:
    whole = values + intercept
    for component in components:
        whole += component.on_cells(cells[list(component.features)])
    return Difference(
        KnownValues(inputs, cells.T, whole, axes, function),
        intercept,
        components,
        variance,
        is_joint=True,
        mean_absolute=mean_absolute,
    )
