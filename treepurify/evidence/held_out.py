"""Rows that a model was not trained on, with what was observed there and what effects add."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treepurify.arguments import check_result
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.evidence.losses import Loss, LossChoice, read_loss
from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport, no_report
from treepurify.rows.columns import Columns
from treepurify.rows.given_rows import GivenRows, check_named_columns, given_rows
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array


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
    parts : mapping of tuple of int to ndarray of float64, shape (n_rows, n_outputs)
        What each effect, and the remainder as (), adds to the margin, where this was wanted.
    """

    margin: Array
    loss: Loss
    shares: Array
    columns: Columns
    observed: Any
    words: str
    parts: Mapping[Subset, Array] = field(default_factory=dict)

    def loss_of(self, margin: Array) -> float:
        """Return the loss of other margins (n_rows, n_outputs) on these rows."""
        return self.loss.mean(margin, self.shares)


def check_held_out(model: Model, X: Any, y: Any, loss: LossChoice, sample_weight: Any) -> None:
    """Raise where held-out rows do not suit a model; of batches only names are checked."""
    source = open_rows(X)
    if not isinstance(source, TableSource):
        check_named_columns(source, [y])
        return
    inputs = ModelInputs(model.features, model.has_feature_names)
    rows = given_rows(source, model.features, sample_weight, (y,), DEFAULT_BUDGET, no_report)
    _read_rows(inputs, rows, loss, model)


def read_predicted(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: LossChoice,
    sample_weight: Any,
    memory_budget: int,
    report: ProgressReport,
    *,
    has_parts: bool = False,
) -> PredictedRows:
    """Return rows with their observations and the predictions there; of batches, a sample.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If a sample of rows in batches, or the parts of the predictions, would not fit.
    """
    check_memory_budget(memory_budget)
    check_result("d", d, Decomposition)
    rows = given_rows(X, d.inputs.features, sample_weight, (y,), memory_budget, report)
    columns, read, shares = _read_rows(d.inputs, rows, loss, d)
    known = (columns, rows.observed[0], rows.sentence)
    if not has_parts:
        return PredictedRows(d.on_rows(columns), read, shares, *known)
    subsets = (*d.components, *([()] if d.remainder is not None else []))
    check_budget(
        8 * (len(subsets) + 4) * columns.n_rows * d.n_outputs,
        memory_budget,
        f"the contributions of {len(subsets)} effects on {columns.n_rows} rows",
        "Pass fewer rows.",
    )
    parts = dict(zip(subsets, d.evaluate_parts(columns), strict=True))
    margin = np.tile(d.intercept, (columns.n_rows, 1))
    for values in parts.values():
        margin += values
    return PredictedRows(margin, read, shares, *known, parts)


def _read_rows(
    inputs: ModelInputs, rows: GivenRows, loss: LossChoice, model: Model | Decomposition
) -> tuple[Columns, Loss, Array]:
    columns = inputs.columns(rows.table)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read = read_loss(loss, rows.observed[0], model.link, model.output_names, n_rows)
    return columns, read, row_shares(n_rows, read_row_weights(rows.weights, n_rows))
