"""Run independent pieces of work on a few threads."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["iterate_threads", "map_threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Results that wait for the caller, for each thread: enough that no thread waits for it.
_RESULTS_AHEAD = 4


def map_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return ``[work(item) for item in items]``, computed on as many threads as cores.

    Results come in the order of the items, so that sums over them do not depend on timing.
    """
    pieces = list(items)
    n_threads = min(len(pieces), os.cpu_count() or 1)
    if n_threads < 2:
        return [work(item) for item in pieces]
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        return list(pool.map(work, pieces))


def iterate_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield ``work(item)`` for each item in order, a few ahead of the caller on other threads.

    Unlike `map_threads`, it holds few results at a time, and the caller's own work on one
    result runs beside that on the next.
    """
    n_threads = os.cpu_count() or 1
    if n_threads < 2:
        yield from map(work, items)
        return
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > _RESULTS_AHEAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
