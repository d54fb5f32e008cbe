"""Run independent pieces of work on a few threads."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


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
