"""Normalised Legendre polynomials by their three-term recurrence."""

import numpy as np
import numpy.typing as npt

__all__ = ["legendre_table"]

Array = npt.NDArray[np.float64]


def legendre_table(points: Array, degree: int) -> Array:
    r"""Return the normalised Legendre polynomials of degree 0 to `degree` at points.

    They are orthonormal in L2 of the Lebesgue measure on [-1, 1] (Ferrere et al., continuous
    closed form, equations 15 to 17).

    Parameters
    ----------
    points : ndarray of float64, shape (n_points,)
        Points in [-1, 1].
    degree : int
        Largest degree.

    Returns
    -------
    ndarray of float64, shape (n_points, degree + 1)

    Examples
    --------
    >>> import numpy as np
    >>> legendre_table(np.array([1.0]), 2) ** 2
    array([[0.5, 1.5, 2.5]])
    """
    # Degrees are rows while they are computed, so that each step reads whole rows.
    table = np.empty((degree + 1, len(points)))
    table[0] = 1.0
    if degree > 0:
        table[1] = points
    for m in range(1, degree):
        table[m + 1] = ((2 * m + 1) * points * table[m] - m * table[m - 1]) / (m + 1)
    table *= np.sqrt(np.arange(degree + 1) + 0.5)[:, None]
    return np.ascontiguousarray(table.T)
