"""Choices of features and probabilities of runs, one by one."""

from itertools import combinations

import numpy as np
import pytest

from treepurify.effects import conditional
from treepurify.effects.leaf_boxes import Runs


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("at_a_time", [1, 7, conditional._CHOICES_AT_A_TIME])
def test_keys_of_all_choices_leaf_after_leaf(monkeypatch, size, at_a_time):
    monkeypatch.setattr(conditional, "_CHOICES_AT_A_TIME", at_a_time)
    rng = np.random.default_rng(size)
    entry_ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, size=40))])
    feature = rng.integers(0, 12, size=entry_ptr[-1]).astype(np.int32)
    leaves = np.flatnonzero(rng.random(40) < 0.7)
    expected = [
        sum(int(feature[entry]) * 13**k for k, entry in enumerate(reversed(chosen)))
        for leaf in leaves
        for chosen in combinations(range(entry_ptr[leaf], entry_ptr[leaf + 1]), size)
    ]
    found = conditional.subset_keys(entry_ptr, feature, leaves, size, 13)
    assert found.tolist() == expected


def test_no_leaves_have_no_keys():
    nothing = np.zeros(0, dtype=np.int64)
    assert len(conditional.subset_keys(np.zeros(1, dtype=np.int64), nothing, nothing, 2, 5)) == 0


def test_probability_of_runs_is_that_of_their_cells():
    rng = np.random.default_rng(0)
    margins = [rng.dirichlet(np.ones(size)) for size in (6, 9)]
    feature = np.array([1, 0, 1, 0], dtype=np.int32)
    # The third set of cells has no run; a set before the first one has a run that is not asked for.
    runs = [(0, 2), (1, 3), (5, 9), (2, 4), (0, 1), (4, 6)]
    run_ptr = np.array([1, 3, 4, 4, 6])
    start, stop = np.array(runs, dtype=np.int32).T
    found = conditional.Margins.of(margins).of_runs(Runs(run_ptr, start, stop, feature))
    expected = [
        sum(margins[j][first:last].sum() for first, last in runs[run_ptr[i] : run_ptr[i + 1]])
        for i, j in enumerate(feature)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-15)
