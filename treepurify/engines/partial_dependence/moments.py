"""Covariances of the terms of an ensemble with the model, over the background rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treepurify.components import Component, TensorComponent, values_on_rows
from treepurify.engines.partial_dependence.pattern_component import PatternComponent
from treepurify.grids.grid import EncodedRows, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns
from treepurify.threads import map_threads

__all__ = ["BackgroundCovariances", "Moments", "background_moments"]

Array = npt.NDArray[np.float64]

# Few enough that the values of a term on them stay small, whatever the size of the background.
_ROWS_A_BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments over the background.

    Parameters
    ----------
    covariances : mapping of tuple of int to ndarray of float64, shape (n_outputs,)
        Covariance of each term with the model; that of the rest stands under ().
    rest_variance : ndarray of float64, shape (n_outputs,)
        Variance of the model minus all terms.
    mean : ndarray of float64, shape (n_outputs,)
        Mean of the model.
    """

    covariances: Mapping[Subset, Array]
    rest_variance: Array
    mean: Array


def background_moments(
    parsed: TreeEnsemble,
    columns: Columns,
    rows: EncodedRows,
    intercept: Array,
    components: Mapping[Subset, Component],
) -> Moments:
    """Return the moments over the background, which is read block by block.

    Parameters
    ----------
    parsed : TreeEnsemble
        The model.
    columns : Columns
        The background rows.
    rows : EncodedRows
        The same rows on the grid, with their weights.
    intercept : ndarray of float64, shape (n_outputs,)
        Mean of the model up to rounding: sums are taken around it.
    components : mapping of tuple of int to Component
        The terms.
    """

    def sums_of_block(start: int) -> tuple[Array, Array, Array, Array]:
        block = slice(start, min(start + _ROWS_A_BLOCK, columns.n_rows))
        return _block_sums(parsed, columns, rows, block, intercept, components)

    starts = range(0, columns.n_rows, _ROWS_A_BLOCK)
    total = float(columns.n_rows) if rows.weights is None else float(rows.weights.sum())
    sums = [
        np.sum(parts, axis=0) / total
        for parts in zip(*map_threads(sums_of_block, starts), strict=True)
    ]
    products, values, squares, mean = sums
    covariance = products - values * mean
    found = dict(zip((*components, ()), covariance, strict=True))
    return Moments(found, squares - values[-1] ** 2, intercept + mean)


def _block_sums(
    parsed: TreeEnsemble,
    columns: Columns,
    rows: EncodedRows,
    block: slice,
    intercept: Array,
    components: Mapping[Subset, Component],
) -> tuple[Array, Array, Array, Array]:
    """Return weighted sums: terms times model, terms, squares of the rest, and the model.

    The rest is the last term. They are no matrix products: waking the threads of BLAS takes
    longer than these sums.
    """
    own = Columns(
        columns.features, tuple(v[block] for v in columns.values), block.stop - block.start
    )
    weights = None if rows.weights is None else rows.weights[block]
    encoded = {1: EncodedRows(rows.codes[:, block])}
    centred = parsed.margin(own, precision="float64") - intercept
    weighted = centred if weights is None else centred * weights[:, None]
    rest = centred.copy()
    products, sums = [], []
    for component in components.values():
        if isinstance(component, TensorComponent):
            values = values_on_rows(component, encoded)
        elif isinstance(component, PatternComponent):
            values = component.on_background(block)
        else:
            raise TypeError(f"{type(component).__name__} is no term of an ensemble")
        products.append(np.einsum("ik,ik->k", values, weighted))
        sums.append(_weighted_sum(values, weights))
        rest -= values
    products.append(np.einsum("ik,ik->k", rest, weighted))
    sums.append(_weighted_sum(rest, weights))
    squares = _weighted_sum(rest**2, weights)
    return np.array(products), np.array(sums), squares, _weighted_sum(centred, weights)


def _weighted_sum(values: Array, weights: Array | None) -> Array:
    if weights is None:
        return np.asarray(values.sum(axis=0))
    return np.asarray(np.einsum("i,ik->k", weights, values))


@dataclass(frozen=True, eq=False)
class BackgroundCovariances(Mapping[Subset, Array]):
    """The covariances of a complete decomposition, computed when they are first asked for.

    Terms of three and more features are evaluated on every background row for them, which
    takes as long as evaluating the decomposition does.

    Parameters
    ----------
    parsed : TreeEnsemble
        The model.
    columns : Columns
        The background rows.
    rows : EncodedRows
        The same rows on the grid.
    intercept : ndarray of float64, shape (n_outputs,)
        Intercept of the decomposition.
    components : mapping of tuple of int to Component
        Its terms.
    """

    parsed: TreeEnsemble
    columns: Columns
    rows: EncodedRows
    intercept: Array
    components: Mapping[Subset, Component]

    @cached_property
    def _found(self) -> dict[Subset, Array]:
        moments = background_moments(
            self.parsed, self.columns, self.rows, self.intercept, self.components
        )
        return {subset: values for subset, values in moments.covariances.items() if subset}

    def __getitem__(self, subset: Subset) -> Array:
        """Return the covariance of one term with the model, shape (n_outputs,)."""
        return self._found[subset]

    def __iter__(self) -> Iterator[Subset]:
        """Iterate over the subsets."""
        return iter(self.components)

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.components)
