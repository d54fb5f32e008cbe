"""How long does the first ``purify`` of an installation take, compilation included?

A small shallow model, and one of XGBoost's default depth and number of trees, which needs more
kernels. For each, three processes share an empty kernel cache: the first compiles, the others
start from the cache. The package's own bytecode is there before, as it is after an installation.
Aim: at most 4 s for the first of the shallow model, on a quiet machine.
Run: ``python benchmarks/first_run.py``.
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
model = xgboost.XGBRegressor({settings}).fit(X, X[:, 0] * X[:, 1])
ready = time.perf_counter()
tp.purify(model, X)
purified = time.perf_counter()
print(f"purify {{purified - ready:6.2f}} s, imports and training {{ready - start:5.2f}} s")
"""
MODELS = {"50 trees of depth 2": "n_estimators=50, max_depth=2", "default": ""}


def main() -> None:
    """Print the time of each process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", "from treepurify import purify"], env=environment, check=True
    )
    for name, settings in MODELS.items():
        print(name)
        print_processes(SCRIPT.format(settings=settings), environment)


def print_processes(script: str, environment: dict[str, str]) -> None:
    """Run a script three times, from an empty cache on."""
    with tempfile.TemporaryDirectory() as cache:
        for turn in ("first", "second", "third"):
            result = subprocess.run(
                [sys.executable, "-c", script],
                env=environment | {"NUMBA_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=True,
            )
            said = result.stderr.strip() or "nothing"
            print(f"{turn:<7} {result.stdout.strip()}; on standard error: {said}", flush=True)


if __name__ == "__main__":
    main()
