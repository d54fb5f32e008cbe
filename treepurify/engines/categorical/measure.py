"""The combinations of levels that stand for a measure other than that of the rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from treepurify.budget import check_budget
from treepurify.engines.categorical.reading import Question
from treepurify.engines.common.known_values import KnownValues
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, encode_rows
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import RowWeights
from treepurify.typing import Array
from treepurify.weights import Weighting
from treepurify.weights.even_points import numbers_of_features
from treepurify.weights.points import points_in_cells, row_points

__all__ = ["Measured", "check_batches", "measured"]

# Where a level is a bin, the function is called at a value of the rows in it.
_SEED = 0


@dataclass(frozen=True, eq=False)
class Measured:
    """The question, asked at the combinations of levels that have mass.

    Parameters
    ----------
    question : Question
        The question with the combinations in place of the rows.
    weights : ndarray of float64, shape (n_combinations,), optional
        Their weights; None for equal weights.
    words : str
        The measure in words.
    facts : mapping of str to object
        What was found, for diagnostics.
    note : str
        What a reader of the certificate must know.
    are_rows : bool
        Whether each combination is one row, so that their number tells how large the sample is.
    """

    question: Question
    weights: RowWeights
    words: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    are_rows: bool = False


def check_batches(weighting: Weighting) -> None:
    """Raise `InvalidInputError` if a weighting cannot weigh rows that come in batches."""
    if not weighting.counts_are_enough:
        raise InvalidInputError(
            f"weights={weighting.name!r} need all rows one by one, and these come in batches: use "
            '"empirical", "independent", "laplace", "uniform" or tp.weights.Shrunk(0.1), or pass a '
            "table"
        )


def measured(
    question: Question, row_weights: RowWeights, weighting: Weighting, memory_budget: int
) -> Measured:
    """Return the question under a weighting.

    Under a measure that rows stand for, these are its rows; else all combinations of levels that
    have mass, at which the function is called.

    Raises
    ------
    InvalidInputError
        If the function is known by values on the rows alone, and other combinations have mass.
    MemoryBudgetError
        If there are too many combinations.
    """
    if weighting.share_of_rows == 1.0:
        return Measured(question, row_weights, weighting.describe(), are_rows=True)
    facts: dict[str, Any] = {}
    note = ""
    if weighting.needs_values:
        fitted = weighting.fitted(question.columns, row_weights, memory_budget)
        weighting, note = fitted.weighting, fitted.note
        facts = {"measure": dict(fitted.facts)}
        if weighting.share_of_rows == 1.0 and fitted.columns is not None:
            at_points = _at_points(question, fitted.columns)
            return Measured(at_points, fitted.row_weights, weighting.describe(), facts, note)
    at_cells, mass = _at_cells(question, row_weights, weighting, memory_budget)
    return Measured(at_cells, mass, weighting.describe(), facts, note)


def _at_points(question: Question, points: Columns) -> Question:
    """Return the question at points whose values are values of the rows."""
    encoded, _ = encode_rows(points, question.grid.axes)
    values = _values(question, points, encoded)
    return replace(question, codes=encoded.codes, values=values, columns=points)


def _at_cells(
    question: Question, row_weights: RowWeights, weighting: Weighting, memory_budget: int
) -> tuple[Question, Array]:
    """Return the question at all combinations of levels with mass, and their masses."""
    grid, n_outputs = question.grid, question.values.shape[1]
    every = tuple(range(grid.n_features))
    n_cells = prod(grid.shape(every))
    check_budget(
        8 * n_cells * (2 * grid.n_features + n_outputs + 3),
        memory_budget,
        f"{n_cells} combinations of the levels of all features",
        'Use weights="empirical" or "auto", or pass fewer features or bins.',
    )
    rows = EncodedRows(question.codes, row_weights)
    joint = weighting.tables(grid, rows, [every])[every]
    cells = np.nonzero(joint > 0)
    rng = np.random.default_rng(_SEED)
    numbers = numbers_of_features(question.columns.features, len(cells[0]), rng)
    points = points_in_cells(cells, row_points(question.columns, rows), grid, numbers)
    codes = np.stack(cells).astype(question.codes.dtype)
    values = _values(question, points.columns, EncodedRows(codes))
    asked = replace(question, codes=codes, values=values, columns=points.columns)
    return asked, joint[cells]


def _values(question: Question, columns: Columns, rows: EncodedRows) -> Array:
    """Return the function at points: its values on the rows, where only these are known."""
    if question.function is not None:
        return question.function(columns)
    known = KnownValues(question.inputs, question.codes.T, question.values, question.grid.axes)
    return known.in_cells(rows.codes)
