"""Where what is exported comes from: the model, its edits, and what wrote the file."""

from treepurify.decomposition import Decomposition

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

    model = d.diagnostics.get("model") or {}
    named = " ".join(str(model[part]) for part in ("library", "version", "kind") if part in model)
    rows = d.diagnostics.get("rows")
    edits = d.certificate.edits if d.certificate is not None else ()
    if not edits and d.diagnostics.get("edits"):
        edits = ("its effects were edited",)
    facts = [
        ("model", named),
        ("model SHA-256", str(model.get("sha256") or "")),
        ("no longer the model", " ".join(edits)),
        ("rows of the measure", "" if rows is None else str(rows)),
        ("written by", f"treepurify {__version__}"),
    ]
    return [(name, value) for name, value in facts if value]
