"""How often a row is drawn, and to which part it belongs, depends on the row alone."""

from math import exp, factorial

import numpy as np

from treepurify.rows.resampling import Resampling, RowSplit


def test_numbers_belong_to_rows():
    whole = Resampling(3, 1).times(2, 0, 1000)
    parts = [Resampling(3, 1).times(2, start, 100) for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    for other in (Resampling(4, 1), Resampling(3, 2)):
        assert abs(np.corrcoef(whole, other.times(2, 0, 1000))[0, 1]) < 0.1
    assert abs(np.corrcoef(whole, Resampling(3, 1).times(1, 0, 1000))[0, 1]) < 0.1


def test_numbers_are_poisson_of_mean_one():
    times = Resampling(0, 0).times(0, 0, 200_000)
    shares = np.bincount(times.astype(int), minlength=8)[:8] / len(times)
    truth = [exp(-1) / factorial(k) for k in range(8)]
    np.testing.assert_allclose(shares, truth, atol=4 * np.sqrt(0.25 / len(times)))


def test_a_split_gives_every_row_to_one_part_whatever_the_batches():
    split = RowSplit(0, 1, 3)
    whole = split.parts(2, 0, 9000)
    np.testing.assert_array_equal(
        np.concatenate([split.parts(2, 0, 100), split.parts(2, 100, 8900)]), whole
    )
    assert np.abs(np.bincount(whole) - 3000).max() < 200
    # Neighbours, splits, files and seeds are independent.
    others = (
        whole[1:],
        RowSplit(0, 2, 3).parts(2, 0, 9000),
        split.parts(3, 0, 9000),
        RowSplit(1, 1, 3).parts(2, 0, 9000),
    )
    for other in others:
        assert abs(np.mean(whole[: len(other)] == other) - 1 / 3) < 0.03
