"""Rows that a model was not trained on, with what was observed there and what effects add."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.evidence.losses import Loss, read_loss
from treepurify.grids.grid import Subset
from treepurify.links import Link
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport, no_report
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import GivenRows, check_named_columns, given_rows
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array

__all__ = ["HeldOutRows", "PredictedRows", "check_held_out", "read_held_out", "read_predicted"]


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows with observations, and the predictions there.

    Parameters
    ----------
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The predictions, on the margin scale.
    loss : Loss
        The loss, which knows the observations.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    columns : Columns
        The rows as the decomposition reads them.
    observed : array_like
        What was observed.
    words : str
        What sample of the rows they are, in a sentence; empty where they are all.
    """

    margin: Array
    loss: Loss
    shares: Array
    columns: Columns
    observed: Any
    words: str


@dataclass(frozen=True, eq=False)
class HeldOutRows(PredictedRows):
    """Rows with observations, and what each part of a decomposition adds to them.

    Parameters
    ----------
    margin, loss, shares, columns, observed, words
        As in `PredictedRows`.
    subsets : tuple of tuple of int
        The effects, and the remainder as () where there is one.
    contributions : ndarray of float64, shape (n_effects, n_rows, n_outputs)
        What each adds to the margin of each row.
    """

    subsets: tuple[Subset, ...]
    contributions: Array


def check_held_out(model: Model, X: Any, y: Any, loss: Any, sample_weight: Any) -> None:
    """Raise where held-out rows do not suit a model, before it is decomposed.

    Of rows in batches only the names of columns are checked.

    Raises
    ------
    InvalidInputError
        If the rows, the observations, the loss or the weights cannot be used.
    """
    source = open_rows(X)
    if not isinstance(source, TableSource):
        check_named_columns(source, [y])
        return
    inputs = ModelInputs(model.features, model.has_feature_names)
    rows = given_rows(source, model.features, sample_weight, (y,), DEFAULT_BUDGET, no_report)
    _read_rows(inputs, rows, loss, model.link, model.output_names)


def read_held_out(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> HeldOutRows:
    """Return rows with their observations, and what each effect adds to them.

    For rows in batches, whose observations and weights are columns, it is a sample.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If the contributions would not fit.
    """
    columns, loss, shares, observed, words = _observed(
        d, X, y, loss, sample_weight, memory_budget, report
    )
    n_rows = columns.n_rows
    subsets = (*d.components, *([()] if d.remainder is not None else []))
    check_budget(
        8 * (len(subsets) + 4) * n_rows * d.n_outputs,
        memory_budget,
        f"the contributions of {len(subsets)} effects on {n_rows} rows",
        "Pass fewer rows.",
    )
    contributions = np.empty((len(subsets), n_rows, d.n_outputs))
    margin = np.tile(d.intercept, (n_rows, 1))
    for part, values in enumerate(d.evaluate_parts(columns)):
        contributions[part] = values
        margin += values
    return HeldOutRows(margin, loss, shares, columns, observed, words, subsets, contributions)


def read_predicted(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> PredictedRows:
    """Return rows with their observations and the predictions there; see `read_held_out`.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If a sample of rows in batches would not fit.
    """
    check_memory_budget(memory_budget)
    columns, loss, shares, observed, words = _observed(
        d, X, y, loss, sample_weight, memory_budget, report
    )
    return PredictedRows(d.on_rows(columns), loss, shares, columns, observed, words)


def _observed(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: Any,
    memory_budget: int,
    report: ProgressReport,
) -> tuple[Columns, Loss, Array, Any, str]:
    """Return the rows, their loss and shares, what was observed, and what sample they are."""
    check_result("d", d, Decomposition)
    rows = given_rows(X, d.inputs.features, sample_weight, (y,), memory_budget, report)
    columns, read, shares = _read_rows(d.inputs, rows, loss, d.link, d.output_names)
    return columns, read, shares, rows.observed[0], rows.sentence


def _read_rows(
    inputs: ModelInputs, rows: GivenRows, loss: Any, link: Link, output_names: Sequence[str]
) -> tuple[Columns, Loss, Array]:
    columns = inputs.columns(rows.table)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read = read_loss(loss, rows.observed[0], link, output_names, n_rows)
    return columns, read, row_shares(n_rows, read_row_weights(rows.weights, n_rows))
