"""How fast is the exact partial-dependence ANOVA next to woodelf's any-order Moebius metric?

Run: ``python benchmarks/partial_dependence_vs_woodelf.py [--rounds 3]``.
Both decompose XGBoost models of 100 trees over 8 features, 20 000 rows with all 20 000 rows as
background, in one process, taking turns. Ours is timed from the trained model to the values of
every term on every row; values are compared on all rows.
"""

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from timing import alternate, show
from woodelf.core.cube_metric import MobiusCoefficients, ShapleyValues
from woodelf.woodelf_sparse import hybrid_woodelf

from treepurify.components import evaluate_each
from treepurify.decomposition import Decomposition
from treepurify.engines.partial_dependence.anova import partial_dependence_anova

N_FEATURES = 8


def make(depth: int, n_rows: int) -> tuple[xgboost.XGBRegressor, pd.DataFrame]:
    """Return a model of 100 trees and its rows, with correlation 0.5."""
    rng = np.random.default_rng(0)
    covariance = 0.5 + 0.5 * np.eye(N_FEATURES)
    rows = rng.multivariate_normal(np.zeros(N_FEATURES), covariance, size=n_rows)
    # XGBoost rounds its input to single precision, and so do we; woodelf compares in double.
    rows = rows.astype(np.float32).astype(np.float64)
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(N_FEATURES)])
    x = frame.to_numpy().T
    y = x[0] * x[1] + np.sin(2 * x[2]) + (x[3] > 0) * x[4] * x[5] + 0.3 * x[6]
    y += 0.1 * rng.normal(size=n_rows)
    return xgboost.XGBRegressor(n_estimators=100, max_depth=depth, n_jobs=2).fit(frame, y), frame


def ours(
    model: xgboost.XGBRegressor, frame: pd.DataFrame, order: int | None
) -> tuple[Decomposition, dict[tuple[int, ...], np.ndarray]]:
    """Return the decomposition and the value of every term on every row."""
    d = partial_dependence_anova(model, frame, order=order, progress=False)
    columns = d.inputs.columns(frame)
    return d, dict(zip(d, evaluate_each(d.components.values(), columns), strict=True))


def theirs(
    model: xgboost.XGBRegressor, frame: pd.DataFrame, order: int | None
) -> dict[tuple[str, ...], np.ndarray]:
    """Return woodelf's terms by tuple of names."""
    metric = MobiusCoefficients(max_order=order)
    return hybrid_woodelf(model, frame, frame, metric, verbose=False)


def shap_of_terms(values: dict[tuple[int, ...], np.ndarray], n_rows: int) -> np.ndarray:
    """Return the interventional Shapley values: each term split among its features."""
    found = np.zeros((n_rows, N_FEATURES))
    for subset, term in values.items():
        for j in subset:
            found[:, j] += term[:, 0] / len(subset)
    return found


def woodelf_shap(model: xgboost.XGBRegressor, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return woodelf's interventional Shapley values."""
    return hybrid_woodelf(model, frame, frame, ShapleyValues(), verbose=False)


def print_differences(
    model: xgboost.XGBRegressor, frame: pd.DataFrame, order: int | None, tolerance: float = 1e-6
) -> int:
    """Compare all terms on all rows; where they differ most, ask the model itself."""
    _, mine = ours(model, frame, order)
    names = list(frame.columns)
    other = {}
    for key, values in theirs(model, frame, order).items():
        own = key if isinstance(key, tuple) else (key,)
        other[tuple(sorted(names.index(name) for name in own))] = np.asarray(values)
    zero = np.zeros(len(frame))
    gaps = {
        subset: np.abs((mine[subset][:, 0] if subset in mine else zero) - other.get(subset, zero))
        for subset in set(mine) | set(other)
    }
    differ = np.any([gap > tolerance for gap in gaps.values()], axis=0)
    agreeing = max(float(gap[~differ].max()) for gap in gaps.values())
    print(f"  largest difference of a term: {agreeing:.1e} on {np.sum(~differ)} rows")
    if differ.any():
        subset = max(gaps, key=lambda s: gaps[s].max())
        row = int(gaps[subset].argmax())
        print(
            f"  {differ.sum()} rows differ more; at the worst XGBoost itself, by definition, gives "
            f"{term_by_definition(model, frame, subset, row):.7f}, we {mine[subset][row, 0]:.7f}, "
            f"woodelf {other[subset][row]:.7f}"
        )
    return len(mine)


def term_by_definition(
    model: xgboost.XGBRegressor, frame: pd.DataFrame, subset: tuple[int, ...], row: int
) -> float:
    """Return one term at one row by calling the model on copies of the background."""
    total = 0.0
    for size in range(len(subset) + 1):
        for given in combinations(subset, size):
            changed = frame.copy()
            for j in given:
                changed.iloc[:, j] = frame.iloc[row, j]
            mean = model.predict(changed).astype(np.float64).mean()
            total += (-1) ** (len(subset) - size) * mean
    return total


def peak(who: str, depth: int, order: str, n_rows: int) -> tuple[float, float]:
    """Return the peak memory above that of the data and the model, in MB, in fresh processes.

    The first number is the memory that the process holds, the second what Python and NumPy
    have asked for.
    """
    # Every larger array is mapped on its own, so that memory freed before is not used unseen.
    own = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    found = []
    for how in ("held", "asked for"):
        command = [sys.executable, __file__, "--peak", who, str(depth), order, str(n_rows), how]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
        found.append(float(done.stdout.split()[-1]))
    return found[0], found[1]


def print_peak(who: str, depth: int, order: int | None, n_rows: int, how: str) -> None:
    """Warm up on another, small model and print the increase.

    So compiled code does not count, and nothing that is kept of the warm-up can serve again.
    """
    model, frame = make(depth, n_rows)
    run = ours if who == "ours" else theirs
    few = frame.iloc[:2000]
    x = few.to_numpy().T
    small = xgboost.XGBRegressor(n_estimators=5, max_depth=depth, n_jobs=2)
    run(small.fit(few, x[0] * x[1] + (x[3] > 0) * x[4] * x[5]), few, order)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    if how == "asked for":
        tracemalloc.start()
        run(model, frame, order)
        print(tracemalloc.get_traced_memory()[1] / 1e6)
        return
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here (Linux)
    before = _memory("VmRSS")
    run(model, frame, order)
    print((_memory("VmHWM") - before) / 1e3)


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def main() -> None:
    """Compare and time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--peak", nargs=5)
    arguments = parser.parse_args()
    if arguments.peak:
        who, depth, order, n_rows, how = arguments.peak
        print_peak(who, int(depth), None if order == "all" else int(order), int(n_rows), how)
        return
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for depth in (3, 6):
        compare(depth, arguments.rows, arguments.rounds)


def processor_time(function: Callable[[], object]) -> float:
    """Return the least processor time of three runs, in seconds, summed over the cores."""
    found = []
    for _ in range(3):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def compare(depth: int, n_rows: int, rounds: int) -> None:
    """Compare values, time and memory at one depth."""
    model, frame = make(depth, n_rows)
    for order in (2, None):
        what = "all orders" if order is None else f"order <= {order}"
        functions = {
            "woodelf": partial(theirs, model, frame, order),
            "treepurify": partial(ours, model, frame, order),
        }
        if order is None:
            functions["woodelf, SHAP only"] = partial(woodelf_shap, model, frame)
        medians = alternate(functions, rounds)
        show(f"depth {depth}, {what}", medians, rounds)
        # Does not depend on what else the machine does, nor profit from several cores.
        work = {name: processor_time(function) for name, function in functions.items()}
        shown = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in work.items())
        print(f"  processor time, least of 3, all cores together: {shown}")
        print(f"  {print_differences(model, frame, order)} terms")
        name = "all" if order is None else str(order)
        for who in ("ours", "woodelf"):
            held, asked_for = peak(who, depth, name, n_rows)
            print(f"  peak memory, {who}: held {held:.1f} MB, asked for {asked_for:.1f} MB")
    shap = woodelf_shap(model, frame)
    mine = shap_of_terms(ours(model, frame, None)[1], n_rows)
    gaps = [np.max(np.abs(mine[:, j] - shap[f"x{j}"])) for j in range(N_FEATURES)]
    print(f"  largest difference of a SHAP value: {max(gaps):.1e}")


if __name__ == "__main__":
    main()
