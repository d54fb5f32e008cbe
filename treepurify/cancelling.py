"""Effects that largely cancel each other on the rows that are the measure."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from treepurify.components import TensorComponent
from treepurify.grid_rows import GridRows
from treepurify.grids.grid import Subset
from treepurify.typing import Array

__all__ = ["LEAST_SHARE", "CancellingEffects", "cancelling_effects"]

# Of the model's variance: smaller effects do not mislead anybody.
LEAST_SHARE = 0.01
# Of the summed variances: what effects that largely cancel leave at most.
_MOST_LEFT = 1 / 3
_ROWS_PER_BLOCK = 1 << 13


@dataclass(frozen=True)
class CancellingEffects:
    """A group of effects that largely cancel.

    Parameters
    ----------
    members : tuple of tuple of int
        The effects.
    correlation : float
        The lowest correlation of two of them.
    variance : float
        Variance of their sum, added up over the outputs.
    """

    members: tuple[Subset, ...]
    correlation: float
    variance: float


def cancelling_effects(
    components: Mapping[Subset, TensorComponent], variance: float, rows: GridRows | None
) -> tuple[CancellingEffects, ...]:
    """Return the groups of effects that largely cancel on rows; none without rows.

    Parameters
    ----------
    components : mapping of tuple of int to TensorComponent
        The effects.
    variance : float
        Variance of the model, outputs added up.
    rows : GridRows, optional
        The rows that are the measure in the cells of the effects.

    Notes
    -----
    Two effects cancel where the variance of their sum is less than a third of the sum of their
    variances. This implies that their correlation is below -2/3, and that neither is so much
    larger that the other hardly changes it. Only effects with at least 1% of the model's
    variance are compared. The two that cancel most become a group, whose sum then counts as
    one effect, and so on until no two cancel. Outputs are added up.
    """
    if rows is None or not variance > 0:
        return ()
    least = LEAST_SHARE * variance
    candidates = [s for s, part in components.items() if float(np.sum(part.variance)) >= least]
    if len(candidates) < 2:
        return ()
    products = _covariances_of([components[subset] for subset in candidates], rows)
    deviations = np.sqrt(np.maximum(np.diag(products), np.finfo(float).tiny))
    correlations = products / np.outer(deviations, deviations)
    return tuple(
        CancellingEffects(
            tuple(candidates[i] for i in members),
            max(float(correlations[np.ix_(members, members)].min()), -1.0),
            max(float(products[np.ix_(members, members)].sum()), 0.0),
        )
        for members in _merged(products)
    )


def _covariances_of(components: list[TensorComponent], rows: GridRows) -> Array:
    """Return the covariances of effects over rows, outputs added up."""
    size, shares = len(components), rows.shares
    cells = [rows.cells(component.features) for component in components]
    means, products = np.zeros((size, components[0].values.shape[-1])), np.zeros((size, size))
    for start in range(0, rows.n_rows, _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        values = np.stack(
            [
                component.on_cells(of_component[:, block])
                for component, of_component in zip(components, cells, strict=True)
            ]
        )
        weighted = values * shares[block, None]
        means += weighted.sum(axis=1)
        products += weighted.reshape(size, -1) @ values.reshape(size, -1).T
    return np.asarray(products - means @ means.T)


def _merged(products: Array) -> list[list[int]]:
    """Return the positions in each group, from the covariances of the effects."""
    sums = products.copy()
    members = [[i] for i in range(len(products))]
    while True:
        together = np.diag(sums)[:, None] + np.diag(sums)
        safe = np.where(together > 0, together, 1.0)
        left = np.where(together > 0, 1.0 + 2.0 * sums / safe, 1.0)
        np.fill_diagonal(left, 1.0)
        first, second = np.unravel_index(np.argmin(left), left.shape)
        if not left[first, second] < _MOST_LEFT:
            return [sorted(group) for group in members if len(group) > 1]
        members[first] += members[second]
        members[second] = []
        sums[first] += sums[second]
        sums[:, first] += sums[:, second]
        sums[second] = sums[:, second] = 0.0
