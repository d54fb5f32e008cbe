"""Main accumulated local effects of tree ensembles: jumps where the model has them."""

import numpy as np
import numpy.typing as npt

from treepurify.components import TensorComponent
from treepurify.engines.ale.axes import intervals_of_rows
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.functions import ParsedFunction, RowFunction
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import encode_rows
from treepurify.models.ensemble import TreeEnsemble
from treepurify.rows.columns import Columns

__all__ = ["tree_main_effect"]

Array = npt.NDArray[np.float64]


def tree_main_effect(
    f: RowFunction, columns: Columns, shares: Array, axis: AccumulationAxis
) -> TensorComponent:
    """Accumulate the model's jumps at its cuts, each over the rows of its quantile bin.

    The difference of a tree ensemble across a bin is the sum of its jumps at the cuts within
    the bin, so at the quantiles the result is that of `main_effect`; in between it is the
    step function that belongs to the model. Rows with a missing value have effect zero.
    """
    if not isinstance(f, ParsedFunction) or not isinstance(f.model, TreeEnsemble):
        raise InvalidInputError("only tree ensembles have cuts")
    j = axis.feature
    if f.features[j].is_categorical:
        raise InvalidInputError(f"feature {f.features[j].name!r} is categorical")
    cuts = _cuts(f.model, j)
    blank = FeatureAxis(f.features[j].name, cuts, has_missing=f.features[j].has_missing)
    alone = Columns((f.features[j],), (columns.values[j],), columns.n_rows)
    encoded, (cells,) = encode_rows(alone, (blank,))
    points = np.concatenate([[-np.inf], cuts])
    # The cells that lie, at least in part, between the ends of each interval.
    lowest = np.searchsorted(cuts, axis.nodes[:-1], side="right")
    highest = np.searchsorted(cuts, axis.nodes[1:], side="right")
    rows, interval = intervals_of_rows(axis, columns, np.arange(columns.n_rows))
    own = columns.take(rows)
    jump = np.zeros((cells.n_cells, f.n_outputs))
    weight = shares[rows]
    mass = np.bincount(interval, weights=weight, minlength=axis.n_intervals)
    for step in range(int(np.max(highest - lowest, initial=0))):
        at = lowest[interval] + step
        crossing = np.flatnonzero((at < highest[interval]) & (weight > 0))
        if not len(crossing):
            continue
        moved = own.take(crossing)
        cell = at[crossing]
        difference = f(_at(moved, j, points[cell + 1])) - f(_at(moved, j, _inside(points, cell)))
        share = weight[crossing] / mass[interval[crossing]]
        np.add.at(jump, cell + 1, share[:, None] * difference)
    values = jump.cumsum(axis=0)
    probability: Array = np.zeros(cells.n_cells)
    np.add.at(probability, encoded.codes[0], shares)
    known = np.arange(cells.n_cells) < cells.n_regular
    values[~known] = 0.0
    standing = probability * known
    values[known] -= standing @ values / max(float(standing.sum()), 1e-300)
    return TensorComponent((j,), (cells,), values, probability, f.inputs)


def _cuts(ensemble: TreeEnsemble, feature: int) -> Array:
    """Return the cuts of one feature, sorted; see `ensemble_cuts` for those of all."""
    own = ensemble.cut[(ensemble.feature == feature) & (ensemble.category_ptr < 0)]
    return np.unique(own[own > -np.inf])


def _inside(points: Array, cell: npt.NDArray[np.intp]) -> Array:
    """Return a value in each cell: its lower end, or just below the first cut."""
    below = np.nextafter(points[1], -np.inf)
    return np.where(cell == 0, below, points[cell])


def _at(rows: Columns, feature: int, values: Array) -> Columns:
    changed = list(rows.values)
    changed[feature] = values
    return Columns(rows.features, tuple(changed), rows.n_rows)
