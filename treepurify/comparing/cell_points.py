"""Rows that are known by their cells only, as values that lie in these cells."""

from collections.abc import Mapping

import numpy as np

from treepurify.components import TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.grids.axis import FeatureAxis
from treepurify.rows.columns import Columns, FeatureSpec
from treepurify.typing import Array, Indices

__all__ = ["points_in_cells"]


def points_in_cells(d: Decomposition, other: Decomposition) -> tuple[Columns, Columns] | None:
    """Return the rows of `d` as points for both, where the cells of `d` are fine enough.

    A point in a cell of `d` stands for every row there, if no cell of `other` ends within it. So
    an explainable boosting machine purified under rows is compared with the same machine under
    its own bins, of which the cells of the first are parts.

    Parameters
    ----------
    d : Decomposition
        A decomposition with rows, whose components are tables.
    other : Decomposition
        Another one of the same features, in any order.

    Returns
    -------
    tuple of Columns, optional
        The points in the columns of `d` and of `other`; None where there are no rows, or cells of
        `other` end within cells of `d`.
    """
    if not d.rows:
        return None
    codes = _finest(d)
    limits = _axes_by_name(other)
    specs = {spec.name: spec for spec in other.inputs.features}
    n_rows = next(iter(d.rows.values())).n_rows
    values: dict[str, Array] = {}
    for j, spec in enumerate(d.inputs.features):
        axis, cells = codes.get(j, (None, None))
        if not all(_refines(axis, wanted, spec, specs[spec.name]) for wanted in limits[spec.name]):
            return None
        if axis is None or cells is None:
            values[spec.name] = np.zeros(n_rows)
        else:
            values[spec.name] = _values(axis)[cells]
    return _columns(d, values, n_rows), _columns(other, values, n_rows)


def _columns(d: Decomposition, values: Mapping[str, Array], n_rows: int) -> Columns:
    features = d.inputs.features
    return Columns(features, tuple(values[spec.name] for spec in features), n_rows)


def _finest(d: Decomposition) -> dict[int, tuple[FeatureAxis, Indices]]:
    """Return the axis of each feature with the most cells, and the cell of each row along it."""
    found: dict[int, tuple[FeatureAxis, Indices]] = {}
    rows = d.rows or {}
    for subset, component in d.components.items():
        if isinstance(component, TensorComponent) and len(subset) in rows:
            for j, axis in zip(subset, component.axes, strict=True):
                if j not in found or axis.n_cells > found[j][0].n_cells:
                    found[j] = axis, np.asarray(rows[len(subset)].codes[j], dtype=np.intp)
    return found


def _axes_by_name(d: Decomposition) -> dict[str, list[FeatureAxis]]:
    axes: dict[str, list[FeatureAxis]] = {spec.name: [] for spec in d.inputs.features}
    for component in d.components.values():
        if isinstance(component, TensorComponent):
            for axis in component.axes:
                axes[axis.name].append(axis)
    return axes


def _refines(
    axis: FeatureAxis | None, wanted: FeatureAxis, spec: FeatureSpec, other: FeatureSpec
) -> bool:
    """Return whether every cell of an axis lies within one of the wanted axis."""
    if axis is None:
        return False
    if axis.cuts is None or wanted.cuts is None:
        return (
            spec.labels == other.labels
            and spec.is_categorical
            and axis.categories == wanted.categories
        )
    return bool(np.isin(wanted.cuts, axis.cuts).all())


def _values(axis: FeatureAxis) -> Array:
    """Return a value in each cell of an axis."""
    if axis.cuts is None:
        regular = np.arange(axis.n_regular + int(axis.has_other), dtype=np.float64)
    else:
        below = np.nextafter(axis.cuts[:1], -np.inf) if len(axis.cuts) else np.zeros(1)
        regular = np.concatenate([below, axis.cuts])
    return np.concatenate([regular, np.full(int(axis.has_missing), np.nan)])
