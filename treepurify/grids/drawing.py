"""Cells to draw a function on that has no cells of its own."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from treepurify.grids.axis import FeatureAxis
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.typing import Array

Nodes = Sequence[Array | None]

# Cells along an axis in addition to the nodes, for one feature and for several.
_CELLS_ALONE = 200
_CELLS_TOGETHER = 40


def quantile_nodes(columns: Columns, features: Sequence[int], bins: int) -> list[Array | None]:
    """Return quantiles of the rows along each numeric feature; None for categorical ones."""
    nodes: list[Array | None] = []
    for j in features:
        if columns.features[j].is_categorical:
            nodes.append(None)
            continue
        finite = columns.values[j][np.isfinite(columns.values[j])].astype(np.float64)
        quantiles = (
            np.unique(np.quantile(finite, np.linspace(0, 1, bins + 1))) if len(finite) else None
        )
        nodes.append(np.zeros(1) if quantiles is None else quantiles)
    return nodes


def mass_between(columns: Columns, features: Sequence[int], nodes: Nodes, shares: Array) -> Array:
    """Return the share of rows between the nodes of numeric and at the codes of other features.

    Rows with a missing value or an unseen category count nowhere.
    """
    flat = np.zeros(columns.n_rows, dtype=np.intp)
    known = np.ones(columns.n_rows, dtype=bool)
    shape = []
    for j, knots in zip(features, nodes, strict=True):
        values = columns.values[j]
        size = columns.features[j].n_codes if knots is None else max(len(knots) - 1, 1)
        if knots is None:
            inside = np.isfinite(values) & (values >= 0) & (values < size)
            cell = np.where(inside, values, 0).astype(np.intp)
        else:
            inside = np.isfinite(values)
            cell = np.clip(np.searchsorted(knots, values, side="left") - 1, 0, size - 1)
        known &= inside
        flat = flat * size + cell
        shape.append(size)
    total = np.bincount(flat[known], shares[known], minlength=int(np.prod(shape)))
    return np.asarray(total.reshape(shape))


def cells_between(
    specs: Sequence[FeatureSpec], nodes: Nodes, mass: Array
) -> tuple[tuple[FeatureAxis, ...], Array]:
    """Return fine axes over the range of the nodes, and the mass of their cells.

    Parameters
    ----------
    specs : sequence of FeatureSpec
        The features.
    nodes : sequence of (ndarray of float64 or None)
        Increasing values of each numeric feature, such as quantiles; None for a categorical
        one, which has one cell per code.
    mass : ndarray of float64, shape (n_intervals or n_codes, ...)
        Share of the rows between neighbouring nodes, or with each code; see `mass_between`.
        Within an interval it is spread evenly.

    Returns
    -------
    axes : tuple of FeatureAxis
    mass : ndarray of float64, shape (cells...)
        Sums to one.
    """
    count = _CELLS_ALONE if len(specs) == 1 else _CELLS_TOGETHER
    axes = []
    for position, (spec, knots) in enumerate(zip(specs, nodes, strict=True)):
        if knots is None:
            axes.append(FeatureAxis(spec.name, None, spec.labels))
            continue
        even = np.linspace(knots[0], knots[-1], count + 1)
        edges = np.unique(np.concatenate([knots, even]))
        bounds = (float(edges[0]), float(edges[-1]))
        axes.append(FeatureAxis(spec.name, edges[1:-1], spec.labels, bounds=bounds))
        if len(knots) > 1:
            below = [np.clip((edges - a) / (b - a), 0, 1) for a, b in pairwise(knots.tolist())]
            part = np.diff(np.stack(below), axis=1)
            mass = np.moveaxis(np.tensordot(part, mass, axes=(0, position)), 0, position)
    total = mass.sum()
    return tuple(axes), mass / total if total > 0 else np.full(mass.shape, 1.0 / mass.size)


def middle_values(axis: FeatureAxis) -> Array:
    """Return a value in the middle of each cell: codes of categories, NaN for missing ones."""
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + int(axis.has_other), dtype=np.float64)
    else:
        lower, upper = axis.bounds or (0.0, 0.0)
        edges = np.concatenate([[lower], axis.cuts, [upper]])
        regular = edges[:-1] + np.diff(edges) / 2
    return np.concatenate([regular, np.full(int(axis.has_missing), np.nan)])


def cell_values(axis: FeatureAxis, spec: FeatureSpec) -> Array:
    """Return a value of the feature in each cell: as `middle_values`, but by label.

    A categorical axis may have some of the categories of its feature only, in any order, and
    that of a numeric feature has the numbers themselves as labels.
    """
    if axis.cuts is not None:
        return middle_values(axis)
    if spec.is_categorical:
        codes = {label: i for i, label in enumerate(spec.labels)}
        regular = [float(codes[label]) for label in axis.categories]
    else:
        regular = [float(str(label)) for label in axis.categories]
    other = [float(spec.n_codes)] * axis.has_other
    return np.array([*regular, *other, *[np.nan] * axis.has_missing], dtype=np.float64)
