"""How well the selected functions reproduce the function, and how pure the components are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treepurify.engines.categorical.observations import Observations
from treepurify.engines.categorical.solution import Fit
from treepurify.grids.grid import Subset

__all__ = ["Quality", "measure_fit", "variance_inflation"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Quality:
    """Errors of the reproduced function and covariances of its parts.

    Parameters
    ----------
    r_squared, mean_squared_error, relative_error : ndarray of float64, shape (n_outputs,)
        ``1 - MSE / Var f``, the mean square of the residual, and the latter over the mean
        square of the function, as the paper's tables 6 and 7 have it.
    covariances : dict of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each component with the function; of the residual under ``()``.
    """

    r_squared: Array
    mean_squared_error: Array
    relative_error: Array
    covariances: dict[Subset, Array]

    def table(self, output_names: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """Return the errors by output."""
        return {
            name: {
                "r_squared": float(self.r_squared[k]),
                "mean_squared_error": float(self.mean_squared_error[k]),
                "relative_error": float(self.relative_error[k]),
            }
            for k, name in enumerate(output_names)
        }


def variance_inflation(observations: Observations, fit: Fit, mass: dict[Subset, Array]) -> float:
    """Return the sum of the components' variances over the variance of the function.

    One under independence; far above one where components cancel each other. The largest
    over the outputs.
    """
    centred = observations.values - observations.mass @ observations.values
    variance = observations.mass @ centred**2
    total = np.zeros(observations.n_outputs)
    for subset, table in fit.effects.items():
        total += np.tensordot(mass[subset], table**2, axes=len(subset))
    return float(np.max(total / np.where(variance > 0, variance, np.inf)))


def measure_fit(observations: Observations, fit: Fit) -> Quality:
    """Return errors and covariances over the rows, variance within bins included."""
    mass, values = observations.mass, observations.values
    centred = values - mass @ values
    variance = mass @ centred**2 + observations.within
    square = mass @ values**2 + observations.within
    error = mass @ fit.residual**2 + observations.within
    weighted = mass[:, None] * centred

    covariances = {
        subset: np.asarray((sums * fit.effects[subset]).reshape(-1, sums.shape[-1]).sum(axis=0))
        for subset, sums in zip(
            fit.effects, observations.sums_each(fit.effects, weighted), strict=True
        )
    }
    covariances[()] = (weighted * fit.residual).sum(axis=0) + observations.within
    return Quality(
        np.asarray(1.0 - error / np.where(variance > 0, variance, 1.0)),
        np.asarray(error),
        np.asarray(error / np.where(square > 0, square, 1.0)),
        covariances,
    )
