"""Compare a decomposition with its model, and a parsed model with its library."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.models.library_child import FileRefusedError
from treepurify.models.parse import parse_model, raw_margin
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array

__all__ = ["Verification", "explained_share", "verify"]


@dataclass(frozen=True)
class Verification:
    """How far a decomposition is from its model on the rows that were passed.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    source : str
        What the decomposition was compared with: the library's own raw prediction, or the
        parsed model where there is no library to ask.
    largest_difference : float
        Largest absolute difference on the margin scale.
    relative_difference : float
        The same over the largest absolute margin. XGBoost adds leaves in single precision,
        which alone explains about 1e-7 per hundred trees.
    """

    n_rows: int
    source: str
    largest_difference: float
    relative_difference: float


def verify(decomposition: Decomposition, model: Any, X: Any) -> Verification:
    """Compare the sum of the components with the model on every row; see `Decomposition.verify`."""
    columns = decomposition.inputs.columns(X)
    check_any_rows(columns.n_rows, "the rows on which to compare")
    try:
        margin = raw_margin(model, X)
    except FileRefusedError:
        margin = None
    source = "raw prediction of the library"
    if margin is None:
        margin, source = parse_model(model).margin(X), "parsed model"
    total = decomposition.evaluate(columns)
    if margin.shape != total.shape:
        raise InvalidInputError(
            f"the model gives margins of shape {margin.shape}, the decomposition {total.shape}: is "
            "this the model that was decomposed?"
        )
    largest = largest_difference(margin, total)
    scale = float(np.max(np.abs(margin), initial=0.0))
    return Verification(len(total), source, largest, largest / scale if scale > 0 else 0.0)


def largest_difference(first: Array, second: Array) -> float:
    """Return the largest absolute difference of two arrays."""
    return float(np.max(np.abs(first - second), initial=0.0))


def explained_share(d: Decomposition, X: Any) -> Array:
    """Return the share of the margin's variance that components explain; see `r_squared`."""
    columns = d.inputs.columns(X)
    check_any_rows(columns.n_rows, "the rows whose variance is explained")
    if d.remainder is None:
        return np.ones(d.n_outputs)
    total = np.tile(d.intercept, (columns.n_rows, 1))
    rest = np.zeros_like(total)
    for rest in d.evaluate_parts(columns):  # the last one is the remainder
        total += rest
    variance = total.var(axis=0)
    return np.asarray(1.0 - np.mean(rest**2, axis=0) / np.where(variance > 0, variance, 1.0))
