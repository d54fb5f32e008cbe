"""Which cell a value is in, as rules that other languages can write down."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.models.cuts import cut_below_single
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec
from treepurify.rows.table_reader import label_text
from treepurify.typing import Array, Indices

NO_CELL = -1
"""Where a decomposition has no cell for a value, and so no answer."""


@dataclass(frozen=True, eq=False)
class IntervalRule:
    """Cells of numbers.

    Parameters
    ----------
    feature : int
        Position of the feature.
    starts : ndarray of float64, shape (n_starts,)
        Where intervals start, increasing. The first interval, before all starts, holds what
        is below; each of the others contains its start.
    cells : ndarray of int, shape (n_starts + 1,)
        Cell of each interval, or `NO_CELL`.
    missing : int
        Cell of missing values, or `NO_CELL`.
    n_cells : int
        Number of cells.
    """

    feature: int
    starts: Array
    cells: Indices
    missing: int
    n_cells: int


@dataclass(frozen=True, eq=False)
class LabelRule:
    """Cells of text.

    Parameters
    ----------
    feature : int
        Position of the feature.
    labels : tuple of str
        The labels that are known.
    cells : ndarray of int, shape (n_labels,)
        Cell of each label, or `NO_CELL`.
    other : int
        Cell of all other text, or `NO_CELL`, also where the model knows categories by hashes that
        no language of the exports computes.
    missing : int
        Cell of missing values, or `NO_CELL`.
    n_cells : int
        Number of cells.
    """

    feature: int
    labels: tuple[str, ...]
    cells: Indices
    other: int
    missing: int
    n_cells: int


CellRule = IntervalRule | LabelRule


@dataclass(frozen=True, eq=False)
class Lookup:
    """A component as a table, with the rules that find the cell along each of its axes.

    Parameters
    ----------
    subset : tuple of int
        Positions of the features.
    rules : tuple of int
        Positions of the rules, one per feature, in the list of all rules.
    values : ndarray of float64, shape (cells..., n_outputs)
        The effect on the margin scale.
    """

    subset: Subset
    rules: tuple[int, ...]
    values: Array


def read_lookups(d: Decomposition) -> tuple[list[CellRule], list[Lookup]]:
    """Return the rules by which cells are found, each once, and the components as tables.

    Raises
    ------
    InvalidInputError
        If a component is not a table of cells.
    UnsupportedModelError
        If a column is read in a way that has no rule here.
    """
    rules: list[CellRule] = []
    known: dict[tuple[int, bytes], int] = {}
    by_axis: dict[tuple[int, int], int] = {}
    lookups = []
    for subset, component in d.components.items():
        if not isinstance(component, TensorComponent):
            raise InvalidInputError(
                f"{d.term_name(subset)!r} is not a table (engine {d.engine!r}); only effects that "
                "are tables can be exported"
            )
        for j, axis in zip(subset, component.axes, strict=True):
            if (j, id(axis)) not in by_axis:
                rule = _rule(j, axis, d.inputs.features[j])
                by_axis[j, id(axis)] = known.setdefault(_content(rule), len(rules))
                rules += [rule] * (by_axis[j, id(axis)] == len(rules))
        positions = tuple(
            by_axis[j, id(axis)] for j, axis in zip(subset, component.axes, strict=True)
        )
        lookups.append(Lookup(subset, positions, component.stored().values))
    return rules, lookups


def _content(rule: CellRule) -> tuple[int, bytes]:
    cells = rule.cells.tobytes() + bytes(str((rule.missing, rule.n_cells)), "ascii")
    if isinstance(rule, IntervalRule):
        return rule.feature, rule.starts.tobytes() + cells
    return rule.feature, "\0".join(rule.labels).encode("utf-8", "surrogatepass") + cells


def _rule(feature: int, axis: FeatureAxis, spec: FeatureSpec) -> CellRule:
    missing = NO_CELL if axis.missing_cell is None else axis.missing_cell
    if axis.cuts is not None:
        if spec.categories is not None:
            raise UnsupportedModelError(
                f"feature {spec.name!r} contains ordered categories that the model reads as "
                "numbers; recode it as numbers before training"
            )
        starts, cells = axis.cuts.astype(np.float64), np.arange(axis.n_regular)
        if spec.zero_is_missing:
            end = float(np.nextafter(ZERO_THRESHOLD, np.inf))
            starts, cells = _overwrite(starts, cells, -ZERO_THRESHOLD, end, missing)
        starts, cells = _without_missing_value(starts, cells, spec, missing)
        return IntervalRule(feature, starts, cells, missing, axis.n_cells)
    if not spec.is_categorical or len(axis.categories) != spec.n_codes:
        raise UnsupportedModelError(
            f"the levels of feature {spec.name!r} come from the rows of the decomposition, so "
            "a new value has no level; export a decomposition of the model itself"
        )
    other = NO_CELL if axis.other_cell is None else axis.other_cell
    of_code = _cell_of_code(axis, spec, missing)
    if spec.categories is None:
        return _rule_of_codes(feature, axis, spec, of_code, other, missing)
    return _rule_of_labels(feature, axis, spec, of_code, other, missing)


def _cell_of_code(axis: FeatureAxis, spec: FeatureSpec, missing: int) -> Indices:
    """Return the cell of each code; some codes may stand for missing values."""
    cells = np.arange(spec.n_codes)
    if spec.zero_is_missing:
        cells[:1] = missing
    if spec.missing_value is not None and spec.categories is not None:
        same = np.arange(spec.n_codes).astype(np.float32) == np.float32(spec.missing_value)
        cells[same] = missing
    return cells


def _rule_of_codes(
    feature: int, axis: FeatureAxis, spec: FeatureSpec, of_code: Indices, other: int, missing: int
) -> IntervalRule:
    """Return the rule of a column of codes, of which fractions are cut off."""
    codes = np.asarray(spec.labels, dtype=np.float64)
    starts = np.union1d(codes, codes + 1.0)
    cells = np.full(len(starts) + 1, other)
    cells[1 + np.searchsorted(starts, codes)] = of_code
    if spec.truncates_before_sign:
        starts[starts == 0.0] = np.nextafter(-1.0, 0.0)
    starts, cells = _without_missing_value(starts, cells, spec, missing)
    return IntervalRule(feature, starts, cells, missing, axis.n_cells)


def _rule_of_labels(
    feature: int, axis: FeatureAxis, spec: FeatureSpec, of_code: Indices, other: int, missing: int
) -> CellRule:
    labels = (spec.categories or ())[: spec.n_codes]
    if None in labels:
        if spec.has_missing:
            raise UnsupportedModelError(
                f"feature {spec.name!r} has None as a category and NaN as a missing value, which "
                "are the same in a database: replace both by a label before training"
            )
        missing = int(of_code[labels.index(None)])
    hashed = set(spec.hash_only)
    if hashed and len(hashed) == spec.n_codes:
        raise UnsupportedModelError(
            f"the model stores only hashes of the categories of feature {spec.name!r}: decompose "
            "it with rows in which each category occurs"
        )
    if hashed:
        # Any other text may be one of these.
        other = NO_CELL
    if spec.label_hashes is not None:
        labels = tuple(map(label_text, labels))
    # The first of equal labels counts.
    first = {
        label: code
        for code, label in reversed(list(enumerate(labels)))
        if code not in hashed and label is not None
    }
    cells = of_code[list(first.values())] if first else np.empty(0, dtype=np.intp)
    if all(isinstance(label, str) for label in first):
        return LabelRule(feature, tuple(map(str, first)), cells, other, missing, axis.n_cells)
    numbers = bool | np.bool_ | int | float | np.integer | np.floating
    if not all(isinstance(label, numbers) for label in first):
        raise UnsupportedModelError(
            f"the categories of feature {spec.name!r} are neither all text nor all numbers, so "
            "no column of one type can contain them: recode them as text before training"
        )
    starts, in_order = np.empty(0), np.array([other])
    for label, cell in zip(first, cells, strict=True):
        value: Any = np.float64(label)  # type: ignore[arg-type] # a number, as was checked
        above = float(np.nextafter(value, np.inf))
        starts, in_order = _overwrite(starts, in_order, float(value), above, int(cell))
    return IntervalRule(feature, starts, in_order, missing, axis.n_cells)


def _without_missing_value(
    starts: Array, cells: Indices, spec: FeatureSpec, missing: int
) -> tuple[Array, Indices]:
    """Put the numbers that round to the model's number for missing values into their cell."""
    if spec.missing_value is None:
        return starts, cells
    single = np.float32(spec.missing_value)
    if np.isnan(single):
        return starts, cells
    ends = np.array([single, np.nextafter(single, np.float32(np.inf))])
    low, high = cut_below_single(ends).tolist()
    return _overwrite(starts, cells, low, high, missing)


def _overwrite(
    starts: Array, cells: Indices, low: float, high: float, cell: int
) -> tuple[Array, Indices]:
    """Give ``low <= x < high`` a cell of its own, up to infinity itself where that is the end."""
    joined = np.unique(np.concatenate([starts, [low, high]]))
    left = np.concatenate([[-np.inf], joined])
    of_left = np.searchsorted(starts, left, side="right")
    of_left[0] = 0
    new = cells[of_left]
    inside = (left >= low) & ((left < high) | np.isposinf(high))
    inside[0] = False
    new[inside] = cell
    return joined, new
