"""Recognise a model file by its content and parse it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from treepurify.arguments import read_path
from treepurify.errors import InvalidInputError, TreepurifyError, UnsupportedModelError
from treepurify.models.additive_tables import AdditiveTables
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.families import file_parsers, known_files
from treepurify.models.json_text import read_json

_PICKLES = {".pkl", ".pickle", ".joblib"}
# The version of Treelite that wrote a checkpoint.
_TREELITE_START = (b"\x04\x00\x00\x00", b"\x05\x00\x00\x00")
_DUMP_START = 1000
LIGHTGBM_DUMP = (
    "this is what LightGBM's dump_model() returns, for people to read. Save the model instead: "
    'booster.save_model("model.txt"), or pass the trained model itself'
)
"""What to do with such a dump, as a file or in memory."""
# Where a pickle of protocol 2 or newer begins; older ones are recognised by their extension.
_PICKLE_START = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


@dataclass(frozen=True)
class ModelFile:
    """The content of a model file, decoded as far as the parsers ask for it.

    Parameters
    ----------
    path : Path
        The file.
    data : bytes
        Its content.
    """

    path: Path
    data: bytes

    @cached_property
    def text(self) -> str | None:
        """The content as text; None where it is not UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The content as a JSON object; empty where it does not begin like one."""
        if self.text is None or not self.text.lstrip().startswith("{"):
            return {}
        document: dict[str, Any] = read_json(self.text)
        return document


def parse_file(path: Path) -> TreeEnsemble | AdditiveTables:
    """Parse a model file.

    The content decides what the file is; the extension is used only in messages.

    Parameters
    ----------
    path : Path
        A file of one of the `FAMILIES`, by any extension.

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    InvalidInputError
        If the file does not exist, is damaged, or is not a model file; names the path.
    UnsupportedModelError
        If the model in it cannot be decomposed exactly, or has to be unpickled.
    """
    path = read_path("the model file", path)
    if not path.exists():
        raise InvalidInputError(f"the model file {str(path)!r} does not exist")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise InvalidInputError(f"{str(path)!r} is {what}, not a model file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"the model file {str(path)!r} cannot be read: {error}") from error
    if path.suffix.lower() in _PICKLES or data.startswith(_PICKLE_START):
        raise UnsupportedModelError(
            f"{str(path)!r} is a pickle, and unpickling runs whatever code the file contains. "
            "If you trust it, load it yourself (pickle.load or joblib.load) and pass the model: in "
            'Python tp.purify(model, X).save("effects.tpz"), then on the command line '
            "treepurify report effects.tpz."
        )
    try:
        return _parse_content(ModelFile(path, data))
    except TreepurifyError as error:
        raise type(error)(f"{str(path)!r}: {error}") from error


def _parse_content(file: ModelFile) -> TreeEnsemble | AdditiveTables:
    if not file.data.strip():
        raise InvalidInputError(f"the file is empty. Supported: {known_files()}.")
    for parse in file_parsers():
        model: TreeEnsemble | AdditiveTables | None = parse(file)
        if model is not None:
            return model
    if dump := _dump_advice(file.text or ""):
        raise InvalidInputError(dump)
    if file.document or (file.text or "").lstrip().startswith("{"):
        keys = ", ".join(repr(key) for key in list(file.document)[:5]) or "no keys"
        raise InvalidInputError(
            f"JSON, but not of a supported model (found {keys}). Supported: {known_files()}."
        )
    if file.data.startswith(_TREELITE_START):
        raise InvalidInputError(
            "this looks like a checkpoint of Treelite. Load it and pass the model: "
            f"tp.purify(treelite.Model.deserialize({str(file.path)!r}), X)"
        )
    # A guess, so only where no parser knows the file.
    is_old = file.data.startswith((b"binf", b"bs64"))
    if file.text is None and (is_old or file.path.suffix.lower() in {".model", ".bin"}):
        raise InvalidInputError(
            "this looks like XGBoost's old binary format, which only XGBoost before 3.1 reads. "
            "Load it there and save it again as .ubj or .json: booster.save_model('model.ubj')"
        )
    if file.path.suffix.lower() == ".tpz":
        raise InvalidInputError(
            "this is a saved decomposition, not a model. The commands report, compare and export "
            "read it, and tp.load in Python; all others need the model itself"
        )
    raise InvalidInputError(f"not a model file of a supported format. Supported: {known_files()}.")


def _dump_advice(text: str) -> str:
    """Return what to do with a dump of the trees, which lacks parts of the model; else nothing."""
    start = text[:_DUMP_START].lstrip()
    if start.startswith("{") and '"tree_info"' in text and '"max_feature_idx"' in text:
        return LIGHTGBM_DUMP
    if start.startswith("booster[0]") or (start.startswith("[") and '"nodeid"' in start):
        return (
            "this is what XGBoost's dump_model() writes for people to read, without the objective "
            'and the base score. Save the model instead: booster.save_model("model.ubj")'
        )
    return ""
