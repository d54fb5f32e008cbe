"""What a decomposition keeps besides its components: a difference, or a sum of further parts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, ModelInputs, OnRows, TensorComponent, evaluate_each
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns
from treepurify.typing import Array


class Function(Protocol):
    """What a remainder needs of the function that was decomposed."""

    @property
    def inputs(self) -> ModelInputs:
        """How the columns of a table are read."""

    @property
    def used_features(self) -> Subset:
        """Positions of the features that it may depend on, increasing."""

    def __call__(self, columns: Columns, /) -> Array:
        """Return the values on all rows, shape (n_rows, n_outputs)."""


@dataclass(frozen=True, eq=False, repr=False)
class Difference(OnRows):
    """The function minus the intercept and the components.

    Parameters
    ----------
    function : Function
        What was decomposed: a model, a function, or values that are known at some points.
    variance : ndarray of float64, shape (n_outputs,)
        Variance under the measure; NaN where it is not known.
    find : callable, optional
        Returns the component of a subset that is part of the remainder, or None.
    is_joint : bool
        Whether it is one effect of all features, which Shapley values split evenly (Ferrere et
        al. 2026, eq. 23).
    mean_absolute : ndarray of float64, shape (n_outputs,), optional
        Mean absolute value under the measure, where it is known.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition; an engine leaves it, and the components, to `finish`.
    components : tuple of Component
        Its components.
    """

    function: Function
    variance: Array
    find: Callable[[Subset], Component | None] | None = None
    is_joint: bool = False
    mean_absolute: Array | None = None
    intercept: Array = field(default_factory=lambda: np.zeros(1))
    components: tuple[Component, ...] = ()

    def __repr__(self) -> str:
        """Return what it is the remainder of."""
        return f"Remainder: the model minus its intercept and {len(self.components)} effects"

    @property
    def features(self) -> Subset:
        """Positions of the features that the function may depend on."""
        return self.function.used_features

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If only values of the function were given, and none for one of the rows.
        """
        _, blocks = self.function.inputs.blocks(X, self.features)
        return stack_rows(
            self.beyond(columns, _sum_of(self.components, columns, len(self.intercept)))
            for columns in blocks
        )

    def beyond(self, columns: Columns, explained: Array) -> Array:
        """Return the same where the sum of the components on the rows is known."""
        return self.function(columns) - self.intercept - explained

    def is_beyond(self, components: Iterable[Component]) -> bool:
        """Whether it is what these components, and no others, leave of the function."""
        return [id(part) for part in components] == [id(part) for part in self.components]

    def in_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows) where those of the function are known.

        Raises
        ------
        InvalidInputError
            If the value of the function in one of them is not.
        """
        function: Any = self.function
        total = function.in_cells(cells) - self.intercept
        for component in self.components:
            if isinstance(component, TensorComponent):
                total -= component.on_cells(cells[list(component.features)])
        return np.asarray(total)

    def component(self, subset: Subset) -> Component | None:
        """Return the component of a subset that is part of the remainder, where it is known."""
        return None if self.find is None else self.find(subset)


@dataclass(frozen=True, eq=False)
class SumOfParts(OnRows):
    """The sum of all components above the order of a decomposition.

    Parameters
    ----------
    parts : tuple of TensorComponent
        What it is the sum of.
    variance : ndarray of float64, shape (n_outputs,)
        Variance under the measure; NaN where the measure gives no joint distribution to
        compute it from.
    """

    parts: tuple[TensorComponent, ...]
    variance: Array

    @property
    def features(self) -> Subset:
        """Positions of the features it depends on, increasing."""
        return tuple(sorted({j for part in self.parts for j in part.features}))

    def component(self, subset: Subset) -> TensorComponent | None:
        """Return the part of a subset, or None."""
        return next((part for part in self.parts if part.features == subset), None)

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        _, blocks = self.parts[0].inputs.blocks(X, self.features)
        return stack_rows(_sum_of(self.parts, columns, len(self.variance)) for columns in blocks)


Remainder = Difference | SumOfParts


def used_features(components: Iterable[Subset], rest: Remainder | None) -> list[int]:
    """Return the features that components and the remainder read, increasing."""
    used = {j for subset in components for j in subset}
    return sorted(used.union(() if rest is None else rest.features))


def _sum_of(components: Iterable[Component], columns: Columns, n_outputs: int) -> Array:
    total = np.zeros((columns.n_rows, n_outputs))
    for values in evaluate_each(components, columns):
        total += values
    return total


def stack_rows(blocks: Iterable[Array]) -> Array:
    """Return the values on blocks of rows, one after another."""
    stacked = list(blocks)
    return stacked[0] if len(stacked) == 1 else np.concatenate(stacked)


def evaluate_parts(
    components: tuple[Component, ...], rest: Remainder | None, columns: Columns, n_outputs: int
) -> Iterator[Array]:
    """Yield the values of each component, then of the remainder where there is one."""
    explained = np.zeros((columns.n_rows, n_outputs))
    for values in evaluate_each(components, columns):
        explained += values
        yield values
    if isinstance(rest, Difference) and rest.is_beyond(components):
        yield rest.beyond(columns, explained)
    elif rest is not None:
        yield rest.on_rows(columns)
