"""What must hold of the diagnostics in a file, which figures, reports and exports read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.errors import SavedFileError

__all__ = ["check_diagnostics"]

_MAPPINGS = ("model", "response_of", "measure", "selection", "projection", "fit", "refits")
_LISTS = ("solves", "errors", "shared_mains", "edits")
_FACTS_OF_MODEL = {
    "library": str, "version": str, "kind": str, "sha256": str, "notes": list,
    "trees": int, "terms": int,
}  # fmt: skip


def check_diagnostics(d: Decomposition) -> None:
    """Refuse diagnostics of other types than the code that reads them expects."""
    known = d.diagnostics
    fits = all(isinstance(known.get(name) or {}, Mapping) for name in _MAPPINGS)
    fits = fits and all(
        isinstance(known.get(name) or [], list | tuple)
        and all(isinstance(entry, Mapping) for entry in known.get(name) or [])
        for name in _LISTS
    )
    fits = fits and _is_count(known.get("rows")) and isinstance(known.get("method", ""), str)
    facts = known.get("model") or {}
    fits = fits and all(
        facts.get(name) is None or isinstance(facts[name], kind)
        for name, kind in _FACTS_OF_MODEL.items()
    )
    fits = fits and all(isinstance(note, str) for note in facts.get("notes") or [])
    if not fits or not _has_standard_errors(d):
        raise SavedFileError("the diagnostics in the file are not of the types that are expected")


def _is_count(number: Any) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return number is None or (is_number and 0 <= number < np.inf)


def _has_standard_errors(d: Decomposition) -> bool:
    """Return whether each effect of ALE has as many errors as nodes, where it has any."""
    known = d.diagnostics.get("standard_error", {})
    if d.engine != "ALE":
        return True
    if not isinstance(known, Mapping):
        return False
    for of_effect in known.values():
        try:
            nodes, errors = np.array(of_effect["nodes"]), np.array(of_effect["errors"])
        except (TypeError, ValueError, LookupError):
            return False
        are_numbers = nodes.dtype.kind in "if" and errors.dtype.kind in "if"
        if not are_numbers or nodes.ndim != 1 or not len(nodes) or np.any(np.isnan(nodes)):
            return False
        if errors.shape != (len(nodes), d.n_outputs):
            return False
    return True
