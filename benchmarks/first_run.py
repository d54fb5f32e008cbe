"""How long does the first call of an installation take, compilation included?

`purify` of a small shallow model, and of one of XGBoost's default depth and number of trees, which
needs more kernels; and other engines on the latter. For each, three processes share an empty
kernel cache: the first compiles, the others start from the cache. The package's own bytecode is
there before, as it is after an installation.
Aims, on a quiet machine: 4 s for the shallow model, 5 s for the default one, 3 s for other engines.
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
tp.{call}
done = time.perf_counter()
print(f"call {{done - ready:6.2f}} s, imports and training {{ready - start:5.2f}} s")
"""
SHALLOW, DEFAULT = "n_estimators=50, max_depth=2", ""
CALLS = (
    "purify(model, X)",
    "purify(model, X, weights='independent')",
    "interaction_indices(model, X)",
    "interventional_shapley_values(model, X[:20], X[:200])",
    "shapley_sets(model, X, X[:3])",
    "partial_dependence_anova(model, X)",
    "h_statistics(model, X)",
    "ale_anova(model, X)",
    "legendre_anova(model, X)",
    "hooker_anova(model.predict, X[:500], bins=4)",
    "categorical_anova(lambda x: x[:, 0] * x[:, 1], np.digitize(X[:500, :4], [-1, 1]))",
    "audit(model, X)",
)


def main() -> None:
    """Print the time of each process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", "from treepurify import purify"], env=environment, check=True
    )
    for settings, call in [(SHALLOW, CALLS[0]), *((DEFAULT, call) for call in CALLS)]:
        print(f"{call} of XGBRegressor({settings})")
        print_processes(SCRIPT.format(settings=settings, call=call), environment)


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
