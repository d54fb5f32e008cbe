"""Effects that are accumulated from node to node: accumulated local effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify._kernels.interpolate import interpolate_pair
from treepurify.components import OnRows
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.drawing import cells_between
from treepurify.grids.grid import Subset
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.terms import effect_title
from treepurify.typing import Array


@dataclass(frozen=True, eq=False)
class AccumulationAxis:
    """The nodes along one feature, between which local effects are accumulated.

    Parameters
    ----------
    feature : int
        Position of the feature.
    nodes : ndarray of float64, shape (n_nodes,)
        Numeric: the edges of the quantile bins, increasing; a bin holds its upper edge.
        Categorical: the codes, ordered so that neighbours are similar.
    is_categorical : bool
        Whether the nodes are codes.
    """

    feature: int
    nodes: Array
    is_categorical: bool

    @property
    def n_intervals(self) -> int:
        """Number of steps between neighbouring nodes."""
        return len(self.nodes) - 1

    @property
    def n_places(self) -> int:
        """Number of places that rows have: intervals of a numeric feature, nodes of codes."""
        return len(self.nodes) if self.is_categorical else self.n_intervals

    @property
    def positions(self) -> Array | None:
        """The nodes of a numeric feature; None for codes, which have no distances."""
        return None if self.is_categorical else self.nodes

    def place(self, values: npt.NDArray[Any]) -> Array:
        """Return the position of each value on the scale of node numbers; NaN if it has none.

        Numeric values outside the nodes are placed on the outermost ones.
        """
        if not self.is_categorical:
            steps = np.arange(len(self.nodes), dtype=np.float64)
            placed = np.interp(values, self.nodes, steps)
            return np.where(np.isnan(values), np.nan, placed)
        largest = int(self.nodes.max(initial=0))
        rank = np.full(largest + 2, np.nan)
        rank[self.nodes.astype(np.intp)] = np.arange(len(self.nodes))
        known = np.isfinite(values) & (values <= largest) & (values >= 0)
        return np.asarray(rank[np.where(known, values, largest + 1).astype(np.intp)])


@dataclass(frozen=True, eq=False, repr=False)
class AccumulatedComponent(OnRows):
    """A function of one or two features given at nodes, linear in between.

    Missing values and categories without a node have effect zero: there is no neighbour from
    which a difference could be accumulated.

    Parameters
    ----------
    axes : tuple of AccumulationAxis
        The nodes along each feature, features increasing.
    values : ndarray of float64, shape (n_nodes..., n_outputs)
        Effect at the nodes.
    standard_error : ndarray of float64, shape (n_nodes..., n_outputs)
        Standard error of the effect at the nodes; NaN where it is not estimated.
    inputs : tuple of FeatureSpec
        How the columns of a table are read.
    match_names : bool
        Whether tables are matched by column name.
    variance : ndarray of float64, shape (n_outputs,)
        Variance over the rows it was estimated from.
    mean_absolute : ndarray of float64, shape (n_outputs,)
        Mean absolute value over these rows.
    mass : ndarray of float64, shape (n_intervals or n_codes, ...)
        Share of these rows between the nodes of a numeric feature, at the codes of a
        categorical one.
    """

    axes: tuple[AccumulationAxis, ...]
    values: Array
    standard_error: Array
    inputs: tuple[FeatureSpec, ...]
    match_names: bool
    variance: Array
    mean_absolute: Array
    mass: Array

    def __repr__(self) -> str:
        """Return the features and the number of nodes."""
        nodes = " x ".join(str(len(axis.nodes)) for axis in self.axes)
        deviation = ", ".join(f"{value:.4g}" for value in np.sqrt(self.variance))
        title = effect_title(self.inputs[axis.feature].name for axis in self.axes)
        return f"{title}: interpolated between {nodes} points, standard deviation {deviation}"

    @property
    def features(self) -> Subset:
        """Positions of the features, increasing."""
        return tuple(axis.feature for axis in self.axes)

    def on_rows(self, X: Any) -> Array:
        """Return the values on the rows of `X`, shape (n_rows, n_outputs)."""
        columns = read_columns(X, self.inputs, match_names=self.match_names, only=self.features)
        return self.evaluate_with(columns, {})

    def evaluate_with(self, columns: Columns, averages: dict[Any, Array]) -> Array:
        """Return the same, with the places of the rows along a feature that are known already."""
        placed = []
        for axis in self.axes:
            key = axis.feature, axis.nodes.tobytes()
            if key not in averages:
                averages[key] = axis.place(columns.values[axis.feature])
            placed.append(averages[key])
        return interpolate(self.values, placed)

    def drawing_cells(self) -> tuple[tuple[FeatureAxis, ...], Array]:
        """Return fine axes between the nodes, and the mass of their cells."""
        specs = [self.inputs[axis.feature] for axis in self.axes]
        return cells_between(specs, [axis.positions for axis in self.axes], self.mass)

    def errors_at_nodes(self) -> tuple[Array, Array] | None:
        """Return the nodes of a main effect and its standard errors there; None for a pair."""
        return None if len(self.axes) > 1 else (self.axes[0].nodes, self.standard_error)

    def band(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the lower and upper bound of the effect at the nodes.

        They are pointwise and hold for the sampling of the rows, given the bins.
        """
        from scipy.special import ndtri

        width = float(ndtri(0.5 + level / 2)) * self.standard_error
        return self.values - width, self.values + width


def interpolate(values: Array, placed: Sequence[Array]) -> Array:
    """Return values at nodes, linear or bilinear in between, at places: shape (n_rows, n_outputs).

    Parameters
    ----------
    values : ndarray of float64, shape (n_nodes..., n_outputs)
        The values at the nodes.
    placed : sequence of ndarray of float64, shape (n_rows,)
        Position of each row on the scale of node numbers, along each feature; the value of a row
        that has none, NaN, is zero.
    """
    # One feature is two, of which the other stays on its only node.
    first, second = placed if len(placed) > 1 else (placed[0], np.zeros_like(placed[0]))
    table = values if len(placed) > 1 else values[:, None]
    total = np.zeros((len(first), values.shape[-1]))
    interpolate_pair(np.ascontiguousarray(table), first, second, total)
    return total
