"""How much faster is the continuous closed form than the paper's pipeline, with the same result?

California housing, an XGBoost model as in the paper's section D.2, pairs, degree 10: the
straightforward pipeline (SciPy's polynomials, scikit-learn's LassoLarsIC, NumPy's lstsq) and
`legendre_anova` with the same settings, in one process, alternating. Processor seconds are
next to wall-clock ones, because other programs may share the machine.
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from examples.paper_continuous_models import explain, read_task  # noqa: E402
from tests.reference.legendre_pipeline import legendre_pipeline  # noqa: E402
from treepurify.engines.legendre import TermSelection, legendre_anova  # noqa: E402
from treepurify.errors import SupportWarning  # noqa: E402

PAPER = {
    "density": "legendre",
    "scaling": "tanh",
    "orthogonal": False,
    "selection": TermSelection(column_scale="density", max_steps=500),
    "memory_budget": 4 << 30,
    "progress": False,
}


def timed(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return wall-clock seconds, processor seconds, and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - wall, time.process_time() - processor, result


def main() -> None:
    """Time both, alternating, and print how far their components differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", SupportWarning)
    task = read_task("california_housing")
    X, values = task.X, explain(task, "XGB").values
    legendre_anova(values[:800], X[:800], degree=2, **PAPER)  # compiles
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(timed(lambda: legendre_anova(values, X, degree=options.degree, **PAPER)))
        theirs.append(timed(lambda: legendre_pipeline(values, X.to_numpy(), degree=options.degree)))
    d, reference = ours[-1][2], theirs[-1][2]
    fit = d.diagnostics["fit"]["f"]
    difference = max(
        float(np.abs(d[subset].evaluate(X) - component).max())
        for subset, component in reference.components.items()
    )
    print(f"degree {options.degree}, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for name, runs in (("legendre_anova", ours), ("pipeline", theirs)):
        walls, processors = [run[0] for run in runs], [run[1] for run in runs]
        print(
            f"  {name:<16} wall {min(walls):7.2f} s (median {statistics.median(walls):7.2f}), "
            f"processor {min(processors):7.2f} s"
        )
    for at, what in ((0, "wall"), (1, "processor")):
        ratio = min(run[at] for run in theirs) / min(run[at] for run in ours)
        print(f"  pipeline / legendre_anova, {what}: {ratio:.1f}")
    print(f"  R2 {fit['r_squared']:.6f} and {reference.r_squared:.6f}")
    print(f"  MaxCorr {fit['max_correlation']:.6f} and {reference.max_correlation:.6f}")
    print(f"  terms {fit['terms']} and {len(reference.selected)}")
    print(f"  largest difference of a component on any row {difference:.1e}")
    for name, settings in (
        ("the same, made orthogonal", {**PAPER, "orthogonal": True}),
        ("as by default", {"progress": False}),
        ("by default with kernels", {"progress": False, "density": "kernel"}),
    ):
        wall, processor, d = timed(
            lambda settings=settings: legendre_anova(values, X, degree=options.degree, **settings)
        )
        fit = d.diagnostics["fit"]["f"]
        print(
            f"  {name:<26} R2 {fit['r_squared']:.4f}, MaxCorr {fit['max_correlation']:.1e}, "
            f"{fit['terms']} terms, wall {wall:.1f} s, processor {processor:.1f} s"
        )


if __name__ == "__main__":
    main()
