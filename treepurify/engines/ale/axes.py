"""Nodes of accumulated local effects: quantiles, and categories ordered by similarity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief, read_features
from treepurify.budget import DEFAULT_BUDGET, check_budget
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import RowWeights, row_quantiles, row_shares
from treepurify.typing import Array, Indices

__all__ = [
    "LEAST_ORDERED",
    "SIMILARITY_QUANTILES",
    "Nodes",
    "accumulation_axis",
    "check_bins",
    "check_categories",
    "chosen_axes",
    "chosen_nodes",
    "gaps_of_distributions",
    "intervals_of_rows",
    "node_weights",
    "ordered_codes",
    "similarity_order",
    "with_ends",
]

Nodes = Mapping[str | int, npt.ArrayLike]

LEAST_ORDERED = 3
"""Fewest categories that are ordered: two have one order only."""
SIMILARITY_QUANTILES = 100
"""Points at which the distribution functions of categories are compared."""
# Distances, their squares centred from both sides, and what finding eigenvectors takes.
_TABLES_OF_CATEGORIES = 8
# Shares, places and values of quantiles, and what rounding and sorting them takes.
_TABLES_OF_QUANTILES = 8


def accumulation_axis(
    columns: Columns,
    weights: RowWeights,
    feature: int,
    bins: int,
    memory_budget: int = DEFAULT_BUDGET,
) -> AccumulationAxis | None:
    """Return the nodes of one feature; None where it has fewer than two values.

    Numeric features: quantiles that are values of the data, so that a bin holds about the
    same weight of rows. Categorical features: the codes that occur, ordered by similarity.
    Weights are positive, and None where they are equal; whole numbers count like repeated rows.
    """
    values = columns.values[feature]
    present = np.isfinite(values)
    if columns.features[feature].is_categorical:
        present &= values < columns.features[feature].n_codes
        codes = np.unique(values[present]).astype(np.intp)
        if len(codes) < 2:
            return None
        ordered = similarity_order(columns, weights, feature, codes, memory_budget)
        return AccumulationAxis(feature, ordered.astype(np.float64), is_categorical=True)
    if not present.any():
        return None
    present_weights = None if weights is None else weights[present]
    check_bins(columns.features[feature].name, bins, memory_budget)
    levels = np.linspace(0, 1, bins + 1)
    nodes = np.unique(row_quantiles(values[present], present_weights, levels))
    if len(nodes) < 2:
        return None
    return AccumulationAxis(feature, nodes.astype(np.float64), is_categorical=False)


def check_bins(name: str, bins: int, memory_budget: int) -> None:
    """Raise `MemoryBudgetError` if so many quantiles would not fit."""
    check_budget(
        8 * _TABLES_OF_QUANTILES * (bins + 1),
        memory_budget,
        f"{bins} quantiles of {name!r}",
        "Pass fewer bins.",
    )


def chosen_axes(columns: Columns, nodes: Any) -> dict[int, AccumulationAxis]:
    """Return the axes whose nodes a caller chose, by position of the feature.

    Raises
    ------
    InvalidInputError
        If the nodes are not increasing numbers, or the feature has categories or no values.
    """
    axes = {}
    for j, given in chosen_nodes(columns.features, nodes).items():
        values = columns.values[j][np.isfinite(columns.values[j])]
        axes[j] = with_ends(columns.features[j], j, given, values)
    return axes


def chosen_nodes(features: Sequence[FeatureSpec], nodes: Any) -> dict[int, Array]:
    """Return the nodes that a caller chose, by position of the feature.

    Raises
    ------
    InvalidInputError
        If they are not increasing numbers, or the feature has categories.
    """
    if nodes is None:
        return {}
    if not isinstance(nodes, Mapping):
        raise InvalidInputError(
            f'nodes must be numbers by feature, such as {{"age": [20, 40, 60]}}; got {brief(nodes)}'
        )
    names = [spec.name for spec in features]
    chosen = {}
    for key, wanted in nodes.items():
        (j,) = read_features((key,), names)
        if features[j].is_categorical:
            raise _nothing_to_choose(names[j])
        chosen[j] = _increasing(names[j], wanted)
    return chosen


def with_ends(
    spec: FeatureSpec, feature: int, given: Array, values: npt.NDArray[np.floating]
) -> AccumulationAxis:
    """Return an axis of chosen nodes.

    The smallest and largest of the finite values become nodes where they lie beyond the outer
    ones: no row is moved further than to the ends of an interval that it is in.
    """
    if not len(values):
        raise _nothing_to_choose(spec.name)
    ends = [values.min(), values.max()]
    inner = np.concatenate([given, ends[:1] * bool(ends[0] < given[0])])
    inner = np.unique(np.concatenate([inner, ends[1:] * bool(ends[1] > given[-1])]))
    return AccumulationAxis(feature, inner.astype(np.float64), is_categorical=False)


def _nothing_to_choose(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"nodes of {name!r}: it has categories or no values, so that there is nothing to choose; "
        "leave it out of nodes"
    )


def _increasing(name: str, wanted: npt.ArrayLike) -> Array:
    try:
        given = np.asarray(wanted, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros(0)
    is_line = given.ndim == 1 and len(given) > 1 and bool(np.isfinite(given).all())
    if not is_line or not (np.diff(given) > 0).all():
        raise InvalidInputError(
            f"nodes of {name!r} must be two or more finite, increasing numbers, got {brief(wanted)}"
        )
    return given


def similarity_order(
    columns: Columns,
    weights: RowWeights,
    feature: int,
    codes: Indices,
    memory_budget: int = DEFAULT_BUDGET,
) -> Indices:
    """Order categories so that neighbours have similar values of the other features.

    The distance of two categories sums, over the other features, the largest difference of
    their distribution functions, or half the sum of differences of category shares. The first
    coordinate of classical multidimensional scaling orders them (Apley and Zhu 2020, appendix
    E); the lowest code comes in the first half.
    """
    if len(codes) < LEAST_ORDERED:
        return codes
    check_categories(columns.features[feature].name, len(codes), memory_budget)
    code = columns.values[feature]
    rank = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
    # Rows of other codes belong to no category.
    present = np.flatnonzero(codes[rank] == code)
    rank, weight = rank[present], row_shares(columns.n_rows, weights)[present]
    weight = weight / np.bincount(rank, weights=weight, minlength=len(codes))[rank]
    distance = np.zeros((len(codes), len(codes)))
    for j, values in enumerate(columns.values):
        if j == feature:
            continue
        if columns.features[j].is_categorical:
            distance += _share_distance(rank, weight, values[present], len(codes))
        else:
            points = _quantiles(values, weights)
            distance += _distribution_distance(rank, weight, values[present], points, len(codes))
    return ordered_codes(codes, distance)


def check_categories(name: str, n_codes: int, memory_budget: int) -> None:
    """Raise `MemoryBudgetError` if the distances of so many categories would not fit."""
    check_budget(
        8 * _TABLES_OF_CATEGORIES * n_codes**2,
        memory_budget,
        f"ordering the {n_codes} categories of {name!r}",
        "Join rare categories before training.",
    )


def ordered_codes(codes: Indices, distance: Array) -> Indices:
    """Return codes so that neighbours are near to each other; see `similarity_order`."""
    centring = np.eye(len(codes)) - 1.0 / len(codes)
    _, vectors = np.linalg.eigh(-0.5 * centring @ distance**2 @ centring)
    # Rounded: categories that are alike keep the order of their codes on every machine.
    order = np.argsort(np.round(vectors[:, -1], 10), kind="stable")
    if int(np.flatnonzero(order == 0)[0]) > (len(codes) - 1) / 2:
        order = order[::-1]
    return codes[order]


def _quantiles(values: npt.NDArray[np.floating], weights: RowWeights) -> Array:
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(0)
    finite_weights = None if weights is None else weights[finite]
    levels = np.arange(SIMILARITY_QUANTILES) / SIMILARITY_QUANTILES
    quantiles = row_quantiles(values[finite], finite_weights, levels)
    return np.unique(quantiles).astype(np.float64)


def _distribution_distance(
    rank: Indices, weight: Array, values: npt.NDArray[np.floating], points: Array, n_codes: int
) -> Array:
    """Return the largest differences of the distribution functions of all pairs of categories."""
    # Missing values come after all points: no distribution function counts them.
    place = np.searchsorted(points, values)
    width = len(points) + 1
    counts = np.bincount(rank * width + place, weights=weight, minlength=n_codes * width)
    return gaps_of_distributions(counts.astype(np.float64).reshape(n_codes, width)[:, :-1])


def gaps_of_distributions(shares: Array) -> Array:
    """Return the largest differences of the distribution functions of all pairs of categories.

    Parameters
    ----------
    shares : ndarray of float64, shape (n_codes, n_points)
        Share of the rows of each category up to each point, from the point before on.
    """
    from scipy.spatial.distance import cdist

    if not shares.shape[1]:
        return np.zeros((len(shares), len(shares)))
    profile = shares.cumsum(axis=1)
    return np.asarray(cdist(profile, profile, "chebyshev"))


def _share_distance(
    rank: Indices, weight: Array, values: npt.NDArray[np.floating], n_codes: int
) -> Array:
    """Return half the sums of the differences of the shares of another feature's categories."""
    from scipy.spatial.distance import cdist

    known = np.isfinite(values)
    rank, weight = rank[known], weight[known]
    other, place = np.unique(values[known], return_inverse=True)
    order = np.argsort(place, kind="stable")
    rank, weight, place = rank[order], weight[order], place[order]
    distance = np.zeros((n_codes, n_codes))
    # A few categories of the other feature at a time, so that no table of both is needed.
    width = max(n_codes, SIMILARITY_QUANTILES)
    for start in range(0, len(other), width):
        block = slice(*np.searchsorted(place, [start, start + width]))
        at = rank[block] * width + place[block] - start
        counts = np.bincount(at, weights=weight[block], minlength=n_codes * width)
        shares = counts.reshape(n_codes, width)
        distance += cdist(shares, shares, "cityblock")
    return distance / 2


def intervals_of_rows(
    axis: AccumulationAxis, columns: Columns, rows: Indices
) -> tuple[Indices, Indices]:
    """Return rows and the interval whose local difference each of them takes part in.

    A numeric value lies in one interval; a category takes part in the steps to both of its
    neighbours. Rows without a place take part in none.
    """
    values = columns.values[axis.feature][rows]
    if not axis.is_categorical:
        known = np.isfinite(values)
        node_before = np.searchsorted(axis.nodes, values[known], side="left") - 1
        return rows[known], np.clip(node_before, 0, axis.n_intervals - 1)
    rank = axis.place(values)
    above = np.isfinite(rank) & (rank < axis.n_intervals)
    below = np.isfinite(rank) & (rank > 0)
    moved = np.concatenate([rows[above], rows[below]])
    interval = np.concatenate([rank[above], rank[below] - 1]).astype(np.intp)
    order = np.argsort(moved, kind="stable")
    return moved[order], interval[order]


def node_weights(
    axis: AccumulationAxis, columns: Columns, rows: Indices
) -> list[tuple[Indices, Array]]:
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
    placed = np.where(known, values, axis.nodes[0])
    first = np.clip(np.searchsorted(axis.nodes, placed, side="left") - 1, 0, axis.n_intervals - 1)
    half = 0.5 * known
    return [(first, half), (first + 1, half)]
