"""How many directions the support of a mass leaves undetermined."""

import numpy as np
import numpy.typing as npt

__all__ = ["count_unidentified"]

_MOST_SLICES = 1500


def count_unidentified(mass: npt.NDArray[np.float64]) -> int | None:
    """Return the number of directions in which the lower effects are not identified.

    Functions of fewer features that differ somewhere but agree in every cell with mass
    cannot be told apart. Slices without mass are left out: what is moved out of them is a
    convention, counted elsewhere. Returns None where the tensor has more than 1500 slices,
    since the count takes a dense rank.

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
    filled = [mass.sum(axis=axis) > 0 for axis in range(mass.ndim)]
    if sum(int(part.sum()) for part in filled) > _MOST_SLICES:
        return None
    reached = np.ones(mass.shape, dtype=bool)
    for axis, part in enumerate(filled):
        reached &= np.expand_dims(part, axis)
    if np.all(mass[reached] > 0):
        return 0
    return _rank(reached, filled) - _rank(mass > 0, filled)


def _rank(cells: npt.NDArray[np.bool_], filled: list[npt.NDArray[np.bool_]]) -> int:
    """Rank of the functions of fewer features on the given cells."""
    coordinates = np.nonzero(cells)
    n_cells = len(coordinates[0])
    offset, columns = 0, []
    for axis, part in enumerate(filled):
        number = np.cumsum(part.ravel()) - 1 + offset
        rest = tuple(c for i, c in enumerate(coordinates) if i != axis)
        columns.append(number[np.ravel_multi_index(rest, part.shape)])
        offset += int(part.sum())
    gram = np.zeros((offset, offset))
    for first in columns:
        for second in columns:
            np.add.at(gram, (first, second), 1.0)
    scaling = 1 / np.sqrt(np.maximum(np.diag(gram), 1.0))
    eigenvalues = np.linalg.eigvalsh(gram * scaling[:, None] * scaling)
    return int(np.sum(eigenvalues > n_cells * np.finfo(float).eps * max(eigenvalues[-1], 1.0)))
