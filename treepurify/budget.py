"""Refuse large allocations before they are made."""

from decimal import Decimal

from treepurify.arguments import brief, check_number
from treepurify.errors import InvalidInputError, MemoryBudgetError

DEFAULT_BUDGET = 2 << 30
"""Bytes that the tables of one decomposition may take unless the caller says otherwise."""

# From here on a count is rounded.
_ROUNDED = 10**6
# Nobody can allow more than this.
_MOST_ADVISED = 1 << 40


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
        What the caller can do about it in one or more sentences, other than raising the budget,
        which is added where a computer may have that much memory.
    """
    check_memory_budget(budget)
    if n_bytes > budget:
        needed = f"{_size(n_bytes)}, more than the memory budget of {_size(budget)}"
        more = " Or raise memory_budget."
        if n_bytes > _MOST_ADVISED:
            needed, more = f"{needed}, more than any computer has", ""
        raise MemoryBudgetError(f"{what} would take {needed}. {advice}{more}")


def check_memory_budget(budget: int) -> None:
    """Raise `InvalidInputError` unless a memory budget is a positive number of bytes."""
    try:
        check_number("memory_budget", budget, least=0, open_ends=True)
    except InvalidInputError:
        raise InvalidInputError(
            "memory_budget must be a positive number of bytes, such as 2 << 30, "
            f"got {brief(budget)}"
        ) from None


def rounded_count(count: int) -> str:
    """Return a count in figures, such as ``"4096"`` or ``"2e23"``: it may exceed every float."""
    if count < _ROUNDED:
        return str(count)
    digit, power = f"{Decimal(count):.0e}".split("e+")
    return f"{digit}e{power}"


def _size(n_bytes: int) -> str:
    size = Decimal(int(n_bytes))
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
