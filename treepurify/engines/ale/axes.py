"""Nodes of accumulated local effects: quantiles, and categories ordered by similarity."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief
from treepurify.budget import check_budget
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.errors import InvalidInputError
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.row_weights import RowWeights, row_quantiles
from treepurify.terms import read_features
from treepurify.typing import Array, Indices

Nodes = Mapping[str | int, npt.ArrayLike]

# Two categories have one order only.
_LEAST_ORDERED = 3
# Points at which the distribution functions of categories are compared.
_SIMILARITY_QUANTILES = 100
# Distances, their squares centred from both sides, and what finding eigenvectors takes.
_TABLES_OF_CATEGORIES = 8
# Counts of rows, shares, and their sums, by category and value of another feature.
_TABLES_OF_SHARES = 3
# Shares, places and values of quantiles, and what rounding and sorting them takes.
_TABLES_OF_QUANTILES = 8


def accumulation_axes(
    columns: Columns,
    weights: RowWeights,
    used: Sequence[int],
    bins: int,
    chosen: Mapping[int, Array],
    memory_budget: int,
) -> dict[int, AccumulationAxis]:
    """Return the nodes of each feature that has two values.

    Numeric features: quantiles that are values of the data, so that a bin holds about the
    same weight of rows. Categorical features: the codes that occur, ordered by similarity.

    Parameters
    ----------
    columns : Columns
        The rows.
    weights : ndarray of float64, shape (n_rows,), optional
        Their weights, all positive; None for equal weights.
    used : sequence of int
        The features.
    bins : int
        Number of quantile bins.
    chosen : mapping of int to ndarray of float64, shape (n_nodes,)
        Nodes in place of quantiles.
    memory_budget : int
        Bytes that values and counts may take.

    Raises
    ------
    InvalidInputError
        If nodes were chosen for a feature that has no values.
    MemoryBudgetError
        If values or counts would not fit.
    """
    specs = columns.features
    check_budget(
        8 * _TABLES_OF_QUANTILES * (bins + 1),
        memory_budget,
        f"{bins} quantiles of each feature",
        "Pass fewer bins.",
    )
    levels = np.linspace(0, 1, bins + 1)
    axes: dict[int, AccumulationAxis] = {}
    codes: dict[int, Indices] = {}
    for j in used:
        if specs[j].is_categorical:
            found = np.unique(columns.values[j])
            codes[j] = found[found < specs[j].n_codes].astype(np.intp)
            continue
        quantiles = _quantiles(columns, weights, j, levels)
        if j in chosen:
            axes[j] = _with_ends(specs[j], j, chosen[j], quantiles)
        elif len(nodes := np.unique(quantiles)) > 1:
            axes[j] = AccumulationAxis(j, nodes, is_categorical=False)
    ordered = {j: own for j, own in codes.items() if len(own) >= _LEAST_ORDERED}
    if ordered:
        widest = max(_SIMILARITY_QUANTILES, *(spec.n_codes for spec in specs)) + 2
        for j, own in ordered.items():
            _check_categories(specs[j].name, len(own), widest, memory_budget)
        codes |= _similar_codes(columns, weights, ordered)
    for j, own in codes.items():
        if len(own) > 1:
            axes[j] = AccumulationAxis(j, own.astype(np.float64), is_categorical=True)
    return dict(sorted(axes.items()))


def _quantiles(columns: Columns, weights: RowWeights, feature: int, levels: Array) -> Array:
    """Return quantiles of the finite values of a feature; none where there are no such values."""
    values = columns.values[feature]
    finite = np.isfinite(values)
    if not finite.any():
        return np.empty(0)
    own = None if weights is None else weights[finite]
    # Adding zero takes the sign off -0.0.
    return row_quantiles(values[finite], own, levels).astype(np.float64) + 0.0


def _similar_codes(
    columns: Columns, weights: RowWeights, codes: Mapping[int, Indices]
) -> dict[int, Indices]:
    """Order categories so that neighbours have similar values of the other features.

    The distance of two categories sums, over the other features, the largest difference of
    their distribution functions, or half the sum of differences of category shares. The first
    coordinate of classical multidimensional scaling orders them (Apley and Zhu 2020, appendix
    E); the lowest code comes in the first half.
    """
    from scipy.spatial.distance import cdist

    levels = np.arange(_SIMILARITY_QUANTILES) / _SIMILARITY_QUANTILES
    place = {j: _places_of_codes(columns, j, own) for j, own in codes.items()}
    distances = {j: np.zeros((len(own), len(own))) for j, own in codes.items()}
    for k, spec in enumerate(columns.features):
        if spec.is_categorical:
            cells, n_cells = (
                np.nan_to_num(columns.values[k], nan=spec.n_codes + 1),
                spec.n_codes + 2,
            )
        else:
            # A cell holds its upper end.
            points = np.unique(_quantiles(columns, weights, k, levels))
            n_cells = len(points) + 2
            cells = np.searchsorted(points, columns.values[k])
            cells = np.where(np.isnan(columns.values[k]), n_cells - 1, cells)
        cells = cells.astype(np.intp)
        for j, own in codes.items():
            if j == k:
                continue
            known = place[j] >= 0
            flat = place[j][known] * n_cells + cells[known]
            counted = None if weights is None else weights[known]
            table = np.bincount(flat, counted, minlength=len(own) * n_cells).reshape(len(own), -1)
            shares = table / table.sum(axis=1, keepdims=True)
            if spec.is_categorical:
                shares = shares[:, :-1]
                distances[j] += cdist(shares, shares, "cityblock") / 2
            elif n_cells > 2:
                reached = shares[:, :-2].cumsum(axis=1)
                distances[j] += cdist(reached, reached, "chebyshev")
    return {j: _ordered_codes(own, distances[j]) for j, own in codes.items()}


def _places_of_codes(columns: Columns, feature: int, codes: Indices) -> Indices:
    """Return the place of the code of each row among those that occur; -1 for others."""
    place = np.full(columns.features[feature].n_codes + 2, -1)
    place[codes] = np.arange(len(codes))
    values = np.nan_to_num(columns.values[feature], nan=len(place) - 1)
    return np.asarray(place[values.astype(np.intp)])


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
            f'nodes must map features to numbers, such as {{"age": [20, 40, 60]}}; got '
            f"{brief(nodes)}"
        )
    names = [spec.name for spec in features]
    chosen = {}
    for key, wanted in nodes.items():
        (j,) = read_features((key,), names)
        if features[j].is_categorical:
            raise _nothing_to_choose(names[j])
        chosen[j] = _increasing(names[j], wanted)
    return chosen


def _with_ends(
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
        f"nodes are for numeric features only; leave out {name!r}, which is categorical or has no "
        "values"
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


def _check_categories(name: str, n_codes: int, widest: int, memory_budget: int) -> None:
    """Raise `MemoryBudgetError` if distances, or tables with up to `widest` cells, do not fit."""
    check_budget(
        8 * (_TABLES_OF_CATEGORIES * n_codes**2 + _TABLES_OF_SHARES * n_codes * widest),
        memory_budget,
        f"the distances between the {n_codes} categories of {name!r}",
        "Merge rare categories before training.",
    )


def _ordered_codes(codes: Indices, distance: Array) -> Indices:
    """Return codes so that neighbours are near to each other; see `_similar_codes`."""
    centring = np.eye(len(codes)) - 1.0 / len(codes)
    _, vectors = np.linalg.eigh(-0.5 * centring @ distance**2 @ centring)
    # Rounded: categories that are alike keep the order of their codes on every machine.
    order = np.argsort(np.round(vectors[:, -1], 10), kind="stable")
    if int(np.flatnonzero(order == 0)[0]) > (len(codes) - 1) / 2:
        order = order[::-1]
    return codes[order]


def places_of_values(axis: AccumulationAxis, values: npt.NDArray[np.floating[Any]]) -> Indices:
    """Return the interval of each number, or the node of each code; -1 for what has no place."""
    if axis.is_categorical:
        rank = axis.place(values)
        return np.where(np.isfinite(rank), rank, -1).astype(np.intp)
    before = np.searchsorted(axis.nodes, values, side="left") - 1
    return np.where(np.isfinite(values), np.clip(before, 0, axis.n_intervals - 1), -1)


def intervals_of_rows(
    axis: AccumulationAxis, columns: Columns, rows: Indices
) -> tuple[Indices, Indices]:
    """Return rows and the interval whose local difference each of them takes part in.

    A numeric value lies in one interval; a category takes part in the steps to both of its
    neighbours. Rows without a place take part in none.
    """
    place = places_of_values(axis, columns.values[axis.feature][rows])
    if not axis.is_categorical:
        return rows[place >= 0], place[place >= 0]
    above = (place >= 0) & (place < axis.n_intervals)
    below = place > 0
    moved = np.concatenate([rows[above], rows[below]])
    interval = np.concatenate([place[above], place[below] - 1])
    order = np.argsort(moved, kind="stable")
    return moved[order], interval[order]


def weight_at_places(
    axes: Sequence[AccumulationAxis], places: Sequence[Indices], weights: Array
) -> Array:
    """Return the weight of the rows at each place along axes, shape (n_places, ...).

    Parameters
    ----------
    axes : sequence of AccumulationAxis
        The axes.
    places : sequence of ndarray of intp, shape (n_rows,)
        Place of each row along each axis, see `places_of_values`. Rows without one count nowhere.
    weights : ndarray of float64, shape (n_rows,)
        Weights of the rows.
    """
    known = np.all([place >= 0 for place in places], axis=0)
    flat = np.zeros(len(weights), dtype=np.intp)
    for axis, place in zip(axes, places, strict=True):
        flat = flat * axis.n_places + place
    shape = [axis.n_places for axis in axes]
    total = np.bincount(flat[known], weights[known], minlength=math.prod(shape))
    return np.asarray(total.reshape(shape), dtype=np.float64)


def weight_at_nodes(axis: AccumulationAxis, weight: Array) -> Array:
    """Return the weight of the rows that nodes stand for, from that at places, both along axis 0.

    A numeric value counts half at each end of its interval, a category at its own node.
    """
    if axis.is_categorical:
        return weight
    at_nodes = np.zeros((len(axis.nodes), *weight.shape[1:]))
    at_nodes[:-1] += 0.5 * weight
    at_nodes[1:] += 0.5 * weight
    return at_nodes


def weight_in_intervals(axis: AccumulationAxis, weight: Array) -> Array:
    """Return the weight of the rows that take part in each step, from that at places."""
    return np.asarray(weight[:-1] + weight[1:]) if axis.is_categorical else weight


def weight_between(axis: AccumulationAxis, weight: Array, n_codes: int) -> Array:
    """Return the weight of the rows between numeric nodes or with each code, see `mass_between`."""
    if not axis.is_categorical:
        return weight
    by_code = np.zeros((n_codes, *weight.shape[1:]))
    by_code[axis.nodes.astype(np.intp)] = weight
    return by_code
