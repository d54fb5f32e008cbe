"""Write whole files or none."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

from treepurify.arguments import read_path
from treepurify.errors import InvalidInputError


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name next to `path`, then rename it; see `replace_file`."""
    replace_file(path, lambda temporary: temporary.write_bytes(content))


def replace_file(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let a function write a file under a temporary name next to `path`, then rename it.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced where it exists.
    write : callable
        Writes the file whose name it gets, which exists and is empty.

    Raises
    ------
    InvalidInputError
        If the folder of the file does not exist, or `path` is itself a folder.
    """
    target = read_path("path", path)
    if not target.parent.is_dir():
        raise InvalidInputError(f"the folder {target.parent} does not exist; create it first")
    if target.is_dir():
        raise InvalidInputError(
            f"expected the name of a file, got {target}, which is a folder; "
            "add the name of a file to it, or choose another one"
        )
    if target.exists() and not target.is_file():
        raise InvalidInputError(
            f"expected the name of a file, got {target}, which is a device or a pipe"
        )
    try:
        descriptor, name = mkstemp(dir=target.parent, prefix=f".{target.name[:32]}.")
    except OSError as error:
        raise InvalidInputError(f"{target} cannot be written: {error.strerror}") from error
    os.close(descriptor)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        # Temporary files are private; the result gets the permissions of an ordinary new file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
