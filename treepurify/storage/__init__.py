"""Save a decomposition to one file and read it back; reading runs no code of the file."""

from treepurify.storage.archive import load, save_decomposition
from treepurify.storage.files import write_atomically

__all__ = ["load", "save_decomposition", "write_atomically"]
