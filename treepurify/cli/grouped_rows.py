"""The rows of a file in memory: features, what was observed, weights, and columns of groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treepurify.cli.data import TableReader, read_rows
from treepurify.cli.held_out import TargetColumns
from treepurify.errors import InvalidInputError

__all__ = ["GroupedRows", "read_grouped_rows"]


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """The rows of a file: columns of features, and what else was named."""

    X: Any = None
    y: Any = None
    weight: Any = None
    groups: dict[str, Any] = field(default_factory=dict)


def read_grouped_rows(
    reader: TableReader,
    path: Path,
    groups: Sequence[str],
    *,
    target: str | None,
    positive: str | None,
    dropped: Sequence[str],
    weight: str | None,
    in_batches: str,
) -> GroupedRows:
    """Return the rows of a file, with the columns that tell groups, which may be no features.

    Parameters
    ----------
    reader : TableReader
        What reads the columns of the features.
    path : Path
        The file.
    groups : sequence of str
        Names of the columns that tell groups.
    target, positive, dropped, weight : optional
        See `TargetColumns`.
    in_batches : str
        What is said of rows that are not in memory.

    Raises
    ------
    InvalidInputError
        If the rows are not in memory, or a column cannot be used.
    """
    features = {spec.name for spec in reader.features}
    apart = [*dropped, *(name for name in dict.fromkeys(groups) if name not in features)]
    rows = read_rows(reader, path, target, apart, weight)
    if rows.apart is None or rows.X is None:
        raise InvalidInputError(in_batches)
    y = None
    if target is not None:
        y = TargetColumns(target, positive, apart, weight).observations(rows.apart, path)
    tables: Any = {True: rows.X, False: rows.apart}
    labels = {name: tables[name in features][name].to_numpy() for name in groups}
    return GroupedRows(rows.X, y, rows.sample_weight, labels)
