"""Every weighting: margins of one joint mass, and what rows and weights do to it."""

from itertools import combinations

import numpy as np
import pytest

from treepurify.errors import InvalidInputError
from treepurify.grids.grid import EncodedRows, make_grid, place_rows
from treepurify.rows.columns import FeatureSpec
from treepurify.rows.table_reader import read_columns
from treepurify.weights import (
    Empirical,
    Independent,
    JointTable,
    Laplace,
    Uniform,
    as_weighting,
    cell_counts,
)
from treepurify.weights.cell_counts import CountedRows, count_rows
from treepurify.weights.distributions import normalised

FEATURES = (
    FeatureSpec("a"),
    FeatureSpec("b", "categorical", n_codes=3),
    FeatureSpec("c"),
    FeatureSpec("d"),
)
CUTS = (np.array([-0.5, 0.5]), None, np.array([0.0]), np.linspace(-1, 1, 4))
SUBSETS = [s for k in range(1, 5) for s in combinations(range(4), k)]


def make_rows(n_rows: int = 400, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows)
    b = np.clip(np.round(a + rng.normal(size=n_rows)), 0, 3)
    c = a + rng.normal(size=n_rows)
    d = c * rng.normal(size=n_rows)
    c[rng.random(n_rows) < 0.1] = np.nan
    return np.stack([a, b, c, d], axis=1)


def scene(X: np.ndarray, weights: np.ndarray | None = None):
    from dataclasses import replace

    columns = read_columns(X, FEATURES)
    grid, rows = make_grid(columns, FEATURES, CUTS, match_names=False)
    return grid, replace(rows, weights=weights)


def joint_of(grid) -> np.ndarray:
    shape = grid.shape((0, 1, 2, 3))
    return np.random.default_rng(5).uniform(size=shape)


WEIGHTINGS = {
    "empirical": lambda grid: Empirical(),
    "independent": lambda grid: Independent(),
    "uniform": lambda grid: Uniform(),
    "uniform with missing": lambda grid: Uniform(missing=True),
    "uniform by length": lambda grid: Uniform(by="length"),
    "laplace": lambda grid: Laplace(),
    "laplace 0.1": lambda grid: Laplace(0.1),
    "joint table": lambda grid: JointTable(joint_of(grid)),
}


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_are_margins_of_one_joint_mass(name, weighted):
    X = make_rows()
    weights = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    grid, rows = scene(X, weights)
    tables = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    joint = tables[(0, 1, 2, 3)]
    assert joint.shape == grid.shape((0, 1, 2, 3))
    for subset in SUBSETS:
        summed = joint.sum(axis=tuple(j for j in range(4) if j not in subset))
        np.testing.assert_allclose(tables[subset], summed, atol=1e-15)
        assert tables[subset].sum() == pytest.approx(1, abs=1e-14)
        assert tables[subset].min() >= 0


def test_plus_one_tables_are_no_margins_and_say_so():
    grid, rows = scene(make_rows())
    weighting = Laplace(variant="plus-one")
    tables = weighting.tables(grid, rows, [(0,), (0, 3)])
    counts = count_rows(grid, rows, [(0, 3)])[(0, 3)] + 1
    np.testing.assert_allclose(tables[(0, 3)], counts / counts.sum())
    assert np.abs(tables[(0, 3)].sum(axis=1) - tables[(0,)]).max() > 1e-3
    assert "not a joint distribution" in weighting.describe()


@pytest.mark.parametrize("kernel_from", [0, cell_counts._FEW_ROWS])
@pytest.mark.parametrize("weighted", [False, True])
def test_empirical_tables_count_rows(weighted, kernel_from, monkeypatch):
    monkeypatch.setattr(cell_counts, "_FEW_ROWS", kernel_from)
    X = make_rows(57)
    weights = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    grid, rows = scene(X, weights)
    tables = Empirical().tables(grid, rows, SUBSETS)
    for subset in SUBSETS:
        expected = np.zeros(grid.shape(subset))
        for row in range(len(X)):
            cell = tuple(int(rows.codes[j, row]) for j in subset)
            expected[cell] += 1 if weights is None else weights[row]
        np.testing.assert_allclose(tables[subset], expected / expected.sum(), atol=1e-15)


@pytest.mark.parametrize("name", ["empirical", "independent", "laplace"])
def test_weights_are_repeated_rows(name):
    X = make_rows(100)
    repeats = np.random.default_rng(2).integers(1, 4, size=len(X))
    grid, rows = scene(X, repeats.astype(float))
    weighted = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    grid, rows = scene(np.repeat(X, repeats, axis=0))
    repeated = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    for subset in SUBSETS:
        np.testing.assert_allclose(weighted[subset], repeated[subset], atol=1e-15)


@pytest.mark.parametrize("name", ["empirical", "independent", "laplace"])
def test_rows_of_weight_zero_do_not_count(name):
    X = make_rows(100)
    kept = np.random.default_rng(2).random(len(X)) < 0.6
    grid, rows = scene(X, kept.astype(float))
    weighted = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    grid, rows = scene(X[kept])
    dropped = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    for subset in SUBSETS:
        np.testing.assert_allclose(weighted[subset], dropped[subset], atol=1e-15)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_order_and_scale_of_weights_do_not_matter(name):
    X = make_rows(200)
    weights = np.random.default_rng(3).exponential(size=len(X))
    order = np.random.default_rng(4).permutation(len(X))
    grid, rows = scene(X, weights)
    plain = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
    for factor in (1.0, 1e300, 1e-300):
        grid, rows = scene(X[order], weights[order] * factor)
        mixed = WEIGHTINGS[name](grid).tables(grid, rows, SUBSETS)
        for subset in SUBSETS:
            np.testing.assert_allclose(mixed[subset], plain[subset], atol=1e-15)


def test_uniform_gives_special_cells_no_mass_unless_asked():
    grid, rows = scene(make_rows())
    b, c = (Uniform().tables(grid, rows, [(j,)])[(j,)] for j in (1, 2))
    np.testing.assert_allclose(b, [1 / 3, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(c, [0.5, 0.5, 0])
    b, c = (Uniform(missing=True).tables(grid, rows, [(j,)])[(j,)] for j in (1, 2))
    np.testing.assert_allclose(b, [0.25] * 4)
    np.testing.assert_allclose(c, [1 / 3] * 3)


def test_uniform_by_length_measures_intervals():
    X = make_rows()
    grid, rows = scene(X)
    low, high = X[:, 0].min(), X[:, 0].max()
    table = Uniform(by="length").tables(grid, rows, [(0,)])[(0,)]
    np.testing.assert_allclose(table, np.diff([low, -0.5, 0.5, high]) / (high - low))


def test_uniform_by_length_needs_a_range():
    grid, _ = make_grid(None, FEATURES, CUTS, match_names=False)
    with pytest.raises(InvalidInputError, match=r"range of feature 'a': pass X"):
        Uniform(by="length").tables(grid, None, [(0,)])


def test_uniform_by_length_of_a_constant_column():
    X = np.zeros((5, 4))
    grid, rows = scene(X)
    with pytest.raises(InvalidInputError, match=r"feature 'a' sum to zero"):
        Uniform(by="length").tables(grid, rows, [(0,)])


def test_laplace_is_the_stated_mixture():
    grid, rows = scene(make_rows())
    parts = [w.tables(grid, rows, SUBSETS) for w in (Empirical(), Uniform(), Laplace(0.3))]
    for subset in SUBSETS:
        mixed = 0.7 * parts[0][subset] + 0.3 * parts[1][subset]
        np.testing.assert_allclose(parts[2][subset], mixed)
    for share, equal in ((0.0, 0), (1.0, 1)):
        tables = Laplace(share).tables(grid, rows, SUBSETS)
        np.testing.assert_array_equal(tables[(0, 3)], parts[equal][(0, 3)])


def test_joint_table_of_some_features_in_any_order():
    grid, _ = scene(make_rows())
    joint = np.random.default_rng(0).uniform(size=grid.shape((3, 0)))
    tables = JointTable(joint, features=(3, 0)).tables(grid, None, [(0,), (3,), (0, 3)])
    np.testing.assert_allclose(tables[(0, 3)], joint.T / joint.sum())
    np.testing.assert_allclose(tables[(0,)], joint.sum(axis=0) / joint.sum())
    with pytest.raises(InvalidInputError, match=r"does not contain the features \[2\]"):
        JointTable(joint, features=(3, 0)).tables(grid, None, [(0, 2)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((2, 2)), r"shape \(2, 2\); expected .*, the numbers of cells"),
        ("negative", "must be finite and not negative; got values from -1"),
        ("nan", "must be finite and not negative"),
        ("zero", "sum to zero"),
    ],
)
def test_joint_tables_that_are_refused(table, message):
    grid, _ = scene(make_rows())
    if isinstance(table, str):
        kind, table = table, joint_of(grid)
        if kind == "zero":
            table = 0 * table
        else:
            table[0, 0, 0, 0] = -1.0 if kind == "negative" else np.nan
    with pytest.raises(InvalidInputError, match=message):
        JointTable(table).tables(grid, None, [(0,)])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ((5,), "must be different positions from 0 to 3, got"),
        ((-1,), "must be a whole number of at least 0, got -1"),
        ((0, 0), "must be different positions, such as"),
    ],
)
def test_features_of_joint_tables_that_are_refused(features, message):
    grid, _ = scene(make_rows())
    table = np.ones((3,) * len(features))
    with pytest.raises(InvalidInputError, match=message):
        JointTable(table, features).tables(grid, None, [(0,)])


def test_batches_add_up_to_one_pass():
    X = make_rows()
    weights = np.random.default_rng(1).exponential(size=len(X))
    grid, rows = scene(X, weights)
    total = {subset: np.zeros(grid.shape(subset)) for subset in SUBSETS}
    for batch in np.array_split(np.arange(len(X)), 7):
        columns = read_columns(X[batch], grid.features)
        part = EncodedRows(place_rows(columns, range(grid.n_features), grid.axes), weights[batch])
        for subset, table in count_rows(grid, part, SUBSETS).items():
            total[subset] += table
    once = Empirical().tables(grid, rows, SUBSETS)
    counted = Empirical().tables(grid, CountedRows(grid, total, len(X)), SUBSETS)
    for subset in SUBSETS:
        np.testing.assert_allclose(counted[subset], once[subset], atol=1e-15)


@pytest.mark.parametrize("weighting", [Empirical(), Independent(), Laplace()])
def test_weightings_that_need_rows(weighting):
    grid, _ = make_grid(None, FEATURES, CUTS, match_names=False)
    assert weighting.needs_rows
    with pytest.raises(InvalidInputError, match="needs rows: pass X"):
        weighting.tables(grid, None, [(0,)])


@pytest.mark.parametrize(
    "name", ["empirical", "laplace", "uniform", "independent", "smoothed", "auto"]
)
def test_names(name):
    assert as_weighting(name).name == name
    assert as_weighting(as_weighting(name)).describe()


@pytest.mark.parametrize("weights", ["Empirical", "", None, 3, np.ones((2, 2)), Empirical])
def test_unknown_names(weights):
    with pytest.raises(InvalidInputError, match="weights must be one of 'empirical', 'laplace'"):
        as_weighting(weights)


def test_options_that_are_refused():
    with pytest.raises(InvalidInputError, match=r"smoothing must be a finite .* got 1\.5"):
        Laplace(1.5)
    with pytest.raises(InvalidInputError, match="from 0 to 1, got nan"):
        Laplace(float("nan"))
    with pytest.raises(InvalidInputError, match='variant must be "mixture" or "plus-one"'):
        Laplace(variant="plus-two")
    with pytest.raises(InvalidInputError, match='by must be "cell" or "length"'):
        Uniform(by="area")


def test_tiny_masses_become_zero_and_others_stay():
    table = normalised(np.array([1.0, 1e-200, 1e-300]), "the masses")
    np.testing.assert_array_equal(table, [1.0, 1e-200, 0.0])
    huge = normalised(np.array([1e308, 1e308]), "the masses")
    np.testing.assert_array_equal(huge, [0.5, 0.5])


@pytest.mark.parametrize("kernel_from", [0, cell_counts._FEW_ROWS])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 400)])
def test_masses_of_rows_that_were_counted_are_those_of_the_rows_and_leave_the_counts(
    weights, kernel_from, monkeypatch
):
    monkeypatch.setattr(cell_counts, "_FEW_ROWS", kernel_from)
    grid, rows = scene(make_rows(), weights)
    counts = count_rows(grid, rows, SUBSETS)
    before = {subset: table.copy() for subset, table in counts.items()}
    masses = Empirical().tables(grid, CountedRows(grid, counts, rows.n_rows), SUBSETS)
    direct = Empirical().tables(grid, rows, SUBSETS)
    for subset in SUBSETS:
        np.testing.assert_array_equal(counts[subset], before[subset])
        np.testing.assert_array_equal(masses[subset], direct[subset])
        codes = [rows.codes[j] for j in subset]
        expected = np.zeros(grid.shape(subset))
        np.add.at(expected, tuple(codes), rows.shares)
        np.testing.assert_allclose(direct[subset], expected, atol=1e-14)
