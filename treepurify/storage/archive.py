"""Save a decomposition to one file and read it back; reading runs no code of the file.

The file is a ZIP archive with ``decomposition.json``, one ``.npy`` entry for each array, and
``checksums.json`` with the SHA-256 of every other entry. The document names the format and its
version; components and remainders are objects of the classes that are registered with
`treepurify.saving.savable`.
"""

import hashlib
import io
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_path
from treepurify.certificate import Certificate
from treepurify.components import Component, evaluate_each, is_drawable, is_estimated
from treepurify.decomposition import Decomposition
from treepurify.engines.common.called_function import called_function
from treepurify.errors import InvalidInputError, SavedFileError, UnsupportedModelError
from treepurify.models.families import display_name
from treepurify.models.files import parse_file
from treepurify.origin import Origin
from treepurify.rows.columns import Columns
from treepurify.storage.earlier_facts import with_earlier_facts
from treepurify.storage.encoding import Decoder, Encoder, check_types
from treepurify.storage.files import write_atomically
from treepurify.storage.kinds import announce_kinds
from treepurify.typing import Array

__all__ = ["load", "save_decomposition"]

FORMAT = "treepurify decomposition"
VERSION = 3
# Version 2 had no checksums.
_READABLE = (2, 3)
_DOCUMENT = "decomposition.json"
_CHECKSUMS = "checksums.json"
# Diagnostics with one entry per term.
_OF_TERMS = ("solves", "errors")
_N_PROBES = 2
_MOST_DRAWN = 2
# What zipfile, json, NumPy and constructors raise on bytes in another format; RuntimeError
# covers archives that claim to be encrypted or compressed in an unknown way.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
)

# Arrays: a size that always fits, and how many times its packed size a larger file may take.
_ALWAYS_UNPACKED = 128 << 20
_MOST_TIMES_PACKED = 200
# JSON takes about thirty times its length in memory once it is read.
_TEXT = ".json"
_ALWAYS_READ = 8 << 20
_MOST_TIMES_READ = 12

_MAPPINGS = ("model", "response_of", "measure", "selection", "projection", "fit", "refits")
_LISTS = ("solves", "errors", "shared_mains", "edits")
_FACTS_OF_MODEL = {
    "library": str, "version": str, "kind": str, "sha256": str, "notes": list,
    "trees": int, "terms": int,
}  # fmt: skip


def save_decomposition(d: Decomposition, path: str | Path) -> None:
    """Write `d` to `path`; see `Decomposition.save`.

    Rows are not saved; the covariances that they give, which effects cancel on them, and which
    features are near copies, are. Nor are functions: what calls one needs it again, see `load`.
    Parsed models are saved.

    Raises
    ------
    InvalidInputError
        If a component or the remainder is of a class that is not registered, or the folder
        does not exist.
    """
    target = read_path("path", path)
    announce_kinds()
    encoder = Encoder()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "engine": d.engine,
        "measure": d.measure,
        "output_names": list(d.output_names),
        "intercept": d.intercept.tolist(),
        "inputs": encoder.encode(d.inputs),
        "link": encoder.encode(d.link),
        "call": encoder.encode(d.call),
        "origin": encoder.encode(d.origin),
        "node_errors": encoder.encode(d.node_errors),
        "certificate": None if d.certificate is None else asdict(d.certificate),
        "diagnostics": dict(d.diagnostics),
        "components": encoder.encode(d.components),
        "remainder": encoder.encode(d.remainder),
        "spread": encoder.encode(d.spread),
        "covariances": None
        if d.covariances is None
        else [[list(subset), values.tolist()] for subset, values in d.covariances.items()],
        "cancelling": encoder.encode(d.cancelling),
        "near_copies": encoder.encode(d.near_copies),
        "objects": encoder.objects,
    }
    members = {_DOCUMENT: json.dumps(document, default=_plain).encode()}
    for number, array in enumerate(encoder.arrays):
        entry = io.BytesIO()
        np.save(entry, array, allow_pickle=False)
        members[f"{number}.npy"] = entry.getvalue()
    members[_CHECKSUMS] = json.dumps(
        {name: _checksum(content) for name, content in members.items()}
    ).encode()
    write_atomically(target, _pack(members))


def load(path: str | Path, *, function: Any = None) -> Decomposition:
    """Read a decomposition that `Decomposition.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    function : callable or object with ``predict``, optional
        The function that was decomposed, unless it was a model that treepurify can parse. It is
        needed only to evaluate the remainder of `ale_anova`, `hooker_anova`, `legendre_anova` and
        `categorical_anova`, and any effect that `partial_dependence_anova` computed for a function.
        All other effects can be evaluated and drawn without it.

    Returns
    -------
    Decomposition

    Raises
    ------
    SavedFileError
        If the file is incomplete, was not written by treepurify, or has an unknown version.
    InvalidInputError
        If the file cannot be read, or `function` is not the function that was decomposed.

    See Also
    --------
    Decomposition.save : Write a decomposition to a file.
    Decomposition.verify : Compare with the model on all rows.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     d.save(pathlib.Path(folder) / "and.tpz")
    ...     again = tp.load(pathlib.Path(folder) / "and.tpz")
    >>> bool((again.predict(X) == d.predict(X)).all())
    True
    """
    announce_kinds()
    ask = None if function is None else called_function(function)
    try:
        target = read_path("path", path)
        if target.exists() and not target.is_file():
            raise InvalidInputError(f"{path} is a folder, a device or a pipe; pass a .tpz file")
        content = target.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_sizes(archive, len(content), path)
            d, decoder = _read_archive(archive, path, ask)
    except SavedFileError:
        raise
    except _DAMAGE as error:
        _refuse_model(target, content)
        raise SavedFileError(
            f"{path} is not a complete treepurify decomposition ({type(error).__name__}: {error}); "
            "it may be cut short or written by another program"
        ) from error
    if ask is not None and not decoder.needs_function:
        raise InvalidInputError(f"{path} needs no function: leave `function` out")
    try:
        for check in decoder.checks:
            check()
        _check_whole(d, calls_given_function=ask is not None)
    except InvalidInputError:
        raise
    except _DAMAGE as error:
        if isinstance(error, SavedFileError):
            raise
        raise SavedFileError(
            f"{path} is damaged: its parts are inconsistent ({type(error).__name__}: {error})"
        ) from error
    return d


def _refuse_model(path: Path, content: bytes) -> None:
    """Raise if a file that is no archive is a model, which has to be purified first."""
    if content.startswith(b"PK"):
        return
    try:
        library = parse_file(path).source.library
    except UnsupportedModelError as error:
        raise SavedFileError(f"this is not a saved decomposition. {error}") from error
    except InvalidInputError:
        return
    raise SavedFileError(
        f"{str(path)!r} is a model of {display_name(library)}, not a saved decomposition: run "
        f"purify first (treepurify purify {path} DATA --out results; in Python, "
        f"tp.purify({str(path)!r}, X).save(...)), and pass the .tpz file that it writes"
    )


def _read_array(content: bytes) -> npt.NDArray[Any]:
    """Return an array whose shape is that of the bytes that are there, before any are copied."""
    entry = io.BytesIO(content)
    version = np.lib.format.read_magic(entry)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(entry)
    else:
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(entry)
    if dtype.kind not in "biuf":
        raise SavedFileError(f"the file contains an array of {dtype}: only numbers are read")
    size = prod(shape) * dtype.itemsize
    there = len(content) - entry.tell()
    if size != there or min(shape, default=0) < 0:
        raise SavedFileError(
            f"the file contains {there} bytes for an array of shape {shape}, which takes {size}"
        )
    array = np.frombuffer(content, dtype=dtype, offset=entry.tell())
    return array.reshape(shape, order="F" if is_fortran else "C").copy()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _certificate(saved: dict[str, Any]) -> Certificate:
    # JSON has no tuples.
    fields: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in saved.items()
    }
    return Certificate(**fields)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checked_reader(archive: zipfile.ZipFile, path: str | Path) -> Callable[[str], bytes]:
    """Return what reads a member, having compared it with its checksum where there is one."""
    sums: dict[str, str] = {}
    if _CHECKSUMS in archive.namelist():
        sums = json.loads(archive.read(_CHECKSUMS))

    def read(name: str) -> bytes:
        content = archive.read(name)
        if sums and sums.get(name) != _checksum(content):
            raise SavedFileError(f"{path} is damaged: {name} does not have its checksum")
        return content

    return read


def _read_archive(
    archive: zipfile.ZipFile, path: str | Path, function: Callable[[Any], Any] | None
) -> tuple[Decomposition, Decoder]:
    # Before its checksum: files of a later version may have others.
    document = json.loads(archive.read(_DOCUMENT))
    if document["format"] != FORMAT:
        raise SavedFileError(f"{path} contains {document['format']!r}, not a {FORMAT}")
    if document["version"] not in _READABLE:
        later = document["version"] > VERSION
        raise SavedFileError(
            f"{path} is of format version {document['version']}; this treepurify reads versions "
            f"{' and '.join(map(str, _READABLE))}: "
            f"{'update treepurify' if later else 'decompose the model again'}"
        )
    if document["version"] == VERSION and _CHECKSUMS not in archive.namelist():
        raise SavedFileError(f"{path} is damaged: its checksums are missing")
    read = _checked_reader(archive, path)
    read(_DOCUMENT)

    def array(number: int) -> npt.NDArray[Any]:
        return _read_array(read(f"{number}.npy"))

    decoder = Decoder(document["objects"], array, function)
    intercept = np.array(document["intercept"], dtype=np.float64)
    if not np.all(np.isfinite(intercept)):
        raise SavedFileError(f"{path} is damaged: its intercept is not finite")
    covariances = document["covariances"]
    certificate = document["certificate"]
    d = Decomposition(
        intercept=intercept,
        components=decoder.decode(document["components"]),
        output_names=tuple(document["output_names"]),
        measure=document["measure"],
        engine=document["engine"],
        inputs=decoder.decode(document["inputs"]),
        link=decoder.decode(document["link"]),
        # Earlier files have neither a call nor a spread.
        call=decoder.decode(document.get("call")),
        certificate=certificate and _certificate(certificate),
        remainder=decoder.decode(document["remainder"]),
        diagnostics={
            name: _with_tuples(facts) if name in _OF_TERMS else facts
            for name, facts in document["diagnostics"].items()
        },
        origin=decoder.decode(document.get("origin")) or Origin(),
        node_errors=decoder.decode(document.get("node_errors")) or {},
        stored_covariances=None
        if covariances is None
        else {tuple(subset): np.array(values) for subset, values in covariances},
        # Files of earlier versions do not know which effects cancel, or are near copies.
        stored_cancelling=decoder.decode(document.get("cancelling")),
        stored_near_copies=decoder.decode(document.get("near_copies")),
        spread=decoder.decode(document.get("spread")),
    )
    if not isinstance(document["components"], dict):
        raise SavedFileError(f"{path} contains no effects where they are expected")
    if any(subset != component.features for subset, component in d.components.items()):
        raise SavedFileError(f"{path} stores an effect under the features of another effect")
    if "origin" not in document:
        _check_diagnostics(d)
        d = with_earlier_facts(d)
    return d, decoder


def _with_tuples(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per term, with tuples again where JSON has lists."""
    return [
        {name: tuple(own) if isinstance(own, list) else own for name, own in entry.items()}
        for entry in facts
    ]


def _check_whole(d: Decomposition, *, calls_given_function: bool) -> None:
    """Refuse parts that do not belong together; evaluate every component on made-up rows.

    A function that the caller passed (`calls_given_function`) is never called on such rows.
    """
    _check_fields(d)
    n_outputs = len(d.output_names)
    if n_outputs == 0 or d.intercept.shape != (n_outputs,) or not np.all(np.isfinite(d.intercept)):
        raise SavedFileError(
            f"the file has {n_outputs} outputs, but its intercept is {d.intercept}"
        )
    for subset in d.components:
        if subset != tuple(sorted(set(subset))) or not set(subset) <= set(_features(d)):
            raise SavedFileError(
                f"the file has an effect of features {subset}, which do not exist or are not in "
                "order"
            )
    grouped = [subset for group in d.stored_cancelling or () for subset in group.members]
    if len(set(grouped)) < len(grouped) or not set(grouped) <= set(d.components):
        raise SavedFileError(f"the file has groups of effects that it does not contain: {grouped}")
    copied = [(j,) for each in d.stored_near_copies or () for j in (each.feature, each.other)]
    if not set(copied) <= set(d.components):
        raise SavedFileError(
            f"the file lists near copies of effects that it does not contain: {copied}"
        )
    for what, values in _numbers_of_outputs(d):
        if values.shape != (n_outputs,):
            raise SavedFileError(f"the file has {what} of shape {values.shape}, not {(n_outputs,)}")
    if calls_given_function:
        return
    try:
        shapes = _shapes_of_values(d)
        _draw(d)
    except Exception as error:
        # Compiled code has exceptions of its own for arrays that it was not made for.
        raise SavedFileError(
            f"the file contains effects that cannot be evaluated ({type(error).__name__}: {error})"
        ) from error
    if shapes - {(_N_PROBES, n_outputs)}:
        raise SavedFileError(
            f"the file is damaged: it has values of shapes {shapes} for {n_outputs} outputs"
        )


def _draw(d: Decomposition) -> None:
    """Lay out the cells of figures, and look up the errors in them, as figures do."""
    for component in d.components.values():
        if is_drawable(component) and len(component.features) <= _MOST_DRAWN:
            axes, mass = component.drawing_cells()
            if mass.shape != tuple(axis.n_cells for axis in axes) or not np.all(np.isfinite(mass)):
                raise SavedFileError(
                    f"the cells of the file's rows do not match those of {component!r}"
                )
        if is_estimated(component) and len(component.features) == 1:
            component.errors_at_nodes()


def _check_fields(d: Decomposition) -> None:
    mappings = ("components", "diagnostics", "node_errors")
    plain = {name: dict(getattr(d, name)) for name in mappings}
    check_types("decomposition", Decomposition, vars(d) | plain)
    if d.certificate is not None:
        check_types("certificate", Certificate, vars(d.certificate))


def _check_diagnostics(d: Decomposition) -> None:
    """Refuse diagnostics of other types than `with_earlier_facts` expects."""
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
    if not fits:
        raise SavedFileError("the diagnostics in the file do not have the expected types")


def _is_count(number: Any) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return number is None or (is_number and 0 <= number < np.inf)


def _features(d: Decomposition) -> range:
    return range(len(d.inputs.features))


def _parts(d: Decomposition) -> list[Component]:
    return [*d.components.values(), *([] if d.remainder is None else [d.remainder])]


def _numbers_of_outputs(d: Decomposition) -> Iterator[tuple[str, Any]]:
    for subset, values in (d.stored_covariances or {}).items():
        yield f"a covariance of features {subset}", values
    for subset, known in d.node_errors.items():
        yield f"standard errors of features {subset}", known.errors[0]
    if d.origin.explained:
        yield "an explained share", np.array(d.origin.explained)
    for found in d.origin.concurvity:
        yield f"a variance of features {found.features}", np.array(found.variance)
    for edit in d.origin.edits:
        yield "the difference of an edit", np.array(edit.difference)
    for part in _parts(d):
        # Only what is stored: some variances take long to compute.
        for name in ("variance", "mean_absolute"):
            if vars(part).get(name) is not None:
                yield f"the field {name} of {part!r}", getattr(part, name)


def _shapes_of_values(d: Decomposition) -> set[tuple[int, ...]]:
    # Compiled code reads codes as positions, and the code after the last is known to every table.
    values = tuple(
        np.minimum(np.arange(_N_PROBES, dtype=np.float64), spec.n_codes)
        if spec.is_categorical
        else np.arange(_N_PROBES, dtype=np.float64)
        for spec in d.inputs.features
    )
    rows = Columns(d.inputs.features, values, _N_PROBES)
    try:
        return {_finite(values).shape for values in evaluate_each(_parts(d), rows)}
    except InvalidInputError:
        # Something calls a function that is not in the file; what does not is looked at alone.
        return {shape for part in _parts(d) for shape in _shape_of_values(part, rows)}


def _shape_of_values(part: Component, rows: Columns) -> list[tuple[int, ...]]:
    try:
        return [_finite(part.on_rows(rows)).shape]
    except InvalidInputError:
        return []


def _finite(values: Array) -> Array:
    if not np.all(np.isfinite(values)):
        raise SavedFileError("the file contains values that are not finite")
    return values


def _pack(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members that `_check_sizes` accepts."""
    stored: set[str] = set()
    while True:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
                archive.writestr(name, content, method)
            tight = _packed_too_tightly(archive)
        if not tight:
            return buffer.getvalue()
        # Repeated zeros pack to a thousandth: stored uncompressed, their size can be trusted.
        stored |= tight


def _check_sizes(archive: zipfile.ZipFile, size: int, path: str | Path) -> None:
    """Refuse to unpack what no decomposition packs so tightly.

    Parameters
    ----------
    archive : ZipFile
        The archive.
    size : int
        Bytes that it has.
    path : str or Path
        Its name, for messages.

    Raises
    ------
    SavedFileError
        If a small file claims to hold much.
    """
    names = archive.namelist()
    claimed = sum(entry.compress_size for entry in archive.infolist())
    if len(set(names)) != len(names) or claimed > size:
        raise SavedFileError(f"{path} is damaged: its entries overlap")
    if _packed_too_tightly(archive):
        unpacked = sum(entry.file_size for entry in archive.infolist())
        packed = sum(entry.compress_size for entry in archive.infolist())
        raise SavedFileError(
            f"{path} would take {unpacked / 2**20:.0f} MiB when unpacked from "
            f"{packed / 2**20:.1f} MiB, which no decomposition needs, so it was not read"
        )


def _packed_too_tightly(archive: zipfile.ZipFile) -> set[str]:
    """Return the members whose claimed sizes are not plausible."""
    texts = [entry for entry in archive.infolist() if entry.filename.endswith(_TEXT)]
    numbers = [entry for entry in archive.infolist() if not entry.filename.endswith(_TEXT)]
    return _too_tight(texts, _ALWAYS_READ, _MOST_TIMES_READ) | _too_tight(
        numbers, _ALWAYS_UNPACKED, _MOST_TIMES_PACKED
    )


def _too_tight(entries: list[zipfile.ZipInfo], always: int, most_times: int) -> set[str]:
    unpacked = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if unpacked <= max(always, most_times * packed):
        return set()
    return {e.filename for e in entries if e.file_size > most_times * e.compress_size}
