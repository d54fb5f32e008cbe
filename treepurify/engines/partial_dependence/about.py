"""What a reader of partial dependence must know of its background, and the decomposition made."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from treepurify.decomposition import Decomposition
from treepurify.engines.common.finish import Evidence, Result, finish
from treepurify.engines.common.functions import ParsedFunction
from treepurify.engines.common.model_check import ModelCheck
from treepurify.engines.common.problem import Wanted
from treepurify.engines.partial_dependence.background import certificate_note, describe_background
from treepurify.grids.grid import EncodedRows
from treepurify.models.parse import Model
from treepurify.rows.reduction import RowStream

__all__ = ["About", "about_cover", "about_rows", "finish_terms"]

_COVER_NOTE = (
    "Path-dependent terms average over the training rows in the nodes of each tree. They add up to "
    "the model, but no joint distribution of the features stands behind them: they are orthogonal "
    "under none, and depend on how the trees were grown."
)


@dataclass(frozen=True, eq=False)
class About:
    """What a reader must know of the background: the measure, a note, and facts."""

    engine: str
    measure: str
    note: str
    facts: dict[str, Any]
    has_measure: bool


def about_rows(n_rows: int, extrapolation: dict[str, Any]) -> About:
    """Return what is known of a background of rows; see `outside_support` for extrapolation."""
    measure = describe_background(n_rows, extrapolation)
    facts = {"background_rows": n_rows, "extrapolation": extrapolation}
    return About(
        "partial dependence", measure, certificate_note(extrapolation), facts, has_measure=True
    )


def about_cover(n_rows: int) -> About:
    """Return what is known of the covers of nodes, where variances are over so many rows."""
    measure = f"path-dependent (covers of the trees' nodes; variances over {n_rows} rows)"
    return About("path-dependent", measure, _COVER_NOTE, {"rows": n_rows}, has_measure=False)


def finish_terms(
    parsed: Model,
    wanted: Wanted,
    result: Result,
    check: ModelCheck | None,
    about: About,
    *,
    rows: Mapping[int, EncodedRows] | None = None,
    stream: RowStream | None = None,
) -> Decomposition:
    """Return the terms of a parsed model with what a reader must know of the background.

    Parameters
    ----------
    parsed : TreeEnsemble or AdditiveTables
        The model.
    wanted : Wanted
        Which terms are kept apart.
    result : Result
        The terms.
    check : ModelCheck, optional
        The parsed model compared with its library.
    about : About
        The background.
    rows : mapping of int to EncodedRows, optional
        The background rows on the grid of each order.
    stream : RowStream, optional
        The same for rows that come in batches, and can be read again.
    """
    evidence = replace(
        result.evidence or Evidence(), note=about.note, has_measure=about.has_measure
    )
    facts = {"model": parsed.facts(), "exact": True, **about.facts, **result.diagnostics}
    return finish(
        ParsedFunction(parsed),
        replace(result, evidence=evidence, diagnostics=facts),
        engine=about.engine,
        measure=about.measure,
        wanted=wanted,
        is_determined=True,
        rows=rows,
        stream=stream,
        check=check,
    )
