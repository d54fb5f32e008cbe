"""Save a decomposition to one file and read it back; reading runs no code of the file.

The file is a ZIP archive with ``decomposition.json`` and one ``.npy`` entry for each array. The
document names the format and its version; its objects are of the classes that are registered with
`treepurify.saving.savable`.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import read_path
from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.engines.common.functions import called_function
from treepurify.errors import InvalidInputError, SavedFileError, UnsupportedModelError
from treepurify.models.families import display_name
from treepurify.models.files import parse_file
from treepurify.rows.columns import Columns
from treepurify.storage.encoding import Decoder, Encoder
from treepurify.storage.files import write_atomically
from treepurify.storage.kinds import announce_kinds
from treepurify.typing import Array

FORMAT = "treepurify decomposition"
VERSION = 4
_DOCUMENT = "decomposition.json"
_N_PROBES = 2
# How many times its packed size an array may take, and the bytes that an entry takes besides.
_MOST_TIMES_PACKED = 200
_HEADERS = 128
# JSON takes about thirty times its length in memory once it is read.
_ALWAYS_READ = 8 << 20
_MOST_TIMES_READ = 12


def save_decomposition(d: Decomposition, path: str | Path) -> None:
    """Write `d` to `path`; see `Decomposition.save`.

    Rows are not saved; the covariances that they give, and which effects are collinear, are. Nor
    are functions: what calls one needs it again, see `load`. Parsed models are saved.

    Raises
    ------
    InvalidInputError
        If a component or the remainder is of a class that is not registered, or the folder
        does not exist.
    """
    target = read_path("path", path)
    announce_kinds()
    encoder = Encoder()
    whole = encoder.encode(
        replace(
            d,
            stored_covariances=d.covariances,
            stored_collinear=d.collinear,
        )
    )
    document = {
        "format": FORMAT, "version": VERSION, "decomposition": whole, "objects": encoder.objects,
    }  # fmt: skip
    members = {_DOCUMENT: json.dumps(document).encode()}
    for number, array in enumerate(encoder.arrays):
        entry = io.BytesIO()
        np.save(entry, array, allow_pickle=False)
        members[f"{number}.npy"] = entry.getvalue()
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
        If the file is incomplete, was not written by treepurify, or has another version.
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
            _check_sizes(archive, len(content))
            document = json.loads(archive.read(_DOCUMENT))
            _check_format(document)
            decoder = Decoder(
                document["objects"], lambda k: _read_array(archive.read(f"{k}.npy")), ask
            )
            d: Decomposition = decoder.decode(document["decomposition"])
        # A function that the caller passed is never called on made-up rows.
        _check_whole(d, evaluates=ask is None)
    except SavedFileError as error:
        raise SavedFileError(f"{path}: {error}") from error
    # Whatever zipfile, json, NumPy, constructors and compiled code raise on what does not fit.
    except Exception as error:
        _refuse_model(target, content)
        raise SavedFileError(
            f"{path} is not a complete treepurify decomposition ({type(error).__name__}: {error}); "
            "it may be cut short or written by another program"
        ) from error
    if ask is not None and not decoder.callers:
        raise InvalidInputError(f"{path} needs no function: leave `function` out")
    for check in decoder.callers:
        check()
    return d


def _check_format(document: Any) -> None:
    if document["format"] != FORMAT:
        raise SavedFileError(f"the file contains {document['format']!r}, not a {FORMAT}")
    version = document["version"]
    if version != VERSION:
        advice = "update treepurify" if version > VERSION else "decompose the model again"
        raise SavedFileError(
            f"the file is of format version {version}, and this treepurify reads version "
            f"{VERSION}: {advice}"
        )


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


def _check_whole(d: Any, *, evaluates: bool) -> None:
    """Refuse parts that do not belong together; evaluate every component on made-up rows."""
    if not isinstance(d, Decomposition):
        raise SavedFileError("the file contains no decomposition where one is expected")
    n_outputs, n_features = len(d.output_names), len(d.inputs.features)
    if n_outputs == 0 or d.intercept.shape != (n_outputs,) or not np.all(np.isfinite(d.intercept)):
        raise SavedFileError(
            f"the file has {n_outputs} outputs, but its intercept is {d.intercept}"
        )
    for subset, component in d.components.items():
        in_order = list(subset) == sorted(set(subset) & set(range(n_features)))
        if not in_order or subset != component.features:
            raise SavedFileError(
                f"the file has an effect of features {subset}, which do not exist, are not in "
                "order, or are those of another effect"
            )
    if not evaluates:
        return
    for values in _values_on_probes(d):
        if values.shape != (_N_PROBES, n_outputs) or not np.all(np.isfinite(values)):
            raise SavedFileError(
                f"the file has values that are not finite, or not of {n_outputs} outputs"
            )


def _values_on_probes(d: Decomposition) -> Iterator[Array]:
    """Yield the values of all parts on made-up rows, but for those that call a function."""
    # Compiled code reads codes as positions, and the code after the last is known to every table.
    numbers = np.arange(_N_PROBES, dtype=np.float64)
    values = tuple(
        np.minimum(numbers, spec.n_codes) if spec.is_categorical else numbers
        for spec in d.inputs.features
    )
    rows = Columns(d.inputs.features, values, _N_PROBES)
    parts = [*d.components.values(), *([] if d.remainder is None else [d.remainder])]
    try:
        yield from [*evaluate_each(parts, rows)]
    except InvalidInputError:
        for part in parts:
            try:
                yield part.on_rows(rows)
            except InvalidInputError:
                continue


def _pack(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members that `_check_sizes` accepts."""
    # Repeated zeros pack to a thousandth: stored uncompressed, their size can be trusted.
    stored: set[str] = set()
    while True:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
                archive.writestr(name, content, method)
            tight = {each.filename for each in archive.infolist() if _is_too_tight(each)}
        if not tight:
            return buffer.getvalue()
        stored |= tight


def _check_sizes(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse to unpack a small file that claims to hold much, which no decomposition does."""
    names, entries = archive.namelist(), archive.infolist()
    if len(set(names)) < len(names) or sum(each.compress_size for each in entries) > size:
        raise SavedFileError("the file is damaged: its entries overlap")
    for each in filter(_is_too_tight, entries):
        raise SavedFileError(
            f"{each.filename} would take {each.file_size / 2**20:.0f} MiB when unpacked from "
            f"{each.compress_size / 2**20:.1f} MiB, which no decomposition needs, so it was not "
            "read"
        )


def _is_too_tight(entry: zipfile.ZipInfo) -> bool:
    if entry.filename == _DOCUMENT:
        return entry.file_size > max(_ALWAYS_READ, _MOST_TIMES_READ * entry.compress_size)
    return entry.file_size > _MOST_TIMES_PACKED * (entry.compress_size + _HEADERS)
