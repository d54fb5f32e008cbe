"""How often a row is drawn, and to which part it belongs, depends on the row alone."""

from math import exp, factorial

import numpy as np

from treepurify.rows.resampling import row_parts, times_drawn


def test_numbers_belong_to_rows():
    whole = times_drawn(3, 1, 0, 1000)
    parts = [times_drawn(3, 1, start, 100) for start in range(0, 1000, 100)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    for seed, number in ((4, 1), (3, 2)):
        assert abs(np.corrcoef(whole, times_drawn(seed, number, 0, 1000))[0, 1]) < 0.1


def test_numbers_are_poisson_of_mean_one():
    times = times_drawn(0, 0, 0, 200_000)
    shares = np.bincount(times.astype(int), minlength=8)[:8] / len(times)
    truth = [exp(-1) / factorial(k) for k in range(8)]
    np.testing.assert_allclose(shares, truth, atol=4 * np.sqrt(0.25 / len(times)))


def test_a_split_gives_every_row_to_one_part():
    whole = row_parts(0, 3, 9000)
    np.testing.assert_array_equal(row_parts(0, 3, 100), whole[:100])
    assert np.abs(np.bincount(whole) - 3000).max() < 200
    # Neighbours and seeds are independent.
    for other in (whole[1:], row_parts(1, 3, 9000)):
        assert abs(np.mean(whole[: len(other)] == other) - 1 / 3) < 0.03
