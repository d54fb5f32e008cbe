"""The classes that storage knows by itself, and what must hold of those that it loads.

An engine registers its own classes with `treepurify.saving.savable`; the classes of packages
below the engines, which know nothing of saving, are registered here. The checks are of tables that
compiled code reads without looking at their bounds.
"""

from collections.abc import Callable
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

# Imported for their classes, which register themselves: loading requires no engine.
import treepurify.engines.common.functions
import treepurify.engines.common.known_values
import treepurify.engines.legendre.components
import treepurify.engines.partial_dependence.sampled  # noqa: F401
from treepurify.certificate import Certificate
from treepurify.collinear import CollinearEffects
from treepurify.components import ModelInputs, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.engines.ale.components import AccumulatedComponent, AccumulationAxis
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
from treepurify.origin import Call, Edit, Identifiability, ModelFacts, Origin
from treepurify.remainder import Difference, SumOfParts
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.saving import savable
from treepurify.spread import Spread
from treepurify.typing import Array


@cache
def announce_kinds() -> None:
    """Register the classes; further calls do nothing."""
    plain: tuple[type, ...] = (
        AccumulationAxis, AdditiveTables, Call, Certificate, CollinearEffects, Columns,
        Edit, EncodedRows, Grid, Identifiability, ModelFacts, ModelInputs, ModelSource,
        Origin, Spread, SumOfParts, TableTerm, TreeEnsemble,
    )  # fmt: skip
    checked: dict[type, Callable[[Any], None]] = {
        AccumulatedComponent: _check_accumulated, BoxComponent: _check_box_component,
        FeatureAxis: _check_axis, LeafBoxes: _check_boxes, PatternComponent: _check_pattern,
        PatternShares: _check_shares, TensorComponent: _check_table,
    }  # fmt: skip
    for cls in (*plain, *checked):
        savable(cls.__name__, check=checked.get(cls))(cls)
    savable("Decomposition", left_out=("rows", "given"))(Decomposition)
    # The fitted steps of a pipeline are code: a reader of the file brings derived columns along.
    savable("FeatureSpec", left_out=("derivation",), check=_check_feature)(FeatureSpec)
    # So is the fitted transformer of a target.
    savable("Link", left_out=("undo",))(Link)
    # Terms of the remainder can be found as long as the model itself is at hand.
    savable("Difference", left_out=("find",))(Difference)


def _refuse(is_wrong: Any, what: str) -> None:
    if is_wrong:
        raise SavedFileError(f"the file is damaged: {what}")


def _increases(numbers: Array) -> bool:
    return numbers.ndim == 1 and bool(np.all(numbers[1:] > numbers[:-1]))


def _check_table(component: TensorComponent) -> None:
    """Refuse a table whose shape is not that of its axes, or whose values are not finite."""
    shape, named = tuple(axis.n_cells for axis in component.axes), component.features
    tables = [component.values, *([] if component.raw is None else [component.raw])]
    fits = component.mass.shape == shape and {table.shape[:-1] for table in tables} == {shape}
    _refuse(not fits, f"the table of features {named} does not have the cells of its axes")
    _refuse(
        not all(np.all(np.isfinite(table)) for table in [component.values, component.mass]),
        f"the table of features {named} contains values that are not finite",
    )


def _check_feature(spec: FeatureSpec) -> None:
    """Refuse a feature that rows cannot be read by, or whose codes do not fit its labels."""
    of_codes = (spec.listed_codes, spec.label_hashes)
    fits = isinstance(spec.name, str) and isinstance(spec.missing_value, float | int | None)
    fits = fits and all(listed is None or len(listed) == spec.n_codes for listed in of_codes)
    fits = fits and (spec.categories is None or len(spec.categories) >= spec.n_codes >= 0)
    fits = fits and all(a < b for a, b in pairwise(spec.listed_codes or ()))
    _refuse(not fits, f"the codes or types of feature {spec.name!r} are inconsistent")


def _check_axis(axis: FeatureAxis) -> None:
    """Refuse cuts that are no numbers in increasing order."""
    is_wrong = axis.cuts is not None and not (
        _increases(axis.cuts) and not np.any(np.isnan(axis.cuts))
    )
    _refuse(is_wrong, f"the cuts of {axis.name!r} do not increase")


def _check_accumulated(component: AccumulatedComponent) -> None:
    """Refuse values at other nodes than those of the axes, and nodes out of order."""
    shape = tuple(len(axis.nodes) for axis in component.axes)
    fits = component.values.ndim == len(shape) + 1 and component.values.shape[:-1] == shape
    for axis in component.axes:
        fits = fits and bool(np.all(np.isfinite(axis.nodes)))
        fits = fits and (axis.is_categorical or _increases(axis.nodes))
    _refuse(not fits, f"the values of features {component.features} do not fit their nodes")


def _check_boxes(boxes: LeafBoxes) -> None:
    """Refuse leaves whose entries, runs or outputs lie outside their arrays."""
    n_leaves, n_entries, n_runs = (
        len(each) for each in (boxes.leaf_subset, boxes.entry_feature, boxes.run_start)
    )
    sizes = {
        "leaf_subset": n_leaves, "output": n_leaves, "entry_ptr": n_leaves + 1,
        "entry_feature": n_entries, "run_ptr": n_entries + 1,
        "run_start": n_runs, "run_stop": n_runs,
    }  # fmt: skip
    fits = boxes.values.dtype == np.float64 and boxes.values.ndim == 2
    fits = fits and len(boxes.values) == n_leaves and boxes.values.shape[1] > 0
    for name, size in sizes.items():
        array = getattr(boxes, name)
        fits = fits and array.dtype.kind in "iu" and array.shape == (size,)
    _refuse(
        not (
            fits
            and _is_partition(boxes.entry_ptr, n_entries)
            and _is_partition(boxes.run_ptr, n_runs)
            and np.all(boxes.run_start >= 0)
            and np.all(boxes.entry_feature >= 0)
            and np.all(boxes.leaf_subset < len(boxes.subsets))
            and _entries_are_subsets(boxes)
        ),
        "its leaves are inconsistent",
    )


def _is_partition(ends: npt.NDArray[Any], total: int) -> bool:
    """Return whether numbers from zero up to `total` bound the parts of an array."""
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


def _check_shares(shares: PatternShares) -> None:
    """Refuse shares of another number than their leaves have."""
    fits = 0 <= shares.limit <= shares.depth and shares.share.dtype == np.float64
    _refuse(
        not fits or shares.share.shape != (shares.slot_ptr[-1],),
        "the shares of its leaves do not match the leaves",
    )


def _check_pattern(component: PatternComponent) -> None:
    """Refuse a term of more features than its shares are for, or of outputs that are not there."""
    shares = component.shares
    _check_leaves(shares.boxes, component.grid, component.n_outputs)
    _refuse(
        len(component.features) > shares.limit,
        "shares are stored for fewer features than an effect has",
    )


def _check_box_component(component: BoxComponent) -> None:
    """Refuse probabilities of another number than the leaves' entries, and missing outputs."""
    boxes, probability = component.boxes, component.probability
    _check_leaves(boxes, component.grid, len(component.variance))
    _refuse(
        probability.shape != boxes.entry_feature.shape or probability.dtype != np.float64,
        "the probabilities of its leaves do not match the leaves",
    )


def _check_leaves(boxes: LeafBoxes, grid: Grid, n_outputs: int) -> None:
    """Refuse leaves of features, cells or outputs that do not exist."""
    n_cells = np.array([axis.n_cells for axis in grid.axes], dtype=np.int64)
    _refuse(
        len(n_cells) != grid.n_features or np.any(boxes.entry_feature >= len(n_cells)),
        "its leaves refer to features that do not exist",
    )
    last = np.repeat(n_cells[boxes.entry_feature], np.diff(boxes.run_ptr))
    _refuse(
        np.any(boxes.run_start > boxes.run_stop) or np.any(boxes.run_stop > last),
        "its leaves refer to cells that do not exist",
    )
    has_few = np.any(boxes.output < 0) and boxes.values.shape[1] < n_outputs
    _refuse(
        np.any(boxes.output >= n_outputs) or has_few,
        "its leaves refer to outputs that do not exist",
    )
