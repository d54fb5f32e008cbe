"""Right sides that show how large the error of a solution may be."""

import numpy as np

from treepurify.typing import Array

__all__ = ["N_PROBES", "error_probes"]

# So many right sides of the size of rounding estimate the error.
N_PROBES = 3


def error_probes(residual: Array, magnitudes: Array) -> Array:
    """Return right sides as large as what is left of those of a solution, shape (n, N_PROBES).

    That is the residual and what rounds it; `magnitudes` is the image of the absolute values of
    the solution. Signs are random. Solved like the others, they show the error in each direction.
    """
    left = np.max(np.abs(residual) + np.finfo(float).eps * magnitudes, axis=1)
    signs = np.random.default_rng(0).normal(size=(len(left), N_PROBES))
    return np.asarray(left[:, None] * signs)
