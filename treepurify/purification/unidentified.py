"""How many directions the support of a mass leaves undetermined."""

from itertools import accumulate, combinations

import numpy as np

from treepurify.typing import Array, Integers, Mask

__all__ = ["MOST_SLICES", "count_unidentified", "gram_rank", "support_rank"]

MOST_SLICES = 1500


def count_unidentified(mass: Array) -> int | None:
    r"""Return the number of directions of lower effects that this tensor leaves undetermined.

    Functions of one feature fewer, one on the cells with mass of each slice table, are taken
    as the same where they differ only in which of them holds a function of two features
    fewer. They form a space of dimension ``sum of n_v - rank(R)``, with ``n_v`` slices with
    mass in each table and one column of `R` for each function that two of the tables can
    hold: the difference between having it in the one and in the other. What the tensor sees
    of them is their sum on its cells with mass, of rank `s`. The directions that it does not
    see are the difference of the two numbers. Effects that fewer features already leave
    undetermined are the same function in this sense, and are counted with their own tensor.
    So all effects are determined where the count is zero for every tensor.

    A direction may vanish on every cell whose slices all have mass, and still have main
    effects: it is counted. Slices without mass are left out: what is moved out of them is a
    convention, counted elsewhere. Returns None where the tensor has more than 1500 slices,
    since the count takes dense ranks.

    Parameters
    ----------
    mass : ndarray of shape (cells...)
        Mass of each cell.

    Examples
    --------
    >>> count_unidentified(np.eye(3))
    2
    >>> count_unidentified(np.ones((2, 2, 2)))
    0
    """
    features = range(mass.ndim)
    filled = [np.asarray(mass.any(axis=axis)) for axis in features]
    levels = [mass.any(axis=tuple(j for j in features if j != i)) for i in features]
    if np.count_nonzero(mass) == np.prod([np.count_nonzero(level) for level in levels]):
        return 0
    n_slices = sum(int(part.sum()) for part in filled)
    if n_slices > MOST_SLICES:
        return None
    return n_slices - _rank_of_exchanges(filled) - support_rank(mass > 0, filled)


def support_rank(cells: Mask, filled: list[Mask]) -> int:
    """Return the rank of the functions of one feature fewer on the given cells."""
    starts = _starts(filled)
    coordinates = np.nonzero(cells)
    columns = [
        start + _numbers(part, coordinates, axis)
        for axis, (part, start) in enumerate(zip(filled, starts, strict=False))
    ]
    gram = np.zeros((starts[-1], starts[-1]))
    _add_gram(gram, columns, [1.0] * len(columns))
    return gram_rank(gram, len(coordinates[0]))


def _rank_of_exchanges(filled: list[Mask]) -> int:
    """Return the rank of the functions of two features fewer, one table's less another's.

    What lacks axes i < j can be in the table without axis i, where axis j stands at j - 1, or
    in that without axis j.
    """
    exchanges = [*combinations(range(len(filled)), 2)]
    shared = [np.asarray(filled[i].any(axis=j - 1)) for i, j in exchanges]
    starts = _starts(shared)
    gram = np.zeros((starts[-1], starts[-1]))
    for missing, part in enumerate(filled):
        coordinates = np.nonzero(part)
        columns, signs = [], []
        for (i, j), rest, start in zip(exchanges, shared, starts, strict=False):
            if missing in (i, j):
                axis = j - 1 if missing == i else i
                columns.append(start + _numbers(rest, coordinates, axis))
                signs.append(1.0 if missing == i else -1.0)
        _add_gram(gram, columns, signs)
    return gram_rank(gram, sum(int(part.sum()) for part in filled))


def _starts(parts: list[Mask]) -> list[int]:
    return [0, *accumulate(int(part.sum()) for part in parts)]


def _numbers(part: Mask, coordinates: tuple[Integers, ...], axis: int) -> Integers:
    """Return the entry of `part`, counted over those that are set, that each cell lies over."""
    rest = coordinates[:axis] + coordinates[axis + 1 :]
    number = (np.cumsum(part.ravel()) - 1).reshape(part.shape)
    return np.broadcast_to(number[rest], coordinates[axis].shape)


def _add_gram(gram: Array, columns: list[Integers], signs: list[float]) -> None:
    """Add the products of columns that have one entry, a sign, in each row."""
    for first, sign in zip(columns, signs, strict=True):
        for second, other in zip(columns, signs, strict=True):
            np.add.at(gram, (first, second), sign * other)


def gram_rank(gram: Array, n_rows: int) -> int:
    """Return the rank of a matrix of `n_rows` rows from the products of its columns."""
    scaling = 1 / np.sqrt(np.maximum(np.diag(gram), 1.0))
    eigenvalues = np.linalg.eigvalsh(gram * scaling[:, None] * scaling)
    return int(np.sum(eigenvalues > n_rows * np.finfo(float).eps * max(eigenvalues[-1], 1.0)))
