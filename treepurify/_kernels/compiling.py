"""How kernels are compiled, said once: it decides how long the first call of an installation takes.

`kernel` is for what other packages call, `part` for what only kernels call. A part has no entry for
the interpreter, where a call would crash, and no file of its own in the cache: each kernel that
calls it keeps it in its own. `inlined` is a part that is called in one place, and is compiled there
with its caller only, in a third to a half of the time less; elsewhere the caller would grow.
Nothing here has the entry for C that Numba makes by default.

What takes long to compile: allocations, array expressions, reductions, slices that are assigned
to, and ``min`` and ``max``, each of which is compiled as a function of its own; comparisons are
not. A function that is given a literal, or a number of another width, is compiled once more.
On one machine, in milliseconds: a kernel 40, a part 20, a loop 15, a slice 9, an array among the
arguments 4, an assignment under a condition 4, an entry read or written 1.5.
"""

import gc
import os
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Any

from llvmlite.binding import ffi
from numba import njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from treepurify._kernels.kernel_cache import KernelCache

_compile: Any = partial(njit, nogil=True, no_cfunc_wrapper=True)
part: Any = partial(_compile, no_cpython_wrapper=True)
inlined: Any = partial(part, inline="always")


def kernel(
    function: Any = None, *, fastmath: bool | set[str] = False, error_model: str = "python"
) -> Any:
    """Compile a function when it is first called, and store it in the `KernelCache`."""
    if function is None:
        return partial(kernel, fastmath=fastmath, error_model=error_model)
    compiled: Any = _compile(function, fastmath=fastmath, error_model=error_model)
    compiled._cache = KernelCache(function)
    return compiled


class _GarbageLater(event.Listener):
    """Collect no garbage while Numba compiles or loads.

    It makes millions of objects that live on. Looking through them again and again took an eighth
    of the time to compile, and half of that to load. Functions of other packages gain as well:
    what comes first loads all that Numba knows of types, and does not say for whom.
    """

    def __init__(self) -> None:
        self._was_on = False

    def on_start(self, event: Any) -> None:
        if gc.isenabled():
            gc.disable()
            self._was_on = True

    def on_end(self, event: Any) -> None:
        # Within a compilation there are others. No start need have come before, and no end may
        # come after one, where another listener raised an error.
        if self._was_on and not global_compiler_lock.is_locked():
            self._was_on = False
            gc.enable()


event.register("numba:compiler_lock", _GarbageLater())

# LLVM's own, which is also held while what was compiled is taken away.
_llvm_lock: Any = getattr(ffi.lib, "_lock", None) or nullcontext()


def _hold_compilers() -> None:
    # The first call of a kernel imports this before it takes the lock, in whatever thread: here the
    # import waits until that thread has it.
    import_module("numpy.ma")
    global_compiler_lock.acquire()
    _llvm_lock.__enter__()


def _release_compilers() -> None:
    _llvm_lock.__exit__(None, None, None)
    global_compiler_lock.release()


# A process that is forked while another thread holds one of these locks, or imports what the first
# call needs, would wait for that thread for ever: it has a copy of the lock, and not of the thread.
# So forking waits.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_compilers,
        after_in_parent=_release_compilers,
        after_in_child=_release_compilers,
    )
