"""Solves with a triangular factor that grows by blocks of rows."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["solve_triangle"]

Array = npt.NDArray[np.float64]


def solve_triangle(panels: Sequence[Array], right: Array) -> Array:
    """Solve ``L x = right`` for a lower triangular L.

    Parameters
    ----------
    panels : sequence of ndarray
        L by blocks of rows: panel b has shape ``(size_b, start_b + size_b)``.
    right : ndarray of shape (n, k)
        Right-hand sides.
    """
    from scipy.linalg import solve_triangular

    solution = np.array(right, dtype=np.float64, order="C")
    for panel in panels:
        size = len(panel)
        start = panel.shape[1] - size
        own = slice(start, start + size)
        solution[own] -= panel[:, :start] @ solution[:start]
        solution[own] = solve_triangular(
            panel[:, start:], solution[own], lower=True, check_finite=False
        )
    return solution
