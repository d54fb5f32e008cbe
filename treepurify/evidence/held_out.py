"""Rows that a model was not trained on, with what was observed there and what effects add."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_result
from treepurify.budget import check_budget
from treepurify.components import ModelInputs
from treepurify.decomposition import Decomposition
from treepurify.evidence.held_out_sample import check_target_column, sample_held_out
from treepurify.evidence.losses import Loss, read_loss
from treepurify.grids.grid import Subset
from treepurify.models.parse import Model
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns
from treepurify.rows.row_weights import read_row_weights, row_shares
from treepurify.rows.sources import as_source
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array

__all__ = ["HeldOut", "check_held_out", "read_held_out"]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows with observations, and what each part of a decomposition adds to them.

    Parameters
    ----------
    subsets : tuple of tuple of int
        The effects, and the remainder as () where there is one.
    contributions : ndarray of float64, shape (n_effects, n_rows, n_outputs)
        What each adds to the margin of each row.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        Their sum with the intercept.
    loss : Loss
        The loss, which knows the observations.
    shares : ndarray of float64, shape (n_rows,)
        Share of each row.
    columns : Columns
        The rows as the decomposition reads them.
    words : str
        What sample of rows in batches they are, in a sentence; empty where they are all.
    """

    subsets: tuple[Subset, ...]
    contributions: Array
    margin: Array
    loss: Loss
    shares: Array
    columns: Columns
    words: str = ""


def check_held_out(model: Model, X: Any, y: Any, loss: Any, sample_weight: Any) -> None:
    """Raise where held-out rows do not suit a model, before it is decomposed.

    Of rows in batches only the names of columns are checked.

    Raises
    ------
    InvalidInputError
        If the rows, the observations, the loss or the weights cannot be used.
    """
    source = as_source(X)
    if source is not None:
        check_target_column(source, y)
        return
    columns = ModelInputs(model.features, model.has_feature_names).columns(X)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read_loss(loss, y, model.link, model.output_names, n_rows)
    read_row_weights(sample_weight, n_rows)


def read_held_out(
    d: Decomposition,
    X: Any,
    y: Any,
    loss: Any,
    sample_weight: npt.ArrayLike | str | None,
    memory_budget: int,
    report: ProgressReport,
) -> HeldOut:
    """Return rows with their observations, and what each effect adds to them.

    Of rows in batches, whose observations and weights are columns, it is a sample.

    Raises
    ------
    InvalidInputError
        If the rows, the observations or the loss cannot be used.
    MemoryBudgetError
        If the contributions would not fit.
    """
    check_result("d", d, Decomposition)
    source, words = as_source(X), ""
    if source is not None:
        inputs = d.inputs
        sample = sample_held_out(
            inputs.features, source, y, sample_weight, memory_budget, report,
            match_names=inputs.match_names,
        )  # fmt: skip
        X, y, sample_weight, words = sample.X, sample.y, sample.weights, sample.words
    columns = d.inputs.columns(X)
    n_rows = columns.n_rows
    check_any_rows(n_rows, "rows that the model was not trained on")
    read = read_loss(loss, y, d.link, d.output_names, n_rows)
    shares = row_shares(n_rows, read_row_weights(sample_weight, n_rows))
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
    return HeldOut(subsets, contributions, margin, read, shares, columns, words)
