"""Columns inside a pipeline, each a function of one raw column that its transformers compute."""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from treepurify.budget import check_budget
from treepurify.errors import UnsupportedModelError
from treepurify.models.pipelines.fitted_state import state_fingerprint
from treepurify.rows.missing_values import is_missing, missing_kind
from treepurify.typing import Array, Mask

__all__ = [
    "IN_TRANSFORMED_COLUMNS",
    "Column",
    "OutputColumn",
    "RawProbe",
    "Reading",
    "Stage",
    "chain_of",
    "columns_of",
]

IN_TRANSFORMED_COLUMNS = (
    'Explain it in the transformed columns: treepurify.purify(pipeline, X, columns="transformed"), '
    'or, for other functions, parse_model(pipeline, columns="transformed") with '
    "pipeline[:-1].transform(X) as rows."
)

_MOST_BYTES = 4 << 30
Reads = Literal["numbers", "labels", "either"]


@dataclass(frozen=True, eq=False)
class OutputColumn:
    """What is known of one column that a transformer returns.

    Parameters
    ----------
    name : str
        Its name.
    source : int
        Position, among the columns that the transformer reads, of the one it depends on.
    reads : {"numbers", "labels", "either"}
        Whether the source is read as a number, is looked up in `labels`, or is passed on as it
        is but for some values.
    labels : tuple of hashable
        Labels, or numbers, that the transformer distinguishes from all others.
    knots : ndarray of float64
        Numbers of the source between which, each the first of its piece, the column is monotone.
    keeps_values : bool
        Whether all numbers but those between knots that are neighbours are returned unchanged.
    is_indicator : bool
        Whether the column only indicates whether the source is missing.
    power : float
        Largest power to which the transformer raises its input; it fails if this overflows.
    is_positive : bool
        Whether the transformer takes positive numbers only.
    """

    name: str
    source: int
    reads: Reads = "numbers"
    labels: tuple[Hashable, ...] = ()
    knots: Array = field(default_factory=lambda: np.zeros(0))
    keeps_values: bool = False
    is_indicator: bool = False
    power: float = 0.0
    is_positive: bool = False


class Reading(NamedTuple):
    """What the reader of a family of transformers returns.

    Parameters
    ----------
    outputs : list of OutputColumn
        The columns that the transformer returns, in their order.
    needs_frame, refuses_unknown, knows_missing : bool
        See `Stage`.
    """

    outputs: list[OutputColumn]
    needs_frame: bool = False
    refuses_unknown: bool = False
    knows_missing: bool = False


@dataclass(frozen=True, eq=False)
class Stage:
    """A fitted transformer, the columns that it reads, and those that it returns.

    Parameters
    ----------
    transformer : object
        The fitted transformer, which is asked itself.
    path : str
        Where it stands in the pipeline, for messages.
    inputs : tuple of Column
        The columns that it reads.
    outputs : tuple of OutputColumn
        The columns that it returns.
    gets_sparse : bool
        Whether it gets the columns as a sparse matrix.
    needs_frame : bool
        Whether it takes data frames only.
    refuses_unknown : bool
        Whether it raises an error for labels that it does not know.
    knows_missing : bool
        Whether missing values are no such labels, even if they are not in `labels`.
    """

    transformer: Any
    path: str
    inputs: tuple["Column", ...]
    outputs: tuple[OutputColumn, ...]
    gets_sparse: bool = False
    needs_frame: bool = False
    refuses_unknown: bool = False
    knows_missing: bool = False

    @cached_property
    def fingerprint(self) -> str:
        """What it has learned and what it gets, as a text that copies in other pipelines share."""
        return state_fingerprint([self.transformer, *(column.recipe for column in self.inputs)])

    def transform(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return the output columns; NaN where the transformer refuses its source.

        Raises
        ------
        UnsupportedModelError
            If the transformer fails on what it should take.
        """
        known = [_finite(column) for column in columns]
        largest = float(np.finfo(_number_type(known)).max)
        refused: dict[int, Mask] = {}
        for output in self.outputs:
            j = output.source
            if output.power:
                bound = min(largest ** (0.97 / output.power), float(np.finfo(known[j].dtype).max))
                # Plain numbers keep single precision as it is.
                lowest = 1.0 / bound if output.is_positive else -bound
                known[j] = np.clip(known[j], lowest, bound)
            if known[j].dtype.kind == "f" and any(isinstance(x, str) for x in output.labels):
                # A filler: the trees do not ask for what is made of this column.
                known[j] = np.full(len(known[j]), output.labels[0], dtype=object)
            if self.refuses_unknown and output.labels and j not in refused:
                known[j], refused[j] = _only_known(
                    known[j], output.labels, knows_missing=self.knows_missing
                )
        try:
            values = self._call(known)
        except (ValueError, TypeError) as error:
            missing = [is_missing(np.asarray(column, dtype=object)) for column in known]
            if not any(mask.any() for mask in missing):
                raise UnsupportedModelError(
                    f"{self.path} fails on values that it should transform, so it cannot be "
                    f"read: {error}. {IN_TRANSFORMED_COLUMNS}"
                ) from error
            values, failed = self._without_missing(known, missing)
            for j in failed:
                refused[j] = refused.get(j, False) | missing[j]
        if len(values) != len(self.outputs):
            raise UnsupportedModelError(
                f"{self.path} returns {len(values)} columns, expected {len(self.outputs)}. "
                + IN_TRANSFORMED_COLUMNS
            )
        return [
            np.where(refused[output.source], np.nan, column)
            if output.source in refused and np.any(refused[output.source])
            else column
            for output, column in zip(self.outputs, values, strict=True)
        ]

    def _without_missing(
        self, columns: list[npt.NDArray[Any]], missing: list[Mask]
    ) -> tuple[list[npt.NDArray[Any]], list[int]]:
        """Return what is made of columns whose missing values are refused, and of which these are.

        `MissingIndicator` refuses them only in columns of which it makes nothing.
        """
        sources = {output.source for output in self.outputs}
        for j in set(range(len(columns))) - sources:
            columns[j] = _without_missing(columns[j], missing[j], self._some_value(j))
        try:
            return self._call(columns), []
        except (ValueError, TypeError):
            for j in sources:
                columns[j] = _without_missing(columns[j], missing[j], self._some_value(j))
            return self._call(columns), sorted(sources)

    def _some_value(self, source: int) -> Any:
        labels = [o.labels for o in self.outputs if o.source == source and o.labels]
        return labels[0][0] if labels else 1.0

    def _call(self, columns: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        has_objects = any(column.dtype.kind not in "fiub" for column in columns)
        rows: Any
        if self.needs_frame or has_objects:
            import pandas as pd

            names = getattr(self.transformer, "feature_names_in_", range(len(columns)))
            rows = pd.DataFrame(
                {
                    name: pd.Series(column, dtype=object if column.dtype.kind in "OU" else None)
                    for name, column in zip(names, columns, strict=True)
                }
            )
        else:
            rows = np.column_stack(columns)
            if self.gets_sparse:
                from scipy.sparse import csr_matrix

                rows = csr_matrix(rows)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = self.transformer.transform(rows)
        return columns_of(result)


def columns_of(result: Any) -> list[npt.NDArray[Any]]:
    """Return the columns of what a transformer returned: an array, a sparse matrix or a table."""
    if hasattr(result, "toarray"):
        result = result.toarray()
    if hasattr(result, "iloc"):
        return [_as_numpy(result.iloc[:, j]) for j in range(result.shape[1])]
    if hasattr(result, "get_column"):
        return [result.get_column(name).to_numpy() for name in result.columns]
    result = np.asarray(result)
    return [result[:, j] for j in range(result.shape[1])]


def _finite(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace infinities, which most transformers refuse, by the largest numbers."""
    if column.dtype.kind != "f" or not np.any(np.isinf(column)):
        return column
    largest = np.finfo(column.dtype).max
    return np.asarray(np.clip(column, -largest, largest))


def _number_type(columns: Sequence[npt.NDArray[Any]]) -> np.dtype[Any]:
    kinds = [column.dtype for column in columns if column.dtype.kind == "f"]
    return np.result_type(*kinds) if kinds else np.dtype(np.float64)


def _as_numpy(column: Any) -> npt.NDArray[Any]:
    kind = getattr(column.dtype, "kind", "O")
    if isinstance(column.dtype, np.dtype) and kind in "fiub":
        return np.asarray(column.to_numpy())
    if kind in "fiub" and not hasattr(column.dtype, "categories"):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column, dtype=object)


def _only_known(
    column: npt.NDArray[Any], labels: tuple[Hashable, ...], *, knows_missing: bool
) -> tuple[npt.NDArray[Any], Mask]:
    """Replace values that are no label; return where this was done."""
    missing = [missing_kind(labels[k]) for k in np.flatnonzero(is_missing(_objects(labels)))]
    known = set(labels)
    unknown = np.array(
        [
            (not knows_missing and missing_kind(value) not in missing)
            if is_one
            else value not in known
            for value, is_one in zip(column.tolist(), is_missing(_objects(column)), strict=True)
        ],
        dtype=np.bool_,
    )
    return _without_missing(column, unknown, labels[0]), unknown


def _objects(values: Iterable[Any]) -> npt.NDArray[np.object_]:
    return np.array(list(values), dtype=object)


def _without_missing(column: npt.NDArray[Any], mask: Mask, value: Any) -> npt.NDArray[Any]:
    column = column.copy()
    column[mask] = value
    return column


@dataclass(frozen=True, eq=False)
class Column:
    """One column inside a pipeline.

    Parameters
    ----------
    name : str
        Its name.
    raw : tuple of int
        Positions of the raw columns that it is made from; empty for a constant.
    stage : Stage, optional
        The transformer that returns it; None for a raw column.
    position : int
        Its position among what the transformer returns, or among the raw columns.
    refusal : str
        Why it is no function of one raw column; empty where it is one.
    is_counted : bool
        Whether it is known that a transformer that is not read returns as many columns.
    maker : Stage, optional
        The transformer that is not read and returns it; its outputs are not known.
    """

    name: str
    raw: tuple[int, ...]
    stage: Stage | None
    position: int
    refusal: str = ""
    is_counted: bool = True
    maker: Stage | None = None

    @property
    def recipe(self) -> str:
        """How it is made of raw columns, as a text that equal columns of other pipelines share."""
        made_by = self.stage if self.maker is None else self.maker
        return self.name if made_by is None else f"{made_by.fingerprint} {self.position}"

    @property
    def output(self) -> OutputColumn:
        """What its transformer knows of it."""
        if self.stage is None:
            raise TypeError("a raw column is returned by no transformer")
        return self.stage.outputs[self.position]

    @property
    def source(self) -> "Column":
        """The column that its transformer makes it from."""
        if self.stage is None:
            raise TypeError("a raw column is returned by no transformer")
        return self.stage.inputs[self.output.source]


def chain_of(column: Column) -> Iterator[Column]:
    """Yield the columns from the raw one, which is left out, to the given one."""
    if column.stage is not None:
        yield from chain_of(column.source)
        yield column


class RawProbe:
    """Values of raw columns, and of what transformers make of them.

    Each transformer is asked once, however many of its columns are needed.

    Parameters
    ----------
    values : dict of int to ndarray of shape (n_rows,)
        Values of some raw columns.
    fillers : sequence
        One harmless value per raw column, for those that are not among `values`.
    n_rows : int
        Number of rows.

    Raises
    ------
    MemoryBudgetError
        If the values take too much memory.
    """

    def __init__(
        self, values: dict[int, npt.NDArray[Any]], fillers: Sequence[Any], n_rows: int
    ) -> None:
        check_budget(
            8 * n_rows * 2 * max(len(values), 1),
            _MOST_BYTES,
            f"a table of {n_rows} values for each of {len(values)} raw columns",
            IN_TRANSFORMED_COLUMNS,
        )
        self._values = values
        self._fillers = fillers
        self._n_rows = n_rows
        self._done: dict[int, list[npt.NDArray[Any]]] = {}

    def column(self, column: Column) -> npt.NDArray[Any]:
        """Return the values of a column, shape (n_rows,)."""
        if column.refusal:
            # Any value will do: only columns that do not depend on it are read.
            return np.ones(self._n_rows)
        if column.stage is None:
            return self._raw(column.position)
        stage = column.stage
        if id(stage) not in self._done:
            self._done[id(stage)] = stage.transform([self.column(j) for j in stage.inputs])
        return self._done[id(stage)][column.position]

    def _raw(self, position: int) -> npt.NDArray[Any]:
        if position not in self._values:
            filler = self._fillers[position]
            dtype = object if isinstance(filler, str) else getattr(filler, "dtype", np.float64)
            self._values[position] = np.full(self._n_rows, filler, dtype=dtype)
        return self._values[position]
