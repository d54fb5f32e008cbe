"""Selection by least angle regression against scikit-learn's on the dense design."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LassoLarsIC

import treepurify as tp
from tests.cases import data_path
from tests.engines.categorical.test_anova import every_pair_of, full_grid, quiet
from tests.reference.categorical import inverse_likelihood, projection
from treepurify.errors import InvalidInputError, MemoryBudgetError


def lower_functions(codes, subset):
    """CellIndicators of the cells of all features of a subset but one, over the rows."""
    blocks = [np.ones((len(codes), 1))]
    for left_out in subset:
        rest = [j for j in subset if j != left_out]
        _, cell = np.unique(codes[:, rest], axis=0, return_inverse=True)
        blocks.append((cell.reshape(-1)[:, None] == np.arange(cell.max() + 1)).astype(float))
    return np.hstack(blocks)


def dense_design(codes, order):
    """Every function over the rows, orthogonal to fewer features, of mean square one."""
    mass = np.full(len(codes), 1 / len(codes))
    names, columns = [], []
    for size in range(1, order + 1):
        for subset in combinations(range(codes.shape[1]), size):
            lower = lower_functions(codes, subset)
            for z in product(*(range(int(codes[:, j].max())) for j in subset)):
                column = inverse_likelihood(codes, mass, subset, z)
                column -= lower @ np.linalg.lstsq(lower, column, rcond=None)[0]
                names.append((subset, z))
                columns.append(column / np.sqrt(np.mean(column**2)))
    return names, np.stack(columns, axis=1)


def dependent_rows(seed, n=700):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, n)
    second = np.where(rng.random(n) < 0.5, first, rng.integers(0, 3, n))
    X = np.column_stack([first, second, rng.integers(0, 4, n), rng.integers(0, 2, n)])
    y = 2.0 * (X[:, 0] == 1) + (X[:, 1] == 2) * (X[:, 3] == 0) + 0.5 * rng.normal(size=n)
    return X, y


def staircase(seed):
    """Cells are missing: scikit-learn's path would not leave out combinations of columns."""
    X, y = dependent_rows(seed)
    rows = X[:, 0] <= X[:, 2] + 1
    return X[rows], y[rows]


@pytest.mark.parametrize("seed", range(4))
def test_selects_and_fits_what_scikit_learn_selects(seed):
    X, y = dependent_rows(seed)
    names, design = dense_design(X, 2)
    d = quiet(y, X, order=2, selection="lars")
    assert d.diagnostics["selection"]["tried"] == len(names)
    assert d.diagnostics["selection"]["independent"] == len(names)
    assert d.diagnostics["identifiability"]["unique"]
    theirs = LassoLarsIC(criterion="bic").fit(design, y)
    support = np.flatnonzero(theirs.coef_)
    assert 0 < len(support) < len(names)
    assert d.diagnostics["identifiability"]["rank"] == 1 + len(support)
    assert set(d.components) == {names[i][0] for i in support}
    np.testing.assert_allclose(
        d.diagnostics["selection"]["noise_variance"], theirs.noise_variance_, rtol=1e-8
    )
    functions = np.hstack([np.ones((len(X), 1)), design[:, support]])
    expected = projection(functions, np.full(len(X), 1 / len(X)), y[:, None])[:, 0]
    fitted = d.intercept[0] + sum(c.on_rows(X)[:, 0] for c in d.components.values())
    np.testing.assert_allclose(fitted, expected, atol=1e-9)
    assert every_pair_of(d, X) < 1e-12
    assert d.certificate.conditional_mean < 1e-12


def test_cells_without_mass_are_made_orthogonal():
    X, y = staircase(0)
    assert len(np.unique(X[:, [0, 2]], axis=0)) < 12
    names, design = dense_design(X, 2)
    d = quiet(y, X, order=2, selection="lars")
    choice = d.diagnostics["selection"]
    assert (choice["tried"], choice["independent"]) == (len(names), np.linalg.matrix_rank(design))
    assert choice["independent"] < choice["tried"]
    assert every_pair_of(d, X) < 1e-12
    everything = quiet(y, X, order=2, selection="lars", rank=choice["tried"])
    assert everything.diagnostics["selection"]["made_orthogonal"] > 0
    assert everything.diagnostics["identifiability"]["rank"] == 1 + choice["independent"]
    by_greedy = quiet(y, X, order=2)
    errors = [own.diagnostics["fit"]["f"]["mean_squared_error"] for own in (everything, by_greedy)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)
    assert every_pair_of(everything, X) < 1e-12


def test_copies_are_told_apart_by_nothing_and_exact_functions_are_reproduced():
    free = full_grid((3, 3, 3))
    X = np.column_stack([free[:, 0], free[:, 1], free[:, 1], free[:, 2], np.ones(27, int)])
    X = np.repeat(X, 4, axis=0)
    values = np.sign(X[:, 0] - X[:, 1] + 0.5 * X[:, 2])
    d = quiet(values, X, order=2, selection="lars")
    report = d.diagnostics["identifiability"]
    # 1 + 3 * 2 + 3 * 4 functions of the three free features, less the constant.
    assert report["n_rejected"] == d.diagnostics["selection"]["tried"] - 18
    assert not report["unique"]
    assert report["constant"] == ["x4"]
    assert d.diagnostics["fit"]["f"]["r_squared"] == pytest.approx(1.0)
    used = {j for s, c in d.components.items() if c.variance[0] > 1e-12 for j in s}
    assert used <= {0, 1, 2}
    assert every_pair_of(d, X) < 1e-12


def test_few_terms_of_many_are_found():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(4000, 8))
    y = (X[:, 0] == 0) + 2.0 * (X[:, 2] == 1) * (X[:, 5] == 2) + 0.1 * rng.normal(size=4000)
    d = quiet(y, X, order=2, selection="lars")
    largest = d.importance()["effect"].head(4)
    assert set(largest) == {"x0", "x2", "x5", "x2 & x5"}
    assert d.diagnostics["identifiability"]["rank"] < 60
    assert d.diagnostics["selection"]["tried"] == 8 * 2 + 28 * 4
    # The greedy route takes the first 60 functions, most of them of x0 and x1.
    greedy = quiet(y, X, order=2, rank=60)
    fits = [own.diagnostics["fit"]["f"]["r_squared"] for own in (d, greedy)]
    assert fits[0] > 0.98
    assert fits[1] < 0.75


@pytest.mark.parametrize("rank", [1, 2, 9])
def test_rank_is_the_number_of_functions_over_all_outputs(rank):
    X, y = dependent_rows(5)
    both = np.column_stack([y, (X[:, 2] == 3) * 1.0 - y])
    d = quiet(both, X, order=2, selection="lars", rank=rank)
    assert d.diagnostics["selection"]["criterion"] == "rank"
    assert d.diagnostics["identifiability"]["rank"] <= rank
    assert d.diagnostics["identifiability"]["rank"] >= min(rank, 2) - (rank == 2)
    alone = quiet(y, X, order=2, selection="lars", rank=rank)
    assert alone.diagnostics["identifiability"]["rank"] == rank


def test_a_constant_function_has_no_components():
    X, _ = dependent_rows(6)
    d = quiet(np.full(len(X), 3.0), X, order=2, selection="lars")
    assert len(d) == 0
    np.testing.assert_allclose(d.predict(X), 3.0)


def test_weights_count_as_their_number_of_equal_rows():
    X, y = dependent_rows(7)
    doubled = quiet(np.repeat(y, 2), np.repeat(X, 2, axis=0), order=1, selection="lars")
    half = quiet(y, X, order=1, selection="lars", sample_weight=np.full(len(y), 2.0))
    # Doubled rows look like more evidence, equal weights do not.
    assert (
        half.diagnostics["identifiability"]["rank"]
        <= doubled.diagnostics["identifiability"]["rank"]
    )
    plain = quiet(y, X, order=1, selection="lars")
    assert list(plain.components) == list(half.components)
    for subset, component in plain.components.items():
        np.testing.assert_allclose(component.values, half.components[subset].values, atol=1e-10)


def test_real_sparse_data_stay_orthogonal():
    table = pd.read_parquet(data_path("mushroom"))
    X = table.drop(columns="class").iloc[:, :9]
    y = (table["class"] == "p").to_numpy(float)
    d = quiet(y, X, order=2, selection="lars", rank=60)
    greedy = quiet(y, X, order=2, rank=60)
    assert d.certificate.cosine < 1e-10
    assert d.certificate.solver_error < 1e-10
    assert d.diagnostics["fit"]["f"]["r_squared"] > greedy.diagnostics["fit"]["f"]["r_squared"]
    assert tp.compare(greedy, d, X).verdict()


def test_what_cannot_be_selected_is_refused():
    X = full_grid((3, 3))
    with pytest.raises(InvalidInputError, match="more rows"):
        quiet(np.arange(9.0) ** 2, X, selection="lars")
    with pytest.raises(InvalidInputError, match='"least-norm" or "lars"'):
        quiet(np.arange(9.0), X, selection="stepwise")
    rng = np.random.default_rng(9)
    many = rng.integers(0, 20, size=(3000, 6))
    with pytest.raises(MemoryBudgetError, match="smaller order"):
        quiet(np.arange(3000.0), many, selection="lars", memory_budget=1 << 22)


@pytest.mark.parametrize("rank", [None, 5])
def test_rounding_of_a_constant_function_is_no_effect(rank):
    X = np.random.default_rng(3).integers(0, 3, size=(400, 4))
    values = np.stack([np.full(400, 0.3), X[:, 0] * X[:, 1]], axis=1)
    d = quiet(values[:, 0], X, order=2, selection="lars", rank=rank)
    assert list(d) == []
    assert d.intercept == pytest.approx(0.3)
    both = quiet(values, X, order=2, selection="lars", rank=rank)
    alone = quiet(values[:, 1], X, order=2, selection="lars", rank=rank)
    assert list(both) == list(alone)
