"""Raw tensors: the masses that they are purified under must be those of one distribution."""

import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.reference.dense import functional_anova

RNG = np.random.default_rng(0)
JOINT = RNG.random((2, 3, 4)) + 0.05
TENSORS = {(0, 1): RNG.normal(size=(2, 3)), (1, 2): RNG.normal(size=(3, 4)), 2: RNG.normal(size=4)}


def purify(tensors, weights, **options):
    return tp.purify_tensors(tensors, weights, progress=False, **options)


@pytest.mark.parametrize(
    "weights",
    [
        JOINT,
        {(0, 1, 2): JOINT},
        {(0, 1): JOINT.sum(2), (2, 1): 7 * JOINT.sum(0).T},
        {(0, 1): JOINT.sum(2), (1, 2): JOINT.sum(0), 1: 1e5 * JOINT.sum((0, 2)), (0, 1, 2): JOINT},
    ],
)
def test_margins_of_one_joint_mass_in_any_form(weights):
    d = purify(TENSORS, weights)
    total = TENSORS[0, 1][:, :, None] + TENSORS[1, 2][None] + TENSORS[2]
    truth = functional_anova(total[..., None], JOINT / JOINT.sum())
    np.testing.assert_allclose(d.intercept, truth[()].ravel(), atol=1e-12)
    for subset, component in d.components.items():
        np.testing.assert_allclose(component.values, truth[subset], atol=1e-10)


def test_tables_that_are_no_margins_of_one_mass_are_refused():
    pair = {(0, 1): [[0.0, 1.0], [2.0, 5.0]]}
    even = np.full((2, 2), 0.25)
    message = r"weights of \(0,\) and of \(0, 1\) .* of \(0,\): .* differ by up to 0.4"
    with pytest.raises(tp.errors.InvalidInputError, match=message):
        purify(pair, {(0, 1): even, 0: [0.9, 0.1], 1: [0.5, 0.5]})
    slightly = {(0, 1): even, 0: [0.5 + 1e-7, 0.5 - 1e-7]}
    with pytest.raises(tp.errors.InvalidInputError, match="up to 1e-07"):
        purify(pair, slightly)
    purify(pair, {(0, 1): even, 0: [0.5 + 1e-12, 0.5 - 1e-12]})


def test_pairs_that_differ_on_the_feature_they_share_are_refused():
    slanted = JOINT.sum(0) * np.array([[1.0], [1.0], [2.0]])
    with pytest.raises(
        tp.errors.InvalidInputError, match=r"of \(0, 1\) and of \(1, 2\).*of \(1,\)"
    ):
        purify(TENSORS, {(0, 1): JOINT.sum(2), (1, 2): slanted})


@pytest.mark.parametrize(
    "weights",
    [
        {(0, 1): np.ones((2, 2)), (1, 0): np.ones((2, 2))},
        {(0, 1): np.ones((2, 2)), 7: [1.0]},
        {(0, 1): np.ones((2, 2)), (): 1.0},
    ],
)
def test_weights_of_features_that_are_not_there_or_there_twice(weights):
    with pytest.raises(tp.errors.InvalidInputError, match="one table for each set of features"):
        purify({(0, 1): np.eye(2)}, weights)


@pytest.mark.parametrize("names", [np.array(["a", "b"]), pd.Index(["a", "b"])])
def test_names_of_features_in_arrays(names):
    assert purify({(0, 1): np.eye(2)}, "uniform", feature_names=names).feature_names == ("a", "b")


@pytest.mark.parametrize("intercept", [np.inf, -np.inf, np.nan, [0.0, np.nan], "x", [1, 2, 3], 1j])
def test_an_intercept_that_is_no_finite_number_for_each_output_is_refused(intercept):
    tensors = {(0, 1): np.zeros((2, 2, 2))}
    with pytest.raises(tp.errors.InvalidInputError, match=r"intercept must be (one finite|num)"):
        purify(tensors, "uniform", intercept=intercept, output_names=["a", "b"])
