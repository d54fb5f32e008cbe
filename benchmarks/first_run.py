"""How long does the first ``purify`` of an installation take, compilation included?

Three processes share an empty kernel cache: the first compiles, the others start from the cache.
The package's own bytecode is there before, as it is after an installation.
Aim: at most 4 s for the first, on a quiet machine. Run: ``python benchmarks/first_run.py``.
"""

import os
import subprocess
import sys
import tempfile

SCRIPT = """
import time
start = time.perf_counter()
import numpy as np
import xgboost
import treepurify as tp
X = np.random.default_rng(0).normal(size=(2000, 6))
model = xgboost.XGBRegressor(n_estimators=50, max_depth=2).fit(X, X[:, 0] * X[:, 1])
ready = time.perf_counter()
tp.purify(model, X)
print(f"purify {time.perf_counter() - ready:6.2f} s, imports and training {ready - start:5.2f} s")
"""


def main() -> None:
    """Print the time of each process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", "from treepurify import purify"], env=environment, check=True
    )
    with tempfile.TemporaryDirectory() as cache:
        for turn in ("first", "second", "third"):
            result = subprocess.run(
                [sys.executable, "-c", SCRIPT],
                env=environment | {"NUMBA_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            said = result.stderr.strip() or "nothing"
            print(f"{turn:<7} {result.stdout.strip()}; on standard error: {said}")


if __name__ == "__main__":
    main()
