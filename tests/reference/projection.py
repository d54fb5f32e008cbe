"""The projection of each tree by singular values of a dense design, and its purified sum."""

import numpy as np

from treepurify.effects.accumulate import ensemble_cuts, leaf_boxes
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.engines.tree.tree_problem import term_subsets, tree_terms
from treepurify.grids.grid import make_grid
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.weights import Empirical

# Squared singular values below this are directions that the rows do not determine.
RANK_TOLERANCE = 1e-10


def product_basis(margin):
    """Functions of one feature, orthonormal and of mean zero: one row per cell."""
    present = margin > 0
    root = np.sqrt(margin[present] / margin.sum())
    square = np.column_stack([root, np.eye(len(root))[:, :-1]])
    basis = np.zeros((len(margin), len(root) - 1))
    basis[present] = np.linalg.qr(square)[0][:, 1:] / root[:, None]
    return basis


def project_one_tree(codes, weights, values, terms):
    """Tables of the tree's cells by feature set, the mean under the empty set.

    Orthonormal functions where features are independent make the least norm the Euclidean one.
    """
    basis, on_rows = {}, {}
    for j, local in terms.local_cells.items():
        cells = local[codes[j]]
        margin = np.bincount(cells, weights=weights, minlength=local.max() + 1)
        basis[j] = product_basis(margin)
        on_rows[j] = basis[j][cells]
    blocks = []
    for subset in terms.family:
        block = np.ones((len(weights), 1))
        for j in subset:
            block = (block[:, :, None] * on_rows[j][:, None, :]).reshape(len(weights), -1)
        blocks.append(block)
    root = np.sqrt(weights)[:, None]
    left, singular, right = np.linalg.svd(root * np.hstack(blocks), full_matrices=False)
    kept = singular**2 > RANK_TOLERANCE
    mean = weights @ values
    target = left[:, kept].T @ (root * (values - mean))
    coefficients = right[kept].T @ (target / singular[kept, None])
    tables, start = {}, 0
    for subset, block in zip(terms.family, blocks, strict=True):
        own = coefficients[start : start + block.shape[1]]
        table = own.reshape(*(basis[j].shape[1] for j in subset), values.shape[1])
        for axis, j in enumerate(subset):
            table = np.moveaxis(np.tensordot(basis[j], table, axes=(1, axis)), 0, axis)
        tables[subset] = table
        start += block.shape[1]
    tables[()] = tables[()].ravel() + mean
    return tables


def purified_projection(ensemble, X, order=2, sample_weight=None):
    """Intercept, pure effects and masses of the sum of the trees' projections."""
    columns = ensemble.columns(X)
    grid, rows = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    weights = np.ones(columns.n_rows) if sample_weight is None else np.asarray(sample_weight)
    weights = weights / weights.sum()
    boxes = leaf_boxes(ensemble, grid)
    leaves = np.flatnonzero(ensemble.feature < 0)
    bounds = np.searchsorted(leaves, ensemble.tree_ptr)
    intercept, sums = ensemble.base.copy(), {}
    for tree in range(ensemble.n_trees):
        own = np.arange(bounds[tree], bounds[tree + 1])
        values, outputs = tree_values(ensemble, tree, columns)
        terms = tree_terms(ensemble, tree, grid, term_subsets(boxes, own, order))
        if terms is None:
            intercept[outputs] += values[0]
            continue
        tables = project_one_tree(rows.codes, weights, values, terms)
        intercept[outputs] += tables.pop(())
        for subset, table in tables.items():
            cells = np.ix_(*(terms.local_cells[j] for j in subset))
            total = sums.setdefault(subset, np.zeros((*grid.shape(subset), ensemble.n_outputs)))
            total[..., outputs] += table[cells]
    subsets = downward_closure(sums)
    axes = {subset: grid.subset_axes(subset) for subset in subsets}
    weighted = type(rows)(rows.codes, None if sample_weight is None else weights)
    mass = Empirical().tables(grid, weighted, subsets)
    tensors = {s: EffectTensor(s, axes[s], table) for s, table in sums.items()}
    purified = purify_effects(
        EffectTensors(intercept, tensors), mass, axes, progress=lambda *_: None
    )
    return purified, mass


def tree_values(ensemble, tree, columns):
    """Values of one tree on the rows, and the outputs that they feed."""
    from dataclasses import replace

    first, last = ensemble.tree_ptr[tree : tree + 2]
    output = int(ensemble.tree_output[tree])
    outputs = [output] if output >= 0 else list(range(ensemble.n_outputs))
    nodes = slice(first, last)
    alone = replace(
        ensemble,
        tree_ptr=np.array([0, last - first]),
        feature=ensemble.feature[nodes],
        cut=ensemble.cut[nodes],
        left=ensemble.left[nodes] - np.where(ensemble.left[nodes] >= 0, first, 0),
        right=ensemble.right[nodes] - np.where(ensemble.right[nodes] >= 0, first, 0),
        missing_left=ensemble.missing_left[nodes],
        category_ptr=ensemble.category_ptr[nodes],
        value=ensemble.value[nodes],
        tree_output=ensemble.tree_output[tree : tree + 1],
        cover=None,
        base=np.zeros(ensemble.n_outputs),
    )
    return alone.margin(columns, precision="float64")[:, outputs], outputs
