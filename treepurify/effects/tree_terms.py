"""The terms on which one tree is projected, on the grid of the tree's own splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from treepurify.effects.accumulate import LeafBoxes
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble

__all__ = [
    "TreeTerms",
    "add_differences",
    "integrate",
    "leaf_term_expectations",
    "term_subsets",
    "tree_terms",
]

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class TreeTerms:
    """Tables over the cells that one tree can tell apart.

    Columns of cells are the tree's features, then a constant, then combinations of two
    features that serve as one column of a term of three.

    Parameters
    ----------
    subsets : tuple of tuple of int
        Features of each term.
    local_cells : dict of int to ndarray of int
        For each feature, the tree's cell of each cell of the union grid.
    columns : tuple of tuple of int
        Features of each column: one, none, or two.
    first, second : ndarray of int64, shape (n_terms,)
        The two columns of each term.
    base : ndarray of int64, shape (n_terms + 1,)
        Start of each term's table.
    width : ndarray of int64, shape (n_terms,)
        Number of cells of the second column.
    """

    subsets: tuple[Subset, ...]
    local_cells: dict[int, npt.NDArray[np.intp]]
    columns: tuple[Subset, ...]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    base: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]

    def feature_sizes(self) -> dict[int, int]:
        """Return the number of cells of each feature."""
        return {j: int(local.max()) + 1 for j, local in self.local_cells.items()}

    def sizes(self) -> list[int]:
        """Return the number of cells of each column."""
        own = self.feature_sizes()
        return [prod(own[j] for j in column) for column in self.columns]

    def row_cells(self, codes: Cells) -> Cells:
        """Return the cell of each row in each column, shape (n_rows, n_columns)."""
        largest = max(self.sizes())
        dtype = np.uint8 if largest <= 256 else np.uint16 if largest <= 65536 else np.uint32
        cells = np.zeros((codes.shape[1], len(self.columns)), dtype=dtype)
        for position, column in enumerate(self.columns):
            flat: Any = 0
            for j in column:
                own = self.local_cells[j].astype(dtype)
                flat = flat * dtype(own.max() + 1) + own[codes[j]]
            cells[:, position] = flat
        return cells

    def margins(self, margins: dict[int, Array]) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the start of each column's margin and the margins, one after the other."""
        parts = []
        for column in self.columns:
            margin = np.ones(1)
            for j in column:
                own = np.bincount(self.local_cells[j], weights=margins[j])
                margin = np.multiply.outer(margin, own).ravel()
            parts.append(margin)
        start = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return start.astype(np.int64), np.concatenate(parts)

    def tables(self, flat: Array) -> dict[Subset, Array]:
        """Return the table of each term, one axis a feature."""
        found = {}
        for term, subset in enumerate(self.subsets):
            shape = [int(self.local_cells[j].max()) + 1 for j in subset]
            found[subset] = flat[self.base[term] : self.base[term + 1]].reshape(shape)
        return found


def term_subsets(boxes: LeafBoxes, leaves: npt.NDArray[np.intp], order: int) -> list[Subset]:
    """Return the sets of at most `order` features that occur together on a path of a tree.

    Sets contained in others are left out, since their functions are among those of the
    larger one.
    """
    full: set[Subset] = set()
    short = set()
    for group in np.unique(boxes.leaf_subset[leaves]):
        path = boxes.subsets[group] if group >= 0 else ()
        if len(path) >= order:
            full.update(combinations(path, order))
        elif path:
            short.add(path)
    wider = full | short
    alone = {part for part in short if not any(set(part) < set(other) for other in wider)}
    return sorted(full | alone, key=lambda subset: (len(subset), subset))


def tree_terms(
    ensemble: TreeEnsemble, tree: int, grid: Grid, subsets: Sequence[Subset]
) -> TreeTerms | None:
    """Return the terms of a tree on these sets of features; None for a tree without splits."""
    if not subsets:
        return None
    features = sorted({j for subset in subsets for j in subset})
    local = {j: _local_cells(ensemble, tree, grid, j) for j in features}
    place: dict[Subset, int] = {(j,): i for i, j in enumerate(features)} | {(): len(features)}
    first = [place.setdefault(subset[:-1], len(place)) for subset in subsets]
    second = [place[subset[-1:]] for subset in subsets]
    columns = tuple(place)
    sizes = [int(np.prod([local[j].max() + 1 for j in column], dtype=int)) for column in columns]
    width = np.array([sizes[column] for column in second], dtype=np.int64)
    cells = np.array([sizes[column] for column in first], dtype=np.int64) * width
    return TreeTerms(
        tuple(subsets),
        local,
        columns,
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.concatenate([[0], np.cumsum(cells)]).astype(np.int64),
        width,
    )


def _local_cells(
    ensemble: TreeEnsemble, tree: int, grid: Grid, feature: int
) -> npt.NDArray[np.intp]:
    """Number the cells of one axis as the tree's own splits tell them apart.

    Intervals between two of the tree's cuts are one cell; categories that every split
    treats alike are one; the missing cell, where there is one, stands apart.
    """
    nodes = np.arange(ensemble.tree_ptr[tree], ensemble.tree_ptr[tree + 1])
    nodes = nodes[ensemble.feature[nodes] == feature]
    axis = grid.axes[feature]
    if axis.cuts is not None:
        own = np.unique(ensemble.cut[nodes])
        left = np.concatenate([[-np.inf], axis.cuts])
        cells = np.searchsorted(own[own > -np.inf], left, side="right")
    else:
        n_known = axis.n_cells - int(axis.has_missing)
        tables = [
            ensemble.category_left[p : p + n_known] for p in ensemble.category_ptr[nodes].tolist()
        ]
        _, cells = np.unique(np.stack(tables), axis=1, return_inverse=True)
        cells = cells.reshape(-1)
    if axis.has_missing:
        cells = np.append(cells, cells.max() + 1)
    return np.asarray(cells, dtype=np.intp)


def leaf_term_expectations(
    terms: TreeTerms,
    boxes: LeafBoxes,
    leaves: npt.NDArray[np.intp],
    values: Array,
    start: npt.NDArray[np.int64],
    margins: Array,
) -> Array:
    """Return the inner products of a tree with the cells of each term under independent features.

    Parameters
    ----------
    terms : TreeTerms
        The terms.
    boxes : LeafBoxes
        All leaves.
    leaves : ndarray of int
        The tree's leaves.
    values : ndarray of shape (n_leaves,)
        Their values.
    start, margins : ndarray
        See `TreeTerms.margins`.
    """
    result = np.zeros(terms.base[-1])
    shape_of = {column: i for i, column in enumerate(terms.columns)}
    own_margin = {
        j: margins[start[shape_of[(j,)]] : start[shape_of[(j,)] + 1]] for j in terms.local_cells
    }
    for leaf, value in zip(leaves, values, strict=True):
        if boxes.leaf_subset[leaf] < 0:
            continue
        inside = _leaf_masks(terms, boxes, leaf)
        held = {j: own_margin[j] * mask for j, mask in inside.items()}
        share = {j: float(part.sum()) for j, part in held.items()}
        for term, subset in enumerate(terms.subsets):
            rest = float(np.prod([s for j, s in share.items() if j not in subset]))
            if rest == 0.0:
                continue
            product = np.array(value * rest)
            for j in subset:
                product = np.multiply.outer(product, held.get(j, own_margin[j]))
            result[terms.base[term] : terms.base[term + 1]] += product.ravel()
    return result


def _leaf_masks(terms: TreeTerms, boxes: LeafBoxes, leaf: int) -> dict[int, npt.NDArray[np.bool_]]:
    masks = {}
    for entry in range(boxes.entry_ptr[leaf], boxes.entry_ptr[leaf + 1]):
        j = int(boxes.entry_feature[entry])
        local = terms.local_cells[j]
        mask = np.zeros(local.max() + 1, dtype=bool)
        for run in range(boxes.run_ptr[entry], boxes.run_ptr[entry + 1]):
            mask[local[boxes.run_start[run] : boxes.run_stop[run]]] = True
        masks[j] = mask
    return masks


def add_differences(
    table: Array,
    subset: Subset,
    local_cells: dict[int, npt.NDArray[np.intp]],
    grid: Grid,
    total: Array,
) -> None:
    """Add a term's table to a tensor on the union grid, as differences along numeric axes.

    A table of a few cells then costs a few additions, not one for each cell of the union
    grid; `integrate` sums the differences up once, after all trees.
    """
    places = []
    for position, j in enumerate(subset):
        local = local_cells[j]
        if grid.axes[j].is_categorical:
            table = np.take(table, local, axis=position)
            places.append(np.arange(len(local)))
        else:
            zero = np.zeros_like(np.take(table, [0], axis=position))
            table = np.diff(table, axis=position, prepend=zero)
            places.append(np.searchsorted(local, np.arange(local.max() + 1)))
    total[np.ix_(*places)] += table


def integrate(total: Array, subset: Subset, grid: Grid) -> None:
    """Turn differences along numeric axes into values, in place."""
    for position, j in enumerate(subset):
        if not grid.axes[j].is_categorical:
            np.cumsum(total, axis=position, out=total)
