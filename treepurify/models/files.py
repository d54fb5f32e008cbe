"""Recognise a model file by its content and parse it."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treepurify.arguments import read_path
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.models.json_text import read_json

if TYPE_CHECKING:
    from treepurify.models.parse import Model

__all__ = ["parse_file"]

_PICKLES = {".pkl", ".pickle", ".joblib"}
# Where a pickle of protocol 2 or newer begins; older ones are recognised by their extension.
_PICKLE_START = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_UBJSON_AFTER_BRACE = b"iUIlL#$"
_KNOWN = (
    "Known are XGBoost .json and .ubj, LightGBM .txt, CatBoost .json and .cbm, and the .json of an "
    "explainable boosting machine (EBM)."
)


def parse_file(path: Path) -> "Model":
    """Parse a model file.

    The content decides what the file is; the extension is used only in messages.

    Parameters
    ----------
    path : Path
        An XGBoost ``.json`` or ``.ubj`` file (by any extension), a LightGBM text file, a
        CatBoost ``.json`` or ``.cbm`` file, or the ``.json`` file of an interpret EBM.

    Returns
    -------
    TreeEnsemble or AdditiveTables

    Raises
    ------
    InvalidInputError
        If the file does not exist, is damaged, or is no model file; names the path.
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
            "If you trust it, load it yourself (pickle.load or joblib.load) and pass the model."
        )
    try:
        return _parse_content(path, data)
    except InvalidInputError as error:
        raise InvalidInputError(f"{str(path)!r}: {error}") from error
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{str(path)!r}: {error}") from error


def _parse_content(path: Path, data: bytes) -> "Model":
    if not data.strip():
        raise InvalidInputError(f"the file is empty. {_KNOWN}")
    if data.startswith(b"CBM1"):
        return _parser("catboost", "parse_cbm")(path)
    if data[:1] == b"{" and data[1:2] in {bytes([c]) for c in _UBJSON_AFTER_BRACE}:
        return _parser("xgboost", "parse_bytes")(data)
    text = _decode(data, path)
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    # LightGBM writes "tree" on the first line, before "version=".
    if text.split(maxsplit=1)[0] == "tree":
        return _parser("lightgbm", "parse_text")(text)
    raise InvalidInputError(f"not a model file of a known format. {_KNOWN}")


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if data.startswith((b"binf", b"bs64")) or path.suffix.lower() in {".model", ".bin"}:
        raise InvalidInputError(
            "this looks like XGBoost's old binary format, which only XGBoost before 3.1 reads. "
            "Load it there and save it again as .ubj or .json: booster.save_model('model.ubj')"
        )
    raise InvalidInputError(f"not a model file of a known format. {_KNOWN}")


def _parse_json(text: str) -> "Model":
    document = read_json(text)
    if "learner" in document:
        return _parser("xgboost", "parse_document")(document)
    if "ebm" in document:
        return _parser("ebm", "parse_document")(document)
    if "oblivious_trees" in document or {"trees", "features_info"} <= document.keys():
        return _parser("catboost", "parse_document")(document)
    found = ", ".join(repr(key) for key in list(document)[:5]) or "no keys"
    raise InvalidInputError(f"JSON, but not of a known model (found {found}). {_KNOWN}")


def _parser(module: str, name: str) -> Callable[[Any], "Model"]:
    parser: Callable[[Any], Model] = getattr(import_module(f"treepurify.models.{module}"), name)
    return parser
