"""A mapping that cannot be changed and, unlike the standard library's, can be pickled."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

_Key = TypeVar("_Key")
_Value_co = TypeVar("_Value_co", covariant=True)


class FrozenMapping(Mapping[_Key, _Value_co]):
    """A copy of a mapping that cannot be changed.

    Parameters
    ----------
    items : mapping
        What it holds.

    Examples
    --------
    >>> FrozenMapping({"age": 1})["age"]
    1
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[_Key, _Value_co]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: _Key) -> _Value_co:
        """Return the value of a key."""
        return self._items[key]

    def __iter__(self) -> Iterator[_Key]:
        """Iterate over the keys, in their order."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._items)

    def __repr__(self) -> str:
        """Return the items as those of a dictionary."""
        return f"FrozenMapping({self._items!r})"
