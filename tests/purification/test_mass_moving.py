"""The paper's algorithm beside the exact solves."""

import numpy as np
import pytest

from tests.reference.dense import largest_conditional_mean, project_off, put_together
from tests.reference.masses import blocks, sampled_copula, two_clusters
from treepurify.errors import ConvergenceWarning
from treepurify.purification.general import solve_general
from treepurify.purification.mass_moving import solve_by_mass_moving
from treepurify.purification.pair import solve_pair


def random_mass(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    mass = np.random.default_rng(seed).uniform(0.1, 1, shape)
    return mass / mass.sum()


def table(shape: tuple[int, ...], outputs: int = 1) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(*shape, outputs))


@pytest.mark.parametrize("shape", [(5, 6), (3, 4, 5), (2, 3, 2, 3)])
def test_equals_the_exact_solve_where_it_converges(shape):
    mass, values = random_mass(shape), table(shape, outputs=2)
    moved = solve_by_mass_moving(values, mass)
    exact = solve_pair(values, mass) if len(shape) == 2 else solve_general(values, mass)
    assert moved.converged
    assert moved.error <= 1e-11
    assert moved.unidentified == exact.unidentified == 0
    np.testing.assert_allclose(moved.pure, exact.pure, atol=1e-11)
    np.testing.assert_allclose(put_together(moved.pure, moved.moved), values, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 5), (3, 2, 4), (2, 2, 2, 3)])
def test_history_is_equation_11b_at_every_step(shape):
    mass, values = random_mass(shape), table(shape, outputs=2)
    solution = solve_by_mass_moving(values, mass)
    rest, expected = values, []
    for step in range(solution.iterations * len(shape) + 1):
        total = 0.0
        for cell in np.ndindex(shape):
            for axis in range(len(shape)):
                line = (*cell[:axis], slice(None), *cell[axis + 1 :])
                total += mass[cell] * np.abs((mass[line][:, None] * rest[line]).sum(axis=0)).sum()
        expected.append(total)
        axis = step % len(shape)
        weights = mass / mass.sum(axis=axis, keepdims=True)
        rest = rest - (weights[..., None] * rest).sum(axis=axis, keepdims=True)
    assert len(solution.history) == len(expected)
    np.testing.assert_allclose(solution.history, expected, rtol=1e-8, atol=1e-14)
    assert solution.history[-1] <= 1e-12 * solution.history[0]


@pytest.mark.parametrize("shape", [(4, 5), (3, 2, 4), (2, 3, 2, 3)])
def test_ends_after_one_sweep_under_a_product_mass(shape):
    rng = np.random.default_rng(0)
    mass = np.ones(())
    for size in shape:
        mass = np.multiply.outer(mass, rng.dirichlet(np.ones(size)))
    solution = solve_by_mass_moving(table(shape), mass)
    assert solution.iterations == 1
    assert len(solution.history) == len(shape) + 1


@pytest.mark.parametrize("correlation", [0.9, 0.99])
def test_stopped_early_it_warns_and_its_error_is_honest(correlation):
    mass = sampled_copula((12, 12), correlation, 20_000)
    values = table(mass.shape)
    with pytest.warns(ConvergenceWarning, match='did not converge in 10 sweeps.*method="exact"'):
        solution = solve_by_mass_moving(values, mass, most_sweeps=10)
    assert not solution.converged
    assert solution.iterations == 10
    exact = solve_pair(values, mass)
    scale = np.abs(values).max()
    wrong = max(
        np.abs(mine - truth - shift).max()
        for mine, truth, shift in zip(
            solution.moved, exact.moved, shifts(solution.moved, exact.moved, mass), strict=True
        )
    )
    assert 0.1 * solution.error * scale <= wrong <= 10 * solution.error * scale


def shifts(moved, exact, mass):
    """A constant may stand in either part: its mean difference is no error."""
    return [
        mass.sum(axis=axis) @ (mine - truth)
        for axis, (mine, truth) in enumerate(zip(moved, exact, strict=True))
    ]


def test_a_small_slice_mean_does_not_pass_for_a_small_error():
    # Two clusters joined by 1e-9 of the mass: the means vanish long before the error does.
    mass = two_clusters((6, 6), 1, 2000)
    mass[:3, 3:] *= 1e-6
    mass[3:, :3] *= 1e-6
    mass /= mass.sum()
    values = table(mass.shape)
    with pytest.warns(ConvergenceWarning):
        solution = solve_by_mass_moving(values, mass, most_sweeps=200)
    scale = np.abs(values).max()
    assert largest_conditional_mean(solution.pure, mass) <= 1e-6 * scale
    _, parts = project_off(values, mass)
    wrong = max(
        np.abs(mine - truth - shift).max()
        for mine, truth, shift in zip(
            solution.moved, parts, shifts(solution.moved, parts, mass), strict=True
        )
    )
    assert wrong > 1e-3 * scale
    assert solution.error * scale >= 0.3 * wrong


@pytest.mark.parametrize("shape", [(5, 6), (3, 4, 3)])
def test_slices_without_mass_follow_the_convention_of_the_exact_solve(shape):
    mass = random_mass(shape)
    mass[1] = 0.0
    mass /= mass.sum()
    values = table(shape)
    moved = solve_by_mass_moving(values, mass)
    exact = solve_pair(values, mass) if len(shape) == 2 else solve_general(values, mass)
    assert moved.empty_slices == exact.empty_slices > 0
    np.testing.assert_allclose(moved.pure, exact.pure, atol=1e-11)


def test_separate_blocks_are_counted_and_the_pure_table_is_the_same():
    mass = blocks([(2, 3), (3, 2)])
    values = table(mass.shape)
    moved, exact = solve_by_mass_moving(values, mass), solve_pair(values, mass)
    assert moved.unidentified == 1
    support = mass > 0
    np.testing.assert_allclose(moved.pure[support], exact.pure[support], atol=1e-11)


def test_zero_table():
    solution = solve_by_mass_moving(np.zeros((3, 3, 1)), np.full((3, 3), 1 / 9))
    assert solution.error == 0
    assert solution.iterations == 0
