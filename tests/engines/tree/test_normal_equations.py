"""The normal equations of a tree, from tables and row by row, beside a dense design."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import treepurify as tp
from tests.engines.tree.test_purify import scene
from treepurify.engines.tree import normal_equations, projection
from treepurify.engines.tree.cell_coding import code_cells
from treepurify.engines.tree.normal_equations import Equations, count_unknowns
from treepurify.engines.tree.ranked_sets import rank_sets, room_for_tables
from treepurify.engines.tree.solve import solve_tree

SCENES = {
    "numbers": ({"n_features": 5, "depth": 6}, {}),
    "few unknowns": ({"n_features": 3, "depth": 2}, {}),
    "many features": ({"n_features": 14, "depth": 6}, {}),
    "categories and missing values": (
        {"n_features": 6, "depth": 6, "n_categorical": 3, "missing": True},
        {},
    ),
    "several outputs": (
        {"n_features": 5, "depth": 5, "n_outputs": 3, "vector_leaves": True},
        {},
    ),
    "rows that weigh differently": ({"n_features": 5, "depth": 6}, {"sample_weight": True}),
    "uniform share": ({"n_features": 4, "depth": 5}, {"weights": tp.Laplace(0.3)}),
}
WAYS = {"tables": True, "row by row": False}


def problems(model, X, monkeypatch, **options):
    """The least-squares problems of all trees."""
    seen = []

    def keep(problem, *others):
        seen.append(problem)
        return solve_tree(problem, *others)

    monkeypatch.setattr(projection, "solve_tree", keep)
    tp.purify(model, X, progress=False, method="projection", order=2, **options)
    return seen


def dense(problem, coding):
    """The matrix and the right side from the indicators of all unknowns on all rows.

    Under the uniform share the rows are all cells of the grid.
    """
    layout = problem.terms.layout
    owner, cells = layout.cells(coding.entries)

    def indicators(rows):
        columns = []
        for unknown, own in zip(owner, cells, strict=True):
            held = layout.features[unknown]
            one = np.ones(len(rows), dtype=bool)
            for feature, cell in zip(held[held >= 0], own, strict=False):
                one &= rows[:, feature] == cell
            columns.append(one)
        return np.column_stack(columns).astype(float)

    design = indicators(problem.cells)
    matrix = design.T @ (problem.weights[:, None] * design)
    right = design.T @ (problem.weights[:, None] * problem.target)
    if problem.share > 0:
        grid = np.array(list(itertools.product(*(range(len(u)) for u in problem.uniform))))
        mass = np.prod([u[grid[:, f]] for f, u in enumerate(problem.uniform)], axis=0)
        everywhere = indicators(grid)
        matrix += problem.share * everywhere.T @ (mass[:, None] * everywhere)
    return matrix, right


def unscaled(equations: Equations, size: int):
    """The matrix in full: its image of all unit vectors that are kept, scaled back."""
    kept = equations.kept
    scaled = equations.image(np.eye(len(kept)))
    full = np.zeros((size, size))
    full[np.ix_(kept, kept)] = scaled / (equations.scaling[:, None] * equations.scaling)
    return full


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("way", WAYS)
def test_they_are_those_of_a_dense_design(name, way, monkeypatch):
    facts, options = SCENES[name]
    model, X = scene(4, n_trees=4, **facts)
    if options.get("sample_weight"):
        options = {"sample_weight": np.random.default_rng(0).integers(0, 3, len(X)) + 0.5}
    monkeypatch.setattr(normal_equations, "_are_tables_cheaper", lambda *_: WAYS[way])
    for problem in problems(model, X, monkeypatch, **options):
        coding = code_cells(problem)
        equations = normal_equations.normal_equations(problem, coding)
        matrix, right = dense(problem, coding)
        found = unscaled(equations, len(matrix))
        np.testing.assert_allclose(found, matrix, rtol=1e-10, atol=1e-13)
        if problem.share == 0:
            np.testing.assert_allclose(equations.right, right[equations.kept], atol=1e-13)
        else:
            assert np.all(np.isfinite(equations.right))


def deep_booster(n_rows):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 9)) + rng.normal(size=(n_rows, 1))
    X[:, 4] = X[:, 4] > 1
    X[:, 6] = np.round(X[:, 6])
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] ** 2 * X[:, 4] + X[:, 5] * X[:, 6] * (X[:, 7] > 1)
    return xgboost.XGBRegressor(n_estimators=8).fit(X, y), X


@pytest.mark.parametrize("n_rows", [40, 3000, 30_000])
def test_both_ways_are_the_same_to_the_last_count(n_rows, monkeypatch):
    model, X = deep_booster(n_rows)
    for problem in problems(model, X, monkeypatch):
        coding = code_cells(problem)
        sums = []
        for is_by_tables in (True, False):
            monkeypatch.setattr(
                normal_equations, "_are_tables_cheaper", lambda *_, way=is_by_tables: way
            )
            sums.append(normal_equations.normal_equations(problem, coding))
        for one, other in zip(sums[0].sums.parts(), sums[1].sums.parts(), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(sums[0].right, sums[1].right, rtol=1e-9, atol=1e-13)


def test_the_room_for_tables_is_that_of_the_largest_that_is_read(monkeypatch):
    model, X = deep_booster(3000)
    for problem in problems(model, X, monkeypatch):
        sets, _ = rank_sets(code_cells(problem), problem.margins)
        n, largest = len(sets.sizes), 0
        pairs = [p for p in itertools.combinations(range(n), 2) if sets.first[p] >= 0]
        held = [*pairs, *((f,) for f in range(n))]
        for one, other in itertools.combinations(held, 2):
            union = sorted({*one, *other})
            largest = max(largest, int(np.prod(sets.sizes[union] + 1)))
        assert room_for_tables(sets) == largest


@pytest.mark.parametrize(
    ("n_features", "n_copies", "is_cheaper"), [(6, 1, False), (6, 100, True), (30, 10, False)]
)
def test_tables_are_for_many_rows_of_few_features(n_features, n_copies, is_cheaper, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).uniform(-1, 1, size=(10_000, n_features))
    model = xgboost.XGBRegressor(n_estimators=3).fit(X, (X**2).sum(axis=1))
    for problem in problems(model, X[:3000], monkeypatch):
        many = replace(problem, cells=np.tile(problem.cells, (n_copies, 1)))
        assert normal_equations._are_tables_cheaper(many) == is_cheaper


def test_unknowns_on_a_row_are_counted_as_if_features_were_independent(monkeypatch):
    model, X = scene(4, n_trees=1, n_features=5, depth=6)
    (problem,) = problems(model, X, monkeypatch)
    unknowns = count_unknowns(problem)
    beside = [1 - margin.max() for margin in problem.margins]
    positions = [[problem.terms.position[j] for j in s] for s in problem.terms.family]
    assert unknowns.number == len(code_cells(problem).entries)
    assert unknowns.features_on_a_row == pytest.approx(sum(beside))
    on_a_row = sum(np.prod([beside[f] for f in s]) for s in positions)
    assert unknowns.on_a_row == pytest.approx(on_a_row)
