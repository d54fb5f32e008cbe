"""Let a library read a model file in a process of its own, of limited memory and time.

Some libraries crash on damaged files, or allocate what a file claims to need, and would take the
caller's process with them.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from treepurify.errors import InvalidInputError, TreepurifyError, UnsupportedModelError

_REFUSED, _UNSUPPORTED = 3, 4
# What the child may take beyond its imports, for each MiB of file and rows, and at least once.
_SECONDS = 2.0
_BYTES = 50 << 20
# CatBoost reserves 1.2 GB of addresses for the smallest model, and uses little of them.
_RESERVED_BYTES = 2 << 30
# Time on the clock, on a machine that does other things too, until a child is taken for stuck.
_PATIENCE = 60.0
_START = "from treepurify.models.library_child import main; main()"


class FileRefusedError(InvalidInputError):
    """A library refuses a model file, crashes on it, or takes too long."""


def call_in_child(function: Callable[..., None], library: str, path: Path, *values: Any) -> None:
    """Call ``function(path, *values)`` in a process of its own.

    Parameters
    ----------
    function : callable
        A function of a module of treepurify; it writes its result to a file.
    library : str
        Name of the library that it uses, which is imported before limits are set.
    path : Path
        The model file.
    *values : object
        Further arguments, such as where to write, and rows.

    Raises
    ------
    FileRefusedError
        If the library refuses the file, crashes on it, or takes too much memory or time.
    UnsupportedModelError
        If the function raises it.
    """
    request = _as_bytes((function.__module__, function.__name__, library, path.resolve(), values))
    n_mebibytes = _mebibytes(path, request)
    # What is importable here is importable there, and nothing else; one thread, since the stacks
    # of many would count as memory.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", _START],
            input=request,
            capture_output=True,
            env=environment,
            check=False,
            timeout=_PATIENCE + 10 * _SECONDS * n_mebibytes,
        )
    except subprocess.TimeoutExpired as error:
        raise FileRefusedError(
            f"{library} did not finish reading {str(path)!r}; the file may be damaged"
        ) from error
    said = ended.stderr.decode(errors="replace").strip()
    if ended.returncode == _UNSUPPORTED:
        raise UnsupportedModelError(said)
    if ended.returncode == _REFUSED:
        raise FileRefusedError(f"{library} cannot use {str(path)!r}: {said}")
    if ended.returncode != 0:
        raise FileRefusedError(
            f"{library} crashes on {str(path)!r}, or takes too much memory or time (status "
            f"{ended.returncode}); the file may be damaged"
        )


def main() -> None:
    """Do in the child what `call_in_child` asks on the standard input."""
    request = sys.stdin.buffer.read()
    try:
        module, name, library, path, values = pickle.loads(request)
        function = getattr(import_module(module), name)
        import_module(library)
        _limit(_mebibytes(path, request))
        function(path, *values)
    except UnsupportedModelError as error:
        _end(_UNSUPPORTED, str(error))
    except TreepurifyError as error:
        _end(_REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - the parent says it in an error of ours
        _end(_REFUSED, f"{type(error).__name__}: {error}")


def _end(status: int, words: str) -> None:
    sys.stderr.write(words)
    sys.exit(status)


def _as_bytes(request: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps(request)
    except Exception as error:
        raise InvalidInputError(
            "the rows cannot be handed to the process that calls the library: "
            f"{type(error).__name__}: {error}"
        ) from error


def _mebibytes(path: Path, request: bytes) -> float:
    """Return the size of a file and what is asked of it, and at least one."""
    return max(1.0, (path.stat().st_size + len(request)) / 2**20)


def _limit(n_mebibytes: float) -> None:
    """Bound memory and processor time beyond what is taken already, where the system can."""
    try:
        import resource
    except ImportError:
        return
    # Not every system allows it, and not beyond limits that are set already.
    with contextlib.suppress(OSError, ValueError):
        seconds = time.process_time() + _SECONDS * n_mebibytes
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, hard))
    with contextlib.suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = used + _RESERVED_BYTES + int(n_mebibytes * _BYTES)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
