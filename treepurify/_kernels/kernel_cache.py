"""Where compiled kernels are stored, and when a stored one is valid.

Numba's own cache stamps a kernel by the file that it stands in. But functions of other files are
compiled into it: after an upgrade that changes only those, the old machine code would run
(https://github.com/numba/numba/issues/1833). Here the stamp is a hash of every file of this
folder, of Numba and of Python. Each kernel and signature has a file of its own, which is written
whole or not at all, so that processes that compile at the same time cannot mix up theirs; and
where nothing can be written, kernels are compiled again in each process.

The folders, in this order: that of this package; the user's cache; a temporary one. With
``NUMBA_CACHE_DIR``, only that one. Stored kernels are machine code, which whoever can write to the
folder can replace. So a folder outside the package must be a real one (no symbolic link), belong
to this user or to root, and be writable by its owner only; else it is not used.
"""

import hashlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

_PACKAGE_FOLDER = Path(__file__).parent / "__pycache__"
_DIGEST_BYTES = 32


class KernelCache(NullCache):
    """The stored versions of one kernel, as a dispatcher of Numba requests them."""

    def __init__(self, function: Any) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    @property
    def cache_path(self) -> str | None:
        """The first folder in which kernels are looked for."""
        return next((str(root / _stamped_name()) for root in _roots()), None)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, or None where none is stored."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for root in _roots():
            if _can_be_trusted(root):
                stored = _read(root / _stamped_name() / self._file_name(key))
                if stored is not None:
                    return CompileResult._rebuild(target_context, *pickle.loads(stored))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled kernel in the first folder that takes it."""
        if data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            return
        name = self._file_name(self._key(sig, data.codegen))
        content = dumps(data._reduce())
        failures = []
        for root in _roots():
            try:
                _make_root(root)
                _write(root, name, content)
                return
            except OSError as error:
                failures.append(f"{root}: {error.strerror or error}")
        _warn_that_none_is_stored("; ".join(failures))

    def _key(self, sig: Any, codegen: Any) -> str:
        return f"{self._name} {sig} {codegen.magic_tuple()}"

    def _file_name(self, key: str) -> str:
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.nbc"


def _roots() -> Iterator[Path]:
    """Yield the folders below which kernels may be stored, whether or not they exist."""
    if not _stamped_name():
        return
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named).absolute() / "treepurify"
        return
    yield _PACKAGE_FOLDER
    user_folder = Path(AppDirs("treepurify", appauthor=False).user_cache_dir)
    if user_folder.is_absolute():  # else the user has no home
        yield user_folder
    with suppress(OSError):  # no temporary folder either
        yield Path(tempfile.gettempdir()).absolute() / f"treepurify-{_user()}"


@cache
def _stamped_name() -> str:
    """Return the name of the folder for kernels of these sources, compiled by these versions.

    Empty where the sources cannot be read, as in an executable that was frozen without them.
    """
    sources = [file for file in files(__package__).iterdir() if file.name.endswith(".py")]
    if not sources:
        return ""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for source in sorted(sources, key=lambda file: file.name):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)} ".encode() + content)
    return f"{_versions()}-{digest.hexdigest()[:16]}"


def _versions() -> str:
    return f"kernels-{sys.implementation.cache_tag}-numba-{numba.__version__}"


def _user() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else "user"


def _can_be_trusted(root: Path) -> bool:
    """Whether only this user or root can have put a file into an existing folder."""
    if root == _PACKAGE_FOLDER or not hasattr(os, "geteuid"):
        return True  # as trusted as the package; Windows gives each user folders of their own
    try:
        found = root.lstat()
    except OSError:
        return False
    is_written_by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_ours = found.st_uid in (os.geteuid(), 0)
    return stat.S_ISDIR(found.st_mode) and is_ours and not is_written_by_others


def _make_root(root: Path) -> None:
    """Make a folder that only this user can write to.

    Raises
    ------
    OSError
        If it cannot be made, or if others could have put files into one that exists.
    """
    if root == _PACKAGE_FOLDER:
        root.mkdir(exist_ok=True)
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=0o700, exist_ok=True)
    if not _can_be_trusted(root):
        raise PermissionError("it is a link, belongs to another user, or others can write to it")


def _read(path: Path) -> bytes | None:
    """Return what `_write` was given; None where there is no such file, or it is damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def _write(root: Path, name: str, content: bytes) -> None:
    """Write a file whole, or leave what was there."""
    folder = root / _stamped_name()
    if not folder.is_dir():
        folder.mkdir(mode=0o777 if root == _PACKAGE_FOLDER else 0o700, exist_ok=True)
        _remove_outdated(root)
    handle, unfinished = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        if root == _PACKAGE_FOLDER:  # whoever may run the package may run its kernels
            Path(unfinished).chmod(stat.S_IMODE(folder.stat().st_mode) & 0o666)
        Path(unfinished).replace(folder / name)
    except BaseException:
        with suppress(OSError):
            Path(unfinished).unlink()
        raise


def _remove_outdated(root: Path) -> None:
    """Remove what other sources of this installation left; other folders serve several."""
    if root == _PACKAGE_FOLDER:
        for folder in root.glob(f"{_versions()}-*"):
            if folder.name != _stamped_name():
                shutil.rmtree(folder, ignore_errors=True)


@cache
def _warn_that_none_is_stored(failures: str) -> None:
    warnings.warn(
        "compiled code cannot be stored, so each process compiles it again, for 3 to 30 seconds "
        f"({failures or 'no folder'}). Set NUMBA_CACHE_DIR to a folder that you can write to.",
        RuntimeWarning,
        stacklevel=2,
    )
