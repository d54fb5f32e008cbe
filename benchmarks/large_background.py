"""How much time and memory does partial dependence over ten million background rows take?

Run: ``python benchmarks/large_background.py [--rows 10000000]``. XGBoost, 100 trees of depth 3, 8
features in single precision, terms of one and two features.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import xgboost

from treepurify.engines.partial_dependence.anova import partial_dependence_anova

N_FEATURES = 8
N_TRAINING_ROWS = 20_000


def memory(field: str) -> float:
    """Return one line of the process's memory in GB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1e6


def main() -> None:
    """Train on few rows, decompose over all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n_rows = parser.parse_args().rows
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    few = X[:N_TRAINING_ROWS]
    y = few[:, 0] * few[:, 1] + np.sin(2 * few[:, 2]) + (few[:, 3] > 0) * few[:, 4]
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=3, n_jobs=2).fit(few, y)
    partial_dependence_anova(model, few, progress=False)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here (Linux)
    before = memory("VmRSS")
    start = time.perf_counter()
    d = partial_dependence_anova(model, few, background=X)
    took = time.perf_counter() - start
    print(f"{n_rows} background rows, {len(d)} terms: {took:.1f} s")
    rise = memory("VmHWM") - before
    print(f"memory rose by {rise:.2f} GB; the rows take {X.nbytes / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
