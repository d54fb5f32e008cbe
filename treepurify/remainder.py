"""What a decomposition of low order leaves of its model: the model minus the components."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns
from treepurify.components import Component, evaluate_each
from treepurify.grids.grid import Subset
from treepurify.models.ensemble import TreeEnsemble

__all__ = ["ModelRemainder"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ModelRemainder:
    """The model minus the intercept and the components, so that nothing is hidden.

    Parameters
    ----------
    model : TreeEnsemble
        The parsed model.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : tuple of Component
        Its components.
    variance : ndarray of float64, shape (n_outputs,)
        Variance under the measure; NaN where it is not known.
    find : callable, optional
        Returns the component of a subset that is part of the remainder, or None.
    """

    model: TreeEnsemble
    intercept: Array
    components: tuple[Component, ...]
    variance: Array
    find: Callable[[Subset], Component | None] | None = None

    def __repr__(self) -> str:
        """Return what it is the remainder of."""
        return f"ModelRemainder(the model minus {len(self.components)} components)"

    @property
    def features(self) -> Subset:
        """Positions of the features that the model tests."""
        return tuple(int(j) for j in np.unique(self.model.feature[self.model.feature >= 0]))

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        columns = self.model.columns(X)
        explained = np.zeros((columns.n_rows, len(self.intercept)))
        for values in evaluate_each(self.components, columns):
            explained += values
        return self.beyond(columns, explained)

    def beyond(self, columns: Columns, explained: Array) -> Array:
        """Return the same where the sum of the components on the rows is known."""
        return self.model.margin(columns, precision="float64") - self.intercept - explained

    def component(self, subset: Subset) -> Component | None:
        """Return the component of a subset that is part of the remainder, where it is known."""
        return None if self.find is None else self.find(subset)
