"""Solve normal equations that may be singular: the solution of least norm.

Iterated Tikhonov regularisation from zero stays out of the null space of the equations: what it
converges to is the solution of least norm. Each step leaves a share of the error of a direction,
the ridge divided by the ridge and the mean square of the direction on the rows, both relative to
its norm. With a larger ridge it takes more steps; with a smaller one rounding decides more of what
the rows do not determine, by about 1e-16 divided by the ridge.
"""

from typing import NamedTuple

import numpy as np

from treepurify.typing import Array

__all__ = ["LeastNorm", "least_norm"]

_MOST_STEPS, _CONVERGED = 100, 1e-10
# If the rows do not determine an unknown, given those before, its pivot is at most a few times the
# share of the ridge in the diagonal. If it depends on them under any distribution, it is rounding.
_OF_RIDGE, _ROUNDING = 4.0, 100 * np.finfo(float).eps


class LeastNorm(NamedTuple):
    """The solution of least norm.

    Parameters
    ----------
    solution : ndarray of float64, shape (n_unknowns, n_outputs)
        The solution.
    error : float
        Size of the last step on the rows: the root of its mean square, summed over the outputs.
    undetermined : int
        About how many unknowns with rows these do not determine, given the others.
    scale : ndarray of float64, shape (n_unknowns,)
        Multiplied by it, the regularised matrix has a unit diagonal.
    factor : ndarray of float64, shape (n_unknowns, n_unknowns)
        The upper triangular factor of this scaled matrix.
    """

    solution: Array
    error: float
    undetermined: int
    scale: Array
    factor: Array

    def solve_regularised(self, right: Array) -> Array:
        """Solve the scaled regularised equations."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self.factor, False), right, check_finite=False))


def least_norm(gram: Array, regularised: Array, right: Array) -> LeastNorm:
    """Return the solution of least norm of ``gram @ x = right``.

    Parameters
    ----------
    gram : ndarray of float64, shape (n_unknowns, n_unknowns)
        Inner products on the rows; it is overwritten by the scaled matrix.
    regularised : ndarray of float64, shape (n_unknowns, n_unknowns)
        The same, with a small multiple of the inner products that define the norm added; it is
        overwritten.
    right : ndarray of float64, shape (n_unknowns, n_outputs)
        Right sides.
    """
    scale = 1.0 / np.sqrt(regularised.diagonal())
    gram *= scale[:, None]
    gram *= scale
    regularised *= scale[:, None]
    regularised *= scale
    factor = _factor(regularised)
    in_rows, pivots = gram.diagonal(), factor.diagonal() ** 2
    is_small = (pivots > _ROUNDING * len(gram)) & (pivots <= _OF_RIDGE * (1.0 - in_rows))
    is_open = is_small & (in_rows > 0)
    found = LeastNorm(np.zeros_like(right), 0.0, int(is_open.sum()), scale, factor)
    residual = scale[:, None] * right
    size, error = float(np.linalg.norm(residual)), 0.0
    for _ in range(_MOST_STEPS):
        step = found.solve_regularised(residual)
        found.solution[:] += step
        explained = gram @ step
        residual -= explained
        error = float(np.sqrt(max(np.sum(step * explained), 0.0)))
        if error <= _CONVERGED * size:
            break
    return found._replace(solution=scale[:, None] * found.solution, error=error)


def _factor(matrix: Array) -> Array:
    """Return the upper triangular factor of a matrix, whose diagonal may be raised by rounding."""
    raised = np.finfo(float).eps * len(matrix)
    while True:
        try:
            # By NumPy: it lets other threads run meanwhile.
            return np.asarray(np.linalg.cholesky(matrix).T, dtype=np.float64)
        except np.linalg.LinAlgError:
            matrix[np.diag_indices_from(matrix)] += raised
            raised *= 4.0
