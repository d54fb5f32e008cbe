"""Effect tensors and axes of an additive model of tables."""

import numpy as np
import numpy.typing as npt

from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Cuts, Grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm

__all__ = ["table_cuts", "table_effects"]


def table_cuts(model: AdditiveTables, least_order: int = 1) -> Cuts:
    """Return the union of each feature's cuts over the terms of at least `least_order` features.

    An EBM cuts pairs at other values than main effects. Main effects must live on the union
    of both, since what leaves a pair is added to them; pairs need the cuts of larger terms.
    """
    cuts: list[list[npt.NDArray[np.float64]]] = [[] for _ in model.features]
    for term in model.terms:
        if len(term.features) >= least_order:
            for j, own in zip(term.features, term.cuts, strict=True):
                if own is not None:
                    cuts[j].append(own)
    return tuple(
        None if spec.is_categorical else (np.unique(np.concatenate(own)) if own else np.empty(0))
        for spec, own in zip(model.features, cuts, strict=True)
    )


def table_effects(model: AdditiveTables, grids: dict[int, Grid]) -> EffectTensors:
    """Write every term on the axes of the grid for its order; repeated subsets add up.

    Parameters
    ----------
    model : AdditiveTables
        The model.
    grids : dict of int to Grid
        The grid of each order, with the cuts of the terms of that order among its own.
    """
    tensors: dict[tuple[int, ...], EffectTensor] = {}
    for term in model.terms:
        axes = grids[len(term.features)].subset_axes(term.features)
        values = on_axes(term, term.scores, axes)
        known = tensors.get(term.features)
        if known is not None:
            values = known.values + values
        tensors[term.features] = EffectTensor(term.features, axes, values)
    ordered = sorted(tensors, key=lambda subset: (len(subset), subset))
    return EffectTensors(model.base.copy(), {subset: tensors[subset] for subset in ordered})


def on_axes(
    term: TableTerm, table: npt.NDArray[np.float64], axes: tuple[FeatureAxis, ...]
) -> npt.NDArray[np.float64]:
    """Write a table over the cells of `term` on finer axes."""
    for position, axis in enumerate(axes):
        table = np.take(table, term_cells_of(axis, term.cuts[position]), axis=position)
    return table


def term_cells_of(axis: FeatureAxis, cuts: npt.NDArray[np.float64] | None) -> npt.NDArray[np.intp]:
    """Return, for each cell of `axis`, the cell of a term with these cuts."""
    if cuts is None:
        regular = np.arange(axis.n_regular)
        special = [axis.n_regular] * axis.has_other + [axis.n_regular + 1] * axis.has_missing
    else:
        left = np.concatenate([[-np.inf], axis.cuts if axis.cuts is not None else []])
        regular = np.searchsorted(cuts, left, side="right")
        special = [len(cuts) + 1] * axis.has_missing
    return np.concatenate([regular, special]).astype(np.intp)
