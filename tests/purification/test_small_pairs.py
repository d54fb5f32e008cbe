"""Small pairs together: against dense least squares, and against one solve after the other."""

from itertools import combinations

import numpy as np
import pytest

from tests.purification.test_cascade import family, joint_mass, margins, silent
from tests.reference.dense import largest_conditional_mean, project_off, put_together
from tests.reference.masses import blocks, sampled_copula, two_clusters
from treepurify.purification import cascade, small_pairs
from treepurify.purification.cascade import downward_closure, purify_effects
from treepurify.purification.pair import solve_pair
from treepurify.purification.small_pairs import is_small_pair, solve_small_pairs

SHAPES = [(4, 7), (7, 4), (1, 5), (5, 1), (2, 2), (1, 1), (30, 20), (3, 150), (164, 5)]


def masses() -> list[np.ndarray]:
    """Full and sparse masses, with empty slices, separate blocks and weak links."""
    rng = np.random.default_rng(0)
    full = [rng.uniform(0.1, 1, shape) for shape in SHAPES]
    sparse = [rng.poisson(0.5, shape) for shape in SHAPES]
    for table in sparse:
        table[0, 0] += 1
    apart = [blocks(sizes) for sizes in ([(2, 2), (3, 3)], [(4, 2), (1, 5), (2, 2)], [(1, 1)] * 5)]
    linked = [sampled_copula((32, 32), 0.99, 20_000), two_clusters((16, 16), 1, 50_000)]
    return [table / table.sum() for table in (*full, *sparse, *apart, *linked)]


def values_for(mass: list[np.ndarray], n_outputs: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=(*table.shape, n_outputs)) for table in mass]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_equals_dense_projection(n_outputs):
    mass = masses()
    values = values_for(mass, n_outputs)
    for own, table, solved in zip(values, mass, solve_small_pairs(values, mass), strict=True):
        pure, parts = project_off(own, table)
        filled = table > 0
        np.testing.assert_allclose(solved.solution.pure[filled], pure[filled], atol=1e-12)
        for mine, truth in zip(solved.solution.moved, parts, strict=True):
            known = ~np.isnan(truth)
            np.testing.assert_allclose(mine[known], truth[known], atol=1e-11)
        total = put_together(solved.solution.pure, solved.solution.moved)
        np.testing.assert_allclose(total, own, atol=1e-14)
        assert largest_conditional_mean(solved.solution.pure, table) <= 1e-14
        assert solved.before == np.abs(own).max()
        assert solved.after == np.abs(solved.solution.pure).max()
        assert solved.additivity <= 1e-15


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_equals_the_solves_one_by_one(n_outputs):
    mass = masses()
    values = values_for(mass, n_outputs)
    for own, table, solved in zip(values, mass, solve_small_pairs(values, mass), strict=True):
        together, alone = solved.solution, solve_pair(own, table)
        np.testing.assert_allclose(together.pure, alone.pure, atol=2e-14)
        for mine, other in zip(together.moved, alone.moved, strict=True):
            np.testing.assert_allclose(mine, other, atol=2e-14)
        assert together.unidentified == alone.unidentified
        assert together.empty_slices == alone.empty_slices
        assert together.growth == alone.growth
        assert together.is_bound
        assert together.error == pytest.approx(alone.error, rel=1e-6)


def test_the_bound_covers_the_true_error():
    mass, values, effects = [], [], []
    for weakness in (1.0, 1e-3, 1e-6):
        table = two_clusters((16, 16), 1, 1000)
        table[:8, 8:] *= weakness
        table[8:, :8] *= weakness
        mass.append(table / table.sum())
    for table in mass:
        effect = np.random.default_rng(0).normal(size=16)
        effect -= table.sum(axis=1) @ effect
        effects.append(effect)
        # A main effect alone: the pure pair is zero, and the part that moves is known.
        values.append(np.broadcast_to(effect[:, None, None], (16, 16, 1)))
    for effect, table, solved in zip(effects, mass, solve_small_pairs(values, mass), strict=True):
        found = solved.solution.moved[1][:, 0]
        margin = table.sum(axis=1)
        wrong = np.abs(found - margin @ found - effect).max()
        assert wrong <= 10 * solved.solution.error * np.abs(effect).max()
        assert solved.solution.error <= 1e-6


def test_tables_joined_by_almost_nothing_are_left_to_the_eigenvectors():
    mass = masses()[:3]
    weak = blocks([(3, 3), (4, 2)])
    weak[0, 4] = 1e-18
    mass.insert(1, weak)
    values = values_for(mass, 1)
    solved = list(solve_small_pairs(values, mass))
    assert [one is None for one in solved] == [False, True, False, False]


def test_a_table_does_not_depend_on_those_beside_it():
    mass = masses()
    values = values_for(mass, 1)
    together = list(solve_small_pairs(values, mass))
    for k in (0, 3, len(SHAPES) + 2, len(mass) - 1):
        (alone,) = solve_small_pairs(values[k : k + 1], mass[k : k + 1])
        np.testing.assert_array_equal(alone.solution.pure, together[k].solution.pure)
        assert alone.solution.error == together[k].solution.error


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_family_is_the_same_with_and_without(monkeypatch, outputs):
    shape = (3, 4, 2, 5, 3, 6)
    subsets = [*combinations(range(6), 2), (0, 1, 2), (3,)]
    effects, axes = family(shape, subsets, outputs=outputs)
    joint = joint_mass(shape)
    closure = downward_closure(subsets)
    given = (margins(joint, closure), {s: tuple(axes[j] for j in s) for s in closure})
    monkeypatch.setattr(small_pairs, "_FEW_NUMBERS", 60)
    together = purify_effects(effects, *given, progress=silent)
    monkeypatch.setattr(cascade, "is_small_pair", lambda _: False)
    alone = purify_effects(effects, *given, progress=silent)
    assert list(together.effects) == list(alone.effects)
    assert list(together.solutions) == list(alone.solutions)
    np.testing.assert_allclose(together.intercept, alone.intercept, atol=1e-14)
    for subset, values in alone.effects.items():
        np.testing.assert_allclose(together.effects[subset], values, atol=1e-14)
    for subset, error in alone.errors.items():
        assert together.errors[subset] == pytest.approx(error, rel=1e-6)


def test_tables_with_two_long_sides_are_not_small():
    assert is_small_pair((2, 1000))
    assert is_small_pair((1000, 2))
    assert is_small_pair((200, 200))
    assert not is_small_pair((400, 200))
    assert not is_small_pair((257, 257))
    assert not is_small_pair((5, 5, 5))
