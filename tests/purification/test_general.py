"""Tensors of three and four features: conjugate gradients against dense least squares."""

import numpy as np
import pytest

import treepurify as tp
from tests.reference.dense import (
    largest_conditional_mean,
    project_off,
    project_off_exactly,
    put_together,
)
from tests.reference.masses import analytic_copula, sampled_copula, two_clusters
from tests.reference.rational import closure, undetermined
from treepurify.purification.general import solve_exactly, solve_general
from treepurify.purification.pair import solve_pair
from treepurify.purification.unidentified import count_unidentified


def table(shape: tuple[int, ...], seed: int = 0, outputs: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(*shape, outputs))


def check(values: np.ndarray, mass: np.ndarray, solution, tolerance: float = 1e-12) -> None:
    scale = np.abs(values).max()
    assert solution.converged
    total = put_together(solution.pure, solution.moved)
    np.testing.assert_allclose(total, values, rtol=0, atol=tolerance * scale)
    assert largest_conditional_mean(solution.pure, mass) <= tolerance * scale


@pytest.mark.parametrize("shape", [(6,), (4, 5), (3, 4, 5), (2, 3, 2, 3), (1, 3, 4), (2, 2, 2)])
def test_full_support_equals_dense_projection(shape):
    mass = np.random.default_rng(1).uniform(0.1, 1, shape)
    mass /= mass.sum()
    values = table(shape, outputs=2)
    solution = solve_general(values, mass)
    pure, parts = project_off(values, mass)
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure, pure, atol=1e-12)
    for mine, truth in zip(solution.moved, parts, strict=True):
        np.testing.assert_allclose(mine, truth, atol=1e-11)
    assert solution.unidentified == 0


@pytest.mark.parametrize("correlation", [0.95, 0.99, 0.999])
def test_sampled_copula_equals_dense_projection_where_there_is_mass(correlation):
    mass = sampled_copula((6, 6, 6), correlation, 3000)
    values = table(mass.shape)
    solution = solve_general(values, mass)
    pure, parts = project_off(values, mass)
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure[mass > 0], pure[mass > 0], atol=1e-10)
    for mine, truth in zip(solution.moved, parts, strict=True):
        known = ~np.isnan(truth)
        np.testing.assert_allclose(mine[known], truth[known], atol=1e-9)


@pytest.mark.parametrize("correlation", [0.95, 0.99, 0.999])
@pytest.mark.parametrize("kind", ["sampled", "analytic"])
def test_copula_of_three_features(correlation, kind):
    shape = (32, 32, 32)
    if kind == "sampled":
        mass = sampled_copula(shape, correlation, 20_000)
    else:
        mass = analytic_copula(shape, correlation)
    values = table(shape)
    check(values, mass, solve_general(values, mass))


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("correlation", [0.99, 0.999])
def test_analytic_copula_on_small_grids(size, correlation):
    # Slices from 1e-1 down to 1e-200: a norm in L2 cannot see the light ones.
    mass = analytic_copula((size,) * 3, correlation)
    for seed in range(3):
        values = table(mass.shape, seed=seed)
        solution = solve_general(values, mass)
        check(values, mass, solution)
        assert np.abs(solution.moved[0]).max() <= 100 * np.abs(values).max()


def test_graded_masses_against_rational_arithmetic():
    mass = 10.0 ** -np.random.default_rng(5).integers(0, 12, size=(2, 2, 3)).astype(float)
    values = table(mass.shape)
    solution = solve_general(values, mass / mass.sum())
    truth = project_off_exactly(values[..., 0], mass)
    root = np.sqrt(mass)
    np.testing.assert_allclose(root * solution.pure[..., 0], root * truth, atol=1e-12)


def test_a_failed_solve_says_so_and_stays_additive():
    rng = np.random.default_rng(11)
    mass = 10.0 ** -(270 * rng.random((8, 8, 8)))
    mass /= mass.sum()
    values = rng.normal(size=(8, 8, 8, 1))
    solution = solve_general(values, mass)
    scale = np.abs(values).max()
    total = put_together(solution.pure, solution.moved)
    np.testing.assert_allclose(total, values, atol=1e-12 * scale)
    left = largest_conditional_mean(solution.pure, mass)
    assert left <= scale
    assert solution.converged == (left <= 2e-13 * scale)
    assert solution.error >= 0.5 * left / scale


@pytest.mark.parametrize("n_links", [1, 4])
def test_clusters_joined_by_a_handful_of_rows(n_links):
    mass = two_clusters((6, 6, 6), n_links, 20_000)
    values = table(mass.shape)
    solution = solve_general(values, mass)
    pure, _ = project_off(values, mass)
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure[mass > 0], pure[mass > 0], atol=1e-9)


def test_pairs_by_conjugate_gradients_equal_the_direct_solve():
    mass = sampled_copula((7, 9), 0.9, 5000)
    mass[0, 0] += 0.1
    mass /= mass.sum()
    values = table(mass.shape, outputs=2)
    direct, iterated = solve_pair(values, mass), solve_general(values, mass)
    np.testing.assert_allclose(iterated.pure[mass > 0], direct.pure[mass > 0], atol=1e-11)


def test_answer_does_not_depend_on_the_order_of_axes_or_levels():
    rng = np.random.default_rng(3)
    mass = sampled_copula((4, 5, 6), 0.9, 200)
    values = table(mass.shape, outputs=2)
    plain = solve_general(values, mass)
    axes = (2, 0, 1)
    turned = solve_general(values.transpose(*axes, 3), mass.transpose(axes))
    np.testing.assert_allclose(turned.pure, plain.pure.transpose(*axes, 3), atol=1e-10)
    levels = [rng.permutation(size) for size in mass.shape]
    mixed = solve_general(values[np.ix_(*levels)], mass[np.ix_(*levels)])
    np.testing.assert_allclose(mixed.pure, plain.pure[np.ix_(*levels)], atol=1e-10)
    assert plain.unidentified == turned.unidentified == mixed.unidentified


def test_slices_without_mass():
    mass = np.random.default_rng(2).uniform(0.1, 1, (4, 3, 5))
    mass[1] = 0.0
    mass[:, 0, 2] = 0.0
    mass /= mass.sum()
    values = table(mass.shape)
    solution = solve_general(values, mass)
    check(values, mass, solution)
    assert solution.empty_slices == 5 + 3 + 1
    kept = [0, 2, 3]
    smaller = solve_general(values[kept], mass[kept])
    support = mass[kept] > 0
    np.testing.assert_allclose(solution.pure[kept][support], smaller.pure[support], atol=1e-11)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5)])
def test_a_level_without_mass_takes_the_closed_form_under_a_product_mass(shape):
    rng = np.random.default_rng(4)
    margins = [rng.dirichlet(np.ones(size)) for size in shape]
    margins[0][1] = 0.0
    mass = np.ones(())
    for margin in margins:
        mass = np.multiply.outer(mass, margin / margin.sum())
    values = table(shape)
    expected = values
    for axis, margin in enumerate(margins):
        mean = np.tensordot(expected, margin / margin.sum(), axes=([axis], [0]))
        expected = expected - np.expand_dims(mean, axis)
    np.testing.assert_allclose(solve_exactly(values, mass).pure, expected, atol=1e-7)


def test_all_mass_in_one_cell():
    mass = np.zeros((3, 3, 3))
    mass[1, 2, 0] = 1.0
    values = table(mass.shape)
    solution = solve_general(values, mass)
    check(values, mass, solution)
    assert solution.pure[1, 2, 0] == pytest.approx(0, abs=1e-15)


def test_constant_zero_table():
    mass = np.full((3, 3, 3), 1 / 27)
    solution = solve_general(np.zeros((3, 3, 3, 1)), mass)
    assert solution.converged
    assert solution.error == 0
    assert not solution.pure.any()


def test_directions_that_vanish_on_cells_whose_slices_have_mass_are_counted():
    # Main effects of size 0.83 that no cell with mass shows.
    mass = np.array(
        [[[0, 0], [0, 1], [0, 1], [1, 0]], [[1, 1], [0, 1], [0, 0], [0, 0]]], dtype=float
    )
    assert count_unidentified(mass) == 1
    d = tp.purify_tensors(
        {
            (0, 1, 2): np.zeros(mass.shape),
            (0, 2): [[0, 0], [-1, 0]],
            (1, 2): [[1, 0], [0, 0], [0, 0], [0, 0]],
        },
        mass,
        progress=False,
    )
    assert max(np.abs(d[j].values).max() for j in range(3)) > 0.8
    assert d.certificate.unidentified > 0


def test_unidentified_directions_equal_the_dimensions_that_the_support_loses():
    rng = np.random.default_rng(0)
    n_determined_below = 0
    for shape in ((3, 4), (3, 3, 3), (2, 3, 3), (2, 2, 4), (2, 3, 2, 2)):
        for _ in range(12):
            mass = np.where(rng.random(shape) < rng.uniform(0.2, 0.7), 0.0, rng.random(shape))
            subsets = [s for s in closure([tuple(range(len(shape)))]) if len(s) > 1]
            counts = [
                count_unidentified(mass.sum(axis=tuple({*range(len(shape))} - {*subset})))
                for subset in subsets
            ]
            directions = undetermined(mass)
            assert counts[-1] <= directions <= sum(counts)
            if not any(counts[:-1]):
                n_determined_below += 1
                assert counts[-1] == directions
    assert n_determined_below > 20


@pytest.mark.parametrize("seed", range(8))
def test_one_entry_under_a_sparse_mass_takes_the_least_norm(seed):
    # The heaviest slices have nothing to give away: they must take part all the same.
    rng = np.random.default_rng(seed)
    mass = np.where(rng.random((2, 3, 4)) < 0.6, 0.0, rng.integers(1, 4, size=(2, 3, 4)))
    mass[0, 0, 0] = 9.0
    mass /= mass.sum()
    values = np.zeros((2, 3, 4, 1))
    lightest = np.argwhere(mass == mass[mass > 0].min())[0]
    values[tuple(lightest)] = 1.0
    solution = solve_general(values, mass)
    _, parts = project_off(values, mass)
    for mine, truth in zip(solution.moved, parts, strict=True):
        known = ~np.isnan(truth)
        np.testing.assert_allclose(mine[known], truth[known], atol=1e-11)


@pytest.mark.parametrize("shape", [(12, 11, 10), (5, 4, 6, 5)])
def test_many_slices_of_which_some_are_empty_equal_the_dense_projection(shape):
    """More slices than are solved by eigenvectors, several outputs of different sizes."""
    rng = np.random.default_rng(7)
    mass = rng.uniform(0.1, 1, shape) * (rng.random(shape) < 0.35)
    mass[0, 0] = 0.0
    mass /= mass.sum()
    values = table(shape, outputs=3) * np.array([1.0, 100.0, 0.0])
    solution = solve_general(values, mass)
    pure, parts = project_off(values, mass)
    assert solution.method == "conjugate gradients"
    assert solution.empty_slices > 0
    check(values, mass, solution)
    np.testing.assert_allclose(solution.pure[mass > 0], pure[mass > 0], atol=1e-9)
    for mine, truth in zip(solution.moved, parts, strict=True):
        known = ~np.isnan(truth)
        np.testing.assert_allclose(mine[known], truth[known], atol=1e-9)
