"""Read the batches of a source into the columns that a model requires, and their weights.

What a pass over them collects is a `Statistic`, which accumulates batch by batch and merges.
Where a model knows codes of categories only, all batches must agree on the labels behind them.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from treepurify.arguments import brief
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport, no_report
from treepurify.rows.batches import Batch, Source
from treepurify.rows.columns import Columns, FeatureSpec, TableSteps
from treepurify.rows.row_weights import RowWeights, read_weights
from treepurify.rows.table_reader import matched_names, read_placed_columns
from treepurify.rows.tables import (
    deriving_steps,
    frame_or_matrix,
    read_matrix,
    table_column,
    table_names,
    to_pandas,
    with_derived_columns,
)
from treepurify.typing import Array

State = TypeVar("State")
CategoryLevels = Mapping[int, tuple[Hashable, ...]]
"""The labels in the order of their codes, by the position of the feature; see `RowBatch`."""


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Some rows of a source, as the model reads them.

    Parameters
    ----------
    columns : Columns
        The rows. Columns that are not used are missing values.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, finite and not negative; None for equal weights.
    part, first_row, where
        See `Batch`.
    levels : mapping of int to tuple of hashable
        The labels in the order of their codes, of the categories of which the model knows codes
        only. All batches must agree on them.
    report : callable
        Progress within the batch, where it is all that there is.
    """

    columns: Columns
    weights: RowWeights
    part: int
    first_row: int
    where: str
    levels: CategoryLevels
    report: ProgressReport = field(default=no_report, compare=False)

    def __len__(self) -> int:
        return self.columns.n_rows

    @property
    def counts(self) -> Array:
        """What each row counts, shape (n_rows,): its weight, or one."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def of_weight(self) -> tuple[Columns, Array]:
        """Return the rows of positive weight, and what each counts."""
        counts = self.counts
        if np.all(counts > 0):
            return self.columns, counts
        kept = np.flatnonzero(counts > 0)
        return self.columns.take(kept), counts[kept]


class RowReader(Protocol):
    """How batches are read; see `SourceReader`."""

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The features, in the order of the model."""

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the features whose columns are read."""

    @property
    def weight(self) -> str | None:
        """Name of the column of weights."""

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """Names of the columns that are read; None for all."""

    def read(self, batch: Batch) -> RowBatch:
        """Return the rows of a batch."""


@dataclass(frozen=True, eq=False)
class SourceReader:
    """How batches are read: the columns that each must have.

    Parameters
    ----------
    features : tuple of FeatureSpec
        The features, in the order of the model.
    used : tuple of int
        Positions of the features whose columns are read.
    columns : tuple of str, optional
        Names of the columns of the used features, in their order, or of those that `steps` take;
        None for arrays.
    weight : str, optional
        Name of the column of weights.
    steps : TableSteps, optional
        What makes columns that the batches lack from those that they have.
    """

    features: tuple[FeatureSpec, ...]
    used: tuple[int, ...]
    columns: tuple[str, ...] | None
    weight: str | None
    steps: TableSteps | None = None

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """Names of the columns that are read; None for all."""
        if self.columns is None:
            return None
        more = () if self.weight is None or self.weight in self.columns else (self.weight,)
        return (*self.columns, *more)

    def read(self, batch: Batch) -> RowBatch:
        """Return the rows of a batch.

        Raises
        ------
        InvalidInputError
            If a column is missing or unreadable, or weights cannot be used; the message names the
            file and the column.
        """
        try:
            return self._read(batch)
        except InvalidInputError as error:
            raise InvalidInputError(f"{batch.where}: {error}") from error

    def _read(self, batch: Batch) -> RowBatch:
        table, names = batch.table, table_names(batch.table)
        if (names is None) != (self.columns is None):
            raise InvalidInputError("some batches have column names, and others do not")
        if self.steps is not None:
            raw = table if self.columns is None else frame_or_matrix(table)[list(self.columns)]
            table = with_derived_columns(raw, self.features, self.steps)
            place = {j: j for j in self.used}
        elif names is None or self.columns is None:
            table = read_matrix(batch.table)
            if table.shape[1] != len(self.features):
                raise InvalidInputError(
                    f"the model has {len(self.features)} features, but the batch has "
                    f"{table.shape[1]} columns"
                )
            place = {j: j for j in self.used}
        else:
            place = dict(zip(self.used, _positions(names, self.columns), strict=True))
        columns = read_placed_columns(table, self.features, place)
        weights = None
        if self.weight is not None and names is not None:
            (position,) = _positions(names, [self.weight])
            weights = read_weight_column(table_column(batch.table, position), self.weight)
        levels = {
            j: tuple(table_column(table, place[j]).dtype.categories)
            for j in self.used
            if _knows_codes_only(self.features[j]) and _is_coded(table, place[j])
        }
        return RowBatch(columns, weights, batch.part, batch.first_row, batch.where, levels)


class Statistic(Protocol[State]):
    """What an engine learns from rows: a sum that starts at zero, takes batches, and merges.

    The states that it makes, fills and merges belong to it: they are arrays that it writes to,
    since copies for every batch would take more time than what is added to them.
    """

    def zero(self) -> State:
        """Return the state of no rows."""

    def add(self, state: State, rows: RowBatch) -> State:
        """Return the state with the rows added; the given one is no longer used."""

    def merge(self, state: State, other: State) -> State:
        """Return the state of the rows of both; the given ones are no longer used.

        `state` stands for rows before those of `other`.
        """


def source_reader(
    source: Source,
    features: Sequence[FeatureSpec],
    used: Sequence[int],
    *,
    match_names: bool,
    weight: Any = None,
) -> SourceReader:
    """Return how the batches of a source are read.

    Columns of a source are matched by name where the model has names, and those that it does
    not use are not read. Otherwise they are matched by position, all but that of the weights.

    Raises
    ------
    InvalidInputError
        If columns are missing, or there are too many or too few.
    """
    names = source.names
    if weight is not None and not isinstance(weight, str):
        raise InvalidInputError(
            "if rows come in batches, the weights must be one of their columns: pass its name as "
            f"sample_weight, got {brief(weight)}"
        )
    # One column at least, for the number of rows.
    read = tuple(used) or (0,)
    steps = deriving_steps(features, names, 0)
    if names is None:
        if weight is not None:
            raise InvalidInputError(
                f"sample_weight={weight!r} names a column, but {source.describe()} gives arrays, "
                "whose columns have no names: pass tables"
            )
        return SourceReader(tuple(features), read, None, None, steps)
    if weight is not None and weight not in names:
        raise InvalidInputError(
            f"{source.describe()} has no column {weight!r} for sample_weight; its columns are "
            f"{', '.join(names[:30])}"
        )
    taken = [features[j].name for j in read] if steps is None else steps.takes
    if match_names:
        known = dict(zip(matched_names(names, features), names, strict=True))
        absent = [name for name in taken if name not in known]
        if absent:
            raise InvalidInputError(
                f"{source.describe()} has no column {', '.join(map(repr, absent[:10]))}, which the "
                f"model uses; its columns are {', '.join(names[:30])}"
            )
        columns = tuple(known[name] for name in taken)
    else:
        others = [name for name in names if name != weight]
        count = len(features) if steps is None else len(taken)
        if len(others) != count:
            raise InvalidInputError(
                f"the model takes {count} columns without names, but {source.describe()} has "
                f"{len(others)} columns: select exactly those used in training, in the same order"
            )
        columns = tuple(others[j] for j in read) if steps is None else tuple(others)
    return SourceReader(tuple(features), read, columns, weight, steps)


def head_table(source: Source, features: Sequence[FeatureSpec], weight: str | None = None) -> Any:
    """Return the first rows as a table with the columns of the model and no others.

    Parameters
    ----------
    source : Source
        The rows.
    features : sequence of FeatureSpec
        The features, by name.
    weight : str, optional
        Name of the column of weights.

    Returns
    -------
    table, ndarray or None
        None where a column is absent.
    """
    return model_table(source.head(), features, weight)


def model_table(table: Any, features: Sequence[FeatureSpec], *apart: str | None) -> Any:
    """Return a table with the columns of the model and no others; None where one is absent.

    Columns `apart`, such as that of weights, are not taken for features by their position.
    """
    names = table_names(table)
    if names is None:
        return table
    if hasattr(table, "to_pandas") and hasattr(table, "column_names"):
        table = to_pandas(table)
    steps = deriving_steps(features, names, len(names))
    taken = [spec.name for spec in features] if steps is None else steps.takes
    known = dict(zip(matched_names(names, features), names, strict=True))
    if all(name in known for name in taken):
        return table[[known[name] for name in taken]]
    others = [name for name in names if name not in apart]
    return table[others] if len(others) == len(taken) else None


def joined_levels(
    first: CategoryLevels, second: CategoryLevels, names: Sequence[str], where: str = "a file"
) -> CategoryLevels:
    """Return the labels behind the codes of both.

    Parameters
    ----------
    first, second : mapping of int to tuple of hashable
        The labels of some rows, and of others.
    names : sequence of str
        Names of all features.
    where : str
        Where the other rows are, for messages.

    Raises
    ------
    InvalidInputError
        If the same codes stand for different labels.
    """
    levels = dict(first)
    for j, labels in second.items():
        known = levels.get(j, labels)
        shared = min(len(known), len(labels))
        if known[:shared] != labels[:shared]:
            raise InvalidInputError(
                f"{where}: the categories of column {names[j]!r} are in the order "
                f"{', '.join(map(str, labels[:6]))}, but elsewhere in the order "
                f"{', '.join(map(str, known[:6]))}. The model stores only their codes: write all "
                "files with the categories of the training, or with their integer codes"
            )
        levels[j] = max(known, labels, key=len)
    return levels


def read_weight_column(column: Any, name: str) -> Array:
    """Return the weights in a column.

    Raises
    ------
    InvalidInputError
        Unless they are finite and not negative.
    """
    weights = read_weights(column, f"the weights in column {name!r}")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidInputError(
            f"the weights in column {name!r} must be finite and not negative; got values from "
            f"{np.min(weights):g} to {np.max(weights):g}"
        )
    return weights


def _positions(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InvalidInputError(
            f"there is no column {', '.join(map(repr, absent[:10]))}; the columns are "
            f"{', '.join(names[:30])}"
        )
    place = {name: position for position, name in enumerate(names)}
    if len(place) < len(names) and any(names.count(name) > 1 for name in wanted):
        raise InvalidInputError("columns that the model uses appear more than once")
    return [place[name] for name in wanted]


def _knows_codes_only(spec: FeatureSpec) -> bool:
    return spec.is_categorical and spec.categories is None and spec.label_hashes is None


def _is_coded(table: Any, position: int) -> bool:
    """Return whether a column holds codes of categories that it names."""
    column = table_column(table, position)
    return hasattr(column, "cat") and hasattr(column.dtype, "categories")
