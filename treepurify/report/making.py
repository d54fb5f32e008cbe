"""How what a report shows was made: the call, the model, the data, versions, date and seed."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from treepurify.arguments import brief, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.fingerprints import array_fingerprint, file_fingerprint
from treepurify.grid_rows import cells_of_columns
from treepurify.grids.axis import FeatureAxis
from treepurify.models.families import FAMILIES, display_name
from treepurify.report.parts import command_block, facts_list
from treepurify.rows.reduction import RowStream

__all__ = [
    "FileHash",
    "call_facts",
    "hash_files",
    "making_facts",
    "making_parts",
    "model_words",
    "page_facts",
]

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "matplotlib")
# Where the name that installs a library is not the one that imports it.
_INSTALLED_AS = {"sklearn": "scikit-learn"}
_UNKNOWN = "unknown"

FileHash = tuple[str, str]


def hash_files(files: Any) -> list[FileHash]:
    """Return the name of each file with its SHA-256.

    Raises
    ------
    InvalidInputError
        If `files` is no list of paths, or one of them is not a file that can be read.
    """
    if not isinstance(files, list | tuple):
        raise InvalidInputError(f"files must be a list of paths, got {brief(files)}")
    hashed = []
    for given in files:
        path = read_path("each of files", given)
        if not path.is_file():
            raise InvalidInputError(f"files names {str(path)!r}, which does not exist")
        hashed.append((path.name, file_fingerprint(path)))
    return hashed


def model_words(d: Decomposition) -> str:
    """Return library, version, kind and size of the model, in words; empty where unknown."""
    model = d.origin.model
    if model is None:
        return ""
    known = (model.library, model.version)
    source = " ".join(part for part in known if part not in ("", _UNKNOWN))
    count = f"{model.trees} trees" if model.trees is not None else ""
    if model.terms is not None:
        count = f"{model.terms} terms"
    return ", ".join(part for part in (source, model.kind, count) if part)


def making_parts(
    d: Decomposition, command: str | None, files: Sequence[FileHash] = ()
) -> list[str]:
    """Return the parts of the section on how a decomposition and its page were made.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    command : str, optional
        The command or the code that made it.
    files : sequence of (str, str)
        Names of files that it was made from, each with its hash.
    """
    facts = [*making_facts(d, with_call=command is None), *page_facts([d], files)]
    return [facts_list(facts), command_block(command)]


def making_facts(d: Decomposition, *, with_call: bool) -> list[tuple[str, str]]:
    """Return how one decomposition was made: engine, seed, and hashes of model and rows.

    `with_call` adds the call that gives it: for pages whose author did not pass the command.
    """
    method = d.origin.method
    model = "" if d.origin.model is None else d.origin.model.sha256
    rows = _rows_fingerprint(d)
    return [
        *(call_facts(d) if with_call else []),
        ("Engine", f"{d.engine}, {method}" if method else d.engine),
        ("Random choices", _seed_words(d)),
        ("Model as read", f"SHA-256 {model} of its trees or tables" if model else ""),
        (
            "Rows as read",
            f"SHA-256 {rows} of the rows as binned, with their weights" if rows else "",
        ),
    ]


def page_facts(
    decompositions: Sequence[Decomposition], files: Sequence[FileHash]
) -> list[tuple[str, str]]:
    """Return when and with which versions a page was written, and the files behind it."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        ("Files", "; ".join(f"{name}: SHA-256 {digest}" for name, digest in files)),
        ("Report written", made),
        ("Versions", ", ".join(f"{name} {version}" for name, version in _versions(decompositions))),
    ]


def _rows_fingerprint(d: Decomposition) -> str:
    if not d.rows or isinstance(d.rows, RowStream):
        return ""
    if d.given is not None:
        whole = d.given.rows.whole
        if whole is None:
            return ""
        axes: dict[int, FeatureAxis] = {}
        for component in d.tensor_components().values():
            axes |= dict(zip(component.features, component.axes, strict=True))
        return array_fingerprint([cells_of_columns(whole.columns, axes), whole.weights])
    rows = d.rows[max(d.rows)]
    return array_fingerprint([rows.codes, rows.weights])


def _seed_words(d: Decomposition) -> str:
    if d.origin.seeds:
        return f"drawn with seed {', '.join(map(str, d.origin.seeds))}"
    return "none, or drawn with a fixed seed: the same call gives the same numbers"


def _versions(decompositions: Sequence[Decomposition]) -> list[tuple[str, str]]:
    from treepurify import __version__

    versions = [("treepurify", __version__), ("Python", platform.python_version())]
    versions += [(name, metadata.version(name)) for name in _PACKAGES]
    models = [d.origin.model for d in decompositions if d.origin.model is not None]
    named = dict.fromkeys(name for model in models for name in model.library.split(", ") if name)
    for name in named:
        installed = _installed_version(name)
        if installed:
            versions.append((display_name(name), installed))
    return versions


def _installed_version(library: str) -> str:
    known = {f.library for f in FAMILIES} | {f.name for f in FAMILIES}
    if library not in known:
        return ""
    try:
        return metadata.version(_INSTALLED_AS.get(library, library))
    except metadata.PackageNotFoundError:
        return ""


def call_facts(d: Decomposition) -> list[tuple[str, str]]:
    """Return the call, where it is known, and whether effects were edited after it."""
    if d.call is None:
        return []
    edits = "Effects were edited afterwards; see the certificate" * bool(d.origin.edits)
    return [("Call", d.call.line()), ("After the call", edits)]
