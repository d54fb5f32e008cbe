"""A tree ensemble as an additive model of tables, to be combined with an EBM."""

import numpy as np

from treepurify.budget import check_budget
from treepurify.effects.accumulate import accumulate, ensemble_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.grids.grid import make_grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.ensemble import TreeEnsemble

__all__ = ["ensemble_tables"]


def ensemble_tables(ensemble: TreeEnsemble, memory_budget: int) -> AdditiveTables:
    """Return the sum of the trees as one table for each set of features on a path.

    Parameters
    ----------
    ensemble : TreeEnsemble
        The trees.
    memory_budget : int
        Bytes that the tables may take.

    Returns
    -------
    AdditiveTables
        The same function, on the cells between its own cuts; without weights of bins.

    Raises
    ------
    MemoryBudgetError
        If the tables would not fit.
    """
    grid, _ = make_grid(
        None,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
        missing_cells="always",
    )
    boxes = leaf_boxes(ensemble, grid)
    n_cells = sum(float(np.prod(grid.shape(subset), dtype=float)) for subset in boxes.subsets)
    check_budget(
        int(16 * n_cells * ensemble.n_outputs),
        memory_budget,
        f"the trees as {len(boxes.subsets)} tables, to stand beside an EBM",
        "Purify trees and EBMs apart.",
    )
    effects = accumulate(ensemble, grid, boxes, memory_budget)
    terms = tuple(
        TableTerm(subset, tuple(axis.cuts for axis in tensor.axes), tensor.values)
        for subset, tensor in effects.tensors.items()
    )
    return AdditiveTables(
        terms,
        effects.intercept,
        ensemble.features,
        ensemble.output_names,
        ensemble.link,
        ensemble.source,
        ensemble.has_feature_names,
    )
