"""The labels behind codes of categories, which batches must agree on where a model knows none."""

from collections.abc import Hashable, Mapping, Sequence

from treepurify.errors import InvalidInputError

__all__ = ["CategoryLevels", "joined_levels"]

CategoryLevels = Mapping[int, tuple[Hashable, ...]]
"""The labels in the order of their codes, by the position of the feature; see `RowBatch`."""


def joined_levels(
    first: CategoryLevels, second: CategoryLevels, names: Sequence[str], where: str = "a file"
) -> CategoryLevels:
    """Return the labels behind the codes of both.

    Parameters
    ----------
    first, second : mapping of int to tuple of hashable
        The labels of some rows, and of others.
    names : sequence of str
        Names of all features.
    where : str
        Where the other rows are, for messages.

    Raises
    ------
    InvalidInputError
        If the same codes stand for different labels.
    """
    levels = dict(first)
    for j, labels in second.items():
        known = levels.get(j, labels)
        shared = min(len(known), len(labels))
        if known[:shared] != labels[:shared]:
            raise InvalidInputError(
                f"{where}: column {names[j]!r} numbers its categories as "
                f"{', '.join(map(str, labels[:6]))}, others as {', '.join(map(str, known[:6]))}, "
                "and the model knows the numbers only: write all files with the categories of the "
                "training, or with their integer codes"
            )
        levels[j] = max(known, labels, key=len)
    return levels
