"""Nodes of accumulated local effects: quantiles, and categories ordered by similarity."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.arguments import brief
from treepurify.budget import check_budget
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.all_rows import count_in_cells
from treepurify.engines.common.problem import check_memory
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid
from treepurify.progress import ProgressReport
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.rows.reduction import RowStream
from treepurify.rows.value_order import ValueOrder, order_values
from treepurify.terms import read_features
from treepurify.typing import Array, Indices

__all__ = [
    "Nodes",
    "accumulation_axes",
    "chosen_nodes",
    "intervals_of_rows",
    "places_of_values",
    "weight_at_nodes",
    "weight_at_places",
    "weight_between",
    "weight_in_intervals",
]

Nodes = Mapping[str | int, npt.ArrayLike]

# Two categories have one order only.
_LEAST_ORDERED = 3
# Points at which the distribution functions of categories are compared.
_SIMILARITY_QUANTILES = 100
# Distances, their squares centred from both sides, and what finding eigenvectors takes.
_TABLES_OF_CATEGORIES = 8
# Shares, places and values of quantiles, and what rounding and sorting them takes.
_TABLES_OF_QUANTILES = 8


def accumulation_axes(
    rows: RowStream,
    used: Sequence[int],
    bins: int,
    chosen: Mapping[int, Array],
    memory_budget: int,
    report: ProgressReport,
) -> dict[int, AccumulationAxis]:
    """Return the nodes of each feature that has two values.

    Numeric features: quantiles that are values of the data, so that a bin holds about the
    same weight of rows. Categorical features: the codes that occur, ordered by similarity.
    Rows that come in batches are read once or more for quantiles, and once more where categories
    are ordered.

    Parameters
    ----------
    rows : RowStream
        The rows; they can be read again.
    used : sequence of int
        The features.
    bins : int
        Number of quantile bins.
    chosen : mapping of int to ndarray of float64, shape (n_nodes,)
        Nodes in place of quantiles.
    memory_budget : int
        Bytes that values and counts may take.
    report : callable
        Progress.

    Raises
    ------
    InvalidInputError
        If nodes were chosen for a feature that has no values.
    MemoryBudgetError
        If values or counts would not fit.
    """
    specs = rows.reader.features
    _check_bins("each feature", bins, memory_budget)
    levels = np.linspace(0, 1, bins + 1)
    of_similarity = np.arange(_SIMILARITY_QUANTILES) / _SIMILARITY_QUANTILES
    may_order = any(specs[j].n_codes >= _LEAST_ORDERED for j in used)
    axes: dict[int, AccumulationAxis] = {}
    codes: dict[int, Indices] = {}
    points: dict[int, Array] = {}
    for group in rows.together([*range(len(specs))] if may_order else [*used]):
        order = order_values(rows, group, memory_budget, report)
        codes |= {j: own for j, own in _codes(order, specs).items() if j in used}
        numeric = [j for j in group if not specs[j].is_categorical and order.total(j) > 0]
        wanted = np.concatenate([levels, of_similarity]) if may_order else levels
        found = order.at({j: order.total(j) * wanted for j in numeric}, report)
        points |= {j: np.unique(values[len(levels) :]) for j, values in found.items()}
        for j in set(group).intersection(used):
            quantiles = found[j][: len(levels)] if j in found else np.empty(0)
            if j in chosen:
                axes[j] = _with_ends(specs[j], j, chosen[j], quantiles)
            elif len(nodes := np.unique(quantiles)) > 1:
                axes[j] = AccumulationAxis(j, nodes, is_categorical=False)
    ordered = {j: own for j, own in codes.items() if len(own) >= _LEAST_ORDERED}
    if ordered:
        for j, own in ordered.items():
            _check_categories(specs[j].name, len(own), memory_budget)
        codes |= _similar_codes(rows, ordered, points, memory_budget, report)
    for j, own in codes.items():
        if len(own) > 1:
            axes[j] = AccumulationAxis(j, own.astype(np.float64), is_categorical=True)
    return dict(sorted(axes.items()))


def _codes(order: ValueOrder, specs: Sequence[FeatureSpec]) -> dict[int, Indices]:
    """Return the codes of each categorical feature that occur."""
    codes = {}
    for j in order.known:
        if not specs[j].is_categorical:
            continue
        known = order.distinct(j)
        # There are too many to be kept only where each of them is a category.
        values = np.arange(specs[j].n_codes) if known is None else known[0]
        codes[j] = values[values < specs[j].n_codes].astype(np.intp)
    return codes


def _similar_codes(
    rows: RowStream,
    codes: Mapping[int, Indices],
    points: Mapping[int, Array],
    memory_budget: int,
    report: ProgressReport,
) -> dict[int, Indices]:
    """Order categories so that neighbours have similar values of the other features.

    The distance of two categories sums, over the other features, the largest difference of
    their distribution functions, or half the sum of differences of category shares. The first
    coordinate of classical multidimensional scaling orders them (Apley and Zhu 2020, appendix
    E); the lowest code comes in the first half.

    Parameters
    ----------
    rows : RowStream
        The rows; they can be read again.
    codes : mapping of int to ndarray of intp, shape (n_codes,)
        The codes of each feature, increasing.
    points : mapping of int to ndarray of float64, shape (n_points,)
        Values of each numeric feature at which distributions are compared.
    memory_budget : int
        Bytes that values and counts may take.
    report : callable
        Progress.
    """
    specs = rows.reader.features
    distances = {j: np.zeros((len(own), len(own))) for j, own in codes.items()}
    grid = Grid(
        tuple(
            FeatureAxis(
                spec.name,
                # A cell holds its upper end.
                None if spec.is_categorical else np.nextafter(points.get(j, np.empty(0)), np.inf),
                spec.labels if spec.is_categorical else (),
                has_other=spec.is_categorical,
                has_missing=True,
            )
            for j, spec in enumerate(specs)
        ),
        specs,
    )
    for group in rows.together(range(len(specs))):
        pairs = sorted({(min(j, k), max(j, k)) for j in codes for k in group if k != j})
        check_memory([grid.subset_axes(pair) for pair in pairs], 1, memory_budget)
        (counted,) = count_in_cells(rows, [(grid, pairs)], report, keep_special=True)
        for j, k in product(codes, group):
            if k == j:
                continue
            table = counted.tables[j, k] if j < k else counted.tables[k, j].T
            shares = table[codes[j]] / table[codes[j]].sum(axis=1, keepdims=True)
            if specs[k].is_categorical:
                distances[j] += _gaps_of_shares(shares[:, : specs[k].n_codes + 1])
            else:
                distances[j] += _gaps_of_distributions(shares[:, : len(points.get(k, ()))])
    return {j: _ordered_codes(own, distances[j]) for j, own in codes.items()}


def _gaps_of_shares(shares: Array) -> Array:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(shares, shares, "cityblock") / 2)


def _check_bins(name: str, bins: int, memory_budget: int) -> None:
    """Raise `MemoryBudgetError` if the quantiles would not fit."""
    check_budget(
        8 * _TABLES_OF_QUANTILES * (bins + 1),
        memory_budget,
        f"{bins} quantiles of {name!r}",
        "Pass fewer bins.",
    )


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


def _check_categories(name: str, n_codes: int, memory_budget: int) -> None:
    """Raise `MemoryBudgetError` if the distances of the categories would not fit."""
    check_budget(
        8 * _TABLES_OF_CATEGORIES * n_codes**2,
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


def _gaps_of_distributions(shares: Array) -> Array:
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
