"""The cells of the raw columns of a pipeline: intervals of numbers, or labels.

Where an interval begins is found by bisection: the float at which a transform of one raw column
crosses a cut.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.errors import UnsupportedModelError
from treepurify.models.cuts import cut_at_most_single, cut_below_single
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.pipelines.columns import Column, RawProbe, chain_of
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec
from treepurify.rows.missing_values import is_missing
from treepurify.rows.table_reader import read_columns
from treepurify.typing import Array, Indices, Integers

Uses = dict[int, Column]
# No user's label begins with this character, which Unicode leaves to private use.
_UNKNOWN = "\uf8ff"
# Libraries of mathematics round such functions as the cube root up where their neighbour is
# rounded down: this number of values on either side of a crossing are checked for crossing back.
_NEIGHBOURS = 16
# Numbers of all columns that a transformer is given at once there.
_NUMBERS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class RawAxis:
    """The cells of one raw column.

    Parameters
    ----------
    spec : FeatureSpec
        How the column is read.
    values : ndarray, shape (n_cells + 1,)
        One value in each cell, and the missing one. Cells of numbers are intervals, and the
        value is the first of each; of labels, the last cell is that of all unknown ones.
    breaks : ndarray of float64, shape (n_cells - 1,)
        Where the intervals of numbers begin, but for the first.
    is_passed_on : bool
        Whether the model itself reads the column, as it is.
    """

    spec: FeatureSpec
    values: npt.NDArray[Any]
    breaks: Array
    is_passed_on: bool = False


def raw_axes(
    ensemble: TreeEnsemble,
    raws: Sequence[Column],
    uses: Uses,
    types: Sequence[np.dtype[Any] | None],
    *,
    zero_is_absent: bool,
) -> list[RawAxis]:
    """Return the cells of every raw column.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The model on the transformed columns.
    raws : sequence of Column
        The raw columns.
    uses : dict of int to Column
        The transformed columns that trees test, by position.
    types : sequence of (dtype or None)
        Types of the raw columns, where they are known.
    zero_is_absent : bool
        Whether a transformed zero is missing to the model.

    Returns
    -------
    list of RawAxis

    Raises
    ------
    UnsupportedModelError
        If a column is read both as numbers and as texts, or its missing values are of two kinds.
    """
    by_raw: dict[int, list[int]] = {}
    for t, column in uses.items():
        by_raw.setdefault(column.raw[0], []).append(t)
    axes: dict[int, RawAxis] = {}
    for r, column in enumerate(raws):
        mine = by_raw.get(r, [])
        if not mine:
            axes[r] = _unused_axis(column.name, types[r])
        elif not zero_is_absent and _all_passed_on(ensemble, uses, mine):
            axes[r] = _passed_on(ensemble, column.name, mine)
        elif any(ensemble.features[t].label_hashes is not None for t in mine):
            raise UnsupportedModelError(
                f"steps change the column {column.name!r} before CatBoost, which stores only "
                "hashes of its categories"
            )
        elif not _is_numeric(ensemble, uses, mine, types[r]):
            axes[r] = _label_axis(column.name, ensemble, uses, mine)
    numeric = [r for r in by_raw if r not in axes]
    dtypes = [np.dtype(np.float32 if t == np.float32 else np.float64) for t in types]
    searched = [t for r in numeric for t in by_raw[r]]
    found = pull_back(
        [uses[t] for t in searched],
        [_thresholds(ensemble, t, zero_is_absent=zero_is_absent) for t in searched],
        dtypes,
        [axes[r].values[0] if r in axes else dtypes[r].type(1.0) for r in range(len(raws))],
    )
    breaks = dict(zip(searched, found, strict=True))
    for r in numeric:
        axes[r] = _numeric_axis(raws[r].name, [breaks[t] for t in by_raw[r]], dtypes[r])
    return [axes[r] for r in range(len(raws))]


def cells_of(
    ensemble: TreeEnsemble, uses: Uses, axes: Sequence[RawAxis], *, zero_is_absent: bool
) -> dict[int, Array]:
    """Return what the model reads in each used column, for each cell of its raw column.

    The codes or numbers have the shape of the values of the axis; NaN is missing.
    """
    n_rows = max(len(axis.values) for axis in axes)
    table = {r: np.resize(axis.values, n_rows) for r, axis in enumerate(axes)}
    probe = RawProbe(table, [], n_rows)
    read = {}
    for t, column in uses.items():
        axis = axes[column.raw[0]]
        if axis.is_passed_on:
            read[t] = np.asarray(axis.values, dtype=np.float64)
            continue
        values = probe.column(column)[: len(axis.values)]
        if zero_is_absent:
            values = np.where(values == 0, np.nan, np.asarray(values, dtype=np.float64))
        specs = (ensemble.features[t],)
        of_model = read_columns(values[:, None], specs, match_names=False).values[0]
        read[t] = of_model.astype(np.float64)
    return read


def _unused_axis(name: str, dtype: np.dtype[Any] | None) -> RawAxis:
    """Return the one cell of a column that no tree tests; texts must not be refused."""
    spec = FeatureSpec(name)
    if dtype is None or dtype.kind not in "biuf":
        spec = FeatureSpec(name, kind="categorical", categories=(), numbers_are="labels")
    return RawAxis(spec, np.array([0.0, np.nan]), np.zeros(0))


def _all_passed_on(ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> bool:
    specs = {replace(ensemble.features[t], name="") for t in mine}
    return all(uses[t].stage is None for t in mine) and len(specs) == 1


def _passed_on(ensemble: TreeEnsemble, name: str, mine: list[int]) -> RawAxis:
    spec = replace(ensemble.features[mine[0]], name=name)
    if spec.is_categorical:
        codes = np.append(np.arange(spec.n_codes + 1.0), np.nan)
        return RawAxis(spec, codes, np.zeros(0), is_passed_on=True)
    breaks = np.unique(np.concatenate([_cuts(ensemble, t) for t in mine]))
    return RawAxis(spec, np.concatenate([[-np.inf], breaks, [np.nan]]), breaks, is_passed_on=True)


def _is_numeric(
    ensemble: TreeEnsemble, uses: Uses, mine: list[int], dtype: np.dtype[Any] | None
) -> bool:
    """Whether any use reads the raw column as a number, rather than by its label."""
    found = set()
    for t in mine:
        reads = (link.output.reads for link in chain_of(uses[t]))
        of_model = "numbers" if ensemble.features[t].categories is None else "labels"
        found.add(next((how for how in reads if how != "either"), of_model))
    is_number = dtype is None or dtype.kind in "biuf"
    return "numbers" in found or (found == {"missing"} and is_number)


def _label_axis(name: str, ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> RawAxis:
    labels = _distinguished(ensemble, uses, mine)
    is_none = is_missing(np.array([*labels, None], dtype=object))
    missing = [label for label, is_one in zip(labels, is_none, strict=False) if is_one]
    known = tuple(label for label, is_one in zip(labels, is_none, strict=False) if not is_one)
    if len({label is None for label in missing}) > 1:
        raise UnsupportedModelError(
            f"the column {name!r} had both None and NaN in training, which its encoder "
            "distinguishes but tables do not"
        )
    spec = FeatureSpec(
        name,
        kind="categorical",
        categories=known,
        n_codes=len(known),
        numbers_are="labels",
        has_missing=bool(missing),
    )
    # A label that is not among the known ones.
    are_numbers = bool(known) and all(isinstance(x, int | float | np.number) for x in known)
    unknown = max(map(float, known)) + 1.0 if are_numbers else _UNKNOWN  # type: ignore[arg-type]
    values = np.array([*known, unknown, missing[0] if missing else np.nan], dtype=object)
    if are_numbers:
        values = values.astype(np.float64)
    return RawAxis(spec, values, np.zeros(0))


def _distinguished(ensemble: TreeEnsemble, uses: Uses, mine: list[int]) -> list[Hashable]:
    """Return the labels that the uses of a raw column distinguish."""
    labels: dict[Hashable, None] = {}
    for t in mine:
        for link in chain_of(uses[t]):
            labels |= dict.fromkeys(link.output.labels)
            if link.output.reads != "either":
                break
        else:
            labels |= dict.fromkeys(ensemble.features[t].categories or ())
    return list(labels)


def _numeric_axis(name: str, breaks: Sequence[Array], dtype: np.dtype[Any]) -> RawAxis:
    lowest = float(np.finfo(dtype).min)
    joined = np.unique(np.concatenate(breaks))
    joined = joined[joined > lowest]
    values = np.concatenate([[lowest], joined, [np.nan]]).astype(dtype)
    # Transformers of numbers convert texts and categories to numbers.
    return RawAxis(FeatureSpec(name, reads_texts=True), values, joined)


def _cuts(ensemble: TreeEnsemble, t: int) -> Array:
    return np.unique(ensemble.cut[(ensemble.feature == t) & (ensemble.category_ptr < 0)])


def _thresholds(ensemble: TreeEnsemble, t: int, *, zero_is_absent: bool) -> Array:
    """Return the transformed numbers at which what the model reads in a column may change."""
    spec = ensemble.features[t]
    parts = [_cuts(ensemble, t)]
    if spec.is_categorical and spec.categories is not None and spec.numbers_are == "labels":
        numbers = [label for label in spec.categories if isinstance(label, int | float)]
        values = np.array(numbers, dtype=np.float64)
        parts += [values, np.nextafter(values, np.inf)]
    elif spec.is_categorical:
        codes = np.asarray(spec.labels, dtype=np.float64)
        parts += [codes, codes + 1.0, np.nextafter([-1.0], 0.0), np.zeros(1)]
    if zero_is_absent:
        parts.append(np.array([0.0, np.nextafter(0.0, 1.0)]))
    if spec.zero_is_missing:
        parts.append(np.array([-ZERO_THRESHOLD, np.nextafter(ZERO_THRESHOLD, 1.0)]))
    if spec.missing_value is not None:
        value = np.array([spec.missing_value], dtype=np.float32)
        parts += [cut_below_single(value), cut_at_most_single(value)]
    return np.unique(np.concatenate(parts))


def pull_back(
    columns: Sequence[Column],
    thresholds: Sequence[Array],
    types: Sequence[np.dtype[Any]],
    fillers: Sequence[Any],
) -> list[Array]:
    """Return raw numbers at which columns cross thresholds, or change the piece they are on.

    Between two numbers of the result a column stays on one side of each of its thresholds.
    All thresholds of all columns are searched for together: a step asks each transformer once.

    Parameters
    ----------
    columns : sequence of Column
        Columns that are made from one raw column of numbers each.
    thresholds : sequence of ndarray of float64
        For each of them, numbers that part what it returns: ``x < threshold`` or not.
    types : sequence of dtype
        float32 or float64, for each raw column.
    fillers : sequence
        One harmless value for each raw column.

    Returns
    -------
    list of ndarray of float64
        For each column, sorted raw numbers.
    """
    evaluate = _Evaluator(columns, types, fillers)
    # Raw numbers themselves need no search.
    breaks = list(thresholds)
    made = [j for j, column in enumerate(columns) if column.stage is not None]
    if made:
        of_source = [columns[j].output.knots for j in made]
        knots = pull_back([columns[j].source for j in made], of_source, types, fillers)
        which, found = _search(evaluate, made, [thresholds[j] for j in made], knots)
        for j, own in zip(made, knots, strict=True):
            breaks[j] = np.append(own, found[which == j])
    return [np.unique(_least_number_from(own, evaluate.dtype(j))) for j, own in enumerate(breaks)]


class _Evaluator:
    """Values of columns at numbers of the raw column of each, by their ordinals."""

    def __init__(
        self, columns: Sequence[Column], types: Sequence[np.dtype[Any]], fillers: Sequence[Any]
    ) -> None:
        self._columns, self._types, self._fillers = columns, types, fillers
        self._raw = np.array([column.raw[0] for column in columns], dtype=np.intp)

    def dtype(self, j: int) -> np.dtype[Any]:
        """Return the type of the raw column of a column."""
        return np.dtype(self._types[self._columns[j].raw[0]])

    def table_size(self, which: Indices) -> int:
        """Return how many numbers are in the table of one number for each of `which`."""
        n_rows = np.bincount(self._raw[which])
        return int(np.count_nonzero(n_rows) * n_rows.max(initial=1))

    def numbers(self, which: Indices, ordinals: Integers) -> Array:
        """Return the raw numbers with ordinals of the given columns."""
        single = np.array([self.dtype(j) == np.float32 for j in range(len(self._columns))])[which]
        numbers = np.empty(len(which))
        numbers[single] = _from_ordinal(ordinals[single], np.dtype(np.float32))
        numbers[~single] = _from_ordinal(ordinals[~single], np.dtype(np.float64))
        return numbers

    def __call__(self, which: Indices, ordinals: Integers) -> Array:
        """Return the columns `which`, in order, at raw numbers of their own."""
        ends = np.searchsorted(which, np.arange(len(self._columns) + 1))
        n_rows: dict[int, int] = {}
        parts = []
        for j in np.flatnonzero(np.diff(ends)).tolist():
            # The numbers of columns that are made from one raw column follow one another.
            raw, part = self._columns[j].raw[0], slice(ends[j], ends[j + 1])
            start = n_rows.get(raw, 0)
            n_rows[raw] = start + part.stop - part.start
            parts.append((j, raw, part, slice(start, n_rows[raw])))
        most = max(n_rows.values(), default=0)
        table = {raw: np.ones(most, dtype=self._types[raw]) for raw in n_rows}
        for j, raw, part, rows in parts:
            table[raw][rows] = _from_ordinal(ordinals[part], self.dtype(j))
        probe = RawProbe(table, self._fillers, most)
        values = np.empty(len(which))
        for j, _, part, rows in parts:
            values[part] = np.asarray(probe.column(self._columns[j])[rows], dtype=np.float64)
        return values


def _search(
    evaluate: _Evaluator, made: list[int], thresholds: Sequence[Array], knots: Sequence[Array]
) -> tuple[Indices, Array]:
    """Return the columns that cross a threshold, each with the number at which it does."""
    pieces = [_pieces(own, evaluate.dtype(j)) for j, own in zip(made, knots, strict=True)]
    which = np.repeat(made, [len(first) for first, _ in pieces])
    first, last = (np.concatenate(ends) for ends in zip(*pieces, strict=True))
    at_first, at_last = evaluate(which, first), evaluate(which, last)
    parts = []
    for j, own in zip(made, thresholds, strict=True):
        mine = np.flatnonzero(which == j)
        crossed = (at_first[mine, None] >= own) != (at_last[mine, None] >= own)
        crossed &= ~(np.isnan(at_first) | np.isnan(at_last))[mine, None]
        piece, k = np.nonzero(crossed)
        parts.append((mine[piece], own[k]))
    piece, threshold = (np.concatenate(part) for part in zip(*parts, strict=True))
    rises = at_first[piece] < threshold
    which, first, last = which[piece], first[piece], last[piece]
    low, high = first, last
    while True:
        # The sum of two numbers of 64 bits would overflow.
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        if np.array_equal(middle, low):
            break
        is_beyond = (evaluate(which, middle) >= threshold) == rises
        high, low = np.where(is_beyond, middle, high), np.where(is_beyond, low, middle)
    steps = np.arange(-_NEIGHBOURS - 1, _NEIGHBOURS + 1)
    near = np.clip(high[:, None] + steps, first[:, None], last[:, None])
    is_beyond = np.empty(near.shape, dtype=np.bool_)
    at_a_time = max(_NUMBERS_AT_A_TIME // max(evaluate.table_size(which), 1), 1)
    for start in range(0, len(steps), at_a_time):
        some = near[:, start : start + at_a_time]
        values = evaluate(np.repeat(which, some.shape[1]), some.ravel()).reshape(some.shape)
        sides = (values >= threshold[:, None]) == rises[:, None]
        is_beyond[:, start : start + at_a_time] = sides
    searches, step = np.nonzero(is_beyond[:, 1:] != is_beyond[:, :-1])
    searched = which[searches]
    return searched, evaluate.numbers(searched, near[searches, step + 1])


def _pieces(knots: Array, dtype: np.dtype[Any]) -> tuple[Integers, Integers]:
    """Return the ordinals of the first and the last number of each piece."""
    largest = float(np.finfo(dtype).max)
    inner = _to_ordinal(knots[(knots > -largest) & (knots <= largest)], dtype)
    ends = _to_ordinal(np.array([-largest, largest]), dtype)
    return np.append(ends[0], inner), np.append(inner - 1, ends[1])


def _least_number_from(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return the least numbers of a type that are not below the given ones."""
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    below = rounded < values
    up = np.nextafter(rounded, np.array(np.inf, dtype=dtype))
    return np.where(below, up, rounded).astype(np.float64)


def _to_ordinal(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> Integers:
    """Number floating-point numbers in their order; both zeros are 0."""
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = values.astype(dtype).view(integer).astype(np.int64)
    return np.where(bits >= 0, bits, np.iinfo(integer).min - bits)


def _from_ordinal(ordinals: Integers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    integer = np.dtype(f"i{dtype.itemsize}")
    bits = np.where(ordinals >= 0, ordinals, np.iinfo(integer).min - ordinals)
    return bits.astype(integer).view(dtype)
