"""Take saved decompositions apart and put them together again, changed but with valid checksums."""

import hashlib
import json
import zipfile
from pathlib import Path

DOCUMENT = "decomposition.json"
CHECKSUMS = "checksums.json"


def entries_of(path: Path) -> dict[str, bytes]:
    """Return the entries of a saved file by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(entries: dict[str, bytes], path: Path) -> Path:
    """Write entries as a saved file whose checksums are right."""
    return zipped({**entries, CHECKSUMS: checksums(entries)}, path)


def checksums(entries: dict[str, bytes]) -> bytes:
    """Return the entry that holds the right checksums of all others."""
    sums = {
        name: hashlib.sha256(content).hexdigest()
        for name, content in entries.items()
        if name != CHECKSUMS
    }
    return json.dumps(sums).encode()


def zipped(entries: dict[str, bytes], path: Path) -> Path:
    """Write entries as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def changed(path: Path, change) -> None:
    """Rewrite the document of a saved file."""
    entries = entries_of(path)
    document = json.loads(entries[DOCUMENT])
    change(document)
    rewritten({**entries, DOCUMENT: json.dumps(document).encode()}, path)
