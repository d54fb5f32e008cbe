"""Compare a decomposition with its model, and a parsed model with its library."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from treepurify.arguments import brief
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, TreepurifyError, UnsupportedModelError
from treepurify.models.library_child import FileRefusedError
from treepurify.models.parse import Model, parse_model, raw_margin
from treepurify.progress import progress_report, row_progress
from treepurify.row_results import Verification
from treepurify.rows.batches import Source
from treepurify.rows.source_reader import model_table
from treepurify.rows.sources import TableSource, open_rows
from treepurify.rows.table_reader import matched_names
from treepurify.rows.tables import check_any_rows
from treepurify.typing import Array


def verify(decomposition: Decomposition, model: Any, X: Any) -> Verification:
    """Compare the sum of the components with the model on every row; see `Decomposition.verify`."""
    source = open_rows(X)
    parsed = _same_shape(decomposition, model)
    n_rows, largest, scale, words = 0, 0.0, 0.0, ""
    for table in _tables(decomposition, source):
        margin, total, words = _margins(decomposition, model, parsed, table)
        n_rows += len(total)
        largest = max(largest, largest_difference(margin, total))
        scale = max(scale, float(np.max(np.abs(margin), initial=0.0)))
    check_any_rows(n_rows, "the rows on which to compare")
    return Verification(n_rows, words, largest, largest / scale if scale > 0 else 0.0)


def _tables(decomposition: Decomposition, source: Source) -> Iterator[Any]:
    """Yield the rows of a source with the columns that the library of the model is asked with.

    A table goes to the library as it is.
    """
    if isinstance(source, TableSource):
        yield source.table
        return
    features = decomposition.inputs.features
    progress = row_progress("comparing rows", source.n_rows, progress_report(True))
    for batch in source.batches(None):
        if not len(batch.table):
            continue
        table = model_table(batch.table, features)
        if table is None:
            names = ", ".join(spec.name for spec in features)
            raise InvalidInputError(
                f"{batch.where} must have all columns that the model's library needs for its "
                f"predictions: {names}"
            )
        yield table
        progress(len(table))


def _same_shape(decomposition: Decomposition, model: Any) -> Model | None:
    """Return the parsed model, which must have as many features and outputs as were decomposed.

    None where the model cannot be parsed: what was decomposed is a function then.
    """
    try:
        parsed = parse_model(model)
    except UnsupportedModelError:
        return None
    for what, own, others in (
        ("features", decomposition.feature_names, parsed.feature_names),
        ("outputs", decomposition.output_names, parsed.output_names),
    ):
        if len(own) != len(others):
            raise InvalidInputError(
                f"this is not the model that was decomposed: it has {len(others)} {what}, "
                f"{brief(list(others))}, but the decomposition has {len(own)}, {brief(list(own))}"
            )
    return parsed


def _not_predicted(
    decomposition: Decomposition, parsed: Model | None, error: Exception
) -> InvalidInputError:
    """Return the error for rows that the decomposition takes and the library refuses."""
    mine = decomposition.feature_names
    theirs = mine if parsed is None else parsed.feature_names
    if set(matched_names(theirs, decomposition.inputs.features)) != set(mine):
        return InvalidInputError(
            f"this is not the model that was decomposed: its features are {brief(list(theirs))}, "
            f"but those of the decomposition are {brief(list(mine))}"
        )
    return InvalidInputError(
        f"the library of the model did not predict on these rows ({type(error).__name__}: "
        f"{error}). Pass rows as they were prepared for training"
    )


def _margins(
    decomposition: Decomposition, model: Any, parsed: Model | None, X: Any
) -> tuple[Array, Array, str]:
    """Return the margin of the model and the sum of the components, and who gave the former."""
    total = decomposition.on_rows(X)
    check_any_rows(len(total), "the rows on which to compare")
    try:
        margin = raw_margin(model, X, parsed)
    except FileRefusedError:
        margin = None
    except TreepurifyError:
        raise
    except Exception as error:
        raise _not_predicted(decomposition, parsed, error) from error
    words = "raw prediction of the library"
    if margin is None:
        margin, words = (parsed or parse_model(model)).margin(X), "parsed model"
    if margin.shape != total.shape:
        raise InvalidInputError(
            f"the model returns margins of shape {margin.shape}, but the decomposition returns "
            f"{total.shape}: is this the model that was decomposed?"
        )
    return margin, total, words


def largest_difference(first: Array, second: Array) -> float:
    """Return the largest absolute difference of two arrays."""
    return float(np.max(np.abs(first - second), initial=0.0))
