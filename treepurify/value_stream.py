"""Rows that come in batches, as the parts of a decomposition read them."""

from collections.abc import Sequence
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.remainder import used_features
from treepurify.rows.batches import Source
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import source_reader

__all__ = ["value_stream"]


def value_stream(
    d: Decomposition, source: Source, weight: Any = None, apart: Sequence[str] = ()
) -> RowStream:
    """Return the rows of a source with the columns that the parts of a decomposition read.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    source : Source
        The rows.
    weight : str, optional
        Name of the column of weights.
    apart : sequence of str
        Names of columns that are no features, where these are matched by position.

    Raises
    ------
    InvalidInputError
        If columns are missing.
    """
    inputs = d.inputs
    reader = source_reader(
        source,
        inputs.features,
        used_features(d.components, d.remainder),
        match_names=inputs.match_names,
        weight=weight,
        apart=apart,
    )
    return RowStream(source, reader)
