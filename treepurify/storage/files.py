"""Write whole files or none."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from treepurify.errors import InvalidInputError

__all__ = ["write_atomically"]


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
