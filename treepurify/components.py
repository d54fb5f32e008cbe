"""Components: the functions that a decomposition is the sum of."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cell_values
from treepurify.grids.grid import (
    EncodedRows,
    Grid,
    Subset,
    mean_over_cells,
    place_rows,
)
from treepurify.html_summary import html_summary
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.rows.tables import check_sparse, is_sparse
from treepurify.terms import effect_title
from treepurify.typing import Array, Indices

if TYPE_CHECKING:
    import pandas as pd

# Number of rows whose positions in a table stay in the cache of a core.
_ROWS_PER_BLOCK = 1 << 13
# Of sparse rows so much is dense at a time.
_SPARSE_BYTES = 1 << 26


@dataclass(frozen=True)
class ModelInputs:
    """How the columns of a table are read.

    Parameters
    ----------
    features : tuple of FeatureSpec
        The features, in the order of the model.
    match_names : bool
        Whether tables are matched by column name.
    """

    features: tuple[FeatureSpec, ...]
    match_names: bool

    @property
    def combined(self) -> frozenset[int]:
        """The features that are made from several columns, as CatBoost and pipelines do."""
        return frozenset(j for j, spec in enumerate(self.features) if len(spec.made_from) > 1)

    def columns(self, X: Any, only: Collection[int] | None = None) -> Columns:
        """Read a table, or `only` some features of it; what was read already is passed through."""
        return read_columns(X, self.features, match_names=self.match_names, only=only)

    def blocks(self, X: Any, used: Collection[int]) -> tuple[int, Iterator[Columns]]:
        """Return the number of rows and their columns, of sparse rows some rows at a time.

        Of sparse rows only the `used` features are read: all others are missing.
        """
        if not is_sparse(X):
            columns = self.columns(X)
            return columns.n_rows, iter((columns,))
        check_sparse(X, "X")
        rows, n_rows = X.tocsr(), int(X.shape[0])
        size = max(_SPARSE_BYTES // (8 * max(len(used), 1)), 1)
        starts = range(0, max(n_rows, 1), size)
        return n_rows, (self.columns(rows[start : start + size], used) for start in starts)


class OnRows(ABC):
    """An object that has values on rows, for the package and for users.

    Inside the package the axis of the outputs is always present, so no code depends on the number
    of outputs. Users of a model with one output have one-dimensional arrays, such as `y`: a column
    of n rows minus such an array would silently be n by n.
    """

    @abstractmethod
    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of a table, on the margin scale.

        Parameters
        ----------
        X : array_like or table of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_outputs)
            One-dimensional for one output.

        Raises
        ------
        InvalidInputError
            If the table cannot be read, or if a value is missing or unseen and the effects
            have no cell for it.
        """
        values = self.on_rows(X)
        return values[:, 0] if values.shape[1] == 1 else values


class Component(Protocol):
    """Members that every effect has, whichever function computed it.

    See Also
    --------
    treepurify.results.TensorComponent : An effect that is constant in cells, such as of trees.
    treepurify.Decomposition : The effects of a model.
    """

    @property
    def features(self) -> Subset:
        """Positions of the features that the effect depends on, increasing."""

    @property
    def variance(self) -> Array:
        """Variance under the distribution, in squared units of the margin, shape (n_outputs,)."""

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, on the margin scale, shape (n_rows, n_outputs)."""

    def evaluate(self, X: Any) -> Array:
        """Return the values on the rows of `X`, one-dimensional for one output; see `OnRows`."""


class Drawable(Component, Protocol):
    """A component without cells that returns axes on which it can be drawn."""

    def drawing_cells(self) -> tuple[tuple[FeatureAxis, ...], Array]:
        """Return axes over the range of its features, and the mass of the cells between them.

        Numeric axes have bounds; the mass has shape (cells...) and sums to one. Categorical
        ones are labelled by categories of the feature, or by the numbers that are its levels.
        """


class Estimated(Component, Protocol):
    """A component that was estimated from a sample of rows, with standard errors."""

    def errors_at_nodes(self) -> tuple[Array, Array] | None:
        """Return nodes of a main effect, and standard errors there; None if not known.

        Nodes have shape (n_nodes,) and increase; of a feature with categories they are codes.
        Errors have shape (n_nodes, n_outputs).
        """


class SharesAverages(Component, Protocol):
    """A component that is made of what other components are made of too, such as averages."""

    def evaluate_with(self, columns: Columns, averages: dict[Any, Array]) -> Array:
        """Return its values on rows, shape (n_rows, n_outputs), and add what it computed."""


class CellFunction(Component, Protocol):
    """A component that is constant in cells, whether it has a table of them or not."""

    @property
    def axes(self) -> tuple[FeatureAxis, ...]:
        """One axis per feature."""

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs)."""


# The classes are asked: `isinstance` with a protocol reads every property of the object, and
# some variances take long to compute.
def is_cell_function(component: Component) -> TypeGuard[CellFunction]:
    """Return whether a component is a `CellFunction`."""
    return hasattr(type(component), "on_cells")


def shares_averages(component: Component) -> TypeGuard[SharesAverages]:
    """Return whether a component is made of what it can share."""
    return hasattr(type(component), "evaluate_with")


def is_estimated(component: Component) -> TypeGuard[Estimated]:
    """Return whether a component knows its standard errors."""
    return hasattr(type(component), "errors_at_nodes")


def is_drawable(component: Component) -> TypeGuard[Drawable]:
    """Return whether a component without cells is `Drawable`."""
    return hasattr(type(component), "drawing_cells")


@dataclass(frozen=True, eq=False, repr=False)
class TensorComponent(OnRows):
    """An effect that is constant in each cell: an interval or category of each of its features.

    Parameters
    ----------
    features : tuple of int
        Positions of the features that it depends on, increasing.
    axes : tuple of FeatureAxis
        The intervals or categories of each feature.
    values : ndarray of float64, shape (cells..., n_outputs)
        Effect on the margin scale.
    mass : ndarray of float64, shape (cells...)
        Mass of each cell under the distribution; sums to one.
    inputs : ModelInputs
        How the columns of a table are read.
    raw : ndarray of float64, shape (cells..., n_outputs), optional
        The effect of the same features before purification, as the model stores it.

    See Also
    --------
    treepurify.Decomposition : The effects of a model.
    """

    features: Subset
    axes: tuple[FeatureAxis, ...]
    values: Array
    mass: Array
    inputs: ModelInputs
    raw: Array | None = None

    def __repr__(self) -> str:
        """Return the features and the size of the table, not its entries."""
        cells = " x ".join(str(axis.n_cells) for axis in self.axes)
        kind = "combinations of values"
        if len(self.axes) == 1:
            kind = "categories" if self.axes[0].is_categorical else "intervals"
        deviation = ", ".join(f"{value:.4g}" for value in np.sqrt(self.variance))
        title = effect_title(axis.name for axis in self.axes)
        return f"{title}: {cells} {kind}, standard deviation {deviation}"

    def _repr_html_(self) -> str:
        return html_summary([repr(self)], *_cells_of_curve(self))

    @cached_property
    def variance(self) -> Array:
        """Variance under the distribution, in squared units of the margin, shape (n_outputs,)."""
        values, mass = self.values, self.mass
        return mean_over_cells(mass, (values - mean_over_cells(mass, values)) ** 2)

    @cached_property
    def mean_absolute(self) -> Array:
        """Mean absolute value under the distribution, on the margin scale, shape (n_outputs,)."""
        return mean_over_cells(self.mass, np.abs(self.values))

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, on the margin scale, shape (n_rows, n_outputs).

        Raises
        ------
        InvalidInputError
            If a value is missing or unseen and the effect has no cell for it.
        """
        return next(iter(evaluate_each([self], self.inputs.columns(X, self.features))))

    @property
    def n_cells(self) -> int:
        """Number of cells of the table."""
        return prod(axis.n_cells for axis in self.axes)

    def centred_raw(self) -> Array | None:
        """Return the effect before purification, shifted to mean zero under the distribution.

        The mean belongs to the intercept. None if the effect before purification is not known.
        """
        return None if self.raw is None else self.raw - mean_over_cells(self.mass, self.raw)

    def stored(self) -> "TensorComponent":
        """Return the same effect with its tables in memory, for repeated reading."""
        return self

    def on_cells(self, cells: npt.NDArray[Any]) -> Array:
        """Return the values in cells (n_features, n_rows), shape (n_rows, n_outputs)."""
        table = self.values
        sizes, values = table.shape[1:-1], table.reshape(-1, table.shape[-1])
        n_rows = cells.shape[1]
        if n_rows <= _ROWS_PER_BLOCK:
            return values.take(_numbers(cells, sizes), axis=0)
        on_rows = np.empty((n_rows, values.shape[1]))
        for start in range(0, n_rows, _ROWS_PER_BLOCK):
            block = slice(start, start + _ROWS_PER_BLOCK)
            on_rows[block] = values.take(_numbers(cells[:, block], sizes), axis=0)
        return on_rows


def _numbers(cells: npt.NDArray[Any], sizes: Iterable[Any]) -> Indices:
    """Return the number in C order of each cell; `sizes` are those of the axes after the first."""
    numbers = cells[0].astype(np.intp)
    for size, along_axis in zip(sizes, cells[1:], strict=True):
        numbers *= size
        numbers += along_axis
    return np.asarray(numbers)


def _cells_of_curve(component: TensorComponent) -> list["pd.DataFrame"]:
    """Return one row per cell of a main effect; nothing for more features, whose tables are long.

    Outputs are numbered: a component does not know their names.
    """
    import pandas as pd

    if len(component.axes) != 1:
        return []
    (axis,) = component.axes
    n_outputs = component.values.shape[-1]
    effects = {
        "effect" if n_outputs == 1 else f"effect on output {k}": component.values[:, k]
        for k in range(n_outputs)
    }
    return [pd.DataFrame({axis.name: axis.labels(), **effects, "mass": component.mass})]


def tabulate(component: Component, inputs: ModelInputs) -> TensorComponent | None:
    """Return a table that stands for a component in figures; None where there can be none.

    A table stands for itself. The table of another component holds its values at the middle
    of each of its `Drawable.drawing_cells`.

    Parameters
    ----------
    component : Component
        The component.
    inputs : ModelInputs
        How the columns of a table are read.
    """
    if isinstance(component, TensorComponent):
        return component.stored()
    if is_drawable(component):
        axes, mass = component.drawing_cells()
        values = values_on_cells(component, inputs, axes)
        return TensorComponent(component.features, axes, values, mass, inputs)
    return None


def values_on_cells(
    component: Component, inputs: ModelInputs, axes: tuple[FeatureAxis, ...]
) -> Array:
    """Return the values at the middle of each cell, shape (cells..., n_outputs).

    Numeric axes must have bounds, between which the outer cells end.
    """
    specs = [inputs.features[j] for j in component.features]
    along_axes = [cell_values(axis, spec) for axis, spec in zip(axes, specs, strict=True)]
    middles = np.meshgrid(*along_axes, indexing="ij")
    n_cells = middles[0].size
    # Columns that the component does not depend on hold a value that every reader accepts.
    columns = [np.zeros(n_cells)] * len(inputs.features)
    for j, values in zip(component.features, middles, strict=True):
        columns[j] = values.ravel()
    on_cells = component.on_rows(Columns(inputs.features, tuple(columns), n_cells))
    return np.asarray(on_cells.reshape(*middles[0].shape, -1))


def evaluate_each(components: Iterable[Component], columns: Columns) -> Iterable[Array]:
    """Yield the values of each component.

    Every axis is encoded once, all of them together, and what components that are made of the
    same averages have in common is computed once.
    """
    listed = list(components)
    averages: dict[Any, Array] = {}
    found: dict[tuple[int, int], tuple[int, FeatureAxis]] = {}

    def row_of(feature: int, axis: FeatureAxis) -> int:
        return found.setdefault((feature, id(axis)), (len(found), axis))[0]

    places = [
        [*map(row_of, part.features, part.axes)] if is_cell_function(part) else []
        for part in listed
    ]
    cells = place_rows(columns, [j for j, _ in found], [axis for _, axis in found.values()])

    for component, rows in zip(listed, places, strict=True):
        if is_cell_function(component):
            yield component.on_cells(cells[rows])
        elif shares_averages(component):
            yield component.evaluate_with(columns, averages)
        else:
            yield component.on_rows(columns)


def locate_cells(columns: Columns, feature: int, axis: FeatureAxis) -> Indices:
    """Return the cell of each row along one axis.

    Raises
    ------
    InvalidInputError
        If a value is missing or unseen and the axis has no cell for it.
    """
    (cells,) = place_rows(columns, [feature], [axis])
    return np.asarray(cells, dtype=np.intp)


def locate_on_grid(X: Any, grid: Grid, features: Subset) -> npt.NDArray[Any]:
    """Return the cells of the rows of `X` along some features, shape (n_features, n_rows).

    Raises
    ------
    InvalidInputError
        If a value is missing or unseen and the grid has no cell for it.
    """
    columns = read_columns(X, grid.features, match_names=grid.match_names, only=features)
    return place_rows(columns, features, grid.subset_axes(features))


def values_on_rows(component: TensorComponent, rows: Mapping[int, EncodedRows]) -> Array:
    """Return the values of a component on encoded rows, shape (n_rows, n_outputs).

    Parameters
    ----------
    component : TensorComponent
        The component.
    rows : mapping of int to EncodedRows
        The rows on the grid of each order; larger orders share the grid of the largest.
    """
    of_order = rows.get(len(component.features), rows[max(rows)])
    return component.on_cells(of_order.codes[list(component.features)])


def with_finer_mains(
    components: Mapping[Subset, Component],
) -> Iterator[tuple[TensorComponent, TensorComponent]]:
    """Yield each interaction with each main effect of its features that has finer bins."""
    for subset, larger in components.items():
        if len(subset) == 1 or not isinstance(larger, TensorComponent):
            continue
        for j, axis in zip(subset, larger.axes, strict=True):
            main = components.get((j,))
            # The axes of main effects have the cuts of all terms.
            if isinstance(main, TensorComponent) and main.axes[0].n_cells != axis.n_cells:
                yield larger, main


def for_display(component: TensorComponent) -> TensorComponent:
    """Return a table with one cell for all categories of an axis whose labels are not known.

    Its effect is their mean, weighted by mass where they have any.
    """
    stored = component.stored()
    values, mass, raw = stored.values, stored.mass, stored.raw
    for k, axis in enumerate(stored.axes):
        if axis.unnamed:
            own = mass.take(axis.unnamed, axis=k)
            values = _merged(values, own, k, axis)
            raw = None if raw is None else _merged(raw, own, k, axis)
            mass = _with_last(mass, own.sum(axis=k), k, axis)
    axes = tuple(axis.with_unnamed_merged for axis in stored.axes)
    return replace(stored, axes=axes, values=values, mass=mass, raw=raw)


def _merged(table: Array, mass: Array, k: int, axis: FeatureAxis) -> Array:
    """Return effects with the mean of the categories without a label in their place."""
    weights = np.where(mass.sum(axis=k, keepdims=True) > 0, mass, 1.0)[..., None]
    mean = (table.take(axis.unnamed, axis=k) * weights).sum(axis=k) / weights.sum(axis=k)
    return _with_last(table, mean, k, axis)


def _with_last(table: Array, last: Array, k: int, axis: FeatureAxis) -> Array:
    """Return a table with one slice behind the named categories for all without a label."""
    named = np.delete(table, axis.unnamed, axis=k)
    return np.insert(named, axis.n_regular - len(axis.unnamed), last, axis=k)
