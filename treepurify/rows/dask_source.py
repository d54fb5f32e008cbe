"""Rows in the partitions of a Dask frame or array: learned from where they are.

Each partition becomes the state of a statistic on the worker that has it, and these are merged
in pairs. Only the last one leaves the workers.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.batches import HEAD_ROWS, Batch, first_rows
from treepurify.rows.columns import Columns
from treepurify.rows.source_reader import RowReader, Statistic


def is_dask(X: Any) -> bool:
    """Return whether something is a Dask frame or a Dask array."""
    module = type(X).__module__.partition(".")[0]
    return module in ("dask", "dask_expr") and hasattr(X, "to_delayed") and hasattr(X, "ndim")


@dataclass(frozen=True, eq=False)
class DaskSource:
    """A Dask frame, or a Dask array of two dimensions.

    What is computed runs where Dask runs: on the cluster of the `dask.distributed.Client` that is
    there, else on threads of this process.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array
        The rows.
    """

    X: Any

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; None for an array."""
        return tuple(map(str, self.X.columns)) if hasattr(self.X, "columns") else None

    @property
    def n_rows(self) -> int | None:
        """None: counting would compute the frame."""
        return None

    @property
    def can_repeat(self) -> bool:
        """It can be computed again."""
        return True

    def describe(self) -> str:
        """Return what it is."""
        return f"the Dask {'array' if self.names is None else 'frame'}"

    def head(self) -> Any:
        """Return the first rows of the first partition that has any."""
        from dask.delayed import delayed

        # Cut where the partition is: it may be large.
        begin = delayed(first_rows, pure=False)
        for part in self.partitions(None):
            table = begin(part, HEAD_ROWS).compute()
            if len(table):
                return table
        raise InvalidInputError(f"{self.describe()} has no rows; pass one that has some")

    def batches(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the partitions, computed one after the other."""
        for number, part in enumerate(self.partitions(columns)):
            yield Batch(part.compute(), number, 0, _where(number))

    def partitions(self, columns: Sequence[str] | None) -> list[Any]:
        """Return the partitions with some columns, or all for None, as delayed tables."""
        if self.names is None:
            if self.X.ndim != 2:
                raise InvalidInputError(
                    "expected a Dask array of two dimensions (rows, features), got one of "
                    f"{self.X.ndim}"
                )
            return list(self.X.rechunk({1: -1}).to_delayed().ravel())
        return list((self.X if columns is None else self.X[list(columns)]).to_delayed())

    def reduce(
        self, reader: RowReader, statistic: Statistic[Any], what: str, report: ProgressReport
    ) -> Any:
        """Return the state of a statistic after all rows; see `RowStream.reduce`."""
        from dask.delayed import delayed

        # One node of the graph each, which workers fetch once and Dask makes again if one is lost.
        known, how = delayed(statistic, pure=False), delayed(reader, pure=False)
        learn, merge = delayed(_learn, pure=False), delayed(_merge, pure=False)
        states = [
            learn(known, how, part, number)
            for number, part in enumerate(self.partitions(reader.wanted))
        ]
        report(f"{what} in {len(states)} partitions", 0, 0)
        while len(states) > 1:
            pairs = zip(states[::2], states[1::2], strict=False)
            merged = [merge(known, first, second) for first, second in pairs]
            states = merged + states[2 * len(merged) :]
        return states[0].compute() if states else statistic.zero()

    def map_frame(self, reader: RowReader, values: Callable[[Columns], Any], like: Any) -> Any:
        """Return a Dask frame of values on the rows, which is computed on first use.

        Parameters
        ----------
        reader : RowReader
            How the partitions are read.
        values : callable
            Returns a data frame of values on some rows.
        like : DataFrame
            Such a frame without rows.
        """
        if self.names is not None:
            frame = self.X if reader.wanted is None else self.X[list(reader.wanted)]
            return frame.map_partitions(_values_of, reader, values, meta=like)
        import dask.dataframe as dd
        from dask.delayed import delayed

        work = delayed(_values_of, pure=False)
        known, how = delayed(values, pure=False), delayed(reader, pure=False)
        parts = [work(part, how, known) for part in self.partitions(None)]
        return dd.from_delayed(parts, meta=like)


def _values_of(table: Any, reader: RowReader, values: Callable[[Columns], Any]) -> Any:
    frame = values(reader.read(Batch(table, 0, 0, "a partition")).columns)
    return frame.set_axis(table.index, axis=0) if hasattr(table, "index") else frame


def _where(number: int) -> str:
    return f"partition {number}"


def _learn(statistic: Statistic[Any], reader: RowReader, table: Any, number: int) -> Any:
    rows = reader.read(Batch(table, number, 0, _where(number)))
    state = statistic.zero()
    return statistic.add(state, rows) if len(rows) else state


def _merge(statistic: Statistic[Any], first: Any, second: Any) -> Any:
    # Dask may run a task again, and what it reads must still be what it was.
    return statistic.merge(deepcopy(first), second)
