"""Nodes of accumulated local effects: quantiles, and categories ordered by similarity."""

import numpy as np
import numpy.typing as npt

from treepurify.columns import Columns
from treepurify.effects.accumulated import AccumulationAxis

__all__ = ["accumulation_axis", "intervals_of_rows", "node_weights", "similarity_order"]

Array = npt.NDArray[np.float64]

_QUANTILES = 100


def accumulation_axis(
    columns: Columns, shares: Array, feature: int, bins: int
) -> AccumulationAxis | None:
    """Return the nodes of one feature; None where it has fewer than two values.

    Numeric features: quantiles that are values of the data, so that a bin holds about the
    same number of rows. Categorical features: the codes that occur, ordered by similarity.
    """
    values = columns.values[feature]
    present = np.isfinite(values) & (shares > 0)
    if columns.features[feature].is_categorical:
        present &= values < columns.features[feature].n_codes
        codes = np.unique(values[present]).astype(np.intp)
        if len(codes) < 2:
            return None
        ordered = similarity_order(columns, shares, feature, codes)
        return AccumulationAxis(feature, ordered.astype(np.float64), is_categorical=True)
    found = np.unique(
        np.quantile(values[present], np.linspace(0, 1, bins + 1), method="inverted_cdf")
        if present.any()
        else np.zeros(0)
    )
    if len(found) < 2:
        return None
    return AccumulationAxis(feature, found.astype(np.float64), is_categorical=False)


def similarity_order(
    columns: Columns, shares: Array, feature: int, codes: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Order categories so that neighbours have similar values of the other features.

    The distance of two categories sums, over the other features, the largest difference of
    their distribution functions, or half the sum of differences of category shares. The first
    coordinate of classical multidimensional scaling orders them (Apley and Zhu 2020, appendix
    E); the lowest code comes in the first half.
    """
    if len(codes) < 3:
        return codes
    own = columns.values[feature]
    members = [(own == code) * shares for code in codes]
    distance = np.zeros((len(codes), len(codes)))
    for j, values in enumerate(columns.values):
        if j == feature:
            continue
        categorical = columns.features[j].is_categorical
        points = _points(values, categorical=categorical)
        compare = np.equal if categorical else np.less_equal
        profile = np.array(
            [
                [weight[compare(values, p)].sum() / weight.sum() for p in points]
                for weight in members
            ]
        )
        gaps = np.abs(profile[:, None] - profile[None])
        distance += gaps.sum(axis=2) / 2 if categorical else gaps.max(axis=2, initial=0.0)
    centring = np.eye(len(codes)) - 1.0 / len(codes)
    _, vectors = np.linalg.eigh(-0.5 * centring @ distance**2 @ centring)
    # Rounded: categories that are alike keep the order of their codes on every machine.
    order = np.argsort(np.round(vectors[:, -1], 10), kind="stable")
    if int(np.flatnonzero(order == 0)[0]) > (len(codes) - 1) / 2:
        order = order[::-1]
    return codes[order]


def _points(values: npt.NDArray[np.floating], *, categorical: bool) -> Array:
    finite = values[np.isfinite(values)]
    if categorical:
        return np.unique(finite).astype(np.float64)
    if not len(finite):
        return np.zeros(0)
    return np.unique(np.quantile(finite, np.arange(_QUANTILES) / _QUANTILES)).astype(np.float64)


def intervals_of_rows(
    axis: AccumulationAxis, columns: Columns, rows: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return rows and the interval whose local difference each of them takes part in.

    A numeric value lies in one interval; a category takes part in the steps to both of its
    neighbours. Rows without a place take part in none.
    """
    values = columns.values[axis.feature][rows]
    if not axis.is_categorical:
        known = np.isfinite(values)
        found = np.searchsorted(axis.nodes, values[known], side="left") - 1
        return rows[known], np.clip(found, 0, axis.n_intervals - 1)
    rank = axis.place(values)
    above = np.isfinite(rank) & (rank < axis.n_intervals)
    below = np.isfinite(rank) & (rank > 0)
    own = np.concatenate([rows[above], rows[below]])
    interval = np.concatenate([rank[above], rank[below] - 1]).astype(np.intp)
    order = np.argsort(own, kind="stable")
    return own[order], interval[order]


def node_weights(
    axis: AccumulationAxis, columns: Columns, rows: npt.NDArray[np.intp]
) -> list[tuple[npt.NDArray[np.intp], Array]]:
    """Return the nodes that stand for the rows, as pairs of node and share of the row.

    A numeric value counts half at each end of its bin, a category at its own node. Rows
    without a place count nowhere.
    """
    values = columns.values[axis.feature][rows]
    if axis.is_categorical:
        rank = axis.place(values)
        known = np.isfinite(rank)
        return [(np.where(known, rank, 0).astype(np.intp), known.astype(np.float64))]
    known = np.isfinite(values)
    found = np.searchsorted(axis.nodes, np.where(known, values, axis.nodes[0]), side="left") - 1
    first = np.clip(found, 0, axis.n_intervals - 1)
    half = 0.5 * known
    return [(first, half), (first + 1, half)]
