"""From an ensemble and a grid to one effect tensor per subset of features."""

import numpy as np

from treepurify.budget import check_budget
from treepurify.effects.box_corners import add_box_corners
from treepurify.effects.difference_tables import difference_tables, table_sizes
from treepurify.effects.leaf_boxes import LeafBoxes
from treepurify.effects.table_effects import table_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.grid import Cuts, Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model

__all__ = ["accumulate", "ensemble_cuts", "model_cuts"]


def ensemble_cuts(ensemble: TreeEnsemble) -> Cuts:
    """Return the union of the cuts of each numeric feature, sorted; None for categorical ones."""
    # A cut at -inf splits missing values from all others: it needs no cell below it.
    numeric = (ensemble.feature >= 0) & (ensemble.category_ptr < 0) & (ensemble.cut > -np.inf)
    feature = ensemble.feature[numeric]
    cut = ensemble.cut[numeric]
    order = np.lexsort((cut, feature))
    feature, cut = feature[order], cut[order]
    is_new = np.ones(len(cut), dtype=bool)
    is_new[1:] = (feature[1:] != feature[:-1]) | (cut[1:] != cut[:-1])
    feature, cut = feature[is_new], cut[is_new]
    bounds = np.searchsorted(feature, np.arange(ensemble.n_features + 1))
    return tuple(
        None if spec.is_categorical else cut[bounds[j] : bounds[j + 1]]
        for j, spec in enumerate(ensemble.features)
    )


def model_cuts(model: Model) -> Cuts:
    """Return the cuts of each feature: those of all trees, or of all tables."""
    return ensemble_cuts(model) if isinstance(model, TreeEnsemble) else table_cuts(model)


def accumulate(
    ensemble: TreeEnsemble, grid: Grid, boxes: LeafBoxes, memory_budget: int
) -> EffectTensors:
    """Sum the leaves of each subset into one tensor on the cells of `grid`.

    The value of a leaf goes to the 2^d corners of its box in a difference array, and one
    cumulative sum along each axis spreads it: the cost of a leaf does not depend on the
    number of cells.

    Raises
    ------
    MemoryBudgetError
        If the tensors would not fit.
    """
    n_outputs = ensemble.n_outputs
    shapes = [grid.shape(subset) for subset in boxes.subsets]
    _check_tensors(boxes.subsets, grid, table_sizes(shapes, n_outputs), memory_budget)
    tables = difference_tables(shapes, n_outputs)
    add_box_corners(boxes, tables)
    intercept = ensemble.base.copy()
    tensors = {}
    for subset, values in zip(boxes.subsets, tables.summed(), strict=True):
        if subset:
            tensors[subset] = EffectTensor(subset, grid.subset_axes(subset), values)
        else:
            intercept = intercept + values
    return EffectTensors(intercept, tensors)


def _check_tensors(
    subsets: tuple[Subset, ...], grid: Grid, sizes: list[int], memory_budget: int
) -> None:
    if not sizes:
        return
    largest = int(np.argmax(np.array(sizes, dtype=float)))
    names = " x ".join(grid.axes[j].name for j in subsets[largest])
    check_budget(
        8 * sum(sizes),
        memory_budget,
        f"the effect tensors of {len(subsets)} subsets of features on the union grid (the largest, "
        f"{names}, has {'x'.join(map(str, grid.shape(subsets[largest])))} cells)",
        "Pass order=2 to purify, or train with a smaller depth or fewer bins.",
    )
