"""Connected groups of features."""

from collections.abc import Iterable

from treepurify.grids.grid import Subset

__all__ = ["connected_groups"]


def connected_groups(n: int, edges: Iterable[tuple[int, int]]) -> tuple[Subset, ...]:
    """Return the connected groups of ``range(n)``, each sorted, by first member."""
    label = list(range(n))

    def top(i: int) -> int:
        while label[i] != i:
            i = label[i]
        return i

    for i, j in edges:
        first, second = sorted((top(i), top(j)))
        label[second] = first
    groups: dict[int, list[int]] = {}
    for i in range(n):
        groups.setdefault(top(i), []).append(i)
    return tuple(tuple(members) for members in groups.values())
