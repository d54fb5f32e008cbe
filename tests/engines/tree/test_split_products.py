"""Products of splits beside walks along all paths, and their sums beside those over all cells."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from tests.reference.ensembles import random_ensemble, representatives
from tests.reference.split_products import (
    in_products,
    in_sides,
    leaf_of_rows,
    products_on_paths,
)
from treepurify.effects.accumulate import ensemble_cuts
from treepurify.effects.conditional import Margins
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.engines.tree.split_products import (
    SplitProducts,
    product_tables,
    sets_of,
    splits_of,
    tree_products,
)
from treepurify.grids.grid import make_grid

SCENES = {
    "numbers": {"n_features": 3},
    "categories": {"n_features": 3, "n_categorical": 2, "n_codes": 5},
    "categories only": {"n_features": 3, "n_categorical": 3, "n_codes": 4},
    "one feature": {"n_features": 1},
    "one feature of categories": {"n_features": 1, "n_categorical": 1, "n_codes": 6},
}
CELLS = {"every cell has mass": 0.0, "some cells have none": 0.3, "most cells have none": 0.7}
N_DRAWN = 6


class Scene(NamedTuple):
    """A random ensemble on its grid, masses of the cells of each feature, and all joint cells."""

    ensemble: object
    grid: object
    masses: list
    codes: np.ndarray
    X: np.ndarray

    @property
    def margins(self):
        return Margins.of(self.masses)

    @property
    def joint(self):
        """The mass of each joint cell where features are independent."""
        return np.prod([m[code] for m, code in zip(self.masses, self.codes, strict=True)], axis=0)

    def products(self, order):
        splits = splits_of(self.ensemble, self.grid, self.margins)
        trees = range(self.ensemble.n_trees)
        return [tree_products(splits, tree, order, 1 << 30) for tree in trees]


def draw(seed, share_without_mass, missing_cells="always", **options):
    """Trees of repeated and contradictory tests; some cuts part missing values from others."""
    rng = np.random.default_rng(seed)
    ensemble = random_ensemble(rng, n_trees=4, depth=5, **options)
    at_once = (ensemble.category_ptr < 0) & (rng.random(len(ensemble.cut)) < 0.1)
    ensemble = replace(ensemble, cut=np.where(at_once, -np.inf, ensemble.cut))
    grid, _ = make_grid(
        None,
        ensemble.features,
        ensemble_cuts(ensemble),
        match_names=False,
        missing_cells=missing_cells,
    )
    masses = []
    for axis in grid.axes:
        mass = rng.random(axis.n_cells) * (rng.random(axis.n_cells) >= share_without_mass)
        mass[rng.integers(axis.n_cells)] += 0.1
        masses.append(mass / mass.sum())
    codes = np.indices([axis.n_cells for axis in grid.axes]).reshape(grid.n_features, -1)
    X = np.stack([representatives(axis)[0][codes[j]] for j, axis in enumerate(grid.axes)], axis=1)
    return Scene(ensemble, grid, masses, codes, X)


ALL = [
    pytest.param(share, options, id=f"{name}, {cells}")
    for name, options in SCENES.items()
    for cells, share in CELLS.items()
]


def as_sets(products, masses):
    """Each product as a set of sides, and each of these as its feature and cells with mass."""
    sides, cells = products.sides, []
    for side, j in enumerate(sides.feature.tolist()):
        runs = range(sides.run_ptr[side], sides.run_ptr[side + 1])
        inside = [c for run in runs for c in range(sides.run_start[run], sides.run_stop[run])]
        cells.append((j, frozenset(c for c in inside if masses[j][c] > 0)))
    return [frozenset(cells[side] for side in u if side >= 0) for u in products.products]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("share", "options"), ALL)
@pytest.mark.parametrize("missing_cells", ["auto", "always"])
def test_products_are_those_of_sides_on_one_path(share, options, missing_cells, order):
    for seed in range(N_DRAWN):
        scene = draw(seed, share, missing_cells, **options)
        for tree, products in enumerate(scene.products(order)):
            found = as_sets(products, scene.masses)
            expected = products_on_paths(scene.ensemble, tree, scene.grid, scene.masses, order)
            assert len(found) == len(set(found))
            assert set(found) == expected


@pytest.mark.parametrize(("share", "options"), ALL)
def test_parts_are_products_without_one_side(share, options):
    for seed in range(N_DRAWN):
        for products in draw(seed, share, **options).products(3):
            rows = [tuple(side for side in u if side >= 0) for u in products.products.tolist()]
            assert rows[0] == ()
            assert all(np.all(np.diff(products.sides.feature[list(u)]) > 0) for u in rows)
            for u, parts in zip(rows, products.parts.tolist(), strict=True):
                assert parts[len(u) :] == [-1] * (3 - len(u))
                for k in range(len(u)):
                    assert rows[parts[k]] == u[:k] + u[k + 1 :]


def independent(products, margins):
    """The mass of every two products where features are independent."""
    of_pairs = np.full((len(products.products), len(products.products)), np.nan)
    products.write_independent(margins, of_pairs)
    return of_pairs


@pytest.mark.parametrize(("share", "options"), ALL)
def test_masses_are_sums_over_all_joint_cells(share, options):
    for seed in range(N_DRAWN):
        scene = draw(seed, share, **options)
        boxes = leaf_boxes(scene.ensemble, scene.grid)
        all_leaves = np.flatnonzero(scene.ensemble.feature < 0)
        for tree, products in enumerate(scene.products(3)):
            columns = in_sides(products.sides, scene.codes)
            np.testing.assert_allclose(products.mass, scene.joint @ columns, atol=1e-14)
            design = in_products(products, columns)
            weighed = scene.joint[:, None] * design
            found = independent(products, scene.margins)
            np.testing.assert_allclose(found, design.T @ weighed, atol=1e-14)
            first, last = scene.ensemble.tree_ptr[tree : tree + 2]
            numbers = np.flatnonzero((all_leaves >= first) & (all_leaves < last))
            of_cells = leaf_of_rows(scene.ensemble, tree, scene.X)
            is_in = of_cells[:, None] == all_leaves[numbers]
            found = products.in_leaves(boxes, numbers, scene.margins)
            np.testing.assert_allclose(found, is_in.T @ weighed, atol=1e-14)


@pytest.mark.parametrize(("share", "options"), ALL)
def test_centred_products_have_the_same_sum(share, options):
    for seed in range(N_DRAWN):
        scene = draw(seed, share, **options)
        for products in scene.products(3):
            columns = in_sides(products.sides, scene.codes)
            multiples = np.random.default_rng(seed).normal(size=(len(products.products), 2))
            expected = in_products(products, columns) @ multiples
            products.centre(multiples)
            found = in_products(products, columns - products.mass) @ multiples
            np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("share", "options"), ALL)
def test_tables_are_sums_of_outer_products(share, options, order):
    rng = np.random.default_rng(0)
    for seed in range(N_DRAWN):
        scene = draw(seed, share, **options)
        grid, trees = scene.grid, scene.products(order)
        found = set().union(*(sets_of(products, grid.n_features) for products in trees))
        subsets = sorted(found, key=lambda subset: (len(subset), subset))
        tables = product_tables(grid, subsets, 3)
        expected = {subset: np.zeros((*grid.shape(subset), 3)) for subset in subsets}
        for outputs, products in zip([[0], [2], [0, 1, 2], [1]], trees, strict=True):
            multiples = rng.normal(size=(len(products.products), len(outputs)))
            tables.add(products, multiples, np.array(outputs))
            centred = _centred_sides(products, grid)
            for u, some in zip(products.products[1:].tolist(), multiples[1:], strict=True):
                subset, table = (), some
                for side in reversed([side for side in u if side >= 0]):
                    subset = (int(products.sides.feature[side]), *subset)
                    factor = centred[side]
                    table = factor.reshape(-1, *[1] * table.ndim) * table
                expected[subset][..., outputs] += table
        for subset, table in tables.summed().items():
            np.testing.assert_allclose(table, expected[subset], atol=1e-11)


def _centred_sides(products: SplitProducts, grid):
    """The values of each side less its mass on the cells of its feature."""
    sides, values = products.sides, []
    for side, j in enumerate(sides.feature.tolist()):
        codes = np.zeros((grid.n_features, grid.axes[j].n_cells), dtype=int)
        codes[j] = np.arange(grid.axes[j].n_cells)
        values.append(in_sides(sides, codes)[:, side] - products.mass[side])
    return values


def test_cuts_without_mass_between_are_one_side():
    scene = draw(0, 0.0, "auto", n_features=2)
    ends = [np.eye(axis.n_cells)[[0, -1]].mean(axis=0) for axis in scene.grid.axes]
    for products in scene._replace(masses=ends).products(2):
        assert len(products.sides.feature) <= 2


def test_without_mass_on_both_sides_of_a_split_there_is_only_the_constant():
    scene = draw(0, 0.0, n_features=2, n_categorical=1)
    scene = scene._replace(masses=[np.eye(axis.n_cells)[1] for axis in scene.grid.axes])
    for products in scene.products(3):
        assert products.products.tolist() == [[-1, -1, -1]]
        np.testing.assert_array_equal(independent(products, scene.margins), [[1.0]])
