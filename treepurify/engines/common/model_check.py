"""Check a parsed model against its library on a sample of the rows, and fail closed."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from treepurify.errors import ModelMismatchError
from treepurify.models.library_child import FileRefusedError
from treepurify.models.parse import Model, raw_margin
from treepurify.rows.batches import Batch
from treepurify.rows.columns import Columns
from treepurify.rows.reduction import RowStream
from treepurify.rows.source_reader import head_table
from treepurify.rows.tables import row_count, take_rows
from treepurify.threads import map_threads
from treepurify.typing import Array

__all__ = ["ModelCheck", "check_against_library", "check_head"]

_MOST_ROWS = 256
_TOLERANCE = {"float32": 2e-6, "float64": 1e-9}


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """The parsed model on a sample of rows.

    Parameters
    ----------
    columns : Columns
        The rows.
    margin : ndarray of float64, shape (n_rows, n_outputs)
        The parsed model's margin, summed in double precision.
    error : float or None
        Largest absolute difference from the library's raw prediction, in the library's own
        precision; None where there is no library to ask.
    note : str
        Why there is no such figure.
    rounding : float, optional
        Largest absolute difference of the margin in double precision from that prediction.
    """

    columns: Columns
    margin: Array
    error: float | None
    note: str
    rounding: float | None = None


def check_head(model: Any, parsed: Model, stream: RowStream) -> ModelCheck | None:
    """Compare the parsed model with its library on the first rows of a stream, at most 256.

    Raises
    ------
    ModelMismatchError
        If they differ by more than rounding.
    """
    table = head_table(stream.source, parsed.features, stream.reader.weight)
    if table is not None:
        return check_against_library(model, parsed, table)
    rows = stream.reader.read(Batch(stream.source.head(), 0, 0, stream.source.describe()))
    margin = parsed.margin(rows.columns, precision="float64")
    note = (
        "Columns that the model does not use are absent, so its library could not predict these "
        "rows."
    )
    return ModelCheck(rows.columns, margin, None, note)


def check_against_library(model: Any, parsed: Model, X: Any) -> ModelCheck | None:
    """Compare the parsed model with the library on at most 256 rows of `X`, evenly spaced.

    A function of a model names the model as its ``model_behind_response``.

    Raises
    ------
    ModelMismatchError
        If they differ by more than rounding.
    """
    if X is None:
        return None
    model = getattr(model, "model_behind_response", model)
    n_rows = row_count(X)
    picked = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MOST_ROWS)).astype(np.intp))
    rows = take_rows(X, picked)
    sample = rows if isinstance(rows, Columns) else parsed.columns(rows)
    margin, own = _margins(parsed, sample)
    library, note = _library_margin(model, rows, parsed)
    if library is None:
        return ModelCheck(sample, margin, None, note)
    difference = float(np.max(np.abs(own - library), initial=0.0))
    scale = max(float(np.max(np.abs(library), initial=0.0)), 1e-300)
    if not difference <= _TOLERANCE[parsed.accumulation] * scale:
        raise ModelMismatchError(
            f"the parsed {parsed.source.library} model differs from the library's raw prediction "
            f"by up to {difference:.3g} on {len(picked)} rows (margins up to {scale:.3g}). Are the "
            "rows prepared as for training? If so, please report this as a bug."
        )
    rounding = float(np.max(np.abs(margin - library), initial=0.0))
    return ModelCheck(sample, margin, difference, "", rounding)


def _library_margin(model: Any, rows: Any, parsed: Model) -> tuple[Array | None, str]:
    """Return the library's raw prediction; None, and why, where there is none."""
    try:
        library = raw_margin(model, rows, parsed)
    except ModelMismatchError:
        raise
    except FileRefusedError as error:
        return None, f"The model was not compared with its library: {error}"
    except Exception as error:  # noqa: BLE001 - any refusal of the library is reported, not hidden
        what = f"{type(error).__name__}: {error}"
        return None, f"The library did not predict on these rows: {what}"
    if library is None:
        return None, parsed.source.unasked or "There was no library to compare the model with."
    return library, ""


def _margins(parsed: Model, sample: Columns) -> tuple[Array, Array]:
    """Return the margin in double precision and in that of the library."""
    if parsed.accumulation == "float64":
        return (parsed.margin(sample, precision="float64"),) * 2
    # Not at the same time as the library, whose threads would wait for these.
    of_both: tuple[Literal["float64", "library"], ...] = ("float64", "library")
    margin, own = map_threads(lambda precision: parsed.margin(sample, precision=precision), of_both)
    return margin, own
