"""The normal equations of coarse cells, from tables and row by row, beside a dense design."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from tests.engines.tree.coarse_problems import coarse_problem
from tests.engines.tree.test_purify import scene
from treepurify.engines.tree import normal_equations
from treepurify.engines.tree.normal_equations import (
    Equations,
    code_cells,
    count_unknowns,
    largest_table,
    rank_sets,
)

N_ROWS = 1500
SCENES = {
    "numbers": (5, {"pair_cells": 6}),
    "few unknowns": (3, {"main_cells": 4}),
    "main effects": (6, {"order": 1}),
    "many features": (14, {"pair_cells": 2}),
    "several outputs": (4, {"pair_cells": 5}),
    "rows that weigh differently": (
        5,
        {"pair_cells": 5, "sample_weight": np.arange(N_ROWS) % 3 + 0.5},
    ),
    "categories and missing values": (6, {}),
}
WAYS = {"tables": True, "row by row": False}


def forest_on_rows(n_rows, n_features=9, n_outputs=1):
    """A forest on features that depend on each other; the third has two values, the last few."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_rows, 1))
    X[:, 2] = X[:, 2] > 1
    X[:, -1] = np.round(X[:, -1])
    y = (X**2).sum(axis=1) + X[:, 0] * X[:, 1] * X[:, 2]
    y = y if n_outputs == 1 else np.digitize(y, np.quantile(y, np.arange(1, n_outputs) / n_outputs))
    family = RandomForestRegressor if n_outputs == 1 else RandomForestClassifier
    return family(5, max_depth=9, random_state=0).fit(X, y), X


def dense(problem, coding):
    """The matrix and the right side from the indicators of all unknowns on all rows."""
    layout = problem.terms.layout
    owner, cells = layout.cells(coding.entries)
    columns = []
    for unknown, own in zip(owner, cells, strict=True):
        held = layout.features[unknown]
        one = np.ones(len(problem.cells), dtype=bool)
        for feature, cell in zip(held[held >= 0], own, strict=False):
            one &= problem.cells[:, feature] == cell
        columns.append(one)
    design = np.column_stack(columns).astype(float)
    weighted = problem.weights[:, None] * design
    return design.T @ weighted, weighted.T @ problem.target


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
    n_features, options = SCENES[name]
    if name == "categories and missing values":
        model, X = scene(4, n_features=n_features, depth=6, n_categorical=3, missing=True)
    else:
        model, X = forest_on_rows(N_ROWS, n_features, 3 if name == "several outputs" else 1)
    problem = coarse_problem(model, X[:N_ROWS], monkeypatch, **options)
    monkeypatch.setattr(normal_equations, "_are_tables_cheaper", lambda *_: WAYS[way])
    coding = code_cells(problem)
    assert (coding.arrays.pivot >= 0) == (name != "few unknowns")
    equations = normal_equations.normal_equations(problem, coding)
    matrix, right = dense(problem, coding)
    found = unscaled(equations, len(matrix))
    np.testing.assert_allclose(found, matrix, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(equations.right, right[equations.kept], atol=1e-13)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n_rows", [40, 3000, 30_000])
def test_both_ways_are_the_same_to_the_last_count(n_rows, order, monkeypatch):
    model, X = forest_on_rows(n_rows)
    problem = coarse_problem(model, X, monkeypatch, order=order)
    coding = code_cells(problem)
    sums = []
    for is_by_tables in (True, False):
        monkeypatch.setattr(
            normal_equations, "_are_tables_cheaper", lambda *_, way=is_by_tables: way
        )
        sums.append(normal_equations.normal_equations(problem, coding))
    for one, other in zip(sums[0].sums.parts(), sums[1].sums.parts(), strict=True):
        assert one.dtype == np.int32
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(sums[0].right, sums[1].right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pair_cells", [2, 7])
def test_the_room_for_tables_is_that_of_the_largest_that_is_read(pair_cells, monkeypatch):
    model, X = forest_on_rows(3000)
    problem = coarse_problem(model, X, monkeypatch, pair_cells=pair_cells)
    sets, _ = rank_sets(code_cells(problem), problem.margins)
    n, largest = len(sets.sizes), 0
    pairs = [p for p in itertools.combinations(range(n), 2) if sets.first[p] >= 0]
    held = [*pairs, *((f,) for f in range(n))]
    for one, other in itertools.combinations(held, 2):
        union = sorted({*one, *other})
        largest = max(largest, int(np.prod(sets.sizes[union] + 1)))
    assert largest_table(sets) == largest


@pytest.mark.parametrize(
    ("n_features", "n_copies", "is_cheaper"), [(6, 1, True), (30, 1, False), (30, 100, True)]
)
def test_tables_are_for_many_rows_of_few_features(n_features, n_copies, is_cheaper, monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, n_features))
    model = RandomForestRegressor(5, random_state=0).fit(X, (X**2).sum(axis=1))
    problem = coarse_problem(model, X, monkeypatch)
    many = replace(
        problem,
        cells=np.tile(problem.cells, (n_copies, 1)),
        weights=np.tile(problem.weights, n_copies) / n_copies,
    )
    assert normal_equations._are_tables_cheaper(many) == is_cheaper


def test_unknowns_on_a_row_are_counted_as_if_features_were_independent(monkeypatch):
    model, X = scene(4, n_trees=4, n_features=5, depth=6)
    problem = coarse_problem(model, X, monkeypatch)
    unknowns = count_unknowns(problem)
    beside = [1 - margin.max() for margin in problem.margins]
    positions = [[problem.terms.position[j] for j in s] for s in problem.terms.family]
    assert unknowns.number == len(code_cells(problem).entries)
    assert unknowns.features_on_a_row == pytest.approx(sum(beside))
    on_a_row = sum(np.prod([beside[f] for f in s]) for s in positions)
    assert unknowns.on_a_row == pytest.approx(on_a_row)
