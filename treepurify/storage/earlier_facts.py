"""The typed facts of files that were written when all of them were diagnostics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treepurify.components import NodeErrors
from treepurify.decomposition import Decomposition
from treepurify.engines.common.origin_facts import origin_of, untyped
from treepurify.errors import SavedFileError
from treepurify.spread import Spread
from treepurify.storage.encoding import check_types

__all__ = ["with_earlier_facts"]

_NODE_ERRORS = "standard_error"


def with_earlier_facts(d: Decomposition) -> Decomposition:
    """Return a decomposition whose diagnostics have become typed facts.

    Raises
    ------
    SavedFileError
        If they are not of the types that are declared.
    """
    facts = dict(d.diagnostics)
    # The first files know the solves of tables by their names only.
    named = {d.term_name(subset): subset for subset in d.components}
    facts["solves"] = [
        {"features": named.get(solve["term"], ()), **solve} for solve in facts.get("solves", ())
    ]
    origin = origin_of(facts)
    parts = (origin, origin.model, origin.response_of, origin.identifiability)
    for part in (*parts, *origin.concurvity, *origin.edits):
        if part is not None:
            fields = {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in vars(part).items()
            }
            check_types(type(part).__name__, type(part), fields)
    known = untyped(d.diagnostics)
    errors = known.pop(_NODE_ERRORS, {}) if d.engine == "ALE" else {}
    return replace(
        d,
        origin=origin,
        diagnostics=known,
        node_errors={
            (d.feature_names.index(name),): _node_errors(at_nodes, d.n_outputs)
            for name, at_nodes in errors.items()
        },
        spread=None if d.spread is None else _with_refits(d.spread, known.get("refits", {})),
    )


def _node_errors(known: Mapping[str, Any], n_outputs: int) -> NodeErrors:
    nodes, errors = np.array(known["nodes"]), np.array(known["errors"])
    are_numbers = nodes.dtype.kind in "if" and errors.dtype.kind in "if"
    if not are_numbers or nodes.ndim != 1 or not len(nodes) or np.any(np.isnan(nodes)):
        raise SavedFileError("the file is damaged: the nodes of a main effect are not numbers")
    if errors.shape != (len(nodes), n_outputs):
        raise SavedFileError(
            "the file is damaged: it does not have one standard error for each node"
        )
    return NodeErrors(nodes.astype(np.float64), errors.astype(np.float64))


def _with_refits(spread: Spread, refits: Mapping[str, Any]) -> Spread:
    return replace(
        spread,
        is_of_mean=refits.get("decomposed") == "mean",
        common_grid=refits.get("common_grid", ""),
    )
