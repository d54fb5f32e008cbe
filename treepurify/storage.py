"""Save a decomposition to one file and read it back; reading runs no code.

The file is a ZIP archive with ``decomposition.json`` and one ``.npy`` entry an array. The
document names the format and its version and refers to arrays by number. Version 1 holds
table components only.
"""

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.certificate import Certificate
from treepurify.components import Component, ModelInputs, RemainderComponent, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError, SavedFileError, TreepurifyError
from treepurify.features import FeatureSpec
from treepurify.grids.axis import FeatureAxis
from treepurify.links import Link
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parsed import ModelSource
from treepurify.remainder import ModelRemainder

__all__ = ["load", "save_decomposition", "write_atomically"]

FORMAT = "treepurify decomposition"
VERSION = 1
_DOCUMENT = "decomposition.json"
_MODEL_ARRAYS = (
    "tree_ptr",
    "feature",
    "cut",
    "left",
    "right",
    "missing_left",
    "category_ptr",
    "category_left",
    "value",
    "tree_output",
    "base",
)
# What zipfile, json and NumPy raise on bytes that are not theirs; RuntimeError covers archives
# that claim to be encrypted or compressed in an unknown way.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)


def save_decomposition(d: Decomposition, path: str | Path) -> None:
    """Write `d` to `path`; see `Decomposition.save`.

    Rows are not saved; the covariances that they give are.
    """
    arrays = _Arrays()
    components = [_write_component(c, arrays) for c in d.tensor_components().values()]
    if len(components) < len(d.components):
        raise InvalidInputError(f"components of engine {d.engine!r} cannot be saved yet")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "intercept": d.intercept.tolist(),
        "output_names": list(d.output_names),
        "measure": d.measure,
        "engine": d.engine,
        "match_names": d.inputs.match_names,
        "features": [_write_feature(spec) for spec in d.inputs.features],
        "link": asdict(d.link),
        "certificate": None if d.certificate is None else asdict(d.certificate),
        "diagnostics": dict(d.diagnostics),
        "components": components,
        "remainder": _write_remainder(d, arrays),
        "covariances": None
        if d.covariances is None
        else [[list(subset), values.tolist()] for subset, values in d.covariances.items()],
        "axes": arrays.axes,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_DOCUMENT, json.dumps(document, default=_plain))
        for number, array in enumerate(arrays.arrays):
            entry = io.BytesIO()
            np.save(entry, array, allow_pickle=False)
            archive.writestr(f"{number}.npy", entry.getvalue())
    write_atomically(path, buffer.getvalue())


def load(path: str | Path) -> Decomposition:
    """Read a decomposition that `Decomposition.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Decomposition

    Raises
    ------
    SavedFileError
        If the file is cut short, foreign, or of a later version.

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
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read_archive(archive, path)
    except TreepurifyError:
        raise
    except _DAMAGE as error:
        raise SavedFileError(
            f"{path} is not a complete treepurify decomposition ({type(error).__name__}: {error}); "
            "it may be cut short or of another program"
        ) from error


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name beside `path`, then rename it.

    Raises
    ------
    InvalidInputError
        If the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(f"the folder {target.parent} does not exist; create it first")
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        temporary = Path(file.name)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    # Temporary files are private; the result gets the permissions of an ordinary new file.
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    temporary.replace(target)


class _Arrays:
    """Arrays and axes gathered for an archive, each stored once."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self.axes: list[dict[str, Any]] = []
        self._known: dict[int, int] = {}

    def add(self, array: npt.NDArray[Any] | None) -> int | None:
        if array is None:
            return None
        self.arrays.append(np.ascontiguousarray(array))
        return len(self.arrays) - 1

    def add_axis(self, axis: FeatureAxis) -> int:
        if id(axis) not in self._known:
            self._known[id(axis)] = len(self.axes)
            self.axes.append(
                {
                    "name": axis.name,
                    "cuts": self.add(axis.cuts),
                    "categories": [_label(label) for label in axis.categories],
                    "has_other": axis.has_other,
                    "has_missing": axis.has_missing,
                    "bounds": axis.bounds,
                }
            )
        return self._known[id(axis)]


def _label(label: Any) -> Any:
    """Return a category label as a JSON value; what JSON has no form for becomes text."""
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _write_feature(spec: FeatureSpec) -> dict[str, Any]:
    categories = spec.categories and [_label(label) for label in spec.categories]
    return asdict(spec) | {"categories": categories}


def _write_component(component: TensorComponent, arrays: _Arrays) -> dict[str, Any]:
    return {
        "features": list(component.features),
        "axes": [arrays.add_axis(axis) for axis in component.axes],
        "values": arrays.add(component.values),
        "mass": arrays.add(component.mass),
        "raw": arrays.add(component.raw),
    }


def _write_remainder(d: Decomposition, arrays: _Arrays) -> dict[str, Any] | None:
    if d.remainder is None:
        return None
    variance = d.remainder.variance.tolist()
    if isinstance(d.remainder, RemainderComponent):
        parts = [_write_component(part, arrays) for part in d.remainder.parts]
        return {"parts": parts, "variance": variance}
    if not isinstance(d.remainder, ModelRemainder):
        raise InvalidInputError(f"the remainder of engine {d.engine!r} cannot be saved yet")
    model = d.remainder.model
    return {
        "model": {name: arrays.add(getattr(model, name)) for name in _MODEL_ARRAYS},
        "output_names": list(model.output_names),
        "link": asdict(model.link),
        "source": asdict(model.source),
        "accumulation": model.accumulation,
        "variance": variance,
    }


def _read_remainder(
    entry: dict[str, Any] | None,
    kept: Mapping[tuple[int, ...], Component],
    component: Callable[[Mapping[str, Any]], TensorComponent],
    array: Callable[[int | None], Any],
    intercept: npt.NDArray[np.float64],
    inputs: ModelInputs,
) -> RemainderComponent | ModelRemainder | None:
    if entry is None:
        return None
    variance = np.array(entry["variance"], dtype=np.float64)
    if "parts" in entry:
        return RemainderComponent(tuple(component(part) for part in entry["parts"]), variance)
    source = entry["source"]
    model = TreeEnsemble(
        **{name: array(number) for name, number in entry["model"].items()},
        features=inputs.features,
        output_names=tuple(entry["output_names"]),
        link=Link(**entry["link"]),
        source=ModelSource(**{**source, "notes": tuple(source["notes"])}),
        accumulation=entry["accumulation"],
        has_feature_names=inputs.match_names,
    )
    tables = tuple(c for c in kept.values() if isinstance(c, TensorComponent))
    return ModelRemainder(model, intercept, tables, variance)


def _read_archive(archive: zipfile.ZipFile, path: str | Path) -> Decomposition:
    document = json.loads(archive.read(_DOCUMENT))
    if document["format"] != FORMAT:
        raise SavedFileError(f"{path} holds {document['format']!r}, not a {FORMAT}")
    if document["version"] != VERSION:
        raise SavedFileError(
            f"{path} is of format version {document['version']}; this treepurify reads version "
            f"{VERSION}: update treepurify"
        )

    def array(number: int | None) -> Any:
        if number is None:
            return None
        return np.load(io.BytesIO(archive.read(f"{number}.npy")), allow_pickle=False)

    features = tuple(_read_feature(spec) for spec in document["features"])
    inputs = ModelInputs(features, bool(document["match_names"]))
    axes = [
        FeatureAxis(
            **{
                **axis,
                "cuts": array(axis["cuts"]),
                "categories": tuple(axis["categories"]),
                "bounds": axis["bounds"] and tuple(axis["bounds"]),
            }
        )
        for axis in document["axes"]
    ]

    def component(entry: Mapping[str, Any]) -> TensorComponent:
        return _checked_component(
            TensorComponent(
                tuple(entry["features"]),
                tuple(axes[number] for number in entry["axes"]),
                array(entry["values"]),
                array(entry["mass"]),
                inputs,
                array(entry["raw"]),
            ),
            len(document["output_names"]),
        )

    kept: dict[tuple[int, ...], Component] = {
        read.features: read for read in map(component, document["components"])
    }
    covariances = document["covariances"]
    intercept = np.array(document["intercept"], dtype=np.float64)
    certificate = document["certificate"]
    return Decomposition(
        intercept=intercept,
        components=kept,
        output_names=tuple(document["output_names"]),
        measure=document["measure"],
        engine=document["engine"],
        inputs=inputs,
        link=Link(**document["link"]),
        certificate=certificate and Certificate(**certificate),
        remainder=_read_remainder(document["remainder"], kept, component, array, intercept, inputs),
        diagnostics=document["diagnostics"],
        stored_covariances=None
        if covariances is None
        else {tuple(subset): np.array(values) for subset, values in covariances},
    )


def _read_feature(entry: dict[str, Any]) -> FeatureSpec:
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return FeatureSpec(**(entry | lists))


def _checked_component(component: TensorComponent, n_outputs: int) -> TensorComponent:
    shape = tuple(axis.n_cells for axis in component.axes)
    if component.values.shape != (*shape, n_outputs) or component.mass.shape != shape:
        raise SavedFileError(
            f"the table of features {component.features} has shape {component.values.shape}, its "
            f"axes say {(*shape, n_outputs)}"
        )
    return component
