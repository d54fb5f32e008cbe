"""What happens at the limits: a model far too large, and components of three features?

A synthetic ensemble of 5000 complete trees of depth 12 on 500 features (41 million nodes, 2 GB)
must be refused, in seconds. Then LightGBM with 31 leaves on California housing, empirical
weights, ``order=3``. There is no peer.
Run: ``python benchmarks/deep_limits.py [--trees 100]``.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from lightgbm import LGBMRegressor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DATA_SETS
from tests.reference.ensembles import complete_ensemble


def refused() -> None:
    """Print how the large model is refused."""
    rng = np.random.default_rng(0)
    ensemble = complete_ensemble(rng, n_features=500, depth=12, n_trees=5000)
    X = rng.normal(size=(200, 500))
    start = time.perf_counter()
    try:
        tp.purify(ensemble, X, weights="empirical", order=3, progress=False)
    except tp.errors.MemoryBudgetError as reason:
        print(f"5000 trees of depth 12, refused in {time.perf_counter() - start:.1f} s: {reason}")


def third_order(n_trees: int) -> None:
    """Print the time of components of up to three features."""
    data = DATA_SETS["california_housing"]()
    model = LGBMRegressor(n_estimators=n_trees, n_jobs=2, verbose=-1).fit(data.X, data.y)
    start = time.perf_counter()
    d = tp.purify(
        model, data.X, weights="empirical", order=3, memory_budget=8 << 30, progress=False
    )
    seconds = time.perf_counter() - start
    print(f"{n_trees} trees of 31 leaves, order 3: {seconds:.1f} s, {len(d)} components")


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=100)
    refused()
    third_order(parser.parse_args().trees)


if __name__ == "__main__":
    main()
