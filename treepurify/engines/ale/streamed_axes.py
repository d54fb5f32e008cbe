"""Nodes of accumulated local effects of rows that come in batches: exact quantiles, and counts."""

from collections.abc import Mapping

import numpy as np

from treepurify.engines.ale.axes import (
    LEAST_ORDERED,
    SIMILARITY_QUANTILES,
    check_bins,
    check_categories,
    gaps_of_distributions,
    ordered_codes,
    with_ends,
)
from treepurify.engines.ale.components import AccumulationAxis
from treepurify.engines.common.problem import check_memory
from treepurify.engines.common.streamed_rows import count_stream
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, Subset
from treepurify.progress import ProgressReport
from treepurify.rows.reduction import RowStream
from treepurify.rows.value_order import ValueOrder, order_values
from treepurify.typing import Array, Indices

__all__ = ["stream_axes"]


def stream_axes(
    stream: RowStream,
    bins: int,
    chosen: Mapping[int, Array],
    memory_budget: int,
    report: ProgressReport,
) -> dict[int, AccumulationAxis]:
    """Return the nodes of every feature of a stream that has two values; see `accumulation_axis`.

    The rows are read once or more for quantiles, and once more where categories are ordered.

    Parameters
    ----------
    stream : RowStream
        The rows; they can be read again.
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
    MemoryBudgetError
        If they would not fit.
    """
    specs = stream.reader.features
    check_bins("each feature", bins, memory_budget)
    order = order_values(stream, range(len(specs)), memory_budget, report)
    codes = _codes(order, stream)
    ordered = [j for j, own in codes.items() if len(own) >= LEAST_ORDERED]
    numeric = [j for j, spec in enumerate(specs) if not spec.is_categorical and order.total(j) > 0]
    levels = np.linspace(0, 1, bins + 1)
    targets = {j: order.total(j) * levels for j in numeric}
    if ordered:
        of_similarity = np.arange(SIMILARITY_QUANTILES) / SIMILARITY_QUANTILES
        targets = {
            j: np.concatenate([wanted, order.total(j) * of_similarity])
            for j, wanted in targets.items()
        }
    found = order.at(targets, report)
    axes = {}
    for j, given in chosen.items():
        ends = found[j][: len(levels)] if j in found else np.empty(0)
        axes[j] = with_ends(specs[j], j, given, ends)
    for j in set(numeric) - chosen.keys():
        nodes = np.unique(found[j][: len(levels)])
        if len(nodes) > 1:
            axes[j] = AccumulationAxis(j, nodes, is_categorical=False)
    if ordered:
        points = {j: np.unique(found[j][len(levels) :]) for j in numeric}
        for j in ordered:
            check_categories(specs[j].name, len(codes[j]), memory_budget)
        codes |= _similar(stream, {j: codes[j] for j in ordered}, points, memory_budget, report)
    for j, own in codes.items():
        if len(own) > 1:
            axes[j] = AccumulationAxis(j, own.astype(np.float64), is_categorical=True)
    return dict(sorted(axes.items()))


def _codes(order: ValueOrder, stream: RowStream) -> dict[int, Indices]:
    """Return the codes of each categorical feature that occur."""
    codes = {}
    for j, spec in enumerate(stream.reader.features):
        if not spec.is_categorical:
            continue
        known = order.distinct(j)
        # There are too many to be kept only where each of them is a category.
        values = np.arange(spec.n_codes) if known is None else known[0]
        codes[j] = values[values < spec.n_codes].astype(np.intp)
    return codes


def _similar(
    stream: RowStream,
    codes: Mapping[int, Indices],
    points: Mapping[int, Array],
    memory_budget: int,
    report: ProgressReport,
) -> dict[int, Indices]:
    """Return codes in the order of `similarity_order`, from counts of rows."""
    specs = stream.reader.features
    axes = tuple(
        FeatureAxis(
            spec.name,
            # A cell holds its upper end.
            None if spec.is_categorical else np.nextafter(points.get(j, np.empty(0)), np.inf),
            spec.labels if spec.is_categorical else (),
            has_other=spec.is_categorical,
            has_missing=True,
        )
        for j, spec in enumerate(specs)
    )
    pairs: list[Subset] = sorted(
        {(min(j, k), max(j, k)) for j in codes for k in range(len(specs)) if k != j}
    )
    check_memory([[axes[j], axes[k]] for j, k in pairs], 1, memory_budget)
    grid = Grid(axes, specs)
    (counted,) = count_stream(stream, [(grid, pairs)], report, keep_special=True)
    found = {}
    for j, own in codes.items():
        distance = np.zeros((len(own), len(own)))
        for k, spec in enumerate(specs):
            if k == j:
                continue
            table = counted.tables[j, k] if j < k else counted.tables[k, j].T
            shares = table[own] / table[own].sum(axis=1, keepdims=True)
            if spec.is_categorical:
                distance += _gaps_of_shares(shares[:, : spec.n_codes + 1])
            else:
                distance += gaps_of_distributions(shares[:, : len(points.get(k, ()))])
        found[j] = ordered_codes(own, distance)
    return found


def _gaps_of_shares(shares: Array) -> Array:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(shares, shares, "cityblock") / 2)
