"""A tree of tables of pairs, and log-linear models of all pairs, beside brute force."""

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import make_grid
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.weights.chow_liu import fit_table_tree
from treepurify.weights.coded_rows import CodedRows, dependent_pairs
from treepurify.weights.held_out import INDEPENDENT_SHARES

CATEGORIES = tuple(FeatureSpec(name, "categorical", n_codes=3) for name in "abcd")


def chain(n_rows: int, seed: int = 0, size: int = 4) -> np.ndarray:
    """Return categories of three levels, neighbours alike."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n_rows, size)).astype(float)
    for j in range(1, size):
        X[:, j] = np.where(rng.random(n_rows) < 0.7, X[:, j - 1], X[:, j])
    return X


def coded(X: np.ndarray) -> CodedRows:
    codes = X.astype(int).T
    sizes = tuple(int(code.max()) + 1 for code in codes)
    return CodedRows(list(codes), sizes, np.full(len(X), 1 / len(X)), float(len(X)))


def on_grid(X: np.ndarray):
    return make_grid(read_columns(X, CATEGORIES), CATEGORIES, (None,) * 4, match_names=False)


def best_tree(X: np.ndarray) -> float:
    """Return the largest sum of mutual informations over all trees, by trying them all."""
    rows = coded(X)
    information = {}
    for i, j in combinations(range(X.shape[1]), 2):
        table = rows.table(i, j)
        apart = np.outer(rows.margin(i), rows.margin(j))
        there = table > 0
        information[i, j] = float(np.sum(table[there] * np.log(table[there] / apart[there])))
    sums = []
    for edges in combinations(information, X.shape[1] - 1):
        reached, before = {0}, 0
        while len(reached) != before:
            before = len(reached)
            reached |= {j for edge in edges if reached & set(edge) for j in edge}
        if len(reached) == X.shape[1]:
            sums.append(sum(information[edge] for edge in edges))
    return max(sums)


def test_the_tree_of_many_rows_is_that_of_chow_and_liu():
    X = chain(20_000)[:, [2, 0, 3, 1]]
    tree = fit_table_tree(coded(X), None)
    assert {tuple(sorted(edge.pair)) for edge in tree.edges} == {(1, 3), (0, 3), (0, 2)}
    assert tree.gain == pytest.approx(best_tree(X), abs=2e-3)


def test_independent_features_have_no_edges():
    X = np.random.default_rng(0).integers(0, 3, (300, 4))
    assert fit_table_tree(coded(X), None).edges == ()


def test_masses_of_the_tree_are_products_along_its_edges():
    X = chain(300)
    tree = fit_table_tree(coded(X), 2.0)
    joint = np.ones((3,) * 4)
    for cell in product(range(3), repeat=4):
        mass = tree.margins[0][cell[0]]
        for edge in tree.edges:
            parent, child = edge.pair
            mass *= edge.mass[cell[parent], cell[child]] / edge.mass[cell[parent]].sum()
        joint[cell] = mass
    assert joint.min() > 0
    for size in range(1, 5):
        for subset in combinations(range(4), size):
            summed = joint.sum(axis=tuple(j for j in range(4) if j not in subset))
            np.testing.assert_allclose(tree.mass(subset), summed, atol=1e-14)


def test_shares_are_those_that_foretell_a_row_that_is_left_out():
    X = chain(60, size=2)
    (table,) = dependent_pairs(coded(X), None, one_share=False)
    found = []
    for share in INDEPENDENT_SHARES:
        logs = []
        for row in range(60):
            others = coded(np.delete(X, row, axis=0))
            apart = np.outer(others.margin(0), others.margin(1))
            mass = (1 - share) * others.table(0, 1) + share * apart
            here = mass[tuple(X[row].astype(int))]
            logs.append(np.log(here) if here > 0 else -np.inf)
        found.append(np.mean(logs))
    assert table.share_apart == INDEPENDENT_SHARES[int(np.argmax(found))]
    assert table.gain == pytest.approx(max(found) - found[-1], abs=1e-12)


@pytest.mark.parametrize("prior_count", [None, 5.0])
def test_log_linear_masses_have_the_tables_and_no_interaction_of_three(prior_count):
    X = chain(400)
    grid, rows = on_grid(X)
    every = [s for k in range(1, 5) for s in combinations(range(4), k)]
    tables = tp.weights.LogLinear(prior_count).tables(grid, rows, every)
    joint = tables[0, 1, 2, 3]
    assert joint.min() > 0
    for table in dependent_pairs(coded(X), prior_count, one_share=True):
        np.testing.assert_allclose(tables[table.pair], table.mass, atol=1e-9)
    # The log of the joint mass is in the span of functions of two features.
    cells = np.array(list(product(range(3), repeat=4)))
    columns = [
        (cells[:, i] == a) & (cells[:, j] == b)
        for i, j in combinations(range(4), 2)
        for a, b in product(range(3), repeat=2)
    ]
    design = np.stack(columns, axis=1).astype(float)
    logs = np.log(joint.ravel())
    left = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
    assert np.abs(left).max() < 1e-7


@pytest.mark.parametrize("weighting", [tp.weights.ChowLiu(), tp.weights.LogLinear()])
def test_points_have_the_tables_and_follow_no_order(weighting):
    X = chain(500)
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] + X[:, 3])
    d = tp.purify(model, X, weights=weighting)
    again = tp.purify(model, X[np.random.default_rng(1).permutation(500)], weights=weighting)
    np.testing.assert_array_equal(d["x0", "x1"].values, again["x0", "x1"].values)
    grid, rows = on_grid(X)
    masses = weighting.tables(grid, rows, [(0, 1), (0,)])
    np.testing.assert_allclose(d["x0", "x1"].mass, masses[0, 1], atol=2e-3)
    np.testing.assert_allclose(d["x0"].mass, masses[0,], atol=1e-4)
    assert d.certificate.is_exact
    assert "(fixed seed)" in d.certificate.note
    assert d.diagnostics["measure"]["gain"] > 0


def test_numbers_missing_values_and_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    X[:, 1] = X[:, 0] ** 2 + 0.1 * X[:, 1]
    X[rng.random(800) < 0.1, 2] = np.nan
    weights = rng.exponential(size=800)
    columns = read_columns(X, tuple(FeatureSpec(name) for name in "abc"))
    for weighting in (tp.weights.ChowLiu(), tp.weights.LogLinear()):
        measure = weighting.fitted(columns, weights, 1 << 30)
        for drawn, values in zip(measure.columns.values, X.T, strict=True):
            known = ~np.isnan(values)
            missing = weights[~known].sum() / weights.sum()
            assert np.isnan(drawn).mean() == pytest.approx(missing, abs=3e-3)
            mean = np.average(values[known], weights=weights[known])
            assert np.nanmean(drawn) == pytest.approx(mean, abs=0.01)
        curve = np.corrcoef(measure.columns.values[0] ** 2, measure.columns.values[1])[0, 1]
        assert curve > 0.4


def test_projections_and_functions_take_the_points():
    X = chain(400)
    model = GradientBoostingRegressor(max_depth=2, n_estimators=20, random_state=0)
    model.fit(X, X[:, 0] * X[:, 1] * X[:, 2])
    projected = tp.purify(model, X, weights="chow-liu", method="projection")
    hooker = tp.hooker_anova(model, X, weights="chow-liu")
    assert projected.measure == hooker.measure == "chow-liu"
    for subset in hooker.components:
        difference = hooker[subset].on_rows(X) - projected[subset].on_rows(X)
        np.testing.assert_allclose(difference, 0, atol=1e-6)


def test_too_many_cells_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 30))
    columns = read_columns(X, tuple(FeatureSpec(f"x{j}") for j in range(30)))
    with pytest.raises(InvalidInputError, match="chow-liu"):
        tp.weights.LogLinear().fitted(columns, None, 1 << 30)
    with pytest.raises(InvalidInputError, match="prior_count"):
        tp.weights.ChowLiu(prior_count=-1)
