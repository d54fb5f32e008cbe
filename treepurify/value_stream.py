"""Rows from anywhere, as the parts of a decomposition read them."""

from collections.abc import Sequence
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.remainder import used_features
from treepurify.rows.reduction import RowStream, rows_in_memory
from treepurify.rows.row_weights import read_row_weights
from treepurify.rows.source_reader import source_reader
from treepurify.rows.sources import TableSource, open_rows

__all__ = ["value_stream"]


def value_stream(
    d: Decomposition,
    X: Any,
    weight: Any = None,
    more_features: Sequence[int] = (),
) -> RowStream:
    """Return rows with the columns that the parts of a decomposition read.

    A table is read at once. Of rows in batches the columns that no part uses are not read.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    X : array_like, table, rows in batches or Source
        The rows.
    weight : array_like or str, optional
        The weights of a table; the name of their column of rows in batches.
    more_features : sequence of int
        Features whose columns are read as well, whether a part uses them or not.

    Raises
    ------
    InvalidInputError
        If columns are missing, or weights cannot be used.
    """
    inputs, source = d.inputs, open_rows(X)
    if isinstance(source, TableSource):
        columns = inputs.columns(source.table)
        return rows_in_memory(columns, read_row_weights(weight, columns.n_rows))
    reader = source_reader(
        source,
        inputs.features,
        sorted({*used_features(d.components, d.remainder), *more_features}),
        match_names=inputs.match_names,
        weight=weight,
    )
    return RowStream(source, reader)
