"""A function along one feature, where it has to be called for each value."""

from abc import ABC, abstractmethod

import numpy as np

from treepurify.rows.columns import Columns
from treepurify.typing import Array, Floats

__all__ = ["CalledAlong"]


class CalledAlong(ABC):
    """A function of which nothing is known along a feature."""

    @abstractmethod
    def __call__(self, columns: Columns, /) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs)."""

    def values_along(self, columns: Columns, feature: int, values: Floats) -> Array:
        """Return the values on rows whose feature has each of some values.

        Returns
        -------
        ndarray of float64, shape (n_values, n_rows, n_outputs)
        """
        return np.stack([self(columns.with_values(feature, value)) for value in values])
