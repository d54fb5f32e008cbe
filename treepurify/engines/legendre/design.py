"""The columns of the regression: products of functions over densities, block by block."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from treepurify.engines.legendre.densities import Density, is_one
from treepurify.engines.legendre.scaling import Axis
from treepurify.rows.columns import Columns
from treepurify.typing import Array, Indices

Subset = tuple[int, ...]

# A block is centred, weighed and multiplied: a larger one would come from memory three times.
_BLOCK_BYTES = 16 << 20
_LEAST_ROWS = 256
_MOST_ROWS = 8192


@dataclass(frozen=True, eq=False)
class LegendreBasis:
    """Functions ``prod_j phi_j(x_j) / f_S(x_S)`` of a number of subsets (Ferrere et al., eq. 7).

    The factor of equation 7 that is the same for all functions of as many features is left
    out: `TermSelection` decides on scales.

    Parameters
    ----------
    axes : mapping of int to Axis
        The features that vary.
    densities : mapping of tuple of int to Density
        The subsets, in the order of their columns, and their densities.
    degree : int
        Largest degree in each feature.
    """

    axes: Mapping[int, Axis]
    densities: Mapping[Subset, Density]
    degree: int

    def shape(self, subset: Subset) -> tuple[int, ...]:
        """Return the number of functions of each feature of a subset."""
        return tuple(self.axes[j].n_functions(self.degree) for j in subset)

    @cached_property
    def slices(self) -> dict[Subset, slice]:
        """The columns of each subset."""
        sizes = [int(np.prod(self.shape(subset))) for subset in self.densities]
        ends = np.cumsum([0, *sizes]).tolist()
        between = zip(self.densities, pairwise(ends), strict=True)
        return {subset: slice(start, stop) for subset, (start, stop) in between}

    @cached_property
    def owner(self) -> Indices:
        """The number of the subset that each column is of."""
        sizes = [part.stop - part.start for part in self.slices.values()]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def without_density(self) -> frozenset[Subset]:
        """The subsets whose functions are divided by nothing."""
        return frozenset(s for s, density in self.densities.items() if is_one(density, self.axes))

    def columns_of(self, subsets: Sequence[Subset]) -> Indices:
        """Return the positions of the columns of some subsets."""
        every = np.arange(self.n_columns)
        return np.concatenate([every[:0], *(every[self.slices[subset]] for subset in subsets)])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return max((part.stop for part in self.slices.values()), default=0)


def count_columns(axes: Mapping[int, Axis], order: int, degree: int) -> int:
    """Return the number of columns of all subsets of up to `order` features."""
    by_order = [1] + [0] * order
    for axis in axes.values():
        n_functions = axis.n_functions(degree)
        for size in range(order, 0, -1):
            by_order[size] += n_functions * by_order[size - 1]
    return sum(by_order[1:])


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Scaled rows.

    Parameters
    ----------
    coordinates : mapping of int to ndarray of float64, shape (n_rows,)
        Scaled values or levels of each feature that varies.
    weights : ndarray of float64, shape (n_rows,)
        Weight of each row; sums to one.
    """

    coordinates: Mapping[int, Array]
    weights: Array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weights)

    def block(self, start: int, stop: int) -> dict[int, Array]:
        """Return the coordinates of some rows."""
        return {j: values[start:stop] for j, values in self.coordinates.items()}


def scaled_rows(axes: Mapping[int, Axis], columns: Columns, weights: Array) -> ScaledRows:
    """Return the rows in the coordinates of the axes."""
    return ScaledRows({j: axis.coordinates(columns.values[j]) for j, axis in axes.items()}, weights)


def rows_a_block(n_columns: int) -> int:
    """Return how many rows of a design are made at a time."""
    return int(np.clip(_BLOCK_BYTES // (8 * max(n_columns, 1)), _LEAST_ROWS, _MOST_ROWS))


def design_blocks(
    basis: LegendreBasis, rows: ScaledRows, subsets: Sequence[Subset] | None = None
) -> Iterator[tuple[int, int, Array]]:
    """Yield ``(start, stop, columns)`` of the rows, columns of shape (stop - start, n_columns).

    The array is written to again in the next step.
    """
    wanted = list(basis.densities) if subsets is None else list(subsets)
    sizes = [int(np.prod(basis.shape(subset))) for subset in wanted]
    height = rows_a_block(sum(sizes))
    # Columns are rows in memory: whole columns are written, and BLAS takes either order.
    memory = np.empty((sum(sizes), min(height, rows.n_rows)))
    for start in range(0, rows.n_rows, height):
        stop = min(start + height, rows.n_rows)
        block = memory[:, : stop - start]
        fill_design(basis, rows.block(start, stop), wanted, block)
        yield start, stop, block.T


def fill_design(
    basis: LegendreBasis,
    coordinates: Mapping[int, Array],
    subsets: Sequence[Subset],
    out: Array,
    without: int | None = None,
) -> None:
    """Write the columns of some subsets, one row of `out` per column.

    The functions of the feature `without` are left out of the products.
    """
    used = {j for subset in subsets for j in subset if j != without}
    functions = {
        j: np.ascontiguousarray(basis.axes[j].functions(coordinates[j], basis.degree).T)
        for j in used
    }
    known: dict[Any, Any] = {}
    at = 0
    for subset in subsets:
        factors = [functions[j] for j in subset if j != without]
        if subset not in basis.without_density:
            density = basis.densities[subset]
            values = np.maximum(density.raw(basis.axes, coordinates, known), density.floor)
            factors = [factors[0] / values, *factors[1:]] if factors else [1.0 / values[None]]
        product = factors[0] if factors else np.ones((1, out.shape[1]))
        for factor in factors[1:-1]:
            product = (product[:, None] * factor).reshape(-1, product.shape[-1])
        if len(factors) <= 1:
            size = len(product)
            out[at : at + size] = product
        else:
            last = factors[-1]
            size = len(product) * len(last)
            target = out[at : at + size].reshape(len(product), len(last), -1)
            np.multiply(product[:, None], last, out=target)
        at += size
