"""The projection of each tree by singular values of a dense design, and its purified sum."""

from dataclasses import replace
from itertools import combinations

import numpy as np

from tests.reference.ensembles import representatives
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.grids.grid import make_grid
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.rows.table_reader import read_columns
from treepurify.weights import Empirical

# Squared singular values below this are directions that the rows do not determine.
RANK_TOLERANCE = 1e-10


def paths_of(ensemble, tree, grid, margins):
    """The splits on the path to each leaf: of each the feature and the cells of its sides.

    A numeric split has its known cells and, apart from them, the missing one; a categorical split
    the categories that reach its left child.
    """
    first = int(ensemble.tree_ptr[tree])

    def walk(node, path, reached):
        j = int(ensemble.feature[node])
        if j < 0:
            yield path
            return
        axis = grid.axes[j]
        known = np.arange(axis.n_cells) < axis.n_cells - int(axis.has_missing)
        left_reached, right_reached = dict(reached), dict(reached)
        if axis.is_categorical:
            here = reached.get(j, margins[j] > 0)
            table = ensemble.category_left[ensemble.category_ptr[node] :][: known.sum()]
            missing = [ensemble.missing_left[node]] * (len(known) - len(table))
            left = np.append(table, missing).astype(bool)
            left_reached[j], right_reached[j] = here & left, here & ~left
            sides = [left_reached[j]]
        else:
            begins = np.concatenate([[-np.inf], axis.cuts, [np.inf] * int(axis.has_missing)])
            sides = [known & (begins < ensemble.cut[node]), ~known]
        below = [*path, *((j, side) for side in sides)]
        yield from walk(int(ensemble.left[node]), below, left_reached)
        yield from walk(int(ensemble.right[node]), below, right_reached)

    return list(walk(first, [], {}))


def products_of(paths, order):
    """All products of sides of up to `order` different features on a path."""
    found = {(): ()}
    for path in paths:
        for size in range(1, order + 1):
            for some in combinations(path, size):
                chosen = sorted(some, key=lambda side: side[0])
                if len({j for j, _ in chosen}) == size:
                    key = tuple((j, side.tobytes()) for j, side in chosen)
                    found[key] = tuple(chosen)
    return [found[key] for key in sorted(found, key=lambda key: (len(key), key))]


def independent_inner_products(products, margins):
    """Their inner products where features keep their margins and are independent."""
    matrix = np.ones((len(products), len(products)))
    for j, margin in enumerate(margins):
        cells = np.array([dict(product).get(j, np.ones(len(margin))) for product in products])
        matrix *= (cells * margin) @ cells.T
    return matrix


def project_one_tree(codes, weights, values, products, margins):
    """Tables by feature set, each of mean zero along its axes, the mean under the empty set.

    Orthonormal functions where features are independent make the least norm the Euclidean one.
    """
    eigenvalues, vectors = np.linalg.eigh(independent_inner_products(products, margins))
    present = eigenvalues > 1e-13
    basis = vectors[:, present] / np.sqrt(eigenvalues[present])
    on_rows = np.ones((len(weights), len(products)))
    for u, product in enumerate(products):
        for j, side in product:
            on_rows[:, u] *= side[codes[j]]
    root = np.sqrt(weights)[:, None]
    left, singular, right = np.linalg.svd(root * (on_rows @ basis), full_matrices=False)
    kept = singular**2 > RANK_TOLERANCE
    mean = weights @ values
    target = left[:, kept].T @ (root * (values - mean))
    coefficients = basis @ (right[kept].T @ (target / singular[kept, None]))
    tables = {(): mean}
    for product, multiple in zip(products, coefficients, strict=True):
        for size in range(len(product) + 1):
            for part in combinations(product, size):
                features = tuple(j for j, _ in part)
                term = multiple
                for j, side in product:
                    if j not in features:
                        term = term * margins[j][side].sum()
                for j, side in reversed(part):
                    factor = side - margins[j][side].sum()
                    term = factor.reshape(-1, *[1] * term.ndim) * term
                tables[features] = tables.get(features, 0.0) + term
    return tables


def purified_projection(ensemble, X, order=2, sample_weight=None, weighting=None):
    """Intercept, pure effects and masses of the sum of the trees' projections.

    What a weighting has beside the rows is a row in every joint cell, of its mass there.
    """
    weighting = Empirical() if weighting is None else weighting
    columns = ensemble.columns(X)
    grid, rows = make_grid(
        columns,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=ensemble.has_feature_names,
    )
    given = replace(rows, weights=None if sample_weight is None else np.asarray(sample_weight))
    parts = [(columns, rows.codes, weighting.share_of_rows * given.shares)]
    if weighting.share_of_rows < 1:
        parts.append(every_cell(ensemble, grid, given, weighting))
    codes = np.concatenate([codes for _, codes, _ in parts], axis=1)
    weights = np.concatenate([weights for _, _, weights in parts])
    margins = [
        np.bincount(codes[j], weights=weights, minlength=axis.n_cells)
        for j, axis in enumerate(grid.axes)
    ]
    intercept, sums = ensemble.base.copy(), {}
    for tree in range(ensemble.n_trees):
        found = [tree_values(ensemble, tree, columns) for columns, _, _ in parts]
        values, outputs = np.concatenate([values for values, _ in found]), found[0][1]
        products = products_of(paths_of(ensemble, tree, grid, margins), order)
        tables = project_one_tree(codes, weights, values, products, margins)
        intercept[outputs] += tables.pop(())
        for subset, table in tables.items():
            total = sums.setdefault(subset, np.zeros((*grid.shape(subset), ensemble.n_outputs)))
            total[..., outputs] += table
    subsets = downward_closure(sums)
    axes = {subset: grid.subset_axes(subset) for subset in subsets}
    mass = weighting.tables(grid, given, subsets)
    tensors = {s: EffectTensor(s, axes[s], table) for s, table in sums.items()}
    purified = purify_effects(
        EffectTensors(intercept, tensors), mass, axes, progress=lambda *_: None
    )
    return purified, mass


def every_cell(ensemble, grid, rows, weighting):
    """Columns, codes and masses of what a weighting has beside the rows, one for each cell."""
    margins = weighting.beside_rows.tables(grid, rows, [(j,) for j in range(grid.n_features)])
    codes = np.indices([axis.n_cells for axis in grid.axes]).reshape(grid.n_features, -1)
    masses = np.prod([margins[j,][code] for j, code in enumerate(codes)], axis=0)
    X = np.stack([representatives(axis)[0][codes[j]] for j, axis in enumerate(grid.axes)], axis=1)
    share = 1 - weighting.share_of_rows
    return read_columns(X, ensemble.features), codes, share * masses


def tree_values(ensemble, tree, columns):
    """Values of one tree on the rows, and the outputs that they feed."""
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
