"""Pack members into a ZIP archive, none so tightly that a small file unpacks to a huge one."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from treepurify.errors import SavedFileError

__all__ = ["check_sizes", "pack"]

# Arrays: a size that always fits, and how many times its packed size a larger file may take.
_ALWAYS_UNPACKED = 128 << 20
_MOST_TIMES_PACKED = 200
# JSON takes about thirty times its length in memory once it is read.
_TEXT = ".json"
_ALWAYS_READ = 8 << 20
_MOST_TIMES_READ = 12


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of members that `check_sizes` accepts."""
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


def check_sizes(archive: zipfile.ZipFile, size: int, path: str | Path) -> None:
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
            f"{packed / 2**20:.1f} MiB: no decomposition does, so it is not read"
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
