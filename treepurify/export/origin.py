"""Where what is exported comes from: the model, its edits, and what wrote the file."""

from treepurify.decomposition import Decomposition
from treepurify.origin import ModelFacts

__all__ = ["origin"]


def origin(d: Decomposition) -> list[tuple[str, str]]:
    """Return the facts by which an exported file can be traced, as names and values.

    The library and the hash of the model, what was edited with how far predictions moved, the rows
    of the measure, and the version that wrote the file. What is not known is left out.

    Parameters
    ----------
    d : Decomposition
        What is exported.
    """
    from treepurify import __version__

    model = d.origin.model or ModelFacts()
    named = " ".join(filter(None, (model.library, model.version, model.kind)))
    rows = d.origin.n_rows
    edits = d.certificate.edits if d.certificate is not None else ()
    if not edits and d.origin.edits:
        edits = ("its effects were edited",)
    facts = [
        ("model", named),
        ("model SHA-256", model.sha256),
        ("no longer the model", " ".join(edits)),
        ("rows of the measure", "" if rows is None else str(rows)),
        ("written by", f"treepurify {__version__}"),
    ]
    return [(name, value) for name, value in facts if value]
