"""Projections on effects, from rows and from the shares of rows in each two cells."""

import numpy as np
import pytest

from treepurify.evidence import effect_space
from treepurify.evidence.effect_space import EffectSpace

SUBSETS = ((0,), (1,), (2,), (0, 1))
SHAPES = ((10,), (8,), (6,), (10, 8))


def dependent_space(n_rows=4000):
    rng = np.random.default_rng(0)
    first = rng.integers(10, size=n_rows)
    second = np.minimum(first, rng.integers(8, size=n_rows))
    third = (first + second + rng.integers(3, size=n_rows)) % 6
    cells = np.stack([first, second, third, first * 8 + second]).astype(np.uint32)
    shares = rng.uniform(0.5, 2.0, n_rows)
    function = np.stack([np.sin(first * third), rng.normal(size=n_rows)], axis=1)
    return EffectSpace(SUBSETS, SHAPES, cells, shares / shares.sum()), function


def indicators(space, place):
    return np.eye(int(np.prod(SHAPES[place])))[space.cells[place]]


@pytest.mark.parametrize("most_joint", [0, 1 << 22])
@pytest.mark.parametrize("onto", [SUBSETS, SUBSETS[:3], SUBSETS[1:], SUBSETS[2:]])
def test_the_projection_is_that_of_least_squares(onto, most_joint, monkeypatch):
    monkeypatch.setattr(effect_space, "_MOST_JOINT", most_joint)
    space, function = dependent_space()
    found = space.project(function, onto)
    assert bool(space.joint) == (most_joint > 0)
    assert found.converged
    root = np.sqrt(space.shares)[:, None]
    design = [np.ones((len(function), 1))]
    for place, subset in enumerate(SUBSETS):
        basis = indicators(space, place)
        if subset in found.pure:
            mains = np.hstack([indicators(space, j) for j in subset])
            basis = basis - mains @ np.linalg.lstsq(root * mains, root * basis, rcond=1e-11)[0]
        if subset in onto:
            design.append(basis)
    design = np.hstack(design)
    expected = design @ np.linalg.lstsq(root * design, root * function, rcond=1e-11)[0]
    np.testing.assert_allclose(found.mean + space.sum_of(found.tables), expected, atol=1e-9)


def test_rows_are_counted_once_for_all_projections():
    space, function = dependent_space()
    space.project(function, SUBSETS[:3])
    before = dict(space.joint)
    space.project(function[:, :1], SUBSETS[1:3])
    assert all(space.joint[key] is before[key] for key in before)
    assert len(space.joint) == len(before)
