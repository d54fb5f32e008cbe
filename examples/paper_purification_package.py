"""
The authors' own packages on one table
======================================

The paper says that its algorithm is in ``interpret``; its first author has published
``gam-purification`` as well. Both purify a table of random values under weights of increasing
dependence, and are compared with dense least squares. Part of ``paper_purification.py``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.stats import norm

import treepurify as tp
from examples.reproduction import Entry, Table

ROWS = 50_000
CORRELATIONS = (0.0, 0.5, 0.9, 0.99)
PACKAGE = "gam-purification"


@dataclass(frozen=True, eq=False)
class Purified:
    """Main effects and the interaction of a table, with the sweeps where they are counted."""

    mains: tuple[np.ndarray, np.ndarray]
    pair: np.ndarray
    sweeps: int | None = None


Method = Callable[[np.ndarray, np.ndarray], Purified]


def histogram(size: int, correlation: float) -> np.ndarray:
    """Return counts of pairs of normal variables, in intervals of equal probability."""
    rng = np.random.default_rng(0)
    covariance = [[1.0, correlation], [correlation, 1.0]]
    samples = norm.cdf(rng.multivariate_normal([0.0, 0.0], covariance, ROWS))
    counts, _, _ = np.histogram2d(*samples.T, bins=size, range=[(0, 1)] * 2)
    return counts


def by_least_squares(table: np.ndarray, counts: np.ndarray) -> Purified:
    """Return the projection on sums of main effects, by a dense solve."""
    first, second = (np.eye(n) for n in table.shape)
    rows, columns = np.indices(table.shape).reshape(2, -1)
    design = np.hstack([first[rows], second[columns]])
    root = np.sqrt(counts.ravel())[:, None]
    found = np.linalg.lstsq(design * root, table.ravel() * root[:, 0], rcond=None)[0]
    pair = table - (design @ found).reshape(table.shape)
    return Purified((found[: len(first)], found[len(first) :]), pair)


def by_treepurify(table: np.ndarray, counts: np.ndarray) -> Purified:
    """Return what the library solves for directly."""
    d = tp.purify_tensors({(0, 1): table}, counts, progress=False)
    pair = d["x0", "x1"].values[..., 0]
    return Purified((d["x0"].values[:, 0], d["x1"].values[:, 0]), pair)


def by_interpret(table: np.ndarray, counts: np.ndarray) -> Purified:
    """Return mass-moving as in ``interpret``, with its defaults."""
    from interpret.utils import purify

    pair, moved, _ = purify(table.copy(), counts / counts.sum())
    mains = dict(moved)
    return Purified((mains[0,], mains[1,]), pair)


def by_authors_package(table: np.ndarray, counts: np.ndarray) -> Purified:
    """Return mass-moving as in ``gam-purification``, until slice means are below 1e-6."""
    from gam_purification.purify import purify

    _, first, second, pair, sweeps = purify(table.copy(), counts)
    return Purified((first, second), pair, sweeps)


def largest_mean(values: np.ndarray, counts: np.ndarray) -> float:
    """Return the largest mean of a slice that has mass, either way."""
    means = []
    for axis in (0, 1):
        mass = counts.sum(axis=axis)
        means += [(values * counts).sum(axis=axis)[mass > 0] / mass[mass > 0]]
    return float(np.abs(np.concatenate(means)).max())


def main_effect_error(own: Purified, truth: Purified, counts: np.ndarray) -> float:
    """Return the largest error of a main effect, both centred, relative to its range."""
    errors = []
    for axis in (0, 1):
        mass = counts.sum(axis=1 - axis)
        centred = [p.mains[axis] - np.average(p.mains[axis], weights=mass) for p in (own, truth)]
        errors.append(np.abs(centred[0] - centred[1])[mass > 0].max() / np.ptp(centred[1]))
    return float(max(errors))


def authors_packages(size: int) -> Table:
    """Return the errors and the processor times of each package."""
    methods: dict[str, Method] = {"treepurify": by_treepurify, "interpret": by_interpret}
    if find_spec("gam_purification"):
        methods[PACKAGE] = by_authors_package
    table = np.random.default_rng(1).normal(size=(size, size))
    entries = []
    for correlation in CORRELATIONS:
        counts = histogram(size, correlation)
        truth = by_least_squares(table, counts)
        ours = {}
        for name, method in methods.items():
            method(table, counts)  # the first call may compile
            start = time.process_time()
            own = method(table, counts)
            seconds = time.process_time() - start
            means = largest_mean(own.pair, counts)
            sweeps = None if own.sweeps is None else f"{own.sweeps}"
            ours[name] = (means, main_effect_error(own, truth, counts), sweeps, seconds)
        entries.append(Entry(f"correlation {correlation:g}", (), ours))
    return Table(
        "purification_authors_packages",
        f"A {size} x {size} table of random values: the authors' packages and a direct solve",
        ("largest slice mean", "largest error of a main effect", "sweeps", "seconds"),
        entries,
        ".1e",
        (
            "Errors are relative to the range of the main effect, against dense least squares."
            f" Seconds are processor time. {PACKAGE} 0.0.1 is by the first author of the paper, in"
            " NumPy, and stops when all slice means are below 1e-6.",
            "All solve the same problem. The more features depend on each other, the more sweeps"
            " are needed, and the larger are the errors of main effects when slice means are below"
            " the tolerance. interpret stops when a sweep moves no less than the one before, which"
            " happens early at 0.99.",
        ),
    )
