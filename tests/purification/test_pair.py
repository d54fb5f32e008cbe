"""Pairs: the direct solve against dense and rational least squares."""

import numpy as np
import pytest

from tests.reference.dense import (
    largest_conditional_mean,
    project_off,
    project_off_exactly,
    put_together,
)
from tests.reference.masses import analytic_copula, blocks, sampled_copula, two_clusters
from treepurify.purification.pair import pair_solver, solve_pair


def table(shape: tuple[int, ...], seed: int = 0, outputs: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*shape, outputs))


def check(values: np.ndarray, mass: np.ndarray, solution, tolerance: float = 1e-12) -> None:
    scale = np.abs(values).max()
    total = put_together(solution.pure, solution.moved)
    np.testing.assert_allclose(total, values, rtol=0, atol=tolerance * scale)
    assert largest_conditional_mean(solution.pure, mass) <= tolerance * scale


def range_of(part: np.ndarray) -> float:
    return float(np.nanmax(part) - np.nanmin(part))


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (1, 5), (5, 1), (2, 2), (1, 1)])
def test_equals_dense_projection(shape):
    mass = np.random.default_rng(1).uniform(0.1, 1, shape)
    mass /= mass.sum()
    values = table(shape, outputs=3)
    solution = solve_pair(values, mass)
    pure, parts = project_off(values, mass)
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure, pure, atol=1e-13)
    for mine, truth in zip(solution.moved, parts, strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-13)
    assert solution.unidentified == 0
    assert solution.empty_slices == 0


SHAPES = [(4, 7), (7, 4), (1, 5), (5, 1), (2, 2), (1, 1), (30, 20), (3, 150), (164, 5), (90, 140)]


def masses() -> list[np.ndarray]:
    """Full and sparse masses, with empty slices, separate blocks and weak links."""
    rng = np.random.default_rng(0)
    full = [rng.uniform(0.1, 1, shape) for shape in SHAPES]
    sparse = [rng.poisson(0.5, shape) for shape in SHAPES]
    for own in sparse:
        own[0, 0] += 1
    apart = [blocks(sizes) for sizes in ([(2, 2), (3, 3)], [(4, 2), (1, 5), (2, 2)], [(1, 1)] * 5)]
    linked = [sampled_copula((32, 32), 0.99, 20_000), two_clusters((16, 16), 1, 50_000)]
    return [own / own.sum() for own in (*full, *sparse, *apart, *linked)]


@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_dense_projection_where_there_is_mass(outputs):
    for mass in masses():
        values = table(mass.shape, seed=1, outputs=outputs)
        solution = solve_pair(values, mass)
        pure, parts = project_off(values, mass)
        check(values, mass, solution, tolerance=1e-14)
        np.testing.assert_allclose(solution.pure[mass > 0], pure[mass > 0], atol=1e-12)
        for mine, truth in zip(solution.moved, parts, strict=True):
            known = ~np.isnan(truth)
            np.testing.assert_allclose(mine[known], truth[known], atol=1e-11)
        assert solution.error < 1e-12


@pytest.mark.parametrize("outputs", [1, 2])
def test_tables_of_one_mass_are_solved_with_one_elimination(outputs):
    mass = blocks([(3, 4), (2, 2)])
    solve = pair_solver(mass)
    for seed in range(2):
        values = table(mass.shape, seed, outputs)
        np.testing.assert_array_equal(solve(values).pure, solve_pair(values, mass).pure)


@pytest.mark.parametrize("correlation", [0.95, 0.99, 0.999])
@pytest.mark.parametrize("size", [32, 256])
@pytest.mark.parametrize("kind", ["sampled", "analytic"])
def test_copula(correlation, size, kind):
    if kind == "sampled":
        mass = sampled_copula((size, size), correlation, 20_000)
    else:
        mass = analytic_copula((size, size), correlation)
    values = table((size, size))
    solution = solve_pair(values, mass)
    check(values, mass, solution)
    if size == 32:
        _, parts = project_off(values, mass)
        for mine, truth in zip(solution.moved, parts, strict=True):
            known = ~np.isnan(truth)
            assert np.abs(mine - truth)[known].max() <= 1e-9 * range_of(truth)


def test_masses_down_to_1e_200_against_rational_arithmetic():
    rng = np.random.default_rng(0)
    rows, columns = 10.0 ** -np.array([0, 100, 30, 60.0]), 10.0 ** -np.array([100, 0, 7, 80, 40.0])
    mass = rng.uniform(0.1, 1, (4, 5)) * np.outer(rows, columns)
    values = table((4, 5))
    solution = solve_pair(values, mass / mass.sum())
    truth = project_off_exactly(values[..., 0], mass)
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure[..., 0], truth, atol=1e-12 * np.abs(values).max())


def test_links_below_rounding_leave_conditional_means_at_zero():
    mass = 10.0 ** -np.array(
        [[0.0, 50, 150, 200], [30, 0, 80, 199], [90, 60, 1, 20], [200, 5, 9, 0]]
    )
    values = table((4, 4))
    solution = solve_pair(values, mass / mass.sum())
    check(values, mass, solution)
    assert solution.unidentified == 1


@pytest.mark.parametrize("n_links", [1, 3])
@pytest.mark.parametrize("shape", [(16, 16), (12, 20)])
def test_clusters_joined_by_a_handful_of_rows(n_links, shape):
    mass = two_clusters(shape, n_links, 50_000)
    values = table(shape)
    solution = solve_pair(values, mass)
    _, parts = project_off(values, mass)
    check(values, mass, solution)
    for mine, truth in zip(solution.moved, parts, strict=True):
        assert np.abs(mine - truth).max() <= 1e-9 * range_of(truth)
    assert solution.unidentified == 0


@pytest.mark.parametrize("link", [1e-8, 1e-12, 1e-14])
def test_blocks_joined_by_little_mass_against_rational_arithmetic(link):
    mass = blocks([(2, 3), (3, 2)])
    mass[0, 4] = link
    values = table(mass.shape)
    solution = solve_pair(values, mass / mass.sum())
    truth = project_off_exactly(values[..., 0], mass)
    # The two blocks are told apart by rounding over `link` at best.
    atol = max(1e-12, 1e-15 / link)
    np.testing.assert_allclose(solution.pure[..., 0][mass > 0], truth[mass > 0], atol=atol)
    assert solution.unidentified == 0


def test_blocks_joined_by_less_than_rounding_count_as_separate():
    mass = blocks([(3, 3), (4, 2)])
    values = table(mass.shape)
    apart = solve_pair(values, mass)
    mass[0, 4] = 1e-18
    joined = solve_pair(values, mass)
    check(values, mass, joined)
    assert joined.unidentified == apart.unidentified == 1
    for mine, truth in zip(joined.moved, apart.moved, strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-12)


@pytest.mark.parametrize("eigenvalue", [1e-17, 1e-15, 0.99e-14, 1.01e-14, 1e-13, 1e-12, 1e-10])
@pytest.mark.parametrize("sizes", [(2, 3), (7, 7), (40, 30)])
def test_whether_a_link_counts_does_not_depend_on_rounding(sizes, eigenvalue):
    rng = np.random.default_rng(0)
    of_rows, of_columns = (rng.dirichlet(np.ones(size), 2) for size in sizes)
    # Two blocks of equal mass, each a product: the equations have the eigenvalues 0, 1, ..., 1
    # and one minus the squared correlation of the blocks, which is 4 off (1 - off).
    off = eigenvalue / 4
    linked = np.array([[1 - off, off], [off, 1 - off]]) / 2
    mass = np.einsum("ab,ai,bj->aibj", linked, of_rows, of_columns)
    mass = mass.reshape(2 * sizes[0], 2 * sizes[1])
    values = table(mass.shape)
    for turn in range(20):
        # Every order of the levels is rounded in its own way.
        rows, columns = rng.permutation(mass.shape[0]), rng.permutation(mass.shape[1])
        mixed, own = mass[rows][:, columns], values[rows][:, columns]
        if turn % 2:
            mixed, own = mixed.T, own.transpose(1, 0, 2)
        solution = solve_pair(own, mixed)
        check(own, mixed, solution)
        assert solution.unidentified == (1 if eigenvalue < 1e-14 else 0)


@pytest.mark.parametrize("sizes", [[(2, 2), (3, 3)], [(4, 2), (1, 5), (2, 2)], [(1, 1)] * 5])
def test_separate_blocks_take_the_least_norm(sizes):
    mass = blocks(sizes)
    values = table(mass.shape, outputs=2)
    solution = solve_pair(values, mass)
    _, parts = project_off(values, mass)
    check(values, mass, solution)
    assert solution.unidentified == len(sizes) - 1
    for mine, truth in zip(solution.moved, parts, strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-12)


def test_answer_does_not_depend_on_the_order_of_axes_or_levels():
    rng = np.random.default_rng(3)
    mass = blocks([(3, 4), (2, 2), (4, 3)])
    values = table(mass.shape, outputs=2)
    plain = solve_pair(values, mass)
    turned = solve_pair(values.transpose(1, 0, 2), mass.T)
    np.testing.assert_allclose(turned.pure.transpose(1, 0, 2), plain.pure, atol=1e-13)
    for mine, other in zip(plain.moved, turned.moved[::-1], strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-13)
    rows, columns = rng.permutation(mass.shape[0]), rng.permutation(mass.shape[1])
    mixed = solve_pair(values[rows][:, columns], mass[rows][:, columns])
    np.testing.assert_allclose(mixed.pure, plain.pure[rows][:, columns], atol=1e-13)
    np.testing.assert_allclose(mixed.moved[0], plain.moved[0][columns], atol=1e-13)
    np.testing.assert_allclose(mixed.moved[1], plain.moved[1][rows], atol=1e-13)
    assert mixed.unidentified == turned.unidentified == plain.unidentified == 2


def test_rows_and_columns_without_mass():
    mass = np.random.default_rng(2).uniform(0.1, 1, (5, 6))
    mass[1] = mass[:, 2] = mass[:, 5] = 0.0
    mass /= mass.sum()
    values = table(mass.shape)
    solution = solve_pair(values, mass)
    check(values, mass, solution)
    assert solution.empty_slices == 3
    kept = np.ix_([0, 2, 3, 4], [0, 1, 3, 4])
    smaller = solve_pair(values[kept], mass[kept])
    np.testing.assert_allclose(solution.pure[kept], smaller.pure, atol=1e-13)
    # What leaves an empty row is its mean under the margin of the other feature.
    margin = mass.sum(axis=0)
    np.testing.assert_allclose(solution.pure[1, :, 0] @ margin, 0, atol=1e-13)


@pytest.mark.parametrize("cell", [(0, 0), (2, 3)])
def test_all_mass_in_one_cell(cell):
    mass = np.zeros((4, 5))
    mass[cell] = 1.0
    values = table(mass.shape)
    solution = solve_pair(values, mass)
    check(values, mass, solution)
    assert solution.pure[cell] == pytest.approx(0, abs=1e-15)
    assert solution.unidentified == 0
    assert solution.empty_slices == 7


def test_estimated_error_covers_the_true_error():
    for axis in range(2):
        mass = two_clusters((16, 16), 1, 1000)
        mass[:8, 8:] *= 1e-6
        mass[8:, :8] *= 1e-6
        mass /= mass.sum()
        margin = mass.sum(axis=1 - axis)
        effect = np.random.default_rng(0).normal(size=16)
        effect -= margin @ effect
        # A main effect alone: the pure pair is zero, and the part that moves is known.
        values = np.broadcast_to(np.expand_dims(effect, 1 - axis), mass.shape)[..., None]
        solution = solve_pair(values, mass)
        found = solution.moved[1 - axis][:, 0]
        wrong = np.abs(found - margin @ found - effect).max()
        assert wrong <= 10 * solution.error * np.abs(values).max()
        assert solution.error <= 1e-6
