"""The raw number at which a transform crosses a threshold is the first one beyond it."""

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler

from treepurify.models.pipelines.cells import pull_back
from treepurify.models.pipelines.columns import Column, follow_steps

RNG = np.random.default_rng(0)
ROWS = RNG.lognormal(2, 1, size=(200, 2))
STEPS = [
    StandardScaler().fit(ROWS),
    PowerTransformer().fit(ROWS),
    FunctionTransformer(np.log1p).fit(ROWS),
    FunctionTransformer(np.negative).fit(ROWS),
    FunctionTransformer(np.cbrt).fit(ROWS),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_first_number_beyond(step, dtype):
    raws = tuple(Column(f"x{j}", (j,), None, j) for j in range(2))
    columns = follow_steps([("step", step)], raws)[0]
    values = step.transform(ROWS.astype(dtype)).astype(np.float64)
    thresholds = [np.unique(RNG.choice(values[:, j], 20)) + 1e-9 for j in range(2)]
    found = pull_back(columns, thresholds, [np.dtype(dtype)] * 2, [dtype(1.0)] * 2)
    for j, limits in enumerate(thresholds):
        knots = columns[j].output.knots
        cuts = np.setdiff1d(found[j], knots).astype(dtype)
        beside = np.stack([np.nextafter(cuts, np.array(-np.inf, dtype=dtype)), cuts])
        at = np.zeros((2, len(cuts), 2), dtype=dtype)
        at[..., j] = beside
        below, above = (step.transform(rows)[:, j].astype(np.float64) for rows in at)
        if step.get_params().get("func") is np.cbrt:
            # Those of some libraries cross back at once, and again: it is the last that counts.
            is_crossed = (below[:, None] >= limits) != (above[:, None] >= limits)
            assert np.all(is_crossed.sum(axis=1) == 1)
            assert np.all(is_crossed.sum(axis=0) % 2 == 1)
            last = len(cuts) - 1 - np.argmax(is_crossed[::-1], axis=0)
            cuts, below, above = cuts[last], below[last], above[last]
        assert len(cuts) == len(limits)
        rising = np.all(above >= below)
        order = np.sort(limits) if rising else np.sort(limits)[::-1]
        assert np.all((below < order) == rising)
        assert np.all((above >= order) == rising)


def test_what_is_never_crossed_has_no_cut():
    raws = (Column("x", (0,), None, 0),)
    column = follow_steps([("step", FunctionTransformer(np.tanh).fit(ROWS[:, :1]))], raws)[0]
    (found,) = pull_back(column, [np.array([-2.0, 2.0])], [np.dtype(float)], [1.0])
    assert len(found) == 0


def test_both_branches_of_a_square():
    raws = (Column("x", (0,), None, 0),)
    column = follow_steps([("step", FunctionTransformer(np.square).fit(ROWS[:, :1]))], raws)[0]
    (found,) = pull_back(column, [np.array([4.0])], [np.dtype(float)], [1.0])
    np.testing.assert_array_equal(found, [np.nextafter(-2.0, 0.0), 0.0, 2.0])
