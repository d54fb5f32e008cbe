"""How kernels are compiled, said once: it decides how long the first call of an installation takes.

`kernel` is for what other rooms call, `part` for what only kernels call. A part has no entry for
the interpreter, where a call would crash, and no file of its own in the cache: each kernel that
calls it keeps it in its own. Nothing here has the entry for C that Numba makes by default.

What takes long to compile: allocations, array expressions, reductions, slices that are assigned
to, and ``min`` and ``max``, each of which is compiled as a function of its own; comparisons are
not. A function that is given a literal, or a number of another width, is compiled once more.
"""

import gc
from functools import partial
from typing import Any

from numba import njit
from numba.core import event

kernel: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
part: Any = partial(njit, nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)


class _GarbageLater(event.Listener):
    """Collect no garbage while a kernel of ours is compiled.

    Numba makes millions of objects that live until a kernel is done. Looking through them again
    and again took an eighth of the time. Numba compiles in one thread at a time, and what a kernel
    calls within it.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._was_on = False

    def on_start(self, event: Any) -> None:
        if _is_own(event):
            if not self._depth:
                self._was_on = gc.isenabled()
                gc.disable()
            self._depth += 1

    def on_end(self, event: Any) -> None:
        # Where another listener raised an error, an end comes without a start.
        if _is_own(event) and self._depth:
            self._depth -= 1
            if not self._depth and self._was_on:
                gc.enable()


def _is_own(event: Any) -> bool:
    # Functions of other packages come by here too, some of them of no module.
    function = getattr(event.data["dispatcher"], "py_func", None)
    return str(getattr(function, "__module__", None)).startswith("treepurify.")


event.register("numba:compile", _GarbageLater())
