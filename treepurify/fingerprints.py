"""Fingerprints: a hash of a model as it was read, of rows as cells, or of a file."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["array_fingerprint", "file_fingerprint"]


def array_fingerprint(arrays: Iterable[npt.NDArray[Any] | None]) -> str:
    """Return the SHA-256 of arrays with their types and shapes, as hexadecimal digits.

    Parameters
    ----------
    arrays : iterable of ndarray or None
        The arrays; their order counts, and so does where one is absent.

    Examples
    --------
    >>> import numpy as np
    >>> array_fingerprint([np.arange(3.0)])[:8]
    'a98b1ccc'
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none;")
            continue
        own = np.ascontiguousarray(array)
        # The bytes are those of a machine that stores the lowest byte first.
        own = own.astype(own.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{own.dtype.str} {own.shape};".encode())
        digest.update(own.data.cast("B") if own.size else b"")
    return digest.hexdigest()


def file_fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
