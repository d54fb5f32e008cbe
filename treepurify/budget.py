"""Refuse large allocations before they are made."""

from treepurify.errors import InvalidInputError, MemoryBudgetError

__all__ = ["DEFAULT_BUDGET", "check_budget"]

DEFAULT_BUDGET = 1 << 30
"""Bytes that the tables of one decomposition may take unless the caller says otherwise."""


def check_budget(n_bytes: int, budget: int, what: str, advice: str) -> None:
    """Raise `MemoryBudgetError` if `n_bytes` exceed `budget`.

    Parameters
    ----------
    n_bytes : int
        Size of what is about to be allocated.
    budget : int
        Most bytes allowed.
    what : str
        What would be allocated, for the message.
    advice : str
        What the caller can do about it.
    """
    try:
        is_positive = budget > 0
    except TypeError:
        is_positive = False
    if not is_positive:
        raise InvalidInputError(
            f"memory_budget must be a positive number of bytes, such as 2 << 30, got {budget!r}"
        )
    if n_bytes > budget:
        raise MemoryBudgetError(
            f"{what} would take {_size(n_bytes)}, more than the memory budget of {_size(budget)}. "
            f"{advice}"
        )


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
