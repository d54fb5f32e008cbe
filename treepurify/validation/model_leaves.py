"""The leaves of a model as boxes of cells: those of trees, and the cells of tables."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from treepurify.budget import check_budget
from treepurify.effects.accumulate import model_cuts
from treepurify.effects.leaf_boxes import LeafBoxes, leaf_boxes
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Grid, make_grid
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.parse import Model
from treepurify.typing import Array, Indices, Mask

__all__ = ["ModelLeaves", "model_leaves"]

# A feature, the start of its runs, one run of cells, and a value.
_BYTES_PER_ENTRY = 28


@dataclass(frozen=True, eq=False)
class ModelLeaves:
    """A model as a sum of trees, each a value per box of cells; a table counts as a tree.

    Parameters
    ----------
    grid : Grid
        All cuts of the model, with cells for missing and unseen values everywhere.
    boxes : LeafBoxes
        The leaves on it. Those of one tree that a cell reaches fill the grid without overlap.
    tree : ndarray of int64, shape (n_leaves,)
        Tree of each leaf.
    """

    grid: Grid
    boxes: LeafBoxes
    tree: Indices

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.tree[-1]) + 1 if len(self.tree) else 0

    @cached_property
    def reached(self) -> Mask:
        """Which leaves a cell reaches, shape (n_leaves,)."""
        return self.boxes.leaf_subset >= 0

    @cached_property
    def owner(self) -> Indices:
        """Leaf of each entry, shape (n_entries,)."""
        return np.repeat(np.arange(len(self.tree)), np.diff(self.boxes.entry_ptr))

    @cached_property
    def n_cells(self) -> Indices:
        """Number of cells along each feature."""
        return np.array([axis.n_cells for axis in self.grid.axes], dtype=np.int64)

    def values(self, output: int) -> Array:
        """Return what each leaf adds to one output, shape (n_leaves,); NaN where it feeds others.

        Parameters
        ----------
        output : int
            Position of the output.
        """
        values, feeds = self.boxes.values, self.boxes.output
        own = values[:, 0] if values.shape[1] == 1 else values[:, output]
        return np.where(feeds == output, values[:, 0], np.where(feeds < 0, own, np.nan))


def model_leaves(model: Model, memory_budget: int) -> ModelLeaves:
    """Return the leaves of a model on the grid of all its cuts.

    Parameters
    ----------
    model : TreeEnsemble or AdditiveTables
        The model.
    memory_budget : int
        Bytes that they may take.

    Raises
    ------
    MemoryBudgetError
        If they would not fit.
    """
    grid, _ = make_grid(
        None,
        model.features,
        model_cuts(model),
        match_names=model.has_feature_names,
        missing_cells="always",
    )
    if isinstance(model, AdditiveTables):
        n_leaves = sum(prod(term.scores.shape[:-1]) for term in model.terms)
        longest = max((len(term.features) for term in model.terms), default=0)
    else:
        n_leaves, longest = model.n_leaves, min(model.depth, len(model.used_features))
    check_budget(
        _BYTES_PER_ENTRY * n_leaves * max(longest, 1),
        memory_budget,
        f"the cells of {n_leaves} leaves along up to {longest} features",
        "Train with fewer or smaller trees.",
    )
    if isinstance(model, AdditiveTables):
        return _of_tables(model, grid)
    leaves = np.flatnonzero(model.feature < 0)
    tree = np.searchsorted(model.tree_ptr, leaves, side="right") - 1
    return ModelLeaves(grid, leaf_boxes(model, grid), tree.astype(np.intp))


def _of_tables(model: AdditiveTables, grid: Grid) -> ModelLeaves:
    """Return each cell of each table as a leaf."""
    terms = [term for term in model.terms if term.features]
    parts = [_cells_of_term(term, grid) for term in terms]
    sizes = [len(term.scores.reshape(-1, model.n_outputs)) for term in terms]
    orders = np.repeat([len(term.features) for term in terms], sizes).astype(np.int64)
    entry_feature, start, stop = (
        np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, dtype=np.int32)
        for i in range(3)
    )
    subsets = tuple(term.features for term in terms)
    values = [term.scores.reshape(-1, model.n_outputs) for term in terms]
    tree = np.repeat(np.arange(len(terms)), sizes)
    is_reached = np.ones(len(tree), dtype=bool)
    entry_ptr = np.concatenate([[0], np.cumsum(orders)])
    if len(tree):
        # Cells without an interval of the grid, such as one below a cut at minus infinity.
        is_reached = np.minimum.reduceat(stop - start, entry_ptr[:-1]) > 0
    boxes = LeafBoxes(
        subsets,
        np.where(is_reached, tree, -1),
        entry_ptr,
        entry_feature.astype(np.int32),
        np.arange(len(entry_feature) + 1),
        start.astype(np.int32),
        stop.astype(np.int32),
        np.concatenate(values) if values else np.zeros((0, model.n_outputs)),
        np.full(len(tree), -1, dtype=np.int32),
    )
    return ModelLeaves(grid, boxes, tree)


def _cells_of_term(term: TableTerm, grid: Grid) -> tuple[Indices, Indices, Indices]:
    """Return the features of all cells of a term, and their runs on the grid."""
    along = [
        _ends_on_axis(grid.axes[j], cuts) for j, cuts in zip(term.features, term.cuts, strict=True)
    ]
    places = np.indices(term.scores.shape[:-1]).reshape(len(term.features), -1)
    start = np.stack([ends[0][place] for ends, place in zip(along, places, strict=True)], axis=1)
    stop = np.stack([ends[1][place] for ends, place in zip(along, places, strict=True)], axis=1)
    features = np.tile(term.features, places.shape[1])
    return features, start.reshape(-1), stop.reshape(-1)


def _ends_on_axis(axis: FeatureAxis, cuts: Array | None) -> tuple[Indices, Indices]:
    """Return where the cells of a term with these cuts start and stop on a finer axis."""
    if cuts is None or axis.cuts is None:
        start = np.arange(axis.n_cells)
        return start, start + 1
    inner = np.searchsorted(axis.cuts, cuts) + 1
    regular = axis.n_regular
    start = np.concatenate([[0], inner, [regular]])
    return start, np.concatenate([inner, [regular, regular + 1]])
