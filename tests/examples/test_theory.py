"""What the page of the purification paper says of its claims, checked by formulas."""

from itertools import islice

import numpy as np
import pytest

from examples import paper_purification_forests as forests
from examples import paper_purification_theory as theory
from examples.paper_purification import SNP_MODELS


@pytest.mark.parametrize(("alpha", "beta"), theory.SHIFTS)
def test_implied_share_is_that_of_the_polynomial(alpha, beta):
    """Variances under N(0, 1): the pair has 1 + alpha^2 + beta^2, the function has 3."""
    of_function, of_sum = theory.implied_share(alpha, beta)
    of_pair = 1 + alpha**2 + beta**2
    mains = (1 + alpha) ** 2 + (1 + beta) ** 2
    assert of_function == pytest.approx(of_pair / 3)
    assert of_sum == pytest.approx(of_pair / (of_pair + mains))
    assert theory.purified_share(alpha, beta) == pytest.approx(1 / 3)


def test_share_of_the_sum_is_smallest_elsewhere():
    shares = {shift: theory.implied_share(*shift) for shift in theory.SHIFTS}
    assert min(shares, key=lambda shift: shares[shift][0]) == (0.0, 0.0)
    assert min(shares, key=lambda shift: shares[shift][1]) == (0.5, 0.5)


@pytest.mark.parametrize("shape", [(2, 2), (3, 4)])
def test_effect_coding_is_the_anova_of_uniform_cells_only(shape):
    uniform, of_rows = theory.effect_coding(shape, seed=3)
    assert uniform < 1e-14
    assert of_rows > 0.01


def test_theorem_2_fails_and_theorem_1_needs_the_divisor():
    bound = np.log2(1 / theory.ACCURACY)
    needed = theory.steps_needed(theory.ADDITIVE, theory.DEPENDENT, divide=True)
    assert needed > 50 * bound
    # M is 2 e after the first step, e the mass of a cell off the diagonal, and shrinks by 1 - 4 e.
    off = theory.NEARLY_COPIED[0, 1]
    formula = np.log(theory.ACCURACY / (2 * off)) / np.log(1 - 4 * off)
    slow = theory.steps_needed(theory.ADDITIVE, theory.NEARLY_COPIED, divide=True)
    assert slow == 1734 == np.ceil(formula) + 1
    # Each step shrinks what is left by the correlation of the two features, 0.996.
    steps = theory.mass_moving_as_printed(theory.ADDITIVE, theory.DEPENDENT, divide=True)
    history = [m for m, _ in islice(steps, 13)]
    np.testing.assert_allclose(np.array(history[3:]) / history[2:-1], 0.996, rtol=1e-9)
    table, uniform = np.random.default_rng(0).normal(size=(4, 4)), np.full((4, 4), 1 / 16)
    assert theory.steps_needed(table, uniform, divide=True) <= 2
    assert theory.steps_needed(table, uniform, divide=False) > 10


def test_small_means_beside_a_large_error():
    by_label = {entry.label: entry.ours["ours"] for entry in theory.small_means().entries}
    _, mean, error = by_label["step 2"]
    assert mean < 0.01
    assert error > 0.9


def test_history_is_equation_11b():
    for entry in theory.equation_11b().entries:
        assert entry.ours["diagnostics"][0] == pytest.approx(entry.paper[0], rel=1e-9)


def test_a_forest_learns_the_effects_of_its_generator():
    before, after = SNP_MODELS["Synergistic"]
    steps = forests.learned(before, 0, 2000, 30)
    np.testing.assert_allclose(steps[:2], after[:2], atol=0.5)
    assert 0.3 < steps[2] / after[2] < 1.2
