"""How does the time of `purify` grow with rows, trees, depth, features and classes?

Each is doubled five times, the others kept, under the default call and under the rows themselves;
each call in a process of its own, after one on the same model that loads all kernels. Prints
processor seconds, peak memory and the exponent: the slope of log seconds over log size, over all
doublings and over the last two. Trained by XGBoost with leaves chosen by loss, so that a depth is
not two to the depth leaves.
Run: ``nice -n 10 python benchmarks/growth.py [--write]``; ``--write`` keeps the seconds in
``growth.json`` and puts the table into ``docs/developers_measured.md``.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from limited import Ended, run_limited, timed, write_between

COMMAND = "nice -n 10 python benchmarks/growth.py --write"
DOUBLINGS = 5
USUAL = {"rows": 4000, "trees": 50, "depth": 6, "features": 20, "classes": 1}
# Tables of many classes and all pairs of twenty features do not fit into the memory.
WITH_IT = {"classes": {"features": 5, "trees": 10}}
FIRST = {"rows": 4000, "trees": 25, "depth": 1, "features": 5, "classes": 2}
MEASURES = ("auto", "empirical")
SECONDS, START, GIB = 120.0, 120.0, 4.0
STORE = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "developers_measured.md"


def purified(task: str) -> str:
    """Train a model of some size, purify it twice, and return the second as a line."""
    import xgboost

    import treepurify as tp

    what, size, weights = task.split()
    sizes = USUAL | WITH_IT.get(what, {}) | {what: int(size)}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sizes["rows"], sizes["features"]))
    X[:, 1:] += 0.3 * X[:, :1]
    y = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] * (X[:, 3] > 0) + X[:, 4]
    options = {
        "n_estimators": sizes["trees"],
        "max_depth": sizes["depth"],
        "max_leaves": 64,
        "grow_policy": "lossguide",
        "n_jobs": 1,
    }
    n_classes = sizes["classes"]
    if n_classes > 1:
        ranks = y.argsort().argsort()
        model = xgboost.XGBClassifier(**options).fit(X, ranks * n_classes // len(y))
    else:
        model = xgboost.XGBRegressor(**options).fit(X, y)

    def purify() -> object:
        return tp.purify(model, X, weights=weights, memory_budget=2 << 30, progress=False)

    purify()
    return timed(purify)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log seconds over log sizes; nan where there are fewer than two."""
    known = np.isfinite(seconds)
    if known.sum() < 2:
        return float("nan")
    return float(np.polyfit(np.log(np.array(sizes)[known]), np.log(np.array(seconds)[known]), 1)[0])


def measure() -> dict[str, dict[str, Ended]]:
    """Run all sizes; one dictionary for each thing and measure, by size."""
    found: dict[str, dict[str, Ended]] = {}
    for what, first in FIRST.items():
        for weights in MEASURES:
            line = found.setdefault(f"{what} | {weights}", {})
            for size in (first << k for k in range(DOUBLINGS + 1)):
                task = f"{what} {size} {weights}"
                line[str(size)] = run_limited(__file__, task, seconds=SECONDS, start=START, gib=GIB)
                print(task, line[str(size)], flush=True)
                if line[str(size)].how != "done":
                    break
    return found


def table(found: dict[str, dict[str, Ended]]) -> str:
    """Return the table in Markdown."""
    head = "| doubled | `weights` | sizes | processor seconds | peak memory | exponent | last |"
    lines = [head, "|---|---|---|---|---:|---:|---:|"]
    for key, line in found.items():
        what, weights = key.split(" | ")
        done = {int(size): ended for size, ended in line.items() if ended.how == "done"}
        sizes, seconds = list(done), [ended.processor for ended in done.values()]
        memory = max((ended.memory for ended in done.values()), default=float("nan"))
        shown = ", ".join(f"{second:.2f}" for second in seconds)
        ends = [ended.how.split(". ")[0] for ended in line.values() if ended.how != "done"]
        slopes = exponent(sizes, seconds), exponent(sizes[-3:], seconds[-3:])
        lines.append(
            f'| {what} | `"{weights}"` | {min(line, key=int)} to {max(line, key=int)} '
            f"| {'; '.join([shown, *ends])} | {memory:.2f} GB | {slopes[0]:.2f} | {slopes[1]:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, or do one task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", help="what, size and weights")
    parser.add_argument("--write", action="store_true", help="write docs/developers_measured.md")
    chosen = parser.parse_args()
    if chosen.task:
        print(purified(chosen.task))
        return
    found = measure()
    print(table(found))
    if chosen.write:
        kept = {key: {s: vars(e) for s, e in line.items()} for key, line in found.items()}
        STORE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        write_between(PAGE, "growth", table(found))


if __name__ == "__main__":
    main()
