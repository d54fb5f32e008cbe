"""Effect tensors, axes and the mass of the bins of an additive model of tables."""

from collections.abc import Sequence

import numpy as np

from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Cuts, Grid, Subset
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.terms import term_name
from treepurify.typing import Array, Indices
from treepurify.weights.distributions import MassTables, normalised


def table_cuts(model: AdditiveTables, least_order: int = 1) -> Cuts:
    """Return the union of each feature's cuts over the terms of at least `least_order` features.

    An EBM cuts pairs at other values than main effects. Main effects must live on the union
    of both, since what leaves a pair is added to them; pairs need the cuts of larger terms.
    """
    cuts: list[list[Array]] = [[] for _ in model.features]
    for term in model.terms:
        if len(term.features) >= least_order:
            for j, term_cuts in zip(term.features, term.cuts, strict=True):
                if term_cuts is not None:
                    cuts[j].append(term_cuts)
    return tuple(
        None
        if spec.is_categorical
        else (np.unique(np.concatenate(of_terms)) if of_terms else np.empty(0))
        for spec, of_terms in zip(model.features, cuts, strict=True)
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
        values = _on_axes(term, term.scores, axes)
        known = tensors.get(term.features)
        if known is not None:
            values = known.values + values
        tensors[term.features] = EffectTensor(term.features, axes, values)
    ordered = sorted(tensors, key=lambda subset: (len(subset), subset))
    return EffectTensors(model.base.copy(), {subset: tensors[subset] for subset in ordered})


def term_mass(
    model: AdditiveTables, grids: dict[int, Grid], subsets: Sequence[Subset]
) -> MassTables:
    """Return the mass of every subset from the weights that the model keeps of its bins.

    All tables of a fitted EBM count the same rows, so they are margins of one joint mass.
    Along one feature the cuts of main effects and pairs merge exactly: both tables give the
    cumulative mass at their own cuts. For two or more features the mass of cells that no
    table has is not known, and a larger term with other cuts is refused.

    Raises
    ------
    InvalidInputError
        If the model keeps no weights, or they do not determine a table.
    """
    weighted = [term for term in model.terms if term.weights is not None]
    if len(weighted) < len(model.terms) or not model.terms:
        raise InvalidInputError(
            "the model does not store the weights of its bins: pass X, or use weights='uniform'"
        )
    return {
        subset: normalised(_table(weighted, grids[len(subset)], subset), "the model's bin weights")
        for subset in subsets
    }


def _on_axes(term: TableTerm, table: Array, axes: tuple[FeatureAxis, ...]) -> Array:
    """Write a table over the cells of `term` on finer axes."""
    for position, axis in enumerate(axes):
        table = np.take(table, _term_cells_of(axis, term.cuts[position]), axis=position)
    return table


def _term_cells_of(axis: FeatureAxis, cuts: Array | None) -> Indices:
    """Return, for each cell of `axis`, the cell of a term with these cuts."""
    if cuts is None:
        regular = np.arange(axis.n_regular)
        special = [axis.n_regular] * axis.has_other + [axis.n_regular + 1] * axis.has_missing
    else:
        left = np.concatenate([[-np.inf], axis.cuts if axis.cuts is not None else []])
        regular = np.searchsorted(cuts, left, side="right")
        special = [len(cuts) + 1] * axis.has_missing
    return np.concatenate([regular, special]).astype(np.intp)


def _table(terms: list[TableTerm], grid: Grid, subset: Subset) -> Array:
    around = [term for term in terms if set(subset) <= set(term.features)]
    if len(subset) == 1:
        return _margin(around, grid.axes[subset[0]], subset[0])
    axes = grid.subset_axes(subset)
    for term in sorted(around, key=lambda term: len(term.features)):
        positions = [term.features.index(j) for j in subset]
        if all(_same_cuts(term, p, axis) for p, axis in zip(positions, axes, strict=True)):
            summed = _weights(term).sum(
                axis=tuple(i for i in range(len(term.features)) if i not in positions)
            )
            cuts = tuple(term.cuts[p] for p in positions)
            return _on_axes(TableTerm(subset, cuts, term.scores), summed, axes)
    names = term_name(axis.name for axis in axes)
    raise InvalidInputError(
        f"the model's bin weights do not determine the joint distribution of {names} on the bins "
        "of its larger terms: pass X"
    )


def _weights(term: TableTerm) -> Array:
    return term.weights if term.weights is not None else np.zeros(term.scores.shape[:-1])


def _same_cuts(term: TableTerm, position: int, axis: FeatureAxis) -> bool:
    cuts = term.cuts[position]
    if cuts is None or axis.cuts is None:
        return cuts is None and axis.cuts is None
    return np.array_equal(cuts, axis.cuts)


def _margin(terms: list[TableTerm], axis: FeatureAxis, feature: int) -> Array:
    """Merge the margins of all terms with the feature on the union of their cuts."""
    margins = []
    for term in terms:
        position = term.features.index(feature)
        rest = tuple(i for i in range(len(term.features)) if i != position)
        margin = _weights(term).sum(axis=rest)
        margins.append((term.cuts[position], margin / margin.sum()))
    cuts, margin = margins[0]
    if axis.cuts is None or cuts is None:
        return np.asarray(margin[_kept(axis, len(margin))])
    at_cuts = np.full(len(axis.cuts), np.nan)
    for own_cuts, cell_mass in reversed(margins):
        if own_cuts is not None:
            at_cuts[np.searchsorted(axis.cuts, own_cuts)] = np.cumsum(cell_mass)[: len(own_cuts)]
    present = float(margin[: len(cuts) + 1].sum())
    cumulative = np.concatenate([[0.0], np.maximum.accumulate(at_cuts), [present]])
    regular = np.maximum(np.diff(cumulative), 0.0)
    return np.concatenate([regular, margin[len(cuts) + 1 :] if axis.has_missing else []])


def _kept(axis: FeatureAxis, n_cells: int) -> list[int]:
    """Return the cells of a categorical term that the axis has."""
    special = [n_cells - 2] * axis.has_other + [n_cells - 1] * axis.has_missing
    return [*range(axis.n_regular), *special]
