"""One tree's projection as least squares: terms on the grid of its own splits, and the problem."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from treepurify._kernels.family_tables import anova
from treepurify._kernels.joint_rows import local_cells
from treepurify._kernels.tree_gram import add_margins
from treepurify.effects.accumulate import LeafBoxes
from treepurify.engines.tree.family_tables import Indicators, TableLayout, table_layout
from treepurify.grids.grid import Grid, Subset
from treepurify.models.ensemble import TreeEnsemble
from treepurify.typing import Array, Cells, Indices, Integers, Mask
from treepurify.weights.weighting import outer_product

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "TreeFit",
    "TreeProblem",
    "TreeTerms",
    "common_weight",
    "independent_anova",
    "leaf_term_expectations",
    "term_subsets",
    "terms_on_cells",
    "tree_terms",
]


@dataclass(frozen=True, eq=False)
class TreeTerms:
    """Tables over the cells that one tree distinguishes.

    Parameters
    ----------
    subsets : tuple of tuple of int
        Features of each term, none contained in another.
    family : tuple of tuple of int
        These sets and all their subsets, the empty one included, by size, then by feature.
    local_cells : dict of int to ndarray of int
        For each feature, in increasing order, the tree's cell of each cell of the union grid.
    base : ndarray of int64, shape (n_terms + 1,)
        Start of each term's table in one array that holds all tables, and its end.
    """

    subsets: tuple[Subset, ...]
    family: tuple[Subset, ...]
    local_cells: dict[int, Indices]
    base: Integers

    @property
    def features(self) -> tuple[int, ...]:
        """The features, in increasing order."""
        return tuple(self.local_cells)

    @cached_property
    def position(self) -> dict[int, int]:
        """The position of each feature among them."""
        return {j: i for i, j in enumerate(self.local_cells)}

    @cached_property
    def _sizes(self) -> dict[int, int]:
        return {j: int(cells.max()) + 1 for j, cells in self.local_cells.items()}

    @cached_property
    def first_cells(self) -> dict[int, Indices]:
        """For each feature, the first cell of the union grid in each of the tree's."""
        return {
            j: np.searchsorted(local, np.arange(self._sizes[j]))
            for j, local in self.local_cells.items()
        }

    def shape(self, subset: Subset) -> tuple[int, ...]:
        """Return the number of the tree's cells along each feature of a subset."""
        return tuple(self._sizes[j] for j in subset)

    @cached_property
    def layout(self) -> TableLayout:
        """Where the tables of the family stand in one array that holds them all."""
        positions = [tuple(self.position[j] for j in subset) for subset in self.family]
        return table_layout(positions, self.shape(self.features))

    def family_tables(self, flat: Array) -> dict[Subset, Array]:
        """Return views of the tables of the family, of shape (cells..., n_outputs)."""
        return {
            subset: flat[first:last].reshape(*self.shape(subset), -1)
            for subset, (first, last) in zip(
                self.family, pairwise(self.layout.base.tolist()), strict=True
            )
        }

    @cached_property
    def entries(self) -> Indices:
        """Where the tables of the terms stand among those of the family."""
        first = dict(zip(self.family, self.layout.base.tolist(), strict=False))
        pieces = zip(self.subsets, pairwise(self.base.tolist()), strict=True)
        return np.concatenate(
            [first[subset] + np.arange(stop - start) for subset, (start, stop) in pieces]
        )

    def spread(self, flat: Array) -> Array:
        """Return the tables of the family: those of the terms, and zero elsewhere."""
        tables = np.zeros((int(self.layout.base[-1]), flat.shape[1]))
        tables[self.entries] = flat
        return tables

    @cached_property
    def folding(self) -> "csr_array":
        """The matrix that sums the tables of terms along axes, into those of the family.

        Each set of the family is summed from one term that holds it. The transpose spreads tables
        of the family over those of the terms, so that their sum stays.
        """
        from scipy.sparse import csr_array

        places, sources = [], []
        for first, subset in zip(self.layout.base.tolist(), self.family, strict=False):
            term, rest = self.holders[subset]
            shape = self.shape(self.subsets[term])
            part = first + np.arange(prod(self.shape(subset))).reshape(self.shape(subset))
            places.append(np.broadcast_to(np.expand_dims(part, rest), shape).ravel())
            sources.append(np.arange(self.base[term], self.base[term + 1]))
        entries = np.concatenate(places), np.concatenate(sources)
        ones = np.ones(len(entries[0]))
        return csr_array((ones, entries), shape=(int(self.layout.base[-1]), int(self.base[-1])))

    def fold(self, flat: Array) -> Array:
        """Return the tables of the family: sums of the tables of terms along their other axes."""
        return np.asarray(self.folding @ flat)

    def row_cells(self, codes: Cells, rows: Indices | None = None) -> Cells:
        """Return the tree's cell of each of some rows, or of all, along each feature.

        Shape (n_rows, n_features).
        """
        picked = np.arange(codes.shape[1]) if rows is None else rows
        largest = max(self.shape(self.features))
        dtype = np.uint8 if largest <= 256 else np.uint16 if largest <= 65536 else np.uint32
        local = [cells.astype(dtype) for cells in self.local_cells.values()]
        start = np.cumsum([0, *map(len, local)])
        cells = np.empty((len(picked), len(local)), dtype=dtype)
        features = np.array(self.features)
        local_cells(codes, features, np.concatenate(local), start, picked, cells)
        return cells

    def row_margins(self, cells: Cells, weights: Array) -> tuple[Array, ...]:
        """Return the weight of the rows in each cell of each feature; see `row_cells`."""
        ends = np.cumsum(self.shape(self.features))
        margins = np.zeros(ends[-1])
        add_margins(cells, weights, np.concatenate([[0], ends[:-1]]), margins)
        return tuple(np.split(margins, ends[:-1]))

    def margins(self, margins: dict[int, Array]) -> tuple[Array, ...]:
        """Return the margin of each feature over the tree's cells."""
        return tuple(
            np.asarray(np.bincount(local, weights=margins[j]), dtype=np.float64)
            for j, local in self.local_cells.items()
        )

    def tables(self, flat: Array) -> Iterator[tuple[Subset, Array]]:
        """Yield each term with its table, a view of shape (cells..., n_outputs)."""
        for term, subset in enumerate(self.subsets):
            entries = flat[self.base[term] : self.base[term + 1]]
            yield subset, entries.reshape(*self.shape(subset), flat.shape[-1])

    @cached_property
    def holders(self) -> dict[Subset, tuple[int, tuple[int, ...]]]:
        """For each set of the family a term that holds it, and the term's other axes."""
        holders: dict[Subset, tuple[int, tuple[int, ...]]] = {}
        for term, subset in enumerate(self.subsets):
            for size in range(len(subset) + 1):
                for part in combinations(subset, size):
                    rest = tuple(i for i, j in enumerate(subset) if j not in part)
                    holders.setdefault(part, (term, rest))
        return holders


@dataclass(frozen=True, eq=False)
class TreeProblem:
    """Fit a tree by a sum of tables over its own cells, in weighted least squares.

    The measure mixes weighted rows with `share` of the uniform distribution. Of all sums that
    fit equally well, the one of least norm is wanted: least mean square where features keep
    their margins and are independent. That norm is the same for all ways of writing a
    function as a sum of tables, whatever the order of rows and features.

    Parameters
    ----------
    terms : TreeTerms
        The tables.
    cells : ndarray of int, shape (n_rows, n_features)
        Cell of each row along each of the tree's features.
    target : ndarray of float64, shape (n_rows, n_outputs)
        Values of the tree, less their mean under the measure.
    weights : ndarray of float64, shape (n_rows,)
        Mass of each row; with `share` they sum to one.
    unit : float
        What the weights are whole multiples of, as those of rows that weigh the same and were
        joined are; 0 where nothing is known.
    margins : tuple of ndarray
        Mass of the cells of each feature under the measure.
    share : float
        Mass of the uniform distribution.
    uniform : tuple of ndarray
        Mass of the cells of each feature under the uniform distribution.
    uniform_products : ndarray of float64, shape (entries of all tables, n_outputs)
        `share` times the inner products of the tree with the cells of each table under the
        uniform distribution; no entries where the share is zero.
    """

    terms: TreeTerms
    cells: Cells
    target: Array
    weights: Array
    unit: float
    margins: tuple[Array, ...]
    share: float
    uniform: tuple[Array, ...]
    uniform_products: Array

    @cached_property
    def masses(self) -> Array:
        """The probability of each cell of the family's tables where features are independent."""
        held = [[self.margins[self.terms.position[j]] for j in s] for s in self.terms.family]
        return np.concatenate([outer_product(margins) for margins in held], axis=None)

    @cached_property
    def uniform_cells(self) -> Indicators:
        """The indicators of the cells of the terms under the uniform distribution."""
        return self.terms.layout.indicators(self.terms.entries, self.uniform)

    def spread(self) -> float:
        """Return the largest standard deviation of the tree over the rows and outputs."""
        variance = (self.weights[:, None] * self.target**2).sum(axis=0)
        return float(np.sqrt(variance.max(initial=0.0)))


def common_weight(weights: Array) -> float:
    """Return the weight of each row where all weigh the same, else 0."""
    return float(weights[0]) if len(weights) and np.ptp(weights) == 0 else 0.0


@dataclass(frozen=True, eq=False)
class TreeFit:
    """The projection of one tree on its terms.

    Parameters
    ----------
    tables : dict of tuple of int to ndarray of float64, shape (cells..., n_outputs)
        Tables whose sum is the projection, less the mean of the tree.
    undetermined : int
        Directions, apart from cells without rows, in which the rows do not determine the tables.
    error : float
        Estimated norm of the error of the tables.
    steps : int
        Conjugate-gradient steps; 0 for a direct solve.
    converged : bool
        Whether the tolerance was met.
    """

    tables: dict[Subset, Array]
    undetermined: int
    error: float
    steps: int = 0
    converged: bool = True


def independent_anova(problem: TreeProblem, tables: Array) -> None:
    """Write a sum of tables as its functional ANOVA where features are independent, in place.

    Many families of tables have the same sum. Where rows leave effects undetermined, what is
    reported for them depends on the tables, so that these must have one stated form. Cells
    without mass are zero in it.

    Parameters
    ----------
    problem : TreeProblem
        It has the margins.
    tables : ndarray of float64, shape (entries of the family, n_vectors)
        Tables in the order of `TreeTerms.layout`.
    """
    vectors = np.ascontiguousarray(tables.T)
    anova(problem.terms.layout, np.concatenate(problem.margins), vectors, True)
    tables[:] = vectors.T


def term_subsets(boxes: LeafBoxes, leaves: Indices, order: int) -> list[Subset]:
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
    local = {
        j: _local_cells(ensemble, tree, grid, j)
        for j in sorted({j for subset in subsets for j in subset})
    }
    return terms_on_cells(local, subsets)


def terms_on_cells(local: dict[int, Indices], subsets: Sequence[Subset]) -> TreeTerms:
    """Return the terms of these sets of features on given cells; see `TreeTerms`."""
    sizes = [prod(int(local[j].max()) + 1 for j in subset) for subset in subsets]
    base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    family = {part for s in subsets for size in range(len(s) + 1) for part in combinations(s, size)}
    ordered = tuple(sorted(family, key=lambda subset: (len(subset), subset)))
    return TreeTerms(tuple(subsets), ordered, local, base)


def _local_cells(ensemble: TreeEnsemble, tree: int, grid: Grid, feature: int) -> Indices:
    """Number the cells of one axis by the tree's own splits.

    Intervals between two of the tree's cuts are one cell; categories that every split
    treats alike are one; the missing cell, where there is one, is a cell of its own.
    """
    nodes = np.arange(ensemble.tree_ptr[tree], ensemble.tree_ptr[tree + 1])
    nodes = nodes[ensemble.feature[nodes] == feature]
    axis = grid.axes[feature]
    if axis.cuts is not None:
        cuts = np.unique(ensemble.cut[nodes])
        left = np.concatenate([[-np.inf], axis.cuts])
        cells = np.searchsorted(cuts[cuts > -np.inf], left, side="right")
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
    leaves: Indices,
    values: Array,
    margins: tuple[Array, ...],
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
    values : ndarray of shape (n_leaves, n_outputs)
        Their values.
    margins : tuple of ndarray
        See `TreeTerms.margins`.

    Returns
    -------
    ndarray of shape (entries of all terms, n_outputs)
    """
    result = np.zeros((terms.base[-1], values.shape[1]))
    margin_of = dict(zip(terms.features, margins, strict=True))
    for leaf, value in zip(leaves, values, strict=True):
        if boxes.leaf_subset[leaf] < 0:
            continue
        inside = _leaf_masks(terms, boxes, leaf)
        held = {j: margin_of[j] * mask for j, mask in inside.items()}
        share = {j: float(part.sum()) for j, part in held.items()}
        for term, subset in enumerate(terms.subsets):
            rest = float(np.prod([s for j, s in share.items() if j not in subset]))
            if rest == 0.0:
                continue
            product = np.array(rest)
            for j in subset:
                product = np.multiply.outer(product, held.get(j, margin_of[j]))
            result[terms.base[term] : terms.base[term + 1]] += product.ravel()[:, None] * value
    return result


def _leaf_masks(terms: TreeTerms, boxes: LeafBoxes, leaf: int) -> dict[int, Mask]:
    masks = {}
    for entry in range(boxes.entry_ptr[leaf], boxes.entry_ptr[leaf + 1]):
        j = int(boxes.entry_feature[entry])
        local = terms.local_cells[j]
        mask = np.zeros(local.max() + 1, dtype=bool)
        for run in range(boxes.run_ptr[entry], boxes.run_ptr[entry + 1]):
            mask[local[boxes.run_start[run] : boxes.run_stop[run]]] = True
        masks[j] = mask
    return masks
