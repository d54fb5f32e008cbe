"""What the support of a mass leaves undetermined: blocks of a pair, directions of a tensor."""

from itertools import accumulate, combinations

import numpy as np

from treepurify.purification.pair import ROUNDING, inverse_mass
from treepurify.typing import Array, Cells, Indices, Integers, Mask

MOST_SLICES = 1500
_MOST_WEIGHED = 300


def label_blocks(
    first: Cells, second: Cells, shape: tuple[int, ...]
) -> tuple[Indices, Indices, int]:
    """Label the connected blocks of a table's rows and columns.

    Without a kernel, which the tables of shallow trees would not need otherwise.

    Parameters
    ----------
    first, second : ndarray of int, shape (n_cells,)
        Row and column of each cell that has rows or mass; cells may be repeated.
    shape : tuple of two ints
        Number of rows and columns.

    Returns
    -------
    of_rows, of_columns : ndarray of int
        Block of each row and column, from 0 on in the order of their first rows; -1 where no
        cell has mass.
    n_blocks : int
    """
    one, other = first.astype(np.intp), shape[0] + second.astype(np.intp)
    nodes = np.arange(sum(shape))
    has_mass = np.zeros(len(nodes), dtype=bool)
    has_mass[one] = has_mass[other] = True
    # Each node leads to a smaller one of its block or to itself.
    leads_to = nodes.copy()
    while len(one):
        np.minimum.at(leads_to, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(leads_to, further := leads_to[leads_to]):
            leads_to = further
        one, other = leads_to[one], leads_to[other]
        is_apart = one != other
        one, other = one[is_apart], other[is_apart]
    block = np.full(len(nodes), -1, dtype=np.intp)
    starts, block[has_mass] = np.unique(leads_to[has_mass], return_inverse=True)
    return block[: shape[0]], block[shape[0] :], len(starts)


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


def count_weak(mass: Array) -> int:
    """Return how many directions of a small tensor its mass determines by less than rounding.

    Zero for a tensor of more than 300 slices, where nothing is looked for.
    """
    filled = [np.asarray(mass.any(axis=axis)) for axis in range(mass.ndim)]
    if sum(int(part.sum()) for part in filled) > _MOST_WEIGHED:
        return 0
    return support_rank(mass > 0, filled) - support_rank(mass > 0, filled, mass)


def support_rank(cells: Mask, filled: list[Mask], mass: Array | None = None) -> int:
    """Return the rank of the functions of one feature fewer on the given cells, by their mass."""
    starts = _starts(filled)
    coordinates = np.nonzero(cells)
    columns = [
        start + _numbers(part, coordinates, axis)
        for axis, (part, start) in enumerate(zip(filled, starts, strict=False))
    ]
    gram = np.zeros((starts[-1], starts[-1]))
    _add_gram(gram, columns, [1.0] * len(columns), 1.0 if mass is None else mass[coordinates])
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


def _add_gram(
    gram: Array, columns: list[Integers], signs: list[float], weights: Array | float = 1.0
) -> None:
    """Add the products of columns that have one entry, a sign, in each row, by their weights."""
    for first, sign in zip(columns, signs, strict=True):
        for second, other in zip(columns, signs, strict=True):
            np.add.at(gram, (first, second), sign * other * weights)


def gram_rank(gram: Array, n_rows: int) -> int:
    """Return the rank of a matrix of `n_rows` rows from the products of its columns."""
    scaling = np.sqrt(inverse_mass(np.diag(gram)))
    eigenvalues = np.linalg.eigvalsh(gram * scaling[:, None] * scaling)
    rounding = max(n_rows, len(gram)) * ROUNDING * max(eigenvalues[-1], 1.0)
    return int(np.count_nonzero(eigenvalues > rounding))
