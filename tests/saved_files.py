"""Take saved decompositions apart and put them together again, changed."""

import json
import zipfile
from pathlib import Path

DOCUMENT = "decomposition.json"


def entries_of(path: Path) -> dict[str, bytes]:
    """Return the entries of a saved file by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(entries: dict[str, bytes], path: Path) -> Path:
    """Write entries as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def whole(document: dict) -> dict:
    """Return the fields of the decomposition itself."""
    return document["objects"][document["decomposition"]["object"]]["fields"]


def changed(path: Path, change) -> None:
    """Rewrite the document of a saved file."""
    entries = entries_of(path)
    document = json.loads(entries[DOCUMENT])
    change(document)
    zipped({**entries, DOCUMENT: json.dumps(document).encode()}, path)
