"""Purify an EBM's effects again on the bins of its main effects, to compare it with another model.

With bins of its own, an interaction is pure against functions on these. That of a model of trees is
pure against all functions of one feature; two such definitions differ where features depend on each
other, though both models may be the same function.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from treepurify.budget import DEFAULT_BUDGET
from treepurify.components import TensorComponent, with_finer_mains
from treepurify.decomposition import Decomposition
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.moments import weights_in_cells
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.rows.reduction import RowStream

__all__ = ["has_finer_mains", "on_finest_bins"]

_TABLES = 7
_NOTE = "Its effects were purified again on the bins of its main effects for this comparison."
_TOO_LARGE = (
    "Its effects were compared on the bins of each term, since tables on the finer bins of the "
    "main effects would not fit into memory."
)


def has_finer_mains(d: Decomposition) -> bool:
    """Return whether main effects have finer bins than the interactions of their features."""
    return next(with_finer_mains(d.components), None) is not None


def on_finest_bins(d: Decomposition) -> Decomposition:
    """Return the decomposition with all effects on the bins of main effects, and pure there.

    As it is where there are no rows in memory, or a remainder, or the tables would not fit.
    """
    rows = d.rows
    if not rows or isinstance(rows, RowStream) or d.remainder is not None or d.certificate is None:
        return d
    tables = d.tensor_components()
    subsets = downward_closure(tables)
    along = _main_axes(tables)
    axes = {subset: tuple(along[j] for j in subset) for subset in subsets}
    cells = sum(prod(axis.n_cells for axis in of_table) for of_table in axes.values())
    if 8 * _TABLES * d.n_outputs * cells > DEFAULT_BUDGET:
        return replace(d, certificate=d.certificate.noted(_TOO_LARGE))
    fine = rows[1]
    mass = {
        subset: weights_in_cells(axes[subset], [fine.codes[j] for j in subset], fine.shares)
        for subset in subsets
    }
    raw = {s: EffectTensor(s, table.axes, table.values) for s, table in tables.items()}
    purified = purify_effects(EffectTensors(d.intercept, raw), mass, axes, progress=lambda *_: None)
    components = {
        subset: TensorComponent(subset, axes[subset], values, mass[subset], d.inputs, None)
        for subset, values in purified.effects.items()
    }
    return replace(
        d,
        intercept=purified.intercept,
        components=components,
        rows=dict.fromkeys(rows, rows[1]),
        stored_covariances=None,
        stored_collinear=None,
        certificate=replace(d.certificate.noted(_NOTE), cosine=None),
    )


def _main_axes(tables: Mapping[Subset, TensorComponent]) -> dict[int, FeatureAxis]:
    """Return the axis of each feature: that of its main effect, or of an interaction."""
    along: dict[int, FeatureAxis] = {}
    for subset in sorted(tables, key=len, reverse=True):
        along |= dict(zip(subset, tables[subset].axes, strict=True))
    return along
