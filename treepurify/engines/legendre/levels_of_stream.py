"""The levels of features in all rows of a stream: a sample may lack some."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from treepurify.engines.legendre.scaling import Axis, LevelAxis
from treepurify.errors import InvalidInputError
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import RowBatch
from treepurify.typing import Array

__all__ = ["with_all_levels"]

_MOST_LEVELS = 10_000


def with_all_levels(
    axes: Mapping[int, Axis], stream: RowStream, report: ProgressReport
) -> dict[int, Axis]:
    """Return the axes of a sample with the levels of all rows, after one pass.

    Raises
    ------
    InvalidInputError
        If a feature that has levels in the sample has very many in all rows.
    """
    levelled = {j: axis for j, axis in axes.items() if isinstance(axis, LevelAxis)}
    if not levelled:
        return dict(axes)
    names = {j: axis.name for j, axis in levelled.items()}
    found = stream.reduce(_Levels(names), "finding levels", report)
    wider = {}
    for j, axis in levelled.items():
        levels = np.unique(np.concatenate([axis.levels, found[j]]))
        reference = axis.levels[axis.reference]
        is_reference = np.isnan(levels) if np.isnan(reference) else levels == reference
        wider[j] = replace(axis, levels=levels, reference=int(np.argmax(is_reference)))
    return {**axes, **wider}


@dataclass(frozen=True, eq=False)
class _Levels:
    """The statistic of the distinct values of some features, missing ones included."""

    names: Mapping[int, str]

    def zero(self) -> dict[int, Array]:
        """Return no values."""
        return {j: np.empty(0) for j in self.names}

    def add(self, state: dict[int, Array], rows: RowBatch) -> dict[int, Array]:
        """Return the values with those of a batch."""
        counted = slice(None) if rows.weights is None else rows.weights > 0
        own = {j: np.unique(rows.columns.values[j][counted]).astype(float) for j in self.names}
        return self.merge(state, own)

    def merge(self, state: dict[int, Array], other: dict[int, Array]) -> dict[int, Array]:
        """Return the values of both."""
        merged = {j: np.unique(np.concatenate([own, other[j]])) for j, own in state.items()}
        for j, values in merged.items():
            if len(values) > _MOST_LEVELS:
                raise InvalidInputError(
                    f"feature {self.names[j]!r} has few distinct values in a sample of the rows "
                    f"and more than {_MOST_LEVELS} in all of them: pass "
                    f'scaling={{{self.names[j]!r}: "rank"}}'
                )
        return merged
