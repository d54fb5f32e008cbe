"""What the theory says of every pure tensor, on drawn tables and masses."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.reference.dense import largest_conditional_mean, put_together
from treepurify.purification.general import solve_general
from treepurify.purification.pair import solve_pair

shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)
entries = st.floats(-100, 100, allow_nan=False).map(lambda x: float(np.float32(x)))


@st.composite
def problems(draw, holes: bool = True):
    shape = draw(shapes)
    values = draw(arrays(float, (*shape, 2), elements=entries))
    weights = st.integers(0 if holes else 1, 6)
    mass = draw(arrays(float, shape, elements=weights.map(float)))
    if not mass.any():
        mass[(0,) * len(shape)] = 1.0
    return values, mass / mass.sum()


def solve(values, mass):
    return solve_pair(values, mass) if mass.ndim == 2 else solve_general(values, mass)


def scale_of(values):
    return float(np.abs(values).max(initial=0.0)) or 1.0


@given(problems())
def test_parts_add_up_in_every_cell(problem):
    values, mass = problem
    solution = solve(values, mass)
    total = put_together(solution.pure, solution.moved)
    np.testing.assert_allclose(total, values, rtol=0, atol=1e-12 * scale_of(values))


@given(problems())
def test_conditional_means_are_zero(problem):
    values, mass = problem
    solution = solve(values, mass)
    assert solution.converged
    assert largest_conditional_mean(solution.pure, mass) <= 1e-12 * scale_of(values)


@given(problems())
def test_purifying_twice_changes_nothing(problem):
    values, mass = problem
    once = solve(values, mass).pure
    twice = solve(once, mass).pure
    np.testing.assert_allclose(twice, once, rtol=0, atol=1e-10 * scale_of(values))


@given(problems())
def test_it_is_linear(problem):
    values, mass = problem
    first, second = values[..., :1], values[..., 1:]
    together = solve(2.0 * first - 3.0 * second, mass).pure
    apart = 2.0 * solve(first, mass).pure - 3.0 * solve(second, mass).pure
    np.testing.assert_allclose(together, apart, rtol=0, atol=1e-10 * scale_of(values))


@given(problems(), st.randoms(use_true_random=False))
def test_it_does_not_know_the_order_of_features_or_levels(problem, random):
    values, mass = problem
    axes = list(range(mass.ndim))
    random.shuffle(axes)
    levels = [random.sample(range(size), size) for size in mass.shape]
    plain = solve(values, mass).pure[np.ix_(*levels)].transpose(*axes, mass.ndim)
    mixed_values = values[np.ix_(*levels)].transpose(*axes, mass.ndim)
    mixed = solve(mixed_values, mass[np.ix_(*levels)].transpose(axes)).pure
    np.testing.assert_allclose(mixed, plain, rtol=0, atol=1e-10 * scale_of(values))


@given(problems())
def test_a_function_of_fewer_features_has_no_pure_part(problem):
    values, mass = problem
    lower = np.zeros_like(values)
    for axis in range(mass.ndim):
        lower = lower + np.expand_dims(np.take(values, 0, axis=axis), axis)
    pure = solve(lower, mass).pure
    # Elsewhere it depends on which of several fits that agree on the support is taken.
    np.testing.assert_allclose(pure[mass > 0], 0, atol=1e-10 * scale_of(lower))


@given(problems(holes=False))
def test_the_pure_part_is_the_closest_to_zero(problem):
    values, mass = problem
    solution = solve(values, mass)
    squared = (mass[..., None] * values**2).sum()
    kept = (mass[..., None] * solution.pure**2).sum()
    moved = (mass[..., None] * (values - solution.pure) ** 2).sum()
    np.testing.assert_allclose(kept + moved, squared, rtol=1e-9, atol=1e-18)


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), min_size=2, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_under_a_product_mass_it_is_inclusion_and_exclusion(margins, seed):
    weights = [np.array(m) / sum(m) for m in margins]
    mass = np.ones(())
    for weight in weights:
        mass = np.multiply.outer(mass, weight)
    values = np.random.default_rng(seed).normal(size=(*mass.shape, 1))
    expected = values
    for axis, weight in enumerate(weights):
        mean = np.tensordot(expected, weight, axes=([axis], [0]))
        expected = expected - np.expand_dims(mean, axis)
    np.testing.assert_allclose(solve(values, mass).pure, expected, atol=1e-12)
