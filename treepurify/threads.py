"""Run independent pieces of work on a few threads."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from treepurify.typing import Array

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Other = TypeVar("_Other")

# Results that wait for the caller, for each thread: enough that no thread waits for it.
RESULTS_AHEAD = 4
_MANY_CELLS = 1 << 16


def available_threads() -> int:
    """Return how many threads may work at a time.

    As many as there are cores that this process may run on, or ``OMP_NUM_THREADS``, the limit
    that BLAS keeps too, where that is less.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) > 0 else cores


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS works on one thread.

    Where several threads factor matrices at the same time, threads of BLAS only wait for each
    other.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


def map_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return ``[work(item) for item in items]``, computed on all `available_threads`.

    Results come in the order of the items, so that sums over them do not depend on timing. Of
    several errors, that of the first item is raised.
    """
    pieces = list(items)
    return list(iterate_threads(work, pieces, most=len(pieces)))


def run_concurrently(
    main: Callable[[], _Result], background: Callable[[], _Other]
) -> tuple[_Result, _Other]:
    """Return ``main(), background()``, with the second call in another thread.

    It gains time if one of them is mostly Python and the other releases the interpreter's lock.
    """
    if available_threads() < 2:
        return main(), background()
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(background)
        result = main()
    return result, future.result()


def even_length(total: int, most: int, together: int) -> int:
    """Return a length that divides a total into equal pieces of at most `most`.

    The number of pieces is a multiple of `together`, the number of threads, unless one piece is
    enough.
    """
    if total <= most:
        return max(total, 1)
    return -(-total // (-(-total // (most * together)) * together))


def map_arrays(
    work: Callable[[_Item, Array], _Result], arrays: Mapping[_Item, Array]
) -> dict[_Item, _Result]:
    """Return ``work(key, array)`` for each array of a mapping, on threads where these are large.

    Threads that work on small arrays only wait for the interpreter.
    """
    is_large = sum(array.size for array in arrays.values()) > _MANY_CELLS * len(arrays)
    done = (map_threads if is_large else map)(lambda item: work(*item), arrays.items())
    return dict(zip(arrays, done, strict=True))


def iterate_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], most: int | None = None
) -> Iterator[_Result]:
    """Yield ``work(item)`` for each item in order, a few ahead of the caller on other threads.

    Unlike `map_threads`, it holds few results at a time, and the caller works on one result while
    the next is computed. There are at most `most` threads, where items need much memory.
    """
    n_threads = available_threads() if most is None else min(most, available_threads())
    if n_threads < 2:
        yield from map(work, items)
        return
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > RESULTS_AHEAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
