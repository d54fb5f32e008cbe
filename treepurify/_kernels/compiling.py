"""How kernels are compiled, said once: it decides how long the first call of an installation takes.

`kernel` is for what other rooms call, `part` for what only kernels call. A part has no entry for
the interpreter, where a call would crash, and no file of its own in the cache: each kernel that
calls it keeps it in its own. Nothing here has the entry for C that Numba makes by default.
"""

from functools import partial
from typing import Any

from numba import njit

kernel: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
part: Any = partial(njit, nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
