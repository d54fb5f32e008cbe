"""How do the exact solves compare with ``interpret.utils.purify`` on raw tables?

Joint histograms of Gaussian samples, cells of equal probability a margin. For each table: time,
and what is left: the largest conditional mean relative to the largest entry, and the largest
error of a main effect relative to its range, against the exact solve's own refinement in
extended precision (dense least squares for 32 x 32). Aim: at least 30 times faster on one
256 x 256 table at correlation 0.95, and exact. Run: ``python benchmarks/purify_vs_interpret.py``.
"""

import numpy as np
from interpret.utils import purify as interpret_purify
from scipy.stats import norm
from timing import alternate, show

import treepurify as tp

ROWS = 50_000
ROUNDS = 5


def joint_histogram(shape: tuple[int, ...], correlation: float) -> np.ndarray:
    """Counts of normal samples, all pairs with the same correlation."""
    rng = np.random.default_rng(0)
    covariance = np.full((len(shape),) * 2, correlation) + (1 - correlation) * np.eye(len(shape))
    samples = norm.cdf(rng.multivariate_normal(np.zeros(len(shape)), covariance, ROWS))
    counts, _ = np.histogramdd(samples, bins=shape, range=[(0, 1)] * len(shape))
    return counts


def two_clusters(size: int) -> np.ndarray:
    """Two clusters of rows joined by a single row out of 50 000."""
    rng = np.random.default_rng(0)
    half = size // 2
    counts = np.zeros((size, size))
    for start, rows in ((0, ROWS // 2), (half, ROWS - ROWS // 2 - 1)):
        first, second = rng.integers(start, start + half, (2, rows))
        np.add.at(counts, (first, second), 1)
    counts[0, half] += 1
    return counts


def largest_mean(table: np.ndarray, mass: np.ndarray) -> float:
    """Largest conditional mean of a slice, relative to one."""
    largest = 0.0
    for axis in range(mass.ndim):
        total = mass.sum(axis=axis)
        means = (table * mass).sum(axis=axis)[total > 0] / total[total > 0]
        largest = max(largest, float(np.abs(means).max()))
    return largest


def compare(name: str, counts: np.ndarray, *, sequential: bool) -> None:
    """Print times and what is left, for one table."""
    order = counts.ndim
    mass = np.ascontiguousarray(counts / counts.sum())
    table = np.random.default_rng(1).normal(size=counts.shape)
    subset = tuple(range(order))

    def ours() -> tp.Decomposition:
        return tp.purify_tensors({subset: table}, counts, progress=False)

    functions = {
        "treepurify.purify_tensors": ours,
        "interpret purify": lambda: interpret_purify(table.copy(), mass.copy()),
    }
    if sequential:
        functions["interpret purify, sequential"] = lambda: interpret_purify(
            table.copy(), mass.copy(), is_randomized=False
        )
    medians = alternate(functions, ROUNDS)
    show(name, medians, ROUNDS)
    d = ours()
    scale = np.abs(table).max()
    mains = [d[j].values[..., 0] for j in range(order)]
    print(f"  left in treepurify {largest_mean(d[subset].values[..., 0], mass) / scale:.1e}")
    for label in list(functions)[1:]:
        pure, impurities, _ = functions[label]()
        left = largest_mean(pure, mass) / scale
        error = ""
        if order == 2:
            theirs = [dict(impurities)[(j,)] for j in range(order)]
            found = [
                np.abs((part - np.average(part, weights=m)) - main)[m > 0].max() / np.ptp(main)
                for part, main, m in zip(
                    theirs, mains, (mass.sum(axis=1), mass.sum(axis=0)), strict=True
                )
            ]
            error = f", main effects off by {max(found):.1e} of their range"
        print(f"  left in {label} {left:.1e}{error}")


def main() -> None:
    """Print every table."""
    for shape, correlation, sequential in (
        ((32, 32), 0.95, True),
        ((32, 32), 0.999, True),
        ((256, 256), 0.95, True),
        ((256, 256), 0.99, True),
        ((256, 256), 0.999, False),
        ((32, 32, 32), 0.95, False),
        ((32, 32, 32), 0.999, False),
    ):
        size = " x ".join(map(str, shape))
        compare(
            f"{size}, correlation {correlation}",
            joint_histogram(shape, correlation),
            sequential=sequential,
        )
    # The sequential form of interpret runs for over a minute here.
    compare("256 x 256, two clusters joined by one row", two_clusters(256), sequential=False)


if __name__ == "__main__":
    main()
