"""The seeds of a fuzzer's trials, from the environment."""

import os
import time
from collections.abc import Iterator


def consecutive_seeds(number: int) -> Iterator[int]:
    """`number` seeds, or as many as fit into `TREEPURIFY_FUZZ_SECONDS` where that is set.

    They start at `TREEPURIFY_FUZZ_SEED`, or 0.
    """
    seed = int(os.environ.get("TREEPURIFY_FUZZ_SEED", "0"))
    seconds = os.environ.get("TREEPURIFY_FUZZ_SECONDS")
    if seconds is None:
        yield from range(seed, seed + number)
        return
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        yield seed
        seed += 1
