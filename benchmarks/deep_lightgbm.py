"""Can a large LightGBM model be purified at all?

500 trees of 63 leaves, 100 000 rows of 30 features, order 2. Aims on two cores: empirical
measure under 180 s and 4 GB, independent features under 5 s.
Run: ``python benchmarks/deep_lightgbm.py``.
"""

import time

import lightgbm
import numpy as np
from timing import peak_memory

import treepurify as tp

ROWS, FEATURES = 100_000, 30


def main() -> None:
    """Print both measures."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(ROWS, 1))
    X = np.sqrt(0.3) * common + np.sqrt(0.7) * rng.normal(size=(ROWS, FEATURES))
    y = sum(X[:, i] * X[:, i + 1] for i in range(0, 10, 2)) + np.sin(2 * X[:, 10])
    y += X[:, 11] * X[:, 12] * X[:, 13] + rng.normal(size=ROWS)
    parameters = {"num_leaves": 63, "learning_rate": 0.1, "verbose": -1}
    model = lightgbm.train(parameters, lightgbm.Dataset(X, y), 500)
    print(f"peak memory before: {peak_memory():.2f} GB")
    for weights in ("independent", "empirical"):
        tp.purify(model, X[:500], weights=weights, memory_budget=2**31, progress=False)  # compile
        start = time.perf_counter()
        d = tp.purify(model, X, weights=weights, memory_budget=2**31)
        seconds = time.perf_counter() - start
        print(
            f"{weights:<12} {seconds:7.1f} s, method {d.diagnostics['method']!r}, {len(d)} "
            f"components, R-squared {d.r_squared(X)[0]:.4f}, cosine {d.certificate.cosine:.1e}, "
            f"peak memory {peak_memory():.2f} GB"
        )
        print(f"  {d.diagnostics.get('projection', d.diagnostics.get('variance'))}")


if __name__ == "__main__":
    main()
